"""What a Tokyo Tyrant server says of itself, and whether kvtui can use it."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Final

from kvtui.errors import StoreUnavailable
from kvtui.stores.peers import peer_address
from kvtui.stores.store import StoreInfo
from kvtui.stores.tokyo.protocol import ARGUMENT_LIMIT_BYTES

DURABILITY: Final = {
    "on-memory hash": "memory (on-memory hash, nothing is saved)",
    "on-memory tree": "memory (on-memory B+ tree, nothing is saved)",
    "hash": "OS cache (mapped file, no sync)",
    # Measured: kill -9 kept none of 5,000 puts that had not been synchronised.
    "B+ tree": "memory, written to its file now and then (B+ tree, no sync)",
}
"""By the ``type`` of ``stat``: the databases that hold any key and any value."""

_LIMITS: Final = ("capnum", "capsiz")
"""Options of an on-memory hash: beyond them the server drops what is oldest."""
_UNKNOWN: Final = "not shown by the server"
_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def described(
    stat: dict[str, str], connection: socket.socket, client: str
) -> StoreInfo:
    """From ``stat``, the live socket, and the server's command line.

    OSError where the socket has no other end any more.
    """
    address = peer_address(connection)
    by_socket = connection.family == socket.AF_UNIX
    local = by_socket or address.startswith(("127.0.0.1:", "[::1]:"))
    process_id = _whole(stat.get("pid")) if local else None
    path, engine = stat.get("path", ""), stat.get("type", "")
    database = _database(process_id, path)
    options = _options(database)
    limits = [f"{name}={options[name]}" for name in _LIMITS if name in options]
    limit = " ".join(limits) or ("none" if database else _UNKNOWN)
    limit_bytes = _size(options.get("capsiz", ""))
    most = _size(options.get("capnum", ""))
    return StoreInfo(
        f"Tokyo Tyrant {stat.get('version', '?')}",
        address,
        DURABILITY.get(engine, "unknown"),
        client,
        memory_limit=limit,
        memory_limit_bytes=limit_bytes,
        memory_used_bytes=None if limit_bytes is None else _whole(stat.get("size")),
        records_limit=most,
        records_used=None if most is None else _whole(stat.get("rnum")),
        evictable_keys=(_whole(stat.get("rnum")) or 0) if limits else 0,
        item_limit_bytes=ARGUMENT_LIMIT_BYTES,
        eviction=f"the oldest beyond {limit}" if limits else limit,
        compression=_compression(engine, options, database),
        process_id=process_id,
        details={
            "engine": engine,
            "database": database or path,
            "protocol": stat.get("protver", ""),
            "libver": stat.get("libver", ""),
        },
    )


def check(where: str, stat: dict[str, str]) -> None:
    """Raise StoreUnavailable for a server that cannot keep any key and value."""
    if not {"version", "type"} <= stat.keys():
        raise StoreUnavailable(
            f"tokyo at {where} does not show its stat",
            hint="is it a Tokyo Tyrant server? Does its -mask forbid stat?",
        )
    if "fatal" in stat:
        raise StoreUnavailable(
            f"tokyo at {where}: its database is broken: {stat['fatal']}",
            hint="its log says more; a file may need tchmgr or tcbmgr to be repaired",
        )
    if stat["type"] not in DURABILITY:
        raise StoreUnavailable(
            f"tokyo at {where} serves a database of type {stat['type']}",
            hint=f"kvtui needs one of: {', '.join(DURABILITY)}",
        )


def _database(process_id: int | None, path: str) -> str:
    """What the server was told to open (``/x.tch#opts=l``), where /proc shows it.

    ``stat`` gives the path alone, without the options that follow it.
    """
    if process_id is None or not path:
        return ""
    try:
        words = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    for word in words[1:]:
        name, mark, options = word.decode("utf-8", "replace").partition("#")
        if name == path:
            return name + mark + options
    return ""


def _options(database: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in database.split("#")[1:] if "=" in each)


def _compression(engine: str, options: dict[str, str], database: str) -> str:
    if engine.startswith("on-memory"):
        return "none"
    known = {"d": "deflate", "b": "bzip2", "t": "TCBS", "x": "external"}
    named = [known[each] for each in options.get("opts", "") if each in known]
    return " ".join(named) or ("none" if database else _UNKNOWN)


def _size(text: str) -> int | None:
    """Tokyo Cabinet's own way to write a size: ``256m`` is 256 MiB."""
    found = re.fullmatch(r"([0-9]+)([kmgt]?)i?b?", text.lower())
    return int(found[1]) << _POWERS[found[2]] if found else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
