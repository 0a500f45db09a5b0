"""Every workload: a static table that imports none of them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from kvtui.errors import UsageError

if TYPE_CHECKING:
    from kvtui.jobs.workload import Workload


class WorkloadEntry(Struct, frozen=True):
    """A workload in words, and where it is."""

    location: str
    """``module:class``."""
    sentence: str


WORKLOADS: Final[Mapping[str, WorkloadEntry]] = {
    "fans": WorkloadEntry(
        "kvtui.jobs.fans.workload:FansWorkload",
        "for every fan of a page, read, change and write back the page's record",
    ),
    "http": WorkloadEntry(
        "kvtui.jobs.http.workload:HttpWorkload",
        "get a page from an HTTP server, so many times",
    ),
    "ycsb-a": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbA",
        "half reads and half updates of loaded records, some of them hot",
    ),
    "ycsb-b": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbB",
        "19 reads for each update, some records hot",
    ),
    "ycsb-c": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbC", "only reads, some records hot"
    ),
    "ycsb-d": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbD",
        "19 reads for each insert, mostly of what was inserted last",
    ),
    "ycsb-e": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbE",
        "19 short scans for each insert; asked of stores that can scan",
    ),
    "ycsb-f": WorkloadEntry(
        "kvtui.jobs.ycsb.workload:YcsbF",
        "half reads, half reads whose record is changed and written back",
    ),
}


def workload_class(name: str) -> type[Workload]:
    """The class of a workload; UsageError when there is none of that name."""
    entry = WORKLOADS.get(name)
    if entry is None:
        raise UsageError(
            f"there is no workload {name!r}", hint=f"there is: {', '.join(WORKLOADS)}"
        )
    module_name, _, class_name = entry.location.partition(":")
    found: type[Workload] = getattr(importlib.import_module(module_name), class_name)
    return found


def open_workload(name: str, parameters: dict[str, Any], directory: Path) -> Workload:
    """A prepared workload, for a worker or for the runner's keeper."""
    kind: Any = workload_class(name)
    opened: Workload = kind(parameters, directory)
    return opened
