"""vmstat's and iostat's rows, from what the kernel counts."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from kvtui.engine import kernel, system
from kvtui.runs.events import Iostat, System, Vmstat
from kvtui.runs.sysstat import iostat_lines, vmstat_lines

QUIET = (0.0, 0.0, 0.0, 0.0)
PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024
STAT = """cpu  {user} 10 200 3000 40 5 6 7 0 0
cpu0 1 1 1 1 1 1 1 1 0 0
intr {intr} 0 0
ctxt {ctxt}
procs_running 3
procs_blocked 1
"""
MEMINFO = """MemTotal: 1000 kB
MemFree: 400 kB
Buffers: 20 kB
Cached: 100 kB
SwapTotal: 50 kB
SwapFree: 30 kB
SReclaimable: 11 kB
HugePages_Total:       0
"""
DISK = (
    "253 0 {name} 100 10 {sectors} 50 20 5 400 80 {in_flight} 300 900 4 2 64 8 6 12\n"
)


def told(proc: Path, later: bool = False) -> kernel.Counters:
    """The kernel's files in that folder, at the beginning or two seconds later."""
    proc.mkdir(exist_ok=True)
    user, intr, ctxt = (190, 5000, 9000) if later else (100, 1000, 2000)
    (proc / "stat").write_text(STAT.format(user=user, intr=intr, ctxt=ctxt))
    (proc / "meminfo").write_text(MEMINFO)
    swapped, paged = (8, 700) if later else (2, 100)
    (proc / "vmstat").write_text(
        f"pswpin {swapped}\npswpout 0\npgpgin {paged}\npgpgout 40\nnr_free_pages 1\n"
    )
    sectors = 800 if later else 200
    disks = "".join(
        DISK.format(name=name, sectors=sectors, in_flight=9 - 9 * later)
        for name in ("vda", "vda1", "loop0")
    )
    if later:
        disks = disks.replace(" 100 10 800 50 ", " 110 20 800 90 ", 1)
        disks = disks.replace(" 300 900 ", " 1300 2900 ", 1)
    (proc / "diskstats").write_text(disks)
    return kernel.read(frozenset({"vda"}), proc)


def test_a_row_of_vmstat_is_what_was_between(tmp_path: Path) -> None:
    row = kernel.vmstat(told(tmp_path), told(tmp_path, later=True), 2.0)
    assert row == Vmstat(
        *(3, 1),
        *(20, 400, 20, 111),
        *(3 * PAGE_KIB, 0, 300, 0),
        *(2000, 3500),
        *(100, 0, 0, 0, 0),
    )


def test_a_line_of_iostat_is_what_was_between(tmp_path: Path) -> None:
    before, after = told(tmp_path), told(tmp_path, later=True)
    assert set(after.disks) == {"vda"}
    rows = kernel.iostat(before, after, 2.0)
    assert rows == {
        "vda": Iostat(*(5.0, 150.0, 5.0, 4.0), *QUIET, *QUIET, 0.0, 0.0, 1.0, 50.0)
    }


def test_a_device_that_came_anew_has_no_line(tmp_path: Path) -> None:
    """Its counters begin again; rates below nothing are no figures."""
    after, before = told(tmp_path), told(tmp_path, later=True)
    assert kernel.iostat(before, after, 2.0) == {}


@pytest.mark.parametrize("length_s", [0.0, -1.0])
def test_no_time_has_no_row(tmp_path: Path, length_s: float) -> None:
    before, after = told(tmp_path), told(tmp_path, later=True)
    assert kernel.vmstat(before, after, length_s) is None
    assert kernel.iostat(before, after, length_s) == {}


def test_where_the_kernel_tells_nothing_there_is_nothing(tmp_path: Path) -> None:
    """A container may hide it all: no figure, not a zero."""
    nothing = kernel.read(frozenset({"vda"}), tmp_path / "missing")
    assert kernel.vmstat(nothing, nothing, 1.0) is None
    assert kernel.iostat(nothing, nothing, 1.0) == {}
    (tmp_path / "diskstats").write_text("253 0 vda 1 2 3\n253 0\n\nnonsense\n")
    (tmp_path / "stat").write_text("cpu  1 2 3\n")
    short = kernel.read(frozenset({"vda"}), tmp_path)
    assert kernel.vmstat(short, short, 1.0) is None
    assert short.disks == {}


