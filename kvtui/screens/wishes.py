"""What a person wishes for in the workbench, and the plan that it comes to.

Everything typed is kept as typed, so that a field can be half done; the plan is
there once no field has a fault.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from kvtui import config
from kvtui.errors import ConfigError, KvtuiError, UsageError
from kvtui.jobs import registry as jobs
from kvtui.jobs.http import parameters as requesting
from kvtui.jobs.ycsb import parameters as ycsb
from kvtui.runs.plan import (
    CLIENTS_LIMIT,
    DEFAULT_CLIENTS,
    DEFAULT_WORKERS,
    WORKERS_LIMIT,
    RunPlan,
    WorkloadPlan,
)
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from kvtui.text import count, visible

MODES: Final = {
    "record": "one get and one put of the page's whole record for each fan",
    "cached": "the same behind a write-back cache in RAM, flushed before the time is"
    " taken",
    "native": "what the store itself does best: counters that it raises, where it"
    " has them",
}
"""Modes of the fans workload, in words."""

WORKLOADS: Final = {
    "fans": "who shares fans with whom: records that grow, read and written again"
    " and again",
    "http": "get one page again and again, as a web server's measuring tools do",
    **{name: jobs.WORKLOADS[name].sentence for name in ycsb.PRESETS},
}
"""Workloads, in words."""

REDIRECTS: Final = {
    "no": "a redirect is an answer that counts as failed",
    "yes": "they are followed on the same server, within the operation's time",
}
"""Whether redirects are followed, in words."""

CHOICES: Final = {
    "workload": WORKLOADS,
    "mode": MODES,
    "distribution": {"own": "the one of the workload's file", **ycsb.DISTRIBUTIONS},
    "follow": REDIRECTS,
}
"""Fields in which one takes a choice instead of typing."""


class Wishes(Struct):
    """The form as it stands; kept between two visits."""

    stores: list[str] = field(default_factory=lambda: ["null", "ram", "leveldb"])
    """Ticked, in no order."""
    driver: list[str] = []
    """Stores to be asked through their driver instead of the wire loop."""
    workload: str = "fans"
    mode: str = "record"
    clients: str = str(DEFAULT_CLIENTS)
    workers: str = str(DEFAULT_WORKERS)
    repeat: str = "1"
    seed: str = "1"
    first: str = ""
    """Blank: everybody."""
    data: str = ""
    """Blank: the sample."""
    names: str = ""
    cache_mb: str = "512"
    requests: str = "10000"
    records: str = str(ycsb.RECORDS)
    operations: str = str(ycsb.OPERATIONS)
    value_bytes: str = str(ycsb.VALUE_BYTES)
    distribution: str = "own"
    method: str = ""
    """Blank: GET, or POST with a body."""
    urls: str = ""
    """Paths with weights, between commas; blank: the page that the store names."""
    body: str = ""
    """Blank: none."""
    follow: str = "no"


TEXTS: Final = ("data", "names", "urls", "body")
"""Fields that need the whole row."""


def first() -> Wishes:
    """What the form begins with where nothing is remembered: the settings file's and
    the environment's choices. UsageError or ConfigError names what is off there."""
    wished = Wishes()
    for name, each in config.effective().items():
        section, _, field_name = name.rpartition(".")
        ours = section != "ui" and hasattr(wished, field_name)
        if ours and each.value is not None:
            shown = each.value
            if isinstance(shown, bool):
                shown = "yes" if shown else "no"
            if isinstance(shown, float) and shown.is_integer():
                shown = int(shown)
            setattr(wished, field_name, str(shown))
    return wished


_LIMITS: Final = {
    "clients": (1, CLIENTS_LIMIT),
    "workers": (1, WORKERS_LIMIT),
    "repeat": (1, 1000),
    "seed": (0, 2**63 - 1),
    "cache_mb": (1, 1_000_000),
    "requests": (1, 10**12),
    "records": (1, ycsb.RECORDS_LIMIT),
    "operations": (1, ycsb.OPERATIONS_LIMIT),
    "value_bytes": (ycsb.HEADER_BYTES, ycsb.VALUE_LIMIT),
    "first": (1, 2**53),
}


def fault(wishes: Wishes, name: str) -> str:
    """What is wrong with a field; empty when nothing is."""
    value: str = getattr(wishes, name)
    if name in _LIMITS:
        return _number_fault(value, *_LIMITS[name], blank=name == "first")
    if name == "data" and not value:
        return _sample_fault()
    if name in ("data", "names", "body") and value:
        return _file_fault(value)
    if name in ("method", "urls") and value:
        return _request_fault(wishes, name)
    return ""


def _request_fault(wishes: Wishes, name: str) -> str:
    given: dict[str, Any] = {"method": wishes.method.upper()}
    if name == "method" and wishes.body:
        given["body"] = wishes.body
    if name == "urls":
        given = {"urls": _pages(wishes)}
    try:
        requesting.check(given)
    except UsageError as error:
        return error.message
    return ""


def _pages(wishes: Wishes) -> list[str]:
    # A path may hold a comma; one that begins another page stands before its slash.
    return [
        each.strip() for each in re.split(r",(?=\s*/)", wishes.urls) if each.strip()
    ]


