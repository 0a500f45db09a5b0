"""memcached's protocol without a server: any split of the bytes, and any nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import OperationFailed
from kvtui.stores.memcached.counters import (
    BIAS,
    Place,
    entries,
    names_in,
    records,
)
from kvtui.stores.memcached.exchanges import BATCH, Peer
from kvtui.stores.memcached.wire import MemcachedWire
from kvtui.stores.operations import (
    KEY_LIMIT_BYTES,
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Scan,
    key,
)
from kvtui.stores.store import PENDING

PEER = Peer("/run/m", 1_048_576, True)
FULL = Peer("/run/m", 1_048_576, False)
WHERE = key("test", b"x")
PLACE = Place(WHERE)


def number(value: int) -> bytes:
    """A counter's reply."""
    text = b"%d" % (BIAS + value)
    return b"VA %d\r\n%b\r\n" % (len(text), text)


def value(data: bytes) -> bytes:
    """A value's reply."""
    return b"VA %d\r\n%b\r\n" % (len(data), data)


def told(
    operation: Operation, answers: list[bytes], piece: int = 1 << 20, peer: Peer = PEER
) -> tuple[Any, list[bytes]]:
    """What comes back when each request is answered by the next answer, in pieces of
    that many bytes; and the requests."""
    wire = MemcachedWire(peer)
    requests, left = [wire.encode(operation)], list(answers)
    reply: Any = PENDING
    while reply is PENDING:
        answer = left.pop(0)
        for start in range(0, len(answer), piece):
            assert reply is PENDING
            assert not wire.more
            reply = wire.feed(answer[start : start + piece])
        if reply is PENDING:
            requests.append(wire.more)
            wire.more = b""
    assert not left
    return reply, requests


CONVERSATIONS: list[tuple[Operation, list[bytes], Any]] = [
    (Get(WHERE), [b"EN\r\n"], None),
    (Get(WHERE), [value(b"")], b""),
    (Get(WHERE), [value(b"EN\r\n")], b"EN\r\n"),
    (Get(WHERE), [b"VA 3 f0 t-1\r\nabc\r\n"], b"abc"),
    (Get(WHERE), [value(bytes(range(256)) * 40)], bytes(range(256)) * 40),
    (Put(WHERE, b"abc"), [b"HD\r\n"], None),
    (Delete(WHERE), [b"NF\r\nEN\r\n"], False),
    (Delete(WHERE), [b"HD\r\nEN\r\n"], True),
    (Delete(WHERE), [b"NF\r\n" + value(entries([b"a"])), b"HD\r\nHD\r\n"], True),
    (Add(WHERE, ((b"a", 2), (b"b", 1))), [number(5) + number(7)], None),
    (
        Add(WHERE, ((b"a", 2), (b"b", 1))),
        [number(5) + number(1), b"NS\r\nHD\r\n"],
        None,
    ),
    (Add(WHERE, ((b"a", -2),)), [number(-2), b"HD\r\nHD\r\n"], None),
    (Counts(WHERE), [b"EN\r\n"], None),
    (
        Counts(WHERE),
        [value(entries([b"a", b"", b"a"])), number(-3) + number(2**62)],
        {b"a": -3, b"": 2**62},
    ),
]


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize(("operation", "answers", "wanted"), CONVERSATIONS)
def test_a_reply_is_the_same_in_any_pieces(
    operation: Operation, answers: list[bytes], wanted: Any, piece: int
) -> None:
    assert told(operation, answers, piece)[0] == wanted


@given(st.binary(max_size=600), st.lists(st.integers(1, 40), min_size=1))
def test_any_value_comes_through_any_split(data: bytes, pieces: list[int]) -> None:
    wire, answer, at = MemcachedWire(PEER), value(data), 0
    wire.encode(Get(WHERE))
    reply: Any = PENDING
    while reply is PENDING:
        piece = pieces[at % len(pieces)]
        reply = wire.feed(answer[:piece])
        answer, at = answer[piece:], at + 1
    assert reply == data
    assert not answer


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 10**6])
def test_a_value_comes_through_in_one_piece(size: int) -> None:
    """Its line is foretold from the reply's length: at each new digit too."""
    data = bytes(size)
    assert told(Get(WHERE), [value(data)])[0] == data
    assert told(Get(WHERE), [value(data[1:] + b"\n")])[0] == data[1:] + b"\n"


