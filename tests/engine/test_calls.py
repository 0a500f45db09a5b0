"""The calls loop: what was attempted is what has an outcome, whatever happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

from kvtui.engine import calls
from kvtui.engine.control import Control, StoreGone
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.null import NullStore
from kvtui.stores.operations import Add, Counts, Delete, Get, Put, Scan
from kvtui.stores.ram import RamStore
from kvtui.stores.store import Store, StoreInfo
from tests.engine.sums import InThread, asking, endless, sums
from tests.waiting import until


class Faulty(Store):
    """A store whose every call first asks a script what should go wrong."""

    kind = "faulty"

    def __init__(self, script: Callable[[int], None]) -> None:
        super().__init__({})
        self.script = script
        self.calls = self.opens = 0

    def _next(self) -> None:
        self.calls += 1
        self.script(self.calls)

    def open(self) -> None:
        self.opens += 1

    def close(self) -> None:
        pass

    def get(self, key: bytes) -> bytes | None:
        self._next()
        return b"12345"

    def put(self, key: bytes, value: bytes) -> None:
        self._next()

    def delete(self, key: bytes) -> bool:
        self._next()
        return False

    def info(self) -> StoreInfo:
        return StoreInfo("", "", "", "")

    def count(self, namespace: str) -> int:
        return 0

    def wipe(self, namespace: str) -> int:
        return 0


def never(_: int) -> None:
    """Nothing goes wrong."""


def every(nth: int, error: Exception) -> Callable[[int], None]:
    """Each nth call fails."""

    def script(call: int) -> None:
        if call % nth == 0:
            raise error

    return script


def broken() -> OperationFailed:
    """A connection that is of no further use."""
    return OperationFailed("disconnected", "gone", broken=True)


def test_every_kind_of_operation_is_counted() -> None:
    recorder, replies = Recorder(1), list[Any]()
    operations = [
        Get(b"k"),
        Put(b"k", b"1234"),
        Get(b"k"),
        Add(b"c", ((b"a", 2),)),
        Counts(b"c"),
        Counts(b"missing"),
        Scan(b"", 5),
        Delete(b"k"),
        Delete(b"k"),
    ]
    figures = calls.run(
        [asking(operations, replies)], [RamStore({})], recorder, Control()
    )
    assert figures == {"asked": 9, "clients": 1}
    wanted = [None, None, b"1234", None, {b"a": 2}, None, [(b"k", b"1234")]]
    assert replies == [*wanted, True, False]
    taken = recorder.take().operations
    assert {label: (each.ok, each.miss) for label, each in taken.items()} == {
        "get": (1, 1),
        "put": (1, 0),
        "add": (1, 0),
        "counts": (1, 1),
        "scan": (1, 0),
        "delete": (2, 0),
    }
    assert recorder.attempted == recorder.finished == 9


def test_bytes_are_counted_once_they_are_acknowledged() -> None:
    recorder = Recorder(1)
    store = Faulty(every(2, OperationFailed("server-error", "no")))
    operations = [Put(b"k", b"123"), Put(b"k", b"123"), Get(b"k"), Get(b"k")]
    calls.run([asking(operations)], [store], recorder, Control())
    found = sums(recorder)
    assert (found.read_bytes, found.written_bytes) == (5, 3)
    assert found.failed == {"server-error": 2}


@pytest.mark.parametrize("clients", [1, 2, 9])
def test_operations_of_all_clients_add_up(clients: int) -> None:
    recorder, store = Recorder(clients), RamStore({})
    figures = calls.run(
        [
            asking([Put(b"%d" % n, b"x") for n in range(1000 + c)])
            for c in range(clients)
        ],
        [store] * clients,
        recorder,
        Control(),
    )
    wanted = sum(1000 + c for c in range(clients))
    assert sums(recorder).ok == wanted
    assert figures == {"asked": wanted, "clients": clients}


def test_no_clients_and_no_operations_end_at_once() -> None:
    """064: idle clients are no endless loops."""
    recorder = Recorder(100)
    assert calls.run([], [], recorder, Control()) == {}
    clients = [asking([]) for _ in range(99)] + [asking([Get(b"k")])]
    figures = calls.run(clients, [NullStore({})] * 100, recorder, Control())
    assert figures == {"asked": 1, "clients": 100}
    assert sums(recorder).miss == 1


def test_a_client_that_ends_early_does_not_end_the_others() -> None:
    recorder = Recorder(3)
    clients = [asking([Get(b"k")] * number) for number in (1, 500, 2000)]
    calls.run(clients, [NullStore({})] * 3, recorder, Control())
    assert sums(recorder).attempted == 2501


def test_a_failure_is_raised_at_the_yield_and_stays_out_of_the_latencies() -> None:
    """068, 083."""
    recorder, replies = Recorder(1), list[Any]()
    store = Faulty(every(3, OperationFailed("server-error", "WRONGTYPE no")))
    calls.run([asking([Get(b"k")] * 9, replies)], [store], recorder, Control())
    assert [type(each) for each in replies] == [bytes, bytes, OperationFailed] * 3
    found = sums(recorder)
    assert (found.attempted, found.ok, found.failed) == (9, 6, {"server-error": 3})
    assert found.messages == ["WRONGTYPE no"]
    assert store.opens == 0  # not broken, so nothing is connected anew


@pytest.mark.parametrize(
    "error", [ValueError("odd"), KeyError("k"), StoreUnavailable("away")]
)
def test_whatever_an_adapter_raises_is_a_failed_operation(error: Exception) -> None:
    recorder, replies = Recorder(1), list[Any]()
    calls.run(
        [asking([Get(b"k")] * 2, replies)],
        [Faulty(every(2, error))],
        recorder,
        Control(),
    )
    assert replies[1].kind == "server-error"
    assert sums(recorder).failures == 1


def test_an_operation_that_the_store_does_not_offer_fails() -> None:
    recorder, replies = Recorder(1), list[Any]()
    operations = [Get(b"k"), Scan(b"k", 1), Add(b"k", ((b"a", 1),)), Counts(b"k")]
    calls.run([asking(operations, replies)], [Faulty(never)], recorder, Control())
    assert [each.kind for each in replies[1:]] == ["unsupported"] * 3
    assert sums(recorder).failed == {"unsupported": 3}


def test_a_broken_connection_is_opened_again() -> None:
    recorder = Recorder(1)
    store = Faulty(every(5, broken()))
    calls.run([asking([Get(b"k")] * 20)], [store], recorder, Control())
    found = sums(recorder)
    assert found.failed == {"disconnected": 4}
    assert found.reconnects == store.opens == 4


def test_a_store_that_stays_away_ends_the_trial_after_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(calls, "FIRST_BACK_OFF_S", 0.01)
    tries: list[float] = []

    class Away(Faulty):
        def open(self) -> None:
            tries.append(time.monotonic())
            raise StoreUnavailable("nobody at this address", hint="start it")

    recorder, control = Recorder(3), Control()
    store = Away(every(1, broken()))
    clients = [asking([Get(b"k")] * 5) for _ in range(3)]
    with pytest.raises(StoreGone) as caught:
        calls.run(clients, [store] * 3, recorder, control)
    assert "nobody at this address" in caught.value.message
    assert caught.value.hint == "start it"
    found = sums(recorder)
    assert found.attempted == found.failures == 3
    assert len(tries) > 3  # with back-off, again and again


def test_a_full_disk_ends_the_trial() -> None:
    recorder = Recorder(1)
    store = Faulty(every(3, OperationFailed("no-space", "disk full", hint="free some")))
    with pytest.raises(StoreGone) as caught:
        calls.run([asking([Put(b"k", b"x")] * 9)], [store], recorder, Control())
    assert (caught.value.message, caught.value.hint) == ("disk full", "free some")
    found = sums(recorder)
    assert (found.attempted, found.ok, found.failed) == (3, 2, {"no-space": 1})


def test_a_client_that_breaks_ends_the_trial_and_still_adds_up() -> None:
    def wrong() -> Any:
        yield Get(b"k")
        raise ZeroDivisionError

    recorder = Recorder(3)
    clients = [wrong(), *(endless(lambda n: Get(b"k")) for _ in range(2))]
    with pytest.raises(ZeroDivisionError):
        calls.run(clients, [NullStore({})] * 3, recorder, Control())
    assert sums(recorder).attempted > 0


@pytest.mark.parametrize("clients", [1, 5])
def test_a_stop_ends_every_client_after_its_operation(clients: int) -> None:
    recorder, control = Recorder(clients), Control()
    loop = InThread(
        lambda: calls.run(
            [endless(lambda n: Put(b"%d" % n, b"x")) for _ in range(clients)],
            [NullStore({})] * clients,
            recorder,
            control,
        )
    )
    until(lambda: recorder.attempted > 0, "operations are counted while it goes on")
    control.stop()
    assert loop.result() == {}
    found = sums(recorder)
    assert found.attempted == found.ok
    assert found.unfinished == 0


def test_a_stop_ends_clients_that_are_connecting_anew() -> None:
    class Away(Faulty):
        def open(self) -> None:
            raise StoreUnavailable("away")

    recorder, control = Recorder(4), Control()
    store = Away(every(1, broken()))
    loop = InThread(
        lambda: calls.run(
            [endless(lambda n: Get(b"k")) for _ in range(4)],
            [store] * 4,
            recorder,
            control,
        )
    )
    until(lambda: store.calls == 4, "all four have lost their connection")
    control.stop()
    loop.result(10)
    assert sums(recorder).failed == {"disconnected": 4}


def test_a_stop_ends_clients_that_only_fail() -> None:
    recorder, control = Recorder(2), Control()
    store = Faulty(every(1, OperationFailed("server-error", "no")))
    loop = InThread(
        lambda: calls.run(
            [endless(lambda n: Get(b"k")) for _ in range(2)],
            [store] * 2,
            recorder,
            control,
        )
    )
    until(lambda: store.calls > 100, "it goes on after failures")
    control.stop()
    loop.result()
    found = sums(recorder)
    assert found.attempted == found.failures == store.calls


def test_what_hangs_in_the_store_is_seen_waiting() -> None:
    """122: a hung client is visible while it hangs, with its age."""
    release = Event()

    def hang(call: int) -> None:
        if call == 5:
            release.wait(60)

    recorder, control = Recorder(1), Control()
    loop = InThread(
        lambda: calls.run([asking([Get(b"k")] * 9)], [Faulty(hang)], recorder, control)
    )
    until(
        lambda: recorder.oldest_waiting_ns(time.perf_counter_ns) > 20_000_000,
        "the operation is seen to age",
    )
    release.set()
    loop.result()
    assert sums(recorder).ok == 9


def test_a_step_of_the_wall_clock_changes_no_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """082: one hour back in the middle."""
    real, calls_made = time.time, 0

    def stepping() -> float:
        nonlocal calls_made
        calls_made += 1
        return real() - 3600 * calls_made

    monkeypatch.setattr(time, "time", stepping)
    recorder = Recorder(1)
    calls.run([asking([Get(b"k")] * 100)], [NullStore({})], recorder, Control())
    found = sums(recorder)
    assert found.miss == 100
    assert recorder.latency_ns < 60_000_000_000


def test_a_clock_that_repeats_itself_gives_no_negative_latency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """082: the same reading again and again."""
    monkeypatch.setattr(calls, "perf_counter_ns", lambda: 12_345)
    recorder = Recorder(1)
    calls.run([asking([Get(b"k")] * 100)], [NullStore({})], recorder, Control())
    assert sums(recorder).miss == 100
    assert recorder.first_ns == recorder.last_ns == 12_345
