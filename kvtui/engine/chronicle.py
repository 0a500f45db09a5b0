"""What a runner tells of its run: events into state and journal, and the snapshot."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from kvtui.engine import system
from kvtui.errors import SnapshotError
from kvtui.runs import snapshot
from kvtui.runs.events import (
    AnyEvent,
    Event,
    Faulted,
    Note,
    Phase,
    PhaseStarted,
    RunFinished,
    StoreSeen,
    TrialFinished,
)
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalWriter
from kvtui.runs.state import RunState
from kvtui.secrets import hidden
from kvtui.stores.store import StoreInfo

SAMPLE_S: Final = 1.0


class Chronicle:
    """One run's events, from the first to the last. No secret passes it."""

    def __init__(self, run: RunDirectory, save_to: str | None) -> None:
        self.run = run
        self.state = RunState()
        self._save_to = save_to
        self._began = time.monotonic()
        self._sampler = system.Sampler()
        self._sampled_s = 0.0
        self._journal = JournalWriter(run.journal)

    def now_s(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 6)

    def emit(self, event: Event) -> None:
        """Fold an event into the state, and write it down."""
        known: AnyEvent = _without_secrets(event)  # type: ignore[assignment]
        self.state.apply(known)
        self._journal.append(known)

    def note(self, level: Any, text: str, trial: int | None = None) -> None:
        """Say something that people should know."""
        self.emit(Note(self.now_s(), level, text, trial))

    def phase(self, trial: int, phase: Phase) -> None:
        """A trial goes into its next phase."""
        self.emit(PhaseStarted(self.now_s(), trial, phase))

    def seen(self, trial: int, info: StoreInfo) -> None:
        """Tell what was found when the store was opened."""
        self.emit(
            StoreSeen(
                self.now_s(),
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

    def sample(self) -> None:
        """The machine, once a second."""
        now_s = self.now_s()
        length_s = now_s - self._sampled_s
        if length_s >= SAMPLE_S:
            self._sampled_s = now_s
            self.emit(self._sampler.sample(now_s, length_s))

    def save(self) -> None:
        """Write the snapshot; a full disk is said in the run's log only."""
        with contextlib.suppress(SnapshotError):
            snapshot.write(self.run.snapshot, snapshot.snapshot(self.state))
        if self._save_to is not None and self.state.started is not None:
            try:
                snapshot.write(Path(self._save_to), snapshot.snapshot(self.state))
            except SnapshotError as error:
                print(error.message, file=sys.stderr)  # noqa: T201 - the run's log

    def finish(self, outcome: Any, reason: str) -> None:
        """The last event."""
        try:
            self.emit(RunFinished(self.now_s(), outcome, reason))
        except OSError as error:
            # The state has the event, so the snapshot may still tell.
            print(f"{self.run.journal}: {error.strerror}", file=sys.stderr)  # noqa: T201
        self.save()
        if self._journal.owes():
            print(f"{self.run.journal} ends early: the disk is full", file=sys.stderr)  # noqa: T201
        self._journal.close()


def _without_secrets(event: Event) -> Event:
    """An event whose free texts hold no secret, whoever wrote them."""
    replace: dict[str, Any] = {}
    if isinstance(event, Note):
        replace["text"] = hidden(event.text)
    elif isinstance(event, TrialFinished | RunFinished):
        replace["reason"] = hidden(event.reason)
    elif isinstance(event, Faulted):
        replace["message"] = hidden(event.message)
    elif isinstance(event, StoreSeen):
        replace["address"] = hidden(event.address)
        replace["details"] = {k: hidden(v) for k, v in event.details.items()}
    return msgspec.structs.replace(event, **replace) if replace else event