def test_what_is_asked_stands_in_the_requests() -> None:
    _, (get,) = told(Get(WHERE), [b"EN\r\n"])
    assert get == b"mg kvtui:test:x v\r\n"
    _, (put,) = told(Put(WHERE, b"a\r\nb"), [b"HD\r\n"])
    assert put == b"ms kvtui:test:x 4\r\na\r\nb\r\n"
    _, (add, index) = told(
        Add(WHERE, ((b"new", 1), (b"old", -4))),
        [number(1) + number(9), b"HD\r\nHD\r\n"],
    )
    assert add == (
        b"ma %b N0 J9223372036854775809 D1 MI v\r\n"
        b"ma %b N0 J9223372036854775804 D4 MD v\r\n"
    ) % (PLACE.counter(b"new"), PLACE.counter(b"old"))
    assert index == (
        b"ms %b 0 ME\r\n\r\nms %b 7 MA\r\n\0\0\0\x03new\r\n"
        % (PLACE.index, PLACE.index)
    )


def test_many_counters_go_in_batches_whose_answers_fit_a_buffer() -> None:
    counts = tuple((b"%d" % each, 1) for each in range(2 * BATCH + 1))
    answers = [number(5) * BATCH, number(5) * BATCH, number(5)]
    _, requests = told(Add(WHERE, counts), answers)
    assert [each.count(b"\r\n") for each in requests] == [BATCH, BATCH, 1]


@pytest.mark.parametrize(
    "nonsense",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"VALUE x 0 1\r\na\r\nEND\r\n",
        b"VA x\r\n",
        b"VA -1\r\n",
        b"VA 99999999999\r\n",
        b"VA 1\r\nabc",
        b"\r\n",
        b"x" * 5000,
        b"HD\r\n",
        b"NF\r\n",
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_what_is_not_the_protocol_is_refused(nonsense: bytes, piece: int) -> None:
    wire = MemcachedWire(PEER)
    wire.encode(Get(WHERE))
    pieces = [nonsense[at : at + piece] for at in range(0, len(nonsense), piece)]
    with pytest.raises(OperationFailed) as caught:
        [wire.feed(each) for each in pieces]
    assert caught.value.kind == "protocol"
    assert caught.value.broken
    assert "/run/m" in caught.value.message


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (Get(WHERE), b"EN\r\nEN\r\n"),
        (Get(WHERE), b"EN\r\n\0"),
        (Get(WHERE), b"VA 1\r\na\r\nEN\r\n"),
        (Put(WHERE, b"x"), b"HD\r\nHD\r\n"),
        (Delete(WHERE), b"HD\r\nEN\r\nHD\r\n"),
    ],
)
def test_a_second_answer_is_never_taken_for_the_next_operations(
    operation: Operation, answer: bytes
) -> None:
    wire = MemcachedWire(PEER)
    wire.encode(operation)
    with pytest.raises(OperationFailed) as caught:
        wire.feed(answer)
    assert caught.value.kind == "protocol"
    assert caught.value.broken


TOO_LARGE = b"SERVER_ERROR object too large for cache\r\n"
NO_MEMORY = b"SERVER_ERROR out of memory storing object\r\n"


@pytest.mark.parametrize(
    ("operation", "answers", "peer", "kind", "broken"),
    [
        (Put(WHERE, b"x" * 2_000_000), [TOO_LARGE], PEER, "too-large", False),
        (Put(WHERE, b"x"), [NO_MEMORY], FULL, "no-space", False),
        (Put(WHERE, b"x"), [NO_MEMORY], PEER, "server-error", False),
        (Put(WHERE, b"x"), [b"NS\r\n"], PEER, "protocol", True),
        (Put(WHERE, b"x"), [b"ERROR\r\n"], PEER, "server-error", True),
        (Put(WHERE, b"x"), [b"CLIENT_ERROR bad\r\n"], PEER, "server-error", True),
        (Get(WHERE), [b"SERVER_ERROR busy\r\n"], PEER, "server-error", False),
        (Delete(WHERE), [b"SERVER_ERROR a\r\nEN\r\n"], PEER, "server-error", False),
        (Delete(WHERE), [b"HD\r\nSERVER_ERROR a\r\n"], PEER, "server-error", False),
        (Delete(WHERE), [b"EN\r\nEN\r\n"], PEER, "protocol", True),
        (Counts(WHERE), [value(b"\0\0\0\x09abc")], PEER, "server-error", False),
        (Counts(WHERE), [value(b"\0\0")], PEER, "server-error", False),
        (Counts(WHERE), [value(entries([b"a"])), value(b"x")], PEER, "server-error", 0),
        (Counts(WHERE), [value(entries([b"a"])), b"EN\r\n"], PEER, "server-error", 0),
        (
            Add(WHERE, ((b"a", 1), (b"b", 1))),
            [b"SERVER_ERROR Out of memory allocating new item\r\n" + number(1)],
            FULL,
            "no-space",
            False,
        ),
        (
            Add(WHERE, ((b"a", 1),)),
            [number(1), b"NS\r\nNS\r\n"],
            PEER,
            "too-large",
            False,
        ),
        (Add(WHERE, ((b"a", 1),)), [b"HD\r\n"], PEER, "protocol", True),
    ],
)
def test_every_refusal_is_told_as_what_it_is(
    operation: Operation, answers: list[bytes], peer: Peer, kind: str, broken: bool
) -> None:
    """013: with the key's name, its size and the limit where that is the reason."""
    with pytest.raises(OperationFailed) as caught:
        told(operation, answers, peer=peer)
    assert caught.value.kind == kind
    assert caught.value.broken == bool(broken)
    assert "/run/m" in caught.value.message
    if kind == "too-large":
        assert "kvtui:test:x" in caught.value.message
        assert "1,048,576" in caught.value.message
    if isinstance(operation, Put) and kind == "too-large":
        assert "2,000,000" in caught.value.message


