"""kvtui's operations in Tokyo Tyrant's protocol, and the store's ``Wire``.

A value stands under its key. A record made of counters is several native ones,
beside an index of their names, all under the record's key and a blank, which no
key of kvtui's has (:func:`kvtui.stores.operations.key`):

===============  =======================================================
``KEY +NAME``    a double: the counter, or its low part
``KEY ^NAME``    a double: how often 2^32 has to be added to it; seldom there
``KEY names``    the index: length and ``+NAME`` or ``^NAME``, one after another
===============  =======================================================

Listing keys by their beginning would need no index, but walks through a whole hash
database. An add is one pipeline of ``adddouble``; those that were new (their sum is
the amount) are appended to the index in a second round trip. Between the two,
another client does not see the new counter yet, and a connection lost there leaves it
out of sight: that add has failed, and verifying finds what it lacks. A name may stand
in the index more than once; it is counted once.

A double is exact to 2^53 only, so an amount beyond 2^31 goes into two parts, and a
part that has come to 2^53 is a failed operation, never a rounded number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Add, Counts, Delete, Get, Operation, Put
from kvtui.stores.store import PENDING, Wire, unsupported
from kvtui.stores.tokyo import protocol
from kvtui.stores.tokyo.protocol import ARGUMENT_LIMIT_BYTES, WHOLE_LIMIT
from kvtui.stores.tokyo.talk import Conversation, Steps, batches

BATCH_BYTES: Final = 1 << 16
"""Sent together. Linux gives a socket room for at least 200 KB."""
_MGET_KEYS: Final = 1 << 16
_LOW, _HIGH = b"+", b"^"
_HIGH_BITS: Final = 32
_HALF: Final = 1 << (_HIGH_BITS - 1)
_STORED, _MISSED = b"\0", b"\1"

Counters = tuple[tuple[bytes, int], ...]


class TokyoWire(Wire):
    """One connection to ttserver at ``where``.

    ``byte_order`` is the server's, ``<`` or ``>``: in it the counters are kept.
    """

    def __init__(self, where: str, byte_order: str) -> None:
        self._where = where
        self._order = byte_order
        self._talk = Conversation()
        self._shape: type[Operation] = Get
        self._plain = True
        """Whether nothing has come yet of the reply to a get or a put."""

    def encode(self, operation: Operation) -> bytes:
        """The request; ``too-large`` where the server would only hang up."""
        self._shape = shape = type(operation)
        self._plain = shape is Get or shape is Put
        if shape is Get:
            return protocol.get(operation.key)
        if isinstance(operation, Put):
            if len(operation.value) > ARGUMENT_LIMIT_BYTES:
                raise _too_large(self._where, "value", len(operation.value))
            return protocol.put(operation.key, operation.value)
        return self._talk.start(self.steps(operation))

    def feed(self, data: bytes) -> Any:
        """The reply once whole."""
        if self._plain:
            # Nearly every reply to a get or a put comes in one piece.
            if self._shape is Put:
                if data == _STORED:
                    return None
            elif len(data) >= 5 and not data[0]:
                if len(data) == 5 + int.from_bytes(data[1:5], "big"):
                    return data[5:]
            elif data == _MISSED:
                return None
            self._plain = False
            self._talk.start(
                _reading_stored(self._where) if self._shape is Put else _reading_value()
            )
        reply = self._talk.feed(data)
        if reply is PENDING:
            self.more, self._talk.more = self._talk.more, b""
        return reply

    def steps(self, operation: Operation) -> Steps[Any]:
        """An operation as its steps, for a connection of either kind."""
        match operation:
            case Get():
                return _get(operation.key)
            case Put():
                return _put(self._where, operation.key, operation.value)
            case Add():
                return _add(self._where, operation.key, operation.counts)
            case Counts():
                return _counts(self._where, self._order, operation.key)
            case Delete():
                return _delete(self._where, operation.key)
        raise unsupported("tokyo", operation.label)


def _reading_value() -> Steps[bytes | None]:
    yield b""
    return (yield from protocol.read_value())


def _reading_stored(where: str) -> Steps[None]:
    yield b""
    if not (yield from protocol.read_code()):
        raise not_stored(where, "the value")


def _get(key: bytes) -> Steps[bytes | None]:
    # Code 1 is also what a command gives that the server's -mask forbids, and a
    # database that is broken beyond use; nothing in the reply tells them from a
    # miss. Asking again in another way would double the work of every miss. So
    # connecting looks for a broken database (`fatal` in stat), the first put is
    # refused aloud, and verifying compares every record.
    yield protocol.get(key)
    return (yield from protocol.read_value())


def _put(where: str, key: bytes, value: bytes) -> Steps[None]:
    if len(value) > ARGUMENT_LIMIT_BYTES:
        raise _too_large(where, "value", len(value))
    yield protocol.put(key, value)
    if not (yield from protocol.read_code()):
        raise not_stored(where, "the value")


def _add(where: str, key: bytes, counts: Counters) -> Steps[None]:
    """All amounts in one pipeline, then the index of those that were new."""
    requests = []
    for part, amount in _parts(where, counts):
        counter = b"%b %b" % (key, part)
        if len(counter) > ARGUMENT_LIMIT_BYTES:
            raise _too_large(where, "counter's name", len(counter))
        requests.append((protocol.adddouble(counter, amount), (part, amount)))
    if not requests:
        yield protocol.vsiz(_index(key))  # Something has to be asked.
        yield from protocol.read_size()
        return
    new: list[bytes] = []
    refused = inexact = False
    for batch in batches(requests, BATCH_BYTES):
        yield b"".join([request for request, _ in batch])
        sums = yield from protocol.read_sums(len(batch))
        for total, (_, (part, amount)) in zip(sums, batch, strict=True):
            if total is None:
                refused = True
            elif total == amount:
                new.append(part)
            elif not -WHOLE_LIMIT < total < WHOLE_LIMIT:
                inexact = True
    if new:
        yield protocol.putcat(_index(key), _entries(new))
        refused = not (yield from protocol.read_code()) or refused
    if refused:
        raise not_stored(where, "a counter")
    if inexact:
        raise _inexact(where)


def _counts(where: str, order: str, key: bytes) -> Steps[dict[bytes, int] | None]:
    yield protocol.get(_index(key))
    index = yield from protocol.read_value()
    if index is None:
        return None
    parts = list(dict.fromkeys(_parts_of(where, index)))
    found: dict[bytes, int] = {}
    start = len(key) + 1
    for first in range(0, len(parts), _MGET_KEYS):
        asked = dict.fromkeys(
            b"%b %b" % (key, part) for part in parts[first : first + _MGET_KEYS]
        )
        yield protocol.mget(list(asked))
        pairs = yield from protocol.read_pairs()
        if pairs is None:
            raise OperationFailed("server-error", f"tokyo at {where} refused mget")
        for counter, kept in pairs:
            if counter not in asked:
                raise protocol.garbage("a counter that nobody asked for")
            whole = _kept(where, order, kept)
            if counter[start : start + 1] == _HIGH:
                whole <<= _HIGH_BITS
            name = counter[start + 1 :]
            found[name] = found.get(name, 0) + whole
    return found or None


def _delete(where: str, key: bytes) -> Steps[bool]:
    """The value; and where there are counters, those, and their index last."""
    yield protocol.out(key) + protocol.get(_index(key))
    there = yield from protocol.read_code()
    index = yield from protocol.read_value()
    if index is None:
        return there
    counters = [
        b"%b %b" % (key, part) for part in dict.fromkeys(_parts_of(where, index))
    ]
    yield from removing([*counters, _index(key)])
    return True


def removing(keys: list[bytes]) -> Steps[None]:
    """Remove these keys, whether they are there or not."""
    requests = [(protocol.out(key), None) for key in keys]
    for batch in batches(requests, BATCH_BYTES):
        yield b"".join([request for request, _ in batch])
        for _ in batch:
            yield from protocol.read_code()


def record_of(key: bytes) -> bytes:
    """The key of the record that a key of the database belongs to."""
    return key.split(b" ", 1)[0]


def _index(key: bytes) -> bytes:
    return key + b" names"


def _parts(where: str, counts: Counters) -> Iterator[tuple[bytes, int]]:
    """Amounts as native counters: nearly always one, for large ones two."""
    for name, amount in counts:
        if -_HALF <= amount < _HALF:
            yield _LOW + name, amount
            continue
        high = (amount + _HALF) >> _HIGH_BITS
        if not -WHOLE_LIMIT < high < WHOLE_LIMIT:
            raise OperationFailed(
                "too-large", f"tokyo at {where}: {amount:.3e} is beyond its counters"
            )
        yield _HIGH + name, high
        yield _LOW + name, amount - (high << _HIGH_BITS)


def _entries(parts: list[bytes]) -> bytes:
    return b"".join([len(part).to_bytes(4, "big") + part for part in parts])


def _parts_of(where: str, index: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(index):
        start = at + 4
        at = start + int.from_bytes(index[at:start], "big")
        part = index[start:at]
        if at > len(index) or part[:1] not in (_LOW, _HIGH):
            raise OperationFailed(
                "server-error",
                f"tokyo at {where}: an index of counters is not of kvtui's making",
                hint="remove the keys that begin with kvtui:, or use --clear",
            )
        yield part


def _kept(where: str, order: str, kept: bytes) -> int:
    if len(kept) == 8:
        (number,) = struct.unpack(order + "d", kept)
        if -WHOLE_LIMIT < number < WHOLE_LIMIT and number.is_integer():
            return int(number)
        if abs(number) >= WHOLE_LIMIT:
            raise _inexact(where)
    raise OperationFailed(
        "server-error",
        f"tokyo at {where}: a counter is no whole number: {kept[:20]!r}",
        hint="somebody else has written it; use --clear",
    )


def not_stored(where: str, what: str) -> OperationFailed:
    """Code 1 to a write; the server's log knows why, the protocol does not."""
    return OperationFailed(
        "server-error",
        f"tokyo at {where} did not store {what}",
        hint="its log says why: a full disk, a file past 2 GB without opts=l,"
        " or a command that -mask forbids",
    )


def _inexact(where: str) -> OperationFailed:
    return OperationFailed(
        "server-error",
        f"tokyo at {where}: a counter has come to 2^53, where a double is not exact",
    )


def _too_large(where: str, what: str, length: int) -> OperationFailed:
    return OperationFailed(
        "too-large",
        f"tokyo at {where}: a {what} of {length:,} bytes is beyond its"
        f" {ARGUMENT_LIMIT_BYTES:,}",
    )
