"""MySQL's protocol, byte by byte, without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import OperationFailed
from kvtui.stores.mysql import packets
from kvtui.stores.mysql import statements as sql
from kvtui.stores.mysql.adds import filled_up
from kvtui.stores.mysql.packets import LONGEST, Packets, Prepared, framed
from kvtui.stores.mysql.wire import STATEMENTS, MySqlWire
from kvtui.stores.operations import Add, Counts, Delete, Get, Operation, Put, Scan
from kvtui.stores.store import PENDING

LIMIT = 16 << 20
OK_ONE = b"\x00\x01\x00\x02\x00\x00\x00"
OK_NONE = b"\x00\x00\x00\x02\x00\x00\x00"
END = b"\xfe\x00\x00\x02\x00"
COLUMN = b"\x03def\x05kvtui\x01t\x01t\x01v\x01v\x0c\x3f\x00" + bytes(10)
DEADLOCK = b"\xff\xbd\x04#40001Deadlock found"
NO_SPACE = b"\xff\x5a\x04#HY000The table is full"
FAREWELL = b"\xff\x87\x07#70100Connection was killed"


def wire(limit: int = LIMIT, retried: Callable[[], None] = lambda: None) -> MySqlWire:
    """A connection whose statements are prepared."""
    prepared = [Prepared(number, 1, 1) for number in range(1, len(STATEMENTS) + 1)]
    return MySqlWire("here", prepared, limit, retried)


def reply(*payloads: bytes, first: int = 1) -> bytes:
    """Payloads as the server's packets."""
    return b"".join(
        framed(payload, number) for number, payload in enumerate(payloads, first)
    )


def row(*values: bytes | int) -> bytes:
    """A row of the binary protocol."""
    coded = [
        value.to_bytes(8, "little", signed=True)
        if isinstance(value, int)
        else packets.length_coded(value)
        for value in values
    ]
    return b"\0\0" + b"".join(coded)


def table(*rows: bytes, columns: int = 1) -> bytes:
    """A whole result."""
    return reply(bytes((columns,)), *[COLUMN] * columns, END, *rows, END)


def ask(made: MySqlWire, operation: Operation, *replies: bytes) -> Any:
    """The reply to an operation, given what the server sends in each round trip."""
    assert made.encode(operation)
    found: Any = PENDING
    for each in replies:
        assert found is PENDING
        made.more = b""
        found = made.feed(each)
    return found


def feed(made: MySqlWire, data: bytes, size: int = 1 << 20) -> Any:
    """Hand over bytes, so many at a time; what came of the last."""
    found: Any = PENDING
    for start in range(0, len(data), size):
        found = made.feed(data[start : start + size])
    return found


GET = Get(b"k")
ADD = Add(b"k", ((b"a", 1), (b"b", 2)))
PREPARED = reply(
    b"\x00\x63\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00", *[COLUMN] * 8, END
)
ANSWERS: list[tuple[Operation, Any, tuple[bytes, ...]]] = [
    (GET, b"value", (table(row(b"value")),)),
    (GET, b"", (table(row(b"")),)),
    (GET, b"x" * 70_000, (table(row(b"x" * 70_000)),)),
    (GET, None, (table(),)),
    (Put(b"k", b"v"), None, (reply(OK_ONE),)),
    (Counts(b"k"), {b"a": -5}, (table(row(b"a", -5), columns=2),)),
    (Counts(b"k"), None, (table(columns=2),)),
    (Scan(b"k", 2), [(b"k", b"v")], (table(row(b"k", b"v"), columns=2),)),
    (Delete(b"k"), True, (reply(OK_NONE), reply(OK_ONE))),
    (Delete(b"k"), False, (reply(OK_NONE), reply(OK_NONE))),
    (ADD, None, (PREPARED, reply(b"\x00\x02\x00\x02\x00\x00\x00"))),
    (Add(b"k", ()), None, (reply(OK_NONE),)),
]


@pytest.mark.parametrize("size", [1, 2, 7, 1 << 20])
def test_an_answer_is_understood_however_it_is_cut(size: int) -> None:
    made = wire()
    for _ in range(2):  # the second time a get knows what to expect
        for operation, wanted, replies in ANSWERS:
            if isinstance(operation, Add) and operation.counts and made._adds._heads:
                replies = replies[1:]  # its statement is prepared by now
            made.encode(operation)
            found: Any = PENDING
            for number, each in enumerate(replies, 1):
                made.more = b""
                for start in range(0, len(each), size):
                    assert found is PENDING
                    assert made.more == b""
                    found = made.feed(each[start : start + size])
                assert bool(made.more) is (number < len(replies))
            assert found == wanted


