"""What only a Tokyo Tyrant server, or a fake one, can do to its clients."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat as modes
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable
from kvtui.stores.operations import Add, Counts, Delete, Get, Put, Scan, key
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import base as servers_module
from kvtui.stores.servers.tokyo import TokyoServer
from kvtui.stores.tokyo import server as tokyo_server
from kvtui.stores.tokyo.store import TokyoStore
from tests.conftest import Servers, require_server
from tests.stores.fakes import Conversation, Cut, Fake
from tests.stores.talking import Calls, OnTheWire
from tests.waiting import until

Talker = Callable[[dict[str, Any]], Calls]
ENGINES = {
    "hash": ("on-memory hash", "memory"),
    "tree": ("on-memory tree", "memory"),
    "hash-file": ("hash", "OS cache"),
    "tree-file": ("B+ tree", "memory"),
}


@pytest.fixture(autouse=True)
def needs_tokyo() -> None:
    """Skip all where neither ttserver nor its stand-in can be started."""
    require_server("tokyo")


@pytest.fixture(params=["calls", "wire"])
def talker(request: pytest.FixtureRequest) -> Iterator[Talker]:
    """Makes a connected client of that way."""
    made: list[Calls] = []

    def make(settings: dict[str, Any]) -> Calls:
        store = TokyoStore(settings | {"client": request.param})
        client = OnTheWire(store) if request.param == "wire" else Calls(store)
        made.append(client)
        client.open()
        return client

    yield make
    for each in made:
        each.close()


@pytest.fixture
def running(servers: Servers) -> dict[str, Any]:
    """How to reach a server of this session."""
    return servers.get("tokyo", "unix").connect_settings()


@contextlib.contextmanager
def opened(settings: dict[str, Any]) -> Iterator[TokyoStore]:
    """A connected store."""
    store = TokyoStore(settings)
    store.open()
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def started(server: PrivateServer) -> Iterator[PrivateServer]:
    """That server, running, and stopped whatever happens."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


# Servers.


@pytest.mark.parametrize("engine", ENGINES)
def test_each_engine_keeps_bytes_and_says_what_it_is(
    engine: str, tmp_path: Path
) -> None:
    """049, 062: the engine and its options are told; a file has the large option."""
    server = private_server("tokyo", tmp_path, {"engine": engine})
    with started(server), opened(server.connect_settings()) as store:
        type_, durability = ENGINES[engine]
        info = store.info()
        assert info.details["engine"] == type_
        assert info.durability.startswith(durability)
        assert info.process_id == server.process_id
        assert info.memory_limit == info.eviction == info.compression == "none"
        if "file" in engine:
            path, options = info.details["database"].split("#")
            assert options == "opts=l"
            assert Path(path).parent == tmp_path
            assert modes.S_IMODE(os.stat(path).st_mode) & 0o077 == 0
        else:
            assert info.details["database"] == ("*" if engine == "hash" else "+")
        where = key("test", b"x")
        store.put(where, b"\0\xff")
        store.add(where, ((b"b", 2), (b"a", 1)))
        assert store.get(where) == b"\0\xff"
        assert store.counts(where) == {b"a": 1, b"b": 2}
        assert store.count("test") == 1
        assert store.wipe("test") == 1
        assert store.get(where) is None
        assert store.counts(where) is None


@pytest.mark.parametrize("engine", ["hash-file", "tree-file"])
def test_a_file_is_there_again_after_an_orderly_end(
    engine: str, tmp_path: Path
) -> None:
    for number in range(2):
        server = private_server("tokyo", tmp_path, {"engine": engine})
        with started(server), opened(server.connect_settings()) as store:
            assert store.get(b"kvtui:test:x") == (b"kept" if number else None)
            store.put(b"kvtui:test:x", b"kept")


def test_a_second_server_on_one_file_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the file's lock before it listens, and says nothing."""
    settings = {"engine": "hash-file", "transport": "tcp"}
    with started(private_server("tokyo", tmp_path, settings)):
        monkeypatch.setattr(servers_module, "READY_LIMIT_S", 1.0)
        monkeypatch.setattr(servers_module, "STOP_LIMIT_S", 1.0)
        second = private_server("tokyo", tmp_path, settings)
        with pytest.raises(StoreUnavailable) as caught:
            second.start()
        assert "not ready within" in caught.value.message
        assert second.death() is not None


