"""What kvtui finds of itself on somebody's server, and what that means.

A run puts a marker under ``kvtui:run:<namespace>``, outside of the keys that it
counts and wipes: whose run writes there, from which machine and process, since when.
"""

from __future__ import annotations

import contextlib
import os
import socket
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from kvtui.engine import system
from kvtui.errors import KvtuiError, OperationFailed, RunError
from kvtui.runs import history
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry as stores
from kvtui.stores.settings import size_words
from kvtui.stores.store import Store, StoreInfo

KEEPS_ALL: Final = ("", "none", "noeviction", "off")
"""Eviction policies under which a full server refuses instead of dropping."""
_SAME_START_S: Final = 0.05
CLEAR_HINT: Final = "--overwrite removes these keys and no others"

Standing = Literal["empty", "interrupted", "in use", "left"]


class Marker(msgspec.Struct, frozen=True):
    """Whose keys these are."""

    run: str
    host: str
    machine: str
    """A digest by which a machine knows itself again."""
    started: str
    """When this was written, UTC."""
    workload: str
    kept: bool = False
    """Whether the records were asked to stay."""
    process_id: int | None = None
    """The runner's."""
    process_started_s: float | None = None
    """As :func:`~kvtui.engine.system.process_started_s` tells it: a process id alone
    may be another process's by now."""

    @property
    def goes_on(self) -> bool:
        """Whether its runner lives on this machine, whatever its state folder."""
        if self.process_id is None or self.process_started_s is None:
            return False  # Of an older version.
        found = system.process_started_s(self.process_id)
        return (
            self.machine == machine()
            and found is not None
            and abs(found - self.process_started_s) < _SAME_START_S
        )


class Told(NamedTuple):
    """A trouble in words, and what to do."""

    message: str
    hint: str


class Found(msgspec.Struct, frozen=True):
    """What somebody's server is, and what of kvtui's is on it."""

    info: StoreInfo
    keys: int = 0
    marked: bool = False
    """Whether there is something where the marker belongs."""
    marker: Marker | None = None
    """It, where it can be read."""

    @property
    def drops_others(self) -> bool:
        """Whether the server may drop keys that are not kvtui's when it is full."""
        return self.info.evictable_keys > self.keys + self.marked


def marker_key(namespace: str) -> bytes:
    """Where the marker is; no key of a workload begins like it."""
    return b"kvtui:run:%b" % namespace.encode()


def machine() -> str:
    """A name for this machine that no other has, without telling anything of it."""
    told = socket.gethostname().encode("utf-8", "surrogateescape")
    with contextlib.suppress(OSError):
        told += Path("/etc/machine-id").read_bytes()
    return blake2b(told, digest_size=8).hexdigest()


def look(store: StorePlan, namespace: str, opened: Store) -> Found:
    """What is there; changes nothing."""
    info = opened.info()
    if stores.kind(store.kind).read_only:
        return Found(info)
    keys = opened.count(namespace)
    marked, marker = read(namespace, opened)
    return Found(info, keys, marked, marker)


def read(namespace: str, opened: Store) -> tuple[bool, Marker | None]:
    """Whether there is something where the marker belongs, and it, if it is one."""
    try:
        raw = opened.get(marker_key(namespace))
    except OperationFailed as error:
        if error.broken:
            raise
        return True, None  # Something of another type.
    if raw is None:
        return False, None
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        return True, msgspec.json.decode(raw, type=Marker)
    return True, None


def standing(
    found: Found, store: StorePlan, runs: Path, own: str | None = None
) -> Standing:
    """What the keys found mean for a run that wants the place.

    ``own`` is the run that asks: what it has left itself is cleared.
    """
    marker = found.marker
    if marker is None:
        return "left" if found.keys or found.marked else "empty"
    ours = marker.machine == machine()
    # Runs under two state folders may have one name.
    mine = marker.run == own and marker.process_id in (None, os.getpid())
    if ours and mine and not marker.kept:
        return "interrupted"
    if marker.goes_on and not marker.kept:
        return "in use"
    run = _run_of(marker, store, runs) if ours and marker.run != own else None
    if run is not None and run.goes_on and not marker.kept:
        return "in use"
    if marker.kept or run is None:
        return "left" if found.keys or not marker.kept else "empty"
    return "interrupted"


