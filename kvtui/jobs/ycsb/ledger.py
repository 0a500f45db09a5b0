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

    def __init__(self, path: Path | None, records: int, operations: int) -> None:
        """``path`` is a file that every worker opens; None where there is only one."""
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
