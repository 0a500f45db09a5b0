"""What a profile file holds, counted exactly in bounded memory.

Page ids are counted in RAM until there are ``_IDS_IN_RAM`` of them; then all go to
one of ``_PARTITIONS`` temporary files by their hash, and counting begins anew. In
the end each file is counted by itself. So the peak is the larger of that many ids
and of one partition's, whatever the number of profiles. The temporary files have
no name, are readable by nobody else (mode 0600) and vanish with the process.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from heapq import nsmallest
from itertools import accumulate
from pathlib import Path
from typing import IO

import msgspec

from kvtui.errors import DataError
from kvtui.jobs.fans.names import readable_name
from kvtui.jobs.fans.profiles import BadLine, ProfileFile

__all__ = ["DataSummary", "PageFans", "summarise"]

TOP_PAGES = 10

_IDS_IN_RAM = 200_000
_PARTITIONS = 128


class PageFans(msgspec.Struct, frozen=True):
    """A page, its readable name ("" when there is none) and its fans."""

    page: str
    name: str
    fans: int


class DataSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a profile file; None where there is nothing to measure.

    Quantiles of the list length interpolate between neighbours (type 7 of Hyndman
    and Fan, the default of numpy and R). Profiles without a page count with 0.
    """

    path: str
    format: str
    compression: str | None
    encoding: str
    lines: int
    profiles: int
    empty_profiles: int
    memberships: int
    """Distinct (profile, page) pairs."""
    pages: int
    pages_with_one_fan: int
    mean_fans: float | None
    """Fans a page."""
    mean_length: float | None
    """Pages a profile; so are the next three."""
    median_length: float | None
    p90_length: float | None
    max_length: int | None
    top: list[PageFans]
    """The pages with most fans; equals in order of their ids."""
    bad_lines: int
    first_bad: list[BadLine]


def summarise(
    source: ProfileFile,
    scratch: Path | None = None,
    names: Mapping[str, str] | None = None,
) -> DataSummary:
    """Reads the file once and counts.

    ``scratch`` is the directory for temporary files, by default the system's.
    Names come from ``names``, else from the file itself, else from the address.
    DataError when the file cannot be read to its end or the scratch space ends.
    """
    lengths: Counter[int] = Counter()
    pages = ones = memberships = 0
    top: list[tuple[int, str]] = []
    with ExitStack() as stack:
        for page_fans in _fans(source, scratch, lengths, stack):
            pages += len(page_fans)
            counts = page_fans.values()
            ones += sum(1 for count in counts if count == 1)
            memberships += sum(counts)
            top = nsmallest(
                TOP_PAGES,
                [*top, *((-count, page) for page, count in page_fans.items())],
            )
    profiles = lengths.total()
    given = names or {}
    return DataSummary(
        path=str(source.path),
        format=source.format,
        compression=source.compression,
        encoding=source.encoding,
        lines=source.lines,
        profiles=profiles,
        empty_profiles=lengths[0],
        memberships=memberships,
        pages=pages,
        pages_with_one_fan=ones,
        mean_fans=memberships / pages if pages else None,
        mean_length=memberships / profiles if profiles else None,
        median_length=_quantile(lengths, 0.5),
        p90_length=_quantile(lengths, 0.9),
        max_length=max(lengths, default=None),
        top=[
            PageFans(
                page,
                given.get(page) or source.names.get(page) or readable_name(page),
                -count,
            )
            for count, page in top
        ],
        bad_lines=source.bad_lines,
        first_bad=list(source.first_bad),
    )


def _fans(
    source: ProfileFile,
    scratch: Path | None,
    lengths: Counter[int],
    stack: ExitStack,
) -> Iterator[dict[str, int]]:
    """Fans of each page, in parts that have no page in common."""
    files: list[IO[bytes]] = []
    fans: Counter[str] = Counter()
    try:
        for profile in source:
            lengths[len(profile)] += 1
            fans.update(profile)
            if len(fans) >= _IDS_IN_RAM:
                if not files:
                    files = [
                        # SIM115 does not see that the stack closes it.
                        stack.enter_context(
                            tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115
                        )
                        for _ in range(_PARTITIONS)
                    ]
                _spill(fans, files)
                fans = Counter()
        if not files:
            yield fans
            return
        _spill(fans, files)
        del fans
        for file in files:
            yield _gathered(file)
    except OSError as error:
        place = scratch or tempfile.gettempdir()
        raise DataError(
            f"counting the pages of {source.path} needs temporary disk space: "
            f"{error.strerror or error}",
            hint=f"Free some space in {place}, or point TMPDIR to a larger disk.",
        ) from error


def _spill(fans: Counter[str], files: list[IO[bytes]]) -> None:
    parts: list[dict[str, int]] = [{} for _ in files]
    for page, count in fans.items():
        parts[hash(page) % _PARTITIONS][page] = count
    for part, file in zip(parts, files, strict=True):
        block = msgspec.msgpack.encode(part)
        file.write(len(block).to_bytes(8, "big"))
        file.write(block)


def _gathered(file: IO[bytes]) -> dict[str, int]:
    """The fans in one partition; closes it, which frees its disk space."""
    decode = msgspec.msgpack.Decoder(dict[str, int]).decode
    fans: dict[str, int] = {}
    file.seek(0)
    while size := file.read(8):
        for page, count in decode(file.read(int.from_bytes(size, "big"))).items():
            fans[page] = fans.get(page, 0) + count
    file.close()
    return fans


def _quantile(lengths: Counter[int], share: float) -> float | None:
    total = lengths.total()
    if not total:
        return None
    ordered = sorted(lengths)
    upto = list(accumulate(lengths[length] for length in ordered))

    def at(position: int) -> int:
        return next(
            length
            for length, count in zip(ordered, upto, strict=True)
            if position < count
        )

    place = share * (total - 1)
    low = int(place)
    below, above = at(low), at(min(low + 1, total - 1))
    return below + (place - low) * (above - below)
