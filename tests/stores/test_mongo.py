"""What only a MongoDB server, or a fake one, can do to its clients."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bson
import pymongo
import pytest

from kvtui.engine.messages import WorkerPlan
from kvtui.engine.worker import Orders, work
from kvtui.errors import ConfigError, OperationFailed, StoreUnavailable
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.stores.mongo import records as mongo_records
from kvtui.stores.mongo.store import MongoStore
from kvtui.stores.mongo.wire import MongoWire
from kvtui.stores.operations import Add, Counts, Delete, Get, Put, Scan, key
from kvtui.stores.servers import PrivateServer
from kvtui.stores.servers import base as servers_base
from kvtui.stores.servers.mongo import MongoServer
from kvtui.stores.store import PENDING
from tests.conftest import Servers, require_server
from tests.stores.mongo_fake import HELLO, MongoFake, found, message
from tests.stores.talking import Calls, OnTheWire

SECRET = "S3cr3t-märker p@w/x#y%2F:[w"
LONG_S = 20

Talker = Callable[[dict[str, Any]], Calls]

WRITTEN = {"n": 1, "nModified": 1, "ok": 1.0}


@pytest.fixture(params=["driver", "wire"])
def talker(request: pytest.FixtureRequest) -> Iterator[Talker]:
    """Makes a connected client of that way."""
    made: list[Calls] = []

    def make(settings: dict[str, Any]) -> Calls:
        store = MongoStore(settings | {"client": request.param})
        client = OnTheWire(store) if request.param == "wire" else Calls(store)
        made.append(client)
        client.open()
        return client

    yield make
    for each in made:
        each.close()


@pytest.fixture
def server(servers: Servers) -> PrivateServer:
    """A private server."""
    return servers.get("mongo", "tcp")


@pytest.fixture
def stranger(server: PrivateServer) -> Iterator[Any]:
    """Somebody else's client of that server."""
    settings = server.connect_settings()
    made: Any = pymongo.MongoClient(settings["host"], settings["port"])
    with made:
        yield made


def fails(client: Calls, operation: Any, kind: str, *, broken: bool) -> OperationFailed:
    """The failure that an operation must end in."""
    with pytest.raises(OperationFailed) as caught:
        client.ask(operation)
    assert caught.value.kind == kind, caught.value
    assert caught.value.broken is broken
    return caught.value


# What goes over the wire.


def test_a_get_is_these_bytes() -> None:
    """Written down from the protocol's description, not from what was sent."""
    sent = MongoWire("here", "kvtui").encode(Get(b"k"))
    document = (
        b"\x02find\0\x0e\0\0\0kvtui_records\0"
        b"\x03filter\0\x10\0\0\0\x02_id\0\x02\0\0\0k\0\0"
        b"\x03projection\0\x15\0\0\0\x10_id\0\0\0\0\0\x10v\0\x01\0\0\0\0"
        b"\x10limit\0\x01\0\0\0"
        b"\x08singleBatch\0\x01"
        b"\x03readConcern\0\x16\0\0\0\x02level\0\x06\0\0\0local\0\0"
        b"\x02$db\0\x06\0\0\0kvtui\0"
    )
    size = 4 + len(document) + 1
    assert sent == (
        struct.pack("<iiii", 21 + size, 1, 0, 2013)
        + struct.pack("<IB", 0, 0)
        + struct.pack("<i", size)
        + document
        + b"\0"
    )


def test_a_put_is_acknowledged_and_a_section_of_its_own() -> None:
    sent = MongoWire("here", "kvtui").encode(Put(b"k", b"\0\xff"))
    length, number, answers, code, flags, kind = struct.unpack_from("<iiiiIB", sent)
    assert (length, number, answers, code) == (len(sent), 1, 0, 2013)
    assert (flags, kind) == (0, 0)
    size = int.from_bytes(sent[21:25], "little")
    assert bson.decode(sent[21 : 21 + size]) == {
        "update": "kvtui_records",
        "ordered": True,
        "writeConcern": {"w": 1},
        "$db": "kvtui",
    }
    rest = sent[21 + size :]
    assert rest[0] == 1
    assert int.from_bytes(rest[1:5], "little") == len(rest) - 1
    assert rest[5:13] == b"updates\0"
    assert bson.decode(rest[13:]) == {
        "q": {"_id": "k"},
        "u": {"_id": "k", "v": b"\0\xff"},
        "upsert": True,
    }


