"""The runs on this machine: where they are, and which go on.

A run is a directory ``<UTC time>-<workload>[-n]`` under the runs folder, mode
0700, made with exclusive create so that two runs of one second never share one.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kvtui.errors import RunError
from kvtui.runs import journal
from kvtui.runs.plan import RunPlan
from kvtui.runs.state import RunState

PLAN_NAME = "plan.json"
SNAPSHOT_NAME = "snapshot.json"
LOG_NAME = "runner.log"


@dataclass(frozen=True)
class RunDirectory:
    """One run's directory."""

    path: Path

    @property
    def name(self) -> str:
        """The run's identifier."""
        return self.path.name

    @property
    def journal(self) -> Path:
        """Its journal, there as soon as the runner lives."""
        return self.path / journal.NAME

    @property
    def plan_path(self) -> Path:
        """Its plan."""
        return self.path / PLAN_NAME

    @property
    def snapshot(self) -> Path:
        """Its snapshot, there after the first trial."""
        return self.path / SNAPSHOT_NAME

    @property
    def log(self) -> Path:
        """What runner, workers and servers printed."""
        return self.path / LOG_NAME

    def records(self, trial: int) -> Path:
        """The copy of a trial's records."""
        return self.path / f"records-{trial}.sqlite"

    @property
    def goes_on(self) -> bool:
        """Whether its runner lives."""
        return journal.is_written(self.journal)

    def state(self) -> RunState:
        """Its journal folded to the end."""
        state, reader = RunState(), journal.JournalReader(self.journal)
        while events := reader.read():
            for event in events:
                state.apply(event)
        return state

    def plan(self) -> RunPlan:
        """Its plan; RunError when it cannot be read."""
        try:
            return msgspec.json.decode(self.plan_path.read_bytes(), type=RunPlan)
        except (OSError, msgspec.MsgspecError, RecursionError) as error:
            raise RunError(f"{self.plan_path} cannot be read: {error}") from error


def create(runs: Path, plan: RunPlan) -> RunDirectory:
    """A new directory under ``runs`` with the plan in it."""
    now = datetime.now(UTC)
    stem = f"{now:%Y%m%dT%H%M%SZ}-{plan.workload.name}"
    path: Path | None = None
    try:
        # Made one by one: mkdir gives its mode to the last folder only.
        for folder in (runs.parent, runs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = _exclusive(runs, stem)
        file = os.open(path / PLAN_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
    except OSError as error:
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)
        raise RunError(
            f"no run can be kept under {runs}: {error.strerror or error}",
            hint="free some space, or set XDG_STATE_HOME to a folder of yours",
        ) from error
    return RunDirectory(path)


def _exclusive(runs: Path, stem: str) -> Path:
    suffix = ""
    for number in range(2, 10_000):
        path = runs / f"{stem}{suffix}"
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            suffix = f"-{number}"
        else:
            return path
    raise RunError(f"{runs} holds too many runs named {stem}")


def all_runs(runs: Path) -> list[RunDirectory]:
    """Every run that is there, newest first; anything else is left out."""
    if not runs.is_dir():
        return []
    found = [RunDirectory(path) for path in runs.iterdir() if _is_run(path)]
    # Names begin with the UTC start time; a clock set back can only misplace a
    # run in the list, never hide one.
    return sorted(found, key=_order, reverse=True)


def _order(run: RunDirectory) -> tuple[str, int]:
    stem, _, number = run.name.rpartition("-")
    numbered = number.isascii() and number.isdecimal()
    return (stem, int(number)) if numbered else (run.name, 1)


def _is_run(path: Path) -> bool:
    return (path / PLAN_NAME).is_file()


def going_on(runs: Path) -> Iterator[RunDirectory]:
    """The runs whose runner lives, newest first."""
    return (run for run in all_runs(runs) if run.goes_on)


def find(runs: Path, wanted: str | None) -> RunDirectory:
    """The run meant by ``wanted``: a name, the beginning of one, or a directory.

    None means the newest one. RunError when there is none, or several.
    """
    found = all_runs(runs)
    if not found and wanted is None:
        raise RunError("there is no run yet", hint="kvtui run fans --store ram")
    if wanted is None:
        return found[0]
    if os.sep in wanted or wanted == ".":
        path = Path(wanted)
        if _is_run(path):
            return RunDirectory(path)
        raise RunError(f"{wanted} is not the directory of a run")
    matches = [run for run in found if run.name == wanted]
    matches = matches or [run for run in found if run.name.startswith(wanted)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(run.name for run in matches[:5])
        raise RunError(f"{wanted} may mean several runs: {names}")
    raise RunError(f"there is no run {wanted}", hint="kvtui runs lists them")


def stop(run: RunDirectory) -> int:
    """Ask the run's runner to stop; its process id. RunError if none lives."""
    if not run.goes_on:
        raise RunError(f"run {run.name} is not going on")
    state = run.state()
    if state.started is None:
        raise RunError(f"run {run.name} has not begun yet; try again")
    process_id = state.started.process_id
    # The lock says that a runner lives; the command line says that this is it.
    try:
        command = Path(f"/proc/{process_id}/cmdline").read_bytes()
    except OSError:
        command = b""
    if os.fsencode(run.name) not in command:
        raise RunError(f"the runner of {run.name} cannot be told for certain")
    os.kill(process_id, signal.SIGTERM)
    return process_id
