"""Tokyo Tyrant's protocol, against bytes that ttserver 1.1.41 took and sent."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Add, Counts, Delete, Get, Operation, Put
from kvtui.stores.store import PENDING
from kvtui.stores.tokyo import protocol
from kvtui.stores.tokyo.talk import Conversation, Steps, batches
from kvtui.stores.tokyo.wire import TokyoWire

REQUESTS = [
    (protocol.put(b"k", b"vv"), "c810 00000001 00000002 6b 7676"),
    (protocol.put(b"", b""), "c810 00000000 00000000"),
    (protocol.putkeep(b"k", b"v"), "c811 00000001 00000001 6b 76"),
    (protocol.putcat(b"k", b"v"), "c812 00000001 00000001 6b 76"),
    (protocol.out(b"kk"), "c820 00000002 6b6b"),
    (protocol.get(b"kk"), "c830 00000002 6b6b"),
    (protocol.mget([]), "c831 00000000"),
    (protocol.mget([b"a", b""]), "c831 00000002 00000001 61 00000000"),
    (protocol.vsiz(b"k"), "c838 00000001 6b"),
    (protocol.iterinit(), "c850"),
    (protocol.iternext(), "c851"),
    (protocol.fwmkeys(b"kv"), "c858 00000002 ffffffff 6b76"),
    (protocol.fwmkeys(b"kv", 5), "c858 00000002 00000005 6b76"),
    (protocol.addint(b"k", -2), "c860 00000001 fffffffe 6b"),
    (
        protocol.adddouble(b"k", -5),
        "c861 00000001 fffffffffffffffb 0000000000000000 6b",
    ),
    (protocol.sync(), "c870"),
    (protocol.rnum(), "c880"),
    (protocol.size(), "c881"),
    (protocol.stat(), "c888"),
    (
        protocol.misc(b"getlist", [b"d", b"q"]),
        "c890 00000007 00000000 00000002 6765746c697374 00000001 64 00000001 71",
    ),
    (protocol.misc(b"sync", [], 1), "c890 00000004 00000001 00000000 73796e63"),
]


@pytest.mark.parametrize(("made", "wanted"), REQUESTS)
def test_a_request_is_what_the_server_reads(made: bytes, wanted: str) -> None:
    assert made.hex() == wanted.replace(" ", "")


REPLIES: list[tuple[Any, str, Any]] = [
    (protocol.read_code, "00", True),
    (protocol.read_code, "01", False),
    (protocol.read_value, "01", None),
    (protocol.read_value, "00 00000000", b""),
    (protocol.read_value, "00 00000003 616263", b"abc"),
    (protocol.read_size, "00 00000007", 7),
    (protocol.read_size, "01", None),
    (protocol.read_int, "00 fffffffe", -2),
    (protocol.read_int, "01", None),
    (protocol.read_number, "00 0000000100000002", 2**32 + 2),
    (protocol.read_number, "01", None),
    (protocol.read_list, "00 00000000", []),
    (protocol.read_list, "00 00000002 00000001 61 00000000", [b"a", b""]),
    (protocol.read_list, "01 00000000", None),
    (protocol.read_pairs, "00 00000000", []),
    (
        protocol.read_pairs,
        "00 00000002 00000001 00000008 64 00000000000014c0 00000000 00000000",
        [(b"d", bytes.fromhex("00000000000014c0")), (b"", b"")],
    ),
    (
        lambda: protocol.read_sums(4),
        (
            "00 fffffffffffffffb 0000000000000000 01 01 00 000000000000002a "
            "0000000000000000"
        ),
        [-5, None, None, 42],
    ),
    (lambda: protocol.read_sums(1), "01", [None]),
]


def whole(read: Any) -> Steps[Any]:
    """That reply as an operation of its own."""
    yield b"?"
    return (yield from read())


@pytest.mark.parametrize(("read", "sent", "wanted"), REPLIES)
@pytest.mark.parametrize("piece", [1, 2, 5, 1000])
def test_a_reply_is_the_same_however_it_is_cut(
    read: Any, sent: str, wanted: Any, piece: int
) -> None:
    data = bytes.fromhex(sent.replace(" ", ""))
    talk = Conversation()
    assert talk.start(whole(read)) == b"?"
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    for each in pieces[:-1]:
        assert talk.feed(each) is PENDING
    assert talk.feed(pieces[-1]) == wanted


@pytest.mark.parametrize(("read", "sent", "wanted"), REPLIES)
def test_what_comes_after_a_reply_is_a_failure(
    read: Any, sent: str, wanted: Any
) -> None:
    talk = Conversation()
    talk.start(whole(read))
    with pytest.raises(OperationFailed) as caught:
        talk.feed(bytes.fromhex(sent.replace(" ", "")) + b"\0")
    assert (caught.value.kind, caught.value.broken) == ("protocol", True)


@pytest.mark.parametrize("read", [read for read, _, _ in REPLIES])
@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b"\2", b"\xff"])
def test_another_protocol_is_a_failure(read: Any, data: bytes) -> None:
    talk = Conversation()
    talk.start(whole(read))
    with pytest.raises(OperationFailed) as caught:
        talk.feed(data)
    assert (caught.value.kind, caught.value.broken) == ("protocol", True)


@pytest.mark.parametrize(
    ("read", "sent"),
    [
        (protocol.read_value, "00 80000000"),
        (protocol.read_size, "00 ffffffff"),
        (protocol.read_list, "00 ffffffff"),
        (protocol.read_list, "00 00000001 80000000"),
        (protocol.read_pairs, "00 00000001 00000001 ffffffff"),
        (lambda: protocol.read_sums(1), "00 0000000000000001 0000000000000001"),
        (lambda: protocol.read_sums(1), "00 8000000000000000 8000000000000000"),
    ],
)
def test_a_length_or_a_number_that_cannot_be_is_a_failure(read: Any, sent: str) -> None:
    talk = Conversation()
    talk.start(whole(read))
    with pytest.raises(OperationFailed) as caught:
        talk.feed(bytes.fromhex(sent.replace(" ", "")))
    assert (caught.value.kind, caught.value.broken) == ("protocol", True)


def test_stat_is_lines_of_name_and_value() -> None:
    text = b"version\t1.1.41\npath\t/tmp/a b.tch\nodd\nempty\t\nbad\t\xff\n"
    assert protocol.stat_fields(text) == {
        "version": "1.1.41",
        "path": "/tmp/a b.tch",
        "empty": "",
        "bad": "\ufffd",
    }


def test_a_batch_is_never_larger_than_asked_unless_one_alone_is() -> None:
    """Else a server that blocks on its replies, and its client, wait for ever."""
    sizes = [10, 20, 70, 200, 1, 99, 1, 100, 101]
    made = batches(((bytes(size), size) for size in sizes), 100)
    assert [[size for _, size in batch] for batch in made] == [
        [10, 20, 70],
        [200],
        [1, 99],
        [1],
        [100],
        [101],
    ]


# Whole operations: what is sent, round by round, and what comes back.

KEY = b"kvtui:t:k"
INDEX = b"kvtui:t:k names"


def sum_of(value: int) -> bytes:
    """The reply to an adddouble."""
    return b"\0" + struct.pack(">qq", value, 0)


def sized(value: bytes) -> bytes:
    """A value as replies hold it."""
    return struct.pack(">I", len(value)) + value


def kept(*pairs: tuple[bytes, float]) -> bytes:
    """The reply to an mget of counters, from a little-endian server."""
    words = [b"\0", struct.pack(">I", len(pairs))]
    for name, number in pairs:
        words += [struct.pack(">II", len(name), 8), name, struct.pack("<d", number)]
    return b"".join(words)


def performed(
    operation: Operation, rounds: list[tuple[bytes, bytes]], piece: int
) -> Any:
    """Its reply, where each request was as written and answered in pieces."""
    wire = TokyoWire("nowhere", "<")
    sent = wire.encode(operation)
    for number, (wanted, answer) in enumerate(rounds):
        assert sent == wanted
        for at in range(0, len(answer), piece):
            assert not wire.more
            reply = wire.feed(answer[at : at + piece])
            last = at + piece >= len(answer)
            assert (reply is PENDING) is not (last and number == len(rounds) - 1)
        sent, wire.more = wire.more, b""
    assert not sent
    return reply


def counter(name: bytes, part: bytes = b"+") -> bytes:
    return KEY + b" " + part + name


ROUNDS: list[tuple[Operation, list[tuple[bytes, bytes]], Any]] = [
    (Get(KEY), [(protocol.get(KEY), b"\0" + sized(b"value"))], b"value"),
    (Get(KEY), [(protocol.get(KEY), b"\1")], None),
    (Put(KEY, b"v"), [(protocol.put(KEY, b"v"), b"\0")], None),
    (
        Add(KEY, ((b"a", 1), (b"b", 2))),  # a is new, b is not
        [
            (
                protocol.adddouble(counter(b"a"), 1)
                + protocol.adddouble(counter(b"b"), 2),
                sum_of(1) + sum_of(7),
            ),
            (protocol.putcat(INDEX, sized(b"+a")), b"\0"),
        ],
        None,
    ),
    (
        Add(KEY, ((b"a", 2**40 + 1),)),
        [
            (
                protocol.adddouble(counter(b"a", b"^"), 256)
                + protocol.adddouble(counter(b"a"), 1),
                sum_of(257) + sum_of(5),
            )
        ],
        None,
    ),
    (Add(KEY, ()), [(protocol.vsiz(INDEX), b"\1")], None),
    (Counts(KEY), [(protocol.get(INDEX), b"\1")], None),
    (
        Counts(KEY),  # the index names a twice, b is in two parts
        [
            (
                protocol.get(INDEX),
                b"\0" + sized(b"".join(map(sized, (b"+a", b"+a", b"^b")))),
            ),
            (
                protocol.mget([counter(b"a"), counter(b"b", b"^")]),
                kept((counter(b"b", b"^"), -2.0), (counter(b"a"), 3.0)),
            ),
        ],
        {b"a": 3, b"b": -(2**33)},
    ),
    (Delete(KEY), [(protocol.out(KEY) + protocol.get(INDEX), b"\0\1")], True),
    (Delete(KEY), [(protocol.out(KEY) + protocol.get(INDEX), b"\1\1")], False),
    (
        Delete(KEY),
        [
            (
                protocol.out(KEY) + protocol.get(INDEX),
                b"\1\0" + sized(sized(b"+a")),
            ),
            (protocol.out(counter(b"a")) + protocol.out(INDEX), b"\0\0"),
        ],
        True,
    ),
]


@pytest.mark.parametrize(("operation", "rounds", "wanted"), ROUNDS)
@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_an_operation_goes_round_by_round(
    operation: Operation, rounds: list[tuple[bytes, bytes]], wanted: Any, piece: int
) -> None:
    assert performed(operation, rounds, piece) == wanted


def failure(operation: Operation, *answers: bytes) -> OperationFailed:
    """What it fails with, answered so."""
    wire = TokyoWire("/tmp/t.sock", "<")
    try:
        wire.encode(operation)
        for answer in answers:
            wire.feed(answer)
    except OperationFailed as error:
        return error
    raise AssertionError("it did not fail")


def test_a_write_that_was_not_done_is_a_failure_that_names_the_store() -> None:
    """062: also when it begins in the middle, as at a full file."""
    for operation, answers in [
        (Put(KEY, b"v"), [b"\1"]),
        (Add(KEY, ((b"a", 1),)), [b"\1"]),
        (Add(KEY, ((b"a", 1), (b"b", 1))), [sum_of(3) + b"\1"]),
        (Add(KEY, ((b"a", 1),)), [sum_of(1), b"\1"]),  # the index
    ]:
        error = failure(operation, *answers)
        assert (error.kind, error.broken) == ("server-error", False)
        assert "/tmp/t.sock" in error.message
        assert "opts=l" in (error.hint or "")


def test_a_counter_that_a_double_does_not_hold_exactly_is_a_failure() -> None:
    """The server's sums are doubles: 2^53 + 1 would silently be 2^53."""
    for total in (2**53, -(2**53), 2**62):
        error = failure(Add(KEY, ((b"a", 1),)), sum_of(total))
        assert (error.kind, error.broken) == ("server-error", False)
    index = b"\0" + sized(sized(b"+a"))
    for number in (2.0**53, 0.5, float("nan"), float("inf")):
        error = failure(Counts(KEY), index, kept((counter(b"a"), number)))
        assert error.kind == "server-error"
    error = failure(Add(KEY, ((b"a", 2**90),)))
    assert (error.kind, error.broken) == ("too-large", False)


