"""What a run begins with when nobody says otherwise, and who said so.

A flag beats the environment, that beats the settings file, and that beats the
default. In the file a value stands in a section, in the environment under one scheme:

========================  ============================
``[run] clients``         ``KVTUI_CLIENTS``
``[workloads.fans] mode``  ``KVTUI_FANS_MODE``
``[ui] ascii``            ``KVTUI_ASCII``
``[ui] color``            ``NO_COLOR`` (no-color.org)
========================  ============================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvtui.errors import ConfigError, UsageError
from kvtui.jobs.fans.parameters import MODES
from kvtui.jobs.http.parameters import REQUESTS, REQUESTS_LIMIT
from kvtui.jobs.ycsb import parameters as ycsb
from kvtui.located import Located
from kvtui.runs.plan import (
    CLIENTS_LIMIT,
    DEFAULT_CLIENTS,
    DEFAULT_WORKERS,
    WORKERS_LIMIT,
)
from kvtui.stores.settings import Setting, nearest, problem_with, typed_as

_UNITS: Final = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_PREFIX: Final = "KVTUI_"


class Option(Struct, frozen=True):
    """One thing that may be set, and what it is when nobody does."""

    setting: Setting
    default: Any = None
    """None: kvtui finds out by itself."""
    otherwise: str = ""
    """What it is by itself, in words."""
    is_path: bool = False


OPTIONS: Final[Mapping[str, Option]] = {
    "run.clients": Option(
        Setting("callers at the same time", "whole", 1, CLIENTS_LIMIT), DEFAULT_CLIENTS
    ),
    "run.workers": Option(
        Setting("processes that host them", "whole", 1, WORKERS_LIMIT), DEFAULT_WORKERS
    ),
    "run.repeat": Option(Setting("all stores so many times", "whole", 1, 1000), 1),
    "run.seed": Option(
        Setting("the same seed asks the same", "whole", 0, 2**63 - 1), 1
    ),
    "workloads.fans.data": Option(
        Setting("the profile file"), otherwise="the sample", is_path=True
    ),
    "workloads.fans.names": Option(
        Setting("readable names of the pages"), otherwise="the sample's", is_path=True
    ),
    "workloads.fans.first": Option(
        Setting("only so many people", "whole", 1, 2**53), otherwise="everybody"
    ),
    "workloads.fans.mode": Option(
        Setting("how a record is updated", "choice", choices=tuple(MODES)), "record"
    ),
    "workloads.fans.cache_mb": Option(
        Setting("room of mode cached", "number", 1, 1_000_000), 512
    ),
    "workloads.fans.verify_mb": Option(
        Setting("room for verifying", "number", 16, 1_000_000), 256
    ),
    "workloads.fans.encoding": Option(
        Setting("of the profiles: utf-8 or latin-1"), "utf-8"
    ),
    "workloads.fans.format": Option(
        Setting("of the profiles"), otherwise="told by the file"
    ),
    "workloads.http.requests": Option(
        Setting("over all clients", "whole", 1, REQUESTS_LIMIT), REQUESTS
    ),
    "workloads.http.changing": Option(
        Setting("the page may change between replies", "switch"), False
    ),
    "workloads.ycsb.records": Option(
        Setting("loaded first", "whole", 1, ycsb.RECORDS_LIMIT), ycsb.RECORDS
    ),
    "workloads.ycsb.operations": Option(
        Setting("over all clients", "whole", 1, ycsb.OPERATIONS_LIMIT), ycsb.OPERATIONS
    ),
    "workloads.ycsb.value_bytes": Option(
        Setting("of each value", "whole", ycsb.HEADER_BYTES, ycsb.VALUE_LIMIT),
        ycsb.VALUE_BYTES,
    ),
    "workloads.ycsb.distribution": Option(
        Setting("how records are chosen", "choice", choices=tuple(ycsb.DISTRIBUTIONS)),
        otherwise="the workload's own",
    ),
    "workloads.http.method": Option(
        Setting("such as GET, HEAD, POST"), otherwise="GET, or POST with a body"
    ),
    "workloads.http.body": Option(
        Setting("a file that is sent with every request"),
        otherwise="none",
        is_path=True,
    ),
    "workloads.http.content_type": Option(
        Setting("of the body"), otherwise="application/octet-stream"
    ),
    "workloads.http.follow": Option(
        Setting("follow redirects on the same server", "switch"), False
    ),
    "ui.ascii": Option(
        Setting("draw with ASCII only", "switch"), otherwise="as the terminal can"
    ),
    "ui.color": Option(
        Setting("draw with colours", "switch"), otherwise="as the terminal can"
    ),
}


class Effective(Struct, frozen=True):
    """A value that is in force."""

    value: Any
    source: str
    """``default``, ``file``, ``environment`` or ``flag``."""
    where: str = ""
    """``FILE:LINE``, the variable or the flag."""


def variable(name: str) -> str:
    """The environment variable of an option."""
    if name == "ui.color":
        return "NO_COLOR"
    words = name.split(".")
    return _PREFIX + "_".join(words[1:]).upper()


def in_force(
    document: Located,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Effective]:
    """Every option with its value and who said so.

    ``flags`` holds options by name, None for those not given. UsageError names the
    flag or variable that is off, ConfigError the file and line.
    """
    environment = os.environ if environment is None else environment
    return {
        name: _one(name, option, document, flags or {}, environment)
        for name, option in OPTIONS.items()
    }


def _one(
    name: str,
    option: Option,
    document: Located,
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
) -> Effective:
    asked = flags.get(name)
    if asked is not None:
        return Effective(asked, "flag", f"--{name.rpartition('.')[2]}")
    given = environment.get(variable(name), "")
    if given:
        return Effective(_from_text(name, option, given), "environment", variable(name))
    key = tuple(name.split("."))
    value = _inside(document.values, key)
    if value is not None:
        if option.is_path and isinstance(value, str):
            value = str(document.path.parent / Path(value).expanduser())
        return Effective(value, "file", document.place(*key))
    return Effective(option.default, "default")


def _inside(values: Any, key: tuple[str, ...]) -> Any:
    for word in key:
        values = values.get(word) if isinstance(values, dict) else None
    return values


def _from_text(name: str, option: Option, text: str) -> Any:
    if name == "ui.color":
        return False
    if name == "ui.ascii":
        return text != "0"
    as_number = number(text) if option.setting.type in ("whole", "number") else None
    if option.setting.type == "switch":
        text = {"1": "on", "0": "off"}.get(text, text)
    value = typed_as(option.setting.type, text) if as_number is None else as_number
    wrong = problem_with(option.setting, value)
    if wrong:
        raise UsageError(f"{variable(name)} {wrong}, not {text!r}")
    return value


def strangers(environment: Mapping[str, str], known: set[str]) -> list[str]:
    """Variables that begin like kvtui's and mean nothing to it."""
    ours = {variable(name) for name in OPTIONS} | known
    return sorted(
        name for name in environment if name.startswith(_PREFIX) and name not in ours
    )