def test_its_socket_is_private_and_goes_with_it(tmp_path: Path) -> None:
    server = private_server("tokyo", tmp_path / "s", {"transport": "unix"})
    with started(server):
        path = Path(server.connect_settings()["path"])
        assert modes.S_ISSOCK(path.stat().st_mode)
        assert path.stat().st_mode & 0o077 == 0
    assert not path.exists()
    assert server.death() == "ended with status 0"


def test_a_socket_that_a_killed_server_left_is_no_hindrance(tmp_path: Path) -> None:
    first = private_server("tokyo", tmp_path, {"transport": "unix"})
    with started(first):
        assert first.process_id is not None
        os.kill(first.process_id, signal.SIGKILL)
        until(first.death, "it has died")
        assert Path(first.connect_settings()["path"]).exists()
        with started(private_server("tokyo", tmp_path, {"transport": "unix"})):
            pass


def test_a_path_that_it_would_cut_goes_elsewhere(tmp_path: Path) -> None:
    """ttserver cuts a socket's path at 107 bytes in silence."""
    server = private_server("tokyo", tmp_path / ("d" * 100), {"transport": "unix"})
    with started(server), opened(server.connect_settings()) as store:
        path = server.connect_settings()["path"]
        assert len(path) <= servers_module.SOCKET_PATH_LIMIT
        assert store.info().address == path


class Masked(TokyoServer):
    """Forbids one command, which it then answers with code 1."""

    def command(self, program: str) -> list[str]:
        return [program, "-mask", "adddouble", *super().command(program)[1:]]


def test_what_the_server_forbids_is_a_failure(talker: Talker, tmp_path: Path) -> None:
    with started(Masked(tmp_path, {})) as server:
        client = talker(server.connect_settings())
        where = key("test", b"x")
        with pytest.raises(OperationFailed) as caught:
            client.ask(Add(where, ((b"a", 1), (b"b", 1))))
        assert (caught.value.kind, caught.value.broken) == ("server-error", False)
        assert client.ask(Counts(where)) is None
        client.ask(Put(where, b"x"))
        assert client.ask(Get(where)) == b"x"


# Counters.


def test_counters_are_exact_where_a_double_is_not(
    talker: Talker, running: dict[str, Any]
) -> None:
    """The server adds doubles, which know no 2^53 + 1."""
    client, where = talker(running), key("test", b"exact")
    client.ask(Delete(where))
    for name, amounts in {
        b"up": [2**62, 1, 2**53, 1],
        b"down": [-(2**62), -1],
        b"there and back": [2**60 + 1, -(2**60)],
        b"edge": [2**31 - 1, 1, 2**31, -(2**31), -(2**31) - 1],
    }.items():
        for amount in amounts:
            client.ask(Add(where, ((name, amount),)))
    assert client.ask(Counts(where)) == {
        b"up": 2**62 + 2**53 + 2,
        b"down": -(2**62) - 1,
        b"there and back": 1,
        b"edge": 2**31 - 1 + 1 + 2**31 - 2**31 - 2**31 - 1,
    }
    assert client.ask(Delete(where)) is True


def test_a_counter_that_comes_back_to_nothing_stays_one(
    talker: Talker, running: dict[str, Any]
) -> None:
    """Its name is then in the index twice, and counts once."""
    client, where = talker(running), key("test", b"back")
    for amount in (2, -2, 3, -3, 0, 5):
        client.ask(Add(where, ((b"a", amount),)))
    client.ask(Add(where, ((b"b", 0),)))
    assert client.ask(Counts(where)) == {b"a": 5, b"b": 0}
    client.ask(Add(where, ()))
    assert client.ask(Delete(where)) is True
    assert client.ask(Counts(where)) is None


def test_values_and_counters_of_one_key_stay_apart(
    talker: Talker, running: dict[str, Any]
) -> None:
    """Also a value of eight bytes, which to the server could be a number."""
    client, where = talker(running), key("test", b"both")
    client.ask(Put(where, b"8 bytes!"))
    client.ask(Add(where, ((b"", 1), (b"names", 2))))
    client.ask(Put(where, b"8 BYTES!"))
    assert client.ask(Get(where)) == b"8 BYTES!"
    assert client.ask(Counts(where)) == {b"": 1, b"names": 2}
    with opened(running) as admin:
        assert admin.count("test") == 1
        client.ask(Delete(where))
        assert admin.count("test") == 0


