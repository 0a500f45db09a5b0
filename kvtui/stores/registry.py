"""Every kind of store, and the stores that are there without any settings.

A static table: listing it imports no driver. A new store is one adapter file and
one line in each of the two tables.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from kvtui import secrets
from kvtui.errors import UsageError
from kvtui.stores.programs import (
    WIREDTIGER_INSTALL,
    find_program,
    servers_directory,
)
from kvtui.stores.settings import may_be_shown, nearest, problem

if TYPE_CHECKING:
    from kvtui.stores.store import Store


InFiles = Literal["", "plain", "compressed"]


class Kind(Struct, frozen=True):
    """A kind of store: its adapter, and how it comes to a machine."""

    adapter: str
    """``module:class`` of the adapter."""
    settings: frozenset[str] = frozenset()
    """What may be set, beside what every server has."""
    choices: Mapping[str, tuple[str, ...]] = {}
    """Of a setting, where this kind has not all that there are."""
    servers: tuple[str, ...] = ()
    """Programs of which one serves it, the preferred one first."""
    server: str = ""
    """``module:class`` of its private server."""
    own_server: str = ""
    """What kvtui serves it with itself where none of the programs is installed."""
    module: str = ""
    """The Python module that an embedded store needs, where it may be missing."""
    install: str = ""
    """The command that brings the server or the module."""
    port: int = 0
    """Where such a server usually listens."""
    shared_by_threads: bool = False
    """Whether it lives in one worker process."""
    scans: bool = True
    """Whether it can be asked for a range of keys."""
    read_only: bool = False
    in_files: InFiles = ""
    """How it keeps its records in files, where nothing else is set."""
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


_CONNECTION: Final = frozenset(
    {"client", "host", "port", "path", "timeout_s", "transport", "program"}
)
_LOGIN: Final = frozenset({"username", "password_env", "password_file", "tls"})

_SECANTUS: Final = servers_directory() / "secantusdb"

KINDS: Final[Mapping[str, Kind]] = {
    "null": Kind("kvtui.stores.null:NullStore", shared_by_threads=True),
    "ram": Kind("kvtui.stores.ram:RamStore", shared_by_threads=True),
    "leveldb": Kind(
        "kvtui.stores.leveldb:LevelDbStore",
        settings=frozenset(
            {"directory", "write_buffer_mb", "cache_mb", "sync", "compression"}
            | {"memory"}
        ),
        choices={"compression": ("snappy", "none")},
        in_files="compressed",
        shared_by_threads=True,
    ),
    "wiredtiger": Kind(
        "kvtui.stores.wiredtiger.store:WiredTigerStore",
        settings=frozenset(
            {"directory", "cache_mb", "sync", "compression", "layout", "memory"}
            | {"log", "page_kb"}
        ),
        module="wiredtiger",
        install=WIREDTIGER_INSTALL,
        in_files="compressed",
        shared_by_threads=True,
    ),
    "memcached": Kind(
        "kvtui.stores.memcached.store:MemcachedStore",
        settings=_CONNECTION | {"memory", "item_limit"},
        servers=("memcached",),
        server="kvtui.stores.servers.memcached:MemcachedServer",
        install="apt install memcached",
        port=11211,
        clients=("wire", "driver"),
        scans=False,
    ),
    "redis": Kind(
        "kvtui.stores.redis:RedisStore",
        settings=_CONNECTION | _LOGIN | {"database"},
        servers=("redis-server", "valkey-server"),
        server="kvtui.stores.servers.redis:RedisServer",
        install="apt install redis-server",
        port=6379,
        clients=("wire", "driver"),
        scans=False,
    ),
    "tokyo": Kind(
        "kvtui.stores.tokyo.store:TokyoStore",
        settings=_CONNECTION | {"engine"},
        servers=("ttserver",),
        server="kvtui.stores.servers.tokyo:TokyoServer",
        install="build Tokyo Tyrant 1.1.41, then KVTUI_TTSERVER=/path/to/ttserver",
        port=1978,
        clients=("wire", "calls"),
        scans=False,
    ),
    "mongo": Kind(
        "kvtui.stores.mongo.store:MongoStore",
        settings=_CONNECTION | _LOGIN | {"schema"},
        servers=("mongod", "secantusd-py"),
        server="kvtui.stores.servers.mongo:MongoServer",
        install=(
            f"python3 -m venv {_SECANTUS} &&"
            f" {_SECANTUS}/bin/pip install secantusdb==0.7.0b3"
        ),
        port=27017,
        in_files="compressed",
        clients=("wire", "driver"),
    ),
    "mysql": Kind(
        "kvtui.stores.mysql.store:MySqlStore",
        settings=_CONNECTION
        | _LOGIN
        | {"schema", "memory", "row_format", "flush_at_commit", "max_packet"}
        | {"direct_io"},
        servers=("mariadbd", "mysqld"),
        server="kvtui.stores.servers.mysql:MySqlServer",
        install="apt install mariadb-server-core mariadb-client",
        port=3306,
        in_files="plain",
        clients=("wire", "driver"),
    ),
    "http": Kind(
        "kvtui.stores.http.store:HttpStore",
        settings=_CONNECTION | {"tls", "ca", "verify", "page", "keep_alive", "ok"},
        servers=("nginx", "apache2", "httpd"),
        server="kvtui.stores.servers.http:PageServer",
        own_server="kvtui's own page server",
        install="apt install nginx",
        port=80,
        read_only=True,
        clients=("wire", "calls"),
        scans=False,
    ),
}

BUILT_IN: Final[tuple[StoreProfile, ...]] = (
    StoreProfile("null", "null", place="in process"),
    StoreProfile("ram", "ram", place="in process"),
    StoreProfile("leveldb", "leveldb", place="embedded"),
    StoreProfile("wiredtiger", "wiredtiger", place="embedded"),
    StoreProfile(
        "memcached-unix", "memcached", {"transport": "unix"}, True, "unix socket"
    ),
    StoreProfile(
        "memcached-tcp", "memcached", {"transport": "tcp"}, True, "TCP, loopback"
    ),
    StoreProfile("redis-unix", "redis", {"transport": "unix"}, True, "unix socket"),
    StoreProfile("redis-tcp", "redis", {"transport": "tcp"}, True, "TCP, loopback"),
    StoreProfile("tokyo-unix", "tokyo", {"transport": "unix"}, True, "unix socket"),
    StoreProfile("tokyo-tcp", "tokyo", {"transport": "tcp"}, True, "TCP, loopback"),
    StoreProfile("mongo", "mongo", {"transport": "tcp"}, True, "TCP, loopback"),
    StoreProfile("mysql", "mysql", {"transport": "unix"}, True, "unix socket"),
    StoreProfile("http", "http", {"transport": "tcp"}, True, "TCP, loopback"),
    # As in a comparison of 2012, which gave each 2 GB: a write buffer of 500 MB and
    # a cache of 1,500 MB here; chunks of 200 MB within the cache below.
    StoreProfile(
        "leveldb-paper",
        "leveldb",
        {"memory": "2000MiB", "write_buffer_mb": 500, "cache_mb": 1500}
        | {"compression": "snappy", "sync": False},
        place="embedded, as in 2012",
    ),
    StoreProfile(
        "wiredtiger-paper",
        "wiredtiger",
        {"memory": "2GiB", "layout": "lsm", "page_kb": 128}
        | {"compression": "snappy", "log": "buffered", "sync": False},
        place="embedded, as in 2012",
    ),
    StoreProfile(
        "mysql-paper",
        "mysql",
        {
            "transport": "unix",
            "memory": "2GiB",
            "row_format": "compressed",
            "flush_at_commit": 0,
            "direct_io": False,
        },
        True,
        "unix socket, as in 2012",
    ),
)


def kind(name: str) -> Kind:
    """The kind of that name; UsageError with the nearest ones otherwise."""
    try:
        return KINDS[name]
    except KeyError:
        shown = repr(name) if may_be_shown("kind", name) else "of that name"
        raise UsageError(
            f"there is no kind of store {shown}", hint=nearest(name, KINDS)
        ) from None


def check_settings(store: str, kind_name: str, settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a setting that this kind does not have."""
    of_kind = kind(kind_name)
    for name in settings:
        if name in of_kind.settings:
            continue
        known = sorted(of_kind.settings)
        hint = nearest(name, known) if known else f"{kind_name} has no settings"
        raise UsageError(f"store {store}: there is no setting {name!r}", hint=hint)
    for name, value in settings.items():
        wrong = problem(name, value, of_kind.choices.get(name, ()))
        if wrong:
            shown = f", not {value!r}" if may_be_shown(name, value) else ""
            raise UsageError(
                f"store {store}: {name} {wrong}{shown}",
                hint=_instead(kind_name, of_kind, name, value),
            )
    client = settings.get("client")
    if client is not None and client not in of_kind.clients:
        raise UsageError(
            f"store {store}: client must be {' or '.join(of_kind.clients)},"
            f" not {client}"
        )


