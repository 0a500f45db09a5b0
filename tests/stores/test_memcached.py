"""What only a memcached server can do to its clients, and kvtui to it."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.runs import snapshot
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import registry
from kvtui.stores.memcached import admin as memcached_admin
from kvtui.stores.memcached import connect as memcached_connect
from kvtui.stores.memcached.counters import Place
from kvtui.stores.memcached.store import MemcachedStore
from kvtui.stores.operations import Add, Counts, Delete, Get, Put, key, prefix
from kvtui.stores.servers import PrivateServer
from kvtui.stores.servers import base as server_module
from kvtui.stores.servers.memcached import MemcachedServer
from tests.conftest import Servers, require_server
from tests.engine.inside import Stage, stage
from tests.stores.talking import Calls, OnTheWire
from tests.waiting import until

__all__ = ["stage"]

Talker = Callable[[dict[str, Any]], Calls]
Starter = Callable[..., PrivateServer]


@pytest.fixture(autouse=True)
def needs_memcached() -> None:
    """Skip all where there is no server to start."""
    require_server("memcached")


@pytest.fixture(params=["driver", "wire"])
def talker(request: pytest.FixtureRequest) -> Iterator[Talker]:
    """Makes a connected client of that way."""
    made: list[Calls] = []

    def make(settings: dict[str, Any]) -> Calls:
        store = MemcachedStore(settings | {"client": request.param})
        client = OnTheWire(store) if request.param == "wire" else Calls(store)
        made.append(client)
        client.open()
        return client

    yield make
    for each in made:
        each.close()


class Tuned(MemcachedServer):
    """One with further words on its command line; the last of two counts."""

    words: tuple[str, ...] = ()

    def command(self, program: str) -> list[str]:
        return [*super().command(program), *self.words]


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    """Starts servers of a test's own."""
    made: list[PrivateServer] = []

    def start(*words: str, **settings: Any) -> PrivateServer:
        server = Tuned(tmp_path / f"server-{len(made)}", settings)
        server.words = words
        made.append(server)
        server.start()
        return server

    yield start
    for each in made:
        each.stop()


@pytest.fixture
def shared(servers: Servers) -> PrivateServer:
    """The session's server on a unix socket."""
    return servers.get("memcached", "unix")


@contextlib.contextmanager
def opened(server: PrivateServer, **more: Any) -> Iterator[MemcachedStore]:
    """A store on that server."""
    store = MemcachedStore(server.connect_settings() | more)
    store.open()
    try:
        yield store
    finally:
        store.close()


def raw(server: PrivateServer, command: bytes, end: bytes = b"\r\n") -> bytes:
    """What a stranger's command gets."""
    settings = server.connect_settings()
    family = socket.AF_UNIX if "path" in settings else socket.AF_INET
    where = settings.get("path") or ("127.0.0.1", settings["port"])
    with socket.socket(family) as stranger:
        stranger.settimeout(20)
        stranger.connect(where)
        stranger.sendall(command)
        received = b""
        while not received.endswith(end):
            piece = stranger.recv(1 << 16)
            assert piece, received
            received += piece
    return received


def again(client: Calls) -> None:
    """Connect anew, as the engine does after a failure that broke the connection."""
    client.close()
    client.open()


@pytest.mark.parametrize("limit", ["1MiB", "2MiB"])
def test_a_record_over_the_limit_is_told_with_size_and_limit_and_is_gone(
    talker: Talker, starter: Starter, limit: str
) -> None:
    """013, 014: never dropped in silence, and a later read is no old value."""
    server = starter(item_limit=limit)
    client = talker(server.connect_settings())
    where = key("test", b"grows")
    client.ask(Put(where, b"old"))
    with pytest.raises(OperationFailed) as caught:
        client.ask(Put(where, bytes(3_000_000)))
    assert caught.value.kind == "too-large"
    for word in ("3,000,000", "kvtui:test:grows", "gone"):
        assert word in caught.value.message
    assert "-I" in (caught.value.hint or "")
    if caught.value.broken:
        again(client)
    assert client.ask(Get(where)) is None
    assert client.ask(Put(where, b"new")) is None
    assert client.ask(Get(where)) == b"new"


