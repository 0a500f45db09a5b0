"""Following a run from its beginning to its end.

Everything comes from the journal, so it makes no difference who started the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from kvtui.runs.events import Phase
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalReader
from kvtui.runs.state import RunState, TrialState

Standing: TypeAlias = Literal["starting", "going on", "ended", "lost"]

START_LIMIT_S: Final = 20.0
"""How long a runner may take until its first event."""
RECENT_S: Final = 8
"""The pace of so many last seconds says how long a phase will take."""


class Follower:
    """A run, and how far its journal has been read.

    ``standing`` is *lost* when the runner is gone without having ended the run.
    ``died`` may tell sooner that the runner has not come to life.
    """

    def __init__(
        self, run: RunDirectory, died: Callable[[], bool] = lambda: False
    ) -> None:
        self.run = run
        self.state = RunState()
        self.standing: Standing = "starting"
        self._reader = JournalReader(run.journal)
        self._died = died
        self._began = time.monotonic()

    def step(self) -> bool:
        """Read what has come; whether there was anything."""
        events = self._reader.read()
        for event in events:
            self.state.apply(event)
        if events:
            self.standing = "going on"
        elif self.standing in ("starting", "going on"):
            self._look()
        return bool(events)

    def _look(self) -> None:
        """Nothing new: see whether the runner still lives.

        Asking takes the journal's lock for a moment, so it must not happen before
        the runner has taken it; its first event shows that it has.
        """
        if self.state.started is None:
            late = time.monotonic() - self._began > START_LIMIT_S
            if self._died() or late:
                self.standing = "lost"
            return
        if self.run.goes_on:
            return
        # It may have written between our reading and its end.
        while events := self._reader.read():
            for event in events:
                self.state.apply(event)
        self.standing = "ended" if self.state.outcome is not None else "lost"


def share_of_phase(trial: TrialState) -> float | None:
    """How far the trial's phase has come, 0 to 1; None where it does not say."""
    progress = trial.progress
    if progress is not None:
        return min(1.0, progress.done / progress.total) if progress.total else None
    if trial.phase == "measure" and trial.total:
        return min(1.0, trial.done / trial.total)
    return None


def left_s(trial: TrialState, at_s: float) -> float | None:
    """Seconds that the phase will still take at its pace; None where unknown."""
    share = share_of_phase(trial)
    if not share:
        return None
    if trial.phase == "measure" and trial.intervals:
        recent = trial.intervals[-RECENT_S:]
        before = (
            trial.intervals[-RECENT_S - 1].done if trial.intervals[RECENT_S:] else 0
        )
        length_s = sum(each.length_s for each in recent)
        units = recent[-1].done - before
        if units > 0 and trial.measured is None:
            return (trial.total - trial.done) * length_s / units
        return None
    spent_s = at_s - trial.phase_started_s
    return spent_s * (1 - share) / share


def rate_now(trial: TrialState) -> float | None:
    """Answered operations a second: of the last second, after measuring of all."""
    if trial.phase == "measure" and trial.measured is None and trial.intervals:
        return trial.interval_rate(trial.intervals[-1])
    return trial.throughput


def doing(phase: Phase | None) -> str:
    """A phase as something that goes on."""
    return {
        None: "starting",
        "connect": "connecting",
        "load": "loading",
        "warm-up": "warming up",
        "measure": "measuring",
        "verify": "verifying",
        "clean-up": "cleaning up",
    }[phase]