def _instead(kind_name: str, of_kind: Kind, name: str, value: Any) -> str | None:
    """What to write in place of something that may be a password; it is hidden from
    now on."""
    if name not in ("host", "password_env") or not isinstance(value, str):
        return None
    if name == "password_env":
        secrets.learn(value)
        return (
            "a name has letters, digits and _; the password is the variable's value,"
            " and stands nowhere here"
        )
    secrets.learn_typed(value if "://" in value else f"x://{value}")
    scheme = {"mongo": "mongodb"}.get(kind_name, kind_name)
    hint = f'a whole address is a URL: "{scheme}://HOST:PORT"'
    if "password_env" in of_kind.settings:
        hint += "; for the password, password_env=NAME or password_file=FILE"
    return hint


def adapter(kind_name: str) -> type[Store]:
    """The adapter class of a kind; imports its driver."""
    module_name, _, class_name = kind(kind_name).adapter.partition(":")
    loaded: type[Store] = getattr(importlib.import_module(module_name), class_name)
    return loaded


def availability(profile: StoreProfile) -> Availability:
    """Whether the store can be had, from what is installed; connects to nothing."""
    of_kind = kind(profile.kind)
    if of_kind.module and importlib.util.find_spec(of_kind.module) is None:
        return Availability(
            False, f"not here: no Python module {of_kind.module}", of_kind.install
        )
    if not of_kind.servers:
        return Availability(True, profile.place or "embedded")
    if not profile.private:
        return Availability(True, f"configured at {place(profile.settings)}")
    asked = profile.settings.get("program")
    program = find_program([str(asked)] if asked else of_kind.servers)
    if program is None and of_kind.own_server and not asked:
        return Availability(True, f"private server, {of_kind.own_server}")
    if program is None:
        missing = str(asked or of_kind.servers[0])
        return Availability(
            False, f"not here: {missing} is not installed", of_kind.install
        )
    return Availability(True, f"private server, {Path(program).name}")


def place(settings: Mapping[str, Any]) -> str:
    """Where a configured server is, without any secret."""
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    port = settings.get("port")
    return f"{shown}:{port}" if port else shown


def in_files(kind_name: str, private: bool, settings: Mapping[str, Any]) -> InFiles:
    """How the records stand in files that this run is to make on this machine; empty
    where they do not."""
    of_kind = kind(kind_name)
    if of_kind.servers and not private:
        return ""
    if str(settings.get("engine", "")).endswith("-file"):
        return "plain"
    if of_kind.in_files and settings.get("compression") == "none":
        return "plain"
    if settings.get("row_format") == "compressed":
        return "compressed"
    return of_kind.in_files


def is_somebodys(profile_kind: str, private: bool, settings: Mapping[str, Any]) -> bool:
    """Whether the store was there before the run and stays after it: a configured
    server, or a folder that was named."""
    return bool(settings.get("directory")) or (
        bool(kind(profile_kind).servers) and not private
    )
