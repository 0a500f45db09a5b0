"""The runner: carries out a plan and writes the journal.

``python -m kvtui.engine.runner RUN_DIR`` is a process of its own. It starts private
servers and workers, turns their reports into events, samples the machine once a
second, and writes the snapshot after every trial. A trial that fails costs no other
trial its result. SIGTERM or SIGINT ends the run in order: the clients finish their
operations, nothing more is verified, the snapshot says *stopped*.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

from kvtui import __version__, secrets
from kvtui.engine import markers, premises, system
from kvtui.engine.chronicle import Chronicle
from kvtui.engine.conversation import Conversation, Stopped
from kvtui.engine.fit import check_disk, check_fit
from kvtui.engine.messages import Finish, WorkerPlan
from kvtui.engine.trial import Trial, TrialFailed, WorkerProcess
from kvtui.errors import KvtuiError
from kvtui.jobs import registry as jobs
from kvtui.jobs.workload import Room, Workload
from kvtui.runs.events import DataReady, RunStarted, TrialFinished, TrialStarted
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan, StorePlan
from kvtui.stores import registry as stores
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.store import StoreInfo

SPARE_BYTES: Final = 200_000_000
DEFAULT_TIMEOUT_S: Final = 10.0

_Surroundings = tuple[dict[str, Any], PrivateServer | None, premises.Premises | None]


class Runner:
    """One run, from plan to last event."""

    def __init__(self, run: RunDirectory) -> None:
        self._run = run
        self._plan: RunPlan = run.plan()
        self._stopping = self._may_end = False
        self._workload = jobs.workload_class(self._plan.workload.name)
        self._parameters = self._workload.settled(
            self._plan.workload.parameters,
            seed=self._plan.seed,
            clients=self._plan.clients,
        )
        self._prepared = run.path / "prepared"
        self._room: Room | None = None
        self._log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._chronicle = Chronicle(run, self._plan.save_to)
        for store in self._plan.stores:
            secrets.learn_settings(store.settings)

    def stop(self) -> None:
        """Ask the run to end; called from signal handlers. What may be broken off is
        broken off."""
        self._stopping = True
        if self._may_end:
            self._may_end = False
            raise Stopped

    @contextlib.contextmanager
    def _ending(self) -> Iterator[None]:
        """Around what may be broken off at any moment: a driver that is connecting
        looks at no flag, and its server may be dead."""
        try:
            self._may_end = True
            if self._stopping:
                raise Stopped
            yield
        finally:
            self._may_end = False

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
        except (KvtuiError, OSError) as error:
            reason = _in_words(error)
        except Exception as error:
            secrets.print_traceback(error)
            reason = f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(self._prepared, ignore_errors=True)
            self._chronicle.finish(outcome, reason)

    def _outcome(self) -> tuple[str, str]:
        outcomes = [trial.outcome for trial in self._chronicle.state.trials]
        failed = outcomes.count("failed")
        if not failed:
            return "done", ""
        reason = f"{failed} of {len(outcomes)} trials failed"
        return ("failed" if failed == len(outcomes) else "done"), reason

    def _start(self) -> None:
        self._chronicle.emit(
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
            self._chronicle.note(
                "warning", f"only {free / 1e6:,.0f} MB are free for the run's files"
            )

    def _prepare(self) -> None:
        def progress(_: int) -> None:
            if self._stopping:
                raise Stopped

        prepared = self._workload.prepare(self._parameters, self._prepared, progress)
        self._chronicle.emit(
            DataReady(
                self._chronicle.now_s(),
                prepared.facts,
                prepared.bad_lines,
                prepared.first_bad,
            )
        )

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
        self._chronicle.emit(
            TrialStarted(
                self._chronicle.now_s(),
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
            self._check_disk(number, store)
            with self._store_settings(number, store, repeat) as found:
                self._carry_out(number, store, workers, *found)
            outcome = "done"
        except Stopped:
            outcome, reason = "stopped", "asked to stop"
        except (KvtuiError, OSError) as error:
            reason = _in_words(error)
        except Exception as error:
            secrets.print_traceback(error)
            reason = f"{type(error).__name__}: {error}"
        ended = self._chronicle.now_s()
        self._chronicle.emit(TrialFinished(ended, number, outcome, reason))  # type: ignore[arg-type]
        self._chronicle.save()

    def _check_capabilities(self, store: StorePlan) -> None:
        workload = self._opened()
        if workload.writes and stores.kind(store.kind).read_only:
            raise TrialFailed(
                f"{store.name} can only be read, and {workload.name} writes",
                hint=f"leave it out of a run of {workload.name}",
            )
        if workload.kinds and store.kind not in workload.kinds:
            raise TrialFailed(
                f"{store.name} is no store for {workload.name}",
                hint=f"it is asked of {' or '.join(sorted(workload.kinds))}",
            )
        missing = workload.needs - stores.adapter(store.kind).capabilities
        if missing:
            raise TrialFailed(
                f"{store.name} has no {', '.join(sorted(missing))} of its own",
                hint=f"{self._workload.name} as planned cannot be asked of it",
            )

    def _opened(self) -> Workload:
        name = self._plan.workload.name
        return jobs.open_workload(name, self._parameters, self._prepared)

    @contextlib.contextmanager
    def _store_settings(
        self, number: int, store: StorePlan, repeat: int
    ) -> Iterator[_Surroundings]:
        """The settings under which workers reach the store; a private server
        around them, or a clean namespace on somebody's server."""
        self._chronicle.phase(number, "connect")
        directory = self._run.path / f"store-{number}"
        if store.private:
            server = private_server(store.kind, directory, store.settings)
            try:
                with self._ending():
                    reach = server.start()
                yield reach, server, None
            finally:
                server.stop()
                shutil.rmtree(directory, ignore_errors=True)
            return
        settings = dict(store.settings)
        if not stores.is_somebodys(store.kind, store.private, settings):
            if "directory" in stores.kind(store.kind).settings:
                settings["directory"] = str(directory)
            try:
                yield settings, None, None
            finally:
                shutil.rmtree(directory, ignore_errors=True)
            return
        with self._as_guest(number, store, repeat) as stay:
            yield settings, None, stay

    @contextlib.contextmanager
    def _as_guest(
        self, number: int, store: StorePlan, repeat: int
    ) -> Iterator[premises.Premises]:
        """A stay on somebody's server, which is left as it was found."""
        namespace = self._workload.namespace
        stay = premises.Premises(store, namespace, self._workload.name, self._run)

        def tell(level: str, text: str) -> None:
            self._chronicle.note(level, text, number)

        stay.claim()
        stay.enter(
            overwrite=self._plan.clear,
            room=self._room_needed,
            tell=tell,
            pause=self._pause,
            may_end=self._ending,
        )
        try:
            yield stay
        finally:
            phase = self._chronicle.state.trials[-1].phase
            hurry = self._stopping and phase in ("connect", "load")
            keep = self._plan.keep and repeat == self._plan.repeat
            if keep and self._stopping:
                tell("warning", "half-done records are kept")
            elif not keep:
                self._chronicle.phase(number, "clean-up")
            try:
                stay.leave(keep=keep, hurry=hurry)
            except KvtuiError as error:
                tell("warning", markers.what_remains(error, store, namespace))

    def _pause(self, length_s: float) -> None:
        if self._stopping:
            raise Stopped
        time.sleep(length_s)

    def _carry_out(
        self,
        number: int,
        store: StorePlan,
        workers: int,
        settings: dict[str, Any],
        server: PrivateServer | None,
        stay: premises.Premises | None,
    ) -> None:
        clients = stores.kind(store.kind).clients
        asked = str(settings.get("client", clients[0]))
        plan = self._plan
        started: list[WorkerProcess] = []

        def disturbed(lossy: bool) -> str:
            with self._ending():
                return stay.disturbed(lossy=lossy) if stay else ""

        # Memory with a name that the workers can open, for as long as the trial lasts.
        shared = os.memfd_create("kvtui trial") if workers > 1 else None
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
                            self._parameters,
                            str(self._prepared),
                            float(settings.get("timeout_s", DEFAULT_TIMEOUT_S)),
                            f"/proc/{os.getpid()}/fd/{shared}" if shared else "",
                        ),
                        self._log,
                    )
                )
            chronicle = self._chronicle
            trial = Trial(number, started, chronicle.emit, chronicle.now_s)
            Conversation(
                chronicle,
                trial,
                server,
                opened=self._opened,
                disturbed=disturbed,
                fits=lambda info: self._check_fit(number, store, info),
                stopping=lambda: self._stopping,
                fills=self._workload.fills,
            ).hold(store)
        finally:
            for each in started:
                each.send(Finish())
            for each in started:
                each.end()
            if shared is not None:
                os.close(shared)

    def _room_needed(self) -> Room | None:
        if self._room is None:
            with self._ending():
                self._room = self._opened().room()
        return self._room

    def _check_disk(self, number: int, store: StorePlan) -> None:
        """TrialFailed for a store whose disk cannot hold the records; said when tight.
        Nothing has been started or written by then."""
        kept = stores.in_files(store.kind, store.private, store.settings)
        room = self._room_needed() if kept else None
        if room is None:
            return
        named = store.settings.get("directory")
        folder = Path(str(named)) if named else self._run.path / f"store-{number}"
        warning = check_disk(store.name, room, folder, compressed=kept == "compressed")
        if warning:
            self._chronicle.note("warning", warning, number)

    def _check_fit(self, trial: int, store: StorePlan, info: StoreInfo) -> None:
        """TrialFailed for a store that cannot hold the records; said when tight."""
        limits = info.memory_limit_bytes, info.item_limit_bytes, info.records_limit
        if limits == (None, None, None):
            return
        room = self._room_needed()
        if room is None:
            return
        warning = check_fit(store.name, room, info)
        if warning:
            self._chronicle.note("warning", warning, trial)


def _in_words(error: KvtuiError | OSError) -> str:
    if isinstance(error, KvtuiError):
        return error.message + (f" ({error.hint})" if error.hint else "")
    said = error.strerror or str(error)
    if error.filename:
        said += f": {error.filename}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        said += " (the disk of the run's folder is full)"
    return said


def main() -> None:
    """Carry out the run whose directory is the only argument."""
    os.umask(0o077)
    secrets.guard()
    runner = Runner(RunDirectory(Path(sys.argv[1])))

    def stop(_: int, __: FrameType | None) -> None:
        runner.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    runner.execute()


if __name__ == "__main__":
    main()
