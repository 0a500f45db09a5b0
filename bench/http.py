"""kvtui's wire loop beside wrk and ab: one nginx, a page of 3,985 bytes, 50 clients.

One worker's loop in this process; ``wrk -t1 -c50`` and ``ab -k -c50`` against the same
server in turn, then ``ab -c50`` and the loop with a connection for each request.

Targets: 0.8 of wrk's requests a second with connections kept open, 0.9 of ab's
without.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, program, table
from bench.loops import CLIENTS, rate, reachable
from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.jobs.http.workload import HttpWorkload
from kvtui.stores.http.store import HttpStore

KEPT_REQUESTS = 100_000
OWN_REQUESTS = 20_000
WRK_S = 2
_RATE = re.compile(r"Requests(?:/sec| per second):\s+([0-9.]+)")
_BAD = re.compile(r"Non-2xx.*|Failed requests:\s+[1-9].*|Socket errors:.*")


def with_wire(settings: dict[str, Any], requests: int) -> float:
    """Requests a second of the wire loop, each body compared."""
    store = HttpStore(settings)
    workload = HttpWorkload({"requests": requests}, Path())
    workload.load(range(CLIENTS), CLIENTS, keeps=True)
    recorder = Recorder(CLIENTS)
    connections = [store.wire() for _ in range(CLIENTS)]
    clients = [workload.client(index) for index in range(CLIENTS)]
    began = time.perf_counter()
    figures = wire.run(
        clients, connections, store.wire, recorder, Control(), 10.0, store.begin
    )
    if figures:
        raise SystemExit(f"not all replies were good: {figures}")
    return rate(recorder, requests, began)


def with_wrk(tool: str, url: str) -> float:
    """Requests a second that wrk reports."""
    return _reported([tool, "-t1", f"-c{CLIENTS}", f"-d{WRK_S}s", url])


def with_ab(tool: str, url: str, requests: int, *options: str) -> float:
    """Requests a second that ab reports."""
    words = [tool, "-q", f"-c{CLIENTS}", f"-n{requests}", *options, url]
    return _reported(words)


def _reported(words: list[str]) -> float:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    bad = _BAD.search(done.stdout)
    found = _RATE.search(done.stdout)
    if bad or not found:
        raise SystemExit(f"{words[0]}: {bad[0] if bad else done.stdout}")
    return float(found[1])


def comparisons() -> Iterator[Comparison]:
    """Connections kept open, and one for each request, on one server."""
    wrk = program("wrk", package="wrk")
    ab = program("ab", package="apache2-utils")
    nginx = {"transport": "tcp", "program": program("nginx", package="nginx-light")}
    with reachable("http", nginx, ()) as settings:
        url = f"http://{settings['host']}:{settings['port']}{settings['page']}"
        kept = partial(with_wire, settings, KEPT_REQUESTS)
        own = partial(with_wire, settings | {"keep_alive": False}, OWN_REQUESTS)
        keep_alive, each = "wire, keep-alive", "wire, a connection each"
        yield Comparison(
            "http", keep_alive, kept, "wrk -t1", partial(with_wrk, wrk, url), 0.8
        )
        ab_kept = partial(with_ab, ab, url, KEPT_REQUESTS, "-k")
        yield Comparison("http", keep_alive, kept, "ab -k", ab_kept, None)
        ab_own = partial(with_ab, ab, url, OWN_REQUESTS)
        yield Comparison("http", each, own, "ab", ab_own, 0.9)


def main() -> int:
    """Print the table; how many targets were missed."""
    return table([("http", comparisons)])


if __name__ == "__main__":
    sys.exit(main())
