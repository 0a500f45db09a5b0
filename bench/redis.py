"""kvtui's wire loop beside redis-benchmark: a unix socket, 50 clients, 100 bytes.

One worker's loop in this process against one private server; ``redis-benchmark -c
50 -d 100`` against the same server in turn; the driver mode for comparison. Gets and
sets apart.

Target: at least as many gets and sets a second as redis-benchmark.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, printed_by, program, table
from bench.loops import CLIENTS, calls_rate, gets, puts, reachable, wire_rate

OPERATIONS = 100_000
DRIVER_OPERATIONS = 10_000


def with_redis_benchmark(tool: str, path: str, test: str) -> float:
    """Requests a second that redis-benchmark reports."""
    words = [tool, "-s", path, "-c", str(CLIENTS), "-d", "100"]
    words += ["-n", str(OPERATIONS), "-t", test, "--csv"]
    return float(printed_by(words, rf'(?i)"{test}","([\d.]+)"')[0])


def comparisons() -> Iterator[Comparison]:
    """Gets and sets on one server."""
    tool = program("redis-benchmark", "valkey-benchmark", package="redis-tools")
    with reachable("redis", {"transport": "unix"}) as settings:
        for test, make in (("get", gets), ("set", puts)):
            ours = partial(wire_rate, "redis", settings, make, OPERATIONS)
            theirs = partial(with_redis_benchmark, tool, str(settings["path"]), test)
            yield Comparison(
                "redis-unix", f"wire, {test}", ours, "redis-benchmark", theirs, 1.0
            )
            driver = partial(calls_rate, "redis", settings, make, DRIVER_OPERATIONS)
            yield Comparison(
                "redis-unix", f"wire, {test}", ours, "its own driver mode", driver, None
            )


def main() -> int:
    """Print the table; how many targets were missed."""
    return table([("redis", comparisons)])


if __name__ == "__main__":
    sys.exit(main())
