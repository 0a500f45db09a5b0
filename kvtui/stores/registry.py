"""Every kind of store, and the stores that are there without any settings.

A static table: listing it imports no driver. A new store is one adapter file and
one line in each of the two tables.
"""

from __future__ import annotations

import difflib
import importlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kvtui.errors import UsageError

if TYPE_CHECKING:
    from kvtui.stores.store import Store


class Kind(Struct, frozen=True):
    """A kind of store: its adapter, and how it comes to a machine."""

    adapter: str
    """``module:class`` of the adapter."""
    settings: frozenset[str] = frozenset()
    """What may be set."""
    servers: tuple[str, ...] = ()
    """Programs of which one serves it, the preferred one first."""
    install: str = ""
    """The command that brings the server."""
    shared_by_threads: bool = False
    """Whether it lives in one worker process."""
    clients: tuple[str, ...] = ("calls",)
    """Ways to drive it, the default first."""


class StoreProfile(Struct, frozen=True):
    """A store under its name."""

    name: str
    kind: str
    settings: dict[str, Any] = {}
    private: bool = False
    """Whether kvtui starts a server of its own for it."""
    place: str = ""
    """Where it lives, in words."""


class Availability(Struct, frozen=True):
    """Whether a store can be had now."""

    ready: bool
    text: str
    """``embedded``, ``private server, redis-server`` or what is missing."""
    hint: str = ""
    """The one command that would bring it."""


_SERVER_SETTINGS: Final = frozenset(
    {
        "client",
        "host",
        "port",
        "path",
        "database",
        "username",
        "password_env",
        "password_file",
        "timeout_s",
        "tls",
    }
)

_TEXTS: Final = frozenset(
    {"client", "host", "path", "username", "password_env", "password_file"}
    | {"directory", "compression"}
)
_SWITCHES: Final = frozenset({"tls", "sync"})
_NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "port": (1, 65_535),
    "database": (0, 1_000_000),
    "timeout_s": (0.01, 3600.0),
    "write_buffer_mb": (0.1, 100_000.0),
    "cache_mb": (0.1, 100_000.0),
}
"""Limits; where they are whole numbers, so must the setting be."""

KINDS: Final[Mapping[str, Kind]] = {
    "null": Kind("kvtui.stores.null:NullStore", shared_by_threads=True),
    "ram": Kind("kvtui.stores.ram:RamStore", shared_by_threads=True),
    "leveldb": Kind(
        "kvtui.stores.leveldb:LevelDbStore",
        settings=frozenset(
            {"directory", "write_buffer_mb", "cache_mb", "sync", "compression"}
        ),
        shared_by_threads=True,
    ),
    "redis": Kind(
        "kvtui.stores.redis:RedisStore",
        settings=_SERVER_SETTINGS,
        servers=("redis-server", "valkey-server"),
        install="apt install redis-server",
        clients=("wire", "driver"),
    ),
}

BUILT_IN: Final[tuple[StoreProfile, ...]] = (
    StoreProfile("null", "null", place="in process"),
    StoreProfile("ram", "ram", place="in process"),
    StoreProfile("leveldb", "leveldb", place="embedded"),
    StoreProfile("redis-unix", "redis", {"transport": "unix"}, True, "unix socket"),
    StoreProfile("redis-tcp", "redis", {"transport": "tcp"}, True, "TCP, loopback"),
)


def kind(name: str) -> Kind:
    """The kind of that name; UsageError with the nearest ones otherwise."""
    try:
        return KINDS[name]
    except KeyError:
        raise UsageError(
            f"there is no kind of store {name!r}", hint=nearest(name, KINDS)
        ) from None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint: did you mean …, or what there is."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there is: {', '.join(names)}"


def check_settings(store: str, kind_name: str, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a setting that this kind does not have."""
    of_kind = kind(kind_name)
    for name in settings:
        if name == "transport" or name in of_kind.settings:
            continue
        known = sorted(of_kind.settings)
        hint = nearest(name, known) if known else f"{kind_name} has no settings"
        raise UsageError(f"store {store}: there is no setting {name!r}", hint=hint)
    for name, value in settings.items():
        problem = _problem(name, value)
        if problem:
            raise UsageError(f"store {store}: {name} {problem}, not {value!r}")
    client = settings.get("client")
    if client is not None and client not in of_kind.clients:
        raise UsageError(
            f"store {store}: client must be {' or '.join(of_kind.clients)},"
            f" not {client}"
        )


def _problem(name: str, value: Any) -> str:
    """What is wrong with a setting's value; empty when nothing is."""
    if name in _TEXTS:
        return "" if isinstance(value, str) and value else "must be a text"
    if name in _SWITCHES:
        return "" if isinstance(value, bool) else "must be true or false"
    limits = _NUMBERS.get(name)
    if limits is None:
        return ""
    least, most = limits
    whole = isinstance(least, int)
    right = int if whole else (int, float)
    if (
        isinstance(value, bool)
        or not isinstance(value, right)
        or not least <= value <= most  # also false for NaN
    ):
        return f"must be a {'whole ' * whole}number from {least} to {most:,}"
    return ""


def adapter(kind_name: str) -> type[Store]:
    """The adapter class of a kind; imports its driver."""
    module_name, _, class_name = kind(kind_name).adapter.partition(":")
    loaded: type[Store] = getattr(importlib.import_module(module_name), class_name)
    return loaded


def availability(profile: StoreProfile) -> Availability:
    """Whether the store can be had, from what is installed; connects to nothing."""
    of_kind = kind(profile.kind)
    if not of_kind.servers:
        return Availability(True, profile.place or "embedded")
    if not profile.private:
        return Availability(True, f"configured at {place(profile.settings)}")
    program = find_program(of_kind.servers)
    if program is None:
        return Availability(
            False, f"not here: {of_kind.servers[0]} is not installed", of_kind.install
        )
    return Availability(True, f"private server, {Path(program).name}")


def place(settings: Mapping[str, Any]) -> str:
    """Where a configured server is, without any secret."""
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1"))
    shown = f"[{host}]" if ":" in host else host
    port = settings.get("port")
    return f"{shown}:{port}" if port else shown


def is_somebodys(profile_kind: str, private: bool, settings: Mapping[str, Any]) -> bool:
    """Whether the store was there before the run and stays after it: a configured
    server, or a folder that was named."""
    return bool(settings.get("directory")) or (
        bool(kind(profile_kind).servers) and not private
    )


def find_program(names: Iterable[str]) -> str | None:
    """The first of the programs on PATH or in the usual folders for servers."""
    folders = os.pathsep.join(
        [os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    )
    for name in names:
        found = shutil.which(name, path=folders)
        if found:
            return found
    return None
