"""Who wrote what, and what the store has acknowledged: shared by all clients.

For each record the *entry* of the write that was acknowledged last, and for each write
the entry that its record had when it began. That is enough to tell a stale value from
one that only was written at the same time as another: a write is *overtaken* once
another one that began after its acknowledgement is acknowledged itself; those form a
chain from each entry back to the record's first version. What is not on the chain was
written at the same time as something on it, and a store may order the two as it likes.

An entry is a number: the version in its low bits, and above it how long the chain is.
Reading and writing one is a single machine word, in memory that all workers map; the
processes need no lock. (A write that ends late may set its record back to a shorter
chain. Then less is told to be stale than could be, never more.)
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

Entries = NDArray[np.uint64]

VERSION_BITS: Final = 36
STEP: Final = 1 << VERSION_BITS
CHAIN: Final = (1 << 64) - STEP
"""The bits that say how long the chain is."""
MAYBE: Final = 1
"""The entry of a record whose insert failed: it may be there or not."""
FIRST: Final = 2
"""The version that is loaded or inserted, and its entry."""
WRITTEN: Final = 3
"""The version that operation number 0 writes."""


class Ledger:
    """Entries of ``records`` records, and of the writes among ``operations``."""

    def __init__(
        self,
        path: Path | None,
        records: int,
        operations: int,
        *,
        alone: bool = False,
    ) -> None:
        """``path`` is a file that every worker opens; None where there is only one.
        ``alone``: there is only one client, whose versions are in the order of time;
        an entry is a version then, without a chain."""
        self.alone = alone
        self.doubtful: set[int] = set()
        """Records whose insert has failed, and may yet come to pass; told only where
        there are no chains, which tell it themselves."""
        size = 8 * (records + operations + 1)
        if path is None:
            self._memory = mmap.mmap(-1, size)
        else:
            file = os.open(path, os.O_RDWR)
            try:
                os.ftruncate(file, size)
                self._memory = mmap.mmap(file, size)
            finally:
                os.close(file)
        words = memoryview(self._memory).cast("Q")
        self.entries = words[:records]
        """By record; 0 for one that nobody has inserted."""
        self.before = words[records:]
        """By operation: the entry that the record had when it began, 0 if it has not
        begun. One more than there are operations, for writes that nobody looks up."""
        self.entry_array: Entries = np.frombuffer(self.entries, np.uint64)
        self.before_array: Entries = np.frombuffer(self.before, np.uint64)

    def is_overtaken(self, version: int, entry: int) -> bool:
        """Whether ``version`` is on the chain of ``entry``, and not its own."""
        length = self.chain(version)
        while entry >> VERSION_BITS > length:
            entry = self.before[(entry & (STEP - 1)) - WRITTEN]
        return entry & (STEP - 1) == version

    def chain(self, version: int) -> int:
        """How long the chain of a version is that was begun."""
        if version < WRITTEN:
            return 0
        return (self.before[version - WRITTEN] >> VERSION_BITS) + 1

    def settle(
        self,
        records: NDArray[np.int64],
        versions: NDArray[np.int64],
        numbers: NDArray[np.int64],
        failed: NDArray[np.bool_] | None,
    ) -> Entries:
        """Enter what the only client has done, after it was done: ``versions`` are
        those that it wrote, in order, 0 where it read. Returns the entry that each
        record had at that moment: the version that was acknowledged last.

        Sorted by record and then by order, what was written to a record before stands
        right before it.
        """
        size = len(records)
        place = np.arange(size)
        bits = size.bit_length()
        ranks = records << bits | place
        if int(records.max()) < 1 << (31 - bits):  # Half as wide sorts twice as fast.
            ranks = ranks.astype(np.int32)
        order = (np.sort(ranks) & (1 << bits) - 1).astype(np.int64)
        record, version = records[order], versions[order]
        done = version > 0
        if failed is not None:
            done &= ~failed[order]
        ends = np.flatnonzero(done)
        earlier: NDArray[np.int64] = np.cumsum(done) - done
        last = np.concatenate((ends[:1], ends))[earlier] if len(ends) else earlier
        known = self.entry_array[record].astype(np.int64)
        again = (earlier > 0) & (record[last] == record)
        known[again] = version[last[again]]
        self.before_array[numbers[versions > 0]] = FIRST
        if failed is not None:  # It may yet come to pass, at any time.
            self.before_array[numbers[(versions > 0) & failed]] = MAYBE
        self.entry_array[record[ends]] = version[ends]  # Of several, the last stays.
        entries = np.empty(size, np.uint64)
        entries[order] = known
        return entries
