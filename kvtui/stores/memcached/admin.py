"""What memcached tells about itself: its statistics, its settings and its keys.

On a blocking connection, outside the measured time.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_to_bytes

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.memcached.exchanges import Peer, protocol_error

BUSY_LIMIT_S: Final = 10.0
"""How long another crawl of the server's is waited for."""
_BUSY_PAUSE_S: Final = 0.05
_PIECE: Final = 1 << 18
_ANSWER_LIMIT: Final = 1 << 16
_CRAWLED: Final = re.compile(
    rb"key=([\w.~%-]+) exp=-?\d+ la=\d+ cas=\d+ fetch=(?:yes|no) cls=\d+ size=\d+\b.*"
)
_CRAWLER_HINT: Final = (
    "start it without -X and with its LRU crawler: kvtui finds its own keys with"
    " lru_crawler metadump, and never flushes a server"
)


class _Busy(Exception):
    """The server's crawler is at work for somebody else."""


def statistics(connection: socket.socket, where: str, what: str = "") -> dict[str, str]:
    """``stats``, or ``stats WHAT``.

    Raises StoreUnavailable where it answers with something else, with its words.
    """
    command = f"stats {what}".rstrip().encode() + b"\r\n"
    received = b""
    # One that closes at once may have said why before.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(command)
    while not received.endswith(b"END\r\n"):
        piece = connection.recv(_PIECE)
        received += piece
        if not piece or not received.startswith(b"STAT "[: len(received)]):
            raise _unwilling(where, received)
        if len(received) > _ANSWER_LIMIT:
            raise _unwilling(where, received)
    found: dict[str, str] = {}
    for line in received.decode("utf-8", "replace").splitlines()[:-1]:
        word, _, rest = line.partition(" ")
        name, _, value = rest.partition(" ")
        if word != "STAT":
            raise _unwilling(where, line.encode())
        found[name] = value
    return found


def _unwilling(where: str, received: bytes) -> StoreUnavailable:
    text = received[:100].decode("ascii", "backslashreplace").strip()
    if "Too many open connections" in text:
        return StoreUnavailable(
            f"memcached at {where}: {text}",
            hint="raise the server's limit of connections (-c), or use fewer --clients",
        )
    if not text:
        text = "it closed the connection"
    hint = "is it a memcached server, at this address?"
    if "unauthenticated" in text:
        hint = "kvtui cannot log in to memcached: use a server without -Y"
    return StoreUnavailable(
        f"memcached at {where} does not tell its settings: {text}", hint=hint
    )


def peer_from(settings: dict[str, str], where: str) -> Peer:
    """What the wire must know, from ``stats settings``."""
    try:
        limit = int(settings["item_size_max"])
    except (KeyError, ValueError):
        raise StoreUnavailable(
            f"what answers at {where} is no memcached: it has no item_size_max",
            hint="is this its address?",
        ) from None
    return Peer(where, limit, settings.get("evictions") != "off")


def keys(connection: socket.socket, peer: Peer, start: bytes) -> set[bytes]:
    """All keys that begin with ``start``.

    From ``lru_crawler metadump hash``, which walks the table of all items with its
    growth held up. (``metadump all`` walks the LRU lists, and misses items that move
    from one to another meanwhile: 11 of 300,000 fresh ones, measured on 1.6.18.)

    Raises OperationFailed, with ``broken`` where the connection is in the middle of
    an answer, and StoreUnavailable where the server forbids it.
    """
    limit = time.monotonic() + BUSY_LIMIT_S
    while True:
        try:
            return _crawl(connection, peer, start)
        except _Busy:
            if time.monotonic() > limit:
                raise OperationFailed(
                    "timeout",
                    f"memcached at {peer.where}: its crawler has been busy for"
                    f" {BUSY_LIMIT_S:g} s",
                    hint="somebody else lists its keys; try again later",
                ) from None
            time.sleep(_BUSY_PAUSE_S)


def _crawl(connection: socket.socket, peer: Peer, start: bytes) -> set[bytes]:
    word = start.partition(b":")[0]
    found: set[bytes] = set()
    connection.sendall(b"lru_crawler metadump hash\r\n")
    for line in _lines(connection, peer):
        if word in line:
            crawled = _CRAWLED.fullmatch(line)
            if crawled is None:
                raise protocol_error(peer, line)
            key = unquote_to_bytes(crawled[1])
            if key.startswith(start):
                found.add(key)
    return found


def _lines(connection: socket.socket, peer: Peer) -> Iterator[bytes]:
    """The lines of a crawl, to its end."""
    rest, first = b"", True
    while True:
        piece = connection.recv(_PIECE)
        if not piece:
            raise OperationFailed(
                "disconnected",
                f"memcached at {peer.where} closed the connection while it listed"
                " its keys",
                broken=True,
            )
        lines = (rest + piece).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line == b"END\r":
                if rest:
                    raise protocol_error(peer, rest)
                return
            if first and not line.startswith(b"key="):
                raise _refusal(peer, line)
            first = False
            yield line


def _refusal(peer: Peer, line: bytes) -> Exception:
    if line.startswith(b"BUSY"):
        return _Busy()
    text = line.decode("ascii", "backslashreplace").strip()
    return StoreUnavailable(
        f"memcached at {peer.where} does not list its keys: {text:.100}",
        hint=_CRAWLER_HINT,
    )
