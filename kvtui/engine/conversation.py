"""The runner and the workers of one trial, from connect to verify."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Final

from kvtui.engine.chronicle import Chronicle
from kvtui.engine.markers import KEEPS_ALL
from kvtui.engine.messages import EVICTED, Go, Stop, Verify
from kvtui.engine.trial import Trial, TrialFailed, WorkerProcess
from kvtui.errors import SnapshotError
from kvtui.jobs.workload import Workload
from kvtui.runs.events import Phase, Verified
from kvtui.runs.plan import StorePlan
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import StoreInfo

STOP_LIMIT_S: Final = 6.0
"""How long workers may take to end their measuring after a stop."""
START_AHEAD_NS: Final = 10_000_000
"""For each worker: how far ahead the agreed start lies, so that all hear of it."""


LOOK_AROUND_S: Final = 0.1
"""How long nothing else is looked at where no worker says anything: a dead server, a
wish to stop."""


class Stopped(BaseException):
    """The run was asked to stop, and the trial has.

    No Exception: it may be raised within a driver that is connecting, and no driver
    shall take it for a failed attempt.
    """


class Conversation:
    """The runner and the workers of one trial, from connect to verify."""

    def __init__(
        self,
        chronicle: Chronicle,
        trial: Trial,
        server: PrivateServer | None,
        *,
        opened: Callable[[], Workload],
        fits: Callable[[StoreInfo], None],
        disturbed: Callable[[bool], str],
        stopping: Callable[[], bool],
        fills: bool = False,
    ) -> None:
        self._chronicle, self._trial, self._server = chronicle, trial, server
        self._opened, self._fits, self._stopping = opened, fits, stopping
        self._disturbed = disturbed
        self._fills = fills
        self._selector = selectors.DefaultSelector()
        self._stop_by: float | None = None
        for worker in trial.workers:
            self._selector.register(worker.file, selectors.EVENT_READ, worker)

    def hold(self, store: StorePlan) -> None:
        """Lead the trial through its phases."""
        chronicle, trial = self._chronicle, self._trial
        try:
            chronicle.phase(trial.number, "load")
            self._until(lambda: trial.all("ready"))
            ready = trial.workers[0].ready
            if ready is None:
                raise TrialFailed("a worker was not ready")
            chronicle.seen(trial.number, ready.info)
            self._fits(ready.info)
            self._check_undisturbed(lossy=True)
            if self._fills:
                self._load(store, ready.info)
            chronicle.phase(trial.number, "measure")
            self._clock("measure", ready.info)
            measured = trial.measured()
            chronicle.emit(measured)
            evicted = measured.figures.get(EVICTED, 0)
            if evicted:
                chronicle.note(
                    "error",
                    f"data lost: {store.name} evicted {evicted:,} keys to stay within"
                    f" its memory limit (policy {ready.info.eviction})",
                    trial.number,
                )
            gone = trial.gone()
            if gone:
                raise TrialFailed(gone)
            if measured.stopped or self._stopping():
                raise Stopped
            if ready.info.keeps:
                told = "evicted_keys" in ready.info.details
                drops = ready.info.eviction not in KEEPS_ALL and not told
                lossy = bool(evicted or measured.figures.get("reconnects")) or drops
                self._verify(store, lossy=lossy)
                if drops and trial.findings().wrong:
                    self._tell_lost(store, ready.info)
        except TrialFailed:
            trial.flush_intervals()
            raise
        finally:
            self._selector.close()

    def _tell_lost(self, store: StorePlan, info: StoreInfo) -> None:
        """The only evidence of what a server dropped that does not count it."""
        found = self._trial.findings()
        self._chronicle.note(
            "error",
            f"data lost: {found.wrong:,} of {found.checked:,} records on {store.name}"
            " are missing or not whole; it drops records without counting them (limit"
            f" {info.memory_limit}), or may",
            self._trial.number,
        )

    def _clock(self, phase: Phase, info: StoreInfo) -> None:
        """Let all workers do a phase with intervals."""
        trial = self._trial
        trial.start(phase, info.process_id)
        ahead_ns = START_AHEAD_NS * (1 + len(trial.workers))
        begin = Go(time.perf_counter_ns() + ahead_ns, phase)
        for worker in trial.workers:
            worker.send(begin)
        self._until(lambda: trial.all("measured"))

    def _load(self, store: StorePlan, info: StoreInfo) -> None:
        """Have the records put into the store; TrialFailed where one was not: what
        would be measured then is another data set."""
        self._clock("load", info)
        loaded = self._trial.loaded()
        self._chronicle.emit(loaded)
        gone = self._trial.gone()
        if gone:
            raise TrialFailed(gone)
        if loaded.stopped or self._stopping():
            raise Stopped
        if loaded.failed or loaded.unfinished:
            missing = loaded.failed + loaded.unfinished
            raise TrialFailed(
                f"{missing:,} of {loaded.attempted:,} records could not be loaded"
                f" into {store.name}",
                hint="nothing was measured; the first failure of each kind is told",
            )

    def _check_undisturbed(self, *, lossy: bool) -> None:
        """TrialFailed where it is not the store that is to blame."""
        why = self._disturbed(lossy)
        if why:
            raise TrialFailed(why)

    def _verify(self, store: StorePlan, *, lossy: bool) -> None:
        chronicle, trial = self._chronicle, self._trial
        self._check_undisturbed(lossy=lossy)
        chronicle.phase(trial.number, "verify")
        trial.phase = "verify"
        path = chronicle.run.records(trial.number)
        workload = self._opened()
        facts = {
            "run": chronicle.run.name,
            "store": store.name,
            "trial": str(trial.number),
        }
        try:
            trial.keeper = workload.keeper(path, facts)
        except SnapshotError as error:
            trial.lose_copy(error)
        try:
            for worker in trial.workers:
                worker.send(Verify())
            self._until(lambda: trial.all("verify_finished"))
            if trial.findings().wrong:
                self._check_undisturbed(lossy=lossy)
            if trial.keeper is not None:
                trial.keeper.close()
        except SnapshotError as error:
            trial.lose_copy(error)
        except BaseException:
            if trial.keeper is not None:
                trial.keeper.discard()
            raise
        found = trial.findings()
        chronicle.emit(
            Verified(
                chronicle.now_s(),
                trial.number,
                found.checked,
                found.expected,
                found.wrong,
                found.first_wrong,
                found.sampled,
                found.stored_bytes,
                path.name if trial.keeper is not None else "",
                found.kinds,
            )
        )

    def _until(self, done: Callable[[], bool]) -> None:
        """Listen to the workers until ``done``; everything else happens here too."""
        while not done():
            for key, _ in self._selector.select(LOOK_AROUND_S):
                self._listen(key.data)
            self._look_around()

    def _listen(self, worker: WorkerProcess) -> None:
        for message in worker.receiver.receive():
            self._trial.handle(worker, message)
        if worker.measured is not None and worker.measured.gone:
            for other in self._trial.workers:
                other.send(Stop())  # The store is gone for them too.
        if worker.receiver.ended:
            self._selector.unregister(worker.file)
            server = self._server_death()
            if server is not None:
                raise server
            raise self._trial.died(worker)

    def _look_around(self) -> None:
        chronicle, trial = self._chronicle, self._trial
        chronicle.sample()
        death = self._server_death()
        if death is not None:
            raise death
        if not self._stopping():
            return
        if trial.phase not in ("load", "measure"):
            raise Stopped
        if self._stop_by is None:
            self._stop_by = time.monotonic() + STOP_LIMIT_S
            for worker in trial.workers:
                worker.send(Stop())
        elif time.monotonic() > self._stop_by:
            trial.flush_intervals()
            raise Stopped

    def _server_death(self) -> TrialFailed | None:
        died = None if self._server is None else self._server.death()
        if died is None or self._server is None:
            return None
        # Whoever ended it with a signal is not in its log.
        log = "" if "SIG" in died else f" (its log ends: {self._server.last_lines(2)})"
        return TrialFailed(f"the private {self._server.kind} server {died}{log}")
