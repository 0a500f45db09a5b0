"""A run's progress on standard error: one line that changes, or lines now and then."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from typing import Final

from kvtui import text
from kvtui.commands import console
from kvtui.runs.follow import doing, left_s, rate_now, share_of_phase
from kvtui.runs.state import RunState, TrialState
from kvtui.tables import ascii_letters

PAINT_S: Final = 0.25
QUIET_S: Final = 10.0
"""Without a terminal a line at least every so many seconds."""
BAR: Final = 16


class Progress:
    """What a follower sees, told to a person."""

    def __init__(self) -> None:
        self._terminal = console.is_terminal(sys.stderr)
        self._glyphs = text.glyphs(encoding=sys.stderr.encoding or "ascii")
        self._painted = ""
        self._painted_s = 0.0
        self._told_s = time.monotonic()
        self._phase: tuple[int, str | None] | None = None
        self._finished = 0
        self._read = False

    def show(self, state: RunState) -> None:
        """Tell what is new."""
        while self._finished < len(state.trials):
            trial = state.trials[self._finished]
            if trial.outcome is None:
                break
            self._finished += 1
            self._tell(self._ending(state, trial))
        now = time.monotonic()
        if self._terminal:
            if now - self._painted_s >= PAINT_S:
                self._paint(self._line(state))
                self._painted_s = now
            return
        trial_now = state.current
        phase = None if trial_now is None else (trial_now.number, trial_now.phase)
        if state.started is not None and not self._read:
            self._read = True
            self._tell("reading the data")
        elif phase is not None and phase != self._phase:
            self._phase = phase
            if trial_now is not None and trial_now.phase in ("measure", "verify"):
                self._tell(self._name(state, trial_now) + ": " + doing(trial_now.phase))
        elif now - self._told_s >= QUIET_S and state.outcome is None:
            self._tell(self._words(state))

    def close(self) -> None:
        """Leave the line as it was found."""
        self._paint("")

    def interrupt(self, line: str) -> None:
        """Say something else in between."""
        self._tell(line)

    def _tell(self, line: str) -> None:
        self._paint("")
        console.say(ascii_letters(line) if not self._glyphs.braille else line)
        self._told_s = time.monotonic()

    def _paint(self, line: str) -> None:
        if not self._terminal or line == self._painted:
            return
        columns = shutil.get_terminal_size((console.PLAIN_WIDTH, 24)).columns
        # Where standard output is no terminal, its size is not that of this one.
        with contextlib.suppress(OSError, ValueError):
            columns = os.get_terminal_size(sys.stderr.fileno()).columns or columns
        room = max(1, columns - 1)
        shown = ascii_letters(line) if not self._glyphs.braille else line
        shown = text.cut(shown, room, self._glyphs.ellipsis)
        before = min(room, text.cells(self._painted))
        padding = " " * max(0, before - text.cells(shown))
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"\r{shown}{padding}" + ("" if shown else "\r"))
            sys.stderr.flush()
        self._painted = line

    def _name(self, state: RunState, trial: TrialState) -> str:
        repeats = state.plan.repeat if state.plan is not None else 1
        turn = f" #{trial.repeat}" if repeats > 1 else ""
        return (
            f"[{trial.number + 1}/{state.trials_planned}]"
            f" {text.visible(trial.store, 40)}{turn}"
        )

    def _line(self, state: RunState) -> str:
        trial = state.current
        if trial is None:
            return self._words(state)
        share = share_of_phase(trial)
        parts = [f"{self._name(state, trial)} {doing(trial.phase)}"]
        if share is not None:
            parts.append(text.bar(share, BAR, self._glyphs))
            parts.append(text.fit(text.percent(share), 5, right=True))
        left = left_s(trial, state.at_s)
        if left is not None:
            parts.append(f"{_short(left)} left")
        if trial.phase in ("measure", "verify") and trial.throughput:
            parts.append(f"{text.rate(rate_now(trial))} ops/s")
        return "  ".join(parts)

    def _words(self, state: RunState) -> str:
        trial = state.current
        if trial is None:
            if state.started is None:
                return "starting"
            return "reading the data" if state.data is None else "ending"
        parts = [f"{self._name(state, trial)}: {doing(trial.phase)}"]
        share = share_of_phase(trial)
        if share is not None:
            parts.append(text.percent(share))
        left = left_s(trial, state.at_s)
        if left is not None:
            parts.append(f"about {_short(left)} left")
        if trial.phase == "measure" and trial.intervals:
            parts.append(f"{text.rate(rate_now(trial))} ops/s")
        return ", ".join(parts)

    def _ending(self, state: RunState, trial: TrialState) -> str:
        name = self._name(state, trial)
        if trial.outcome != "done":
            why = f": {text.visible(trial.reason)}" if trial.reason else ""
            return f"{name}: {trial.outcome}{why}"
        parts = [
            text.seconds(trial.elapsed_s),
            f"{text.rate(trial.throughput)} ops/s",
        ]
        if trial.keeps:
            parts.append(f"verified {trial.verification or text.NOTHING}")
        else:
            parts.append(trial.verification)
        return f"{name}: {', '.join(parts)}"


def _short(length_s: float) -> str:
    return f"{length_s:.0f} s" if length_s < 99.5 else text.seconds(length_s)