def test_time_that_shrank_is_none(tmp_path: Path) -> None:
    """The kernel says so itself of iowait."""
    after, before = told(tmp_path), told(tmp_path, later=True)
    busier = after._replace(cpu=(*before.cpu[:3], before.cpu[3] + 50, 0, 5, 6, 7))
    row = kernel.vmstat(before, busier, 1.0)
    assert row is not None
    assert (row.user, row.idle, row.iowait) == (0, 100, 0)


def sample(vmstat: Vmstat | None, iostat: dict[str, Iostat]) -> System:
    """A second with these rows."""
    return System(1.0, 0.5, 2.0, vmstat=vmstat, iostat=iostat)


VMSTAT = Vmstat(
    5, 0, 0, 20877912, 46248, 2613788, 0, 0, 197, 1334, 1197, 5170, *[20] * 5
)


def test_the_layout_is_vmstats() -> None:
    """The heads again after every 22 rows, as on a screen of 24."""
    lines = list(vmstat_lines([sample(VMSTAT, {}), sample(None, {})] * 23))
    assert lines[0].startswith("procs -----------memory---------- ---swap--")
    names = "r b swpd free buff cache si so bi bo in cs us sy id wa st"
    assert " ".join(lines[1].split()) == names
    assert lines[2] == (
        " 5  0      0 20877912  46248 2613788    0    0   197  1334 1197 5170"
        " 20 20 20 20 20"
    )
    assert lines[24:26] == lines[:2]
    assert len(lines) == 23 + 4


def test_the_layout_is_iostats() -> None:
    row = Iostat(*(5.0, 150.0, 5.0, 4.0), *QUIET, *QUIET, 0.0, 0.0, 1.0, 50.0)
    head, line, last = iostat_lines([sample(None, {"vda": row})])
    assert last == ""
    names = "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s"
    assert " ".join(head.split()[:8]) == names
    assert head.split()[-4:] == ["f/s", "f_await", "aqu-sz", "%util"]
    assert len(line) == len(head)
    assert " ".join(line.split()[:7]) == "vda 5.00 150.00 5.00 50.00 4.00 30.00"
    assert line.split()[-2:] == ["1.00", "50.00"]


def test_this_machine_is_told_as_psutil_tells_it() -> None:
    """Memory moves between the two, but not by half of what the machine has."""
    before = kernel.read(frozenset())
    row = kernel.vmstat(before._replace(cpu=(0,) * 8), kernel.read(frozenset()), 1.0)
    assert row is not None
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    near = memory.total / 1024 / 2
    assert row.free_kib == pytest.approx(memory.free / 1024, abs=near)
    assert row.buffers_kib == pytest.approx(memory.buffers / 1024, abs=near)
    assert row.swapped_kib == pytest.approx(swap.used / 1024, abs=near)
    assert 97 <= row.user + row.system + row.idle + row.iowait + row.steal <= 103
    assert row.running >= 1


def test_the_sampler_has_both(monkeypatch: pytest.MonkeyPatch) -> None:
    told_of = iter([told_one(1), told_one(2), told_one(3)])
    monkeypatch.setattr(kernel, "read", lambda _: next(told_of))
    sampler = system.Sampler()
    for _ in range(2):  # Each time what came since the time before.
        found = sampler.sample(1.0, 1.0)
        assert found.vmstat is not None
        assert found.vmstat.switches_s == 1000
        assert found.iostat["vda"].reads_s == 1.0


def told_one(number: int) -> kernel.Counters:
    """Counters that grow evenly."""
    counts = (number,) * 17
    return kernel.Counters(
        (100 * number,) * 8, {"ctxt": 1000 * number}, {}, {}, {"vda": counts}
    )
