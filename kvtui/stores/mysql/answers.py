"""Answers of MySQL's binary protocol, put together from their packets.

Source: as for :mod:`kvtui.stores.mysql.packets`. An answer is an OK packet, an error
packet, a prepared statement with its definitions, or rows with theirs.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

from msgspec import Struct

from kvtui.stores.mysql import packets
from kvtui.stores.mysql.packets import Prepared, Refusal, broken_protocol

_LONG: Final = struct.Struct("<q")


class Rows(Struct, frozen=True):
    """A result: packets of rows."""

    columns: int
    rows: list[bytes]


Answer: TypeAlias = int | Rows | Refusal | Prepared
"""Affected rows, rows, an error, or a prepared statement."""


class Answering:
    """Puts an answer together from its packets, one after the other."""

    def __init__(self, *, prepares: bool = False) -> None:
        self._prepares = prepares
        self._made: Prepared | None = None
        self._columns = 0
        self._blocks = 0
        """Lists of definitions that are still to end."""
        self._rows: list[bytes] | None = None

    def take(self, payload: bytes) -> Answer | None:
        """The answer when this packet is its last."""
        if self._rows is not None:
            return self._row(payload)
        if self._blocks:
            # Definitions; what the columns are is known from the statement.
            if packets.is_end(payload):
                self._blocks -= 1
                if self._made is not None:
                    return None if self._blocks else self._made
                self._rows = []
            elif payload[:1] in (b"\xff", b"\0", b""):
                raise broken_protocol("a result's columns are cut short")
            return None
        refused = packets.refusal(payload)
        if refused is not None:
            return refused
        if self._prepares:
            self._made = made = packets.prepared(payload)
            self._blocks = bool(made.parameters) + bool(made.columns)
            return None if self._blocks else made
        if packets.is_ok(payload):
            return packets.affected_rows(payload)
        self._columns, end = packets.read_number(payload, 0)
        if end != len(payload):
            raise broken_protocol("a result begins with no number of columns")
        self._blocks = 1
        return None

    def _row(self, payload: bytes) -> Answer | None:
        assert self._rows is not None
        if packets.is_end(payload):
            return Rows(self._columns, self._rows)
        refused = packets.refusal(payload)
        if refused is not None:
            return refused
        if not packets.is_ok(payload):
            raise broken_protocol("a row begins with no row's byte")
        self._rows.append(payload)
        return None


def fields(answer: Rows, shapes: str) -> list[tuple[Any, ...]]:
    """The rows' fields: ``b`` for bytes, ``n`` for a 64-bit number; none is NULL."""
    if answer.columns != len(shapes):
        raise broken_protocol(f"{answer.columns} columns came instead of {len(shapes)}")
    found: list[tuple[Any, ...]] = []
    for row in answer.rows:
        if row[1:2] != b"\0":  # the null bitmap; two bits of it are never used
            raise broken_protocol("a row holds no value where one belongs")
        at, values = 2, []
        for shape in shapes:
            value: bytes | int
            if shape == "b":
                value, at = packets.read_text(row, at)
            elif at + 8 <= len(row):
                (value,) = _LONG.unpack_from(row, at)
                at += 8
            else:
                raise broken_protocol("a row ends too early")
            values.append(value)
        if at != len(row):
            raise broken_protocol("a row is longer than what it holds")
        found.append(tuple(values))
    return found
