"""A page server of kvtui's own, for machines without nginx or Apache.

``python -m kvtui.stores.servers.page FOLDER (SOCKET | PORT)`` answers GET and HEAD with
the files that lie in FOLDER (no folders in it), on a unix socket or on 127.0.0.1. It
keeps connections open, and knows just enough HTTP/1.1 to be measured.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

_HEAD_LIMIT: Final = 65_536
_END: Final = b"\r\n\r\n"
NAME: Final = "kvtui-page"


class _Conversation(asyncio.Protocol):
    """One connection."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has connected."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._waiting += data
        while self._transport is not None:
            head, end, rest = self._waiting.partition(_END)
            if not end:
                break
            self._waiting = rest
            reply, goes_on = answer(head, self._folder)
            self._transport.write(reply)
            if not goes_on:
                self._transport.close()
                return
        if len(self._waiting) > _HEAD_LIMIT and self._transport is not None:
            self._transport.close()


def answer(head: bytes, folder: Path) -> tuple[bytes, bool]:
    """The response to a request's head, and whether the connection stays."""
    first, *fields = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
        return _response(b"400 Bad Request", b"", close=True), False
    closes = words[2] == b"HTTP/1.0" or any(
        each.lower().replace(b" ", b"") == b"connection:close" for each in fields
    )
    if words[0] not in (b"GET", b"HEAD"):
        return _response(b"501 Not Implemented", b"", close=True), False
    name = words[1].partition(b"?")[0].removeprefix(b"/").decode("latin-1")
    try:
        if not name or "/" in name or name.startswith("."):
            raise FileNotFoundError
        status, body = b"200 OK", (folder / name).read_bytes()
    except (OSError, ValueError):
        status, body = b"404 Not Found", b"no such page\n"
    reply = _response(status, body, close=closes)
    if words[0] == b"HEAD":
        reply = reply[: len(reply) - len(body)]
    return reply, not closes


def _response(status: bytes, body: bytes, *, close: bool) -> bytes:
    stays = b"close" if close else b"keep-alive"
    return (
        b"HTTP/1.1 %b\r\nServer: %b\r\nContent-Type: text/html\r\n"
        b"Content-Length: %d\r\nConnection: %b\r\n\r\n%b"
        % (status, NAME.encode(), len(body), stays, body)
    )


async def _serve(folder: Path, place: str) -> None:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)

    def made() -> _Conversation:
        return _Conversation(folder)

    if place.isdecimal():
        server = await loop.create_server(made, "127.0.0.1", int(place), backlog=4096)
    else:
        server = await loop.create_unix_server(made, place, backlog=4096)
    await stopping.wait()
    server.close()


def main() -> None:
    """Serve until told to end."""
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()