def in_use(run: str, store: StorePlan, runs: Path, process_id: int | None) -> Told:
    """What to say of a store that a run uses which goes on."""
    process = f" (process {process_id})" if process_id is not None else ""
    ending = f"kvtui stop {run}"
    if process_id is not None and not (runs / run / history.PLAN_NAME).is_file():
        ending = f"kill {process_id}"  # It is kept under another state folder.
    return Told(
        f"{store.name} is in use by run {run}, which goes on{process}",
        f"wait for it, or end it: {ending}",
    )


def _run_of(marker: Marker, store: StorePlan, runs: Path) -> RunDirectory | None:
    """The run that a marker names, where this machine has it and it used the store."""
    if not marker.run or os.sep in marker.run or marker.run.startswith("."):
        return None
    run = RunDirectory(runs / marker.run)
    try:
        used = any(address(each) == address(store) for each in run.plan().stores)
    except RunError:
        return None
    return run if used else None


def address(store: StorePlan) -> tuple[str, str]:
    """Where somebody's store is. Two names of one place may differ here, which costs
    a clear message and no data: every run refuses keys that it finds."""
    if store.private:
        return "", store.name
    folder = store.settings.get("directory")
    where = os.path.realpath(folder) if folder else stores.place(store.settings)
    return store.kind, where


def left_in_words(found: Found, store: StorePlan, namespace: str) -> str:
    """``mine holds 9,071 keys under kvtui:fans:, …``"""
    keys = f"{found.keys:,} key{'' if found.keys == 1 else 's'}"
    words = f"{store.name} still holds {keys} under kvtui:{namespace}:"
    if not found.keys:
        # A run elsewhere may have only just begun.
        words = f"{store.name} holds the mark of a run of {namespace} and no keys yet:"
    marker = found.marker
    if marker is None:
        return f"{words} and nothing says whose they are"
    where = "of this machine" if marker.machine == machine() else f"on {marker.host}"
    why = "asked to keep" if marker.kept else "left"
    day = marker.started[:16].replace("T", " ")
    return f"{words} that run {marker.run} {where} {why} ({day} UTC)"


def in_words(found: Found) -> str:
    """The server in half a line: version, memory, eviction, what is there."""
    info = found.info
    words = [f"{info.version} at {info.address}"]
    if info.memory_limit_bytes is not None:
        words.append(f"memory limit {size_words(info.memory_limit_bytes)}")
        if info.memory_used_bytes is not None:
            free = max(0, info.memory_limit_bytes - info.memory_used_bytes)
            words[-1] += f" ({size_words(free)} free)"
        if info.eviction:
            words.append(f"eviction {info.eviction}")
    elif info.memory_limit:
        words.append(f"memory limit {info.memory_limit}")
    words.append(info.durability)
    return ", ".join(words)


def eviction_warning(store: StorePlan, found: Found) -> str:
    """A warning where a server would rather drop records than refuse them."""
    info = found.info
    if info.eviction in KEEPS_ALL:
        return ""
    holds = []
    if info.memory_limit_bytes is not None:
        holds.append(size_words(info.memory_limit_bytes))
    if info.records_limit is not None:
        holds.append(f"{info.records_limit:,} keys")
    if not holds:
        return ""
    others = ", and may drop some that are not kvtui's" if found.drops_others else ""
    return (
        f"{store.name} drops keys (policy {info.eviction}) once it holds"
        f" {' or '.join(holds)}{others}: a trial that loses any gets"
        " no rank"
    )


def what_remains(error: KvtuiError, store: StorePlan, namespace: str) -> str:
    """What to say when a server could not be left clean."""
    return (
        f"keys under kvtui:{namespace}: may be left on {store.name}"
        f" ({error.message}); the next run there removes them"
    )