@pytest.mark.parametrize(
    "index", [b"\0", sized(b"+a")[:-1], sized(b""), sized(b"a"), b"\xff" * 9]
)
def test_an_index_of_somebody_else_is_a_failure(index: bytes) -> None:
    for operation in (Counts(KEY), Delete(KEY)):
        start = b"\0" if isinstance(operation, Delete) else b""
        error = failure(operation, start + b"\0" + sized(index))
        assert (error.kind, error.broken) == ("server-error", False)


def test_a_counter_that_nobody_asked_for_is_a_failure() -> None:
    index = b"\0" + sized(sized(b"+a"))
    assert failure(Counts(KEY), index, kept((counter(b"b"), 1.0))).broken


@pytest.mark.parametrize(
    ("operation", "answer"),
    [
        (Add(KEY, ((b"a", 1),)), sum_of(1) + b"\0"),
        (Counts(KEY), b"\0" + sized(sized(b"+a")) + b"\0"),
        (Delete(KEY), b"\0\0" + sized(sized(b"+a")) + b"\0\0"),
    ],
)
def test_an_answer_before_its_question_is_a_failure(
    operation: Operation, answer: bytes
) -> None:
    """It came before the second round was sent."""
    error = failure(operation, answer)
    assert (error.kind, error.broken) == ("protocol", True)


