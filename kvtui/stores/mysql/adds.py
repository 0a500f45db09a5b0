"""Adding to many counters with one prepared statement, on the wire."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from typing import Any, Final, TypeAlias

from kvtui.stores.mysql import packets
from kvtui.stores.mysql import statements as sql
from kvtui.stores.mysql.answers import Answer
from kvtui.stores.mysql.errors import TRY_AGAIN
from kvtui.stores.mysql.packets import Prepared, Refusal, broken_protocol
from kvtui.stores.mysql.prepared import (
    BLOB,
    HEAD,
    LONGLONG,
    bound,
    head,
    not_done,
    prepare_request,
)

Plan: TypeAlias = Generator[bytes, Answer, Any]
"""An operation of several round trips: yields payloads, is sent answers."""

_PING: Final = b"\x0e"
_LONG: Final = struct.Struct("<q")
_ADD_TYPES: Final = BLOB * 3 + LONGLONG
_ROW_BYTES: Final = 56
"""At most what a counter takes beside its key and name: digest, amount, lengths,
types and its part of the null bitmap."""


class Adds:
    """The statements that add, of one connection; each prepared when first needed."""

    def __init__(self, where: str, limit: int, retried: Callable[[], None]) -> None:
        self._where = where
        self._limit = limit
        self._retried = retried
        self._heads: dict[int, bytes] = {}

    def checked(self, key: bytes, counts: Sequence[tuple[bytes, int]]) -> list[sql.Row]:
        """The rows of an add. Raises OperationFailed where one fits no request."""
        rows = sql.rows(counts)
        for row in rows:
            size = len(key) + len(row[1]) + _ROW_BYTES + HEAD.size
            if size >= self._limit:
                raise sql.too_large(self._where, size, self._limit)
        return rows

    def plan(self, key: bytes, rows: list[sql.Row]) -> Plan:
        """Add them, in as few statements as fit."""
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
        start = self._heads.get(size)
        if start is None:
            answer = yield prepare_request(sql.add_statement(size))
            if not isinstance(answer, Prepared):
                raise not_done(self._where, answer)
            types = bound(_ADD_TYPES * size, size * 4)
            start = self._heads[size] = head(answer.statement) + types
        parts = [start]
        for digest, name, amount in batch:
            parts += (key, b"\x14", digest, packets.length_coded(name))
            parts.append(_LONG.pack(amount))
        if size > len(batch):
            digest, name, _ = min(batch, key=lambda row: len(row[1]))
            nothing = (key, b"\x14", digest, packets.length_coded(name), bytes(8))
            parts += nothing * (size - len(batch))
        request = b"".join(parts)
        answer = yield from until_done(request, self._retried)
        if not isinstance(answer, int):
            raise not_done(self._where, answer)
        if answer < len(batch):
            raise broken_protocol(f"{answer} of {len(batch)} counters were changed")
        return None


def until_done(
    request: bytes, retried: Callable[[], None]
) -> Generator[bytes, Answer, Answer]:
    """Ask it, again where the server undid all of it; ``retried`` hears of that."""
    for _ in range(sql.TRIES - 1):
        answer = yield request
        if not undone(answer):
            return answer
        retried()
    return (yield request)


def undone(answer: Answer) -> bool:
    """Whether a statement was undone for somebody else's, and may be asked again."""
    return isinstance(answer, Refusal) and answer.number in TRY_AGAIN


def filled_up(rows: int) -> int:
    """How many rows the statement for that many has: 1, 2, 3, 4, 6, 8, 12, 16, …

    A server keeps a limited number of prepared statements, so there is none for every
    number; what is left over adds 0 to a counter that is added to anyway.
    """
    size = 1 << (rows - 1).bit_length()
    return size * 3 // 4 if size >= 4 and rows <= size * 3 // 4 else size
