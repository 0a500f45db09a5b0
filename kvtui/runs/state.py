"""A run's state: the one fold from events to figures.

:meth:`RunState.apply` is the only place where events become figures. The live
screen, the progress line, the ranking and the snapshot all read this state.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from kvtui.runs.events import (
    AnyEvent,
    DataReady,
    Faulted,
    Interval,
    Loaded,
    Measured,
    Note,
    Phase,
    PhaseStarted,
    Progress,
    RunFinished,
    RunOutcome,
    RunStarted,
    StagesInterval,
    StoreSeen,
    System,
    TrialFinished,
    TrialOutcome,
    TrialStarted,
    Verified,
)
from kvtui.runs.latency import Latency
from kvtui.runs.plan import RunPlan


@dataclass
class OperationTotals:
    """One kind of operation over the whole measure phase."""

    ok: int = 0
    miss: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    latency: Latency = field(default_factory=Latency)
    miss_latency: Latency = field(default_factory=Latency)
    failed_latency: Latency = field(default_factory=Latency)

    @property
    def failures(self) -> int:
        """Of every kind."""
        return sum(self.failed.values())

    @property
    def finished(self) -> int:
        """ok + miss + failed."""
        return self.ok + self.miss + self.failures


@dataclass
class StageTotals:
    """The parts of the answered operations' time, over the whole measure phase; what
    :class:`~kvtui.runs.events.StagesInterval` says of them holds here."""

    connect: Latency = field(default_factory=Latency)
    waiting: Latency = field(default_factory=Latency)
    processing: Latency = field(default_factory=Latency)
    whole: Latency = field(default_factory=Latency)
    refused: Latency = field(default_factory=Latency)
    received_bytes: int = 0
    refused_bytes: int = 0


@dataclass
class TrialState:
    """One store's trial as far as it is known."""

    number: int
    store: str
    repeat: int
    clients: int = 0
    workers: int = 0
    note: str = ""
    phase: Phase | None = None
    seen: StoreSeen | None = None
    intervals: list[Interval] = field(default_factory=list)
    """Of the measure phase, in order, quiet ones included."""
    operations: dict[str, OperationTotals] = field(
        default_factory=lambda: defaultdict(OperationTotals)
    )
    load_intervals: list[Interval] = field(default_factory=list)
    """Of the load phase, where the workload fills the store."""
    load_operations: dict[str, OperationTotals] = field(
        default_factory=lambda: defaultdict(OperationTotals)
    )
    loaded: Loaded | None = None
    faults: list[Faulted] = field(default_factory=list)
    stages: StageTotals | None = None
    measured: Measured | None = None
    verified: Verified | None = None
    progress: Progress | None = None
    done: int = 0
    total: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    started_s: float = 0.0
    phase_started_s: float = 0.0
    measure_started_s: float = 0.0
    finished_s: float | None = None
    outcome: TrialOutcome | None = None
    reason: str = ""

    @property
    def ok(self) -> int:
        """Operations that did what was asked; a miss is not one of them."""
        return sum(each.ok for each in self.operations.values())

    @property
    def miss(self) -> int:
        """Reads that found nothing."""
        return sum(each.miss for each in self.operations.values())

    @property
    def failed(self) -> int:
        """Operations that failed, of every kind."""
        return sum(each.failures for each in self.operations.values())

    @property
    def completed(self) -> int:
        """Operations that the store answered as it should: ok and miss."""
        return self.ok + self.miss

    @property
    def elapsed_s(self) -> float | None:
        """First request to last reply; while it goes on, to the last interval."""
        if self.measured is not None:
            return self.measured.elapsed_s
        if self.intervals:
            last = self.intervals[-1]
            return last.start_s + last.length_s
        return None

    @property
    def throughput(self) -> float | None:
        """Answered operations a second over the measure phase; None if unknown."""
        elapsed_s = self.elapsed_s
        if not elapsed_s:
            return None
        return self.completed / elapsed_s

    @property
    def kept_everything(self) -> bool:
        """Whether the data was verified whole: what a rank requires."""
        verified = self.verified
        return (
            self.outcome == "done"
            and self.completed > 0
            and self.failed == 0
            and verified is not None
            and verified.wrong == 0
            and verified.checked == verified.expected
        )

    @property
    def keeps(self) -> bool:
        """False for a store that keeps nothing by nature (null)."""
        return self.seen is None or self.seen.keeps

    @property
    def verification(self) -> str:
        """What is known of the data, for a table cell."""
        if not self.keeps:
            return "not kept"
        verified = self.verified
        if verified is None or not verified.expected:
            return ""
        if verified.wrong:
            return f"{in_kinds(verified)} of {verified.checked:,}"
        if verified.checked < verified.expected:
            kind = "sampled" if verified.sampled else "only"
            return f"{kind} {verified.checked:,} of {verified.expected:,}"
        return f"{verified.checked:,} of {verified.expected:,}"

    def interval_rate(self, interval: Interval) -> float:
        """Answered operations a second within one interval."""
        answered = sum(each.ok + each.miss for each in interval.operations.values())
        return answered / interval.length_s if interval.length_s > 0 else 0.0