def _number_fault(value: str, lowest: int, highest: int, *, blank: bool) -> str:
    if not value:
        return "" if blank else f"a number from {lowest}"
    if not value.isascii() or not value.isdigit():
        return "digits only"
    if len(value) > 19:
        return "too large"
    if lowest <= int(value) <= highest:
        return ""
    if int(value) < lowest:
        return f"at least {lowest}"
    return f"at most {highest:,}" if highest < 10**9 else "too large"


def _file_fault(value: str) -> str:
    try:
        path = Path(value).expanduser()
        if path.is_dir():
            return "that is a folder"
        if not path.exists():
            return "no such file"
        if not os.access(path, os.R_OK):
            return "it may not be read"
    except (OSError, ValueError, RuntimeError):
        return "not a file name"
    return ""


def _sample_fault() -> str:
    try:
        config.sample_profiles()
    except ConfigError:
        return "the sample is not installed: name a file"
    return ""


def shown_fields(wishes: Wishes) -> list[str]:
    """The fields that matter for what is chosen, in order."""
    if wishes.workload == "http":
        names = ["workload", "requests", "clients", "workers", "repeat"]
        names += ["method", "urls"]
        # Below the field that brings it, so that the cursor stays where it is.
        seed = ["seed"] if len(_pages(wishes)) > 1 else []
        return [*names, *seed, "body", "follow"]
    if wishes.workload in ycsb.PRESETS:
        how = ["clients", "workers", "repeat", "seed"]
        asked = ["records", "operations", "value_bytes", "distribution"]
        return ["workload", *asked, *how]
    names = ["workload", "mode", "clients", "workers", "repeat", "seed", "first"]
    names.append("data")
    if wishes.data:
        names.append("names")
    if wishes.mode == "cached":
        names.append("cache_mb")
    return names


def faults(wishes: Wishes) -> dict[str, str]:
    """Every field that has something wrong."""
    found = {name: fault(wishes, name) for name in shown_fields(wishes)}
    return {name: text for name, text in found.items() if text}


def store_words(wishes: Wishes, profiles: dict[str, StoreProfile]) -> list[str]:
    """The ticked stores as the command line names them, in the list's order."""
    words = []
    for name, profile in profiles.items():
        if name not in wishes.stores or unfit(wishes, profile):
            continue
        other = name in wishes.driver and can_choose_client(profile)
        words.append(f"{name}:client={client(wishes, profile)}" if other else name)
    return words


def unfit(wishes: Wishes, profile: StoreProfile) -> str:
    """Why the workload cannot be asked of a store; empty when it can."""
    serves_pages = registry.KINDS[profile.kind].read_only
    if wishes.workload == "http":
        return "" if serves_pages else "serves no pages"
    if serves_pages:
        return "only for the workload http"
    if wishes.workload == "ycsb-e" and not registry.KINDS[profile.kind].scans:
        return "has no scan of its own"
    return ""


def can_choose_client(profile: StoreProfile) -> bool:
    """Whether there are two ways to ask the store."""
    return len(registry.KINDS[profile.kind].clients) > 1


def client(wishes: Wishes, profile: StoreProfile) -> str:
    """How the store will be asked: the first of its ways, or the other one."""
    return registry.KINDS[profile.kind].clients[profile.name in wishes.driver]


def plan(wishes: Wishes, profiles: dict[str, StoreProfile]) -> RunPlan:
    """The plan; UsageError or ConfigError when there is none."""
    words = store_words(wishes, profiles)
    made = RunPlan(
        workload=WorkloadPlan(wishes.workload, _parameters(wishes)),
        stores=tuple(config.store_plan(word, profiles) for word in words),
        clients=int(wishes.clients),
        workers=int(wishes.workers),
        repeat=int(wishes.repeat),
        seed=int(wishes.seed),
    )
    made.check()
    return made


def _parameters(wishes: Wishes) -> dict[str, Any]:
    if wishes.workload == "http":
        given: dict[str, Any] = {"requests": int(wishes.requests)}
        if wishes.method:
            given["method"] = wishes.method.upper()
        if wishes.urls:
            given |= {"urls": _pages(wishes), "seed": int(wishes.seed)}
        if wishes.body:
            given["body"] = _absolute(wishes.body)
        if wishes.follow == "yes":
            given["follow"] = True
        return given
    if wishes.workload in ycsb.PRESETS:
        given = {
            name: int(getattr(wishes, name))
            for name in ("records", "operations", "value_bytes")
        }
        if wishes.distribution != "own":
            given["distribution"] = wishes.distribution
        return given
    parameters: dict[str, Any] = {"mode": wishes.mode, **_data(wishes)}
    if wishes.first:
        parameters["first"] = int(wishes.first)
    if wishes.mode == "cached":
        parameters["cache_mb"] = int(wishes.cache_mb)
    return parameters


