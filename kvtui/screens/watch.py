"""Following a run's journal, a little at a time, so that nothing ever waits."""

from __future__ import annotations

import time
from collections import deque
from typing import Literal, TypeAlias

from msgspec import structs

from kvtui.runs.events import AnyEvent, Interval, OperationInterval
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalReader
from kvtui.runs.state import RunState

Standing: TypeAlias = Literal[
    "starting", "reading", "going on", "done", "failed", "stopped", "interrupted"
]

SLICE_BYTES = 128_000
SLICE_S = 0.03
"""How long one step may take: a key is never answered later than that."""
START_LIMIT_S = 20.0
"""How long a runner may take until it holds its journal."""
STALE_S = 3.0
"""Quiet for longer than that is said; every second something should arrive."""


class Watch:
    """One run being watched: its state so far, and how it stands."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.state = RunState()
        self.caught_up = False
        """Whether everything in the journal has been read once."""
        self.events = 0
        self.alive = False
        """Whether the runner lived when last looked."""
        self.version = 0
        """Changes whenever there is something new to show."""
        self._reader = JournalReader(run.journal)
        self._pending: deque[AnyEvent] = deque()
        self._began = self._heard = time.monotonic()
        self._looked = 0.0

    @property
    def unreadable_lines(self) -> int:
        """Journal lines that are no events."""
        return self._reader.unreadable_lines

    def step(self) -> bool:
        """Read on for a moment; True while there is more to read at once."""
        deadline = time.monotonic() + SLICE_S
        while time.monotonic() < deadline:
            if not self._pending and not self._fill():
                self._look()
                return False
            for _ in range(min(8, len(self._pending))):
                self._apply(self._pending.popleft())
        return True

    def _apply(self, event: AnyEvent) -> None:
        """Fold an event in; the histograms of single seconds are not kept.

        They are in the journal, and a screen that watches for hours should not
        grow by all of them.
        """
        self.state.apply(event)
        self.events += 1
        if isinstance(event, Interval):
            trial = self.state.trial(event.trial)
            if trial is not None and trial.intervals and trial.intervals[-1] is event:
                trial.intervals[-1] = _light(event)

    def _fill(self) -> bool:
        try:
            read = self._reader.read(SLICE_BYTES)
        except OSError:
            read = []
        self._pending.extend(read)
        if read:
            self._heard = time.monotonic()
            self.version += 1
            return True
        if not self.caught_up and self.events:
            self.caught_up = True
            self.version += 1
            self._heard = self._written_at()
        return False

    def _written_at(self) -> float:
        """When the journal was last written, on the monotonic clock."""
        try:
            age_s = time.time() - self.run.journal.stat().st_mtime
        except OSError:
            age_s = 0.0
        return time.monotonic() - max(0.0, age_s)

    def _look(self) -> None:
        """See whether the runner lives, once a second.

        Only after its first event: asking takes the journal's lock for a moment,
        and a runner that is about to take it must not find it taken.
        """
        now = time.monotonic()
        if now - self._looked < 1.0 or self.state.outcome is not None:
            return
        if self.events or now - self._began > START_LIMIT_S:
            self._looked = now
            alive = self.run.goes_on
            if alive != self.alive:
                self.version += 1
            self.alive = alive

    @property
    def standing(self) -> Standing:
        """How the run stands, in a word."""
        if self.state.outcome is not None:
            return self.state.outcome
        if not self.events:
            starting = time.monotonic() - self._began < START_LIMIT_S
            return "starting" if starting or self.alive else "interrupted"
        if not self.caught_up:
            return "reading"
        return "going on" if self.alive or not self._looked else "interrupted"

    @property
    def goes_on(self) -> bool:
        """Whether its runner is at work, as far as is known."""
        if self.state.outcome is not None:
            return False
        return self.standing in ("starting", "going on") or self.alive

    @property
    def quiet_s(self) -> float:
        """How long nothing has been heard of a run that should go on."""
        return time.monotonic() - self._heard

    @property
    def stale(self) -> bool:
        """Whether what is shown is older than it should be."""
        return self.standing in ("going on", "starting") and self.quiet_s > STALE_S

    def log_tail(self, lines: int = 12) -> list[str]:
        """The end of what runner, workers and servers printed."""
        try:
            with self.run.log.open("rb") as file:
                file.seek(0, 2)
                file.seek(max(0, file.tell() - 8192))
                text = file.read(8192).decode("utf-8", "backslashreplace")
        except OSError:
            return []
        return text.splitlines()[-lines:]

    def share_done(self) -> float | None:
        """How much of the whole run is done, trials counting alike."""
        planned = self.state.trials_planned
        if not planned:
            return None
        finished = sum(each.outcome is not None for each in self.state.trials)
        current = self.state.current
        part = 0.0
        if current is not None and current.total:
            part = min(1.0, current.done / current.total)
        return min(1.0, (finished + part) / planned)


def _light(interval: Interval) -> Interval:
    """The interval without its histograms."""
    operations = {
        label: OperationInterval(each.ok, each.miss, each.failed)
        for label, each in interval.operations.items()
    }
    return structs.replace(interval, operations=operations)