GARBAGE = {
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "out of turn": reply(OK_ONE, first=3),
    "no columns": reply(b"\xfb"),
    "columns cut short": reply(b"\x02", COLUMN, OK_ONE),
    "a row too short": table(b"\0\0\x09abc"),
    "a row too long": table(b"\0\0\x01abc"),
    "a row that is none": table(b"\x07\0\x01a"),
    "a NULL": table(b"\0\x04"),
    "an empty row": table(b""),
    "two rows": table(row(b"a"), row(b"b")),
    "two columns": table(row(b"a", b"b"), columns=2),
    "a write's answer": reply(OK_ONE),
    "an empty packet": reply(b""),
    "an error without a number": reply(b"\xff\x01"),
    "a second answer": table(row(b"a")) + reply(OK_ONE),
    "half a second answer": table(row(b"a")) + b"\x07\0",
    "a second answer behind a miss": table() + table(),
}


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused(name: str, size: int, learned: bool) -> None:
    made = wire()
    if learned:
        assert ask(made, GET, table(row(b"x"))) == b"x"
    made.encode(GET)
    with pytest.raises(OperationFailed) as caught:
        # What follows an answer may be found with the next only.
        feed(made, GARBAGE[name] + table(row(b"next")), size)
    assert caught.value.kind == "protocol"
    assert caught.value.broken


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (Put(b"k", b"v"), reply(OK_NONE)),
        (Put(b"k", b"v"), reply(b"\x00\x03\x00\x02\x00\x00\x00")),
        (Put(b"k", b"v"), table(row(b"x"))),
        (Counts(b"k"), table(row(b"a"), columns=1)),
        (Counts(b"k"), table(row(b"a", b"b"), columns=2)),
        (Scan(b"k", 1), reply(OK_ONE)),
        (Delete(b"k"), table(row(b"a"))),
        (Add(b"k", ()), table(row(b"a"))),
    ],
)
def test_the_wrong_kind_of_answer_is_refused(
    operation: Operation, answer: bytes
) -> None:
    if isinstance(operation, Add):
        operation = ADD
    with pytest.raises(OperationFailed) as caught:
        ask(wire(), operation, answer)
    assert caught.value.kind == "protocol"
    assert caught.value.broken


def test_fewer_counters_than_were_sent_is_refused() -> None:
    with pytest.raises(OperationFailed) as caught:
        ask(wire(), ADD, PREPARED, reply(OK_ONE))
    assert caught.value.kind == "protocol"
    assert "1 of 2" in caught.value.message


def test_an_error_packet_is_a_failure_and_the_connection_goes_on() -> None:
    made = wire()
    for operation, answer, kind in (
        (GET, reply(b"\xff\x28\x04#42000You have an error"), "server-error"),
        (Put(b"k", b"v"), reply(NO_SPACE), "no-space"),
        (Put(b"k", b"v"), reply(b"\xff\x7e\x05#22001Data too long"), "too-large"),
        (GET, reply(b"\x01", COLUMN, END, DEADLOCK), "server-error"),
        (GET, reply(b"\xff\x28\x04no state \xff\x1b[2J"), "server-error"),
    ):
        with pytest.raises(OperationFailed) as caught:
            ask(made, operation, answer)
        assert caught.value.kind == kind
        assert not caught.value.broken
        caught.value.message.encode()
        assert ask(made, GET, table(row(b"x"))) == b"x"


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("number", [0, 1])
def test_a_farewell_is_a_lost_connection_with_its_reason(
    number: int, size: int
) -> None:
    made = wire()
    made.encode(GET)
    with pytest.raises(OperationFailed) as caught:
        feed(made, reply(FAREWELL, first=number), size)
    assert caught.value.kind == "disconnected"
    assert caught.value.broken
    assert "killed" in caught.value.message


def test_a_deadlock_is_tried_again_and_not_for_ever() -> None:
    """035: the whole statement again, within the same operation."""
    done = reply(b"\x00\x02\x00\x02\x00\x00\x00")
    retried: list[None] = []
    made = wire(retried=lambda: retried.append(None))
    made.encode(ADD)
    made.feed(PREPARED)
    first = made.more
    for _ in range(sql.TRIES - 1):
        made.more = b""
        assert made.feed(reply(DEADLOCK)) is PENDING
        assert made.more == first
    assert made.feed(done) is None
    assert len(retried) == sql.TRIES - 1
    with pytest.raises(OperationFailed) as caught:
        ask(made, ADD, *[reply(DEADLOCK)] * sql.TRIES)
    assert "1213" in caught.value.message
    assert not caught.value.broken
    assert len(retried) == 2 * (sql.TRIES - 1)
    assert ask(made, GET, table()) is None


@pytest.mark.parametrize("value", [b"x", b"x" * LONGEST])
def test_a_write_that_was_undone_is_made_again_and_not_for_ever(value: bytes) -> None:
    """035: as often for a put; after a deadlock, and nothing but a deadlock."""
    retried: list[None] = []
    made = wire(LONGEST + 1000, retried=lambda: retried.append(None))
    put = Put(b"k", value)
    first = made.encode(put)
    deadlock = reply(DEADLOCK, first=packets.packets_of(len(value) + 100))
    for number in range(1, sql.TRIES):
        assert made.feed(deadlock) is PENDING
        assert made.more == first
        assert len(retried) == number
        made.more = b""
    with pytest.raises(OperationFailed) as caught:
        made.feed(deadlock)
    assert "1213" in caught.value.message
    assert not caught.value.broken
    full = reply(NO_SPACE, first=packets.packets_of(len(value) + 100))
    with pytest.raises(OperationFailed, match="full"):
        ask(made, put, full)
    with pytest.raises(OperationFailed, match="Deadlock"):
        ask(made, GET, reply(DEADLOCK))
    assert len(retried) == sql.TRIES - 1