@pytest.mark.parametrize(
    ("operation", "document", "reply"),
    [
        (Get(b"k"), found({"v": b"value"}), b"value"),
        (Get(b"k"), found(), None),
        (Get(b"k"), found({}), None),
        (Put(b"k", b"v"), WRITTEN, None),
        (Add(b"k", ((b"a", 1),)), WRITTEN, None),
        (Counts(b"k"), found({"c": {"na%2Eb": bson.Int64(7)}}), {b"a.b": 7}),
        (Delete(b"k"), {"n": 0, "ok": 1.0}, False),
        (Delete(b"k"), {"n": 1, "ok": 1}, True),
        (Scan(b"k", 3), found({"_id": "k", "v": b"v"}), [(b"k", b"v")]),
    ],
)
def test_a_reply_in_pieces_of_any_size_is_put_together(
    operation: Any, document: Any, reply: Any
) -> None:
    wire = MongoWire("here", "kvtui")
    for number, piece in enumerate((1, 2, 3, 7, 15, 16, 17, 21, 25, 40, 1000), 1):
        wire.encode(operation)
        data = message(document, number)
        pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
        replies = [wire.feed(each) for each in pieces]
        assert replies == [PENDING] * (len(pieces) - 1) + [reply]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"HTTP",
        b"\0\0\0\0",
        struct.pack("<i", 25) + b"\0" * 21,
        message(found(), 2),
        message(found(), 1, code=1),
        message(found(), 1, flags=1),
        message(found(), 1, flags=2),
        message(found(), 1, flags=1 << 7),
        message(found(), 1, section=1),
        message(found(), 1) + b"\0",
        message(found(), 1) + message(found(), 1),
        message(found(), 1)[:-1] + b"\x01",
        message({"cursor": 7}, 1),
        message({"ok": 1.0}, 1),
        message({"cursor": 7, "ok": 1.0}, 1),
        message(found({"v": 7}), 1),
        message(found({"v": b"1"}, {"v": b"2"}), 1),
    ],
)
@pytest.mark.parametrize("piece", [1, 10_000])
def test_what_is_no_answer_is_a_failure(data: bytes, piece: int) -> None:
    wire = MongoWire("here:1", "kvtui")
    wire.encode(Get(b"k"))

    def feed() -> None:
        for at in range(0, len(data), piece):
            if wire.feed(data[at : at + piece]) is not PENDING:
                wire.encode(Get(b"k"))
        # What was left over spoils what comes next.
        wire.feed(message(found(), 2))

    with pytest.raises(OperationFailed) as caught:
        feed()
    assert caught.value.kind == "protocol"
    assert caught.value.broken
    assert "here:1" in caught.value.message


def test_flags_that_need_no_understanding_are_passed_over() -> None:
    wire = MongoWire("here", "kvtui")
    wire.encode(Get(b"k"))
    data = message(found({"v": b"x"}), 1, flags=1 << 16)
    assert wire.feed(data) == b"x"


@pytest.mark.parametrize(
    ("operation", "document"),
    [
        (Put(b"k", b"v"), {"n": 0, "ok": 1.0}),
        (Put(b"k", b"v"), {"ok": 1.0}),
        (Add(b"k", ((b"a", 1),)), {"n": 2, "ok": 1.0}),
        (Delete(b"k"), {"n": 2, "ok": 1.0}),
        (Counts(b"k"), found({"c": {"na": "7"}})),
        (Counts(b"k"), found({"c": 7})),
        (Scan(b"k", 2), found({"_id": 7, "v": b"v"})),
        (Scan(b"k", 2), found({"_id": "k"})),
    ],
)
def test_an_answer_that_does_not_fit_is_a_failure(
    operation: Any, document: Any
) -> None:
    wire = MongoWire("here", "kvtui")
    wire.encode(operation)
    with pytest.raises(OperationFailed) as caught:
        wire.feed(message(document, 1))
    assert caught.value.kind == "protocol"


