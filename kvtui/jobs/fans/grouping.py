"""Brings together the rows of each person, wherever they are in the file.

Memory is bounded, not the whole file: rows go to 64 partitions by a hash of the
person, small ones in RAM, larger ones in unnamed temporary files (mode 0600,
gone with the process). Then one partition at a time is grouped in RAM and
written out in order of first appearance, and the 64 results are merged in that
order. So the peak is about a sixty-fourth of the file as Python objects plus 32
MiB of buffers; temporary disk space is about twice the unpacked file at worst.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from typing import IO

import msgspec

from kvtui.errors import DataError
from kvtui.jobs.fans.compressed import Damaged

_PARTITIONS = 64
_SPOOL_BYTES = 2**18

Run = tuple[str, list[str]]
"""A person and the pages on neighbouring rows of that person."""


def grouped(runs: Iterator[Run], first: int | None = None) -> Iterator[list[str]]:
    """The distinct pages of each person, people in order of first appearance.

    With ``first`` only the first so many people count, with all of their rows;
    then their names are held in RAM, too. A ``Damaged`` that ends the runs goes
    on to the caller with the number of people read until then.
    """
    spools = [_spool() for _ in range(_PARTITIONS)]
    try:
        with _disk_words():
            try:
                _partition(runs, first, spools)
            except Damaged as damage:
                damage.profiles = sum(1 for _ in _merged(spools))
                raise
        yield from _merged(spools)
    finally:
        for spool in spools:
            spool.close()


def _partition(runs: Iterator[Run], first: int | None, spools: list[IO[bytes]]) -> None:
    wanted: set[str] = set()
    encode = msgspec.msgpack.encode
    for order, (person, pages) in enumerate(runs):
        if first is not None and person not in wanted:
            if len(wanted) >= first:
                continue
            wanted.add(person)
        record = encode((order, person, pages))
        spool = spools[hash(person) % _PARTITIONS]
        spool.write(len(record).to_bytes(4, "big"))
        spool.write(record)


def _merged(spools: list[IO[bytes]]) -> Iterator[list[str]]:
    for number, spool in enumerate(spools):
        with _disk_words():
            people: dict[str, tuple[int, dict[str, None]]] = {}
            for order, person, pages in _records(spool):
                known = people.setdefault(person, (order, {}))
                known[1].update(dict.fromkeys(pages))
            spool.close()
            result = _spool()
            # A dict keeps the order of first appearance.
            for order, distinct in people.values():
                record = msgspec.msgpack.encode((order, "", list(distinct)))
                result.write(len(record).to_bytes(4, "big"))
                result.write(record)
            spools[number] = result
    for _, _, pages in heapq.merge(
        *map(_records, spools), key=lambda record: record[0]
    ):
        yield pages


def _records(spool: IO[bytes]) -> Iterator[tuple[int, str, list[str]]]:
    decode = msgspec.msgpack.Decoder(tuple[int, str, list[str]]).decode
    spool.seek(0)
    while size := spool.read(4):
        yield decode(spool.read(int.from_bytes(size, "big")))


def _spool() -> IO[bytes]:
    return tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)


class _disk_words:
    """Says in plain words that the temporary disk space did not suffice."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, OSError):
            raise DataError(
                f"grouping the rows by person needs temporary disk space: "
                f"{error.strerror or error}",
                hint=f"Free some space in {tempfile.gettempdir()}, or point TMPDIR "
                "to a larger disk.",
            ) from error
