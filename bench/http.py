"""kvtui's wire loop beside wrk and ab: nginx and Apache httpd, a page of 3,985 bytes,
24 clients as in the published measurement of 2011.

One worker's loop in this process, with all that a run measures; ``wrk -t1 -c24`` and
``ab -k -c24`` against the same server in turn with it, then ``ab -c24`` and the loop
with a connection for each request. Below each, the percentiles of both: those of ab
from its ``-e`` file, which knows no more than its median round.

Targets: 0.8 of wrk's requests a second with connections kept open, 0.9 of ab's
without.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, Missing, program, table
from bench.loops import reachable
from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.jobs.http.workload import HttpWorkload
from kvtui.runs.latency import Latency
from kvtui.stores.http.store import HttpStore

CLIENTS = 24
KEPT_REQUESTS = 100_000
OWN_REQUESTS = 20_000
WRK_S = 2
PERCENTS = (50, 90, 99)
SERVERS = (
    (("nginx",), "nginx-light"),
    (("apache2", "httpd"), "apache2-bin"),
)
_RATE = re.compile(r"Requests(?:/sec| per second):\s+([0-9.]+)")
_BAD = re.compile(r"Non-2xx.*|Failed requests:\s+[1-9].*|Socket errors:.*")
_WRKS = re.compile(r"^\s+(\d+)%\s+([0-9.]+)(us|ms|s)$", re.M)
_MS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


class Percentiles:
    """What each side's rounds gave, in ms."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[float, ...]]] = defaultdict(list)

    def add(self, side: str, ms: dict[int, float]) -> None:
        """One round."""
        self._found[side].append(tuple(ms[each] for each in PERCENTS))

    def line(self) -> str:
        """The medians of all rounds so far, which are then forgotten."""
        parts = []
        for side, rounds in self._found.items():
            middle = [median(each) for each in zip(*rounds, strict=True)]
            shown = " ".join(
                f"p{percent} {ms:.3f}"
                for percent, ms in zip(PERCENTS, middle, strict=True)
            )
            parts.append(f"{side} {shown}")
        self._found.clear()
        return "  in ms: " + "; ".join(parts)


def with_wire(
    settings: dict[str, Any], requests: int, seen: Percentiles | None = None
) -> float:
    """Requests a second of the wire loop, each body compared."""
    store = HttpStore(settings)
    workload = HttpWorkload({"requests": requests}, Path())
    workload.load(range(CLIENTS), CLIENTS, keeps=True)
    recorder = Recorder(CLIENTS, stages=workload.stages)
    connections = [store.wire() for _ in range(CLIENTS)]
    clients = [workload.client(index) for index in range(CLIENTS)]
    began = time.perf_counter()
    figures = wire.run(
        clients, connections, store.wire, recorder, Control(), 10.0, store.begin
    )
    if figures:
        raise SystemExit(f"not all replies were good: {figures}")
    length_s = time.perf_counter() - began
    latency = Latency()
    taken = recorder.take()
    for each in taken.operations.values():
        latency.add(each.latency)
    if latency.count != requests:
        raise SystemExit(f"{latency.count} of {requests} requests went well")
    if seen is not None:
        found = latency.percentiles(*PERCENTS)
        seen.add(
            "kvtui",
            {p: (ns or 0) / 1e6 for p, ns in zip(PERCENTS, found, strict=True)},
        )
    return requests / length_s


def with_wrk(tool: str, url: str, seen: Percentiles) -> float:
    """Requests a second that wrk reports."""
    words = [tool, "-t1", f"-c{CLIENTS}", f"-d{WRK_S}s", "--latency", url]
    told = _printed(words)
    times = {int(p): float(v) * _MS[unit] for p, v, unit in _WRKS.findall(told)}
    seen.add("wrk", times)
    return _reported(words, told)


def with_ab(
    tool: str, url: str, requests: int, seen: Percentiles, *options: str
) -> float:
    """Requests a second that ab reports."""
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        words = [tool, "-q", f"-c{CLIENTS}", f"-n{requests}", "-e", file.name]
        words += [*options, url]
        told = _printed(words)
        rows = [line.strip().split(",") for line in file.readlines()[1:]]
    seen.add("ab", {int(percent): float(ms) for percent, ms in rows})
    return _reported(words, told)


def _printed(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _reported(words: list[str], told: str) -> float:
    bad = _BAD.search(told)
    found = _RATE.search(told)
    if bad or not found:
        raise SystemExit(f"{words[0]}: {bad[0] if bad else told}")
    return float(found[1])


def comparisons() -> Iterator[Comparison]:
    """Connections kept open, and one for each request, on each server."""
    wrk = program("wrk", package="wrk")
    ab = program("ab", package="apache2-utils")
    for names, package in SERVERS:
        try:
            server = program(*names, package=package)
        except Missing as missing:
            print(f"http: not compared, {missing}")
            continue
        asked = {"transport": "tcp", "program": server}
        with reachable("http", asked, ()) as settings:
            yield from _beside(names[0], settings, wrk, ab)


def _beside(
    name: str, settings: dict[str, Any], wrk: str, ab: str
) -> Iterator[Comparison]:
    url = f"http://{settings['host']}:{settings['port']}{settings['page']}"
    seen = Percentiles()
    kept = partial(with_wire, settings, KEPT_REQUESTS, seen)
    single = settings | {"keep_alive": False}
    own = partial(with_wire, single, OWN_REQUESTS, seen)
    keep_alive, each = "wire, keep-alive", "wire, a connection each"
    wrk_kept = partial(with_wrk, wrk, url, seen)
    yield Comparison(name, keep_alive, kept, "wrk -t1", wrk_kept, 0.8)
    print(seen.line(), flush=True)
    ab_kept = partial(with_ab, ab, url, KEPT_REQUESTS, seen, "-k")
    yield Comparison(name, keep_alive, kept, "ab -k", ab_kept, None)
    print(seen.line(), flush=True)
    ab_own = partial(with_ab, ab, url, OWN_REQUESTS, seen)
    yield Comparison(name, each, own, "ab", ab_own, 0.9)
    print(seen.line(), flush=True)


def main() -> int:
    """Print the table; how many targets were missed."""
    return table([("http", comparisons)])


if __name__ == "__main__":
    sys.exit(main())
