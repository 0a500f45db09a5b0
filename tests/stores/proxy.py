"""A proxy that does harm, between kvtui and a real server.

It knows no protocol: a *reply* is what the server sends after the client has sent
something. A test arms a :class:`Fault`, which strikes one of the next replies on
whichever connection it comes; or it has every reply cut into pieces; or it holds
everything, as a frozen server would, and releases it again. Nothing here sleeps.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Condition, Event, Lock, Thread
from typing import Any, Literal, NamedTuple

Then = Literal["silence", "close", "reset", "garbage"]

GARBAGE = b"\xff\xfe\x00 no protocol has this \x1b[2J\r\n\xff" * 4
HANDSHAKE_REPLIES = 20
"""So many replies of a connection are never struck: they may belong to its making,
whatever the protocol, and a connection that fails then is no failed operation."""
READ_BYTES = 1 << 16


class Fault(NamedTuple):
    """What becomes of one reply: ``after`` bytes of it pass, and then

    - ``silence``: nothing more comes, and the connection stays;
    - ``close``, ``reset``: the connection ends;
    - ``garbage``: something else comes instead of the rest, and nothing more.

    A reply that ends with its first ``after`` bytes is not struck but the next one:
    the client would not notice.
    """

    then: Then
    after: int = 0


class Link:
    """One connection through the proxy."""

    def __init__(
        self, proxy: Proxy, client: socket.socket, server: socket.socket
    ) -> None:
        self._proxy, self._client, self._server = proxy, client, server
        self._asked = False
        """Whether what comes next from the server begins a reply."""
        self._replies = 0
        self._over = False
        self._lock = Lock()

    def requests(self) -> None:
        """Carry what the client asks, until one side has ended."""
        with contextlib.suppress(OSError):
            while data := self._client.recv(READ_BYTES):
                if not self._proxy.may_pass():
                    break
                self._asked = True
                self._proxy.hear(data)
                self._server.sendall(data)
        self.close()

    def replies(self) -> None:
        """Carry what the server answers, until one side has ended or a fault did."""
        silent = False
        with contextlib.suppress(OSError):
            while data := self._server.recv(READ_BYTES):
                if not self._proxy.may_pass():
                    break
                fault = None
                if self._asked:
                    self._asked = False
                    self._replies += 1
                    if self._replies > self._proxy.handshake_replies:
                        fault = self._proxy.fault_for(data)
                if silent:
                    continue
                if fault is None:
                    self._send(data)
                    continue
                self._send(data[: fault.after])
                if fault.then == "garbage":
                    self._client.sendall(GARBAGE)
                if fault.then == "reset":
                    self._reset()
                if fault.then in ("close", "reset"):
                    break
                silent = True
        self.close()

    def _send(self, data: bytes) -> None:
        length = self._proxy.piece_bytes or len(data) or 1
        for start in range(0, len(data), length):
            self._client.sendall(data[start : start + length])

    def _reset(self) -> None:
        """End the client's connection with a reset (an orderly end on unix)."""
        with self._lock:
            self._over = True
            linger = struct.pack("ii", 1, 0)
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            with contextlib.suppress(OSError):
                # Whoever still reads here would keep the socket open.
                self._client.shutdown(socket.SHUT_RD)
            self._client.close()
            self._end(self._server)

    def close(self) -> None:
        """End both sides; harmless a second time."""
        with self._lock:
            if not self._over:
                self._over = True
                self._end(self._client)
                self._end(self._server)
        self._proxy.forget(self)

    def _end(self, side: socket.socket) -> None:
        with contextlib.suppress(OSError):
            side.shutdown(socket.SHUT_RDWR)
        side.close()


