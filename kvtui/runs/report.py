"""A run's ranking as rows, which also are its JSON; ``report_text`` shows them.

One row a store. A store that was run several times is ranked by the median of its
seconds; its latencies are the percentiles of the merged histograms. Only a store
that kept everything, in every trial, has a rank.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from statistics import median
from typing import Any, Final

from msgspec import Struct, structs

from kvtui.runs.events import Note
from kvtui.runs.latency import Latency
from kvtui.runs.state import RunState, TrialState, in_kinds
from kvtui.runs.verdict import verdict

ORDER: Final = ("get", "put", "add", "counts", "scan", "delete")
"""Kinds of operation as the columns stand."""


class OperationRow(Struct, frozen=True):
    """One kind of operation over all trials of a store."""

    ok: int
    miss: int
    failed: dict[str, int]
    p50_ns: int | None
    p99_ns: int | None
    p99_9_ns: int | None
    max_ns: int | None


class LoadRow(Struct, frozen=True):
    """How the records came into the store, in the last trial."""

    ok: int
    failed: int
    elapsed_s: float | None
    throughput_per_s: float | None
    p50_ns: int | None
    p99_ns: int | None
    p99_9_ns: int | None
    max_ns: int | None


class FaultRow(Struct, frozen=True):
    """The first failure of its kind in a trial."""

    repeat: int
    operation: str
    kind: str
    message: str
    phase_s: float


class StoreRow(Struct, frozen=True):
    """One store of the ranking. ``null`` means not measured."""

    rank: int | None
    store: str
    reason: str
    """Why there is no rank; empty where there is one."""
    repeats: int
    """Trials that came to their end."""
    planned: int
    elapsed_s: float | None
    """Median of first request to last reply."""
    elapsed_min_s: float | None
    elapsed_max_s: float | None
    times_ram: float | None
    throughput_per_s: float | None
    operations: dict[str, OperationRow]
    attempted: int | None
    ok: int | None
    miss: int | None
    failed: int | None
    unfinished: int | None
    read_bytes: int | None
    """Of one trial, as all below."""
    written_bytes: int | None
    stored_bytes: int | None
    records_checked: int | None
    records_expected: int | None
    records_wrong: int | None
    keeps: bool
    client_work_s: float | None
    """Decoding, changing, encoding; summed over the clients."""
    store_s: float | None
    """Waiting for the store; summed over the clients."""
    figures: dict[str, int]
    clients: int
    workers: int
    client: str | None
    version: str | None
    address: str | None
    durability: str | None
    memory_limit: str | None
    eviction: str | None
    compression: str | None
    verdict: str | None
    verdict_reason: str | None
    faults: list[FaultRow]
    notes: list[str]
    load: LoadRow | None = None
    """Null where the workload loads nothing before."""
    wrong_by_kind: dict[str, int] = {}
    """Of the records that are wrong, how many in which way, where told apart."""


class Report(Struct, frozen=True):
    """A run's ranking, with what one must know to trust it."""

    run: str
    started_utc: str | None
    outcome: str | None
    """``done``, ``failed``, ``stopped``; null while it goes on or was cut off."""
    reason: str
    workload: str
    parameters: dict[str, Any]
    clients: int
    workers: int
    repeat: int
    seed: int
    data: dict[str, int | float | str]
    bad_lines: int
    first_bad_lines: list[tuple[int, str]]
    ranking: list[StoreRow]
    """Ranked stores in order, then the others in the order of the plan."""
    notes: list[str]


def report(state: RunState, *, cut_off: bool = False) -> Report:
    """The ranking as far as the run has come.

    ``cut_off`` says that its runner died, so that nothing more will follow.
    """
    plan, data = state.plan, state.data
    trials: dict[str, list[TrialState]] = {}
    kinds: dict[str, str] = {}
    if plan is not None:
        trials = {store.name: [] for store in plan.stores}
        kinds = {store.name: store.kind for store in plan.stores}
    for trial in state.trials:
        trials.setdefault(trial.store, []).append(trial)
    planned = plan.repeat if plan is not None else 1
    rows = [
        _store(state, name, group, planned, cut_off) for name, group in trials.items()
    ]
    ram_s = next((row.elapsed_s for row in rows if kinds.get(row.store) == "ram"), None)
    return Report(
        run=state.run,
        started_utc=state.started.started_utc if state.started else None,
        outcome=state.outcome,
        reason=state.reason,
        workload=plan.workload.name if plan else "",
        parameters=plan.workload.parameters if plan else {},
        clients=plan.clients if plan else 0,
        workers=plan.workers if plan else 0,
        repeat=planned,
        seed=plan.seed if plan else 0,
        data=data.facts if data else {},
        bad_lines=data.bad_lines if data else 0,
        first_bad_lines=list(data.first_bad) if data else [],
        ranking=list(_ranked(rows, ram_s)),
        notes=[_note(note, state) for note in state.notes if note.level != "info"],
    )


