"""kvtui's wire loop beside redis-benchmark: a unix socket, 50 clients, 100 bytes.

One worker's loop in this process against one private server; ``redis-benchmark -c
50 -d 100`` against the same server in turn; the driver mode for comparison. Gets and
sets apart, medians of five.

Target: at least as many gets and sets a second as redis-benchmark.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, ratio, verdict
from kvtui.engine import calls, wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers.redis import RedisServer

CLIENTS = 50
ROUNDS = 5
WIRE_OPERATIONS = 200_000
DRIVER_OPERATIONS = 20_000
VALUE = b"x" * 100
KEY = key("bench", b"value")


def gets(number: int) -> Client:
    """That many gets of one key, as redis-benchmark does."""
    for _ in range(number):
        yield Get(KEY)
    return None


def puts(number: int) -> Client:
    """That many puts under one key."""
    for _ in range(number):
        yield Put(KEY, VALUE)
    return None


def with_wire(store: RedisStore, client: Callable[[int], Client]) -> float:
    """Operations a second of the wire loop."""
    recorder = Recorder(CLIENTS)
    connections = [store.wire() for _ in range(CLIENTS)]
    clients = [client(WIRE_OPERATIONS // CLIENTS) for _ in range(CLIENTS)]
    began = time.perf_counter()
    wire.run(clients, connections, store.wire, recorder, Control(), 10.0)
    return _rate(recorder, WIRE_OPERATIONS, began)


def with_driver(store: RedisStore, client: Callable[[int], Client]) -> float:
    """Operations a second of 50 threads through redis-py."""
    recorder = Recorder(CLIENTS)
    with contextlib.ExitStack() as opened:
        stores = []
        for _ in range(CLIENTS):
            one = RedisStore(store.settings)
            one.open()
            opened.callback(one.close)
            stores.append(one)
        clients = [client(DRIVER_OPERATIONS // CLIENTS) for _ in range(CLIENTS)]
        began = time.perf_counter()
        calls.run(clients, stores, recorder, Control())
        return _rate(recorder, DRIVER_OPERATIONS, began)


def _rate(recorder: Recorder, wanted: int, began: float) -> float:
    length_s = time.perf_counter() - began
    recorder.take()
    if recorder.finished != wanted:
        raise SystemExit(f"{recorder.finished} of {wanted} operations were counted")
    return wanted / length_s


def with_redis_benchmark(path: str, test: str) -> float:
    """Requests a second that redis-benchmark reports."""
    words = ["redis-benchmark", "-s", path, "-c", str(CLIENTS), "-d", "100"]
    words += ["-n", str(WIRE_OPERATIONS), "-t", test, "--csv"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        cells = [cell.strip('"') for cell in line.split(",")]
        if cells[0].lower() == test:
            return float(cells[1])
    raise SystemExit(f"redis-benchmark printed no {test}: {done.stdout}")


@contextlib.contextmanager
def server() -> Iterator[RedisStore]:
    """A private server and a store that reaches it."""
    directory = tempfile.mkdtemp(prefix="kvtui-bench-")
    started = RedisServer(Path(directory), {"transport": "unix"})
    try:
        store = RedisStore(started.start())
        store.open()
        store.put(KEY, VALUE)
        yield store
        store.close()
    finally:
        started.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main() -> int:
    """Print the table; how many targets were missed."""
    if shutil.which("redis-benchmark") is None:
        print("redis-benchmark is missing: apt install redis-tools")
        return 1
    missed = 0
    with server() as store:
        path = str(store.settings["path"])
        for test, client in (("get", gets), ("set", puts)):
            rows = alternate(
                (
                    partial(with_wire, store, client),
                    partial(with_redis_benchmark, path, test),
                ),
                ROUNDS,
            )
            driver = statistics.median(with_driver(store, client) for _ in range(3))
            ours, theirs = medians(rows)
            share = ratio(rows, 0, 1)
            holds = ours >= theirs
            missed += not holds
            print(
                f"{test}: wire {ours:,.0f}/s, redis-benchmark {theirs:,.0f}/s,"
                f" driver {driver:,.0f}/s; wire / redis-benchmark"
                f" {ours / theirs:.2f} (median of rounds {share:.2f}):"
                f" {verdict(holds)}"
            )
            print(
                "     rounds: "
                + ", ".join(f"{a / 1000:.0f}k : {b / 1000:.0f}k" for a, b in rows)
            )
    return missed


if __name__ == "__main__":
    sys.exit(main())
