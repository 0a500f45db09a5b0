"""The runner: carries out a plan and writes the journal.

``python -m kvtui.engine.runner RUN_DIR`` is a process of its own. It starts private
servers and workers, turns their reports into events, samples the machine once a
second, and writes the snapshot after every trial. A trial that fails costs no other
trial its result. SIGTERM or SIGINT ends the run in order: the clients finish their
operations, nothing more is verified, the snapshot says *stopped*.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

from kvtui import __version__
from kvtui.engine import system
from kvtui.engine.fit import check_fit
from kvtui.engine.messages import EVICTED, Finish, Go, Stop, Verify, WorkerPlan
from kvtui.engine.trial import Trial, TrialFailed, WorkerProcess
from kvtui.errors import KvtuiError, RunError, SnapshotError
from kvtui.jobs import registry as jobs
from kvtui.jobs.workload import Room
from kvtui.runs import history, snapshot
from kvtui.runs.events import (
    AnyEvent,
    DataReady,
    Event,
    Note,
    Phase,
    PhaseStarted,
    RunFinished,
    RunStarted,
    StoreSeen,
    TrialFinished,
    TrialStarted,
    Verified,
)
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalWriter
from kvtui.runs.plan import RunPlan, StorePlan
from kvtui.runs.state import RunState
from kvtui.stores import registry as stores
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.store import StoreInfo

STOP_LIMIT_S: Final = 6.0
"""How long workers may take to end their measuring after a stop."""
START_AHEAD_NS: Final = 10_000_000
"""For each worker: how far ahead the agreed start lies, so that all hear of it."""
SAMPLE_S: Final = 1.0
SPARE_BYTES: Final = 200_000_000
DEFAULT_TIMEOUT_S: Final = 10.0


class Stopped(Exception):
    """The run was asked to stop, and the trial has."""


class Runner:
    """One run, from plan to last event."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._plan: RunPlan = run.plan()
        self._state = RunState()
        self._began = time.monotonic()
        self._stopping = False
        self._workload = jobs.workload_class(self._plan.workload.name)
        self._prepared = run.path / "prepared"
        self._room: Room | None = None
        self._sampler = system.Sampler()
        self._sampled_s = 0.0
        self._log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._journal = JournalWriter(run.journal)

    def stop(self, *_: Any) -> None:
        """Ask the run to end; called from signal handlers."""
        self._stopping = True

    def execute(self) -> None:
        """Carry the plan out; every way out ends with RunFinished."""
        outcome, reason = "failed", ""
        try:
            self._start()
            self._prepare()
            for number, store, repeat in self._plan.trials():
                self._run_trial(number, store, repeat)
                if self._stopping:
                    break
            outcome, reason = self._outcome()
            if self._stopping:
                outcome, reason = "stopped", "asked to stop"
        except Stopped:
            outcome, reason = "stopped", "asked to stop"
        except KvtuiError as error:
            reason = error.message + (f" ({error.hint})" if error.hint else "")
        except OSError as error:
            reason = f"{error.strerror or error}" + (
                f": {error.filename}" if error.filename else ""
            )
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(self._prepared, ignore_errors=True)
            self._finish(outcome, reason)

    def _finish(self, outcome: Any, reason: str) -> None:
        try:
            self._emit(RunFinished(self._now_s(), outcome, reason))
        except OSError as error:
            # The state has the event, so the snapshot may still tell.
            print(f"{self._run.journal}: {error.strerror}", file=sys.stderr)  # noqa: T201
        self._save()
        self._journal.close()

    def _outcome(self) -> tuple[str, str]:
        outcomes = [trial.outcome for trial in self._state.trials]
        failed = outcomes.count("failed")
        if not failed:
            return "done", ""
        reason = f"{failed} of {len(outcomes)} trials failed"
        return ("failed" if failed == len(outcomes) else "done"), reason

    def _now_s(self) -> float:
        return round(time.monotonic() - self._began, 6)

    def _emit(self, event: Event) -> None:
        known: AnyEvent = event  # type: ignore[assignment]
        self._state.apply(known)
        self._journal.append(event)

    def _start(self) -> None:
        self._emit(
            RunStarted(
                0.0,
                self._run.name,
                datetime.now(UTC).isoformat(timespec="milliseconds"),
                os.getpid(),
                self._plan,
                __version__,
                system.machine(),
            )
        )
        self._plan.check()
        self._workload.check(self._plan.workload.parameters)
        free = shutil.disk_usage(self._run.path).free
        if free < SPARE_BYTES:
            self._note(
                "warning", f"only {free / 1e6:,.0f} MB are free for the run's files"
            )

    def _note(self, level: Any, text: str, trial: int | None = None) -> None:
        self._emit(Note(self._now_s(), level, text, trial))

    def _prepare(self) -> None:
        def progress(_: int) -> None:
            if self._stopping:
                raise Stopped

        prepared = self._workload.prepare(
            self._plan.workload.parameters, self._prepared, progress
        )
        self._emit(
            DataReady(
                self._now_s(), prepared.facts, prepared.bad_lines, prepared.first_bad
            )
        )

    def _save(self) -> None:
        with contextlib.suppress(SnapshotError):
            document = snapshot.snapshot(self._state)
            snapshot.write(self._run.snapshot, document)
        if self._plan.save_to is not None and self._state.started is not None:
            try:
                snapshot.write(Path(self._plan.save_to), snapshot.snapshot(self._state))
            except SnapshotError as error:
                print(error.message, file=sys.stderr)  # noqa: T201 - the run's log

    def _run_trial(self, number: int, store: StorePlan, repeat: int) -> None:
        kind = stores.kind(store.kind)
        workers = 1 if kind.shared_by_threads else self._plan.workers
        workers = min(workers, self._plan.clients)
        note = ""
        if workers < self._plan.workers:
            why = "the store lives in its process"
            if not kind.shared_by_threads:
                why = "there are no more clients"
            note = f"one worker: {why}" if workers == 1 else f"{workers} workers: {why}"
        self._emit(
            TrialStarted(
                self._now_s(),
                number,
                store.name,
                repeat,
                self._plan.clients,
                workers,
                note,
            )
        )
        outcome, reason = "failed", ""
        try:
            self._check_capabilities(store)
            with self._store_settings(number, store, repeat) as (settings, server):
                self._carry_out(number, store, settings, server, workers)
            outcome = "done"
        except Stopped:
            outcome, reason = "stopped", "asked to stop"
        except (KvtuiError, OSError) as error:
            reason = self._reason(error)
        except Exception as error:
            traceback.print_exc()
            reason = f"{type(error).__name__}: {error}"
        self._emit(TrialFinished(self._now_s(), number, outcome, reason))  # type: ignore[arg-type]
        self._save()

    def _reason(self, error: Exception) -> str:
        if isinstance(error, KvtuiError):
            return error.message + (f" ({error.hint})" if error.hint else "")
        return str(error)

    def _check_capabilities(self, store: StorePlan) -> None:
        workload = jobs.open_workload(
            self._plan.workload.name, self._plan.workload.parameters, self._prepared
        )
        if workload.writes and stores.kind(store.kind).read_only:
            raise TrialFailed(
                f"{store.name} can only be read, and {workload.name} writes",
                hint=f"leave it out of a run of {workload.name}",
            )
        missing = workload.needs - stores.adapter(store.kind).capabilities
        if missing:
            raise TrialFailed(
                f"{store.name} has no {', '.join(sorted(missing))} of its own",
                hint="choose another mode for this store",
            )

    @contextlib.contextmanager
    def _store_settings(
        self, number: int, store: StorePlan, repeat: int
    ) -> Iterator[tuple[dict[str, Any], PrivateServer | None]]:
        """The settings under which workers reach the store; a private server
        around them, or a clean namespace on somebody's server."""
        self._phase(number, "connect")
        directory = self._run.path / f"store-{number}"
        if store.private:
            server = private_server(store.kind, directory, store.settings)
            try:
                yield server.start(), server
            finally:
                server.stop()
                shutil.rmtree(directory, ignore_errors=True)
            return
        settings = dict(store.settings)
        if not stores.is_somebodys(store.kind, store.private, settings):
            if "directory" in stores.kind(store.kind).settings:
                settings["directory"] = str(directory)
            try:
                yield settings, None
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            return
        self._claim(store)
        self._clear(store, settings)
        try:
            yield settings, None
        finally:
            if self._plan.keep and repeat == self._plan.repeat:
                if self._stopping:
                    self._note("warning", "half-done records are kept", number)
            else:
                self._clean_up(number, store, settings)

    def _claim(self, store: StorePlan) -> None:
        """Refuse a store that another run uses: both would write the same keys."""
        ours = _address(store)
        for other in history.going_on(self._run.path.parent):
            if other.name >= self._run.name:
                continue  # This run, or one that began later: it gives way.
            with contextlib.suppress(RunError):
                if any(_address(each) == ours for each in other.plan().stores):
                    raise TrialFailed(
                        f"run {other.name} is using {store.name}",
                        hint=f"wait for it, or end it: kvtui stop {other.name}",
                    )

    def _clean_up(
        self, number: int, store: StorePlan, settings: dict[str, Any]
    ) -> None:
        self._phase(number, "clean-up")
        try:
            self._wipe(store, settings)
        except KvtuiError as error:
            self._note(
                "warning",
                f"keys under kvtui:{self._workload.namespace}: may be left on"
                f" {store.name} ({error.message}); --clear removes them next time",
                number,
            )

    def _clear(self, store: StorePlan, settings: dict[str, Any]) -> None:
        opened = stores.adapter(store.kind)(settings)
        opened.open()
        try:
            left = opened.count(self._workload.namespace)
            if left and not self._plan.clear:
                raise TrialFailed(
                    f"{store.name} still holds {left:,} keys under"
                    f" kvtui:{self._workload.namespace}: from an earlier run",
                    hint="--clear removes these keys and no others",
                )
            if left:
                opened.wipe(self._workload.namespace)
        finally:
            opened.close()

    def _wipe(self, store: StorePlan, settings: dict[str, Any]) -> None:
        opened = stores.adapter(store.kind)(settings)
        opened.open()
        try:
            opened.wipe(self._workload.namespace)
        finally:
            opened.close()

    def _phase(self, trial: int, phase: Phase) -> None:
        self._emit(PhaseStarted(self._now_s(), trial, phase))

    def _carry_out(
        self,
        number: int,
        store: StorePlan,
        settings: dict[str, Any],
        server: PrivateServer | None,
        workers: int,
    ) -> None:
        clients = stores.kind(store.kind).clients
        asked = str(settings.get("client", clients[0]))
        plan = self._plan
        started: list[WorkerProcess] = []
        try:
            for worker in range(workers):
                started.append(
                    WorkerProcess(
                        WorkerPlan(
                            worker,
                            store.kind,
                            settings,
                            "wire" if asked == "wire" else "calls",
                            tuple(range(worker, plan.clients, workers)),
                            plan.clients,
                            plan.workload.name,
                            plan.workload.parameters,
                            str(self._prepared),
                            float(settings.get("timeout_s", DEFAULT_TIMEOUT_S)),
                        ),
                        self._log,
                    )
                )
            trial = Trial(number, started, self._emit, self._now_s)
            _Conversation(self, trial, server).hold(store)
        finally:
            for each in started:
                each.send(Finish())
            for each in started:
                each.end()

    def check_fit(self, trial: int, store: StorePlan, info: StoreInfo) -> None:
        """TrialFailed for a store that cannot hold the records; said when tight."""
        if info.memory_limit_bytes is None and info.item_limit_bytes is None:
            return
        if self._room is None:
            self._room = jobs.open_workload(
                self._plan.workload.name, self._plan.workload.parameters, self._prepared
            ).room()
        if self._room is None:
            return
        warning = check_fit(store.name, self._room, info)
        if warning:
            self._note("warning", warning, trial)

    def seen(self, trial: int, info: StoreInfo) -> None:
        """Tell what was found when the store was opened."""
        self._emit(
            StoreSeen(
                self._now_s(),
                trial,
                info.version,
                info.address,
                info.durability,
                info.client,
                info.keeps,
                info.memory_limit,
                info.eviction,
                info.compression,
                info.process_id,
                info.details,
            )
        )


