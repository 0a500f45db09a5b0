"""Somebody's server: looked at before it is touched, and left as it was found.

Before the first write a marker (:mod:`~kvtui.engine.markers`) is left there. It goes
with the run's keys, and stays with records that are kept. So a run that was killed
can be told from records that somebody wants to keep: what an interrupted run of this
machine left is cleared, anything else only when that was said.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from kvtui.engine import system
from kvtui.engine.fit import spare_others
from kvtui.engine.markers import (
    CLEAR_HINT,
    Marker,
    address,
    eviction_warning,
    in_use,
    left_in_words,
    look,
    machine,
    marker_key,
    read,
    standing,
)
from kvtui.errors import KvtuiError, RunError, StoreUnavailable
from kvtui.jobs.workload import Room
from kvtui.runs import history
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry as stores
from kvtui.stores.store import Store

LOADING_LIMIT_S: Final = 300.0
"""How long a server that says it is loading is waited for."""
LOADING_TOLD_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.1
HURRY_S: Final = 1.0

Tell = Callable[[str], None]
Pause = Callable[[float], None]
MayEnd = Callable[[], contextlib.AbstractContextManager[None]]
"""Around what may be broken off at any moment, because nothing is half done then."""


@contextlib.contextmanager
def reached(
    store: StorePlan,
    tell: Tell,
    pause: Pause = time.sleep,
    may_end: MayEnd = contextlib.nullcontext,
) -> Iterator[Store]:
    """The store, open. One that is loading its data is waited for, and ``tell`` hears
    of it; every other trouble is raised at once, within the adapter's 3 s. Whoever
    cannot wait so long comes in between by ``may_end``."""
    opened = stores.adapter(store.kind)(store.settings)
    give_up = time.monotonic() + LOADING_LIMIT_S
    tell_again = 0.0
    try:
        while True:
            try:
                with may_end():
                    opened.open()
                break
            except StoreUnavailable as error:
                now = time.monotonic()
                if not error.loading or now > give_up:
                    raise
                if now >= tell_again:
                    tell(
                        f"waiting for {store.name}, which is not ready: {error.message}"
                    )
                    tell_again = now + LOADING_TOLD_S
            pause(LOOK_AGAIN_S)
        yield opened
    finally:
        opened.close()


class Premises:
    """One trial's stay on somebody's server."""

    def __init__(
        self, store: StorePlan, namespace: str, workload: str, run: RunDirectory
    ) -> None:
        self._store, self._namespace = store, namespace
        self._workload, self._run = workload, run
        self._marker: Marker | None = None

    def claim(self) -> None:
        """Refuse a store that another run uses: both would write the same keys."""
        ours = address(self._store)
        for other in history.going_on(self._run.path.parent):
            if other.name >= self._run.name:
                continue  # This run, or one that began later: it gives way.
            with contextlib.suppress(RunError):
                if any(address(each) == ours for each in other.plan().stores):
                    raise self._in_use(other.name)

    def _in_use(self, run: str, process_id: int | None = None) -> StoreUnavailable:
        told = in_use(run, self._store, self._run.path.parent, process_id)
        return StoreUnavailable(told.message, hint=told.hint)

    def enter(
        self,
        *,
        overwrite: bool,
        room: Callable[[], Room | None],
        tell: Callable[[str, str], None],
        pause: Pause,
        may_end: MayEnd,
    ) -> None:
        """See what is there, clear what may go, and leave the marker.

        ``room`` is what the records will take, ``tell`` takes a level and a text.
        All but leaving the marker happens within ``may_end``.
        Raises StoreUnavailable when somebody's keys are in the way, and TrialFailed
        when the server would drop somebody's keys for the records.
        """
        store, namespace = self._store, self._namespace
        with reached(store, lambda text: tell("info", text), pause, may_end) as opened:
            with may_end():
                found = look(store, namespace, opened)
            warning = eviction_warning(store, found)
            if warning:
                tell("warning", warning)
            if stores.kind(store.kind).read_only:
                return
            how = standing(found, store, self._run.path.parent, self._run.name)
            if how == "in use" and found.marker is not None:
                raise self._in_use(found.marker.run, found.marker.process_id)
            if how == "left" and not overwrite:
                raise StoreUnavailable(
                    left_in_words(found, store, namespace), hint=CLEAR_HINT
                )
            if found.keys:
                with may_end():
                    opened.wipe(namespace)
                    opened.delete(marker_key(namespace))
            if how == "interrupted" and found.keys and found.marker is not None:
                tell(
                    "info",
                    f"cleared {found.keys:,} keys that the interrupted run"
                    f" {found.marker.run} had left on {store.name}",
                )
            if found.keys:
                with may_end():
                    found = look(store, namespace, opened)
            estimate = room() if found.drops_others else None
            if estimate is not None:
                spare_others(store.name, estimate, found.info)
            self._mark(opened, kept=False)

    def _mark(self, opened: Store, *, kept: bool) -> None:
        """Write the marker, which also proves that the store writes and reads."""
        key = marker_key(self._namespace)
        process_id = os.getpid()
        self._marker = Marker(
            self._run.name,
            socket.gethostname(),
            machine(),
            datetime.now(UTC).isoformat(timespec="seconds"),
            self._workload,
            kept,
            process_id,
            system.process_started_s(process_id),
        )
        value = msgspec.json.encode(self._marker)
        opened.put(key, value)
        if opened.get(key) != value:
            raise StoreUnavailable(
                f"{self._store.name} did not keep the first value that was written"
            )

    def disturbed(self, *, lossy: bool) -> str:
        """Why the records are no longer this run's alone, in words; empty where they
        are, as far as can be told. ``lossy``: the server may itself have lost the
        marker, as it may have lost records."""
        kind = stores.kind(self._store.kind)
        if self._marker is None or kind.shared_by_threads:
            return ""  # Not even marked; or its lock keeps everybody out.
        opened = stores.adapter(self._store.kind)(self._store.settings)
        try:
            opened.open()
            marked, marker = read(self._namespace, opened)
        except KvtuiError:
            return ""  # Who verifies will hear of it.
        finally:
            opened.close()
        if marker is not None and marker != self._marker:
            return self._taken_over(marker)
        if marker is None and (marked or not lossy):
            return (
                f"this run's marker is gone from {self._store.name}: somebody cleared"
                " this store, or restarted it, in the meantime"
            )
        return ""

    def _taken_over(self, by: Marker) -> str:
        where = "" if by.machine == machine() else f" on {by.host}"
        return (
            f"another run ({by.run}{where}) took the keys on {self._store.name} over"
            " in the meantime"
        )

    def leave(self, *, keep: bool, hurry: bool) -> None:
        """Remove what was written, or say on the marker that it is kept.

        ``hurry``: no client has written yet and somebody wants to be gone, so a server
        that no longer answers is not waited for long.
        Raises StoreUnavailable where another run has taken the place: what is there
        is no longer this run's to remove.
        """
        if stores.kind(self._store.kind).read_only:
            return
        store = self._store
        if hurry and "timeout_s" in stores.kind(store.kind).settings:
            patience_s = min(HURRY_S, float(store.settings.get("timeout_s", HURRY_S)))
            store = msgspec.structs.replace(
                store, settings={**store.settings, "timeout_s": patience_s}
            )
        with reached(store, lambda _: None) as opened:
            _, marker = read(self._namespace, opened)
            if marker is not None and marker != self._marker:
                raise StoreUnavailable(self._taken_over(marker))
            if keep:
                self._mark(opened, kept=True)
                return
            opened.wipe(self._namespace)
            opened.delete(marker_key(self._namespace))
