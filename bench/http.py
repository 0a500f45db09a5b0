"""kvtui's wire loop beside wrk and ab: one nginx, a page of 3,985 bytes, 50 clients.

One worker's loop in this process; ``wrk -t1 -c50`` and ``ab -k -c50`` against the same
server in turn, then ``ab -c50`` and the loop with a connection for each request.
Medians of five.

Targets: 0.8 of wrk's requests a second with connections kept open, 0.9 of ab's
without.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, ratio, verdict
from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.jobs.http.workload import HttpWorkload
from kvtui.stores.http import HttpStore
from kvtui.stores.servers.http import PageServer

CLIENTS = 50
ROUNDS = 5
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
    length_s = time.perf_counter() - began
    taken = recorder.take()
    good = sum(each.ok for each in taken.operations.values())
    if good != requests or figures:
        raise SystemExit(f"{good} of {requests} replies were good: {figures}")
    return requests / length_s


def with_wrk(url: str) -> float:
    """Requests a second that wrk reports."""
    return _reported(["wrk", "-t1", f"-c{CLIENTS}", f"-d{WRK_S}s", url])


def with_ab(url: str, requests: int, *options: str) -> float:
    """Requests a second that ab reports."""
    words = ["ab", "-q", f"-c{CLIENTS}", f"-n{requests}", *options, url]
    return _reported(words)


def _reported(words: list[str]) -> float:
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    bad = _BAD.search(done.stdout)
    found = _RATE.search(done.stdout)
    if bad or not found:
        raise SystemExit(f"{words[0]}: {bad[0] if bad else done.stdout}")
    return float(found[1])


@contextlib.contextmanager
def server() -> Iterator[dict[str, Any]]:
    """A private nginx, and how to reach it."""
    directory = tempfile.mkdtemp(prefix="kvtui-bench-")
    started = PageServer(Path(directory), {"transport": "tcp", "program": "nginx"})
    try:
        yield started.start()
    finally:
        started.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _told(name: str, rows: list[tuple[float, ...]], others: tuple[str, ...]) -> None:
    ours, *theirs = medians(rows)
    beside = ", ".join(
        f"{other} {rate:,.0f}/s (median of ratios {ratio(rows, 0, number):.2f})"
        for number, (other, rate) in enumerate(zip(others, theirs, strict=True), 1)
    )
    print(f"{name}: wire {ours:,.0f}/s, {beside}")
    rounds = (" : ".join(f"{rate / 1000:.1f}k" for rate in row) for row in rows)
    print(f"     rounds: {', '.join(rounds)}")


def main() -> int:
    """Print the table; how many targets were missed."""
    for program, package in (("wrk", "wrk"), ("ab", "apache2-utils")):
        if shutil.which(program) is None:
            print(f"{program} is missing: apt install {package}")
            return 1
    with server() as settings:
        url = f"http://{settings['host']}:{settings['port']}{settings['page']}"
        kept = alternate(
            (
                partial(with_wire, settings, KEPT_REQUESTS),
                partial(with_wrk, url),
                partial(with_ab, url, KEPT_REQUESTS, "-k"),
            ),
            ROUNDS,
        )
        _told("keep-alive", kept, ("wrk -t1", "ab -k"))
        own = alternate(
            (
                partial(with_wire, settings | {"keep_alive": False}, OWN_REQUESTS),
                partial(with_ab, url, OWN_REQUESTS),
            ),
            ROUNDS,
        )
        _told("a connection for each", own, ("ab",))
    enough = ratio(kept, 0, 1) >= 0.8, ratio(own, 0, 1) >= 0.9
    print(f"0.8 of wrk: {verdict(enough[0])}; 0.9 of ab: {verdict(enough[1])}")
    return enough.count(False)


if __name__ == "__main__":
    sys.exit(main())
