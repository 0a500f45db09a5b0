"""kvtui's wire loop beside libmemcached's load generator: TCP, 50 clients, 100 bytes.

``memaslap -T 1 -c 50`` has one thread, as a worker's loop has. Before it gets, it must
set what it will get, a thousand keys a client, and counts both in its figure: about a
fifth of its operations are then sets.

Target: 0.8 of its operations a second. A bare loop of epoll, recv and send in Python,
which measures nothing, does about 0.9.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, printed_by, program, table
from bench.loops import CLIENTS, calls_rate, gets, puts, reachable, wire_rate

OPERATIONS = 100_000
TOOL_OPERATIONS = 200_000
DRIVER_OPERATIONS = 10_000
MIX = "key\n32 32 1\nvalue\n100 100 1\ncmd\n0 {sets}\n1 {gets}\n"
"""Keys of 32 bytes, values of 100, and the share of each command."""


def with_memaslap(tool: str, address: str, mix: Path) -> float:
    """Operations a second that memaslap reports."""
    words = [tool, f"--servers={address}", "--threads=1", f"--cfg_cmd={mix}"]
    words += [f"--concurrency={CLIENTS}", f"--execute_number={TOOL_OPERATIONS}"]
    return float(printed_by([*words, "--win_size=1k"], r"TPS: (\d+)")[0])


def comparisons() -> Iterator[Comparison]:
    """Gets and sets on one server."""
    tool = program("memaslap", "memcaslap", package="libmemcached-tools")
    asked = {"transport": "tcp", "memory": "512MB"}
    with (
        reachable("memcached", asked) as settings,
        tempfile.TemporaryDirectory(prefix="kvtui-bench-") as folder,
    ):
        address = f"{settings['host']}:{settings['port']}"
        for test, make in (("get", gets), ("set", puts)):
            mix = Path(folder) / test
            mix.write_text(MIX.format(sets=int(test == "set"), gets=int(test == "get")))
            ours = partial(wire_rate, "memcached", settings, make, OPERATIONS)
            theirs = partial(with_memaslap, tool, address, mix)
            yield Comparison(
                "memcached-tcp", f"wire, {test}", ours, "memaslap", theirs, 0.8
            )
            driver = partial(calls_rate, "memcached", settings, make, DRIVER_OPERATIONS)
            yield Comparison(
                *("memcached-tcp", f"wire, {test}", ours),
                *("its own driver mode", driver, None),
            )


def main() -> int:
    """Print the table; how many targets were missed."""
    return table([("memcached", comparisons)])


if __name__ == "__main__":
    sys.exit(main())
