"""What may be set of a store: names, types, limits, and what each is for.

A static table, read by the settings file, the command line and the forms alike. A
setting has one meaning and one type wherever it is used.
"""

from __future__ import annotations

import difflib
import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from msgspec import Struct, structs

from kvtui.errors import UsageError

_HOST_NAME: Final = re.compile(r"[\w.-]+")
_STATUS: Final = re.compile(r"[2-5](?:[0-9][0-9]|xx)")
"""Of a final response; a 1xx is none (RFC 9110, 15.2)."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Type = Literal["text", "switch", "whole", "number", "size", "choice"]

_SIZES: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
}


class Setting(Struct, frozen=True):
    """One setting."""

    about: str
    type: Type = "text"
    least: float = 0
    most: float = math.inf
    """Limits of a number, or of a size in bytes."""
    choices: tuple[str, ...] = ()


SETTINGS: Final[Mapping[str, Setting]] = {
    "client": Setting("how it is driven: wire, driver or calls"),
    "host": Setting("the server's name or address; IPv6 without brackets"),
    "port": Setting("its TCP port", "whole", 1, 65_535),
    "path": Setting("its unix socket, instead of host and port"),
    "transport": Setting("of a private server", "choice", choices=("unix", "tcp")),
    "program": Setting("the server program to start, where it is not on PATH"),
    "database": Setting("Redis: the number of the database", "whole", 0, 1_000_000),
    "schema": Setting("MySQL, MongoDB: the database that holds kvtui's data"),
    "username": Setting("who connects"),
    "password_env": Setting("the environment variable that holds the password"),
    "password_file": Setting("the file that holds the password"),
    "tls": Setting("connect by TLS", "switch"),
    "ca": Setting("TLS: the file with the authority that signed its certificate"),
    "verify": Setting("TLS: check its certificate and its name", "switch"),
    "page": Setting("HTTP: the path of the page, such as /index.html"),
    "keep_alive": Setting("HTTP: keep connections open between requests", "switch"),
    "ok": Setting("HTTP: the statuses that are answers, such as 2xx,304"),
    "timeout_s": Setting(
        "seconds that a connection or a reply may take", "number", 0.01, 3600
    ),
    "directory": Setting("the folder of an embedded store that is kept"),
    "memory": Setting(
        "what a private server or an embedded store may use", "size", 1e6, 1e15
    ),
    "sync": Setting("flush every write to the disk", "switch"),
    "compression": Setting(
        "of what is stored",
        "choice",
        choices=("snappy", "none", "zlib", "lz4", "zstd"),
    ),
    "write_buffer_mb": Setting("LevelDB: its write buffer", "number", 0.1, 100_000),
    "cache_mb": Setting("its cache", "number", 0.1, 100_000),
    "layout": Setting("WiredTiger: its tables", "choice", choices=("btree", "lsm")),
    "log": Setting(
        "WiredTiger: how far a commit gets that is not flushed to the disk",
        "choice",
        choices=("written", "buffered", "none"),
    ),
    "page_kb": Setting("WiredTiger: its largest pages, in KiB", "number", 4, 524_288),
    "item_limit": Setting(
        "memcached: the largest item of a private server", "size", 10**6, 2**30
    ),
    "row_format": Setting(
        "MySQL: of its tables",
        "choice",
        choices=("dynamic", "compressed", "compact", "redundant"),
    ),
    "flush_at_commit": Setting(
        "MySQL: innodb_flush_log_at_trx_commit of a private server", "whole", 0, 2
    ),
    "max_packet": Setting(
        "MySQL: max_allowed_packet of a private server", "size", 1024, 2**30
    ),
    "direct_io": Setting(
        "MySQL: whether a private server goes past the OS cache", "switch"
    ),
    "engine": Setting(
        "Tokyo: the database of a private server",
        "choice",
        choices=("hash", "tree", "hash-file", "tree-file"),
    ),
}


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint: did you mean …, or what there is."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there is: {', '.join(names)}"


def typed(name: str, text: str) -> Any:
    """A setting's value from the text that somebody typed; what does not fit stays a
    text, and :func:`problem` says so. A user called 007 keeps his name."""
    setting = SETTINGS.get(name)
    return text if setting is None else typed_as(setting.type, text)


def typed_as(kind: Type, text: str) -> Any:
    """The same for a type."""
    if kind == "switch":
        switches = {"true": True, "yes": True, "on": True}
        return (switches | {"false": False, "no": False, "off": False}).get(text, text)
    if kind in ("whole", "number"):
        for number in (int, float):
            try:
                return number(text)
            except ValueError:
                continue
    return text


def problem(name: str, value: Any, choices: tuple[str, ...] = ()) -> str:
    """What is wrong with a setting's value; empty when nothing is. ``choices``: those
    of a kind of store that has not all of them."""
    setting = SETTINGS[name]
    if choices:
        setting = structs.replace(setting, choices=choices)
    wrong = problem_with(setting, value)
    if not wrong and name == "host":
        return _problem_of_host(value)
    if not wrong and name == "ok":
        try:
            statuses(value)
        except UsageError as error:
            return error.message
    if not wrong and name == "password_env" and not _VARIABLE.fullmatch(value):
        return "must be the name of an environment variable"
    return wrong


def _problem_of_host(host: str) -> str:
    if "@" in host or "://" in host:
        return "must be a name or an address: that is a URL, or has a login in it"
    if ":" in host:
        try:
            ipaddress.IPv6Address(host.strip("[]"))
        except ValueError:
            return "must be a name or an address, with the port beside it"
    elif host.isdecimal() or not _HOST_NAME.fullmatch(host):
        return "must be a name or an address"
    return ""


def may_be_shown(name: str, value: Any) -> bool:
    """Whether a value that does not fit may be repeated: it is no password that was
    put in the wrong place."""
    text = str(value)
    return name not in ("host", "password_env") and "@" not in text


def problem_with(setting: Setting, value: Any) -> str:
    """The same for any setting."""
    if setting.type == "text":
        return "" if isinstance(value, str) and value else "must be a text"
    if setting.type == "switch":
        return "" if isinstance(value, bool) else "must be true or false"
    if setting.type == "choice":
        fits = value in setting.choices
        return "" if fits else f"must be {' or '.join(setting.choices)}"
    if setting.type == "size":
        try:
            size = size_bytes(value)
        except UsageError:
            return "must be a size such as 512MB or 2GiB"
        fits = setting.least <= size <= setting.most
        least, most = f"{setting.least:,.0f}", f"{setting.most:,.0f}"
        return "" if fits else f"must be from {least} to {most} bytes"
    whole = setting.type == "whole"
    right = int if whole else (int, float)
    if (
        isinstance(value, bool)
        or not isinstance(value, right)
        or not setting.least <= value <= setting.most  # also false for NaN
    ):
        kind = "whole number" if whole else "number"
        return f"must be a {kind} from {setting.least} to {setting.most:,}"
    return ""


def size_bytes(value: Any) -> int:
    """``512MB``, ``2GiB`` or a number of bytes; UsageError for anything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = str(value).strip().replace("_", "")
    digits = text.rstrip("BKMGTibkmgt ")
    unit = text[len(digits) :].strip().upper()
    try:
        size = float(digits) * _SIZES[unit]
    except (KeyError, ValueError):
        raise UsageError(f"{value!r} is not a size such as 512MB or 2GiB") from None
    if not 0 <= size < 1e18:
        raise UsageError(f"{value!r} is not a size such as 512MB or 2GiB")
    return int(size)


def statuses(words: str) -> frozenset[int]:
    """``2xx,304`` as the HTTP statuses that it means; UsageError for anything else."""
    found: set[int] = set()
    for word in words.lower().split(","):
        if not _STATUS.fullmatch(word.strip()):
            raise UsageError("must be statuses such as 2xx,304")
        first = int(word.replace("x", "0"))
        found.update(range(first, first + 100) if "x" in word else (first,))
    return frozenset(found)


def size_words(size: int) -> str:
    """A number of bytes in the unit that suits it: ``64 MB``, ``1.5 GB``."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
