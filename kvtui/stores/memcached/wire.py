"""memcached's meta commands for the wire loop, sans-I/O.

One operation sends: get → ``mg``; put → ``ms``; delete → ``md``; add → one ``ma`` a
counter, which makes the counter where it is missing, and for new counters an append
to the record's index; counts → ``mg`` of the index, then of every counter.
"""

from __future__ import annotations

from typing import Any, Final

from kvtui.errors import OperationFailed
from kvtui.stores.memcached.exchanges import (
    ERRORS,
    MISSING,
    NOT_FOUND,
    NOT_STORED,
    NOTHING,
    STORED,
    Exchange,
    Peer,
    Reply,
    exchange_for,
    protocol_error,
    refused,
    shown,
    value_of,
)
from kvtui.stores.operations import KEY_LIMIT_BYTES, Get, Operation, Put
from kvtui.stores.store import PENDING, Wire

_LINE_LIMIT: Final = 2048
_KNOWN_LIMIT: Final = 4096
_VALUE_LIMIT: Final = 1 << 30
"""memcached's own limit for -I."""
_DIGITS: Final = len(str(_VALUE_LIMIT))
_WITHOUT_VALUE: Final = frozenset(
    {STORED, MISSING, NOT_FOUND, NOT_STORED, NOTHING, *ERRORS}
)
_STORED_LINE = b"HD\r\n"
_MISSING_LINE = b"EN\r\n"


class MemcachedWire(Wire):
    """Meta commands for one connection, one operation at a time."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._operation: Operation = Get(b"")
        self._shape: type[Operation] = Get
        self._exchange: Exchange | None = None
        self._replies: list[Reply] = []
        self._wanted = 1
        self._lines: dict[int, bytes] = {}
        """How a value's whole reply of such a length begins: looking up is faster than
        reading."""
        self._received = bytearray()
        self._enough = 0
        """How many bytes must have come before looking again is worth it."""

    def encode(self, operation: Operation) -> bytes:
        """The first request of an operation; a key that could be taken for more than
        one word is refused here."""
        key = operation.key
        if key.split() != [key] or len(key) > KEY_LIMIT_BYTES:
            raise OperationFailed(
                "unsupported", f"memcached has no such key: {shown(key)}"
            )
        self._shape = shape = type(operation)
        self._wanted = 1
        if shape is Get:
            return b"mg " + key + b" v\r\n"
        self._operation = operation
        if isinstance(operation, Put):
            value = operation.value
            return b"ms %b %d\r\n%b\r\n" % (key, len(value), value)
        return self.begin(exchange_for(operation, self._peer))

    def begin(self, exchange: Exchange) -> bytes:
        """The first request of an exchange; its result is what comes back."""
        self._shape = Operation
        self._exchange = exchange
        request, self._wanted = next(exchange)
        return request

    def feed(self, data: bytes) -> Any:
        """The reply once whole."""
        shape = self._shape
        if not self._received:
            # Nearly every reply comes whole.
            if shape is Put:
                if data == _STORED_LINE:
                    return None
            elif shape is Get:
                line = self._lines.get(len(data)) or self._line(len(data))
                if data.startswith(line) and data.endswith(b"\r\n"):
                    return data[len(line) : -2]
                if data == _MISSING_LINE:
                    return None
        self._received += data
        if len(self._received) < self._enough:
            return PENDING
        if not self._take():
            return PENDING
        replies, self._replies = self._replies, []
        if shape is Get:
            return value_of(replies[0], self._peer)
        if shape is Put:
            self._stored(replies[0])
            return None
        return self._go_on(replies)

    def _line(self, length: int) -> bytes:
        """How a whole reply of that length begins when it is a value's."""
        line = b"\n"  # Nothing begins so, where no value makes a reply of that length.
        for digits in range(1, _DIGITS + 1):
            size = length - len(b"VA \r\n\r\n") - digits
            if size >= 0 and len(str(size)) == digits:
                line = b"VA %d\r\n" % size
        if len(self._lines) < _KNOWN_LIMIT:
            self._lines[length] = line
        return line

    def _stored(self, reply: Reply) -> None:
        if reply[0] != STORED:
            size = len(self._operation.value)  # type: ignore[attr-defined]
            raise refused(self._peer, reply[0], self._operation.key, size)

    def _go_on(self, replies: list[Reply]) -> Any:
        """Hand the replies to the operation, which may want another round trip."""
        if self._exchange is None:
            raise protocol_error(self._peer, "it answers what nobody asked")
        try:
            self.more, self._wanted = self._exchange.send(replies)
        except StopIteration as ended:
            self._exchange = None
            return ended.value
        return PENDING

    def _take(self) -> bool:
        """Take the replies that are whole; whether all have come."""
        received, at = self._received, 0
        while len(self._replies) < self._wanted:
            end = received.find(b"\r\n", at, at + _LINE_LIMIT)
            if end < 0:
                if len(received) - at >= _LINE_LIMIT:
                    raise protocol_error(self._peer, bytes(received[at : at + 40]))
                self._enough = 0
                break
            line = bytes(received[at:end])
            size = self._size(line)
            if size is None:
                self._replies.append((line, None))
                at = end + 2
                continue
            start, stop = end + 2, end + 2 + size
            if len(received) < stop + 2:
                self._enough = stop + 2 - at
                break
            if received[stop : stop + 2] != b"\r\n":
                raise protocol_error(self._peer, "a value is longer than it said")
            with memoryview(received) as view:
                self._replies.append((line, bytes(view[start:stop])))
            at = stop + 2
        else:
            self._enough = 0
            if len(received) > at:
                # It would be taken for the answer to the next operation.
                raise protocol_error(self._peer, "it answers what nobody asked")
        del received[:at]
        return len(self._replies) == self._wanted

    def _size(self, line: bytes) -> int | None:
        """How long the value behind this line is; None where there is none."""
        word, _, rest = line.partition(b" ")
        if word == b"VA":
            size = rest.split(b" ", 1)[0]
            if size.isdigit() and len(size) < 12 and int(size) <= _VALUE_LIMIT:
                return int(size)
        elif word in _WITHOUT_VALUE:
            return None
        raise protocol_error(self._peer, line)
