"""From a trial to the measured point that a capacity answer begins with.

Whose CPU time is counted is the whole question. Best is the server's own process;
where that cannot be seen, and the server is on this machine, it is the whole machine
without kvtui's workers. An embedded store lives in its worker, so there the worker is
the store. A server on another machine has a CPU that nobody here saw: it has to be
typed in. Every answer says which it was.
"""

from __future__ import annotations

from fractions import Fraction
from ipaddress import ip_address
from itertools import starmap
from typing import Final, NamedTuple

from kvtui.errors import RunError, UsageError
from kvtui.jobs.capacity import Caveat, Measured, number
from kvtui.jobs.loads import Busy
from kvtui.runs import circumstances
from kvtui.runs.events import Interval
from kvtui.runs.report import operation_order
from kvtui.runs.state import RunState, TrialState
from kvtui.stores import registry
from kvtui.text import count, percent, seconds, visible

TYPE_IT_IN: Final = "say how many cores the server used: --busy-cores 4"


class Used(NamedTuple):
    """Cores that were busy, and whose."""

    cores: Fraction
    words: str
    caveats: tuple[Caveat, ...] = ()


def stores(state: RunState) -> list[str]:
    """The run's stores, each once, in the plan's order."""
    if state.plan is not None:
        return [store.name for store in state.plan.stores]
    return list(dict.fromkeys(trial.store for trial in state.trials))


def best_store(state: RunState) -> str:
    """The store that is meant where none is named: the only one, or the fastest that
    kept everything, or the first that can be reckoned with. RunError for none."""
    names = stores(state)
    if not names:
        raise RunError("the run has not begun yet", hint="try again in a moment")
    if len(names) == 1:
        return names[0]
    ranked = [
        (trial.elapsed_s or 0.0, name)
        for name in names
        if (trial := _median_trial(state, name)) is not None
        and trial.kept_everything
        and not problem(trial)
    ]
    if ranked:
        # Of those as fast the first one, as in the ranking.
        return min(ranked, key=lambda pair: pair[0])[1]
    sound = (name for name in names if not problem(_median_trial(state, name)))
    return next(sound, names[0])


def find_trial(state: RunState, store: str) -> TrialState:
    """The trial of a store that stands for it: of several repeats the one with the
    middle throughput. RunError where there is none."""
    names = stores(state)
    if store not in names:
        there = ", ".join(visible(name, 40) for name in names)
        raise RunError(f"the run has no store {store}", hint=f"it has: {there}")
    trial = _median_trial(state, store)
    if trial is None:
        raise RunError(f"{store}: its turn has not come")
    return trial


