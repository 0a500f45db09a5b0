"""The snapshot: a run's state as one JSON document, written after every trial.

Field names carry their units. ``null`` means not measured. The schema is published
as ``data/snapshot.schema.json`` and generated from the structs below.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from kvtui.errors import SnapshotError
from kvtui.runs.events import Interval, Note, System
from kvtui.runs.plan import FORMAT, RunPlan
from kvtui.runs.state import OperationTotals, RunState, TrialState
from kvtui.runs.verdict import verdict


class LatencyFigures(Struct, frozen=True):
    """One distribution of service times, in nanoseconds."""

    count: int
    mean_ns: float | None
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None
    p99_9_ns: int | None
    max_ns: int | None
    histogram: str | None
    """HdrHistogram V2, compressed, base64."""


class OperationFigures(Struct, frozen=True):
    """One kind of operation over a trial."""

    ok: int
    miss: int
    failed: dict[str, int]
    latency: LatencyFigures
    """Of the operations that were ok."""
    miss_latency: LatencyFigures
    failed_latency: LatencyFigures


class LoadFigures(Struct, frozen=True):
    """Filling the store, before the clock of measuring ran."""

    elapsed_s: float | None
    """First request to last reply."""
    throughput_per_s: float | None
    attempted: int
    failed: int
    unfinished: int
    operations: dict[str, OperationFigures]
    intervals: list[Interval]


class TrialSnapshot(Struct, frozen=True):
    """One trial."""

    trial: int
    store: str
    repeat: int
    clients: int
    workers: int
    outcome: str | None
    """``done``, ``failed``, ``stopped``, ``skipped``; null while it goes on."""
    reason: str
    phase: str | None
    store_version: str | None
    address: str | None
    durability: str | None
    client: str | None
    memory_limit: str | None
    eviction: str | None
    compression: str | None
    details: dict[str, str]
    keeps: bool
    elapsed_s: float | None
    """First request to last reply."""
    throughput_per_s: float | None
    """Answered operations (ok and miss) a second."""
    attempted: int | None
    ok: int | None
    """Null, like the other counts, when nothing was measured."""
    miss: int | None
    failed: int | None
    unfinished: int | None
    oldest_unfinished_s: float | None
    client_work_s: float | None
    store_s: float | None
    read_bytes: int | None
    written_bytes: int | None
    operations: dict[str, OperationFigures]
    figures: dict[str, int]
    verified: bool | None
    """Whether every record was right; null when not verified."""
    records_checked: int | None
    records_expected: int | None
    records_wrong: int | None
    first_wrong: str | None
    stored_bytes: int | None
    records_file: str | None
    ranked: bool
    verdict: str | None
    verdict_reason: str | None
    faults: list[dict[str, Any]]
    intervals: list[Interval]
    load: LoadFigures | None = None
    """Null where the workload fills nothing."""
    wrong_by_kind: dict[str, int] = {}
    """``lost``, ``stale``, ``wrong``; with ``when read``: found by the clients while
    measuring."""


class Snapshot(Struct, frozen=True):
    """A run."""

    format: int
    kvtui: str
    run: str
    started_utc: str
    outcome: str | None
    """``done``, ``failed``, ``stopped``; null while it goes on."""
    reason: str
    machine: dict[str, str]
    plan: RunPlan
    data: dict[str, int | float | str]
    bad_lines: int
    first_bad_lines: list[tuple[int, str]]
    trials: list[TrialSnapshot]
    system: list[System]
    notes: list[Note]


def snapshot(state: RunState) -> Snapshot:
    """The state as a document; SnapshotError before the run has begun."""
    if state.started is None or state.plan is None:
        raise SnapshotError("the run has not begun, so there is nothing to save")
    return Snapshot(
        format=FORMAT,
        kvtui=state.started.kvtui,
        run=state.run,
        started_utc=state.started.started_utc,
        outcome=state.outcome,
        reason=state.reason,
        machine=state.started.machine,
        plan=state.plan,
        data=state.data.facts if state.data else {},
        bad_lines=state.data.bad_lines if state.data else 0,
        first_bad_lines=list(state.data.first_bad) if state.data else [],
        trials=[_trial(state, trial) for trial in state.trials],
        system=state.system,
        notes=state.notes,
    )


def _trial(state: RunState, trial: TrialState) -> TrialSnapshot:
    seen, measured, verified = trial.seen, trial.measured, trial.verified
    judged = verdict(state, trial)
    began = bool(trial.intervals) or measured is not None
    return TrialSnapshot(
        trial=trial.number,
        store=trial.store,
        repeat=trial.repeat,
        clients=trial.clients,
        workers=trial.workers,
        outcome=trial.outcome,
        reason=trial.reason,
        phase=trial.phase,
        store_version=seen.version if seen else None,
        address=seen.address if seen else None,
        durability=seen.durability if seen else None,
        client=seen.client if seen else None,
        memory_limit=seen.memory_limit if seen else None,
        eviction=seen.eviction if seen else None,
        compression=seen.compression if seen else None,
        details=seen.details if seen else {},
        keeps=trial.keeps,
        elapsed_s=trial.elapsed_s,
        throughput_per_s=trial.throughput,
        attempted=measured.attempted if measured else None,
        ok=trial.ok if began else None,
        miss=trial.miss if began else None,
        failed=trial.failed if began else None,
        unfinished=measured.unfinished if measured else None,
        oldest_unfinished_s=measured.oldest_unfinished_s if measured else None,
        client_work_s=measured.client_work_s if measured else None,
        store_s=measured.store_s if measured else None,
        read_bytes=trial.read_bytes if began else None,
        written_bytes=trial.written_bytes if began else None,
        operations={
            label: _operation(totals) for label, totals in trial.operations.items()
        },
        figures=measured.figures if measured else {},
        verified=(
            None
            if verified is None or not verified.expected
            else verified.wrong == 0 and verified.checked == verified.expected
        ),
        records_checked=verified.checked if verified else None,
        records_expected=verified.expected if verified else None,
        records_wrong=verified.wrong if verified else None,
        first_wrong=verified.first_wrong if verified else None,
        stored_bytes=verified.stored_bytes if verified else None,
        records_file=verified.records if verified else None,
        ranked=trial.kept_everything,
        verdict=judged.word if judged else None,
        verdict_reason=judged.reason if judged else None,
        faults=[
            {
                "operation": fault.operation,
                "kind": fault.kind,
                "message": fault.message,
                "phase_s": fault.phase_s,
            }
            for fault in trial.faults
        ],
        intervals=trial.intervals,
        load=_load(trial),
        wrong_by_kind=verified.kinds if verified else {},
    )


def _load(trial: TrialState) -> LoadFigures | None:
    loaded = trial.loaded
    if loaded is None:
        return None
    done = loaded.attempted - loaded.failed - loaded.unfinished
    return LoadFigures(
        elapsed_s=loaded.elapsed_s,
        throughput_per_s=done / loaded.elapsed_s if loaded.elapsed_s else None,
        attempted=loaded.attempted,
        failed=loaded.failed,
        unfinished=loaded.unfinished,
        operations={
            label: _operation(totals) for label, totals in trial.load_operations.items()
        },
        intervals=trial.load_intervals,
    )


def _operation(totals: OperationTotals) -> OperationFigures:
    return OperationFigures(
        ok=totals.ok,
        miss=totals.miss,
        failed=totals.failed,
        latency=_latency(totals.latency),
        miss_latency=_latency(totals.miss_latency),
        failed_latency=_latency(totals.failed_latency),
    )


def _latency(latency: Any) -> LatencyFigures:
    p50, p90, p99, p99_9 = latency.percentiles(50, 90, 99, 99.9)
    return LatencyFigures(
        count=latency.count,
        mean_ns=latency.mean_ns,
        p50_ns=p50,
        p90_ns=p90,
        p99_ns=p99,
        p99_9_ns=p99_9,
        max_ns=latency.max_ns,
        histogram=latency.encode(),
    )


def write(path: Path, document: Snapshot) -> None:
    """Write the snapshot whole or not at all, mode 0600.

    A file of that name stays as it was until the new one is safely on the disk.
    SnapshotError says why it could not be written.
    """
    path = path.resolve()  # A link stays a link; what it names is replaced.
    if path.exists() and not path.is_file():
        raise SnapshotError(f"{path} is not a file, so it is not replaced by one")
    data = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    partial = ""
    try:
        file, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(partial, path)
    except OSError as error:
        if partial:
            with contextlib.suppress(OSError):
                os.unlink(partial)
        raise SnapshotError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="the run's journal still has everything; save it elsewhere",
        ) from error


def read(path: Path) -> Snapshot:
    """A snapshot file; SnapshotError names what is wrong with it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise SnapshotError(f"{path} is not a snapshot of kvtui: {error}") from None


def schema() -> dict[str, Any]:
    """The snapshot's JSON Schema (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvtui snapshot",
        **msgspec.json.schema(Snapshot),
    }
