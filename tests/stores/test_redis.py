"""What only a Redis server, or a fake one, can do to its clients."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import msgspec
import pytest
import redis

from kvtui.errors import (
    ConfigError,
    KvtuiError,
    OperationFailed,
    StoreError,
    StoreUnavailable,
)
from kvtui.runs.plan import StorePlan
from kvtui.stores.operations import Add, Counts, Delete, Get, Put, Scan, key
from kvtui.stores.redis import RedisStore, server_error
from kvtui.stores.servers import PrivateServer
from tests.stores import fakes
from tests.stores.fakes import Fake
from tests.stores.talking import Calls, OnTheWire

SECRET = "S3cr3t-märker p@w/x#y"

Talker = Callable[[dict[str, Any]], Calls]


@pytest.fixture(params=["driver", "wire"])
def talker(request: pytest.FixtureRequest) -> Iterator[Talker]:
    """Makes a connected client of that way."""
    made: list[Calls] = []

    def make(settings: dict[str, Any]) -> Calls:
        store = RedisStore(settings | {"client": request.param})
        client = OnTheWire(store) if request.param == "wire" else Calls(store)
        made.append(client)
        client.open()
        return client

    yield make
    for each in made:
        each.close()


def raw(server: PrivateServer, **more: Any) -> Any:
    """A plain redis-py client, as a stranger would use it."""
    settings = server.connect_settings()
    if "path" in settings:
        return redis.Redis(unix_socket_path=settings["path"], **more)
    return redis.Redis(host=settings["host"], port=settings["port"], **more)


def fails(client: Calls, kind: str, *, broken: bool, operation: Any = None) -> str:
    """The text of the failure that an operation must end in."""
    with pytest.raises(OperationFailed) as caught:
        client.ask(operation or Get(b"k"))
    assert caught.value.kind == kind, caught.value
    assert caught.value.broken is broken
    return caught.value.message


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_silent_server_times_out_and_the_command_went_once(
    talker: Talker, transport: str
) -> None:
    """022: no hidden retry runs a command a second time."""
    with Fake(fakes.silent, transport=transport) as fake:
        client = talker(fake.settings | {"timeout_s": 0.3})
        fails(client, "timeout", broken=True)
        client.close()
        assert fake.received == [[b"GET", b"k"]]
        add = Add(b"k", ((b"a", 1), (b"b", 2)))
        client.open()
        fails(client, "timeout", broken=True, operation=add)
        client.close()
        assert [command[0] for command in fake.received[1:]].count(b"HINCRBY") <= 2


@pytest.mark.parametrize("way", [fakes.closing, fakes.resetting, fakes.cutting])
def test_a_dropped_connection_is_a_failure_and_the_command_went_once(
    talker: Talker, way: fakes.Answer
) -> None:
    with Fake(way, transport="tcp") as fake:
        client = talker(fake.settings | {"timeout_s": 20})
        fails(client, "disconnected", broken=True)
        client.close()
        fake.answer = fakes.good
        client.open()
        assert client.ask(Get(b"k")) == b"value"
        client.close()
        assert fake.received == [[b"GET", b"k"], [b"GET", b"k"]]


def test_the_protocol_is_pinned_and_told(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    """023: RESP2, whatever the driver's default is, and in what is kept of a run."""
    stranger = raw(redis_unix)
    before = {each["id"] for each in stranger.client_list()}
    client = talker(redis_unix.connect_settings())
    assert client.ask(Get(b"kvtui:test:x")) is None
    ours = [each for each in stranger.client_list() if each["id"] not in before]
    assert ours
    assert {each.get("resp", "2") for each in ours} == {"2"}
    client.store.open()
    assert client.store.info().details["protocol"] == "RESP2"
    client.store.close()
    stranger.close()


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "decoded"])
def test_a_driver_of_other_defaults_answers_the_same(
    talker: Talker,
    redis_unix: PrivateServer,
    monkeypatch: pytest.MonkeyPatch,
    protocol: int,
    decode: bool,
) -> None:
    """023: what a version of redis-py takes where nothing is said."""
    made: Any = redis.UnixDomainSocketConnection.__init__
    others = {"protocol": protocol, "decode_responses": decode}
    asked: list[dict[str, Any]] = []

    def otherwise(connection: Any, **given: Any) -> None:
        asked.append(others | given)
        made(connection, **others | given)

    monkeypatch.setattr(redis.UnixDomainSocketConnection, "__init__", otherwise)
    client = talker(redis_unix.connect_settings())
    where, counter = key("test", b"\xff bytes"), key("test", b"counter")
    client.ask(Put(where, b"\x00\xff"))
    assert client.ask(Get(where)) == b"\x00\xff"
    client.ask(Add(counter, ((b"\xff", 2), (b"b", 1))))
    assert client.ask(Counts(counter)) == {b"\xff": 2, b"b": 1}
    assert client.ask(Get(key("test", b"missing"))) is None
    client.store.open()
    assert client.store.info().version.startswith(("Redis", "Valkey"))
    assert client.store.count("test") == 2
    assert client.ask(Delete(where)) is True
    assert client.store.wipe("test") == 1
    client.store.close()
    assert asked
    assert {each["protocol"] for each in asked} == {2}


