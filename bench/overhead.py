"""What kvtui itself costs an operation: one client on the null store.

First a get and a put of 100 bytes in turn, every operation waiting for its reply,
through the whole machinery of a worker: generator, dispatch, clock, recording,
accounting, stop check and one report a second. Beside it, in the same process and in
turn, a bare loop of two clock readings, one call and one append.

Then YCSB's workloads c and a with values of 100 bytes, of 10,000 records: records
chosen, values made, the ledger of what was acknowledged kept, everything recorded and
reported. (Null gives no value back that could be compared; the last table has what that
costs, and the RAM store's figure with all of it.)

Targets: under 0.7 µs an operation, and at least 0.4 of the bare loop; for YCSB at least
0.38 of it.
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
from kvtui.jobs.registry import workload_class
from kvtui.jobs.workload import Findings, Keep, Keeper, Prepared, Workload
from kvtui.jobs.ycsb.stream import Stream
from kvtui.jobs.ycsb.verification import Tally
from kvtui.jobs.ycsb.workload import YcsbWorkload
from kvtui.stores.null import NullStore
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.ram import RamStore
from kvtui.stores.store import Store

OPERATIONS = 2_000_000
ROUNDS = 7
LIMIT_NS = 700
LEAST_RATIO = 0.4
LEAST_YCSB = 0.38
YCSB = {"records": 10_000, "operations": OPERATIONS, "value_bytes": 100}
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

    def __init__(self, store: Store) -> None:
        self.store = store

    def run(
        self, clients: list[Client], recorder: Recorder, control: Control
    ) -> dict[str, int]:
        """The calls loop on this store."""
        return calls.run(clients, [self.store], recorder, control)


def kvtui() -> float:
    """Nanoseconds an operation through a worker's measure phase."""
    return through_a_worker(GetPut(), NullStore({}))


def ycsb(name: str, store: Store, *, keeps: bool) -> float:
    """The same of a YCSB workload, loaded before."""
    return through_a_worker(opened(name, store, keeps=keeps), store)


def opened(name: str, store: Store, *, keeps: bool) -> YcsbWorkload:
    """A YCSB workload with its records in the store."""
    kind: Any = workload_class(name)
    workload: YcsbWorkload = kind(kind.settled(YCSB, seed=1, clients=1), Path())
    workload.load([0], 1, keeps=keeps)
    if keeps:
        calls.run(workload.fillers(), [store], Recorder(1), Control())
    return workload


def through_a_worker(workload: Workload, store: Store) -> float:
    """Nanoseconds an operation."""
    plan = WorkerPlan(0, "null", {}, "calls", (0,), 1, workload.name, {}, "", 10.0)
    reports: list[Message] = []
    began = time.perf_counter_ns()
    measured = worker._measure(
        plan,
        workload,
        _Target(store),  # type: ignore[arg-type]
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


def parts(name: str) -> dict[str, float]:
    """Nanoseconds an operation of each part, by itself."""
    workload = opened(name, NullStore({}), keeps=False)
    batches, ledger = workload._batches, workload._ledger
    asked = workload.parameters
    found: dict[str, float] = {}
    began = time.perf_counter_ns()

    def took(part: str) -> None:
        nonlocal began
        now = time.perf_counter_ns()
        found[part] = (now - began) / OPERATIONS
        began = time.perf_counter_ns()

    drawn = list(Stream(name, asked, 0))
    took("draw")
    for draws in drawn:
        for _ in batches.rows(draws, 0):
            pass
    took("make")
    rows = [next(batches.rows(draws, 0)) for draws in drawn]
    several = OPERATIONS // sum(len(each.keys) for each in rows) + 1
    began = time.perf_counter_ns()
    if any(each.writes for each in rows):
        for _ in range(several):
            for each in rows:
                ledger.settle(each.records, each.versions, each.numbers, None)
        took("settle")
    values = batches.first_values(rows[0].records)
    times = OPERATIONS // len(values)
    fresh = opened(name, NullStore({}), keeps=True)
    began = time.perf_counter_ns()
    for _ in range(times):
        fresh._checker.check(rows[0].records, values, Tally())
    took("compare")
    return found


def print_ycsb(rows: list[tuple[float, ...]]) -> int:
    """Its table; how many targets were missed."""
    missed = 0
    for column, name in ((2, "ycsb-c"), (3, "ycsb-a")):
        ours = statistics.median(row[column] for row in rows)
        share = statistics.median(row[1] / row[column] for row in rows)
        print(
            f"{name}  {ours:.0f} ns an operation, {1000 / ours:.1f} million a second;"
            f" {share:.2f} of the bare loop (target >= {LEAST_YCSB}:"
            f" {verdict(share >= LEAST_YCSB)})"
        )
        missed += share < LEAST_YCSB
    for name in ("ycsb-c", "ycsb-a"):
        told = ", ".join(f"{part} {ns:.0f}" for part, ns in parts(name).items())
        whole = ycsb(name, RamStore({}), keeps=True)
        print(
            f"{name}  ns of each part, of operations that need it: {told};"
            f" on the RAM store, all values compared: {whole:.0f}"
        )
    return missed


def main() -> int:
    """Print the tables; how many targets were missed."""
    sides = (
        kvtui,
        bare,
        lambda: ycsb("ycsb-c", NullStore({}), keeps=False),
        lambda: ycsb("ycsb-a", NullStore({}), keeps=False),
    )
    rows = alternate(sides, ROUNDS)
    print("round   kvtui ns/op   bare ns/op   bare / kvtui   ycsb-c ns   ycsb-a ns")
    for number, (ours, theirs, c, a) in enumerate(rows, 1):
        print(
            f"{number:5}   {ours:11.0f}   {theirs:10.0f}   {theirs / ours:12.2f}"
            f"   {c:9.0f}   {a:9.0f}"
        )
    ours = statistics.median(row[0] for row in rows)
    share = statistics.median(row[1] / row[0] for row in rows)
    print(
        f"median  {ours:.0f} ns an operation (target < {LIMIT_NS}:"
        f" {verdict(ours < LIMIT_NS)}); {share:.2f} of the bare loop"
        f" (target >= {LEAST_RATIO}: {verdict(share >= LEAST_RATIO)})"
    )
    return (ours >= LIMIT_NS) + (share < LEAST_RATIO) + print_ycsb(rows)


if __name__ == "__main__":
    sys.exit(main())
