"""Bursts: the same as one operation after the other, but for what they cost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kvtui.engine import calls
from kvtui.engine.bursts import one_by_one
from kvtui.engine.control import Control, StoreGone
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed
from kvtui.stores.operations import Burst, Client, Get, Replies
from kvtui.stores.ram import RamStore
from tests.engine.sums import InThread, sums
from tests.engine.test_calls import Faulty, broken, every, never
from tests.waiting import until

Pairs = list[tuple[bytes, bytes | None]]


def bursting(bursts: list[Pairs], replies: list[Any]) -> Client:
    """A client that asks these, with a get of its own between them."""
    for pairs in bursts:
        replies.append((yield Burst(b"", iter(pairs))))
        try:
            replies.append((yield Get(b"between")))
        except OperationFailed as error:
            replies.append(error.kind)
    return {"bursts": len(bursts)}


def in_words(replies: list[Any]) -> list[Any]:
    """Failures by their kind."""
    return [
        [each.kind if isinstance(each, OperationFailed) else each for each in reply]
        if isinstance(reply, list)
        else reply
        for reply in replies
    ]


BURSTS: list[Pairs] = [
    [(b"a", None), (b"a", b"123"), (b"a", None), (b"b", None)],
    [],
    [(b"b", b"4567"), (b"b", None), (b"a", None)],
]


@pytest.mark.parametrize("singly", [False, True])
def test_every_operation_is_asked_counted_and_answered(singly: bool) -> None:
    replies: list[Any] = []
    client = bursting(BURSTS, replies)
    recorder = Recorder(1)
    figures = calls.run(
        [one_by_one(client) if singly else client], [RamStore({})], recorder, Control()
    )
    assert figures == {"bursts": 3}
    assert replies == [
        *([None, None, b"123", None], None),
        *([], None),
        *([None, b"4567", b"123"], None),
    ]
    assert not any(isinstance(each, Replies) for each in replies)
    found = sums(recorder)
    assert (found.attempted, found.ok, found.miss) == (10, 5, 5)
    assert (found.read_bytes, found.written_bytes) == (10, 7)


@pytest.mark.parametrize("nth", [1, 2, 3, 5, 11])
def test_failures_stand_where_they_happened(nth: int) -> None:
    error = OperationFailed("timeout", "late")
    told: list[list[Any]] = []
    for singly in (False, True):
        replies: list[Any] = []
        client = bursting(BURSTS, replies)
        recorder = Recorder(1)
        calls.run(
            [one_by_one(client) if singly else client],
            [Faulty(every(nth, error))],
            recorder,
            Control(),
        )
        told.append(in_words(replies))
        found = sums(recorder)
        assert found.attempted == 10
        assert found.failed == ({"timeout": 10 // nth} if nth <= 10 else {})
        for reply, shown in zip(replies, told[-1], strict=True):
            if isinstance(reply, list):
                assert isinstance(reply, Replies) == ("timeout" in shown)
    assert told[0] == told[1]


def test_a_burst_goes_on_over_a_new_connection() -> None:
    replies: list[Any] = []
    store = Faulty(every(3, broken()))
    recorder = Recorder(1)
    calls.run([bursting(BURSTS, replies)], [store], recorder, Control())
    found = sums(recorder)
    assert (found.attempted, found.failed) == (10, {"disconnected": 3})
    assert store.opens == found.reconnects == 3


def test_no_space_ends_it_with_all_counts() -> None:
    store = Faulty(every(4, OperationFailed("no-space", "full")))
    recorder = Recorder(1)
    with pytest.raises(StoreGone, match="full"):
        calls.run([bursting(BURSTS, [])], [store], recorder, Control())
    found = sums(recorder)
    assert (found.attempted, found.failed) == (4, {"no-space": 1})


def test_a_stop_is_heard_within_a_burst() -> None:
    """However long it is."""

    def endless() -> Iterator[tuple[bytes, bytes | None]]:
        chance = random.Random(1)
        while True:
            yield b"k", b"v" if chance.random() < 0.5 else None

    def client() -> Client:
        yield Burst(b"", endless())
        raise AssertionError("a burst without an end came to its end")

    recorder, control, store = Recorder(1), Control(), Faulty(never)
    loop = InThread(lambda: calls.run([client()], [store], recorder, control))
    until(lambda: store.calls > 1000, "nothing was asked")
    control.stop()
    assert loop.result() == {}
    found = sums(recorder)
    assert found.attempted == store.calls == found.ok
