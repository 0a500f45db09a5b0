"""Values carry what they must, and compress as stated."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from kvtui.jobs.ycsb.values import Values


def made(values: Values, number: int, version: int = 2) -> list[bytes]:
    """Values of the first records."""
    records = np.arange(number, dtype=np.uint64)
    return values.make(records, np.full(number, version, np.uint64))


@pytest.mark.parametrize("size", [24, 25, 100, 1000, 4096, 100_000])
@pytest.mark.parametrize("compress_ratio", [1.0, 0.5, 0.0])
def test_size_record_version_and_checksum(size: int, compress_ratio: float) -> None:
    values = Values(size, compress_ratio=compress_ratio)
    for number, value in enumerate(made(values, 5, 77)):
        assert type(value) is bytes
        assert len(value) == size
        record, version, checksum = struct.unpack_from("<QQQ", value)
        assert (record, version) == (number, 77)
        random = max(0, round(compress_ratio * size) - 24)
        body = value[24 : 24 + random]
        mixed = (record * 0x9E3779B97F4A7C15 + version * 0xC2B2AE3D27D4EB4F) % 2**64
        assert checksum == mixed ^ (zlib.crc32(body) * 0x165667B19E3779F9) % 2**64
        assert not value[24 + random :].strip(b"\0")


@pytest.mark.parametrize("size", [1000, 4096])
def test_many_values_together_compress_as_stated(size: int) -> None:
    for compress_ratio in (1.0, 0.75, 0.5, 0.25):
        values = Values(size, compress_ratio=compress_ratio)
        joined = b"".join(made(values, 2000))
        left = len(zlib.compress(joined, 6)) / len(joined)
        assert left == pytest.approx(compress_ratio, abs=0.03)


def test_versions_records_and_seeds_differ_everywhere() -> None:
    values, others = Values(1000), Values(1000, seed=2)
    bodies = {each[24:] for each in made(values, 500)}
    bodies |= {each[24:] for each in made(values, 500, 3)}
    bodies |= {each[24:] for each in made(others, 500)}
    assert len(bodies) > 1450  # Of 65,536 windows a few are met twice.
