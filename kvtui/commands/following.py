"""Starting a run and staying with it until it ends, or until somebody leaves."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec

from kvtui import config
from kvtui.commands import console
from kvtui.commands.progress import Progress
from kvtui.errors import RunError, SnapshotError
from kvtui.runs import history, report, report_text, snapshot
from kvtui.runs.follow import Follower
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan
from kvtui.runs.state import RunState
from kvtui.text import visible

Body = Callable[[RunState], Iterable[str]]
"""Lines that show a run."""

POLL_S: Final = 0.05
INTERRUPTED: Final = 130
LOG_LINES: Final = 15


def carry_out(
    plan: RunPlan,
    *,
    as_json: bool = False,
    body: Body | None = None,
    ended: Callable[[RunState], None] | None = None,
) -> int:
    """Start a run, follow it, print its ranking, or ``body`` in its place; the exit
    code. ``ended`` is told what is known in the end.

    The first Ctrl-C stops the run in order, the second one leaves at once. A lost
    terminal, or SIGTERM, ends only this process; the run goes on.
    """
    from kvtui.engine import launcher

    with _Signals() as signals:
        run = launcher.start(plan, config.runs_directory())
        console.say(f"  run {run.name}")
        follower = Follower(run, _child_has_died)
        _stay(follower, signals)
    if follower.standing == "lost":
        console.complain(f"the runner of {run.name} died", _log_end(run))
    made = report.report(follower.state, cut_off=follower.standing == "lost")
    show(run, made, as_json=as_json, body=body and body(follower.state))
    if ended is not None:
        ended(follower.state)
    code = exit_code(follower, made)
    if plan.save_to is not None and follower.state.started is not None:
        code = _check_saved(run, plan.save_to) or code
    return INTERRUPTED if signals.interrupts else code


def exit_code(follower: Follower, made: report.Report) -> int:
    """0 when the run was done and every store kept what it should."""
    done = follower.standing == "ended" and made.outcome == "done"
    return 0 if done and not report.failed_stores(made) else 1


def show(
    run: RunDirectory,
    made: report.Report,
    *,
    as_json: bool = False,
    body: Iterable[str] | None = None,
) -> None:
    """The ranking, or ``body`` in its place, on standard output, and what else is to be
    said beside it."""
    if made.outcome == "failed" and made.reason:
        console.complain(made.reason)
    elif made.outcome == "stopped":
        console.say(f"kvtui: the run was stopped{_because(made)}")
    if as_json:
        document = {**msgspec.to_builtins(made), **_places(run)}
        console.out_json(msgspec.json.format(msgspec.json.encode(document), indent=1))
        return
    width, ascii_only = console.width(), console.ascii_only()
    for line in report_text.nothing_succeeded(made, width, ascii_only=ascii_only):
        console.alarm(line)
    if body is None:
        body = report_text.lines(made, width, ascii_only=ascii_only)
    for line in body:
        console.out(line)
    console.out()
    console.out(f"run {run.name}: {visible(str(run.path))}")
    if run.snapshot.is_file():
        console.out(f"snapshot: {visible(str(run.snapshot))}")


def _because(made: report.Report) -> str:
    return f": {visible(made.reason)}" if made.reason else ""


def _places(run: RunDirectory) -> dict[str, Any]:
    kept = str(run.snapshot) if run.snapshot.is_file() else None
    return {"path": str(run.path), "snapshot": kept}


def _stay(follower: Follower, signals: _Signals) -> None:
    progress = Progress()
    asked = told = False
    while follower.standing in ("starting", "going on"):
        read = follower.step()
        if signals.interrupts and not told:
            told = True
            progress.interrupt(
                "kvtui: stopping the run in order; Ctrl-C again leaves at once"
            )
        if told and not asked:
            # A run that has not begun yet cannot be asked; it is asked later.
            with contextlib.suppress(RunError, ProcessLookupError):
                history.stop(follower.run)
                asked = True
        if asked and signals.interrupts > 1:
            signals.leave(INTERRUPTED, "left; the runner is still stopping the run")
        progress.show(follower.state)
        if not read:
            time.sleep(POLL_S)
    progress.close()


def _child_has_died() -> bool:
    """Whether the runner, the only process that this one has started, is dead."""
    try:
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_ALL, 0, options) is not None
    except ChildProcessError:
        return True


def _log_end(run: RunDirectory) -> str:
    """The end of what runner, workers and servers printed."""
    try:
        with run.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 8192))
            lines = file.read().decode("utf-8", "backslashreplace").splitlines()
    except OSError:
        lines = []
    last = [visible(line, 500) for line in lines[-LOG_LINES:] if line.strip()]
    if not last:
        return f"{run.log} says nothing about it"
    return "\n".join([f"{run.log} ends:", *(f"  {line}" for line in last)])


def _check_saved(run: RunDirectory, path: str) -> int:
    """Whether the further copy of the snapshot is there, and this run's."""
    try:
        if snapshot.read(Path(path)).run == run.name:
            console.say(f"kvtui: the snapshot is saved in {visible(path)}")
            return 0
        why = f"{path} still holds another run"
    except SnapshotError as error:
        why = error.message
    console.complain(
        f"the snapshot could not be saved: {why}", f"it is in {run.snapshot}"
    )
    return 1


class _Signals:
    """What to do when somebody interrupts, hangs up or ends this process."""

    def __init__(self) -> None:
        self.interrupts = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._interrupt)
        for number in (signal.SIGHUP, signal.SIGTERM):
            # Who is started under nohup stays.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._hung_up)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _interrupt(self, _: int, __: FrameType | None) -> None:
        self.interrupts += 1
        # The second one leaves as soon as the runner has been asked to stop.
        if self.interrupts > 2:
            self.leave(INTERRUPTED, "left; the run may go on: kvtui stop")

    def _hung_up(self, number: int, _: FrameType | None) -> None:
        self.leave(128 + number, "left; the run goes on: kvtui attach, kvtui stop")

    def leave(self, code: int, words: str) -> NoReturn:
        """End this process."""
        # At once, and without a word where the terminal is gone: nothing here
        # has to be put in order, the run is not ours.
        line = f"\nkvtui: {words}\n".encode("ascii", "replace")
        with contextlib.suppress(OSError):
            os.write(2, line)
        os._exit(code)