def test_the_limit_that_is_told_is_the_limit(talker: Talker, starter: Starter) -> None:
    """013: for the longest key; and a value that is larger by one is refused."""
    server = starter(item_limit="1MiB")
    with opened(server) as store:
        limit = store.info().item_limit_bytes
    assert limit is not None
    client = talker(server.connect_settings())
    where = key("test", b"n" * (250 - len(prefix("test"))))
    assert len(where) == 250
    value = random.Random(6).randbytes(limit)
    client.ask(Put(where, value))
    assert client.ask(Get(where)) == value
    with pytest.raises(OperationFailed) as caught:
        client.ask(Put(where, value + b"x"))
    assert caught.value.kind == "too-large"


def test_a_full_server_that_evicts_nothing_is_no_space(
    talker: Talker, starter: Starter
) -> None:
    """Nothing more can be stored there: values and counters alike."""
    server = starter("-M", memory="8MB")
    with opened(server) as store:
        assert store.info().eviction == "none"
    client = talker(server.connect_settings())

    def fill() -> None:
        for number in range(200):
            client.ask(Put(key("test", b"%d" % number), bytes(100_000)))

    def count_up() -> None:
        for number in range(200):
            names = tuple((b"%d/%d" % (number, each), 1) for each in range(1000))
            client.ask(Add(key("test", b"counters"), names))

    with pytest.raises(OperationFailed) as caught:
        fill()
    assert caught.value.kind == "no-space"
    assert "-m" in (caught.value.hint or "")
    if caught.value.broken:
        again(client)
    with pytest.raises(OperationFailed) as caught:
        count_up()
    assert caught.value.kind == "no-space"


def test_a_stock_server_drops_records_and_counts_them(starter: Starter) -> None:
    """044: 2,000 values of 100 KB into its default of 64 MB; no write fails."""
    server = starter(memory="64MB")
    with opened(server) as store:
        before = store.info()
        assert before.memory_limit_bytes == 64 * 2**20
        assert before.eviction == "LRU"
        assert before.details["evicted_keys"] == "0"
        for number in range(2000):
            store.put(key("test", b"%d" % number), bytes(100_000))
        evicted = int(store.info().details["evicted_keys"])
        missing = 2000 - store.count("test")
    assert evicted > 1000
    assert missing == evicted


def carried_out(
    stage: Stage, server: PrivateServer, people: list[list[str]], data: Path
) -> snapshot.Snapshot:
    """The fan-page job on that server, by two clients on the wire."""
    data.write_text("".join(json.dumps({"pages": pages}) + "\n" for pages in people))
    store = StorePlan("mine", "memcached", server.connect_settings())
    workload = WorkloadPlan("fans", {"data": str(data), "mode": "record"})
    return snapshot.read(stage.carry_out(RunPlan(workload, (store,), 2)).snapshot)


def test_a_data_set_with_a_record_over_the_limit_is_not_measured(
    stage: Stage, starter: Starter, tmp_path: Path
) -> None:
    """013: the page, its size and the limit; no figure that could be believed."""
    people = [["hot", f"{number} {'x' * 290}"] for number in range(4000)]
    server = starter(item_limit="1MiB")
    document = carried_out(stage, server, people, tmp_path / "people.jsonl")
    (trial,) = document.trials
    assert (trial.outcome, trial.attempted, trial.elapsed_s) == ("failed", None, None)
    assert (trial.throughput_per_s, trial.ranked) == (None, False)
    size = re.search("the record of hot comes to ([0-9,]+) bytes", trial.reason)
    assert size is not None, trial.reason
    assert int(size[1].replace(",", "")) > 4000 * 290
    assert "cannot hold this data set" in trial.reason
    with opened(server) as store:
        limit = store.info().item_limit_bytes
        assert f"{limit:,} at most" in trial.reason
        assert store.count("fans") == 0


