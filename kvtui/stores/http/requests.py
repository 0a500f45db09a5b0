"""Requests as bytes, and where a redirect leads.

RFC 9110: 9.2.2 (what may be sent twice), 10.2.2 (Location), 15.4 (redirects).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

from kvtui.errors import OperationFailed
from kvtui.secrets import hidden
from kvtui.stores.operations import Request

if TYPE_CHECKING:
    from kvtui.stores.http.parser import Head

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
HOPS: Final = 10
"""Redirects that one operation follows."""
IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""What may be asked again where nobody has begun to answer; all others may have been
carried out already (9.2.2)."""
_EMPTY_BODIES: Final = frozenset({"POST", "PUT", "PATCH"})
"""Methods whose missing body is announced (8.6)."""
_PORTS: Final = {"http": 80, "https": 443}
_PLAIN: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    b"-._~!$&'()*+,;=:@/?%[]"
)


def shown(text: str, letters: int) -> str:
    """The beginning of what a server said. Secrets that it repeats are taken out
    first: of half a secret nothing would tell that it is one."""
    return hidden(text)[:letters]


def target(key: bytes, page: bytes) -> bytes:
    """The request's target: ``page`` for the empty key, else the path that the key
    names. Whatever may not stand in a path as it is goes as ``%XX``."""
    path = key or page
    if not path.startswith(b"/"):
        path = b"/" + path
    return b"".join(
        b"%c" % byte if byte in _PLAIN else b"%%%02X" % byte for byte in path
    )


def own_fields(host: bytes, *, single: bool) -> bytes:
    """The header fields of a request of which nothing else was said."""
    fields = b"Host: %b\r\nUser-Agent: kvtui\r\nAccept: */*\r\n" % host
    return fields + b"Connection: close\r\n" if single else fields


def encoded(asked: Request, page: bytes, own: bytes) -> bytes:
    """A request whole. ``own``: the fields it has beside its own, each with its end;
    those that it names itself are left out."""
    named = {name.lower().encode() for name, _ in asked.fields}
    lines = [b"%b %b HTTP/1.1\r\n" % (asked.method.encode(), target(asked.key, page))]
    lines += [
        line
        for line in own.splitlines(keepends=True)
        if line.partition(b":")[0].lower() not in named
    ]
    lines += [b"%b: %b\r\n" % (n.encode(), v.encode()) for n, v in asked.fields]
    body = asked.body
    if body is not None or asked.method in _EMPTY_BODIES:
        lines.append(b"Content-Length: %d\r\n" % len(body or b""))
    return b"".join([*lines, b"\r\n", body or b""])


class Trail:
    """One operation's way through redirects."""

    def __init__(self, asked: Request, page: bytes) -> None:
        self.asked = asked
        self.now = asked
        """What is asked at present."""
        self.hops = 0
        self._page = page
        self._been = {(asked.method, target(asked.key, page))}

    def onward(self, head: Head, scheme: str, host: str) -> None:
        """Turn to where a redirect leads. OperationFailed where that is another
        server, where one has been before, or one too many."""
        here = target(self.now.key, self._page).decode()
        location = head.header("location")
        if not location:
            raise _refused(
                f"status {head.status}", f"{here} redirects, and does not say where"
            )
        for name, value in self.asked.fields:
            host = value if name.lower() == "host" else host
        try:
            there = urlsplit(urljoin(f"{scheme}://{host}{here}", location))
            place = (there.scheme, there.hostname, there.port or _PORTS[there.scheme])
            home = urlsplit(f"{scheme}://{host}")
            at_home = (scheme, home.hostname, home.port or _PORTS[scheme])
        except (ValueError, KeyError):
            place, at_home = ("", None, 0), ("", "", 0)
        if place != at_home:
            raise _refused(
                "redirect elsewhere",
                f"{here} redirects to {shown(location, 200)}, which is another server:"
                " kvtui does not leave the one that it measures",
            )
        path = there.path or "/"
        self._go(f"{path}?{there.query}" if there.query else path, head.status, here)

    def _go(self, path: str, status: int, here: str) -> None:
        now = self.now
        rewritten = status == 303 and now.method != "HEAD"
        if rewritten or (status in (301, 302) and now.method == "POST"):
            fields = tuple(
                each for each in now.fields if each[0].lower() != "content-type"
            )
            self.now = Request(path.encode("latin-1", "replace"), "GET", fields)
        else:
            key = path.encode("latin-1", "replace")
            self.now = Request(key, now.method, now.fields, now.body)
        step = (self.now.method, target(self.now.key, self._page))
        if step in self._been:
            raise _refused(
                "redirect loop",
                f"{here} redirects to {shown(path, 200)}, where it came from",
            )
        if self.hops == HOPS:
            raise _refused(
                "too many redirects",
                f"more than {HOPS} redirects, the last to {shown(path, 200)}",
            )
        self._been.add(step)
        self.hops += 1


def _refused(kind: str, text: str) -> OperationFailed:
    return OperationFailed(kind, f"http: {text}")
