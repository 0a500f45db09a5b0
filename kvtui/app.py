"""The terminal application: its modes, its clock, and how it comes and goes.

Nothing measured lives here. The runner writes its journal whatever becomes of this
process, and everything shown is read from there.
"""

from __future__ import annotations

import os

# Read by Textual when it is imported.
os.environ.setdefault("ESCDELAY", "60")
os.environ.update(
    TEXTUAL_ANIMATIONS="none", TEXTUAL_SMOOTH_SCROLL="0", TEXTUAL_FPS="15"
)

import asyncio
import io
import sys
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, ScreenStackError

from kvtui import config
from kvtui.screens.base import Page
from kvtui.screens.session import Session
from kvtui.screens.terminal import Terminal, require
from kvtui.secrets import hidden

if TYPE_CHECKING:
    from kvtui.runs.history import RunDirectory
    from kvtui.runs.plan import RunPlan

TICK_S = 0.5
"""How often the screen is brought up to date."""
CATCH_UP_S = 0.01
"""Pause between two slices of a journal that is read from its beginning."""
CRASHED = 70


@dataclass(frozen=True)
class Left:
    """How the application was left."""

    code: int
    """The exit code."""
    watched: RunDirectory | None
    """The run that was started or looked at last."""
    goes_on: bool = False
    """Whether that run goes on."""
    message: str = ""
    """What has been said on the normal screen."""


def start_run(plan: RunPlan) -> RunDirectory:
    """Start a run in the usual place."""
    from kvtui.engine import launcher

    return launcher.start(plan, config.runs_directory())


class KvtuiApp(App[None]):
    """kvtui's screens over one session."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    TITLE = "kvtui"
    DEFAULT_MODE: ClassVar[str] = "workbench"

    def __init__(self, session: Session) -> None:
        # The terminal's own colours on its own background; said twice because a
        # terminal without colour is looked at before there is a theme.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.session = session
        self.crash: Path | None = None
        """Where the report of an unexpected end is."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self._waits_for_slice = False
        self._shown: object = None
        self.add_mode("workbench", self._workbench)
        self.add_mode("live", self._live)
        self.add_mode("fans", self._fans)
        self.add_mode("capacity", self._capacity)

    # Screens are imported when they are first shown.

    def _workbench(self) -> Page:
        from kvtui.screens.workbench import WorkbenchPage

        return WorkbenchPage(self.session)

    def _live(self) -> Page:
        from kvtui.screens.live import LivePage

        return LivePage(self.session)

    def _fans(self) -> Page:
        from kvtui.screens.fans import FansPage

        return FansPage(self.session)

    def _capacity(self) -> Page:
        from kvtui.screens.capacity import CapacityPage

        return CapacityPage(self.session)

    def on_mount(self) -> None:
        """Start the clock; look for a run that goes on after the first frame."""
        self.loop = asyncio.get_running_loop()
        # After Ctrl+Z and fg the terminal is empty, and Textual draws nothing as
        # long as the size is what it was.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh())
        self.set_interval(TICK_S, self._tick)
        if self.session.watch is None:
            self.call_after_refresh(self._look_for_run)

    @property
    def page(self) -> Page | None:
        """The screen that is shown; None while coming and going."""
        try:
            screen = self.screen
        except ScreenStackError:
            return None
        return screen if isinstance(screen, Page) else None

    def _tick(self) -> None:
        """Read on in the journal, and show what is new."""
        watch = self.session.watch
        more = watch is not None and watch.step()
        if more and not self._waits_for_slice:
            self._waits_for_slice = True
            self.set_timer(CATCH_UP_S, self._next_slice)
        page = self.page
        state = (
            page,
            watch,
            watch.version if watch else 0,
            watch.standing if watch else "",
            int(watch.quiet_s) if watch and watch.stale else 0,
        )
        if state != self._shown and page is not None:
            self._shown = state
            page.follow()

    def _next_slice(self) -> None:
        self._waits_for_slice = False
        watch = self.session.watch
        if watch is not None and watch.step():
            self._waits_for_slice = True
            self.set_timer(CATCH_UP_S, self._next_slice)
        else:
            self._tick()

    def _look_for_run(self) -> None:
        self.run_worker(
            self._find_run, thread=True, group="history", exit_on_error=False
        )

    def _find_run(self) -> None:
        from kvtui.runs import history

        runs = history.all_runs(self.session.runs)
        going = next((run for run in runs if run.goes_on), None)
        if runs:
            self.call_later(self._found, going, runs[0])

    def _found(self, going: RunDirectory | None, newest: RunDirectory) -> None:
        self.session.newest = newest
        page = self.page
        if page is None or self.session.watch is not None:
            return
        if going is not None:
            self.session.open_run(going)
            page.say(f"A run goes on: {going.name}. l shows it.", "good")
        page.follow()

    # An unexpected end: a report without variables, which may hold secrets.

    def _handle_exception(self, error: Exception) -> None:
        self._report("".join(traceback.format_exception(error)))
        if self._exception is None:
            self._exception = error
            self._exception_event.set()
        self._close_messages_no_wait()

    def panic(self, *renderables: object) -> None:
        """End with a report of what Textual has to say."""
        from rich.console import Console

        out = io.StringIO()
        console = Console(file=out, width=100, color_system=None)
        for renderable in renderables:
            console.print(renderable, markup=False)
        self._report(out.getvalue())
        self._close_messages_no_wait()

    def _report(self, text: str) -> None:
        self._return_code = CRASHED
        if self.crash is None:
            self.crash = write_report(text)

    def _print_error_renderables(self) -> None:
        self._exit_renderables.clear()


class AttachedApp(KvtuiApp):
    """Opens with the live screen."""

    DEFAULT_MODE = "live"


def write_report(text: str) -> Path | None:
    """Keep a report of an unexpected end; None where that is not possible."""
    folder = config.state_directory()
    name = f"crash-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(folder / name, flags, 0o600), "w") as file:
            file.write(hidden(text))
    except OSError:
        return None
    return folder / name


def run_app(attach: RunDirectory | None = None) -> Left:
    """Show the screens until they are left.

    UsageError where there is no terminal. What goes on, and where a report is, is
    said in a line on standard error; the ranking is the caller's to print.
    """
    require()
    session = Session(start_run, attach=attach)
    app = (AttachedApp if attach else KvtuiApp)(session)
    code, interrupted = 0, False
    with Terminal(config.state_directory() / "ui.log") as terminal:

        def leave(wanted: int) -> None:
            nonlocal code
            code = wanted
            if app.loop is not None:
                app.loop.call_soon_threadsafe(app.exit)

        terminal.guard(leave)
        try:
            app.run()
        except KeyboardInterrupt:
            interrupted = True
    session.remember()
    code = code or (130 if interrupted else app.return_code or 0)
    return _left(app, code)


def _left(app: KvtuiApp, code: int) -> Left:
    watch = app.session.watch
    run = watch.run if watch else None
    goes_on = run is not None and run.goes_on
    said = []
    if code == CRASHED:
        where = f"; the report is in {app.crash}" if app.crash else ""
        said.append(f"kvtui came to an unexpected end{where}")
    if run is not None and goes_on:
        said.append(
            f"run {run.name} goes on: kvtui attach shows it, kvtui stop ends it"
        )
    message = "\n".join(said)
    if message:
        try:
            sys.stderr.write(message + "\n")
            sys.stderr.flush()
        except (OSError, ValueError):
            message = ""  # the terminal is gone
    return Left(code, run, goes_on, message)