class Proxy:
    """Reached under :attr:`settings`; passes everything on until told otherwise."""

    def __init__(
        self,
        upstream: Mapping[str, Any],
        *,
        transport: str = "",
        piece_bytes: int = 0,
        handshake_replies: int = HANDSHAKE_REPLIES,
        most: int | None = None,
        beyond: Literal["refuse", "ignore"] = "refuse",
    ) -> None:
        """``upstream``: settings under which the real server is reached;
        ``transport``: where the proxy listens, as the server does when empty;
        ``piece_bytes``: cut every reply into pieces of that length;
        ``most``: so many connections at once, and what becomes of those beyond."""
        self._upstream = dict(upstream)
        self._directory = Path(tempfile.mkdtemp(prefix="kvtui-proxy-"))
        self._transport = transport or ("unix" if upstream.get("path") else "tcp")
        self.piece_bytes = piece_bytes
        self.handshake_replies = handshake_replies
        self._most, self._beyond = most, beyond
        self.connections = 0
        """Accepted so far."""
        self.replies = 0
        """Begun so far, over all connections, but for handshakes."""
        self.struck = 0
        """Replies that a fault has struck."""
        self.heard: list[bytes] | None = None
        """What clients ask, in the pieces in which it comes, once this is a list."""
        self._armed: list[tuple[int, Fault]] = []
        self._open: list[Link] = []
        self._ignored: list[socket.socket] = []
        self._threads: list[Thread] = []
        self._lock = Lock()
        self._flow = Condition(self._lock)
        self._held = False
        self._stopping = Event()

    @property
    def settings(self) -> dict[str, Any]:
        """The server's own settings, with the proxy's address in them."""
        rest = {
            name: value
            for name, value in self._upstream.items()
            if name not in ("path", "host", "port")
        }
        if self._transport == "unix":
            return {**rest, "path": str(self._directory / "s")}
        host, port = self._listener.getsockname()
        return {**rest, "host": host, "port": port}

    def arm(self, fault: Fault, *, skip: int = 0) -> None:
        """Strike one reply with this, after letting ``skip`` more replies pass."""
        with self._lock:
            self._armed.append((self.replies + skip, fault))

    def hold(self) -> None:
        """Let nothing pass any more, as if the server were frozen: connections are
        accepted (by the kernel), and nothing is ever answered."""
        with self._lock:
            self._held = True

    def release(self) -> None:
        """Let everything pass again, what was held first."""
        with self._flow:
            self._held = False
            self._flow.notify_all()

    def cut_all(self) -> None:
        """End every connection that is open now."""
        with self._lock:
            now = list(self._open)
        for link in now:
            link.close()

    # What links and their threads need.

    def may_pass(self) -> bool:
        """Wait while everything is held; False when the proxy is being stopped."""
        with self._flow:
            self._flow.wait_for(lambda: not self._held or self._stopping.is_set())
        return not self._stopping.is_set()

    def hear(self, data: bytes) -> None:
        """Take note of what a client asks."""
        if self.heard is not None:
            self.heard.append(data)

    def fault_for(self, data: bytes) -> Fault | None:
        """The fault that strikes the reply that begins with ``data``, if one does."""
        with self._lock:
            number, self.replies = self.replies, self.replies + 1
            for place, (due, fault) in enumerate(self._armed):
                if due <= number and fault.after < len(data):
                    del self._armed[place]
                    self.struck += 1
                    return fault
        return None

    def forget(self, link: Link) -> None:
        """That connection has ended."""
        with self._lock:
            if link in self._open:
                self._open.remove(link)

    def __enter__(self) -> Proxy:
        if self._transport == "unix":
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.settings["path"])
        else:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(200)
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.release()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(10)  # Afterwards there are no more new connections.
        self.cut_all()
        for ignored in self._ignored:
            ignored.close()
        for thread in self._threads[1:]:
            thread.join(10)
        (self._directory / "s").unlink(missing_ok=True)
        os.rmdir(self._directory)

    @property
    def ignored(self) -> int:
        """How many connections were accepted and nothing more, so far."""
        return len(self._ignored)

    def _start(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, daemon=True, name="proxy")
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if not self.may_pass():
                client.close()
                return
            if self._most is not None and len(self._open) >= self._most:
                if self._beyond == "refuse":
                    client.close()
                else:
                    self._ignored.append(client)
                continue
            try:
                server = self._connect()
            except OSError:
                client.close()  # As if it were gone.
                continue
            if self._transport == "tcp":
                # Each piece in a packet of its own.
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = Link(self, client, server)
            with self._lock:
                self.connections += 1
                self._open.append(link)
            self._start(link.requests)
            self._start(link.replies)

    def _connect(self) -> socket.socket:
        if self._upstream.get("path"):
            made = socket.socket(socket.AF_UNIX)
            made.connect(str(self._upstream["path"]))
            return made
        address = str(self._upstream["host"]), int(self._upstream["port"])
        made = socket.create_connection(address)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made