def _note(note: Note, state: RunState) -> str:
    trial = None if note.trial is None else state.trial(note.trial)
    return f"{trial.store}: {note.text}" if trial is not None else note.text


def _ranked(rows: list[StoreRow], ram_s: float | None) -> Iterator[StoreRow]:
    def with_ram(row: StoreRow, rank: int | None) -> StoreRow:
        ratio = None
        if row.elapsed_s is not None and ram_s and row.repeats:
            ratio = row.elapsed_s / ram_s
        return structs.replace(row, rank=rank, times_ram=ratio)

    good = [row for row in rows if not row.reason]
    good.sort(key=lambda row: row.elapsed_s or 0.0)
    for rank, row in enumerate(good, 1):
        yield with_ram(row, rank)
    for row in rows:
        if row.reason:
            yield with_ram(row, None)


def _store(
    state: RunState, name: str, trials: list[TrialState], planned: int, cut_off: bool
) -> StoreRow:
    sound = [trial for trial in trials if not _imbalance(trial)]
    done = [trial for trial in sound if trial.outcome == "done"]
    # Of a store that never came to its end, what is known of its last trial.
    shown = done or sound[-1:]
    finished = [trial for trial in shown if trial.measured is not None]
    lengths = [trial.elapsed_s for trial in finished if trial.elapsed_s is not None]
    rates = [trial.throughput for trial in finished if trial.throughput is not None]
    work = [trial.measured for trial in finished if trial.measured is not None]
    seen = next((trial.seen for trial in reversed(trials) if trial.seen), None)
    checked = [trial.verified for trial in shown if trial.verified is not None]
    judged = next(
        (found for trial in reversed(finished) if (found := verdict(state, trial))),
        None,
    )
    last = trials[-1] if trials else None
    return StoreRow(
        rank=None,
        store=name,
        reason=_why_unranked(trials, planned, cut_off),
        repeats=len(done),
        planned=planned,
        elapsed_s=median(lengths) if lengths else None,
        elapsed_min_s=min(lengths, default=None),
        elapsed_max_s=max(lengths, default=None),
        times_ram=None,
        throughput_per_s=median(rates) if rates else None,
        operations=_operations(shown),
        attempted=sum(each.attempted for each in work) if work else None,
        ok=sum(trial.ok for trial in finished) if finished else None,
        miss=sum(trial.miss for trial in finished) if finished else None,
        failed=sum(trial.failed for trial in finished) if finished else None,
        unfinished=sum(each.unfinished for each in work) if work else None,
        read_bytes=finished[-1].read_bytes if finished else None,
        written_bytes=finished[-1].written_bytes if finished else None,
        stored_bytes=checked[-1].stored_bytes if checked else None,
        records_checked=checked[-1].checked if checked else None,
        records_expected=checked[-1].expected if checked else None,
        records_wrong=max((each.wrong for each in checked), default=None),
        keeps=all(trial.keeps for trial in trials),
        client_work_s=median(each.client_work_s for each in work) if work else None,
        store_s=median(each.store_s for each in work) if work else None,
        figures=dict(work[-1].figures) if work else {},
        clients=last.clients if last else 0,
        workers=last.workers if last else 0,
        client=seen.client if seen else None,
        version=seen.version if seen else None,
        address=seen.address if seen else None,
        durability=seen.durability if seen else None,
        memory_limit=seen.memory_limit if seen else None,
        eviction=seen.eviction if seen else None,
        compression=seen.compression if seen else None,
        verdict=judged.word if judged else None,
        verdict_reason=judged.reason if judged else None,
        faults=[
            FaultRow(
                trial.repeat, each.operation, each.kind, each.message, each.phase_s
            )
            for trial in trials
            for each in trial.faults
        ],
        notes=list(dict.fromkeys(trial.note for trial in trials if trial.note)),
        load=next((made for trial in reversed(shown) if (made := _load(trial))), None),
        wrong_by_kind=checked[-1].kinds if checked else {},
    )


