"""A run's rows in the layouts of vmstat (procps 4) and ``iostat -x`` (sysstat 12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kvtui.runs.events import Iostat, System, Vmstat

_VMSTAT_HEADS: Final = (
    "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----",
    " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st",
)
_VMSTAT_ROW: Final = (
    "{:2d} {:2d} {:6d} {:6d} {:6d} {:6d} {:4d} {:4d} {:5d} {:5d} {:4d} {:4d}"
    " {:2d} {:2d} {:2d} {:2d} {:2d}"
)
_HEADS_EVERY: Final = 22
_DIRECTION_HEAD: Final = (
    "     {0}/s     {0}kB/s   {0}rqm/s  %{0}rqm {0}_await {0}areq-sz"
)
_IOSTAT_HEAD: Final = (
    f"{'Device':<13}"
    + "".join(_DIRECTION_HEAD.format(letter) for letter in "rwd")
    + "     f/s f_await  aqu-sz  %util"
)


def vmstat_lines(rows: Iterable[System]) -> Iterator[str]:
    """One row a second, the heads again as on a screen. A second of which the kernel
    told nothing, or that an older kvtui recorded, has no row."""
    number = 0
    for row in rows:
        if row.vmstat is None:
            continue
        if number % _HEADS_EVERY == 0:
            yield from _VMSTAT_HEADS
        number += 1
        yield _vmstat_line(row.vmstat)


def _vmstat_line(row: Vmstat) -> str:
    return _VMSTAT_ROW.format(
        *(row.running, row.blocked),
        *(row.swapped_kib, row.free_kib, row.buffers_kib, row.cache_kib),
        *(row.swapped_in_kib_s, row.swapped_out_kib_s),
        *(row.read_kib_s, row.written_kib_s),
        *(row.interrupts_s, row.switches_s),
        *(row.user, row.system, row.idle, row.iowait, row.steal),
    )


def iostat_lines(rows: Iterable[System]) -> Iterator[str]:
    """A block a second, a line a device."""
    for row in rows:
        if row.iostat:
            yield _IOSTAT_HEAD
            for name, device in sorted(row.iostat.items()):
                yield _iostat_line(name, device)
            yield ""


def _iostat_line(name: str, row: Iostat) -> str:
    return (
        f"{name:<13}"
        + _direction(row.reads_s, row.read_kib_s, row.reads_merged_s, row.read_wait_ms)
        + _direction(
            row.writes_s, row.written_kib_s, row.writes_merged_s, row.write_wait_ms
        )
        + _direction(
            row.discards_s,
            row.discarded_kib_s,
            row.discards_merged_s,
            row.discard_wait_ms,
        )
        + f"{row.flushes_s:8.2f}{row.flush_wait_ms:8.2f}{row.queue:8.2f}{row.busy:7.2f}"
    )


def _direction(number_s: float, kib_s: float, merged_s: float, wait_ms: float) -> str:
    asked = number_s + merged_s
    merged = 100 * merged_s / asked if asked else 0.0
    size_kib = kib_s / number_s if number_s else 0.0
    return (
        f"{number_s:8.2f}{kib_s:10.2f}{merged_s:9.2f}{merged:7.2f}{wait_ms:8.2f}"
        f"{size_kib:9.2f}"
    )