def check(document: Located) -> None:
    """Raise ConfigError for the first thing in the file that is not known or does
    not fit; stores are looked at where they are made."""
    sections: dict[str, set[str]] = {"stores": set()}
    for name in OPTIONS:
        sections.setdefault(name.split(".")[0], set()).add(name)
    for section, inside in document.values.items():
        if section not in sections:
            raise document.error(
                f"there is no section [{section}]",
                section,
                hint=nearest(section, sections),
            )
        if not isinstance(inside, dict):
            raise document.error(
                f"{section} must be a table, as in [{section}]", section
            )
        if section == "workloads":
            _check_workloads(document, inside)
        elif section != "stores":
            _check_section(document, (section,), inside)


def _check_workloads(document: Located, workloads: dict[str, Any]) -> None:
    known = dict.fromkeys(
        name.split(".")[1] for name in OPTIONS if name.startswith("workloads.")
    )
    for workload, inside in workloads.items():
        key = ("workloads", workload)
        if workload not in known:
            hint = nearest(workload, known)
            raise document.error(f"there is no workload {workload!r}", *key, hint=hint)
        if not isinstance(inside, dict):
            raise document.error(
                f"workloads.{workload} must be a table, as in [workloads.{workload}]",
                *key,
            )
        _check_section(document, key, inside)


def _check_section(
    document: Located, section: tuple[str, ...], inside: dict[str, Any]
) -> None:
    title = ".".join(section)
    known = [
        name.removeprefix(f"{title}.")
        for name in OPTIONS
        if name.startswith(f"{title}.")
    ]
    for key, value in inside.items():
        if key not in known:
            raise document.error(
                f"[{title}] has no key {key!r}", *section, key, hint=nearest(key, known)
            )
        wrong = problem_with(OPTIONS[f"{title}.{key}"].setting, value)
        if wrong:
            raise document.error(f"{key} {wrong}, not {value!r}", *section, key)


def number(text: str) -> float | None:
    """A number with or without a unit (k, M, G); None when it is none."""
    bare = text.strip().replace("_", "").replace(",", "")
    unit = bare[-1:].lower() if bare[-1:].isalpha() else ""
    if unit not in _UNITS:
        return None
    digits = bare[: len(bare) - len(unit)]
    try:
        # int keeps a seed of 19 digits exact.
        return int(digits) * _UNITS[unit] if _is_whole(digits) else _real(digits, unit)
    except ValueError:
        return None


def _is_whole(digits: str) -> bool:
    return digits.removeprefix("-").isdecimal()


def _real(digits: str, unit: str) -> float | None:
    value = float(digits) * _UNITS[unit]
    return value if abs(value) < 1e18 else None  # also false for NaN


def apply_to_screens(document: Located) -> None:
    """Hand the file's ``[ui]`` to what draws, which reads the environment."""
    if document.values.get("ui"):
        try:
            values = in_force(document)
        except ConfigError:
            return
        if values["ui.ascii"].source == "file":
            os.environ[variable("ui.ascii")] = "1" if values["ui.ascii"].value else "0"
        if values["ui.color"].source == "file" and not values["ui.color"].value:
            os.environ["NO_COLOR"] = "1"