def test_a_scan_asks_for_its_further_pages() -> None:
    wire = MongoWire("here", "kvtui")
    wire.encode(Scan(b"a", 3))
    pairs = [{"_id": each, "v": each.encode()} for each in "abcd"]
    first = message(found(pairs[0], cursor=2**40), 1)
    assert wire.feed(first) is PENDING
    asked = bson.decode(wire.more[21:])
    assert asked["getMore"] == 2**40
    assert asked["batchSize"] == 2
    wire.more = b""
    page = {"nextBatch": pairs[1:], "id": bson.Int64(0), "ns": "a.b"}
    last = message({"cursor": page, "ok": 1.0}, 2)
    assert wire.feed(last) == [(b"a", b"a"), (b"b", b"b"), (b"c", b"c")]
    assert not wire.more


# Refusals, and what a server may do instead of answering.


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"ok": 0.0, "errmsg": "no", "code": 13}, "server-error"),
        ({"ok": 0.0, "errmsg": "no"}, "server-error"),
        (
            WRITTEN | {"writeErrors": [{"index": 0, "code": 11000, "errmsg": "no"}]},
            "server-error",
        ),
        (
            WRITTEN | {"writeErrors": [{"index": 0, "code": 17419, "errmsg": "no"}]},
            "too-large",
        ),
        ({"ok": 0.0, "errmsg": "no", "code": 14031}, "no-space"),
        (
            WRITTEN | {"writeConcernError": {"code": 79, "errmsg": "no"}},
            "server-error",
        ),
    ],
)
def test_a_refused_write_is_a_failure_with_its_text(
    talker: Talker, answer: Any, kind: str
) -> None:
    for operation in (Put(b"k", b"v"), Add(b"k", ((b"a", 1),)), Delete(b"k")):
        with MongoFake(lambda command: answer) as fake:
            client = talker(fake.settings)
            told = fails(client, operation, kind, broken=False).message
            assert "no" in told
            assert f"127.0.0.1:{fake.settings['port']}" in told
            client.close()


def test_a_write_that_wrote_nothing_is_a_failure(talker: Talker) -> None:
    with MongoFake(lambda command: {"n": 0, "nModified": 0, "ok": 1.0}) as fake:
        client = talker(fake.settings)
        for operation in (Put(b"k", b"v"), Add(b"k", ((b"a", 1),))):
            with pytest.raises(OperationFailed):
                client.ask(operation)
            client.close()
            client.open()


def test_an_overloaded_server_is_asked_once(talker: Talker) -> None:
    """022: a driver's hidden retries are off, whatever labels an error has."""
    labels = ["RetryableError", "RetryableWriteError", "SystemOverloadedError"]
    answer = {"ok": 0.0, "errmsg": "busy", "code": 462, "errorLabels": labels}
    with MongoFake(lambda command: answer) as fake:
        client = talker(fake.settings)
        for operation in (Get(b"k"), Put(b"k", b"v"), Add(b"k", ((b"a", 1),))):
            fake.asked.clear()
            with pytest.raises(OperationFailed):
                client.ask(operation)
            assert len(fake.asked) == 1
        client.close()


def test_a_silent_server_times_out_and_is_asked_once(talker: Talker) -> None:
    """022."""
    with MongoFake(lambda command: None) as fake:
        client = talker(fake.settings | {"timeout_s": 0.3})
        fails(client, Add(b"k", ((b"a", 1),)), "timeout", broken=True)
        client.close()
        assert len(fake.asked) == 1


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\0\0\0"])
def test_another_protocol_is_a_failure(talker: Talker, data: bytes) -> None:
    with MongoFake(lambda command: data + b"\0" * 40) as fake:
        client = talker(fake.settings | {"timeout_s": LONG_S})
        with pytest.raises(OperationFailed) as caught:
            client.ask(Get(b"k"))
        assert caught.value.broken
        assert caught.value.kind in ("protocol", "disconnected")


def test_a_document_that_kvtui_did_not_write_is_a_failure(
    talker: Talker, server: PrivateServer, stranger: Any
) -> None:
    name = key("test", b"theirs").decode()
    stranger.kvtui.kvtui_records.insert_one({"_id": name, "v": "text"})
    client = talker(server.connect_settings())
    with pytest.raises(OperationFailed):
        client.ask(Get(name.encode()))
    client.close()
    client.open()
    assert client.ask(Delete(name.encode())) is True