def test_a_server_that_knows_only_resp2_is_spoken_to(talker: Talker) -> None:
    """023: neither HELLO nor CLIENT, which came with Redis 6 and 2.6."""
    with Fake(fakes.good, unknown=frozenset({b"HELLO", b"CLIENT"})) as fake:
        client = talker(fake.settings)
        assert client.ask(Get(b"k")) == b"value"
        assert client.ask(Put(b"k", b"x")) is None
        assert client.ask(Add(b"k", ((b"a", 1), (b"b", 2)))) is None
        assert client.ask(Counts(b"k")) == {b"a": 1}
        assert client.ask(Delete(b"k")) is True


def test_an_error_reply_keeps_the_code_that_the_driver_takes_off() -> None:
    """023: redis-py before 8 does not keep it beside the text."""
    known: Any = redis.exceptions
    for error, text in (
        (known.NoPermissionError("may not"), "redis: NOPERM may not"),
        (known.OutOfMemoryError("full"), "redis: OOM full"),
        (redis.ResponseError("unknown command"), "redis: ERR unknown command"),
        (redis.ResponseError("WRONGTYPE no"), "redis: WRONGTYPE no"),
        (redis.ResponseError("MISCONF no"), "redis: MISCONF no"),
    ):
        assert server_error(error).message == text


