"""What a trial's figure is a figure of, and what speaks against it, in words.

A throughput alone is worth little: here stands beside it whether the loop was closed,
what bounded it, how full the machine was and how long an answer took.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from kvtui.runs.report import operation_order, why_unranked
from kvtui.runs.state import RunState, TrialState
from kvtui.runs.verdict import verdict
from kvtui.text import count, duration, percent, seconds

Remark: TypeAlias = tuple[str, str]
"""What it is about, in a word or two, and the text."""

SHORT_S: Final = 2.0
"""Below, CPU time told in hundredths of a second is too coarse to be relied on."""
OTHERS: Final = 0.3
"""Cores from which what else ran on the machine is told."""
FEW: Final = 0.001
"""A share of misses that changes nothing."""

_BOUND: Final = {
    "client": "the generator was at its limit, not the store: latency and CPU time an"
    " operation are those of a store that has room",
    "server": "the store was at its limit: its latency there is that of a full server,"
    " and only headroom buys a better one",
    "disk": "a disk was at its limit: more cores alone do not carry more",
    "wake-up": "waking costs CPU time: with more load an operation gets cheaper, so"
    " this is rather too many cores",
}


def samples(state: RunState, trial: TrialState) -> list[tuple[float, float]]:
    """The machine's busy share and its CPUs, for each second of the measure phase."""
    began = trial.measure_started_s
    ended = began + (trial.elapsed_s or 0.0)
    # A sample is of the second before it.
    return [
        (each.cpu_busy, each.cpus)
        for each in state.system
        if began + 0.5 <= each.at_s <= ended + 0.5
    ]


def doubts(trial: TrialState) -> Iterator[Remark]:
    """What speaks against the trial itself, which has answered something."""
    if trial.outcome is None:
        text = "the trial has not come to its end: its figures so far"
        yield "not finished", text
    elif not trial.kept_everything:
        yield "no rank", f"this trial has none: {why_unranked(trial)}"
    if trial.failed:
        text = f"{count(trial.failed)} operations failed; they are not in the rate, but"
        yield "failures", f"{text} in the CPU time"
    misses = trial.miss / trial.completed
    if misses >= FEW:
        text = f"{percent(misses, 1)} of the answers were misses, which cost less than"
        yield "misses", f"{text} records"
    if (trial.elapsed_s or 0.0) < SHORT_S:
        text = f"measured for {seconds(trial.elapsed_s)} only, and CPU time is told in"
        yield "short", f"{text} steps of 10 ms"


def circumstances(state: RunState, trial: TrialState) -> Iterator[Remark]:
    """What the figure is a figure of."""
    text = f"{trial.clients} client{'s' if trial.clients != 1 else ''}, each waits for"
    text += " its reply before it asks again: a slow store is asked less, where people"
    yield "closed loop", f"{text} would queue"
    yield "bound by", _bound(state, trial)
    yield "utilisation", _utilisation(state, trial)
    yield "latency", _latency(trial)


def _bound(state: RunState, trial: TrialState) -> str:
    judged = verdict(state, trial)
    if judged is None:
        return "not known"
    means = _BOUND.get(judged.word, "")
    means = f". {means[:1].upper()}{means[1:]}" if means else ""
    return f"{judged.word}: {judged.reason}{means}"


def _utilisation(state: RunState, trial: TrialState) -> str:
    seen = samples(state, trial)
    if not seen:
        return "of the machine: not known"
    busy = sum(share for share, _ in seen) / len(seen)
    cpus = max(cpus for _, cpus in seen)
    text = f"{percent(busy)} of this machine's {cpus:g} CPUs at the measured point,"
    text += " workers and all; a fuller machine was not measured"
    others = busy * cpus - _own(trial)
    if others >= OTHERS:
        text += f". Other programs took {others:.1f} of them"
    return text


def _own(trial: TrialState) -> float:
    """Cores that the workers and, where it was seen, the server used."""
    length_s = sum(each.length_s for each in trial.intervals)
    spent = sum(
        sum(each.worker_cpu_s) + (each.server_cpu_s or 0.0) for each in trial.intervals
    )
    return spent / length_s if length_s > 0 else 0.0


def _latency(trial: TrialState) -> str:
    parts = []
    for label in sorted(trial.operations, key=operation_order):
        p50, p99 = trial.operations[label].latency.percentiles(50, 99)
        if p50 is not None:
            parts.append(f"{label} p50 {duration(p50)}, p99 {duration(p99)}")
    if not parts:
        return "not known"
    return f"{'; '.join(parts)} at the measured point; more load on a core adds to it"
