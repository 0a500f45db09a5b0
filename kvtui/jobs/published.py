"""The published measurement of 2011, typed in, and where it rounded.

HTTP requests on one machine: ApacheBench, 1,000,000 requests of a page of 4 KB, 24 at
once, 15,960 a second while vmstat showed 34 % of 24 hardware threads busy; so many
cores for 260 billion page loads a month.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvtui.jobs import loads
from kvtui.jobs.capacity import Caveat, Measured, answer, number, unrounded


class Preset(NamedTuple):
    """What is typed in for the published measurement."""

    target: str
    peak: str
    headroom: str
    measured: str
    busy: str
    cores_per_machine: str


PAPER: Final = Preset("260e9/month", "1", "0%", "15960/s", "4", "2")
"""HTTP requests on one machine, 2011: 1,000,000 requests of a page of 4 KB, 24 at
once, while vmstat showed 34 % of 24 hardware threads busy."""
PAPER_CLIENTS: Final = 24
_PAPER_CORES: Final = 25
_PAPER_BUSY: Final = "34% of 24"
_PAPER_ERRORS: Final = 1_000_002


def measured() -> Measured:
    """The published point, with what is known of it."""
    read = loads.load(PAPER.measured)
    mean_ms = PAPER_CLIENTS / read.per_second * 1000
    caveats = (
        Caveat(
            "closed loop",
            f"{PAPER_CLIENTS} at once, each waits for its reply before it asks again",
        ),
        Caveat(
            "whole machine",
            "the 34 % are vmstat's: everything that ran on the machine is in them",
        ),
        Caveat(
            "utilisation",
            "34 % of 24 hardware threads at the measured point; what a full machine"
            " does was not measured, and nothing says what bounded it",
        ),
        Caveat(
            "latency",
            f"a mean of {number(mean_ms)} ms at that point: {PAPER_CLIENTS} clients ÷"
            f" {number(read.per_second)}/s; percentiles are not known",
        ),
    )
    return Measured(
        read.per_second,
        loads.busy(PAPER.busy).cores,
        "the paper's",
        "as the paper takes 34 % of 24 hardware threads",
        {},
        caveats,
    )


def notes() -> list[str]:
    """Where the paper rounded, and what its own output said."""
    target, point = loads.load(PAPER.target), measured()
    by_paper = answer(target, point)
    threads = loads.busy(_PAPER_BUSY).cores
    finer = answer(target, point._replace(busy_cores=threads / 2))
    carried = _PAPER_CORES * by_paper.per_core_per_s
    rounded = (
        f"34 % of 24 hardware threads are {number(threads)}; with two a core that is"
        f" {number(threads / 2)} cores, taken as {PAPER.busy}. With"
        f" {number(threads / 2)} it would be {number(finer.per_core_per_s)}/s a core"
        f" and {unrounded(finer.cores_exact)}, so {finer.cores} cores as well."
    )
    too_few = (
        f"{unrounded(by_paper.cores_exact)} cores cannot be {_PAPER_CORES}: they carry"
        f" {number(carried)}/s, {number(by_paper.needed_per_s - carried)}/s too few."
        f" The paper says {_PAPER_CORES} cores; it is {by_paper.cores}, and"
        f" {-(-by_paper.cores // 2)} servers of 2 either way."
    )
    errors = (
        f"Its own output says Non-2xx responses: {_PAPER_ERRORS}: every reply was an"
        " error page. kvtui counts those as failures, and refuses to reckon with a"
        " trial in which nothing was answered."
    )
    return [rounded, too_few, errors]
