"""What the kernel counts of the whole machine, read from /proc: the rows of vmstat and
of ``iostat -x``.

Meanings are those of procps 4 and sysstat 12: memory in KiB, swap and block traffic in
KiB a second, CPU shares in percent of all CPUs. Field order is that of proc(5) and of
the kernel's Documentation/admin-guide/iostats.rst.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kvtui.runs.events import Iostat, Vmstat

PROC: Final = Path("/proc")
_CPU_FIELDS: Final = 8
_SECTORS_PER_KIB: Final = 2
_DISK_FIELDS: Final = 17
"""Since Linux 5.5; older kernels have fewer, the last ones of which are then 0."""
_LEAST_DISK_FIELDS: Final = 11


class Counters(NamedTuple):
    """All of it at one moment; what cannot be read is empty."""

    cpu: tuple[int, ...]
    """user, nice, system, idle, iowait, irq, softirq, steal; in ticks."""
    stat: Mapping[str, int]
    vmstat: Mapping[str, int]
    meminfo: Mapping[str, int]
    """KiB."""
    disks: Mapping[str, tuple[int, ...]]


def read(devices: frozenset[str], proc: Path = PROC) -> Counters:
    """The counters now, of these devices only."""
    stat = _pairs(proc / "stat")
    words = _words(proc / "stat", "cpu")
    return Counters(
        tuple(int(word) for word in words[:_CPU_FIELDS]),
        stat,
        _pairs(proc / "vmstat"),
        _pairs(proc / "meminfo"),
        _disks(proc / "diskstats", devices),
    )


def vmstat(before: Counters, after: Counters, length_s: float) -> Vmstat | None:
    """What vmstat would print for the time between; None where the kernel tells
    nothing of it, or not for so long."""
    # The time in iowait may shrink (proc(5)).
    spent = [max(0, b - a) for a, b in zip(before.cpu, after.cpu, strict=False)]
    total = sum(spent)
    if len(spent) < _CPU_FIELDS or length_s <= 0 or total <= 0:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = spent
    memory, page_kib = after.meminfo, os.sysconf("SC_PAGE_SIZE") // 1024

    def rate(of: str, unit: int = 1) -> int:
        grown = after.vmstat.get(of, 0) - before.vmstat.get(of, 0)
        return max(0, round(grown * unit / length_s))

    def counted(of: str) -> int:
        return max(
            0, round((after.stat.get(of, 0) - before.stat.get(of, 0)) / length_s)
        )

    return Vmstat(
        running=after.stat.get("procs_running", 0),
        blocked=after.stat.get("procs_blocked", 0),
        swapped_kib=memory.get("SwapTotal", 0) - memory.get("SwapFree", 0),
        free_kib=memory.get("MemFree", 0),
        buffers_kib=memory.get("Buffers", 0),
        cache_kib=memory.get("Cached", 0) + memory.get("SReclaimable", 0),
        swapped_in_kib_s=rate("pswpin", page_kib),
        swapped_out_kib_s=rate("pswpout", page_kib),
        read_kib_s=rate("pgpgin"),
        written_kib_s=rate("pgpgout"),
        interrupts_s=counted("intr"),
        switches_s=counted("ctxt"),
        user=_percent(user + nice, total),
        system=_percent(system + irq + softirq, total),
        idle=_percent(idle, total),
        iowait=_percent(iowait, total),
        steal=_percent(steal, total),
    )


def iostat(before: Counters, after: Counters, length_s: float) -> dict[str, Iostat]:
    """What ``iostat -x`` would print for the time between, by device."""
    rows = {}
    for name, now in after.disks.items():
        then = before.disks.get(name)
        if then is None or length_s <= 0:
            continue
        change = [b - a for a, b in zip(then, now, strict=True)]
        in_flight = 8
        if any(each < 0 for place, each in enumerate(change) if place != in_flight):
            continue  # The device came anew; this sample is its base.
        rows[name] = _device(change, length_s)
    return rows


def _device(change: list[int], length_s: float) -> Iostat:
    reads, rmerged, rsectors, rms, writes, wmerged, wsectors, wms = change[:8]
    _, busy_ms, weighted_ms, discards, dmerged, dsectors, dms, flushes, fms = change[8:]
    return Iostat(
        *_direction(reads, rmerged, rsectors, rms, length_s),
        *_direction(writes, wmerged, wsectors, wms, length_s),
        *_direction(discards, dmerged, dsectors, dms, length_s),
        flushes_s=flushes / length_s,
        flush_wait_ms=fms / flushes if flushes else 0.0,
        queue=weighted_ms / 1000 / length_s,
        busy=min(100.0, busy_ms / 10 / length_s),
    )


def _direction(
    number: int, merged: int, sectors: int, ms: int, length_s: float
) -> tuple[float, float, float, float]:
    """Requests, KiB and merged requests a second, and the mean wait in ms."""
    return (
        number / length_s,
        sectors / _SECTORS_PER_KIB / length_s,
        merged / length_s,
        ms / number if number else 0.0,
    )


def _percent(part: int, total: int) -> int:
    return (100 * part + total // 2) // total


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return []  # A container may hide it: no figure, not a zero.


def _words(path: Path, name: str) -> list[str]:
    for line in _lines(path):
        words = line.split()
        if words and words[0] == name:
            return words[1:]
    return []


def _pairs(path: Path) -> dict[str, int]:
    """Name and first number of each line."""
    found = {}
    for line in _lines(path):
        words = line.split(None, 2)
        if len(words) >= 2 and words[1].isdecimal():
            found[words[0].rstrip(":")] = int(words[1])
    return found


def _disks(path: Path, devices: frozenset[str]) -> dict[str, tuple[int, ...]]:
    found = {}
    for line in _lines(path):
        _, _, name, *numbers = [*line.split(), "", "", ""][: 3 + _DISK_FIELDS]
        known = [int(number) for number in numbers if number.isdecimal()]
        if name in devices and len(known) >= _LEAST_DISK_FIELDS:
            known += [0] * (_DISK_FIELDS - len(known))
            found[name] = tuple(known[:_DISK_FIELDS])
    return found
