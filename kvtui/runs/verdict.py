"""What bounded a trial, and why kvtui thinks so.

Needed before the store's figure can be called the store's: CPU time of each worker
and of the server in every interval, the waits of the clients, and what the null
store reached with the same clients in the same run.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kvtui.runs.state import RunState, TrialState
from kvtui.text import percent

BUSY: Final = 0.9
"""Share of a core from which a single-threaded process counts as full."""
IDLE: Final = 0.7
NEAR_NULL: Final = 0.5
MOSTLY: Final = 0.75
"""Share of the clients' time from which their own work bounds them."""
SHORT_S: Final = 0.5
"""Too short a measure phase to say anything about its bound."""


class Verdict(NamedTuple):
    """A word for the table, and the reason in a sentence."""

    word: str
    reason: str


def verdict(state: RunState, trial: TrialState) -> Verdict | None:
    """The verdict on a trial that has been measured; None before, and for a trial
    that failed: what kept a store from answering does not bound it."""
    measured = trial.measured
    if measured is None or not trial.intervals or trial.outcome == "failed":
        return None
    if not trial.keeps:
        return Verdict("client", "the null store costs nothing: this is the client")
    length_s = sum(each.length_s for each in trial.intervals)
    if length_s < SHORT_S:
        return Verdict("unclear", f"measured for {length_s:.2f} s only")
    workers = _busiest_worker(trial, length_s)
    server = _server_share(trial, length_s)
    work = measured.client_work_s / max(measured.client_work_s + measured.store_s, 1e-9)
    limit = _null_throughput(state, trial)
    own = trial.throughput or 0.0
    if workers >= BUSY and server is None and work < 0.5:
        return Verdict(
            "server",
            f"the store lives in the worker, which used {percent(workers)} of a core;"
            f" {percent(1 - work)} of the clients' time was the store's",
        )
    if workers >= BUSY and (server is None or server < BUSY):
        return Verdict(
            "client",
            f"a worker used {percent(workers)} of a core; {percent(work)} of the"
            " clients' time was their own work",
        )
    if work >= MOSTLY:
        return Verdict(
            "client", f"{percent(work)} of the clients' time was their own work"
        )
    if limit and own > NEAR_NULL * limit:
        return Verdict(
            "client", f"{percent(own / limit)} of what the null store reaches"
        )
    if server is not None and server >= BUSY:
        return Verdict("server", f"the server used {percent(server)} of a core")
    disk = _busiest_disk(state, trial)
    if disk >= BUSY:
        return Verdict("disk", f"a disk was busy {percent(disk)} of the time")
    if server is not None and workers < IDLE and server < IDLE:
        return Verdict(
            "wake-up",
            f"worker {percent(workers)} and server {percent(server)} of a core:"
            " both waited to be woken",
        )
    known = "unknown" if server is None else f"{percent(server)}"
    return Verdict("unclear", f"worker {percent(workers)}, server {known} of a core")


def _busiest_worker(trial: TrialState, length_s: float) -> float:
    workers = max(len(each.worker_cpu_s) for each in trial.intervals)
    spent = [0.0] * workers
    for interval in trial.intervals:
        for number, cpu_s in enumerate(interval.worker_cpu_s):
            spent[number] += cpu_s
    return max(spent, default=0.0) / length_s


def _server_share(trial: TrialState, length_s: float) -> float | None:
    known = [
        interval.server_cpu_s
        for interval in trial.intervals
        if interval.server_cpu_s is not None
    ]
    return sum(known) / length_s if known else None


def _busiest_disk(state: RunState, trial: TrialState) -> float:
    began = trial.measure_started_s
    ended = began + (trial.elapsed_s or 0.0) + 1.0
    shares: dict[str, list[float]] = {}
    for sample in state.system:
        if began <= sample.at_s <= ended:
            for name, (_, _, busy) in sample.disks.items():
                shares.setdefault(name, []).append(busy)
    return max((sum(each) / len(each) for each in shares.values()), default=0.0)


def _null_throughput(state: RunState, trial: TrialState) -> float | None:
    for other in state.trials:
        if not other.keeps and other.outcome == "done" and other.repeat == trial.repeat:
            return other.throughput
    return None
