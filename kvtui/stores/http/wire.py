"""HTTP/1.1 for one connection, sans-I/O: a request, its response, the next request."""

from __future__ import annotations

import errno
import ssl
from typing import Any, Final

from kvtui.errors import OperationFailed
from kvtui.stores.http import tls
from kvtui.stores.http.parser import Head, Memory, ResponseParser
from kvtui.stores.http.requests import (
    IDEMPOTENT,
    REDIRECTS,
    Trail,
    encoded,
    own_fields,
    shown,
    target,
)
from kvtui.stores.operations import Get, Operation, Request, Response
from kvtui.stores.store import PENDING, NewConnection, Wire, unsupported

GOOD: Final = frozenset(range(200, 300))
"""What counts as an answer unless it is said otherwise: 2xx."""
_LOOKED_AT_BYTES: Final = 1000
_SHOWN_LETTERS: Final = 80


class HttpWire(Wire):
    """One connection: a request, its response, the next request.

    ``kept``: whether connections are to be kept open between requests; otherwise
    each serves one. ``memory`` is shared by connections to the same page, host and
    ``kept``. ``spent``: whether this one may not be used at all, for it was
    made only to see whether the server is there. ``answers``: the statuses that are
    no failure. ``scheme``: http or https, which a redirect may not leave.
    """

    def __init__(
        self,
        page: bytes,
        host: bytes,
        where: str,
        *,
        kept: bool = True,
        spent: bool = False,
        memory: Memory | None = None,
        answers: frozenset[int] = GOOD,
        scheme: str = "http",
    ) -> None:
        self._where = where
        self._answers = answers
        self._memory = memory or Memory()
        self.parser = ResponseParser(self._memory)
        self._page = page
        self._fields = own_fields(host, single=not kept)
        self._home = scheme, host.decode()
        self._asked: Request | None = None
        """None: it was a Get."""
        self._trail: Trail | None = None
        self.single = not kept
        self._spent = spent
        self._served = 0
        self._good: Head | None = None

    def renew(self) -> None:
        """Speak over a new connection from now on."""
        self._spent = False
        self._served = 0
        if not self.single:
            self._good = None  # Its first reply says that it has served.
        self.parser.renew()

    def encode(self, operation: Operation) -> bytes:
        """The request. NewConnection where the server, or the setting, lets this one
        serve no more."""
        if type(operation) is not Get:
            return self._encode_request(operation)
        if self._spent:
            # Asked to close, a server does what it was asked: no reconnect.
            raise NewConnection(counts=not self.single)
        memory = self._memory
        if operation.key != memory.key:
            memory = self._turn_to(operation.key)
            self._asked = None
            if operation.key != memory.key:
                path = target(operation.key, self._page)
                memory.key = operation.key
                memory.request = b"GET %b HTTP/1.1\r\n%b\r\n" % (path, self._fields)
        self.parser.expect()
        return memory.request

    def take_over(self, old: HttpWire) -> None:
        """Go on from where redirects have led."""
        self._trail = old._trail

    def wear_out(self) -> None:
        """Serve no further request: what was sent of this one was not all."""
        self._spent = True

    def _turn_to(self, what: bytes | Request) -> Memory:
        """Remember another page from now on."""
        self._memory = self.parser.memory = memory = self._memory.of(what)
        return memory

    def _encode_request(self, operation: Operation) -> bytes:
        if type(operation) is not Request:
            raise unsupported("http", operation.label)
        if self._spent:
            raise NewConnection(counts=not self.single)
        trail, asked = self._trail, operation
        if trail is not None and trail.asked is operation:
            asked = trail.now  # On its way, over a new connection.
        else:
            self._trail = Trail(asked, self._page) if asked.follow else None
        self._good = None
        return self._request(asked)

    def _request(self, asked: Request) -> bytes:
        self._asked = asked
        self.parser.expect(no_body=asked.method == "HEAD")
        if self._trail is not None and self._trail.hops:
            # It may be another one each time.
            return encoded(asked, self._page, self._fields)
        memory = self._memory
        if asked is not memory.asked:
            memory = self._turn_to(asked)
            if memory.asked is None:
                memory.request = encoded(asked, self._page, self._fields)
            memory.asked = asked
        return memory.request

    def feed(self, data: bytes) -> Any:
        """The body of an answer once whole; any other status is a failed operation."""
        try:
            body = self.parser.feed(data)
        except OperationFailed as failure:
            raise at(self._where, failure) from None
        # The very head of the last good reply: nothing has to be looked at again.
        if body is PENDING:
            return body
        if self.parser.head is self._good:
            self._spent = self.single
            return body
        return self._reply(body)

    def closed(self, error: OSError | None) -> Any:
        """A body that goes to the end is whole then. A connection that had served
        before and brought nothing was closed between two requests."""
        self._spent = True
        if self.parser.fresh and self._served:
            asked = self._asked
            if asked is None or asked.method in IDEMPOTENT:
                raise NewConnection
            raise OperationFailed(
                "disconnected",
                f"http at {self._where}: the server closed the connection and said"
                f" nothing; a {asked.method} may have been carried out, and is not"
                " sent twice",
                hint="keep_alive=false gives each request its own connection",
                broken=True,
            )
        if error is not None:
            raise at(self._where, connection_failed(error, self.parser))
        try:
            body = self.parser.end()
        except OperationFailed as failure:
            raise at(self._where, failure) from None
        return self._reply(body)

    def _reply(self, body: bytes) -> Any:
        parser = self.parser
        self._served += 1
        if self.single or not parser.reusable:
            self._spent = True
        head = parser.head
        if head is None or head.status in self._answers:
            asked, trail, self._trail = self._asked, self._trail, None
            if asked is not None and head is not None:
                return Response(head.status, body, trail.hops if trail else 0)
            self._good = head if self.single or not self._spent else None
            return body
        if self._trail is not None and head.status in REDIRECTS:
            return self._follow(self._trail, head)
        self._trail = None
        where = head.header("location") if 300 <= head.status < 400 else ""
        if where:
            where = f", to {shown(where, 200)}; redirects are not followed"
        line = _first_line(body)
        refusal = OperationFailed(
            f"status {head.status}",
            f"http at {self._where}: the server answered {head.status}"
            f" {shown(head.reason, 80)}{where}" + (f": {line}" if line else ""),
            hint=_hint(head),
        )
        refusal.reply_bytes = len(body)
        raise refusal

    def _follow(self, trail: Trail, head: Head) -> Any:
        """Ask on, over this connection or another one."""
        try:
            trail.onward(head, *self._home)
        except OperationFailed as failure:
            self._trail = None
            raise at(self._where, failure) from None
        if self._spent:
            raise NewConnection(counts=not self.single)
        self.more = self._request(trail.now)
        return PENDING


