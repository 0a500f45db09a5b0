"""Operations made ahead of their turn, a slice at a time.

Making one operation by itself would cost more than asking a fast store for it. Numpy
makes many at the price of one call; but while it does, no other client of the same
worker can be served, so the slices are shorter the more clients there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvtui.jobs.ycsb.keys import Keys, Records
from kvtui.jobs.ycsb.ledger import FIRST, WRITTEN
from kvtui.jobs.ycsb.parameters import YcsbParameters
from kvtui.jobs.ycsb.stream import INSERT, RMW, SCAN, UPDATE, Draws
from kvtui.jobs.ycsb.values import Values
from kvtui.stores.operations import Get, Operation, Put, Scan

LONGEST: Final = 4096
SHORTEST: Final = 64
ROOM_BYTES: Final = 1 << 26
"""For the values that a worker has made and not yet written, or read and not yet
compared."""
KNOWN_AHEAD: Final = 1 << 18
"""Up to so many records, their gets and keys are made once and kept: some 40 MB."""

Objects = NDArray[np.object_]


class Rows(NamedTuple):
    """A slice of one client's operations; a read-modify-write is two of them."""

    units: int
    """How many operations of the workload they are."""
    keys: list[bytes]
    values: list[bytes | None]
    """What to put; None where it is a get or a scan."""
    records: Records
    reading: NDArray[np.bool_]
    """Which get or scan."""
    writes: bool
    """Whether there is any other."""
    versions: NDArray[np.int64]
    """What a write writes; 0 for what reads."""
    numbers: NDArray[np.int64]
    """Of a write, where its predecessor is kept; of a read, 1 where its record is
    written back."""
    lengths: Records
    """Of the scans; 0 for others."""

    def operations(self) -> list[Operation]:
        """Each by itself."""
        if not self.lengths.any():
            return [
                Get(key) if value is None else Put(key, value)
                for key, value in zip(self.keys, self.values, strict=True)
            ]
        return [
            Put(key, value)
            if value is not None
            else Scan(key, length)
            if length
            else Get(key)
            for key, value, length in zip(
                self.keys, self.values, self.lengths.tolist(), strict=True
            )
        ]


class Batches:
    """Makes operations for the clients of one worker."""

    def __init__(self, given: YcsbParameters, namespace: str) -> None:
        self._given, self._namespace = given, namespace
        self.keys = Keys(
            namespace,
            hashed=given.insert_order == "hashed",
            zero_padding=given.zero_padding,
        )
        self.slice_size = SHORTEST
        self._names: Objects = np.zeros(0, np.object_)
        self._nobody = 0
        self.values: Values

    def begin(self, clients: int, *, writes: int, scans: bool) -> None:
        """Make what can be made once. ``writes``: how many the ledger has room for."""
        given = self._given
        self.values = Values(
            given.value_bytes, compress_ratio=given.compress_ratio, seed=given.seed
        )
        each = given.value_bytes * (given.scan_longest if scans else 1)
        fair = ROOM_BYTES // (2 * clients * each)
        self.slice_size = max(1, min(max(SHORTEST, LONGEST // max(1, clients)), fair))
        self._nobody = writes
        if given.records <= KNOWN_AHEAD:
            names = self.keys.names(np.arange(given.records)).tolist()
            self._names = _objects(names)

    def names(self, records: Records) -> list[bytes]:
        """The key of each record."""
        known = len(self._names)
        found: list[bytes]
        if known and len(records) and int(records.max()) < known:
            found = self._names[records].tolist()
        else:
            found = self.keys.names(records).tolist()
        return found

    def first_values(self, records: Records) -> list[bytes]:
        """Of each record, as it is loaded."""
        first = np.full(len(records), FIRST, np.uint64)
        return self.values.make(records.astype(np.uint64), first)

    def rows(self, draws: Draws, client: int) -> Iterator[Rows]:
        """The slices of a batch of draws, made as they are asked for."""
        for start in range(0, len(draws.kinds), self.slice_size):
            chosen = slice(start, start + self.slice_size)
            yield self._rows(
                draws.kinds[chosen],
                draws.records[chosen],
                draws.lengths[chosen],
                client + self._given.clients * (draws.first + start),
            )

    def _rows(
        self,
        kinds: NDArray[np.uint8],
        records: Records,
        lengths: Records,
        first_number: int,
    ) -> Rows:
        units = len(kinds)
        numbers = first_number + self._given.clients * np.arange(units, dtype=np.int64)
        twice = kinds == RMW
        second = np.zeros(units, np.bool_)
        if twice.any():
            order = np.repeat(np.arange(units), twice + 1)
            second = np.zeros(len(order), np.bool_)
            second[1:] = order[1:] == order[:-1]
            kinds, records, numbers = kinds[order], records[order], numbers[order]
            lengths = lengths[order] if len(lengths) else lengths
            twice = twice[order]
        inserting = kinds == INSERT
        writing = (kinds == UPDATE) | inserting | second
        reading = ~writing
        if len(lengths):
            lengths = np.where(kinds == SCAN, lengths, 0)
        else:
            lengths = np.zeros(len(kinds), np.int64)
        keys = self.names(records)
        none: list[bytes | None] = [None] * len(kinds)
        if not writing.any():
            zeros = np.zeros(len(kinds), np.int64)
            numbers = np.where(twice, 1, 0)
            return Rows(
                *(units, keys, none, records, reading, False, zeros, numbers, lengths)
            )
        versions = numbers + WRITTEN
        if inserting.any():
            versions[inserting] = FIRST
            numbers[inserting] = self._nobody
        at = np.flatnonzero(writing)
        made = self.values.make(
            records[at].view(np.uint64), versions[at].view(np.uint64)
        )
        values = np.full(len(kinds), None, np.object_)
        values[at] = _objects(made)
        versions *= writing
        np.copyto(numbers, twice, where=reading)
        return Rows(
            *(units, keys, values.tolist(), records, reading, True),
            *(versions, numbers, lengths),
        )


def _objects(made: list[Any]) -> Objects:
    return np.fromiter(made, np.object_, len(made))
