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

LONGEST: Final = 2048
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
    operations: list[Operation]
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
        self._gets: Objects = np.zeros(0, np.object_)
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
            self._gets = _objects(list(map(Get, names)))

    def gets(self, records: Records) -> list[Operation]:
        """A get of each record."""
        found: list[Operation] = self._get_objects(records).tolist()
        return found

    def puts(self, records: Records, versions: Any = FIRST) -> list[Operation]:
        """A put of each record, in its first version or in those given."""
        of_each = np.broadcast_to(np.asarray(versions, np.uint64), records.shape)
        values = self.values.make(records.astype(np.uint64), of_each)
        return list(map(Put, self._key_list(records), values))

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
        scanning = kinds == SCAN
        inserting = kinds == INSERT
        writing = (kinds == UPDATE) | inserting | second
        reading = ~writing
        if not len(lengths):
            lengths = np.zeros(len(kinds), np.int64)
        lengths = np.where(scanning, lengths, 0)
        if not writing.any() and not scanning.any():
            none = np.zeros(len(kinds), np.int64)
            gets = self.gets(records)
            return Rows(units, gets, records, reading, False, none, none, lengths)
        made = np.empty(len(kinds), np.object_)
        getting = reading & ~scanning
        made[getting] = self._get_objects(records[getting])
        if scanning.any():
            scans = map(
                Scan,
                self._key_list(records[scanning]),
                lengths[scanning].tolist(),
            )
            made[scanning] = _objects(list(scans))
        versions = np.where(inserting, FIRST, numbers + WRITTEN)
        if writing.any():
            made[writing] = _objects(self.puts(records[writing], versions[writing]))
        versions[reading] = 0
        numbers[inserting] = self._nobody
        numbers[reading] = twice[reading]
        return Rows(
            units,
            made.tolist(),
            records,
            reading,
            True,
            versions,
            numbers,
            lengths,
        )

    def _get_objects(self, records: Records) -> Objects:
        if self._is_known(records):
            return self._gets[records]
        return _objects(list(map(Get, self.keys.names(records).tolist())))

    def _key_list(self, records: Records) -> list[bytes]:
        names = self._names if self._is_known(records) else None
        found: list[bytes] = (
            self.keys.names(records) if names is None else names[records]
        ).tolist()
        return found

    def _is_known(self, records: Records) -> bool:
        known = len(self._names)
        return known > 0 and (len(records) == 0 or int(records.max()) < known)


def _objects(made: list[Any]) -> Objects:
    return np.fromiter(made, np.object_, len(made))