def _hint(head: Head) -> str | None:
    if head.status in REDIRECTS:
        return "--follow follows it on the same server; page= names another path"
    return "page= names another path" if head.status == 404 else None


def _first_line(body: bytes) -> str:
    """The first line of a body that says something, in quotes."""
    for line in body[:_LOOKED_AT_BYTES].decode("utf-8", "replace").splitlines():
        if line.strip():
            return f'"{shown(line.strip(), _SHOWN_LETTERS)}"'
    return ""


def at(where: str, failure: OperationFailed) -> OperationFailed:
    """The same failure, with the server's address in its message."""
    return OperationFailed(
        failure.kind,
        failure.message.replace("http:", f"http at {where}:", 1),
        hint=failure.hint,
        broken=failure.broken,
    )


def connection_failed(
    error: OSError, parser: ResponseParser | None = None
) -> OperationFailed:
    """What the system said of a connection, as one failed operation."""
    said = error.strerror or str(error)
    if isinstance(error, ssl.SSLError):
        failure = tls.failure(error)
        if failure is not None:
            return failure
        said = "the server closed the connection, without TLS's word for it"
    if error.errno == errno.EADDRNOTAVAIL:
        return OperationFailed(
            "local ports",
            "http: this machine has no local port left for another connection: those"
            " of the last connections are held for a minute (TIME_WAIT). The server"
            " has no part in it",
            hint="keep connections open (keep_alive=true), or widen"
            " net.ipv4.ip_local_port_range",
            broken=True,
        )
    if isinstance(error, ConnectionRefusedError):
        return OperationFailed("refused", f"http: {said}", broken=True)
    if isinstance(error, TimeoutError):
        return OperationFailed("timeout", "http: no answer in time", broken=True)
    if parser is not None and not parser.fresh:
        return OperationFailed(
            "truncated",
            f"http: the connection broke within the reply: {said}",
            broken=True,
        )
    return OperationFailed("disconnected", f"http: {said}", broken=True)