def test_what_was_dropped_in_silence_costs_the_rank_and_is_told(
    stage: Stage, starter: Starter, tmp_path: Path
) -> None:
    """044: counted by the server before and after, and found by verifying."""
    server = starter("-t", "1", memory="8MB")
    people = [[f"own {number}", f"{'x' * 220}{number}"] for number in range(14_500)]
    document = carried_out(stage, server, people, tmp_path / "people.jsonl")
    (trial,) = document.trials
    assert (trial.outcome, trial.ranked) == ("done", False)
    evicted = trial.figures["evicted keys"]
    assert evicted > 0
    notes = [note.text for note in document.notes]
    assert any("may run out of memory" in text for text in notes)
    assert any(f"data lost: mine evicted {evicted:,} keys" in text for text in notes)
    assert trial.records_checked == trial.records_expected == 29_000
    # The run's marker is among what the server may drop.
    assert evicted - 1 <= (trial.records_wrong or 0) <= evicted


def test_a_lost_counter_is_a_failure_and_not_a_smaller_record(
    talker: Talker, shared: PrivateServer
) -> None:
    """044, for counters of which the server dropped one."""
    where = key("test", b"loses")
    client = talker(shared.connect_settings())
    client.ask(Add(where, ((b"a", 1), (b"b", 2))))
    assert raw(shared, b"md %b\r\n" % Place(where).counter(b"a")) == b"HD\r\n"
    with pytest.raises(OperationFailed) as caught:
        client.ask(Counts(where))
    assert "lost 1 of the 2 counters" in caught.value.message
    assert client.ask(Delete(where)) is True


def test_counters_without_their_index_are_counted_and_wiped(
    shared: PrivateServer,
) -> None:
    """They would be added to, and not be found, by the next run."""
    where = key("test", b"half")
    with opened(shared) as store:
        store.add(where, ((b"a", 1), (b"b", 2)))
        assert raw(shared, b"md %b\r\n" % Place(where).index) == b"HD\r\n"
        assert store.counts(where) is None
        assert store.count("test") == 1
        assert store.wipe("test") == 1
        store.add(where, ((b"a", 1),))
        assert store.counts(where) == {b"a": 1}
        assert store.wipe("test") == 1


def test_every_fresh_key_is_counted_and_none_but_ours_is_wiped(
    starter: Starter,
) -> None:
    """056: keys in every list of the server's, moving between them; and no flush."""
    server = starter()
    draw = random.Random(7)
    with opened(server) as store:
        for number in range(10):
            store.put(b"stranger%d" % number, b"x")
        for number in range(2500):
            store.put(key("test", b"%d" % number), bytes(draw.choice([9, 700, 9000])))
            if draw.random() < 0.3:  # what is read again goes to another list
                for _ in range(2):
                    store.get(key("test", b"%d" % draw.randrange(number + 1)))
        assert store.count("test") == 2500
        assert store.wipe("test") == 2500
        assert store.count("test") == 0
        assert [store.get(b"stranger%d" % each) for each in range(10)] == [b"x"] * 10
    assert b"STAT cmd_flush 0\r\n" in raw(server, b"stats\r\n", b"END\r\n")


@pytest.mark.parametrize("words", [("-X",), ("-o", "no_lru_crawler")])
def test_a_server_that_does_not_list_its_keys_is_said_and_left_alone(
    starter: Starter, words: tuple[str, ...]
) -> None:
    """056: never flush_all instead."""
    server = starter(*words)
    with opened(server) as store:
        store.put(key("test", b"x"), b"x")
        for ask in (store.count, store.wipe):
            with pytest.raises(StoreUnavailable) as caught:
                ask("test")
            assert server.connect_settings()["path"] in caught.value.message
            assert "crawler" in (caught.value.hint or "")
        assert store.get(key("test", b"x")) == b"x"


