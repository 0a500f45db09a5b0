"""The machine while a run goes on: CPUs, memory and disks, once a second."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from kvtui.engine import kernel
from kvtui.runs.events import System

_IGNORED_DEVICES: Final = ("loop", "ram", "zram", "sr", "fd")
_BLOCK: Final = Path("/sys/block")


class Sampler:
    """Differences since the last sample; the first one only sets the base."""

    def __init__(self) -> None:
        self._cpus = sorted(os.sched_getaffinity(0))
        self._last_cpu: list[Any] = psutil.cpu_times(percpu=True)
        self._devices = whole_devices(_BLOCK)
        self._last_disks = self._disks()
        self._last_counters = kernel.read(self._devices)

    def sample(self, at_s: float, length_s: float) -> System:
        """The machine over the last ``length_s`` seconds."""
        now: list[Any] = psutil.cpu_times(percpu=True)
        busy, waiting = [], []
        for cpu in self._cpus:
            if cpu < len(now) and cpu < len(self._last_cpu):
                busy_share, wait_share = _shares(self._last_cpu[cpu], now[cpu])
                busy.append(busy_share)
                waiting.append(wait_share)
        self._last_cpu = now
        disks = self._disks()
        rates = {
            name: _disk_rates(self._last_disks[name], counters, length_s)
            for name, counters in disks.items()
            if name in self._last_disks
        }
        self._last_disks = disks
        before, self._last_counters = self._last_counters, kernel.read(self._devices)
        return System(
            at_s=at_s,
            cpu_busy=sum(busy) / len(busy) if busy else 0.0,
            cpus=float(len(self._cpus)),
            cores=tuple(round(share, 3) for share in busy),
            iowait=sum(waiting) / len(waiting) if waiting else 0.0,
            memory_used_bytes=int(psutil.virtual_memory().used),
            disks=rates,
            vmstat=kernel.vmstat(before, self._last_counters, length_s),
            iostat=kernel.iostat(before, self._last_counters, length_s),
        )

    def _disks(self) -> dict[str, tuple[int, int, int]]:
        try:
            counters: Mapping[str, Any] = psutil.disk_io_counters(perdisk=True) or {}
        except (OSError, RuntimeError, NotImplementedError, ValueError):
            return {}  # A container without diskstats: no figure, not a zero.
        return {
            name: (each.read_bytes, each.write_bytes, getattr(each, "busy_time", 0))
            for name, each in counters.items()
            if name in self._devices
        }


def _shares(before: Any, after: Any) -> tuple[float, float]:
    spent = {
        name: max(0.0, getattr(after, name) - getattr(before, name))
        for name in before._fields
        if not name.startswith("guest")  # already inside user and nice
    }
    total = sum(spent.values())
    if total <= 0:
        return 0.0, 0.0
    waiting = spent.get("iowait", 0.0)
    idle = spent.get("idle", 0.0) + waiting
    return (total - idle) / total, waiting / total


def _disk_rates(
    before: tuple[int, int, int], after: tuple[int, int, int], length_s: float
) -> tuple[float, float, float]:
    read, written, busy_ms = (a - b for a, b in zip(after, before, strict=True))
    if length_s <= 0 or read < 0 or written < 0 or busy_ms < 0:
        return 0.0, 0.0, 0.0  # The device came anew; this sample is its base.
    return read / length_s, written / length_s, min(1.0, busy_ms / 1000 / length_s)


def whole_devices(block: Path) -> frozenset[str]:
    """Physical disks, each once: no partitions, no loops, nothing that is made of
    other devices (dm, md)."""
    try:
        names: Iterable[str] = os.listdir(block)
    except OSError:
        return frozenset()
    found = set()
    for name in names:
        if name.rstrip("0123456789") in _IGNORED_DEVICES:
            continue
        try:
            made_of_others = any((block / name / "slaves").iterdir())
        except OSError:
            made_of_others = False
        if not made_of_others:
            found.add(name)
    return frozenset(found)


def process_cpu_s(process_id: int | None) -> float | None:
    """CPU time a process has used; None when it cannot be told."""
    if process_id is None:
        return None
    try:
        times = psutil.Process(process_id).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def process_started_s(process_id: int) -> float | None:
    """When a living process was started, in seconds since the machine was, which no
    change of the clock moves; None where there is none."""
    try:
        booted = psutil.boot_time()
        process = psutil.Process(process_id)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return float(process.create_time() - booted)
    except (psutil.Error, OSError, ValueError, OverflowError):
        return None


def machine() -> dict[str, str]:
    """The machine in words, for the snapshot."""
    name = os.uname()
    return {
        "system": f"{name.sysname} {name.release}",
        "architecture": name.machine,
        "cpus": str(len(os.sched_getaffinity(0))),
        "cpu": _cpu_model(),
        "memory_bytes": str(psutil.virtual_memory().total),
    }


def _cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