@pytest.mark.parametrize("operation", [Get(KEY), Put(KEY, b"v")])
@pytest.mark.parametrize(
    "answer", [b"\0\0", b"\1\1", b"HTTP/1.1", b"\0" + sized(b"v") + b"\0"]
)
def test_what_is_no_reply_to_a_get_or_a_put_is_a_failure(
    operation: Operation, answer: bytes
) -> None:
    if isinstance(operation, Get) and answer == b"\0\0":
        return  # the beginning of a length
    error = failure(operation, answer)
    assert (error.kind, error.broken) == ("protocol", True)


def test_a_wire_goes_on_after_each_failure_that_left_nothing_behind() -> None:
    wire = TokyoWire("nowhere", "<")
    wire.encode(Put(KEY, b"v"))
    with pytest.raises(OperationFailed):
        wire.feed(b"\1")
    wire.encode(Add(KEY, ((b"a", 1), (b"b", 1))))
    with pytest.raises(OperationFailed):
        wire.feed(b"\1" + sum_of(4))
    wire.encode(Get(KEY))
    assert wire.feed(b"\0" + sized(b"v")) == b"v"


def test_more_than_the_server_takes_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would close the connection without a word."""
    monkeypatch.setattr("kvtui.stores.tokyo.wire.ARGUMENT_LIMIT_BYTES", 100)
    TokyoWire("nowhere", "<").encode(Put(KEY, bytes(100)))
    for operation in (Put(KEY, bytes(101)), Add(KEY, ((bytes(100), 1),))):
        error = failure(operation)
        assert (error.kind, error.broken) == ("too-large", False)