def test_many_long_names_at_once_do_not_stop_both_sides(
    talker: Talker, running: dict[str, Any]
) -> None:
    """More requests than the sockets hold, each answered by a write that blocks."""
    client, where = talker(running | {"timeout_s": 50}), key("test", b"many")
    names = [b"%06d" % number + bytes(300) for number in range(4000)]
    client.ask(Add(where, tuple((name, 1) for name in names)))
    client.ask(Add(where, tuple((name, 2) for name in names)))
    assert client.ask(Counts(where)) == dict.fromkeys(names, 3)
    assert client.ask(Delete(where)) is True
    with opened(running) as admin:
        assert admin.count("test") == 0


def test_scan_is_not_offered(talker: Talker, running: dict[str, Any]) -> None:
    """A hash has no order, and which database it is shows only when connected."""
    client = talker(running)
    with pytest.raises(OperationFailed) as caught:
        client.ask(Scan(b"k", 3))
    assert caught.value.kind == "unsupported"


# Fakes.


def stat(**fields: str) -> bytes:
    """A reply to stat."""
    good = {"version": "1.1.41", "type": "on-memory hash", "path": "*", "bigend": "0"}
    lines = [f"{name}\t{value}\n" for name, value in (good | fields).items()]
    text = "".join(lines).encode()
    return b"\0" + struct.pack(">I", len(text)) + text


class Tyrant(Fake):
    """Answers stat, and every other request in its own way.

    A request comes in one piece here: it is short, and the only one outstanding.
    """

    def __init__(self, answer: Callable[[Conversation, bytes], None], **more: Any):
        super().__init__(lambda conversation, command: None)
        self.asked: list[bytes] = []
        self.way = answer
        self.stat = more.get("stat", stat())

    def _talk(self, conversation: Conversation) -> None:
        try:
            while request := conversation.socket.recv(1 << 16):
                if request == b"\xc8\x88":
                    conversation.in_pieces(self.stat)
                    continue
                self.asked.append(request)
                self.way(conversation, request)
        except (Cut, OSError):
            pass
        finally:
            conversation.close()


def silent(conversation: Conversation, request: bytes) -> None:
    conversation.wait()


def closing(conversation: Conversation, request: bytes) -> None:
    raise Cut


def garbage(conversation: Conversation, request: bytes) -> None:
    conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def half(conversation: Conversation, request: bytes) -> None:
    conversation.send(b"\0\0\0\0\x09half")
    raise Cut


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        (silent, "timeout"),
        (closing, "disconnected"),
        (half, "disconnected"),
        (garbage, "protocol"),
    ],
)
@pytest.mark.parametrize("operation", [Get(b"k"), Counts(b"k"), Delete(b"k")])
def test_a_server_that_misbehaves_is_a_failure_and_was_asked_once(
    talker: Talker,
    way: Callable[[Conversation, bytes], None],
    kind: str,
    operation: Any,
) -> None:
    """022: nothing is asked a second time, and nothing late is taken for a reply."""
    timeout_s = 0.3 if way is silent else 30.0
    with Tyrant(way) as fake:
        client = talker(fake.settings | {"timeout_s": timeout_s})
        with pytest.raises(OperationFailed) as caught:
            client.ask(operation)
        assert caught.value.broken
        assert caught.value.kind == kind
        assert len(fake.asked) == 1
        if type(client) is Calls:
            # What may still come belongs to the operation that has failed.
            with pytest.raises(OperationFailed) as again:
                client.ask(Get(b"other"))
            assert again.value.kind == "disconnected"
            assert len(fake.asked) == 1


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (stat(type="table"), "type table"),
        (stat(type="fixed-length"), "type fixed-length"),
        (stat(fatal="invalid meta data"), "invalid meta data"),
        (b"\0\0\0\0\0", "does not show its stat"),
        (b"\1", "does not show its stat"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "tokyo sent"),
    ],
)
def test_a_server_that_cannot_keep_what_it_is_given_is_refused(
    talker: Talker, said: bytes, wanted: str
) -> None:
    """A table or numbered records would take the keys for something else."""
    with Tyrant(silent, stat=said) as fake:
        with pytest.raises(StoreUnavailable) as caught:
            talker(fake.settings)
        assert wanted in caught.value.message
        assert fake.settings["path"] in caught.value.message
        assert caught.value.hint