def _load(trial: TrialState) -> LoadRow | None:
    loaded = trial.loaded
    if loaded is None:
        return None
    ok = sum(totals.ok for totals in trial.load_operations.values())
    latency = Latency()
    for totals in trial.load_operations.values():
        latency.add(totals.latency.encode())
    p50, p99, p99_9 = latency.percentiles(50, 99, 99.9)
    return LoadRow(
        ok,
        loaded.failed,
        loaded.elapsed_s,
        ok / loaded.elapsed_s if loaded.elapsed_s else None,
        p50,
        p99,
        p99_9,
        latency.max_ns,
    )


def _operations(trials: list[TrialState]) -> dict[str, OperationRow]:
    latencies: dict[str, Latency] = defaultdict(Latency)
    numbers: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    failed: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for trial in trials:
        for label, totals in trial.operations.items():
            latencies[label].add(totals.latency.encode())
            numbers[label][0] += totals.ok
            numbers[label][1] += totals.miss
            for kind, number in totals.failed.items():
                failed[label][kind] += number
    rows = {}
    for label in sorted(numbers, key=operation_order):
        latency = latencies[label]
        p50, p99, p99_9 = latency.percentiles(50, 99, 99.9)
        ok, miss = numbers[label]
        rows[label] = OperationRow(
            ok, miss, dict(failed[label]), p50, p99, p99_9, latency.max_ns
        )
    return rows


def operation_order(label: str) -> tuple[int, str]:
    """Where a kind of operation stands among the others."""
    return (ORDER.index(label) if label in ORDER else len(ORDER), label)


def _imbalance(trial: TrialState) -> str:
    """What does not add up in a trial's totals; empty where all does."""
    measured = trial.measured
    if measured is None:
        return ""
    known = trial.ok + trial.miss + trial.failed + measured.unfinished
    if measured.attempted == known:
        return ""
    return (
        f"its totals do not add up: {measured.attempted:,} attempted, {known:,}"
        " accounted for; no figure of it is shown"
    )


def _why_unranked(trials: list[TrialState], planned: int, cut_off: bool) -> str:
    if not trials:
        return "not run"
    for trial in trials:
        why = why_unranked(trial, cut_off)
        # What a stop cut off says nothing against the trials before it.
        cut_off = trial.outcome in ("stopped", None) and trial is not trials[0]
        if why and not cut_off:
            one = planned > 1 and trial.keeps
            return f"{why} (repeat {trial.repeat})" if one else why
    return ""


def why_unranked(trial: TrialState, cut_off: bool = False) -> str:
    """Why a trial has no rank; empty where it has one. ``cut_off`` says that its
    runner died."""
    verified = trial.verified
    imbalance = _imbalance(trial)
    if imbalance:
        return imbalance
    if trial.outcome is None:
        return "interrupted: the runner died" if cut_off else "not finished"
    if trial.outcome != "done":
        return f"{trial.outcome}: {trial.reason}" if trial.reason else trial.outcome
    if not trial.keeps:
        return "not kept: this store drops everything by nature"
    if verified is not None and verified.wrong:
        said = f"{verified.wrong:,} of {verified.checked:,} records are wrong"
        if verified.kinds:
            said = f"{in_kinds(verified)}, of {verified.checked:,} records"
        return f"{said}; first {verified.first_wrong}"
    if trial.failed:
        return f"{trial.failed:,} operations failed"
    if verified is None:
        return "not verified"
    if not trial.kept_everything:
        return f"only {verified.checked:,} of {verified.expected:,} records verified"
    return ""


def failed_stores(made: Report) -> list[StoreRow]:
    """The stores that have no rank for another reason than their nature."""
    return [
        row
        for row in made.ranking
        if row.reason
        and not (row.repeats == row.planned and not row.keeps and not row.failed)
    ]
