"""What kvtui finds of itself on somebody's server, and what that means.

A run puts a marker under ``kvtui:run:<namespace>``, outside of the keys that it
counts and wipes: whose run writes there, from which machine, since when.
"""

from __future__ import annotations

import contextlib
import os
import socket
from hashlib import blake2b
from pathlib import Path
from typing import Final, Literal

import msgspec

from kvtui.errors import KvtuiError, OperationFailed, RunError
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry as stores
from kvtui.stores.settings import size_words
from kvtui.stores.store import Store, StoreInfo

KEEPS_ALL: Final = ("", "none", "noeviction", "off")
"""Eviction policies under which a full server refuses instead of dropping."""
CLEAR_HINT: Final = "--overwrite removes these keys and no others"

Standing = Literal["empty", "interrupted", "in use", "left"]


class Marker(msgspec.Struct, frozen=True):
    """Whose keys these are."""

    run: str
    host: str
    machine: str
    """A digest by which a machine knows itself again."""
    started: str
    workload: str
    kept: bool = False
    """Whether the records were asked to stay."""


class Found(msgspec.Struct, frozen=True):
    """What somebody's server is, and what of kvtui's is on it."""

    info: StoreInfo
    keys: int = 0
    marked: bool = False
    """Whether there is something where the marker belongs."""
    marker: Marker | None = None
    """It, where it can be read."""


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
    try:
        raw = opened.get(marker_key(namespace))
    except OperationFailed as error:
        if error.broken:
            raise
        return Found(info, keys, marked=True)  # Something of another type.
    if raw is None:
        return Found(info, keys)
    marker: Marker | None = None
    with contextlib.suppress(msgspec.MsgspecError, RecursionError):
        marker = msgspec.json.decode(raw, type=Marker)
    return Found(info, keys, marked=True, marker=marker)


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
    if ours and marker.run == own and not marker.kept:
        return "interrupted"
    run = _run_of(marker, store, runs) if ours else None
    if run is not None and run.goes_on and not marker.kept:
        return "in use"
    if marker.kept or run is None:
        return "left" if found.keys or not marker.kept else "empty"
    return "interrupted"


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


def eviction_warning(store: StorePlan, info: StoreInfo) -> str:
    """A warning where a server would rather drop records than refuse them."""
    if info.eviction in KEEPS_ALL or info.memory_limit_bytes is None:
        return ""
    return (
        f"{store.name} drops keys (policy {info.eviction}) once it holds"
        f" {size_words(info.memory_limit_bytes)}: a trial that loses any gets no rank"
    )


def what_remains(error: KvtuiError, store: StorePlan, namespace: str) -> str:
    """What to say when a server could not be left clean."""
    return (
        f"keys under kvtui:{namespace}: may be left on {store.name}"
        f" ({error.message}); the next run there removes them"
    )