def test_a_frozen_server_runs_an_increment_once(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    """022 with a real server: a timeout is a failure, and nothing was repeated."""
    where = key("test", b"frozen")
    stranger = raw(redis_unix)
    stranger.delete(where)
    client = talker(redis_unix.connect_settings() | {"timeout_s": 0.3})
    assert redis_unix._process is not None
    redis_unix._process.send_signal(signal.SIGSTOP)
    try:
        fails(client, "timeout", broken=True, operation=Add(where, ((b"n", 1),)))
    finally:
        redis_unix._process.send_signal(signal.SIGCONT)
    client.close()
    # A command whose connection is gone may be run, or dropped; never run twice.
    client.open()
    client.ask(Add(where, ((b"n", 10),)))
    assert int(stranger.hgetall(where)[b"n"]) in (10, 11)
    stranger.delete(where)
    stranger.close()


def test_a_reply_in_pieces_is_put_together(talker: Talker) -> None:
    with Fake(fakes.one_byte_at_a_time) as fake:
        client = talker(fake.settings)
        assert client.ask(Get(b"k")) == b"value"
        assert client.ask(Put(b"k", b"x")) is None
        assert client.ask(Add(b"k", ((b"a", 1), (b"b", 2)))) is None
        assert client.ask(Counts(b"k")) == {b"a": 1}
        assert client.ask(Delete(b"k")) is True


def test_another_protocol_is_a_failure(talker: Talker) -> None:
    with Fake(fakes.garbage) as fake:
        client = talker(fake.settings)
        with pytest.raises(OperationFailed) as caught:
            client.ask(Get(b"k"))
        assert caught.value.broken
        assert caught.value.kind in ("protocol", "disconnected")


def test_garbage_behind_a_good_start_is_a_failure(talker: Talker) -> None:
    def answer(conversation: fakes.Conversation, command: fakes.Command) -> None:
        conversation.send(b":1\r\nHTTP/1.1 400\r\n")

    with Fake(answer) as fake:
        client = talker(fake.settings)
        with pytest.raises(OperationFailed) as caught:
            client.ask(Add(b"k", ((b"a", 1), (b"b", 2))))
        assert caught.value.broken


@pytest.mark.parametrize(
    "operation", [Get(b"k"), Put(b"k", b"x"), Counts(b"k"), Delete(b"k")]
)
def test_an_error_reply_is_a_failure_with_its_text(
    talker: Talker, operation: Any
) -> None:
    with Fake(fakes.refusing) as fake:
        client = talker(fake.settings)
        text = fails(client, "server-error", broken=False, operation=operation)
        assert "NOPERM" in text
        assert "may not do that" in text


def test_an_error_text_that_is_no_text_can_still_be_written_down(
    talker: Talker,
) -> None:
    with Fake(fakes.binary_error) as fake:
        client = talker(fake.settings)
        with pytest.raises(OperationFailed) as caught:
            client.ask(Get(b"k"))
        assert "ERR" in caught.value.message
        msgspec.json.encode(caught.value.message)
        caught.value.message.encode()


@pytest.mark.parametrize("operation", [Get(b"k"), Put(b"k", b"x"), Delete(b"k")])
def test_a_reply_of_the_wrong_kind_is_a_failure(operation: Any) -> None:
    with Fake(fakes.wrong_type) as fake:
        client = OnTheWire(RedisStore(fake.settings))
        client.open()
        fails(client, "protocol", broken=True, operation=operation)
        client.close()


@pytest.mark.parametrize(
    "reply",
    [
        b"*2\r\n$1\r\na\r\n$5\r\nseven\r\n",
        b"*2\r\n$1\r\na\r\n*0\r\n",
        b"*2\r\n*0\r\n$1\r\n1\r\n",
    ],
)
def test_counters_that_are_no_counters_are_a_failure(
    talker: Talker, reply: bytes
) -> None:
    with Fake(lambda conversation, command: conversation.send(reply)) as fake:
        client = talker(fake.settings)
        with pytest.raises(OperationFailed):
            client.ask(Counts(b"k"))


def test_half_a_counter_is_a_failure() -> None:
    with Fake(lambda talk, command: talk.send(b"*1\r\n$1\r\na\r\n")) as fake:
        client = OnTheWire(RedisStore(fake.settings))
        client.open()
        with pytest.raises(OperationFailed):
            client.ask(Counts(b"k"))
        client.close()


def test_a_second_reply_is_never_taken_for_the_next_operation() -> None:
    """A server that answers twice must not shift all later answers by one."""
    with Fake(fakes.talkative) as fake:
        client = OnTheWire(RedisStore(fake.settings))
        client.open()
        # The second reply may come with the first, or only afterwards.
        operations: list[Any] = [Get(b"k"), Delete(b"k")]
        with pytest.raises(OperationFailed) as caught:
            [client.ask(operation) for operation in operations]
        assert caught.value.broken
        client.close()


def test_a_leftover_of_another_type_is_a_failure_with_its_text(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    """020: WRONGTYPE is a failed operation, and the connection goes on."""
    where = key("test", b"leftover")
    stranger = raw(redis_unix)
    stranger.delete(where)
    stranger.rpush(where, "a list")
    client = talker(redis_unix.connect_settings())
    for operation in (Get(where), Counts(where), Add(where, ((b"a", 1), (b"b", 1)))):
        text = fails(client, "server-error", broken=False, operation=operation)
        assert "WRONGTYPE" in text
    assert client.ask(Get(key("test", b"another"))) is None
    assert client.ask(Delete(where)) is True
    stranger.close()


def test_a_refused_write_is_no_space(talker: Talker, redis_unix: PrivateServer) -> None:
    """A server at its memory limit refuses, and that is said as what it is."""
    stranger = raw(redis_unix)
    stranger.config_set("maxmemory", "1")
    try:
        client = talker(redis_unix.connect_settings())
        text = fails(client, "no-space", broken=False, operation=Put(b"k", b"v"))
        assert "OOM" in text
    finally:
        stranger.config_set("maxmemory", "0")
        stranger.close()


def test_a_killed_connection_is_a_failure_and_can_be_opened_again(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    client = talker(redis_unix.connect_settings())
    client.ask(Put(key("test", b"killed"), b"x"))
    stranger = raw(redis_unix)
    stranger.client_kill_filter(_type="normal", skipme=True)
    text = fails(client, "disconnected", broken=True)
    assert text
    client.close()
    client.open()
    assert client.ask(Get(key("test", b"killed"))) == b"x"
    client.ask(Delete(key("test", b"killed")))
    stranger.close()


def test_other_databases_are_left_alone(redis_unix: PrivateServer) -> None:
    """056: the wipe stays in its own database."""
    strangers = [raw(redis_unix, db=number) for number in (0, 3)]
    for each in strangers:
        for number in range(10):
            each.set(f"stranger{number}", "x")
    strangers[1].set(key("test", b"in another database"), "x")
    store = RedisStore(redis_unix.connect_settings())
    store.open()
    store.put(key("test", b"mine"), b"x")
    assert store.wipe("test") == 1
    store.close()
    assert strangers[1].get(key("test", b"in another database")) == b"x"
    strangers[1].delete(key("test", b"in another database"))
    for each in strangers:
        assert [each.delete(f"stranger{number}") for number in range(10)] == [1] * 10
        each.close()


def test_the_database_asked_for_is_used(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    client = talker(redis_unix.connect_settings() | {"database": 5})
    client.ask(Put(key("test", b"five"), b"x"))
    stranger = raw(redis_unix, db=5)
    assert stranger.get(key("test", b"five")) == b"x"
    assert client.ask(Delete(key("test", b"five"))) is True
    stranger.close()


def test_administration_of_a_vanished_server_is_our_own_error() -> None:
    with Fake(fakes.closing) as fake:
        store = RedisStore(fake.settings)
        for ask in (store.info, lambda: store.count("x"), lambda: store.wipe("x")):
            store.open()
            with pytest.raises(StoreError):
                ask()
            store.close()


@pytest.fixture
def guarded(redis_tcp: PrivateServer) -> Iterator[dict[str, Any]]:
    """A server that wants a password; how to reach it."""
    stranger = raw(redis_tcp)
    stranger.config_set("requirepass", SECRET)
    try:
        yield redis_tcp.connect_settings()
    finally:
        stranger.config_set("requirepass", "")
        stranger.close()


@pytest.mark.parametrize("kept", ["file", "environment"])
def test_a_password_comes_from_a_file_or_the_environment(
    talker: Talker,
    guarded: dict[str, Any],
    kept: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """134: taken literally, whatever characters it has."""
    if kept == "file":
        (tmp_path / "password").write_text(SECRET + "\n")
        settings = guarded | {"password_file": str(tmp_path / "password")}
    else:
        monkeypatch.setenv("KVTUI_TEST_PASSWORD", SECRET)
        settings = guarded | {"password_env": "KVTUI_TEST_PASSWORD"}
    client = talker(settings)
    client.ask(Put(key("test", b"guarded"), b"x"))
    assert client.ask(Delete(key("test", b"guarded"))) is True
    for shown in (
        repr(client.store),
        repr(client.store.__dict__),
        json.dumps(msgspec.to_builtins(StorePlan("x", "redis", settings))),
        repr(RedisStore(settings).settings),
    ):
        assert "S3cr3t" not in shown


def test_a_password_is_in_no_error(
    talker: Talker, guarded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """133: neither a wrong one, nor the right one when the rest is wrong."""
    with pytest.raises(StoreUnavailable) as caught:
        talker(guarded)
    assert "password_env" in (caught.value.hint or "")
    monkeypatch.setenv("KVTUI_TEST_PASSWORD", "wrong " + SECRET)
    texts = []
    for settings in (
        guarded | {"password_env": "KVTUI_TEST_PASSWORD"},
        guarded | {"password_env": "KVTUI_TEST_PASSWORD", "port": 1},
        guarded | {"password_env": "KVTUI_TEST_PASSWORD", "username": "nobody"},
        {"path": "/nonexistent", "password_env": "KVTUI_TEST_PASSWORD"},
    ):
        with pytest.raises(StoreUnavailable) as caught:
            talker(settings)
        error: KvtuiError = caught.value
        texts += [str(error), repr(error), error.hint or ""]
        texts += [repr(error.__cause__)]
    assert not [text for text in texts if "S3cr3t" in text]


def test_a_password_that_is_not_there_is_said(tmp_path: Path) -> None:
    for settings in (
        {"password_env": "KVTUI_TEST_NOT_SET"},
        {"password_file": str(tmp_path / "missing")},
    ):
        with pytest.raises(ConfigError) as caught:
            RedisStore(settings).open()
        name = str(next(iter(settings.values())))
        assert name in caught.value.message


def test_a_server_that_is_still_loading_is_said(talker: Talker) -> None:
    """046: up, but not ready."""

    def loading(conversation: fakes.Conversation, command: fakes.Command) -> None:
        conversation.send(b"-LOADING Redis is loading the dataset in memory\r\n")

    with Fake(loading) as fake:
        client = talker(fake.settings)
        with pytest.raises(OperationFailed) as caught:
            client.ask(Get(b"k"))
        assert "loading" in caught.value.message.lower()


def test_a_lying_server_is_not_noticed_here(talker: Talker) -> None:
    """The adapter passes on what it got; finding a lie is what verifying is for."""
    with Fake(fakes.lying(b"lie")) as fake:
        client = talker(fake.settings)
        client.ask(Put(b"k", b"truth"))
        assert client.ask(Get(b"k")) == b"lie"


def test_scan_is_not_offered(talker: Talker, redis_unix: PrivateServer) -> None:
    client = talker(redis_unix.connect_settings())
    fails(client, "unsupported", broken=False, operation=Scan(b"k", 3))


def test_ten_megabytes_while_another_client_reads(
    talker: Talker, redis_unix: PrivateServer
) -> None:
    """A large value on one connection does not disturb the others."""
    large, small = (
        talker(redis_unix.connect_settings()),
        talker(redis_unix.connect_settings()),
    )
    value = bytes(10_000_000)
    where = key("test", b"large")
    thread = Thread(target=large.ask, args=(Put(where, value),))
    thread.start()
    small.ask(Put(key("test", b"small"), b"x"))
    assert small.ask(Get(key("test", b"small"))) == b"x"
    thread.join()
    assert large.ask(Get(where)) == value
    for name in (b"large", b"small"):
        large.ask(Delete(key("test", name)))
