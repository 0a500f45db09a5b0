"""Values that tell whose they are: made and compared in batches, by numpy.

A value is one opaque piece of ``value_bytes``::

    record   8 bytes   the record's number: its key
    version  8 bytes   2 as loaded or inserted, 3 + k as written by operation k
    checksum 8 bytes   of both and of the CRC-32 of the body
    body               a window of random bytes, then zeros (``compress_ratio``)

all little-endian. The window is found from record and version, out of 4 MB that are
drawn from the seed: so a body repeats within the reach of a store's compressor hardly
ever, costs a copy, and can be compared byte by byte with what it must be.
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvtui.jobs.ycsb.parameters import HEADER_BYTES

Numbers = NDArray[np.uint64]

_POOL: Final = 1 << 22
_MOST_WINDOWS_BITS: Final = 16
_LEAST_WINDOWS_BITS: Final = 10
_CHECKED_BYTES: Final = 1 << 27
"""So much is read, at most, to know the CRC-32 of every window."""
_BY_RECORD: Final = np.uint64(0x9E3779B97F4A7C15)
_BY_VERSION: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_BY_BODY: Final = np.uint64(0x165667B19E3779F9)
"""Odd, and far from round: the golden ratio's, and two primes of xxHash."""


class Values:
    """Values of one size, for one seed."""

    def __init__(
        self, value_bytes: int, *, compress_ratio: float = 1.0, seed: int = 1
    ) -> None:
        self.size = value_bytes
        body = value_bytes - HEADER_BYTES
        self._random = min(
            body, max(0, round(compress_ratio * value_bytes) - HEADER_BYTES)
        )
        windows_bits = _MOST_WINDOWS_BITS
        while (
            windows_bits > _LEAST_WINDOWS_BITS
            and self._random << windows_bits > _CHECKED_BYTES
        ):
            windows_bits -= 1
        self._shift = np.uint64(64 - windows_bits)
        number = 1 << windows_bits
        step = _POOL // number
        pool = np.random.default_rng([seed, 0]).bytes(_POOL + self._random)
        whole, crc, length = memoryview(pool), zlib.crc32, self._random
        starts = range(0, _POOL, step)
        crcs = [crc(whole[start : start + length]) for start in starts]
        self._checksums = np.array(crcs, np.uint64) * _BY_BODY
        self._windows: NDArray[Any] | None = None
        fields: list[tuple[str, str]] = [
            ("record", "<u8"),
            ("version", "<u8"),
            ("checksum", "<u8"),
        ]
        if self._random:
            kind = f"V{self._random}"
            self._windows = np.ndarray((number,), kind, pool, strides=(step,))
            fields.append(("body", kind))
        if body > self._random:
            fields.append(("zeros", f"V{body - self._random}"))
        self._kind = np.dtype(fields)
        self._zeros = b"\0" * (body - self._random)

    def array(self, records: Numbers, versions: Numbers) -> NDArray[Any]:
        """Values as they must be: a structured array, one row a value."""
        made = np.empty(len(records), self._kind)
        mixed = records * _BY_RECORD + versions * _BY_VERSION
        windows = (mixed >> self._shift).astype(np.int64)
        made["record"] = records
        made["version"] = versions
        made["checksum"] = mixed ^ self._checksums[windows]
        if self._windows is not None:
            made["body"] = self._windows[windows]
        if self._zeros:
            made["zeros"] = np.void(self._zeros)
        return made

    def make(self, records: Numbers, versions: Numbers) -> list[bytes]:
        """The same as bytes to be written."""
        made = self.array(records, versions)
        found: list[bytes] = made.view(f"V{self.size}").tolist()
        return found

    def read(self, values: bytes) -> NDArray[Any]:
        """Values that a store gave, one after the other, as such an array."""
        return np.frombuffer(values, self._kind)
