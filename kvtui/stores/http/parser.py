"""A parser of HTTP/1.1's responses, sans-I/O.

Written from RFC 9112 (message syntax) and RFC 9110 (semantics). What the RFCs leave
to the client is settled here, once:

- A line may end with a bare LF (RFC 9112, 2.2); a CR anywhere else is refused.
- A header folded over several lines is joined with a blank (5.2).
- Transfer-Encoding is ``chunked`` or refused, and refused beside Content-Length or
  in HTTP/1.0: two lengths are how one response becomes two (6.1, 6.3).
- Content-Length may be repeated with one and the same value, and not otherwise.
- Heads, chunk lines and trailers have a limit, so that nothing that never ends fills
  the memory.
- 1xx is skipped, a switch of protocols (101) is refused, for nobody asked for it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Request
from kvtui.stores.store import PENDING

HEAD_LIMIT: Final = 65_536
"""Bytes of a status line with its headers, of all 1xx before it, or of trailers."""
CHUNK_LINE_LIMIT: Final = 4_096
"""Bytes of a chunk's length with its extensions."""

_START: Final = b"HTTP/1."
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: (.*))?")
_NAME: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_CHUNK_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_BLANKS: Final = b" \t"
_HEAD_END: Final = re.compile(rb"\n\r?\n")

_HEAD, _BODY, _SIZE, _CHUNK, _CHUNK_END, _TRAILERS, _TO_END, _DONE = range(8)


class Head(Struct, frozen=True):
    """A status line with its headers."""

    status: int
    reason: str
    http_1_0: bool
    headers: tuple[tuple[str, str], ...]
    """Names in lower case, in order; a name may stand several times."""
    length: int | None
    """Of the body, where Content-Length says so."""
    chunked: bool
    keep_alive: bool
    """Whether the server will answer another request on this connection."""

    def header(self, name: str) -> str:
        """The values under a name, joined by commas; empty where there is none."""
        return ", ".join(value for each, value in self.headers if each == name)


class Memory:
    """What the connections of one store need not find out again and again: the last
    head that announced a length, and the request, of each page."""

    __slots__ = ("asked", "end", "head", "key", "others", "raw", "request")

    def __init__(self, others: dict[bytes | Request, Memory] | None = None) -> None:
        self.others = {} if others is None else others
        self.raw = b""
        self.head: Head | None = None
        self.end = 0
        """Bytes of that head and the body that it announced, together."""
        self.key: bytes | None = None
        """Of the Get that is remembered."""
        self.asked: Request | None = None
        """Or else the Request."""
        self.request = b""

    def of(self, what: bytes | Request) -> Memory:
        """That of another page of the same server."""
        found = self.others.get(what)
        if found is None:
            found = Memory(self.others) if self.others else self
            self.others[what] = found
        return found