def test_a_secondary_is_refused_before_the_clock_runs(talker: Talker) -> None:
    hello: dict[str, Any] = HELLO | {
        "isWritablePrimary": False,
        "ismaster": False,
        "secondary": True,
    }
    hello |= {"setName": "rs", "hosts": ["first.test:1"], "primary": "first.test:1"}
    with MongoFake(lambda command: WRITTEN, hello) as fake:
        with pytest.raises(StoreUnavailable) as caught:
            talker(fake.settings)
        assert "no primary" in caught.value.message
        assert "first.test:1" in (caught.value.hint or "")


# Sizes.


def test_the_largest_value_comes_back_and_one_byte_more_is_refused(
    talker: Talker, server: PrivateServer
) -> None:
    """With numbers, and the connection goes on."""
    client = talker(server.connect_settings())
    admin = MongoStore(server.connect_settings())
    admin.open()
    limit = admin.info().item_limit_bytes
    admin.close()
    assert limit is not None
    where = b"kvtui:test:" + b"x" * 239
    value = b"\xff" * limit
    text = fails(client, Put(where, value + b"x"), "too-large", broken=False).message
    assert f"{limit + 1:,}" in text
    assert "16,777,216" in text
    client.ask(Put(where, value))
    assert client.ask(Get(where)) == value
    assert client.ask(Delete(where)) is True


def test_amounts_beyond_64_bits_are_a_failure(
    talker: Talker, server: PrivateServer
) -> None:
    client = talker(server.connect_settings())
    where = key("test", b"beyond")
    beyond = Add(where, ((b"a", 2**62), (b"a", 2**62)))
    fails(client, beyond, "server-error", broken=False)
    assert client.ask(Counts(where)) is None


def test_a_scan_of_more_than_a_message_holds(
    talker: Talker, server: PrivateServer
) -> None:
    client = talker(server.connect_settings())
    pairs = [(key("test", b"%d" % at), b"%d" % at * 6_000_000) for at in range(3)]
    for where, value in pairs:
        client.ask(Put(where, value))
    assert client.ask(Scan(pairs[0][0], 3)) == pairs
    for where, _ in pairs:
        client.ask(Delete(where))


# Names.


def test_every_counter_has_a_field_of_its_own() -> None:
    """002, 010: legal for MongoDB, never two names' field, and back again."""
    names = [bytes([first, second]) for first in range(256) for second in b"a.$%\0"]
    names += [b"", b"%2E", b"$inc", b"n", b"0", b"a.b", "é".encode(), b"_id"]
    names = sorted(set(names))
    (update,) = mongo_records.increments((name, 1) for name in names).values()
    assert len(update) == len(names)
    for path in update:
        outer, dot, field = path.partition(".")
        assert (outer, dot, field[:1]) == ("c", ".", "n")
        assert not set(field) & set(".$\0")
        assert field.isascii()
    fields = {path[2:]: 1 for path in update}
    assert mongo_records.counters_of({"c": fields}) == dict.fromkeys(names, 1)


# Whose is what.


def test_other_collections_and_databases_are_left_alone(
    server: PrivateServer, stranger: Any
) -> None:
    """056: the wipe takes documents of its own namespace and drops nothing."""
    theirs = [stranger.kvtui.people, stranger.other.kvtui_records]
    for each in theirs:
        each.insert_one({"_id": key("test", b"theirs").decode(), "v": b"x"})
    store = MongoStore(server.connect_settings())
    store.open()
    store.put(key("test", b"mine"), b"x")
    names = sorted(stranger.kvtui.list_collection_names())
    assert store.wipe("test") == 1
    store.close()
    assert sorted(stranger.kvtui.list_collection_names()) == names
    for each in theirs:
        assert each.count_documents({}) == 1
        each.drop()


def test_the_schema_asked_for_is_used(
    talker: Talker, server: PrivateServer, stranger: Any
) -> None:
    client = talker(server.connect_settings() | {"schema": "elsewhere"})
    where = key("test", b"there")
    client.ask(Put(where, b"x"))
    kept = stranger.elsewhere.kvtui_records.find_one({"_id": where.decode()})
    assert kept["v"] == b"x"
    client.ask(Delete(where))


# What info says.


