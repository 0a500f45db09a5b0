"""MySQL's binary protocol for one connection, sans-I/O: prepared statements.

PyMySQL has connected and logged in; the statements have been prepared on the same
connection by :func:`prepare`. From then on an operation is one COM_STMT_EXECUTE,
answered by an OK packet or by rows. ``add`` prepares what it needs when it first
needs it; a change is tried again after a deadlock. See
:mod:`kvtui.stores.mysql.packets` for where the facts come from.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from kvtui.stores.mysql import packets
from kvtui.stores.mysql import statements as sql
from kvtui.stores.mysql.adds import Adds, Plan, undone, until_done
from kvtui.stores.mysql.answers import Answer, Answering, Rows, fields
from kvtui.stores.mysql.errors import server_error
from kvtui.stores.mysql.packets import Packets, Prepared, Refusal, broken_protocol
from kvtui.stores.mysql.prepared import (
    BLOB,
    LONGLONG,
    PREPARE,
    bound,
    head,
    not_done,
    unasked,
)
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

_LONG: Final = struct.Struct("<q")
_WITH_VALUE: Final = 5
"""Packets of the answer to a get: columns, one definition, end, the row, end."""

_USUAL_WRITES: Final = frozenset(
    b"\x07\0\0\x01\0%c\0\x02\0\0\0" % changed for changed in (1, 2)
)
"""What nearly every put is answered with: an OK packet, autocommit, no warnings."""

STATEMENTS: Final = (
    sql.GET,
    sql.PUT,
    sql.SCAN,
    sql.COUNTS,
    sql.DELETE_VALUE,
    sql.DELETE_COUNTERS,
)
"""What is prepared when connecting."""


class MySqlWire(Wire):
    """COM_STMT_EXECUTE for one connection, one operation at a time.

    ``retried`` is called for each try after the first, see TRIES.
    """

    def __init__(
        self,
        where: str,
        prepared: Sequence[Prepared],
        limit: int,
        retried: Callable[[], None],
    ) -> None:
        self._where = where
        self._limit = limit
        """max_allowed_packet: a payload must be shorter."""
        self._retried = retried
        self._writing, self._tries_left = b"", 0
        self._packets = Packets()
        self._answering: Answering | None = None
        """What has come of an answer, but for one that comes at once and is usual."""
        self._prepares = False
        self._plan: Plan | None = None
        self._convert: Callable[[Any], Any] = _nothing
        numbers = dict(
            zip(STATEMENTS, (each.statement for each in prepared), strict=True)
        )
        self._get, self._put = (
            head(numbers[text]) + bound(types)
            for text, types in ((sql.GET, BLOB), (sql.PUT, BLOB * 2))
        )
        self._scan = head(numbers[sql.SCAN]) + bound(BLOB + LONGLONG)
        self._counts, self._delete_value, self._delete_counters = (
            head(numbers[text]) + bound(BLOB)
            for text in (sql.COUNTS, sql.DELETE_VALUE, sql.DELETE_COUNTERS)
        )
        self._adds = Adds(where, limit, retried)
        self._one_value = b""
        """What comes before the row in every answer to a get, once it was seen."""

    def encode(self, operation: Operation) -> bytes:
        """The first request of an operation."""
        shape, key = type(operation), operation.key
        self._plan = None
        incoming = self._packets
        if shape is Get:
            self._convert = _value
            length = len(key)
            if length < 251:  # nearly always: the same as below, at once
                self._answering = None
                self._prepares = False
                incoming.expect(1)
                size = len(self._get) + 1 + length
                return b"%c%c\0\0%b%c%b" % (
                    size & 255,
                    size >> 8,
                    self._get,
                    length,
                    key,
                )
            return self._framed(self._get + packets.length_coded(key))
        if isinstance(operation, Put):
            self._convert = _stored
            self._tries_left = sql.TRIES - 1
            self._writing = (
                self._put
                + packets.length_coded(key)
                + packets.length_coded(operation.value)
            )
            return self._framed(self._writing)
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
            rows = self._adds.checked(key, operation.counts)
            return self._begin(self._adds.plan(key, rows))
        raise unsupported("mysql", operation.label)

    def _begin(self, plan: Plan) -> bytes:
        request = self._framed(next(plan))
        self._plan = plan
        return request

    def _framed(self, payload: bytes) -> bytes:
        if len(payload) >= self._limit:
            raise sql.too_large(self._where, len(payload), self._limit)
        self._answering = None
        self._prepares = payload[:1] == PREPARE
        self._packets.expect(packets.packets_of(len(payload)))
        return packets.framed(payload)

    def feed(self, data: bytes) -> Any:
        """The reply once whole; the next request in ``more`` meanwhile."""
        answering, plan = self._answering, self._plan
        fresh = answering is None
        if fresh and plan is None:
            if self._convert is _value:
                quick = self._quick_value(data)
                if quick is not None:
                    return quick
            elif self._convert is _stored and data in _USUAL_WRITES:
                return None
        if answering is None:
            answering = self._answering = Answering(prepares=self._prepares)
        answer: Answer | None = None
        payloads = self._packets.feed(data)
        for number, payload in enumerate(payloads, 1):
            answer = answering.take(payload)
            if answer is not None and number < len(payloads):
                raise unasked()
        if answer is None:
            return PENDING
        if self._packets.unfinished:
            raise unasked()
        if plan is not None:
            return self._continue(plan, answer)
        if isinstance(answer, Refusal):
            if self._convert is _stored and self._tries_left and undone(answer):
                self._tries_left -= 1
                self._retried()
                self.more = self._framed(self._writing)
                return PENDING
            raise server_error(self._where, answer.number, answer.text)
        if self._convert is _value and fresh and len(payloads) == _WITH_VALUE:
            self._learn(data)
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

    def _quick_value(self, got: bytes) -> bytes | None:
        """The value when one whole, usual answer came at once; nearly all do.

        Anything else is left to the careful way, which sees the same bytes.
        """
        start = self._one_value
        if not start or not got.startswith(start):
            return None
        at, end = len(start), len(got)
        # The row, and 9 bytes that end the rows: fe, no warnings, a status.
        if end < at + 16 or got[at + 3 : at + 6] != b"\x04\0\0":
            return None
        length = got[at] | got[at + 1] << 8 | got[at + 2] << 16
        if at + length + 13 != end or got[end - 9 : end - 4] != b"\x05\0\0\x05\xfe":
            return None
        first = got[at + 6]
        if first < 251:
            return got[at + 7 : end - 9] if first == length - 3 else None
        value, stop = packets.read_text(got, at + 6)
        return value if stop == end - 9 else None

    def _deleting(self, key: bytes) -> Plan:
        there = False
        for start in (self._delete_value, self._delete_counters):
            request = start + packets.length_coded(key)
            answer = yield from until_done(request, self._retried)
            if not isinstance(answer, int):
                raise not_done(self._where, answer)
            there = there or answer > 0
        return there


def _nothing(answer: Answer) -> Any:
    raise unasked()


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