def test_a_frozen_server_is_noticed_while_connecting(
    talker: Talker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """029: the kernel takes the connection, nobody answers."""
    monkeypatch.setattr("kvtui.stores.tokyo.store.CONNECT_TIMEOUT_S", 0.3)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with pytest.raises(StoreUnavailable) as caught:
            talker({"path": str(tmp_path / "s")})
    assert str(tmp_path / "s") in caught.value.message
    assert "in time" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/" + "p" * 200},
        {"path": "/tmp/\0"},
        {"host": "h" * 70 + ".invalid", "port": 1978},
        {"host": "no such host", "port": 1978},
    ],
)
def test_an_address_that_cannot_be_one_is_said(
    talker: Talker, settings: dict[str, Any]
) -> None:
    with pytest.raises(StoreUnavailable):
        talker(settings)


def test_administration_of_a_vanished_server_is_our_own_error() -> None:
    with Tyrant(closing) as fake:
        store = TokyoStore(fake.settings)
        for ask in (store.count, store.wipe):
            store.open()
            with pytest.raises(StoreError):
                ask("x")
            store.close()


def test_a_key_of_somebody_else_is_never_wiped() -> None:
    """056: a listing that is not what was asked for removes nothing."""

    def lying(conversation: Conversation, request: bytes) -> None:
        conversation.send(b"\0\0\0\0\x01\0\0\0\x05other")

    with Tyrant(lying) as fake:
        store = TokyoStore(fake.settings)
        store.open()
        with pytest.raises(OperationFailed) as caught:
            store.wipe("test")
        assert caught.value.kind == "protocol"
        assert len(fake.asked) == 1


def test_counters_of_a_server_with_the_other_byte_order_are_read(
    talker: Talker,
) -> None:
    def answer(conversation: Conversation, request: bytes) -> None:
        if request[1] == 0x30:
            conversation.send(b"\0\0\0\0\x06\0\0\0\x02+a")
        else:
            number = struct.pack(">IIII", 1, 4, 8, 0)[:12] + b"k +a"
            conversation.send(b"\0" + number + struct.pack(">d", 7.0))

    with Tyrant(answer, stat=stat(bigend="1")) as fake:
        assert talker(fake.settings).ask(Counts(b"k")) == {b"a": 7}


def told_to_open(monkeypatch: pytest.MonkeyPatch, database: str) -> None:
    """As if a server's command line named that database."""

    def shown(process_id: int | None, path: str) -> str:
        return database

    monkeypatch.setattr(tokyo_server, "_database", shown)


@pytest.mark.parametrize(
    ("database", "limit_bytes", "limit"),
    [
        ("*#capsiz=64m", 64 << 20, "capsiz=64m"),
        ("*#bnum=5#capnum=1000", None, "capnum=1000"),
        ("*#capnum=10#capsiz=1000", 1000, "capnum=10 capsiz=1000"),
        ("*", None, "none"),
        ("", None, "not shown by the server"),
    ],
)
def test_a_limit_beyond_which_it_drops_records_is_told(
    database: str,
    limit_bytes: int | None,
    limit: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """043: stat says nothing of it; the command line does, on this machine."""
    told_to_open(monkeypatch, database)
    said = {"type": "on-memory hash", "path": "*", "size": "77", "pid": "1"}
    said["rnum"] = "5"
    here, there = socket.socketpair()
    with here, there:
        info = tokyo_server.described(said, here, "wire")
    assert info.memory_limit_bytes == limit_bytes
    assert info.memory_used_bytes == (77 if limit_bytes else None)
    assert info.memory_limit == limit
    most = {"capnum=1000": 1000, "capnum=10 capsiz=1000": 10}.get(limit)
    assert info.records_limit == most
    assert info.records_used == (5 if most else None)
    assert ("oldest" in info.eviction) is limit.startswith("cap")


def test_files_that_are_compressed_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    told_to_open(monkeypatch, "/x.tch#opts=ld")
    here, there = socket.socketpair()
    with here, there:
        info = tokyo_server.described({"type": "hash", "path": "/x.tch"}, here, "wire")
    assert info.compression == "deflate"