def told(**also: Any) -> Any:
    """info() of a server that answers so."""
    with MongoFake(lambda command: found(), **also) as fake:
        store = MongoStore(fake.settings)
        store.open()
        info = store.info()
        store.close()
    return info


def test_a_stand_in_is_called_by_its_own_name() -> None:
    real = told(buildInfo={"version": "8.0.4", "ok": 1.0})
    assert real.version == "MongoDB 8.0.4"
    stand_in = {"version": "8.2.11", "secantusVersion": "0.7.0b3", "ok": 1.0}
    info = told(buildInfo=stand_in)
    assert info.version == "SecantusDB 0.7.0b3 (speaks MongoDB 8.2.11)"


def test_an_engine_in_memory_is_said() -> None:
    engine = {"name": "inMemory", "persistent": False}
    status = {"pid": bson.Int64(7), "storageEngine": engine, "ok": 1.0}
    assert told(serverStatus=status).durability.startswith("memory")
    status["storageEngine"] = {"name": "wiredTiger", "persistent": True}
    status["wiredTiger"] = {"cache": {"maximum bytes configured": 5_000_000}}
    info = told(serverStatus=status)
    assert info.durability.startswith("OS cache")
    assert info.memory_limit == "cache 5000000 bytes"


def test_a_login_that_may_not_ask_for_the_status_is_told_what_there_is() -> None:
    forbidden = {"ok": 0.0, "code": 13, "errmsg": "not authorized"}
    info = told(serverStatus=forbidden, whatsmyuri=forbidden)
    assert info.process_id is None
    assert info.address.startswith("127.0.0.1:")


# Secrets.


class Guarded(MongoServer):
    """A server that wants a login."""

    guarding = False

    def command(self, program: str) -> list[str]:
        return [*super().command(program), *(["--auth"] if self.guarding else [])]

    def connect_settings(self) -> dict[str, Any]:
        login = {"username": "them", "password_env": "KVTUI_TEST_PASSWORD"}
        made = super().connect_settings() | {"client": "driver"}
        return made | login if self.guarding else made


def test_a_login_is_taken_literally_and_is_in_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """133, 134."""
    require_server("mongo")
    monkeypatch.setenv("KVTUI_TEST_PASSWORD", SECRET)
    server = Guarded(tmp_path, {"transport": "tcp"})
    settings = server.start()
    try:
        client: Any = pymongo.MongoClient(settings["host"], settings["port"])
        with client:
            client.admin.command(
                "createUser",
                "them",
                pwd=SECRET,
                roles=[{"role": "root", "db": "admin"}],
            )
        server.stop()
        # What comes now need not be kept.
        monkeypatch.setattr(servers_base, "STOP_LIMIT_S", 0.1)
        server.guarding = True
        settings = server.start()  # which writes and reads with that login
        store = MongoStore(settings)
        store.open()
        assert store.info().process_id == server.process_id
        assert "S3cr3t" not in repr(store.__dict__)
        store.close()
        without = {"host": settings["host"], "port": settings["port"]}
        monkeypatch.setenv("KVTUI_TEST_WRONG", "wrong " + SECRET)
        wrong = [
            MongoStore(without).open,
            MongoStore(settings | {"password_env": "KVTUI_TEST_WRONG"}).open,
            MongoStore(without).wire,
            MongoStore(settings).wire,
        ]
        texts = []
        for ask in wrong:
            with pytest.raises(StoreUnavailable) as caught:
                ask()
            texts += [str(caught.value), repr(caught.value), caught.value.hint or ""]
            texts += [repr(caught.value.__cause__)]
            assert "password_env" in texts[-2] or "client=driver" in texts[-2]
        assert not [text for text in texts if "S3cr3t" in text]
    finally:
        server.stop()


