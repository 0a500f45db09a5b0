"""MySQL's binary protocol for one connection, sans-I/O: prepared statements.

PyMySQL has connected and logged in; the statements have been prepared on the same
connection by :func:`prepare`. From then on an operation is one COM_STMT_EXECUTE,
answered by an OK packet or by rows. ``add`` prepares what it needs when it first
needs it, and tries again after a deadlock. See :mod:`kvtui.stores.mysql_packets` for
where the facts come from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias

from kvtui.errors import OperationFailed
from kvtui.stores import mysql_packets as packets
from kvtui.stores import mysql_statements as sql
from kvtui.stores.mysql_answers import Answer, Answering, Rows, fields
from kvtui.stores.mysql_errors import TRY_AGAIN, server_error
from kvtui.stores.mysql_packets import Packets, Prepared, Refusal, broken_protocol
from kvtui.stores.operations import (
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Scan,
)
from kvtui.stores.store import PENDING, Wire, unsupported

_PREPARE, _EXECUTE, _PING = b"\x16", 0x17, b"\x0e"
_BLOB, _LONGLONG = b"\xfc\0", b"\x08\0"
_HEAD: Final = struct.Struct("<BIBI")
_LONG: Final = struct.Struct("<q")
_ADD_TYPES: Final = _BLOB * 3 + _LONGLONG
_ROW_BYTES: Final = 56
"""At most what a counter takes beside its key and name: digest, amount, lengths,
types and its part of the null bitmap."""

_WITH_VALUE: Final = 5
"""Packets of the answer to a get: columns, one definition, end, the row, end."""

STATEMENTS: Final = (
    sql.GET,
    sql.PUT,
    sql.SCAN,
    sql.COUNTS,
    sql.DELETE_VALUE,
    sql.DELETE_COUNTERS,
)
"""What is prepared when connecting."""


Plan: TypeAlias = Generator[bytes, Answer, Any]
"""An operation of several round trips: yields payloads, is sent answers."""


def prepare_request(text: str) -> bytes:
    """The payload of COM_STMT_PREPARE."""
    return _PREPARE + text.encode()


def prepare(
    send: Callable[[bytes], Any], receive: Callable[[int], bytes], where: str, text: str
) -> Prepared:
    """Have a statement prepared, blocking. Raises OperationFailed, and what ``send``
    and ``receive`` raise."""
    payload = prepare_request(text)
    incoming, answering = Packets(), Answering(prepares=True)
    incoming.expect(packets.packets_of(len(payload)))
    send(packets.framed(payload))
    answer: Answer | None = None
    while answer is None:
        data = receive(1 << 16)
        if not data:
            raise OperationFailed("disconnected", "mysql: it hung up", broken=True)
        for payload in incoming.feed(memoryview(data)):
            if answer is not None:
                raise _unasked()
            answer = answering.take(payload)
    if incoming.unfinished:
        raise _unasked()
    if isinstance(answer, Refusal):
        raise server_error(where, answer.number, answer.text)
    if not isinstance(answer, Prepared):
        raise broken_protocol("a statement was prepared without an answer")
    return answer


class MySqlWire(Wire):
    """COM_STMT_EXECUTE for one connection, one operation at a time."""

    def __init__(self, where: str, prepared: Sequence[Prepared], limit: int) -> None:
        self._where = where
        self._limit = limit
        """max_allowed_packet: a payload must be shorter."""
        self._packets = Packets()
        self._answering = Answering()
        self._plan: Plan | None = None
        self._convert: Callable[[Any], Any] = _nothing
        numbers = dict(
            zip(STATEMENTS, (each.statement for each in prepared), strict=True)
        )
        self._get, self._put = (
            _head(numbers[text]) + _bound(types)
            for text, types in ((sql.GET, _BLOB), (sql.PUT, _BLOB * 2))
        )
        self._scan = _head(numbers[sql.SCAN]) + _bound(_BLOB + _LONGLONG)
        self._counts, self._delete_value, self._delete_counters = (
            _head(numbers[text]) + _bound(_BLOB)
            for text in (sql.COUNTS, sql.DELETE_VALUE, sql.DELETE_COUNTERS)
        )
        self._adds: dict[int, bytes] = {}
        self._one_value = b""
        """What comes before the row in every answer to a get, once it was seen."""

    def encode(self, operation: Operation) -> bytes:
        """The first request of an operation."""
        shape, key = type(operation), operation.key
        self._plan = None
        if shape is Get:
            self._convert = _value
            return self._framed(self._get + packets.length_coded(key))
        if isinstance(operation, Put):
            self._convert = _stored
            return self._framed(
                self._put
                + packets.length_coded(key)
                + packets.length_coded(operation.value)
            )
        if isinstance(operation, Counts):
            self._convert = _counters
            return self._framed(self._counts + packets.length_coded(key))
        if isinstance(operation, Scan):
            self._convert = _pairs
            asked = packets.length_coded(key) + _LONG.pack(max(0, operation.count))
            return self._framed(self._scan + asked)
        if isinstance(operation, Delete):
            return self._begin(self._deleting(key))
        if isinstance(operation, Add):
            rows = self._checked(key, operation)
            return self._begin(self._adding(key, rows))
        raise unsupported("mysql", operation.label)

    def _begin(self, plan: Plan) -> bytes:
        request = self._framed(next(plan))
        self._plan = plan
        return request

    def _framed(self, payload: bytes) -> bytes:
        if len(payload) >= self._limit:
            raise sql.too_large(self._where, len(payload), self._limit)
        self._answering = Answering(prepares=payload[:1] == _PREPARE)
        self._packets.expect(packets.packets_of(len(payload)))
        return packets.framed(payload)

    def feed(self, data: memoryview) -> Any:
        """The reply once whole; the next request in ``more`` meanwhile."""
        if self._convert is _value and self._plan is None and self._one_value:
            quick = self._quick_value(data)
            if quick is not None:
                return quick
        fresh = not self._packets.unfinished
        answer: Answer | None = None
        payloads = self._packets.feed(data)
        for number, payload in enumerate(payloads, 1):
            answer = self._answering.take(payload)
            if answer is not None and number < len(payloads):
                raise _unasked()
        if answer is None:
            return PENDING
        if self._packets.unfinished:
            raise _unasked()
        if self._plan is not None:
            return self._continue(self._plan, answer)
        if isinstance(answer, Refusal):
            raise server_error(self._where, answer.number, answer.text)
        if self._convert is _value and fresh and len(payloads) == _WITH_VALUE:
            self._learn(bytes(data))
        return self._convert(answer)

    def _continue(self, plan: Plan, answer: Answer) -> Any:
        try:
            request = plan.send(answer)
        except StopIteration as ended:
            return ended.value
        self.more = self._framed(request)
        return PENDING

    def _learn(self, data: bytes) -> None:
        """Keep what every answer to a get begins with: the column's description."""
        at = 0
        for _ in range(_WITH_VALUE - 2):
            at += 4 + int.from_bytes(data[at : at + 3], "little")
        self._one_value = data[:at]

    def _quick_value(self, data: memoryview) -> bytes | None:
        """The value when one whole, usual answer came at once; nearly all do.

        Anything else is left to the careful way, which sees the same bytes.
        """
        start = self._one_value
        at = len(start)
        end = len(data)
        if self._packets.unfinished or end < at + 16 or bytes(data[:at]) != start:
            return None
        row = bytes(data[at:])
        length = row[0] | row[1] << 8 | row[2] << 16
        # The row, and 9 bytes that end the rows: fe, no warnings, a status.
        if length + 13 != len(row) or row[3] != 4 or row[4] or row[5]:
            return None
        if row[-9:-4] != b"\x05\0\0\x05\xfe":
            return None
        value, stop = packets.read_text(row, 6)
        return value if stop == length + 4 else None

    def _request_failed(self, answer: Answer) -> OperationFailed:
        if isinstance(answer, Refusal):
            return server_error(self._where, answer.number, answer.text)
        return broken_protocol(f"an unexpected answer: {answer!r:.60}")

    def _deleting(self, key: bytes) -> Plan:
        there = False
        for head in (self._delete_value, self._delete_counters):
            answer = yield head + packets.length_coded(key)
            if not isinstance(answer, int):
                raise self._request_failed(answer)
            there = there or answer > 0
        return there

    def _checked(self, key: bytes, operation: Add) -> list[sql.Row]:
        rows = sql.rows(operation.counts)
        for row in rows:
            size = len(key) + len(row[1]) + _ROW_BYTES + _HEAD.size
            if size >= self._limit:
                raise sql.too_large(self._where, size, self._limit)
        return rows

    def _adding(self, key: bytes, rows: list[sql.Row]) -> Plan:
        if not rows:
            yield _PING  # something must be asked to be answered
            return None
        # Filling up may take half as much again.
        room = max(1, (self._limit - 64) * 2 // 3)
        coded = packets.length_coded(key)
        for batch in sql.batches(
            rows, lambda row: len(key) + len(row[1]) + _ROW_BYTES, room
        ):
            yield from self._add_batch(coded, batch)
        return None

    def _add_batch(self, key: bytes, batch: Sequence[sql.Row]) -> Plan:
        size = filled_up(len(batch))
        head = self._adds.get(size)
        if head is None:
            answer = yield prepare_request(sql.add_statement(size))
            if not isinstance(answer, Prepared):
                raise self._request_failed(answer)
            types = _bound(_ADD_TYPES * size, size * 4)
            head = self._adds[size] = _head(answer.statement) + types
        parts = [head]
        for digest, name, amount in batch:
            parts += (key, b"\x14", digest, packets.length_coded(name))
            parts.append(_LONG.pack(amount))
        if size > len(batch):
            digest, name, _ = min(batch, key=lambda row: len(row[1]))
            nothing = (key, b"\x14", digest, packets.length_coded(name), bytes(8))
            parts += nothing * (size - len(batch))
        request = b"".join(parts)
        for _ in range(sql.TRIES):
            answer = yield request
            if not isinstance(answer, Refusal) or answer.number not in TRY_AGAIN:
                break
        if not isinstance(answer, int):
            raise self._request_failed(answer)
        if answer < len(batch):
            raise broken_protocol(f"{answer} of {len(batch)} counters were changed")
        return None


def filled_up(rows: int) -> int:
    """How many rows the statement for that many has: 1, 2, 3, 4, 6, 8, 12, 16, …

    A server keeps a limited number of prepared statements, so there is none for every
    number; what is left over adds 0 to a counter that is added to anyway.
    """
    size = 1 << (rows - 1).bit_length()
    return size * 3 // 4 if size >= 4 and rows <= size * 3 // 4 else size


def _head(statement: int) -> bytes:
    return _HEAD.pack(_EXECUTE, statement, 0, 1)  # no cursor; one iteration


def _bound(types: bytes, parameters: int = 0) -> bytes:
    """The null bitmap (none is), and the parameters' types. A BLOB parameter is bytes
    to the server, whatever the connection's character set."""
    number = parameters or len(types) // 2
    return bytes((number + 7) // 8) + b"\x01" + types


def _unasked() -> OperationFailed:
    # It would be taken for the answer to the next operation.
    return broken_protocol("an answer came that nobody asked for")


def _nothing(answer: Answer) -> Any:
    raise _unasked()


def _rows(answer: Answer, shapes: str) -> list[tuple[Any, ...]]:
    if not isinstance(answer, Rows):
        raise broken_protocol("a question was answered without rows")
    return fields(answer, shapes)


def _value(answer: Answer) -> bytes | None:
    found = _rows(answer, "b")
    if len(found) > 1:
        raise broken_protocol("one key has several values")
    return found[0][0] if found else None


def _stored(answer: Answer) -> None:
    # 1 for a new row, or an equal one thanks to the found-rows flag; 2 for a changed.
    if answer not in (1, 2):
        raise broken_protocol(f"a write was answered with {answer!r:.60}")


def _counters(answer: Answer) -> dict[bytes, int] | None:
    return dict(_rows(answer, "bn")) or None


def _pairs(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [(key, value) for key, value in _rows(answer, "bb")]