def test_a_crawl_for_somebody_else_is_waited_for(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And after a limit, said."""
    server = starter()
    with opened(server) as store, socket.socket(socket.AF_UNIX) as stranger:
        stranger.connect(server.connect_settings()["path"])
        for start in range(0, 20_000, 1000):
            sets = [b"ms x:%d 1\r\nx\r\n" % (start + each) for each in range(1000)]
            stranger.sendall(b"".join(sets))
            left = 4 * len(sets)
            while left:
                left -= len(stranger.recv(left))
        store.put(key("test", b"x"), b"x")
        # Slow: the crawler stops for a tenth of a second after every other item.
        assert raw(server, b"lru_crawler sleep 100000\r\n") == b"OK\r\n"
        stranger.sendall(b"lru_crawler metadump hash\r\n")
        stranger.recv(1)
        monkeypatch.setattr(memcached_admin, "BUSY_LIMIT_S", 0.1)
        with pytest.raises(OperationFailed) as caught:
            store.count("test")
        assert "busy" in caught.value.message
        assert not caught.value.broken
        assert raw(server, b"lru_crawler sleep 0\r\n") == b"OK\r\n"
        monkeypatch.setattr(memcached_admin, "BUSY_LIMIT_S", 60.0)
        stranger.close()
        assert store.count("test") == 1


@pytest.mark.parametrize("client", ["wire", "driver"])
@pytest.mark.parametrize("fast", [True, False])
def test_more_clients_than_the_server_lets_in_are_refused_before_the_clock_runs(
    starter: Starter,
    stage: Stage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    client: str,
    fast: bool,
) -> None:
    """038: wanted, got, and the server's limit; never 20 measured as 100."""
    # One that takes no connection and says nothing takes the whole of this.
    monkeypatch.setattr(memcached_connect, "CONNECT_TIMEOUT_S", 0.5)
    more = () if fast else ("-o", "no_maxconns_fast")
    server = starter("-c", "20", "-t", "1", *more)
    data = tmp_path / "people.jsonl"
    data.write_text('{"pages": ["a", "b"]}\n' * 200)
    store = StorePlan(
        "mine", "memcached", server.connect_settings() | {"client": client}
    )
    workload = WorkloadPlan("fans", {"data": str(data), "mode": "record"})
    run = stage.carry_out(RunPlan(workload, (store,), clients=100))
    (trial,) = snapshot.read(run.snapshot).trials
    assert trial.outcome == "failed"
    assert trial.attempted is None
    assert "of 100 clients could connect" in (trial.reason or "")
    assert "maxconns is 20" in (trial.reason or "")
    assert "-c" in (trial.reason or "")

    def lets_in() -> bool:
        """Those who left may still stand in its queue."""
        try:
            with opened(server):
                return True
        except StoreUnavailable:
            return False

    until(lets_in, "the server lets somebody in again")
    with opened(server) as watching:
        assert watching.count("fans") == 0


def test_nobody_there_is_told_from_nobody_answering(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memcached_connect, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        for name, word in (("silent", "no answer within 0.2 s"), ("nobody", "No such")):
            with pytest.raises(StoreUnavailable) as caught:
                MemcachedStore({"path": str(tmp_path / name)}).open()
            assert word in caught.value.message
            assert caught.value.hint


def test_another_server_is_not_taken_for_memcached(servers: Servers) -> None:
    redis = servers.get("redis", "unix")
    with pytest.raises(StoreUnavailable) as caught:
        MemcachedStore(redis.connect_settings()).open()
    assert redis.connect_settings()["path"] in caught.value.message


def test_a_name_with_two_addresses_is_tried_at_both(
    talker: Talker, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """localhost may be ::1 first, and memcached listen on 127.0.0.1 alone."""
    server = servers.get("memcached", "tcp")
    port = server.connect_settings()["port"]
    real = socket.getaddrinfo

    def both(host: str, *arguments: Any, **more: Any) -> Any:
        if host != "twofold":
            return real(host, *arguments, **more)
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", both)
    client = talker({"host": "twofold", "port": port})
    assert client.ask(Get(key("test", b"x"))) is None
    with opened(server, host="twofold") as store:
        assert store.info().address == f"127.0.0.1:{port}"


# The private server.


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_the_private_server_is_private_and_leaves_nothing(
    starter: Starter, transport: str
) -> None:
    """050: also as root, where memcached wants to be told an account."""
    server = starter(transport=transport)
    settings = server.connect_settings()
    process = psutil.Process(server.process_id)
    if transport == "unix":
        assert os.stat(settings["path"]).st_mode & 0o077 == 0
        assert not process.net_connections("inet")
    else:
        listening = {each.laddr.ip for each in process.net_connections("inet")}
        assert listening == {"127.0.0.1"}
        assert not process.net_connections("udp")
    assert ("-u" in process.cmdline()) == (os.geteuid() == 0)
    with opened(server) as store:
        assert store.count("ready") == 0  # the probe has been taken away
    server.stop()
    assert set(os.listdir(server.directory)) <= {"server.log"}


def test_it_gets_the_memory_and_the_largest_item_asked_for(starter: Starter) -> None:
    for asked, memory, item in (
        ({}, 1024 * 2**20, 64 * 2**20),
        ({"memory": "64MB"}, 64 * 2**20, 32 * 2**20),
        ({"memory": "64MiB", "item_limit": "1MiB"}, 64 * 2**20, 2**20),
        ({"memory": "1MB", "item_limit": 5000}, 2 * 2**20, 2**20),
        ({"memory": "2GiB", "item_limit": 2 * 10**6}, 2048 * 2**20, 2**21),
    ):
        server = starter(**asked)
        with opened(server) as store:
            info = store.info()
        assert info.memory_limit_bytes == memory
        assert info.details["item_size_max"] == str(item)
        assert info.details["maxconns"] == "20000"
        server.stop()


def test_an_item_limit_that_the_memory_does_not_allow_is_said(
    starter: Starter,
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        starter(memory="64MB", item_limit="40MiB")
    assert "33,554,432" in caught.value.message
    assert caught.value.hint


def test_a_start_that_fails_shows_its_last_lines(starter: Starter) -> None:
    """050."""
    with pytest.raises(StoreUnavailable) as caught:
        starter("-I", "2g")
    assert "ended with status" in caught.value.message
    assert "Item max size" in caught.value.message


def test_a_socket_that_a_killed_server_left_is_no_hindrance(tmp_path: Path) -> None:
    first = MemcachedServer(tmp_path, {"transport": "unix"})
    second = MemcachedServer(tmp_path, {"transport": "unix"})
    try:
        path = first.start()["path"]
        psutil.Process(first.process_id).kill()
        until(first.death, "it has died")
        assert Path(path).exists()
        assert second.start()["path"] == path
    finally:
        second.stop()
        first.stop()


def test_a_strangers_memcached_on_the_port_is_never_taken_for_ours(
    starter: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """055: its key stays as it is, and none of ours is written."""
    theirs = starter(transport="tcp")
    port = theirs.connect_settings()["port"]
    assert raw(theirs, b"ms foreign 5\r\nvalue\r\n") == b"HD\r\n"
    monkeypatch.setattr(server_module, "free_port", lambda: port)
    with pytest.raises(StoreUnavailable) as caught:
        MemcachedServer(tmp_path / "ours", {"transport": "tcp"}).start()
    assert "in use" in caught.value.message
    assert raw(theirs, b"mg foreign v\r\n", b"e\r\n") == b"VA 5\r\nvalue\r\n"
    dump = raw(theirs, b"lru_crawler metadump hash\r\n", b"END\r\n")
    assert dump.count(b"key=") == 1


def test_both_stores_are_in_the_table() -> None:
    names = [profile.name for profile in registry.BUILT_IN]
    assert names[names.index("memcached-unix") + 1] == "memcached-tcp"