class _Conversation:
    """The runner and the workers of one trial, from connect to verify."""

    def __init__(
        self, runner: Runner, trial: Trial, server: PrivateServer | None
    ) -> None:
        self._runner, self._trial, self._server = runner, trial, server
        self._selector = selectors.DefaultSelector()
        self._stop_by: float | None = None
        for worker in trial.workers:
            self._selector.register(worker.file, selectors.EVENT_READ, worker)

    def hold(self, store: StorePlan) -> None:
        """Lead the trial through its phases."""
        runner, trial = self._runner, self._trial
        try:
            runner._phase(trial.number, "load")
            self._until(lambda: trial.all("ready"))
            ready = trial.workers[0].ready
            if ready is None:
                raise TrialFailed("a worker was not ready")
            runner.seen(trial.number, ready.info)
            runner.check_fit(trial.number, store, ready.info)
            runner._phase(trial.number, "measure")
            trial.start_measuring(ready.info.process_id)
            ahead_ns = START_AHEAD_NS * (1 + len(trial.workers))
            begin = Go(time.perf_counter_ns() + ahead_ns)
            for worker in trial.workers:
                worker.send(begin)
            self._until(lambda: trial.all("measured"))
            measured = trial.measured()
            runner._emit(measured)
            evicted = measured.figures.get(EVICTED, 0)
            if evicted:
                runner._note(
                    "error",
                    f"data lost: {store.name} evicted {evicted:,} keys to stay within"
                    f" its memory limit (policy {ready.info.eviction})",
                    trial.number,
                )
            gone = trial.gone()
            if gone:
                raise TrialFailed(gone)
            if measured.stopped or runner._stopping:
                raise Stopped
            if ready.info.keeps:
                self._verify(store)
        except TrialFailed:
            trial.flush_intervals()
            raise
        finally:
            self._selector.close()

    def _verify(self, store: StorePlan) -> None:
        runner, trial = self._runner, self._trial
        runner._phase(trial.number, "verify")
        trial.phase = "verify"
        path = runner._run.records(trial.number)
        workload = jobs.open_workload(
            runner._plan.workload.name,
            runner._plan.workload.parameters,
            runner._prepared,
        )
        facts = {
            "run": runner._run.name,
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
            if trial.keeper is not None:
                trial.keeper.close()
        except SnapshotError as error:
            trial.lose_copy(error)
        except BaseException:
            if trial.keeper is not None:
                trial.keeper.discard()
            raise
        found = trial.findings()
        runner._emit(
            Verified(
                runner._now_s(),
                trial.number,
                found.checked,
                found.expected,
                found.wrong,
                found.first_wrong,
                found.sampled,
                found.stored_bytes,
                path.name if trial.keeper is not None else "",
            )
        )

    def _until(self, done: Callable[[], bool]) -> None:
        """Listen to the workers until ``done``; everything else happens here too."""
        while not done():
            for key, _ in self._selector.select(timeout=0.1):
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
        runner, trial = self._runner, self._trial
        now_s = runner._now_s()
        if now_s - runner._sampled_s >= SAMPLE_S:
            length_s = now_s - runner._sampled_s
            runner._sampled_s = now_s
            runner._emit(runner._sampler.sample(now_s, length_s))
        death = self._server_death()
        if death is not None:
            raise death
        if not runner._stopping:
            return
        if trial.phase != "measure":
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


def _address(store: StorePlan) -> tuple[str, str]:
    """Where somebody's store is; no two names of one place compare equal here, which
    costs a clear message and no data: every run refuses keys it finds."""
    if store.private:
        return "", store.name
    folder = store.settings.get("directory")
    where = os.path.realpath(folder) if folder else stores.place(store.settings)
    return store.kind, where


def main() -> None:
    """Carry out the run whose directory is the only argument."""
    os.umask(0o077)
    runner = Runner(RunDirectory(Path(sys.argv[1])))

    def stop(_: int, __: FrameType | None) -> None:
        runner.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    runner.execute()


if __name__ == "__main__":
    main()
