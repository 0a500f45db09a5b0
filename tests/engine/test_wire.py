"""The wire loop: many clients in one thread, and nothing lost whatever comes."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest

from kvtui.engine import wire
from kvtui.engine.control import Control, StoreGone
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.operations import (
    Add,
    Client,
    Counts,
    Delete,
    Get,
    Put,
    Scan,
    key,
)
from kvtui.stores.redis import RedisStore, RedisWire
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import Wire
from tests.engine.sums import InThread, Sums, asking, endless, sums
from tests.stores import fakes
from tests.stores.fakes import Fake
from tests.waiting import until


class Session:
    """A recorder, a control and a loop over one store."""

    def __init__(
        self, settings: dict[str, Any], clients: int, timeout_s: float = 60
    ) -> None:
        self.store = RedisStore(settings)
        self.recorder = Recorder(clients)
        self.control = Control()
        self.timeout_s = timeout_s
        self.connected = 0

    def connect(self) -> tuple[socket.socket, Wire]:
        """Connect anew; counted."""
        made = self.store.wire()
        self.connected += 1
        return made

    def run(self, clients: Sequence[Client]) -> dict[str, int]:
        """Drive the clients to their end."""
        return wire.run(
            clients,
            [self.store.wire() for _ in clients],
            self.connect,
            self.recorder,
            self.control,
            self.timeout_s,
        )

    def sums(self) -> Sums:
        """All that was counted, proven to add up."""
        return sums(self.recorder)


def test_every_kind_of_operation_is_counted(redis_unix: PrivateServer) -> None:
    session, replies = Session(redis_unix.connect_settings(), 1), list[Any]()
    k, c, missing = (key("test", name) for name in (b"k", b"c", b"missing"))
    operations = [
        Get(k),
        Put(k, b"1234"),
        Get(k),
        Add(c, ((b"a", 2), (b"b", 3))),
        Counts(c),
        Counts(missing),
        Delete(k),
        Delete(k),
        Delete(c),
    ]
    assert session.run([asking(operations, replies)]) == {"asked": 9, "clients": 1}
    counters = {b"a": 2, b"b": 3}
    assert replies == [None, None, b"1234", None, counters, None, True, False, True]
    taken = session.recorder.take()
    assert {label: (e.ok, e.miss) for label, e in taken.operations.items()} == {
        "get": (1, 1),
        "put": (1, 0),
        "add": (1, 0),
        "counts": (1, 1),
        "delete": (3, 0),
    }
    assert session.recorder.attempted == session.recorder.finished == 9
    assert (taken.read_bytes, taken.written_bytes) == (4, 4)


@pytest.mark.parametrize("clients", [1, 3, 50])
def test_operations_of_all_clients_add_up_and_no_values_are_crossed(
    redis_unix: PrivateServer, clients: int
) -> None:
    def writer(number: int) -> Client:
        for turn in range(40):
            where = key("test", b"%d/%d" % (number, turn % 3))
            value = b"%d %d" % (number, turn) * (1 + turn * 50)
            yield Put(where, value)
            assert (yield Get(where)) == value
        for turn in range(3):
            assert (yield Delete(key("test", b"%d/%d" % (number, turn)))) is True
        return {"clients": 1}

    session = Session(redis_unix.connect_settings(), clients)
    assert session.run([writer(n) for n in range(clients)]) == {"clients": clients}
    assert session.sums().ok == clients * 83


def test_no_clients_and_no_operations_end_at_once(redis_unix: PrivateServer) -> None:
    """064: one operation and a hundred clients."""
    session = Session(redis_unix.connect_settings(), 100)
    assert session.run([]) == {}
    session = Session(redis_unix.connect_settings(), 100)
    clients = [asking([]) for _ in range(99)] + [asking([Get(b"k")])]
    assert session.run(clients) == {"asked": 1, "clients": 100}
    assert session.sums().attempted == 1


def test_ten_megabytes_go_in_parts_while_others_go_on(
    redis_unix: PrivateServer,
) -> None:
    value, where = bytes(10_000_000), key("test", b"large")
    session, replies = Session(redis_unix.connect_settings(), 3), list[Any]()
    session.run(
        [
            asking([Put(where, value), Get(where), Delete(where)], replies),
            asking([Get(key("test", b"x"))] * 200),
            asking([Get(key("test", b"y"))] * 200),
        ]
    )
    assert replies[1] == value
    found = session.sums()
    assert (found.attempted, found.miss) == (403, 400)
    assert (found.read_bytes, found.written_bytes) == (10_000_000, 10_000_000)


def test_a_put_larger_than_the_socket_takes_at_once_is_sent_whole() -> None:
    """A server that reads slowly gets every byte."""
    value = bytes(range(256)) * 20_000
    with Fake(fakes.good) as fake:
        session = Session(fake.settings, 2)
        session.run([asking([Put(b"k", value)]), asking([Get(b"k")] * 5)])
        assert session.sums().ok == 6
        (put,) = [each for each in fake.received if each[0] == b"SET"]
        assert put[2] == value


def test_replies_in_pieces_of_one_byte() -> None:
    with Fake(fakes.one_byte_at_a_time) as fake:
        session, replies = Session(fake.settings, 2), list[Any]()
        operations = [
            Get(b"k"),
            Put(b"k", b"x"),
            Add(b"k", ((b"a", 1), (b"b", 1))),
            Counts(b"k"),
            Delete(b"k"),
        ]
        session.run([asking(operations, replies), asking([Get(b"k")] * 3)])
        assert replies == [b"value", None, None, {b"a": 1}, True]
        assert session.sums().ok == 8


def test_an_error_reply_is_raised_at_the_yield_and_the_connection_goes_on() -> None:
    answers = [fakes.good, fakes.refusing, fakes.good]
    with Fake(fakes.scripted(answers)) as fake:
        session, replies = Session(fake.settings, 1), list[Any]()
        session.run([asking([Get(b"k")] * 4, replies)])
        assert isinstance(replies[1], OperationFailed)
        assert "NOPERM" in replies[1].message
        found = session.sums()
        assert (found.ok, found.failed) == (3, {"server-error": 1})
        assert session.connected == found.reconnects == 0


def test_bytes_are_counted_once_they_are_acknowledged() -> None:
    answers = [fakes.good, fakes.refusing, fakes.closing]
    with Fake(fakes.scripted(answers)) as fake:
        session = Session(fake.settings, 1)
        session.run([asking([Put(b"k", b"123")] * 4)])
        found = session.sums()
        assert (found.ok, found.failures, found.written_bytes) == (2, 2, 6)


def test_operations_that_the_protocol_has_not_are_failures_however_many() -> None:
    with Fake(fakes.good) as fake:
        session, replies = Session(fake.settings, 1), list[Any]()
        operations = [Get(b"k"), *[Scan(b"k", 5)] * 5000, Get(b"k")]
        session.run([asking(operations, replies)])
        assert {each.kind for each in replies[1:-1]} == {"unsupported"}
        found = session.sums()
        assert (found.ok, found.failed) == (2, {"unsupported": 5000})
        assert len(fake.received) == 2


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (fakes.closing, "disconnected"),
        (fakes.resetting, "disconnected"),
        (fakes.cutting, "disconnected"),
        (fakes.garbage, "protocol"),
        (fakes.wrong_type, "protocol"),
    ],
)
def test_a_broken_connection_is_a_failure_and_then_a_new_one(
    way: fakes.Answer, kind: str
) -> None:
    answers = [fakes.good, way, fakes.good, way]
    with Fake(fakes.scripted(answers), transport="tcp") as fake:
        session, replies = Session(fake.settings, 1), list[Any]()
        session.run([asking([Get(b"k")] * 6, replies)])
        good = [each for each in replies if not isinstance(each, OperationFailed)]
        assert good == [b"value"] * 4
        found = session.sums()
        assert (found.ok, found.failed) == (4, {kind: 2})
        assert session.connected == found.reconnects == 2
        # Each was sent once: a failed operation is not sent again in secret.
        assert len(fake.received) == 6


def test_a_server_that_answers_twice_shifts_no_answers() -> None:
    def answer(conversation: fakes.Conversation, command: fakes.Command) -> None:
        mine = b"$%d\r\n%b\r\n" % (len(command[1]), command[1])
        conversation.send(mine + (mine if command[1].endswith(b"3") else b""))

    with Fake(answer) as fake:
        session, replies = Session(fake.settings, 1), list[Any]()
        names = [b"%d" % number for number in range(30)]
        session.run([asking([Get(name) for name in names], replies)])
        wrong = [
            (name, reply)
            for name, reply in zip(names, replies, strict=True)
            if not isinstance(reply, OperationFailed) and reply != name
        ]
        assert wrong == []
        assert session.sums().failures >= 3


def test_a_silent_server_times_out_and_others_go_on() -> None:
    """022: the silent operation is one failure, sent once."""

    def answer(conversation: fakes.Conversation, command: fakes.Command) -> None:
        if command[1] == b"black hole":
            fakes.silent(conversation, command)
        fakes.good(conversation, command)

    with Fake(answer) as fake:
        session, replies = Session(fake.settings, 2, timeout_s=0.2), list[Any]()
        session.run(
            [
                asking([Get(b"black hole"), Get(b"k")], replies),
                asking([Get(b"k")] * 300),
            ]
        )
        assert replies[0].kind == "timeout"
        assert replies[1] == b"value"
        found = session.sums()
        assert (found.ok, found.failed, found.reconnects) == (301, {"timeout": 1}, 1)
        names = [command[1] for command in fake.received]
        assert names.count(b"black hole") == 1


def test_a_store_that_stays_away_ends_the_trial_after_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(wire, "FIRST_BACK_OFF_S", 0.01)
    with Fake(fakes.closing) as fake:
        session = Session(fake.settings, 3)
        tries: list[float] = []

        def away() -> tuple[socket.socket, Wire]:
            tries.append(time.monotonic())
            raise StoreUnavailable("nobody at this address", hint="start it")

        session.connect = away  # type: ignore[method-assign]
        with pytest.raises(StoreGone) as caught:
            session.run([asking([Get(b"k")] * 5) for _ in range(3)])
        assert "nobody at this address" in caught.value.message
        assert caught.value.hint == "start it"
        found = session.sums()
        assert found.attempted == 3
        assert found.failures + found.unfinished == 3
        assert len(tries) > 2


def test_a_server_that_refuses_new_connections_for_a_while_is_waited_for() -> None:
    """047: back-off, and then the rest of the operations."""
    with Fake(fakes.scripted([fakes.closing] * 4)) as fake:
        session, refused = Session(fake.settings, 4), [0]
        connect = session.connect

        def sometimes() -> tuple[socket.socket, Wire]:
            if refused[0] < 5:
                refused[0] += 1
                raise StoreUnavailable("not yet")
            return connect()

        session.connect = sometimes  # type: ignore[method-assign]
        session.run([asking([Get(b"k")] * 10) for _ in range(4)])
        found = session.sums()
        assert (found.ok, found.failed) == (36, {"disconnected": 4})
        assert found.reconnects == 4
        assert refused == [5]


def test_others_go_on_while_one_connection_is_made_anew() -> None:
    """A server that accepts and says nothing blocks whoever connects for seconds."""
    over = Event()

    def answer(conversation: fakes.Conversation, command: fakes.Command) -> None:
        if command[1] == b"cut" and not over.is_set():
            fakes.closing(conversation, command)
        fakes.good(conversation, command)

    def busy() -> Client:
        for _ in range(500):
            yield Get(b"k")
        over.set()
        return None

    with Fake(answer) as fake:
        session, replies = Session(fake.settings, 2), list[Any]()
        connect = session.connect

        def frozen() -> tuple[socket.socket, Wire]:
            if not over.wait(30):
                raise AssertionError("the other client had to wait")
            return connect()

        session.connect = frozen  # type: ignore[method-assign]
        session.run([asking([Get(b"cut"), Get(b"k")], replies), busy()])
        assert replies[0].kind == "disconnected"
        assert replies[1] == b"value"
        found = session.sums()
        assert (found.ok, found.failed, found.reconnects) == (
            501,
            {"disconnected": 1},
            1,
        )


def test_a_stop_does_not_wait_for_a_connection_that_is_being_made() -> None:
    asked, over = Event(), Event()
    left, right = socket.socketpair()

    def frozen() -> tuple[socket.socket, Wire]:
        asked.set()
        over.wait(30)
        return left, RedisWire()

    with Fake(fakes.closing) as fake, right:
        session = Session(fake.settings, 1)
        session.connect = frozen  # type: ignore[method-assign]
        loop = InThread(lambda: session.run([endless(lambda n: Get(b"k"))]))
        assert asked.wait(30)
        session.control.stop()
        loop.result(20)
        assert not over.is_set()
        assert session.sums().failed == {"disconnected": 1}
        over.set()
        # What nobody wanted any more is closed.
        right.settimeout(30)
        assert right.recv(1) == b""


def test_an_adapter_that_breaks_while_connecting_ends_the_trial() -> None:
    def broken() -> tuple[socket.socket, Wire]:
        raise ZeroDivisionError

    with Fake(fakes.closing) as fake:
        session = Session(fake.settings, 2)
        session.connect = broken  # type: ignore[method-assign]
        with pytest.raises(ZeroDivisionError):
            session.run([asking([Get(b"k")] * 3) for _ in range(2)])
        session.sums()


def test_a_full_store_ends_the_trial() -> None:
    def full(conversation: fakes.Conversation, command: fakes.Command) -> None:
        conversation.send(
            b"-OOM command not allowed when used memory > 'maxmemory'\r\n"
        )

    answers = [fakes.good] * 5
    with Fake(fakes.scripted(answers, then=full)) as fake:
        session = Session(fake.settings, 3)
        with pytest.raises(StoreGone) as caught:
            session.run([asking([Put(b"k", b"x")] * 100) for _ in range(3)])
        assert "OOM" in caught.value.message
        found = session.sums()
        # What the other two clients wait for then is unfinished.
        assert found.failed == {"no-space": 1}
        assert found.ok <= 5
        assert found.unfinished <= 2


@pytest.mark.parametrize("clients", [1, 20])
def test_a_stop_ends_every_client_after_its_operation(
    redis_unix: PrivateServer, clients: int
) -> None:
    session = Session(redis_unix.connect_settings(), clients)
    where = key("test", b"k")
    loop = InThread(
        lambda: session.run([endless(lambda n: Get(where)) for _ in range(clients)])
    )
    until(lambda: session.recorder.attempted > 100, "it goes on")
    session.control.stop()
    assert loop.result(10) == {}
    found = session.sums()
    assert found.attempted == found.miss
    assert found.unfinished == 0


def test_a_stop_before_the_start_asks_nothing() -> None:
    with Fake(fakes.good) as fake:
        session = Session(fake.settings, 5)
        session.control.stop()
        session.run([endless(lambda n: Get(b"k")) for _ in range(5)])
        assert session.sums().attempted == 0
        assert fake.received == []


def test_what_a_silent_server_owes_at_a_stop_is_unfinished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wire, "STOP_GRACE_NS", 100_000_000)
    with Fake(fakes.scripted([fakes.good] * 7, then=fakes.silent)) as fake:
        session = Session(fake.settings, 3)
        loop = InThread(
            lambda: session.run([endless(lambda n: Get(b"k")) for _ in range(3)])
        )
        until(lambda: len(fake.received) == 10, "each client waits for ever")
        assert session.recorder.oldest_waiting_ns(time.perf_counter_ns) > 0
        session.control.stop()
        loop.result(10)
        found = session.sums()
        assert (found.attempted, found.ok, found.unfinished) == (10, 7, 3)
        assert session.recorder.oldest_unfinished_ns > 100_000_000


def test_a_stop_while_the_store_is_away_ends_at_once() -> None:
    with Fake(fakes.closing) as fake:
        session = Session(fake.settings, 3)

        def away() -> tuple[socket.socket, Wire]:
            raise StoreUnavailable("away")

        session.connect = away  # type: ignore[method-assign]
        loop = InThread(
            lambda: session.run([endless(lambda n: Get(b"k")) for _ in range(3)])
        )
        until(lambda: len(fake.received) == 3, "all have lost their connection")
        session.control.stop()
        loop.result(10)
        assert session.sums().failed == {"disconnected": 3}


@pytest.mark.parametrize("turns", [0, 1, 50])
def test_a_client_that_breaks_ends_the_trial_and_still_adds_up(turns: int) -> None:
    def wrong() -> Client:
        for _ in range(turns):
            yield Get(b"k")
        raise ZeroDivisionError

    with Fake(fakes.good) as fake:
        session = Session(fake.settings, 4)
        clients = [endless(lambda n: Get(b"k")) for _ in range(3)]
        with pytest.raises(ZeroDivisionError):
            session.run([clients[0], wrong(), clients[1], clients[2]])
        found = session.sums()
        assert found.attempted >= turns


def test_a_client_that_does_not_want_to_hear_of_failures_ends_the_trial() -> None:
    """A failed operation that nobody catches is the trial's end, not a hang."""

    def deaf() -> Client:
        while True:
            yield Get(b"k")

    with Fake(fakes.refusing) as fake:
        session = Session(fake.settings, 2)
        with pytest.raises(OperationFailed):
            session.run([deaf(), asking([Get(b"k")] * 3)])
        assert session.sums().failures >= 1


def test_connections_are_closed_whatever_happens(redis_unix: PrivateServer) -> None:
    admin = RedisStore(redis_unix.connect_settings())
    admin.open()
    try:
        session = Session(redis_unix.connect_settings(), 10)
        session.run([asking([Get(b"k")] * 3) for _ in range(10)])
        until(
            lambda: admin._client.info("clients")["connected_clients"] == 1,
            "only this connection is left",
        )
    finally:
        admin.close()


def test_a_clock_that_repeats_itself_gives_no_negative_latency(
    monkeypatch: pytest.MonkeyPatch, redis_unix: PrivateServer
) -> None:
    """082."""
    monkeypatch.setattr(wire, "perf_counter_ns", lambda: 12_345)
    session = Session(redis_unix.connect_settings(), 3)
    session.run([asking([Get(b"k")] * 20) for _ in range(3)])
    assert session.recorder.take().operations["get"].miss == 60
