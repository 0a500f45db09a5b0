"""What all screens share: stores, wishes, the run being watched."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from kvtui import config
from kvtui.errors import ConfigError, UsageError
from kvtui.screens import wishes as wishing
from kvtui.screens.wishes import CHOICES, Wishes
from kvtui.stores import registry
from kvtui.stores.registry import Availability, StoreProfile
from kvtui.text import Glyphs, glyphs, percent

if TYPE_CHECKING:
    from kvtui.runs.history import RunDirectory
    from kvtui.runs.plan import RunPlan
    from kvtui.screens.watch import Watch


class Sizes(msgspec.Struct):
    """What a capacity is wanted for, as it was typed."""

    target: str = ""
    peak: str = ""
    headroom: str = ""
    cores: str = ""
    """Of one machine; empty where machines are not counted."""
    figures: str = "trial"
    """``trial`` or ``typed``."""
    measured: str = ""
    busy: str = ""


class Remembered(msgspec.Struct):
    """What is kept between two visits; anything unreadable is forgotten."""

    version: int = 1
    wishes: Wishes = msgspec.field(default_factory=Wishes)
    sizes: Sizes = msgspec.field(default_factory=Sizes)


class Session:
    """One visit. Holds no widget, so that every screen can be given it."""

    def __init__(
        self,
        start: Callable[[RunPlan], RunDirectory],
        *,
        glyph_set: Glyphs | None = None,
        attach: RunDirectory | None = None,
    ) -> None:
        self.start = start
        self.glyphs = glyph_set or glyphs()
        self.watch: Watch | None = None
        self.newest: RunDirectory | None = None
        """The newest run, once it was looked for."""
        self.chosen_trial = 0
        """Row of the trial that is looked at."""
        self.follows = True
        """Whether the chosen trial is always the one that goes on."""
        self.wanted_store = ""
        """Whose fan pages were asked for last; empty once they are shown."""
        self.availability: dict[str, Availability] = {}
        self.settings_problem = ""
        try:
            self.profiles: dict[str, StoreProfile] = config.store_profiles()
        except ConfigError as error:
            self.profiles = {each.name: each for each in registry.BUILT_IN}
            hint = f" ({error.hint})" if error.hint else ""
            self.settings_problem = f"{error.message}{hint}"
        kept = _remembered(self.memory)
        self.wishes = Wishes() if kept is None else kept.wishes
        self.sizes = Sizes() if kept is None else kept.sizes
        if kept is None and not self.settings_problem:
            try:
                self.wishes = wishing.first()
            except UsageError as error:  # a variable of the environment
                self.settings_problem = error.message
        if attach is not None:
            self.open_run(attach)
        self._saved = self._remembered()

    @property
    def memory(self) -> Path:
        """Where the wishes are kept."""
        return config.state_directory() / "ui.json"

    @property
    def runs(self) -> Path:
        """Where runs are kept."""
        return config.runs_directory()

    def open_run(self, run: RunDirectory) -> Watch:
        """Watch that run from now on."""
        # What folds a journal is not needed for the first frame of the workbench.
        from kvtui.screens.watch import Watch

        if self.watch is None or self.watch.run != run:
            self.watch = Watch(run)
            self.chosen_trial, self.follows = 0, True
        return self.watch

    def watch_newest(self) -> Watch | None:
        """The run being watched; the newest one where there is none yet."""
        if self.watch is None and self.newest is not None:
            self.open_run(self.newest)
        return self.watch

    def remember(self) -> None:
        """Keep the wishes, if they changed; never fails."""
        encoded = self._remembered()
        if encoded == self._saved:
            return
        try:
            _write_privately(self.memory, encoded)
        except OSError:
            return
        self._saved = encoded

    def _remembered(self) -> bytes:
        return msgspec.json.encode(Remembered(wishes=self.wishes, sizes=self.sizes))

    def status(self) -> tuple[str, str]:
        """The run's state for the top bar, and its style."""
        watch = self.watch
        if watch is None:
            return "", ""
        state = watch.state
        workload = f"run {state.plan.workload.name}" if state.plan else "run"
        standing = watch.standing
        done = percent(watch.share_done())
        place = f"{min(len(state.trials), state.trials_planned)}/{state.trials_planned}"
        if standing in ("starting", "reading"):
            return f"{standing} …", "dim"
        if standing == "going on":
            if watch.stale:
                return f"{workload} quiet for {watch.quiet_s:.0f} s", "warn"
            return f"● {workload} {place} {done}", "good"
        style = {"done": "dim", "stopped": "warn"}.get(standing, "bad")
        return f"{workload} {standing}", style


def _remembered(path: Path) -> Remembered | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=Remembered)
    except (OSError, msgspec.MsgspecError):
        return None
    for name, choices in CHOICES.items():
        if getattr(kept.wishes, name) not in choices:
            setattr(kept.wishes, name, getattr(Wishes(), name))
    if kept.sizes.figures not in ("trial", "typed"):
        kept.sizes.figures = "trial"
    return kept


def _write_privately(path: Path, data: bytes) -> None:
    """A whole file or the old one, readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file, name = tempfile.mkstemp(prefix=".ui-", dir=path.parent)
    try:
        with os.fdopen(file, "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
