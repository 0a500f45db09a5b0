"""HTTP as a store that can only be read: a get is a GET of a page, and a Request any
request that somebody wants to measure.

The key is the page's path; the empty key is the page that the setting ``page``
names. A 2xx is a reply, anything else a failed operation (``status 404``): a
benchmark that counts error pages as answers measures nothing. Redirects are not
followed, unless a Request wants that. There is no driver: ``client=wire`` and
``client=calls`` speak HTTP/1.1 through the same parser.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any, ClassVar, Final, NamedTuple

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.http import tls
from kvtui.stores.http.parser import Head, Memory
from kvtui.stores.http.wire import HttpWire, at, connection_failed
from kvtui.stores.operations import Get, Operation, Request, Response
from kvtui.stores.peers import only_listener, peer_address
from kvtui.stores.settings import statuses
from kvtui.stores.store import (
    PENDING,
    NewConnection,
    Settings,
    StoreInfo,
    Wire,
    WireStore,
    unsupported,
)

DEFAULT_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 3.0
_NO_HTTP: Final = frozenset({"no reply", "protocol", "truncated", "disconnected"})
_IS_IT: Final = "is it an HTTP server, at this address?"
_PIECE_BYTES: Final = 1 << 18


class Place(NamedTuple):
    """One address of the server."""

    family: int
    address: Any
    """As the system takes it: a path, or a tuple that begins with host and port."""


class HttpStore(WireStore):
    """One page, or several, of an HTTP server.

    Settings: ``path`` of a unix socket, or ``host`` and ``port`` (80, or 443); ``page``
    (``/``), ``keep_alive`` (true), ``timeout_s`` for a reply (10), ``ok``: the
    statuses that are answers (``2xx``); ``tls`` with ``ca``, a file, and ``verify``
    (true).
    """

    kind: ClassVar[str] = "http"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._kept = bool(settings.get("keep_alive", True))
        self._timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
        self._page = str(settings.get("page", "/")).encode("utf-8", "surrogateescape")
        self._host = str(settings.get("host", "127.0.0.1")).strip("[]")
        self._port = int(settings.get("port", 443 if settings.get("tls") else 80))
        self._answers = statuses(str(settings.get("ok", "2xx")))
        self._where = self._shown()
        self._field = self._host_field()
        self._memory = Memory()
        self._context: ssl.SSLContext | None = None
        self._place: Place | None = None
        self._peer = ""
        self._made: tuple[socket.socket, HttpWire] | None = None

    def open(self) -> None:
        """Connect."""
        self._made = self._connected()

    def close(self) -> None:
        """Disconnect."""
        if self._made is not None:
            self._made[0].close()
            self._made = None

    def get(self, key: bytes) -> bytes | None:
        """GET. A connection that the server closed between two requests is made
        anew, once; without keep-alive each request has its own."""
        body: bytes = self._answer(Get(key))
        return body

    def request(self, asked: Request) -> Response | None:
        """Any request, with its redirects where it wants them followed."""
        response: Response = self._answer(asked)
        return response

    def _answer(self, operation: Operation) -> Any:
        while self._made is not None:
            connection, wire = self._made
            try:
                return self._ask(operation, connection, wire)
            except NewConnection as why:
                self.reconnects += why.counts
                connection.close()
                self._made = self._fresh(wire)
        raise OperationFailed(
            "disconnected", f"http at {self._where} is not connected", broken=True
        )

    def put(self, key: bytes, value: bytes) -> None:
        """There is none."""
        raise unsupported(self.kind, "put")

    def delete(self, key: bytes) -> bool:
        """There is none."""
        raise unsupported(self.kind, "delete")

    def wire(self) -> tuple[socket.socket, Wire]:
        """A connection. Without keep-alive it only proves that the server is there:
        each operation then has a connection of its own, made while it is timed."""
        return self._connected()

    def begin(self, old: Wire) -> tuple[socket.socket, Wire]:
        """A connection that may still be on its way."""
        if not isinstance(old, HttpWire):
            return self._fresh()
        if self._place is None:
            return self._fresh(old)
        family, address = self._place
        # Not blocking from its first moment: without keep-alive this is the hot path,
        # and every call to the system counts.
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if self._context is not None:
            # Its handshake goes on with the first request, as the loop sends it.
            made = self._wrapped(made, at_once=False)
        try:
            if family == socket.AF_UNIX:
                # It is there at once, or the server's queue is full; nothing would
                # tell a socket that does not block when there is room again.
                made.settimeout(CONNECT_TIMEOUT_S)
                made.connect(address)
                made.setblocking(False)
            else:
                code = made.connect_ex(address)
                if code not in (0, errno.EINPROGRESS):
                    raise OSError(code, os.strerror(code))
                if self._kept or self._context is not None:
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            made.close()
            raise self._failed(error) from None
        old.renew()
        return made, old

    def info(self) -> StoreInfo:
        """From a reply to a GET of the page, whatever its status, and from the live
        socket."""
        try:
            self.get(b"")
        except OperationFailed as failure:
            # Of a page that is none, the failed operations will tell.
            if not failure.kind.startswith("status "):
                if failure.kind in _NO_HTTP:
                    failure.hint = failure.hint or _IS_IT
                raise
        if self._made is None:  # get has seen to it
            raise OperationFailed("disconnected", self._where, broken=True)
        connection, wire = self._made
        head = wire.parser.head
        way = "keep-alive" if self._kept else "a connection for each request"
        if isinstance(connection, ssl.SSLSocket):
            way += f", {connection.version()}"
        return StoreInfo(
            (head.header("server") if head else "") or "HTTP server",
            self._peer or self._where,
            "none (it is only read)",
            f"{self.settings.get('client', 'wire')}, HTTP/1.1, {way}",
            process_id=only_listener(connection),
            details=self._details(head)
            | (tls.facts(connection) if isinstance(connection, ssl.SSLSocket) else {}),
        )

    def _details(self, head: Head | None) -> dict[str, str]:
        if head is None:
            return {}
        length = head.length
        return {
            "status": str(head.status),
            "page": self._page.decode("utf-8", "replace"),
            "page_bytes": "" if length is None else str(length),
            "content_type": head.header("content-type"),
            "server keeps alive": "yes" if head.keep_alive else "no",
        }

    def count(self, namespace: str) -> int:
        """None of the pages is kvtui's."""
        return 0

    def wipe(self, namespace: str) -> int:
        """Nothing was written."""
        return 0

    def _ask(
        self, operation: Operation, connection: socket.socket, wire: HttpWire
    ) -> Any:
        request = wire.encode(operation)
        cut: OSError | None = None
        while True:
            error: OSError | None = None
            data = b""
            try:
                if request:
                    try:
                        connection.sendall(request)
                    except (BrokenPipeError, ConnectionResetError) as problem:
                        # It may have answered before it had read all of a body.
                        cut = problem
                    request = b""
                data = connection.recv(_PIECE_BYTES)
            except TimeoutError as problem:
                raise self._failed(problem) from None
            except OSError as problem:
                error = problem
            if cut is not None:
                wire.wear_out()
            reply = wire.feed(data) if data else wire.closed(error or cut)
            if reply is not PENDING:
                return reply
            request, wire.more = wire.more, b""

    def _failed(self, error: OSError) -> OperationFailed:
        return at(self._where, connection_failed(error))

    def _protocol(self, *, spent: bool = False) -> HttpWire:
        return HttpWire(
            self._page,
            self._field,
            self._where,
            kept=self._kept,
            spent=spent,
            memory=self._memory,
            answers=self._answers,
            scheme="https" if self.settings.get("tls") else "http",
        )

    def _connected(self) -> tuple[socket.socket, HttpWire]:
        """Connect to the first of the host's addresses that answers."""
        if self._context is None:
            self._context = tls.context(self._where, self.settings)
        try:
            made = self._first()
        except OSError as error:
            raise self._unavailable(error) from None
        made.settimeout(self._timeout_s)
        return made, self._protocol(spent=not self._kept)

    def _fresh(self, old: HttpWire | None = None) -> tuple[socket.socket, HttpWire]:
        """A connection for one more request, with the request's own errors."""
        try:
            made = self._first()
        except OSError as error:
            raise self._failed(error) from None
        made.settimeout(self._timeout_s)
        wire = self._protocol()
        if old is not None:
            wire.take_over(old)
        return made, wire

    def _wrapped(self, made: socket.socket, *, at_once: bool) -> socket.socket:
        """The same by TLS, where that is wanted."""
        if self._context is None:
            return made
        return self._context.wrap_socket(
            made,
            # A zone means something on this machine only.
            server_hostname=self._host.partition("%")[0],
            do_handshake_on_connect=at_once,
            # An end without TLS's own word may be anybody's, not the server's.
            suppress_ragged_eofs=False,
        )

    def _first(self) -> socket.socket:
        problem: OSError | None = None
        for place in [self._place] if self._place else self._places():
            made = socket.socket(place.family, socket.SOCK_STREAM)
            made.settimeout(min(CONNECT_TIMEOUT_S, self._timeout_s))
            try:
                made.connect(place.address)
                if place.family != socket.AF_UNIX:
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                made = self._wrapped(made, at_once=True)
            except OSError as error:
                made.close()
                problem = problem or error
                continue
            self._place = place
            self._peer = peer_address(made)
            return made
        raise problem or OSError(errno.EADDRNOTAVAIL, "the host has no address")

    def _places(self) -> Iterator[Place]:
        path = self.settings.get("path")
        if path:
            yield Place(socket.AF_UNIX, str(path))
            return
        found = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in found:
            yield Place(family, address)

    def _host_field(self) -> bytes:
        """RFC 9110, 7.2: IPv6 in brackets, without the zone, which means something
        on this machine only; the port where it is not the usual one."""
        if self.settings.get("path"):
            return b"localhost"
        host = self._host.partition("%")[0]
        with contextlib.suppress(UnicodeError):
            host = host.encode("idna").decode() if not host.isascii() else host
        shown = f"[{host}]" if ":" in host else host
        usual = 443 if self.settings.get("tls") else 80
        field = shown if self._port == usual else f"{shown}:{self._port}"
        return field.encode("ascii", "replace")

    def _shown(self) -> str:
        if self.settings.get("path"):
            return str(self.settings["path"])
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    def _unavailable(self, error: OSError) -> StoreUnavailable:
        hint = "is the server running, and is this its address?"
        said = error.strerror or str(error)
        if isinstance(error, TimeoutError):
            said = "no connection in time"
            hint = "is this its address, and does a firewall let you through?"
            if self.settings.get("tls"):
                hint += f" And {tls.PLAIN}"
        elif isinstance(error, socket.gaierror):
            hint = "is this the host's name? An IPv6 address stands without brackets"
        elif self.settings.get("tls") and isinstance(error, ConnectionResetError):
            hint = tls.PLAIN
        elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, ssl.SSLError):
            hint = tls.PLAIN if isinstance(error, ssl.SSLError) else hint
            failure = self._failed(error)
            return StoreUnavailable(failure.message, hint=failure.hint or hint)
        return StoreUnavailable(f"http at {self._where}: {said}", hint=hint)