def _median_trial(state: RunState, store: str) -> TrialState | None:
    trials = [trial for trial in state.trials if trial.store == store]
    done = [each for each in trials if each.outcome == "done"]
    if not done:
        return trials[-1] if trials else None
    done.sort(key=lambda each: each.throughput or 0.0)
    return done[(len(done) - 1) // 2]


def problem(trial: TrialState | None) -> str:
    """Why a trial cannot be reckoned with; empty where it can."""
    if trial is None:
        return "its turn has not come"
    if not trial.keeps:
        return "it keeps nothing: its figure is the cost of asking, not a store's"
    if trial.outcome == "skipped":
        return f"skipped: {trial.reason}"
    if not trial.completed:
        if trial.failed:
            kinds = {
                kind: number
                for each in trial.operations.values()
                for kind, number in each.failed.items()
            }
            said = ", ".join(sorted(kinds)[:3])
            return f"all {count(trial.failed)} operations failed ({said})"
        if trial.reason:
            return f"nothing was answered: {trial.reason}"
        return "nothing was answered yet" if trial.outcome is None else "it did nothing"
    if not trial.throughput:
        return "no time has passed in it yet"
    return ""


def measured(
    state: RunState, trial: TrialState, *, busy: Busy | None = None
) -> Measured:
    """The measured point of a trial; ``busy`` is typed in and beats what was seen.

    RunError says why the trial cannot be reckoned with.
    """
    why = problem(trial)
    if why:
        raise RunError(
            f"{trial.store}: {why}",
            hint="name another store or run; or --measured 15960/s --busy-cores 4",
        )
    if busy is not None:
        used = Used(busy.cores, f"typed in: {busy.words}")
    else:
        used = _used(state, trial)
    answered = Fraction(trial.completed)
    mix = {
        label: Fraction(totals.ok + totals.miss) / answered
        for label, totals in sorted(
            trial.operations.items(), key=lambda item: operation_order(item[0])
        )
    }
    return Measured(
        _per_second(trial),
        used.cores,
        f"{count(trial.completed)} answered in {seconds(trial.elapsed_s)}{_mix(mix)}",
        used.words,
        mix,
        (
            *starmap(Caveat, circumstances.doubts(trial)),
            *used.caveats,
            *starmap(Caveat, circumstances.circumstances(state, trial)),
        ),
    )


def _mix(mix: dict[str, Fraction]) -> str:
    parts = [f"{label} {number(part * 100)} %" for label, part in mix.items() if part]
    return f", {', '.join(parts)}" if parts else ""


def _used(state: RunState, trial: TrialState) -> Used:
    """Cores that were busy with the store; RunError where nobody saw them."""
    if _embedded(state, trial):
        return _embedded_use(trial)
    if any(each.server_cpu_s is not None for each in trial.intervals):
        return _server(trial)
    address = trial.seen.address if trial.seen else ""
    if not is_here(address):
        where = f"at {address}" if address else "where nobody told"
        raise RunError(
            f"{trial.store}: its server is {where}, and its CPU was not seen from here",
            hint=TYPE_IT_IN,
        )
    return _machine(state, trial)


def _server(trial: TrialState) -> Used:
    """From the CPU time of one answer and how many there were a second: seconds in
    which the server's CPU time was not seen count for nothing."""
    cpu_s, answered, length_s = 0.0, 0, 0.0
    for each in trial.intervals:
        if each.server_cpu_s is not None:
            cpu_s += each.server_cpu_s
            answered += _answered(each)
            length_s += each.length_s
    if cpu_s <= 0 or not answered:
        raise RunError(
            f"{trial.store}: its server used no CPU time that could be told in"
            f" {seconds(length_s)}",
            hint=f"measure for longer; or {TYPE_IT_IN}",
        )
    words = f"the server's own CPU time: {seconds(cpu_s)}"
    if answered == trial.completed:
        words += f" in {seconds(trial.elapsed_s)}"
    else:
        words += f" for {count(answered)} answers"
    return Used(_exact(cpu_s) / answered * _per_second(trial), words)


def _embedded_use(trial: TrialState) -> Used:
    workers_s = _workers_s(trial)
    if workers_s <= 0:
        raise RunError(
            f"{trial.store}: its worker used no CPU time that could be told",
            hint="measure for longer",
        )
    words = f"the worker's CPU time, in which the store lives: {seconds(workers_s)}"
    words += f" in {seconds(trial.elapsed_s)}"
    own = ""
    if trial.measured is not None:
        both = trial.measured.client_work_s + trial.measured.store_s
        if both > 0:
            share = percent(trial.measured.client_work_s / both)
            own = f"; {share} of the clients' time was the workload's own work"
    caveat = Caveat(
        "embedded",
        f"the worker is the store, and asking it is in its CPU time{own}. A program"
        " that embeds it brings work of its own instead",
    )
    busy = _exact(workers_s) / trial.completed * _per_second(trial)
    return Used(busy, words, (caveat,))


def _per_second(trial: TrialState) -> Fraction:
    return Fraction(trial.completed) / _exact(trial.elapsed_s or 0.0)


def _answered(interval: Interval) -> int:
    return sum(each.ok + each.miss for each in interval.operations.values())


def _workers_s(trial: TrialState) -> float:
    return sum(sum(each.worker_cpu_s) for each in trial.intervals)


def _machine(state: RunState, trial: TrialState) -> Used:
    workers = _exact(_workers_s(trial)) / _exact(trial.elapsed_s or 0.0)
    samples = circumstances.samples(state, trial)
    if not samples:
        raise RunError(
            f"{trial.store}: neither its server's CPU time nor the machine's was seen",
            hint=TYPE_IT_IN,
        )
    spent = sum(_exact(busy) * _exact(cpus) for busy, cpus in samples)
    busy = spent / Fraction(len(samples))
    if busy <= workers:
        raise RunError(
            f"{trial.store}: the workers used all CPU time that was seen, so none is"
            " left for its server",
            hint=TYPE_IT_IN,
        )
    words = f"the whole machine's {number(busy)} minus the workers' {number(workers)}"
    caveat = Caveat(
        "whole machine",
        "the server's own CPU time could not be seen (it works in several processes,"
        " or is hidden), so everything that ran beside the workers is counted as its",
    )
    return Used(busy - workers, words, (caveat,))


def _exact(value: float) -> Fraction:
    """A figure as the journal tells it, in decimals: 0.1 is a tenth."""
    return Fraction(repr(value))


def _embedded(state: RunState, trial: TrialState) -> bool:
    for store in state.plan.stores if state.plan else ():
        if store.name == trial.store:
            try:
                return registry.kind(store.kind).shared_by_threads
            except UsageError:  # a kind of a later kvtui
                break
    address = trial.seen.address if trial.seen else ""
    return address.startswith(("in process", "embedded"))


def is_here(address: str) -> bool:
    """Whether an address, as a store tells it, is one of this machine for certain."""
    if address.startswith(("/", "@", "unix:")):
        return True
    host = address.rpartition(":")[0].strip("[]").removeprefix("::ffff:")
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
