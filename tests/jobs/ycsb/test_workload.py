"""Clients, what they count, and what they find wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvtui.engine.bursts import one_by_one
from kvtui.engine.control import Control
from kvtui.errors import OperationFailed
from kvtui.jobs.ycsb import stream
from kvtui.jobs.ycsb.parameters import DISTRIBUTIONS, PRESETS
from kvtui.jobs.ycsb.workload import SKIPPED, YcsbWorkload
from kvtui.stores.null import NullStore
from kvtui.stores.operations import Get, Operation, Put
from kvtui.stores.ram import RamStore
from tests.jobs.ycsb.asking import (
    Lying,
    loaded,
    measured,
    opened,
    operations,
    run,
    swept,
)

Lie = Callable[[Lying, YcsbWorkload], None]


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("workload", PRESETS)
def test_all_is_loaded_asked_and_found_again(workload: str, clients: int) -> None:
    store = RamStore({})
    made = opened(
        workload, range(clients), clients=clients, records=301, operations=1003,
        value_bytes=64,
    )  # fmt: skip
    assert made.progress() == (0, 1003)
    assert loaded(made, store).ok == 301 == store.count("ycsb")
    assert made.progress() == (301, 301)
    sums, figures = measured(made, store)
    assert made.progress() == (1003, 1003)
    assert sums.failures == sums.miss == sums.unfinished == 0
    more = sums.attempted - 1003
    assert (more > 400) == (workload == "ycsb-f")  # A read-modify-write is two.
    assert set(figures) == {"values compared"}
    found = swept(made, store)
    assert found.checked == found.expected == store.count("ycsb") >= 301
    assert (found.wrong, found.first_wrong, found.kinds) == (0, "", {})
    assert found.stored_bytes == 64 * found.checked


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_distribution_and_order_is_verified(distribution: str) -> None:
    store = RamStore({})
    made = opened(
        "ycsb-a", range(2), clients=2, records=100, operations=2000,
        distribution=distribution, insert_order="ordered", zero_padding=8,
        compress_ratio=0.5, read=0.4, update=0.3, insert=0.1, rmw=0.1, scan=0.1,
        scan_longest=5,
    )  # fmt: skip
    loaded(made, store)
    sums, figures = measured(made, store)
    assert sums.ok == sums.attempted
    assert set(figures) == {"values compared"}
    assert swept(made, store).wrong == 0


def test_a_store_that_keeps_nothing_is_not_blamed() -> None:
    made = opened("ycsb-f", keeps=False, records=100, operations=1000)
    loaded(made, NullStore({}))
    sums, figures = measured(made, NullStore({}))
    assert sums.miss == 1000
    assert figures == {}


@pytest.mark.parametrize("workload", PRESETS)
def test_the_operations_are_the_same_in_any_number_of_workers(workload: str) -> None:
    given: dict[str, Any] = {"clients": 4, "records": 90, "operations": 700}
    together = opened(workload, range(4), **given)
    apart = [opened(workload, [index], **given) for index in range(4)]
    store, other = RamStore({}), RamStore({})
    loaded(together, store)
    for each in apart:
        loaded(each, other)
    assert store._values == other._values
    for index in range(4):
        asked = operations(together.client(index), store)
        assert asked == operations(apart[index].client(index), other)
        assert asked == operations(apart[index].client(index), NullStore({}))
        assert len(asked) >= 175


def test_more_clients_than_operations() -> None:
    made = opened("ycsb-a", range(50), clients=50, records=3, operations=1)
    store = RamStore({})
    loaded(made, store)
    assert measured(made, store)[0].attempted == 1
    assert swept(made, store).checked == 3


def flipped(value: bytes | None) -> bytes:
    assert value is not None
    return value[:-1] + bytes([value[-1] ^ 1])


def other_records(store: Lying, made: YcsbWorkload) -> None:
    values = list(store.values.values())
    store.lie(get=lambda key: values[0])


def a_bit_off(store: Lying, made: YcsbWorkload) -> None:
    store.lie(get=lambda key: flipped(store.honest_get(key)))


def cut_short(store: Lying, made: YcsbWorkload) -> None:
    store.lie(get=lambda key: (store.honest_get(key) or b"")[:-1])


def never_written(store: Lying, made: YcsbWorkload) -> None:
    """Values that would be right for an operation that nobody has begun."""
    stranger = opened("ycsb-a", **made_of(made))
    elsewhere = Lying()
    loaded(stranger, elsewhere)
    batches = stranger._batches
    records = np.arange(stranger.parameters.records)
    values = batches.values.make(
        records.astype(np.uint64), np.full(len(records), 10**6, np.uint64)
    )
    for key, value in zip(batches.names(records), values, strict=True):
        elsewhere.put(key, value)
    store.lie(get=elsewhere.get)


def made_of(made: YcsbWorkload) -> dict[str, Any]:
    given = made.parameters
    return {"records": given.records, "operations": given.operations}


def forgetting(store: Lying, made: YcsbWorkload) -> None:
    store.lie(get=lambda key: None)


def as_loaded(store: Lying, made: YcsbWorkload) -> None:
    """Reads that see no change."""
    old = dict(store.values)
    store.lie(get=old.get)


LIES: list[tuple[Lie, str]] = [
    (other_records, "wrong"),
    (a_bit_off, "wrong"),
    (cut_short, "wrong"),
    (never_written, "wrong"),
    (forgetting, "lost"),
]


@pytest.mark.parametrize(("lie", "kind"), LIES)
@pytest.mark.parametrize("workload", ["ycsb-a", "ycsb-c"])
def test_lies_while_measuring_are_found_by_who_reads(
    workload: str, lie: Lie, kind: str
) -> None:
    store = Lying()
    made = opened(workload, records=50, operations=400)
    loaded(made, store)
    lie(store, made)
    _, figures = measured(made, store)
    store.lie()
    drawn = stream.summary(workload, made.parameters, lambda _: None)
    reads = drawn.counts["reads"]
    told = figures[f"{kind} values read"]
    assert 0.9 * reads < told <= reads == figures["values compared"]
    assert set(figures) == {f"{kind} values read", "values compared"}
    found = swept(made, store)
    assert found.wrong == told
    assert found.kinds == {f"{kind} when read": told}
    assert found.first_wrong.startswith("user")
    assert found.first_wrong.endswith(" when read")


@pytest.mark.parametrize(("lie", "kind"), LIES)
def test_lies_afterwards_are_found_by_the_sweep(lie: Lie, kind: str) -> None:
    store = Lying()
    made = opened("ycsb-a", records=50, operations=400)
    loaded(made, store)
    assert set(measured(made, store)[1]) == {"values compared"}
    lie(store, made)
    found = swept(made, store)
    assert found.checked == found.expected == 50
    assert set(found.kinds) == {kind}
    assert 49 <= found.kinds[kind] == found.wrong <= 50


def test_stale_values_are_found_by_who_reads_and_by_the_sweep() -> None:
    store = Lying()
    made = opened("ycsb-a", records=50, operations=400)
    loaded(made, store)
    as_loaded(store, made)
    changed: set[bytes] = set()
    stale = 0
    for operation in operations(made.client(0), store):
        if isinstance(operation, Put):
            changed.add(operation.key)
        else:
            stale += operation.key in changed
    assert made.findings.kinds == {"stale when read": stale}
    assert stale > 50
    found = swept(made, store)
    assert found.kinds == {"stale": len(changed), "stale when read": stale}
    assert "was acknowledged" in found.first_wrong


def test_a_change_that_was_dropped_is_stale_and_one_before_the_last_too() -> None:
    store = Lying()
    made = opened("ycsb-a", records=1, operations=50)
    loaded(made, store)
    history: list[bytes] = []

    def put(key: bytes, value: bytes) -> None:
        history.append(value)
        store.honest_put(key, value)

    store.lie(put=put)
    measured(made, store)
    (key,) = store.values
    for back, value in enumerate(reversed(history)):
        store.values[key] = value
        assert swept(again(made), store).kinds == ({"stale": 1} if back else {})


def again(made: YcsbWorkload) -> YcsbWorkload:
    """The same, ready to sweep once more."""
    made._sweep.clear()
    return made


def test_an_insert_that_was_dropped_is_lost() -> None:
    store = Lying()
    made = opened("ycsb-d", records=100, operations=1000)
    loaded(made, store)
    store.lie(put=lambda key, value: None)
    _, figures = measured(made, store)
    assert figures["lost values read"] > 100
    found = swept(made, store)
    assert found.kinds["lost"] == found.expected - 100 > 20


def scan_lie(name: str) -> Callable[[Lying], Callable[[bytes, int], Any]]:
    def with_hole(store: Lying) -> Callable[[bytes, int], Any]:
        def scan(key: bytes, count: int) -> Any:
            found = RamStore.scan(store, key, count + 1)
            return found[:1] + found[2:] if len(found) > 2 else found[:count]

        return scan

    def turned(store: Lying) -> Callable[[bytes, int], Any]:
        return lambda key, count: RamStore.scan(store, key, count)[::-1]

    def too_many(store: Lying) -> Callable[[bytes, int], Any]:
        return lambda key, count: RamStore.scan(store, key, count + 1)

    def mixed_up(store: Lying) -> Callable[[bytes, int], Any]:
        def scan(key: bytes, count: int) -> Any:
            found = RamStore.scan(store, key, count)
            return [(found[i][0], found[i - 1][1]) for i in range(len(found))]

        return scan

    def damaged(store: Lying) -> Callable[[bytes, int], Any]:
        def scan(key: bytes, count: int) -> Any:
            return [(k, flipped(v)) for k, v in RamStore.scan(store, key, count)]

        return scan

    def short(store: Lying) -> Callable[[bytes, int], Any]:
        return lambda key, count: RamStore.scan(store, key, count)[: count - 1]

    def empty(store: Lying) -> Callable[[bytes, int], Any]:
        return lambda key, count: []

    lies: dict[str, Any] = dict(locals())
    made: Callable[[Lying], Callable[[bytes, int], Any]] = lies[name]
    return made


@pytest.mark.parametrize(
    ("lie", "kind"),
    [
        ("with_hole", "lost"),
        ("short", "lost"),
        ("empty", "lost"),
        ("turned", "wrong"),
        ("too_many", "wrong"),
        ("mixed_up", "wrong"),
        ("damaged", "wrong"),
    ],
)
def test_scans_that_lie_are_found(lie: str, kind: str) -> None:
    store = Lying()
    made = opened("ycsb-e", records=60, operations=200, scan_shortest=3)
    loaded(made, store)
    store.__dict__["scan"] = scan_lie(lie)(store)
    _, figures = measured(made, store)
    assert figures[f"{kind} values read"] > 50
    del store.__dict__["scan"]
    assert made.findings.kinds[f"{kind} when read"] == figures[f"{kind} values read"]


def test_keys_of_somebody_else_behind_ours_are_none_of_a_scans_business() -> None:
    store = Lying()
    made = opened("ycsb-e", records=40, operations=200)
    loaded(made, store)
    store.put(b"kvtui:ycsb:zzz", b"x")
    store.put(b"zebra", b"not ours")
    assert set(measured(made, store)[1]) == {"values compared"}


def test_two_workers_know_of_each_other_what_is_stale(tmp_path: Path) -> None:
    """Worker one changes records; worker two reads what was there before."""
    shared = tmp_path / "shared"
    shared.touch()
    store = Lying()
    given: dict[str, Any] = {"clients": 2, "records": 30, "operations": 600}
    one, two = (opened("ycsb-a", [index], shared=shared, **given) for index in range(2))
    for each in (one, two):
        loaded(each, store)
    old = dict(store.values)
    changed = {
        operation.key
        for operation in operations(one.client(0), store)
        if isinstance(operation, Put)
    }
    store.lie(get=old.get, put=lambda key, value: None)
    asked = operations(two.client(1), store)
    before, stale = set(changed), 0
    for operation in asked:
        if isinstance(operation, Put):
            before.add(operation.key)
        else:
            stale += operation.key in before
    assert stale > 100
    assert two.findings.kinds == {"stale when read": stale}


def failing(kind: str = "server-error") -> OperationFailed:
    return OperationFailed(kind, "not now")


def test_failed_writes_may_have_happened_or_not() -> None:
    for happened in (False, True):
        store = Lying()
        made = opened("ycsb-a", records=20, operations=300, insert=0.2, update=0.8)
        loaded(made, store)

        def put(key: bytes, value: bytes) -> None:
            if happened:  # noqa: B023
                store.honest_put(key, value)  # noqa: B023
            raise failing()

        store.lie(put=put)
        sums, _ = measured(made, store)
        store.lie()
        assert sums.failures == 300
        found = swept(made, store)
        assert found.wrong == 0
        assert found.checked == found.expected > 50


def test_what_was_not_read_is_not_written_back() -> None:
    store = Lying()
    made = opened("ycsb-f", records=20, operations=400, rmw=1)
    loaded(made, store)
    turn = 0

    def get(key: bytes) -> bytes | None:
        nonlocal turn
        turn += 1
        if turn % 4 == 0:
            raise failing()
        return store.honest_get(key)

    store.lie(get=get)
    sums, figures = measured(made, store)
    store.lie()
    assert sums.failures == figures[SKIPPED] == 100
    assert sums.attempted == 700
    assert made.progress() == (400, 400)
    assert swept(made, store).wrong == 0


def test_a_record_that_could_not_be_loaded_is_told() -> None:
    store = Lying()
    made = opened("ycsb-c", records=20, operations=200)
    turn = 0

    def put(key: bytes, value: bytes) -> None:
        nonlocal turn
        turn += 1
        if turn == 5:
            raise failing()
        store.honest_put(key, value)

    store.lie(put=put)
    assert loaded(made, store).failed == {"server-error": 1}


MIXES = st.lists(st.integers(0, 5), min_size=5, max_size=5).filter(any)


@given(MIXES, st.integers(1, 6), st.integers(0, 40), st.integers(1, 400), st.data())
@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
def test_whatever_happens_the_counts_add_up(
    weights: list[int],
    clients: int,
    failures: int,
    stop_after: int,
    data: st.DataObject,
) -> None:
    """attempted = ok + miss + failed + unfinished, for any mix, number of clients,
    pattern of failures and moment of stopping."""
    whole = sum(weights)
    names = ("read", "update", "insert", "scan", "rmw")
    mix: dict[str, Any] = {
        name: part / whole for name, part in zip(names, weights, strict=True)
    }
    made = opened(
        "ycsb-a", range(clients), clients=clients, records=20, operations=307,
        value_bytes=40, **mix,
    )  # fmt: skip
    store, control = Lying(), Control()
    loaded(made, store)
    chance = random.Random(data.draw(st.integers(0, 10**6)))
    asked = 0

    def perhaps(call: Any) -> Any:
        def answer(*words: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked == stop_after:
                control.stop()
            if chance.randrange(100) < failures:
                raise failing(chance.choice(["timeout", "server-error"]))
            return call(*words)

        return answer

    store.lie(get=perhaps(store.honest_get), put=perhaps(store.honest_put))
    store.__dict__["scan"] = perhaps(store.scan)
    sums, figures = measured(made, store, control)  # Checks that all adds up.
    assert sums.attempted == asked
    done, total = made.progress()
    assert 0 <= done <= total == 307
    if not control.stopping:
        assert done == 307
        assert sums.attempted >= 307 - figures.get(SKIPPED, 0)


class Interleaved:
    """Clients whose operations overlap in any way, over one dict: each takes effect at
    some moment between being asked and being answered, or, if it fails, at any moment
    after being asked, or never. So does an honest store with an unreliable network."""

    def __init__(self, chance: random.Random, failures: int) -> None:
        self._chance, self._failures = chance, failures
        self.values: dict[bytes, bytes] = {}
        self._zombies: list[Put] = []

    def run(self, clients: list[Any]) -> None:
        """All to their end."""
        waiting: dict[int, tuple[Operation, bool, Any]] = {}
        living = dict(enumerate(map(one_by_one, clients)))
        for index in list(living):
            self._ask(living, waiting, index, None)
        while living:
            if self._zombies and self._chance.random() < 0.1:
                late = self._zombies.pop(self._chance.randrange(len(self._zombies)))
                self.values[late.key] = late.value
            index = self._chance.choice(list(living))
            operation, done, answer = waiting[index]
            if not done:
                fails = self._chance.randrange(100) < self._failures
                answer = failing() if fails else self._apply(operation)
                if fails and isinstance(operation, Put):
                    self._zombies.append(operation)
                waiting[index] = operation, True, answer
            else:
                self._ask(living, waiting, index, answer)

    def _ask(self, living: Any, waiting: Any, index: int, answer: Any) -> None:
        client = living[index]
        try:
            if isinstance(answer, OperationFailed):
                operation = client.throw(answer)
            else:
                operation = client.send(answer)
        except StopIteration:
            del living[index]
        else:
            waiting[index] = operation, False, None

    def _apply(self, operation: Operation) -> Any:
        if isinstance(operation, Get):
            return self.values.get(operation.key)
        assert isinstance(operation, Put)
        self.values[operation.key] = operation.value
        return None


ALL: dict[str, Any] = {"read": 0.4, "update": 0.3, "rmw": 0.2, "insert": 0.1}
APART: dict[str, Any] = {"read": 0.5, "update": 0.4, "insert": 0.1}
"""Without what depends on a reply: one client asks this in bursts."""


@given(
    st.integers(0, 10**9),
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(0, 20),
    st.sampled_from([ALL, APART]),
)
@settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
def test_an_honest_store_is_never_blamed(
    seed: int, clients: int, records: int, failures: int, mix: dict[str, Any]
) -> None:
    """However the operations of many clients on few records overlap, and whatever
    fails, nothing is wrong, lost or stale: not while measuring, and not afterwards."""
    made = opened(
        "ycsb-a", range(clients), clients=clients, records=records, operations=400,
        value_bytes=40, **mix,
    )  # fmt: skip
    store = Interleaved(random.Random(seed), 0)
    store.run(made.fillers())
    store._failures = failures
    store.run([made.client(index) for index in range(clients)])
    store._failures = 0
    for batch in made.verifiers(lambda number, record: None):
        store.run(batch)
    found = made.findings
    assert (found.kinds, found.first_wrong) == ({}, "")
    assert found.checked == found.expected


def test_progress_goes_on_within_a_slice() -> None:
    made = opened("ycsb-f", records=10, operations=1000)
    client = made.client(0)
    store = RamStore({})
    loaded(made, store)
    client = made.client(0)
    answer: Any = None
    seen = []
    for _ in range(300):
        operation = client.send(answer)
        answer = store.get(operation.key) if isinstance(operation, Get) else None
        seen.append(made.progress()[0])
    assert seen == sorted(seen)
    assert len(set(seen)) > 100
    assert 150 < seen[-1] < 300
    client.close()


def test_stopping_leaves_the_rest() -> None:
    store = Lying()
    made = opened("ycsb-a", records=10, operations=10_000)
    loaded(made, store)
    control = Control()
    control.stop()
    sums, _ = run([made.client(0)], store, control)
    assert 1 <= sums.attempted < 10_000