def _data(wishes: Wishes) -> dict[str, str]:
    if not wishes.data:
        profiles, names = config.sample_profiles()
        return {"data": str(profiles), "names": str(names)}
    found = {"data": _absolute(wishes.data)}
    if wishes.names:
        found["names"] = _absolute(wishes.names)
    return found


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def sentence(wishes: Wishes, profiles: dict[str, StoreProfile]) -> str:
    """The plan in words, or what keeps it from being one."""
    wrong = faults(wishes)
    if wrong:
        name, text = next(iter(wrong.items()))
        return f"Not yet: {LABELS[name]} – {text}"
    stores = len(store_words(wishes, profiles))
    if not stores:
        return "Not yet: tick at least one store"
    clients, workers = int(wishes.clients), int(wishes.workers)
    parts = [
        f"{_number(stores, 'store')} × {_number(int(wishes.repeat), 'repeat')}",
        f"{_number(clients, 'client')} in {_number(workers, 'worker')}",
    ]
    if wishes.workload == "http":
        parts.append(_request_words(wishes))
        return ", ".join(parts)
    if wishes.workload in ycsb.PRESETS:
        parts.append(
            f"{count(int(wishes.records))} records of {count(int(wishes.value_bytes))}"
            f" bytes, then {count(int(wishes.operations))} operations:"
            f" {WORKLOADS[wishes.workload]}"
        )
        return ", ".join(parts)
    parts.append(f"mode {wishes.mode}: {MODES[wishes.mode]}")
    if wishes.first:
        parts.append(f"the first {count(int(wishes.first))} people")
    return ", ".join(parts)


def _request_words(wishes: Wishes) -> str:
    verb = requesting.check(_parameters(wishes)).verb
    said = f"{count(int(wishes.requests))} {f'{verb} ' * (verb != 'GET')}requests"
    pages = len(_pages(wishes))
    said += f" of {f'{pages:,} pages' if pages > 1 else 'one page'}"
    return f"{said}, redirects followed" if wishes.follow == "yes" else said


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def command(wishes: Wishes, profiles: dict[str, StoreProfile]) -> str:
    """The same run as a command line; empty while a field has a fault."""
    if faults(wishes):
        return ""
    words = ["kvtui", "run", wishes.workload]
    for store in store_words(wishes, profiles):
        words += ["--store", store]
    words += _words(wishes)
    default = Wishes()
    for name in ("clients", "workers", "repeat", "seed"):
        if getattr(wishes, name) != getattr(default, name):
            words += [f"--{name}", getattr(wishes, name)]
    return visible(shlex.join(words))


def _words(wishes: Wishes) -> list[str]:
    """The workload's own words of the command line."""
    if wishes.workload == "http":
        words = ["--requests", wishes.requests]
        if wishes.method:
            words += ["--method", wishes.method.upper()]
        for page in _pages(wishes):
            words += ["--url", page]
        if wishes.body:
            words += ["--body", _absolute(wishes.body)]
        return [*words, "--follow"] if wishes.follow == "yes" else words
    if wishes.workload in ycsb.PRESETS:
        return _ycsb_words(wishes)
    words = []
    if wishes.data:
        words += ["--data", _absolute(wishes.data)]
        if wishes.names:
            words += ["--names", _absolute(wishes.names)]
    if wishes.first:
        words += ["--first", wishes.first]
    if wishes.mode != "record":
        words += ["--set", f"mode={wishes.mode}"]
    if wishes.mode == "cached":
        words += ["--set", f"cache_mb={wishes.cache_mb}"]
    return words


def _ycsb_words(wishes: Wishes) -> list[str]:
    words, default = [], Wishes()
    for name in ("records", "operations", "value_bytes"):
        if getattr(wishes, name) != getattr(default, name):
            words += [f"--{name.replace('_', '-')}", getattr(wishes, name)]
    if wishes.distribution != "own":
        words += ["--distribution", wishes.distribution]
    return words


LABELS: Final = {
    "workload": "workload",
    "mode": "mode",
    "clients": "clients",
    "workers": "workers",
    "repeat": "repeat",
    "seed": "seed",
    "first": "first N",
    "data": "data file",
    "names": "names file",
    "cache_mb": "cache MB",
    "requests": "requests",
    "records": "records",
    "operations": "operations",
    "value_bytes": "bytes each",
    "distribution": "chosen",
    "method": "method",
    "urls": "pages",
    "body": "body file",
    "follow": "redirects",
}

HINTS: Final = {
    "workload": "",
    "mode": "",
    "clients": "callers at once, over all workers",
    "workers": "processes; an embedded store has one",
    "repeat": "times over every store",
    "seed": "the same seed asks the same",
    "first": "people to read; blank: all",
    "data": "profiles; blank: the sample",
    "names": "id and title a line; blank: none",
    "cache_mb": "room for records in RAM",
    "requests": "of all clients together",
    "records": "loaded before the clock runs",
    "operations": "of all clients together",
    "value_bytes": "of each record's one value",
    "distribution": "",
    "method": "such as HEAD; blank: GET, or POST with a body",
    "urls": "/a 3, /b: one of weight 3 and one of weight 1; blank: the store's page",
    "body": "sent with every request; blank: none",
    "follow": "",
}


def complaint(error: KvtuiError) -> str:
    """An error in one line, with its hint."""
    return f"{error.message} ({error.hint})" if error.hint else error.message
