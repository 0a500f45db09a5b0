"""What kvtui itself costs an operation: one client on the null store.

Get and put of 100 bytes, every operation waiting for its reply, through the whole
machinery of a worker: generator, dispatch, clock, recording, accounting, stop check
and one report a second. Beside it, in the same process and in turn, a bare loop of
two clock readings, one call and one append.

Targets: under 0.7 µs an operation, and at least 0.4 of the bare loop.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, verdict
from kvtui.engine import calls, worker
from kvtui.engine.control import Control
from kvtui.engine.messages import Go, MeasuredPart, Message, WorkerPlan
from kvtui.engine.recorder import Recorder
from kvtui.jobs.workload import Findings, Keep, Keeper, Prepared, Workload
from kvtui.stores.null import NullStore
from kvtui.stores.operations import Client, Get, Put, key

OPERATIONS = 2_000_000
ROUNDS = 7
LIMIT_NS = 700
LEAST_RATIO = 0.4
VALUE = b"x" * 100
KEYS = tuple(key("bench", b"%d" % number) for number in range(1000))


class GetPut(Workload):
    """A get and a put of 100 bytes in turn."""

    name: ClassVar[str] = "getput"
    namespace: ClassVar[str] = "bench"
    findings = Findings()
    needs: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def check(cls, parameters: dict[str, Any]) -> None:
        """Nothing to check."""

    @classmethod
    def prepare(
        cls,
        parameters: dict[str, Any],
        directory: Path,
        progress: Callable[[int], None],
    ) -> Prepared:
        """Nothing to prepare."""
        return Prepared({})

    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Nothing to load."""

    def client(self, index: int) -> Client:
        """One get and one put of each key in turn."""
        for number in range(OPERATIONS // 2):
            at = KEYS[number % 1000]
            yield Get(at)
            yield Put(at, VALUE)
        return None

    def progress(self) -> tuple[int, int]:
        """Not told."""
        return 0, 0

    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """Nothing is kept."""
        return iter(())

    def keeper(self, path: Path, facts: dict[str, str]) -> Keeper:
        """Nothing is kept."""
        raise NotImplementedError


class _Target:
    """What a worker measures against, without its process."""

    def run(
        self, clients: list[Client], recorder: Recorder, control: Control
    ) -> dict[str, int]:
        """The calls loop on the null store."""
        return calls.run(clients, [NullStore({})], recorder, control)


def kvtui() -> float:
    """Nanoseconds an operation through a worker's measure phase."""
    plan = WorkerPlan(0, "null", {}, "calls", (0,), 1, "getput", {}, "", 10.0)
    reports: list[Message] = []
    began = time.perf_counter_ns()
    measured = worker._measure(
        plan,
        GetPut(),
        _Target(),  # type: ignore[arg-type]
        Control(),
        reports.append,
        Go(began),
    )
    spent = time.perf_counter_ns() - began
    if not isinstance(measured, MeasuredPart) or measured.finished != OPERATIONS:
        raise SystemExit(f"not all operations were counted: {measured}")
    return spent / OPERATIONS


def bare() -> float:
    """Nanoseconds an operation of a loop of clock, call, clock, append."""
    store, clock = NullStore({}), time.perf_counter_ns
    get, put = store.get, store.put
    latencies: list[int] = []
    append = latencies.append
    gc.collect()
    began = clock()
    for number in range(OPERATIONS // 2):
        at = KEYS[number % 1000]
        start = clock()
        get(at)
        append(clock() - start)
        start = clock()
        put(at, VALUE)
        append(clock() - start)
    return (clock() - began) / OPERATIONS


def main() -> int:
    """Print the table; how many targets were missed."""
    rows = alternate((kvtui, bare), ROUNDS)
    print("round   kvtui ns/op   bare ns/op   bare / kvtui")
    for number, (ours, theirs) in enumerate(rows, 1):
        print(f"{number:5}   {ours:11.0f}   {theirs:10.0f}   {theirs / ours:12.2f}")
    ours = statistics.median(row[0] for row in rows)
    share = statistics.median(row[1] / row[0] for row in rows)
    print(
        f"median  {ours:.0f} ns an operation (target < {LIMIT_NS}:"
        f" {verdict(ours < LIMIT_NS)}); {share:.2f} of the bare loop"
        f" (target >= {LEAST_RATIO}: {verdict(share >= LEAST_RATIO)})"
    )
    return (ours >= LIMIT_NS) + (share < LEAST_RATIO)


if __name__ == "__main__":
    sys.exit(main())