class ResponseParser:
    """Responses of one connection, one after the other, in any split.

    ``feed`` returns the body once it is whole and PENDING before; the head stands in
    :attr:`head`. ``end`` is told when the server has closed the connection.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self.head: Head | None = None
        self._data = bytearray()
        self._body = bytearray()
        self._state = _DONE
        self._left = 0
        self._spent = 0
        self._scanned = 0
        self._no_body = False
        self.memory = memory or Memory()

    def renew(self) -> None:
        """Begin anew, over another connection."""
        self._data.clear()
        self._state = _DONE

    def expect(self, *, no_body: bool = False) -> None:
        """A request goes out: one response may come. ``no_body``: it was a HEAD."""
        self._state = _HEAD
        self._no_body = no_body
        self._spent = self._scanned = 0
        self.head = None
        if self._body:
            self._body = bytearray()

    @property
    def fresh(self) -> bool:
        """Whether not one byte of the response has come yet."""
        return self._state == _HEAD and not self._data and not self._spent

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent, once the response is whole."""
        head = self.head
        return self._state == _DONE and head is not None and self._keeps(head)

    def feed(self, data: bytes) -> Any:
        """The body's bytes once whole, PENDING before.

        Raises OperationFailed of kind ``protocol`` for what is no HTTP/1.1, and for
        bytes that follow the response.
        """
        if self._state == _HEAD and not self._data:
            # Nearly every reply: one piece, under the same head as the one before
            # (the Date changes once a second). Comparing is all it takes then.
            known = self.memory
            if (
                len(data) == known.end
                and data.startswith(known.raw)
                and not self._no_body
            ):
                self.head = known.head
                self._state = _DONE
                return data[len(known.raw) :]
        self._data += data
        return self._go_on()

    def end(self) -> bytes:
        """The server closed the connection: the body that this completes.

        Raises OperationFailed of kind ``no reply`` or ``truncated``.
        """
        if self._state == _TO_END:
            self._state = _DONE
            return bytes(self._body)
        if self.fresh:
            raise _failed("no reply", "the server closed the connection, no reply came")
        raise _failed(
            "truncated", f"the server closed the connection {self._where_cut()}"
        )

    def _where_cut(self) -> str:
        if self._state == _HEAD:
            return "within the headers"
        if self._state == _BODY:
            came = len(self._body)
            return f"after {came:,} of {came + self._left:,} bytes"
        return f"before the last chunk, after {len(self._body):,} bytes"

    def _keeps(self, head: Head) -> bool:
        return head.keep_alive and (
            head.length is not None or head.chunked or self._is_bodyless(head)
        )

    def _is_bodyless(self, head: Head) -> bool:
        return self._no_body or head.status in (204, 304)

    def _go_on(self) -> Any:
        while True:
            if self._state == _HEAD:
                if not self._take_head():
                    return PENDING
            elif self._state in (_BODY, _CHUNK):
                self._take_body()
                if self._left:
                    return PENDING
                self._state = _DONE if self._state == _BODY else _CHUNK_END
            elif self._state == _TO_END:
                self._body += self._data
                self._data.clear()
                return PENDING
            elif self._state == _DONE:
                return self._whole()
            elif not self._take_line():
                return PENDING

    def _whole(self) -> bytes:
        if self._data:
            raise _failed(
                "protocol", f"bytes after the response: {bytes(self._data[:40])!r}"
            )
        return bytes(self._body)

    def _take_body(self) -> None:
        taken = min(self._left, len(self._data))
        if taken == len(self._data):
            self._body += self._data
            self._data.clear()
        else:
            self._body += memoryview(self._data)[:taken]
            del self._data[:taken]
        self._left -= taken

    def _take_head(self) -> bool:
        data = self._data
        if data[: len(_START)] != _START[: len(data)]:
            raise _failed("protocol", f"this is no HTTP/1: {bytes(data[:40])!r}")
        found = _HEAD_END.search(data, max(0, self._scanned - 2))
        self._scanned = 0 if found else len(data)
        size = found.end() if found else len(data)
        if self._spent + size > HEAD_LIMIT:
            raise _failed("protocol", f"headers of more than {HEAD_LIMIT:,} bytes")
        if found is None:
            return False
        raw = bytes(data[:size])
        head = parse_head(raw)
        del data[:size]
        if head.status == 101:
            raise _failed("protocol", "the server switched to another protocol (101)")
        if head.status < 200:
            self._spent += size
            return True
        self.head = head
        if self._is_bodyless(head):
            self._state = _DONE
        elif head.chunked:
            self._state = _SIZE
        elif head.length is not None:
            self._state = _BODY
            self._left = head.length
            if not self._spent:
                known = self.memory
                known.raw, known.head, known.end = raw, head, size + head.length
        else:
            self._state = _TO_END
        self._spent = 0
        return True

    def _take_line(self) -> bool:
        """A chunk's length, the end of a chunk, or a trailer."""
        end = self._data.find(b"\n") + 1
        if self._state == _TRAILERS:
            limit = HEAD_LIMIT - self._spent
        else:
            limit = CHUNK_LINE_LIMIT
        if (end or len(self._data)) > limit:
            raise _failed("protocol", f"a line of more than {limit:,} bytes in chunks")
        if not end:
            return False
        line = _without_end(bytes(self._data[:end]))
        del self._data[:end]
        if self._state == _SIZE:
            found = _CHUNK_LINE.fullmatch(line)
            if found is None or b"\r" in line:
                raise _failed("protocol", f"this is no chunk's length: {line[:40]!r}")
            self._left = int(found[1], 16)
            self._state = _CHUNK if self._left else _TRAILERS
            self._spent = 0
        elif self._state == _CHUNK_END:
            if line:
                raise _failed("protocol", f"a chunk longer than it said: {line[:40]!r}")
            self._state = _SIZE
        elif not line:
            self._spent = 0
            self._state = _DONE
        else:
            self._spent += end
        return True


def parse_head(raw: bytes) -> Head:
    """A status line and headers, with the empty line that ends them."""
    lines = [_without_end(line) for line in raw.split(b"\n")[:-2]]
    found = _STATUS_LINE.fullmatch(lines[0])
    if found is None:
        raise _failed("protocol", f"this is no status line: {lines[0][:80]!r}")
    headers: list[tuple[str, str]] = []
    for line in lines[1:]:
        if b"\r" in line or b"\0" in line:
            raise _failed("protocol", f"a header with a stray CR or NUL: {line[:80]!r}")
        if line[:1] in (b" ", b"\t") and headers:
            name, value = headers[-1]
            headers[-1] = name, f"{value} {_text(line.strip(_BLANKS))}"
            continue
        name_bytes, colon, content = line.partition(b":")
        if not colon or not _NAME.fullmatch(name_bytes):
            raise _failed("protocol", f"this is no header: {line[:80]!r}")
        headers.append((_text(name_bytes).lower(), _text(content.strip(_BLANKS))))
    return _framed(found, tuple(headers))


def _framed(found: re.Match[bytes], headers: tuple[tuple[str, str], ...]) -> Head:
    http_1_0 = found[1] == b"0"
    codings = [value.lower() for name, value in headers if name == "transfer-encoding"]
    lengths = {
        part.strip(" \t")
        for name, value in headers
        if name == "content-length"
        for part in value.split(",")
    }
    options = {
        part.strip(" \t").lower()
        for name, value in headers
        if name == "connection"
        for part in value.split(",")
    }
    if codings and (lengths or http_1_0):
        beside = "beside a Content-Length" if lengths else "in HTTP/1.0"
        raise _failed("protocol", f"Transfer-Encoding {beside}: the length is unclear")
    if codings and codings != ["chunked"]:
        raise _failed("protocol", f"Transfer-Encoding {', '.join(codings)!r:.80}")
    length: int | None = None
    if lengths:
        (only, *others) = lengths
        if others or not _DIGITS.fullmatch(only.encode("latin-1")):
            shown = ", ".join(sorted(lengths))
            raise _failed("protocol", f"Content-Length {shown!r:.80}")
        length = int(only)
    return Head(
        status=int(found[2]),
        reason=_text(found[3] or b""),
        http_1_0=http_1_0,
        headers=headers,
        length=length,
        chunked=bool(codings),
        keep_alive="close" not in options and (not http_1_0 or "keep-alive" in options),
    )


def _without_end(line: bytes) -> bytes:
    return line.removesuffix(b"\n").removesuffix(b"\r")


def _text(raw: bytes) -> str:
    return raw.decode("latin-1")


def _failed(kind: str, text: str) -> OperationFailed:
    return OperationFailed(kind, f"http: {text}", broken=True)