def test_a_failure_leaves_a_connection_that_can_be_used() -> None:
    """All answers of a pipeline are taken before its failure is told."""
    wire = MemcachedWire(PEER)
    wire.encode(Add(WHERE, ((b"a", 1), (b"b", 1))))
    with pytest.raises(OperationFailed):
        wire.feed(b"SERVER_ERROR a\r\n" + number(4))
    wire.encode(Get(WHERE))
    assert wire.feed(value(b"abc")) == b"abc"


@pytest.mark.parametrize(
    "bad", [b"", b"a b", b" a", b"a ", b"a\r\nflush_all", b"a\t", b"x" * 251]
)
@pytest.mark.parametrize("make", [Get, Delete, Counts])
def test_a_key_that_could_be_a_command_never_leaves(
    bad: bytes, make: type[Operation]
) -> None:
    """002: the empty one too, which would make a flag the key."""
    with pytest.raises(OperationFailed) as caught:
        MemcachedWire(PEER).encode(make(bad))
    assert caught.value.kind == "unsupported"
    assert not caught.value.broken


def test_what_memcached_cannot_do_is_unsupported() -> None:
    for operation in (Scan(WHERE, 3), Add(WHERE, ((b"a", 2**63),))):
        with pytest.raises(OperationFailed) as caught:
            MemcachedWire(PEER).encode(operation)
        assert caught.value.kind == "unsupported"


def test_no_counters_to_add_are_a_success() -> None:
    """Nothing is added, and the record is not made."""
    wire = MemcachedWire(PEER)
    request = wire.encode(Add(WHERE, ()))
    assert request == b"mn\r\n"
    assert wire.feed(b"MN\r\n") is None


@given(st.lists(st.binary(max_size=80)))
def test_an_index_holds_every_name_once(names: list[bytes]) -> None:
    assert names_in(entries(names)) == list(dict.fromkeys(names))


def test_keys_of_counters_are_legal_and_nobody_elses() -> None:
    """Under the namespace, short enough, and never equal to a mapped key."""
    mapped = key("test", b"needs a digest")
    for name in (b"", b"a", b"x" * 70_000, b"a b\r\n"):
        for where in (PLACE.counter(name), PLACE.index):
            assert where.startswith(b"kvtui:test:#")
            assert len(where) <= KEY_LIMIT_BYTES
            assert where.split() == [where]
            assert where.isascii()
            assert len(where) != len(mapped)
            # A name that looks like one is itself digested.
            assert key("test", where.removeprefix(b"kvtui:test:")) != where
    other = Place(key("test", b"y"))
    assert PLACE.counter(b"a") != other.counter(b"a")
    assert PLACE.index != other.index


def test_a_record_with_value_counters_and_lost_index_is_one() -> None:
    other = Place(key("test", b"y"))
    held = [WHERE, PLACE.index, PLACE.counter(b"a"), PLACE.counter(b"b")]
    assert records("test", held) == 1
    assert records("test", [*held, other.counter(b"a"), other.counter(b"b")]) == 2
    assert records("test", [*held, key("test", b"a digest"), key("test", b"z")]) == 3
    assert records("test", []) == 0