def test_a_removal_that_was_undone_is_made_again() -> None:
    """035: the statement that was undone, and not the one before it."""
    retried: list[None] = []
    made = wire(retried=lambda: retried.append(None))
    replies = [DEADLOCK, OK_ONE, DEADLOCK, OK_NONE]
    assert ask(made, Delete(b"k"), *map(reply, replies)) is True
    assert len(retried) == 2


def test_a_request_over_the_limit_is_never_sent() -> None:
    """016: named with its size and the server's variable."""
    made = wire(limit=1024)
    refused: list[Operation] = [
        Put(b"k", b"x" * 1024),
        Add(b"k", ((b"x" * 1024, 1),)),
        Get(b"k" * 1024),
    ]
    for operation in refused:
        with pytest.raises(OperationFailed) as caught:
            made.encode(operation)
        assert caught.value.kind == "too-large"
        assert not caught.value.broken
        assert "max_allowed_packet" in caught.value.message
        assert "1,024" in caught.value.message
    with pytest.raises(OperationFailed):
        made.encode(Add(b"k", ((b"x", 2**63),)))
    assert ask(made, Put(b"k", b"x" * 900), reply(OK_ONE)) is None


@pytest.mark.parametrize("length", [0, 1, LONGEST - 1, LONGEST, LONGEST + 1])
def test_a_long_payload_is_split_and_put_together(length: int) -> None:
    payload = b"x" * length
    data = framed(payload, 254)
    assert len(data) == length + 4 * packets.packets_of(length)
    made = Packets()
    made.expect(254)
    assert made.feed(data) == [payload]
    assert not made.unfinished


@given(st.binary(max_size=300))
def test_a_text_that_is_cut_is_refused(text: bytes) -> None:
    coded = packets.length_coded(text)
    assert packets.read_text(coded + b"more", 0) == (text, len(coded))
    for cut in range(len(coded)):
        with pytest.raises(OperationFailed):
            packets.read_text(coded[:cut], 0)


@pytest.mark.parametrize("length", [250, 251, 2**16 - 1, 2**16, 2**24 - 1, 2**24])
def test_a_text_of_any_length_has_its_length_before_it(length: int) -> None:
    coded = packets.length_coded(bytes(length))
    assert packets.read_text(coded, 0) == (bytes(length), len(coded))


@given(st.lists(st.binary(max_size=20), max_size=9), st.data())
def test_packets_come_whole_however_the_bytes_are_cut(
    payloads: list[bytes], data: Any
) -> None:
    stream = reply(*payloads, first=250)
    made = Packets()
    made.expect(250)
    found: list[bytes] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += made.feed(stream[:size])
        stream = stream[size:]
    assert found == payloads
    assert not made.unfinished


def test_statements_have_few_sizes_and_fill_up_little() -> None:
    sizes = {filled_up(number) for number in range(1, sql.MOST_ROWS + 1)}
    assert len(sizes) <= 20
    assert max(sizes) == sql.MOST_ROWS
    for number in range(1, sql.MOST_ROWS + 1):
        assert number <= filled_up(number) < 1.5 * number + 1


def cost(each: sql.Row) -> int:
    """As large as its name."""
    return len(each[1])


@given(st.lists(st.integers(1, 50), max_size=40), st.integers(1, 120))
def test_batches_hold_every_row_once_and_fit(sizes: list[int], room: int) -> None:
    every = [(b"%d" % number, b"x" * size, 1) for number, size in enumerate(sizes)]
    found = list(sql.batches(every, cost, room))
    assert [each for batch in found for each in batch] == every
    for batch in found:
        assert len(batch) == 1 or sum(map(cost, batch)) <= room
    assert all(found)


def test_rows_are_one_a_counter_in_one_order() -> None:
    """035: every client locks in the same order."""
    first = sql.rows([(b"a", 1), (b"b", 2), (b"a", 3), (b"", 4)])
    again = sql.rows([(b"", 4), (b"b", 2), (b"a", 4)])
    assert first == again
    assert {name: amount for _, name, amount in first} == {b"a": 4, b"b": 2, b"": 4}


def test_a_filled_up_statement_adds_nothing_more() -> None:
    made = wire()
    counts = tuple((b"name %d" % number, number + 1) for number in range(5))
    made.encode(Add(b"k", counts))
    made.feed(PREPARED)
    sent: Callable[[bytes], int] = made.more.count
    assert sum(sent(name) for name, _ in counts) == filled_up(5) == 6
    amounts = sum(sent(number.to_bytes(8, "little")) for number in range(1, 6))
    assert amounts == 5
