"""One trial as the runner sees it: its workers, and what they have reported.

Reports of several workers become one interval: their histograms are merged, their
counts added. Everything is checked to add up before the trial counts as measured.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Final

from kvtui.engine import system
from kvtui.engine.calls import add_up
from kvtui.engine.channel import Receiver, Sender
from kvtui.engine.messages import (
    EVICTED,
    FaultSeen,
    Kept,
    MeasuredPart,
    Message,
    Order,
    Ready,
    Report,
    VerifiedPart,
    WorkerPlan,
)
from kvtui.engine.messages import Failed as WorkerFailed
from kvtui.errors import KvtuiError, SnapshotError
from kvtui.jobs.workload import Findings, Keeper
from kvtui.runs.events import (
    Event,
    Faulted,
    Interval,
    Loaded,
    Measured,
    Note,
    OperationInterval,
    Phase,
    Progress,
    StagesInterval,
)
from kvtui.runs.latency import merged

KILL_AFTER_S: Final = 2.0


class TrialFailed(KvtuiError):
    """A trial cannot go on; the reason is for people."""


class WorkerProcess:
    """A worker on this machine, over pipes."""

    def __init__(self, plan: WorkerPlan, log: int) -> None:
        self.number = plan.worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kvtui.engine.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise TrialFailed("a worker came without pipes")
        self._sender = Sender(self._process.stdin.fileno())
        self.receiver: Receiver[Message] = Receiver(
            self._process.stdout.fileno(), Message
        )
        self.ready: Ready | None = None
        self.measured: MeasuredPart | None = None
        self.verified: Findings | None = None
        self.verify_finished = False
        self.reports: dict[int, Report] = {}
        self.send(plan)

    @property
    def file(self) -> int:
        """Becomes readable when the worker has something to say."""
        return self.receiver.file

    @property
    def process_id(self) -> int:
        """Of the worker."""
        return self._process.pid

    def send(self, order: Order) -> None:
        """Tell it something; a worker that is gone hears nothing."""
        try:
            self._sender.send(order)
        except OSError:
            return

    def death(self) -> str:
        """How it ended, in words."""
        try:
            code = self._process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def end(self) -> None:
        """Wait for it to end; kill it after a limit."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Trial:
    """A trial's workers and what is known from them."""

    def __init__(
        self,
        number: int,
        workers: Sequence[WorkerProcess],
        emit: Callable[[Event], None],
        now_s: Callable[[], float],
    ) -> None:
        self.number = number
        self.workers = list(workers)
        self.phase: Phase = "connect"
        self.keeper: Keeper | None = None
        self.server_process_id: int | None = None
        self._emit, self._now_s = emit, now_s
        self._next_index = 0
        self._counted = self._failed = 0
        self._known_faults: set[tuple[str, str]] = set()
        self._server_cpu_s: float | None = None
        self._done: dict[int, tuple[int, int]] = {}

    def handle(self, worker: WorkerProcess, message: Message) -> None:
        """Take in what a worker says; TrialFailed when it cannot go on."""
        match message:
            case Ready():
                worker.ready = message
            case Report():
                worker.reports[message.index] = message
                self._merge_intervals(ending=False)
            case FaultSeen():
                self._fault(message)
            case MeasuredPart():
                worker.measured = message
                self._merge_intervals(ending=self.all("measured"))
            case Kept():
                self._keep(message)
            case VerifiedPart():
                worker.verified = message.findings
                worker.verify_finished = message.finished
                self._tell_verified()
            case WorkerFailed():
                raise TrialFailed(message.reason, hint=message.hint or None)

    def _keep(self, kept: Kept) -> None:
        """Copy records. A copy that cannot be written costs no verification."""
        if self.keeper is None:
            return
        try:
            for number, record in kept.records:
                self.keeper.keep(number, record)
        except SnapshotError as error:
            self.lose_copy(error)

    def lose_copy(self, error: SnapshotError) -> None:
        """Go on without a copy of the records, and say so."""
        if self.keeper is not None:
            self.keeper.discard()
            self.keeper = None
        self._emit(Note(self._now_s(), "warning", error.message, self.number))

    def all(self, what: str) -> bool:
        """Whether every worker has come to ``ready``, ``measured``, …"""
        return all(getattr(worker, what) for worker in self.workers)

    def died(self, worker: WorkerProcess) -> TrialFailed:
        """The error for a worker that ended without being asked to."""
        if len(self.workers) == 1:
            return TrialFailed(f"the worker {worker.death()}")
        return TrialFailed(
            f"worker {worker.number + 1} of {len(self.workers)} {worker.death()}"
        )

    def start(self, phase: Phase, server_process_id: int | None) -> None:
        """The clock is about to run for a phase with intervals."""
        self.phase = phase
        for worker in self.workers:
            worker.measured = None
            worker.reports.clear()
        self._next_index = self._counted = self._failed = 0
        self._done.clear()
        self.server_process_id = server_process_id
        self._server_cpu_s = system.process_cpu_s(server_process_id)

    def _fault(self, fault: FaultSeen) -> None:
        known = (fault.operation, fault.kind)
        if known not in self._known_faults:
            self._known_faults.add(known)
            self._emit(
                Faulted(
                    self._now_s(),
                    self.number,
                    fault.operation,
                    fault.kind,
                    fault.message,
                    fault.phase_s,
                )
            )

    def _merge_intervals(self, *, ending: bool) -> None:
        """Pass on each interval for which every worker has reported.

        A worker that has ended reports no more; at the end nothing is awaited.
        """
        while True:
            index = self._next_index
            parts = [
                worker.reports[index]
                for worker in self.workers
                if index in worker.reports
            ]
            awaited = [
                worker
                for worker in self.workers
                if index not in worker.reports and worker.measured is None
            ]
            if not parts or (awaited and not ending):
                return
            for worker in self.workers:
                report = worker.reports.pop(index, None)
                if report is not None:
                    self._done[worker.number] = report.done, report.total
            self._next_index += 1
            self._emit(self._interval(index, parts))

    def flush_intervals(self) -> None:
        """Pass on what has been reported, whatever is missing: a worker died."""
        self._merge_intervals(ending=True)

    def _interval(self, index: int, parts: Sequence[Report]) -> Interval:
        start_s = min(part.start_s for part in parts)
        end_s = max(part.start_s + part.length_s for part in parts)
        operations = {
            label: merge(
                [part.operations[label] for part in parts if label in part.operations]
            )
            for label in sorted({label for part in parts for label in part.operations})
        }
        self._counted += sum(
            each.ok + each.miss + sum(each.failed.values())
            for each in operations.values()
        )
        self._failed += sum(sum(each.failed.values()) for each in operations.values())
        before, now = self._server_cpu_s, system.process_cpu_s(self.server_process_id)
        self._server_cpu_s = now
        return Interval(
            at_s=self._now_s(),
            trial=self.number,
            phase=self.phase,
            index=index,
            start_s=start_s,
            length_s=end_s - start_s,
            operations=operations,
            done=sum(done for done, _ in self._done.values()),
            total=self._total(),
            read_bytes=sum(part.read_bytes for part in parts),
            written_bytes=sum(part.written_bytes for part in parts),
            worker_cpu_s=tuple(part.cpu_s for part in parts),
            server_cpu_s=(
                now - before if now is not None and before is not None else None
            ),
            oldest_waiting_s=max(part.oldest_waiting_s for part in parts),
            stages=merge_stages([part.stages for part in parts if part.stages]),
        )

    def _total(self) -> int:
        """Units of work to do in this phase, as far as the workers have told."""
        if self.phase == "load":
            return sum(total for _, total in self._done.values())
        return sum(worker.ready.total for worker in self.workers if worker.ready)

    def loaded(self) -> Loaded:
        """What loading came to; TrialFailed when its sums do not add up."""
        measured = self.measured()
        return Loaded(
            at_s=measured.at_s,
            trial=self.number,
            elapsed_s=measured.elapsed_s,
            attempted=measured.attempted,
            failed=self._failed,
            unfinished=measured.unfinished,
            stopped=measured.stopped,
        )

    def measured(self) -> Measured:
        """The workers' own sums; TrialFailed when they do not add up."""
        parts = [worker.measured for worker in self.workers if worker.measured]
        attempted = sum(part.attempted for part in parts)
        finished = sum(part.finished for part in parts)
        unfinished = sum(part.unfinished for part in parts)
        if attempted != finished + unfinished or finished != self._counted:
            raise TrialFailed(
                f"the counts do not add up: attempted {attempted:,}, finished"
                f" {finished:,}, unfinished {unfinished:,}, in intervals"
                f" {self._counted:,}; no figure of this trial can be trusted",
                hint="this is a fault of kvtui; please report it with the journal",
            )
        firsts = [part.first_s for part in parts if part.first_s is not None]
        lasts = [part.last_s for part in parts if part.last_s is not None]
        figures: dict[str, int] = {}
        for part in parts:
            for name, value in part.figures.items():
                if name == EVICTED:  # Every worker read the server's one counter.
                    figures[name] = max(figures.get(name, 0), value)
                else:
                    figures[name] = figures.get(name, 0) + value
            if part.reconnects:
                figures["reconnects"] = figures.get("reconnects", 0) + part.reconnects
        return Measured(
            at_s=self._now_s(),
            trial=self.number,
            elapsed_s=(
                max(lasts) - min(firsts) if attempted and lasts and firsts else None
            ),
            attempted=attempted,
            unfinished=unfinished,
            oldest_unfinished_s=max(part.oldest_unfinished_s for part in parts),
            client_work_s=sum(part.client_work_s for part in parts),
            store_s=sum(part.store_s for part in parts),
            figures=figures,
            stopped=any(part.stopped for part in parts),
        )

    def gone(self) -> str:
        """Why the store is gone, if a worker says so."""
        for worker in self.workers:
            if worker.measured is not None and worker.measured.gone:
                return worker.measured.gone
        return ""

    def findings(self) -> Findings:
        """What verifying has found, over all workers."""
        parts = [worker.verified for worker in self.workers if worker.verified]
        return Findings(
            checked=sum(part.checked for part in parts),
            expected=sum(part.expected for part in parts),
            wrong=sum(part.wrong for part in parts),
            first_wrong=next((p.first_wrong for p in parts if p.first_wrong), ""),
            sampled=any(part.sampled for part in parts),
            stored_bytes=sum(part.stored_bytes for part in parts),
            kinds=add_up([part.kinds for part in parts]),
        )

    def _tell_verified(self) -> None:
        found = self.findings()
        self._emit(
            Progress(
                self._now_s(), self.number, "verify", found.checked, found.expected
            )
        )


def merge(parts: Sequence[OperationInterval]) -> OperationInterval:
    """The same second of several workers as one."""
    if len(parts) == 1:
        return parts[0]
    failed: dict[str, int] = {}
    for part in parts:
        for kind, number in part.failed.items():
            failed[kind] = failed.get(kind, 0) + number
    return OperationInterval(
        ok=sum(part.ok for part in parts),
        miss=sum(part.miss for part in parts),
        failed=failed,
        latency=merged(*(part.latency for part in parts)),
        miss_latency=merged(*(part.miss_latency for part in parts)),
        failed_latency=merged(*(part.failed_latency for part in parts)),
    )


def merge_stages(parts: Sequence[StagesInterval]) -> StagesInterval | None:
    """The same second of several workers as one; None where none has stages."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return StagesInterval(
        connect=merged(*(part.connect for part in parts)),
        waiting=merged(*(part.waiting for part in parts)),
        processing=merged(*(part.processing for part in parts)),
        whole=merged(*(part.whole for part in parts)),
        refused=merged(*(part.refused for part in parts)),
        received_bytes=sum(part.received_bytes for part in parts),
        refused_bytes=sum(part.refused_bytes for part in parts),
    )