@pytest.mark.parametrize(
    "setting",
    [{"username": "them"}, {"tls": True}, {"password_env": "NOT_SET"}],
    ids=str,
)
def test_the_wire_says_that_it_has_neither_login_nor_tls(
    setting: dict[str, Any],
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        MongoStore({"port": 1, **setting}).wire()
    assert next(iter(setting)) in caught.value.message
    assert caught.value.hint == "use client=driver"


def test_settings_that_cannot_work_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTUI_TEST_PASSWORD", SECRET)
    for settings in (
        {"password_env": "KVTUI_TEST_PASSWORD"},
        {"path": "/nonexistent"},
        {"username": "them", "password_env": "KVTUI_TEST_NOT_SET"},
    ):
        with pytest.raises(ConfigError) as caught:
            MongoStore(settings).open()
        assert "S3cr3t" not in str(caught.value)


# Its server.


def test_mongod_listens_on_loopback_only(tmp_path: Path) -> None:
    server = MongoServer(tmp_path, {})
    server._choose_address()
    words = server.command("/usr/bin/mongod")
    assert words[words.index("--bind_ip") + 1] == "127.0.0.1"
    assert words[words.index("--port") + 1] == str(server.port)
    assert "--nounixsocket" in words
    server = MongoServer(tmp_path, {"transport": "unix"})
    server._choose_address()
    words = server.command("/usr/bin/mongod")
    folder = words[words.index("--unixSocketPrefix") + 1]
    assert server.path == Path(folder) / f"mongodb-{server.port}.sock"
    assert words[words.index("--filePermissions") + 1] == "0700"


def test_the_stand_in_reads_nobodys_settings(tmp_path: Path) -> None:
    server = MongoServer(tmp_path, {})
    server.prepare("/x/secantusd-py")
    words = server.command("/x/secantusd-py")
    config = Path(words[words.index("--config") + 1])
    assert config.parent == tmp_path
    assert config.read_bytes() == b""
    assert config.stat().st_mode & 0o077 == 0


def test_the_end_of_a_log_is_told_in_words(tmp_path: Path) -> None:
    """050."""
    server = MongoServer(tmp_path, {})
    assert server.last_lines() == "no log"
    entry = {"s": "E", "msg": "Listener failed", "attr": {"error": "in use"}}
    lines = [json.dumps(entry), json.dumps({"s": "I", "msg": "now exiting"}), "{half"]
    server.log.write_text("\n".join(lines) + "\n")
    told = server.last_lines()
    assert told == "Listener failed: in use / now exiting / {half"
    server.log.write_text(
        "Traceback (most recent call last):\n  File ..., line 1\n    open()\n"
        "OSError: [Errno 16] Device or resource busy\n"
    )
    assert server.last_lines() == "OSError: [Errno 16] Device or resource busy"


def test_a_port_that_somebody_took_meanwhile_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """055."""
    require_server("mongo")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(servers_base, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(StoreUnavailable) as caught:
            MongoServer(tmp_path, {"transport": "tcp"}).start()
    assert "in use" in caught.value.message.lower()
    assert "Traceback" not in caught.value.message


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_more_clients_than_the_server_lets_in_are_told_with_its_limit(
    tmp_path: Path, client: str
) -> None:
    """038: wanted, got, and the limit, which only the sum of two figures tells."""
    data = tmp_path / "people.jsonl"
    data.write_text('{"pages": ["a", "b"]}\n')
    parameters = {"data": str(data)}
    FansWorkload.prepare(parameters, tmp_path / "prepared", lambda _: None)
    with MongoFake(lambda command: found(), most=20) as fake:
        mode = "wire" if client == "wire" else "calls"
        prepared = str(tmp_path / "prepared")
        everybody = tuple(range(100))
        asked = WorkerPlan(
            *(0, "mongo", fake.settings, mode, everybody, 100),
            *("fans", parameters, prepared, 10.0),
        )
        orders = Orders()
        orders.put(asked)
        with pytest.raises(StoreUnavailable) as caught:
            work(orders, lambda message: pytest.fail(f"it said {message}"))
    assert re.match(
        r"only \d+ of 100 clients could connect \(the server's max_connections is 20\)",
        caught.value.message,
    )
    assert "--clients" in (caught.value.hint or "")


def test_a_limit_that_is_not_told_is_not_made_up(tmp_path: Path) -> None:
    """038: a stand-in has none, and says that 0 more are let in."""
    told = {"connections": {"current": 2, "available": 0}, "ok": 1.0}
    for status in (told | {"secantus": {"server": "python"}}, {"ok": 1.0}):
        with MongoFake(lambda command: found(), serverStatus=status) as fake:
            store = MongoStore(fake.settings)
            store.open()
            assert store.info().details["max_connections"] == ""
            store.close()