def in_kinds(verified: Verified) -> str:
    """How many are wrong, and in which way: ``3 lost, 1 stale when read``."""
    kinds = verified.kinds or {"wrong": verified.wrong}
    return ", ".join(f"{number:,} {kind}" for kind, number in kinds.items())


class RunState:
    """Everything known of a run, folded from its events in order."""

    def __init__(self) -> None:
        self.run = ""
        self.plan: RunPlan | None = None
        self.started: RunStarted | None = None
        self.data: DataReady | None = None
        self.trials: list[TrialState] = []
        self.system: list[System] = []
        self.notes: list[Note] = []
        self.outcome: RunOutcome | None = None
        self.reason = ""
        self.at_s = 0.0

    def apply(self, event: AnyEvent) -> None:
        """Fold one event in. Events of unknown trials are left out."""
        self.at_s = max(self.at_s, event.at_s)
        match event:
            case RunStarted():
                self.run, self.plan, self.started = event.run, event.plan, event
            case DataReady():
                self.data = event
            case System():
                self.system.append(event)
            case Note():
                self.notes.append(event)
            case RunFinished():
                self.outcome, self.reason = event.outcome, event.reason
            case TrialStarted():
                self.trials.append(
                    TrialState(
                        event.trial,
                        event.store,
                        event.repeat,
                        event.clients,
                        event.workers,
                        event.note,
                        started_s=event.at_s,
                        phase_started_s=event.at_s,
                    )
                )
            case _:
                trial = self.trial(event.trial)
                if trial is not None:
                    _apply_to_trial(trial, event)

    def trial(self, number: int) -> TrialState | None:
        """The trial with that number, once it has started."""
        for trial in reversed(self.trials):
            if trial.number == number:
                return trial
        return None

    @property
    def current(self) -> TrialState | None:
        """The trial that goes on, if one does."""
        if self.trials and self.trials[-1].outcome is None:
            return self.trials[-1]
        return None

    @property
    def trials_planned(self) -> int:
        """How many trials the plan has."""
        return 0 if self.plan is None else len(self.plan.stores) * self.plan.repeat


def _apply_to_trial(
    trial: TrialState,
    event: PhaseStarted
    | StoreSeen
    | Interval
    | Loaded
    | Faulted
    | Measured
    | Progress
    | Verified
    | TrialFinished,
) -> None:
    match event:
        case PhaseStarted():
            trial.phase, trial.phase_started_s = event.phase, event.at_s
            trial.progress = None
            if event.phase == "measure":
                trial.measure_started_s = event.at_s
        case StoreSeen():
            trial.seen = event
        case Interval():
            if event.phase == "measure":
                _apply_interval(trial, event)
            elif event.phase == "load":
                trial.load_intervals.append(event)
                _apply_operations(trial.load_operations, event)
                at_s, number = event.at_s, event.trial
                trial.progress = Progress(at_s, number, "load", event.done, event.total)
        case Loaded():
            trial.loaded = event
        case Faulted():
            trial.faults.append(event)
        case Measured():
            trial.measured = event
        case Progress():
            trial.progress = event
        case Verified():
            trial.verified = event
        case TrialFinished():
            trial.outcome, trial.reason = event.outcome, event.reason
            trial.finished_s = event.at_s


def _apply_interval(trial: TrialState, event: Interval) -> None:
    trial.intervals.append(event)
    trial.done, trial.total = event.done, event.total
    trial.read_bytes += event.read_bytes
    trial.written_bytes += event.written_bytes
    if event.stages is not None:
        trial.stages = trial.stages or StageTotals()
        _add_stages(trial.stages, event.stages)
    _apply_operations(trial.operations, event)


def _apply_operations(operations: dict[str, OperationTotals], event: Interval) -> None:
    for label, interval in event.operations.items():
        totals = operations[label]
        totals.ok += interval.ok
        totals.miss += interval.miss
        for kind, number in interval.failed.items():
            totals.failed[kind] = totals.failed.get(kind, 0) + number
        totals.latency.add(interval.latency)
        totals.miss_latency.add(interval.miss_latency)
        totals.failed_latency.add(interval.failed_latency)


def _add_stages(totals: StageTotals, interval: StagesInterval) -> None:
    totals.connect.add(interval.connect)
    totals.waiting.add(interval.waiting)
    totals.processing.add(interval.processing)
    totals.whole.add(interval.whole)
    totals.refused.add(interval.refused)
    totals.received_bytes += interval.received_bytes
    totals.refused_bytes += interval.refused_bytes
