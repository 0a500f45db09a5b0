"""What only a MySQL or MariaDB server can do to its clients."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
import pymysql
import pytest

from kvtui.errors import KvtuiError, OperationFailed, StoreUnavailable
from kvtui.runs import snapshot
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores.mysql.statements import rows
from kvtui.stores.mysql.status import durability
from kvtui.stores.mysql.store import MySqlStore
from kvtui.stores.operations import Add, Counts, Delete, Get, Operation, Put, key
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import mysql as server_module
from kvtui.stores.servers.mysql import MySqlServer
from tests.conftest import Servers, require_server
from tests.engine.inside import Stage, stage
from tests.stores.talking import Calls, OnTheWire
from tests.waiting import until

__all__ = ["stage"]

Talker = Callable[[dict[str, Any]], Calls]
CONNECTIONS = 12
PACKET_BYTES = 1 << 20
POOL_BYTES = 32 << 20
SECRET = "S3cr3t-märker"


class Careless(MySqlServer):
    """Set as no server should be: values are cut in silence, nothing is committed by
    itself, keys are text; and it has small limits."""

    def command(self, program: str) -> list[str]:
        return [
            *super().command(program),
            "--sql-mode=",
            "--autocommit=0",
            "--character-set-server=latin1",
            f"--max-connections={CONNECTIONS}",
            "--innodb-lock-wait-timeout=1",
        ]


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateServer]:
    """A careless server by TCP, with compressed rows, flushing once a second."""
    require_server("mysql")
    server = Careless(
        tmp_path_factory.mktemp("careless"),
        {
            "transport": "tcp",
            "row_format": "compressed",
            "flush_at_commit": 0,
            "max_packet": PACKET_BYTES,
            "memory": POOL_BYTES,
            "direct_io": False,
        },
    )
    server.start()
    yield server
    server.stop()


@pytest.fixture
def usual(servers: Servers) -> PrivateServer:
    """A private server on a unix socket."""
    return servers.get("mysql", "unix")


@pytest.fixture(params=["driver", "wire"])
def talker(request: pytest.FixtureRequest) -> Iterator[Talker]:
    """Makes a connected client of that way."""
    made: list[Calls] = []

    def make(settings: dict[str, Any]) -> Calls:
        store = MySqlStore(settings | {"client": request.param})
        client = OnTheWire(store) if request.param == "wire" else Calls(store)
        made.append(client)
        client.open()
        return client

    yield make
    for each in made:
        each.close()


@contextlib.contextmanager
def administered(settings: dict[str, Any]) -> Iterator[MySqlStore]:
    """A store for administration."""
    store = MySqlStore(settings)
    store.open()
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def raw(server: PrivateServer) -> Iterator[Any]:
    """A cursor of plain PyMySQL, as a stranger would have it."""
    settings = server.connect_settings()
    arguments: dict[str, Any] = {
        "user": settings["username"],
        "password": Path(settings["password_file"]).read_text(),
        "autocommit": True,
        "ssl_disabled": True,
    }
    if "path" in settings:
        arguments["unix_socket"] = settings["path"]
    else:
        arguments |= {"host": settings["host"], "port": settings["port"]}
    connection = pymysql.connect(**arguments)
    try:
        yield connection.cursor()
    finally:
        connection.close()


def fails(
    client: Calls, kind: str, operation: Operation, *, broken: bool = False
) -> OperationFailed:
    """The failure that an operation must end in."""
    with pytest.raises(OperationFailed) as caught:
        client.ask(operation)
    assert caught.value.kind == kind, caught.value
    assert caught.value.broken is broken
    return caught.value


@pytest.fixture(params=["usual", "careless"])
def settings(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """How to reach either server; its tables are empty afterwards."""
    server: PrivateServer = request.getfixturevalue(request.param)
    found = server.connect_settings()
    yield found
    with administered(found) as store:
        store.wipe("test")


LOOK_ALIKES = [
    "Éclair".encode(),
    b"eclair",
    b"ECLAIR",
    b"Eclair",
    b"ab",
    b"ab ",
    b"ab\0",
    b"AB",
    "caf\u00e9".encode(),
    "cafe\u0301".encode(),
    b"100%",
    b"50%s",
    b"a%(b)s",
    b"it's",
    b"back\\slash",
    b"x; drop",
    b"\xff\xfe\0'\"`",
    "\U0001f600".encode(),
    "\u00df".encode(),
    b"ss",
    b"",
]


def test_keys_are_bytes_whatever_the_servers_collation(
    talker: Talker, settings: dict[str, Any]
) -> None:
    """004, 005, 008, 026: even keys that no mapping has made harmless."""
    client = talker(settings)
    keys = [b"kvtui:test:" + name for name in LOOK_ALIKES]
    for number, each in enumerate(keys):
        client.ask(Put(each, b"%d" % number))
        client.ask(Add(each, ((b"n", number), (each, 1))))
    for number, each in enumerate(keys):
        assert client.ask(Get(each)) == b"%d" % number
        assert client.ask(Counts(each)) == {b"n": number, each: 1}
    with administered(settings) as store:
        assert store.count("test") == len(keys)
        assert sorted(found for found, _ in store.scan(b"", 1000)) == sorted(keys)


def test_a_key_over_the_limit_is_refused_and_never_cut(
    talker: Talker, settings: dict[str, Any]
) -> None:
    """007."""
    client = talker(settings)
    longest = b"kvtui:test:" + b"x" * (250 - 11)
    client.ask(Put(longest, b"fits"))
    for operation in (Put(longest + b"y", b"v"), Add(longest + b"y", ((b"n", 1),))):
        failure = fails(client, "too-large", operation)
        assert "'k'" in failure.message
    assert client.ask(Get(longest + b"y")) is None
    assert client.ask(Get(longest)) == b"fits"


def test_a_long_value_is_whole_though_the_server_would_cut_it(
    talker: Talker, settings: dict[str, Any]
) -> None:
    """017, 019: a session of ours is strict, whatever the server's sql_mode."""
    client = talker(settings)
    for value in (b"5", "é".encode(), b"", os.urandom(4096), os.urandom(70_000)):
        client.ask(Put(b"kvtui:test:v", value))
        assert client.ask(Get(b"kvtui:test:v")) == value
    with administered(settings) as store:
        assert "STRICT_ALL_TABLES" in store.info().details["sql_mode"]


def test_writes_are_there_for_others_and_after_the_connection(
    talker: Talker, settings: dict[str, Any]
) -> None:
    """025: committed at once, though the server's default is not to."""
    first, second = talker(settings), talker(settings)
    assert second.ask(Get(b"kvtui:test:x")) is None
    first.ask(Put(b"kvtui:test:x", b"1"))
    assert second.ask(Get(b"kvtui:test:x")) == b"1"
    first.ask(Add(b"kvtui:test:x", ((b"n", 1),)))
    assert second.ask(Counts(b"kvtui:test:x")) == {b"n": 1}
    first.ask(Put(b"kvtui:test:x", b"2"))
    first.close()
    assert second.ask(Get(b"kvtui:test:x")) == b"2"


def test_a_value_over_the_packet_limit_is_named_and_the_connection_goes_on(
    talker: Talker, careless: PrivateServer
) -> None:
    """016: with its size, the limit and the variable's name."""
    client = talker(careless.connect_settings())
    with administered(dict(client.store.settings)) as store:
        most = store.info().item_limit_bytes
    assert most is not None
    fits = os.urandom(most)
    client.ask(Put(b"kvtui:test:fits", fits))
    assert client.ask(Get(b"kvtui:test:fits")) == fits
    failure = fails(client, "too-large", Put(b"kvtui:test:x", bytes(17_000_000)))
    assert "max_allowed_packet" in failure.message
    assert f"{PACKET_BYTES:,}" in failure.message
    assert "17,000" in failure.message or "34,000" in failure.message
    fails(client, "too-large", Add(b"kvtui:test:x", ((bytes(PACKET_BYTES), 1),)))
    assert client.ask(Get(b"kvtui:test:fits")) == fits
    assert client.ask(Delete(b"kvtui:test:fits")) is True


def test_a_value_goes_through_at_any_length_up_to_where_it_is_refused(
    talker: Talker, careless: PrivateServer
) -> None:
    """The server cuts the connection at its limit; we refuse before that."""
    client = talker(careless.connect_settings())
    on_the_wire = isinstance(client, OnTheWire)
    # The driver writes a value in hex; and its bound is not to the byte.
    edge = PACKET_BYTES if on_the_wire else PACKET_BYTES // 2
    refused = []
    for length in (*range(edge - 200, edge - 110, 30), *range(edge - 60, edge, 4)):
        try:
            client.ask(Put(b"kvtui:test:edge", bytes(length)))
        except OperationFailed as error:
            refused.append((error.kind, error.broken))
        else:
            assert client.ask(Get(b"kvtui:test:edge")) == bytes(length)
            assert not refused
    assert set(refused) == {("too-large", False)}
    assert client.ask(Delete(b"kvtui:test:edge")) is True


def test_more_than_one_packet_either_way(talker: Talker, usual: PrivateServer) -> None:
    """A packet ends at 16 MB; a value does not."""
    client = talker(usual.connect_settings())
    value = random.Random(6).randbytes((1 << 24) - 1)
    client.ask(Put(b"kvtui:test:long", value))
    assert client.ask(Get(b"kvtui:test:long")) == value
    assert client.ask(Delete(b"kvtui:test:long")) is True


def test_replies_of_one_byte_at_a_time(usual: PrivateServer) -> None:
    client = OnTheWire(MySqlStore(usual.connect_settings()), piece=1)
    client.open()
    for _ in range(2):
        client.ask(Put(b"kvtui:test:x", b"value" * 100))
        assert client.ask(Get(b"kvtui:test:x")) == b"value" * 100
        client.ask(Add(b"kvtui:test:x", ((b"a", 1), (b"b", 2))))
        assert client.ask(Counts(b"kvtui:test:x")) == {b"a": 1, b"b": 2}
        assert client.ask(Delete(b"kvtui:test:x")) is True
    client.close()


def test_an_add_of_many_counters_is_exact(
    talker: Talker, settings: dict[str, Any]
) -> None:
    """More than one statement takes, in number and in bytes."""
    client = talker(settings)
    wanted: dict[bytes, int] = {}
    for counts in (
        [(b"name %d" % number, number) for number in range(2500)],
        [(b"%d" % number + bytes(100_000), 1) for number in range(25)],
        [(b"name %d" % number, -1) for number in range(0, 2500, 3)],
        [(b"one", 1), (b"one", 1)],
    ):
        client.ask(Add(b"kvtui:test:many", tuple(counts)))
        for name, amount in counts:
            wanted[name] = wanted.get(name, 0) + amount
    assert client.ask(Counts(b"kvtui:test:many")) == wanted
    client.ask(Add(b"kvtui:test:many", ()))
    assert client.ask(Counts(b"kvtui:test:many")) == wanted


def test_many_clients_add_to_the_same_counters_in_any_order(
    talker: Talker, usual: PrivateServer
) -> None:
    """035: nothing lost, nothing twice, and no deadlock reaches the client."""
    clients = [talker(usual.connect_settings()) for _ in range(8)]

    def work(number: int) -> None:
        draw = random.Random(number)
        for _ in range(30):
            names = draw.sample(range(60), 20)
            counts = tuple((b"%d" % name, 1) for name in names)
            clients[number].ask(Add(b"kvtui:test:hot", counts))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    wanted: dict[bytes, int] = {}
    for number in range(8):
        draw = random.Random(number)
        for _ in range(30):
            for name in draw.sample(range(60), 20):
                wanted[b"%d" % name] = wanted.get(b"%d" % name, 0) + 1
    assert clients[0].ask(Counts(b"kvtui:test:hot")) == wanted
    assert clients[0].ask(Delete(b"kvtui:test:hot")) is True


@pytest.fixture
def retried(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when a statement is made again."""
    told, count = Event(), MySqlStore._retried

    def noted(store: MySqlStore) -> None:
        count(store)
        told.set()

    monkeypatch.setattr(MySqlStore, "_retried", noted)
    return told


@contextlib.contextmanager
def locked(server: PrivateServer, table: str) -> Iterator[Any]:
    """A stranger who holds every row of a table until he commits."""
    with raw(server) as cursor:
        cursor.execute("BEGIN")
        cursor.execute(f"SELECT * FROM kvtui.{table} FOR UPDATE")
        yield cursor


def test_a_deadlock_is_counted_by_the_one_who_tries_again(
    talker: Talker, usual: PrivateServer, retried: Event
) -> None:
    """035: with another transaction, which the server lets win as it changed more."""
    client, where = talker(usual.connect_settings()), b"kvtui:test:meet"
    first, second = (each for each, _, _ in rows([(b"a", 1), (b"b", 1)]))
    others = [(b"%d" % n, 1) for n in range(50)]
    client.ask(Add(where, (*others, (b"a", 1), (b"b", 1))))
    one = "UPDATE kvtui.kvtui_counters SET n = n + 1 WHERE k = %s AND d = %s"
    with raw(usual) as stranger, raw(usual) as watching, ThreadPoolExecutor(1) as pool:

        def waits() -> bool:
            watching.execute("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'")
            return int(watching.fetchone()[1]) > 0

        stranger.execute("BEGIN")
        for digest, _, _ in rows(others):
            stranger.execute(one, (where, digest))
        stranger.execute(one, (where, second))
        asked = pool.submit(client.ask, Add(where, ((b"a", 10), (b"b", 10))))
        until(waits, "the client waits for the second row")
        stranger.execute(one, (where, first))
        assert retried.wait(30)
        stranger.execute("COMMIT")
        assert asked.result(30) is None
    assert client.store.retries == 1
    found = client.ask(Counts(where))
    assert (found[b"a"], found[b"b"]) == (12, 12)
    assert client.ask(Delete(where)) is True


@pytest.mark.parametrize("kind", ["put", "add", "delete"])
def test_a_change_that_waited_too_long_for_a_lock_is_made_again(
    talker: Talker, careless: PrivateServer, retried: Event, kind: str
) -> None:
    """035: whatever it changes; nothing lost, nothing twice, and counted."""
    client, where = talker(careless.connect_settings()), b"kvtui:test:waits"
    client.ask(Put(where, b"before"))
    client.ask(Add(where, ((b"n", 1),)))
    change = {"put": Put(where, b"x"), "add": Add(where, ((b"n", 1),))}
    table = "kvtui_values" if kind == "put" else "kvtui_counters"
    with locked(careless, table) as stranger, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.ask, change.get(kind, Delete(where)))
        assert retried.wait(30)
        stranger.execute("COMMIT")
        assert asked.result(30) is (True if kind == "delete" else None)
    assert client.store.retries >= 1
    there = kind != "delete"
    value = b"x" if kind == "put" else b"before"
    assert client.ask(Get(where)) == (value if there else None)
    counter = {b"n": 2 if kind == "add" else 1}
    assert client.ask(Counts(where)) == (counter if there else None)
    client.ask(Delete(where))


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_what_a_run_had_to_try_again_is_in_its_figures(
    stage: Stage, careless: PrivateServer, retried: Event, tmp_path: Path, client: str
) -> None:
    """034, 035: counted and reported, within the operation's time; totals right."""
    data = tmp_path / "people.jsonl"
    data.write_text('{"pages": ["a", "b"]}\n' * 30)
    opened = contextlib.ExitStack()

    def let_go(stranger: Any) -> None:
        retried.wait(30)
        stranger.execute("COMMIT")

    def lock() -> None:
        stranger = opened.enter_context(locked(careless, "kvtui_counters"))
        waiting = Thread(target=let_go, args=(stranger,))
        waiting.start()
        opened.callback(waiting.join)

    stage.step_in({20: lock})
    store = StorePlan("mine", "mysql", careless.connect_settings() | {"client": client})
    workload = WorkloadPlan("fans", {"data": str(data), "mode": "native"})
    with opened:
        run = stage.carry_out(RunPlan(workload, (store,), clients=1))
    (trial,) = snapshot.read(run.snapshot).trials
    assert (trial.outcome, trial.ranked, trial.failed) == ("done", True, 0)
    assert trial.figures["retries after conflicts"] >= 1
    assert (trial.operations["add"].latency.max_ns or 0) > 900_000_000


def test_a_counter_that_overflows_is_a_failure_and_nothing_is_changed(
    talker: Talker, settings: dict[str, Any]
) -> None:
    client = talker(settings)
    client.ask(Add(b"kvtui:test:big", ((b"n", 2**63 - 1),)))
    fails(client, "server-error", Add(b"kvtui:test:big", ((b"n", 1), (b"m", 1))))
    fails(client, "too-large", Add(b"kvtui:test:big", ((b"n", 2**63),)))
    assert client.ask(Counts(b"kvtui:test:big")) == {b"n": 2**63 - 1}


def test_more_clients_than_the_server_takes_are_refused_before_the_clock_runs(
    talker: Talker, careless: PrivateServer
) -> None:
    """038."""
    settings = careless.connect_settings()

    def too_many() -> None:
        for _ in range(CONNECTIONS + 2):
            talker(settings)

    with pytest.raises(StoreUnavailable) as caught:
        too_many()
    assert "oo many connections" in caught.value.message
    assert "max_connections" in (caught.value.hint or "")
    assert "--clients" in (caught.value.hint or "")


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_a_run_of_too_many_clients_tells_the_servers_limit(
    stage: Stage, careless: PrivateServer, tmp_path: Path, client: str
) -> None:
    """038: wanted, got and the limit; nothing was measured, nothing is left."""
    data = tmp_path / "people.jsonl"
    data.write_text('{"pages": ["a", "b"]}\n')
    settings = careless.connect_settings()
    store = StorePlan("mine", "mysql", settings | {"client": client})
    run = stage.carry_out(
        RunPlan(WorkloadPlan("fans", {"data": str(data)}), (store,), clients=100)
    )
    (trial,) = snapshot.read(run.snapshot).trials
    assert (trial.outcome, trial.attempted) == ("failed", None)
    assert "of 100 clients could connect" in trial.reason
    assert trial.reason.count(f"max_connections is {CONNECTIONS}") == 1
    assert "--clients" in trial.reason
    with administered(settings) as admin:
        assert admin.count("fans") == 0


def test_a_killed_connection_is_a_failure_and_can_be_opened_again(
    talker: Talker, usual: PrivateServer
) -> None:
    client = talker(usual.connect_settings())
    client.ask(Put(b"kvtui:test:x", b"x"))
    with raw(usual) as cursor:
        cursor.execute(
            "SELECT id FROM information_schema.processlist"
            " WHERE id <> CONNECTION_ID() AND db = 'kvtui'"
        )
        for (number,) in cursor.fetchall():
            cursor.execute("KILL %s", (number,))
    fails(client, "disconnected", Get(b"kvtui:test:x"), broken=True)
    client.close()
    client.open()
    assert client.ask(Get(b"kvtui:test:x")) == b"x"
    assert client.ask(Delete(b"kvtui:test:x")) is True


def test_tables_that_somebody_removed_are_said(
    talker: Talker, careless: PrivateServer
) -> None:
    client = talker(careless.connect_settings())
    with raw(careless) as cursor:
        cursor.execute("DROP DATABASE kvtui")
    for operation in (Get(b"x"), Put(b"x", b"x"), Add(b"x", ((b"n", 1),))):
        failure = fails(client, "server-error", operation)
        assert failure.hint
    client.close()
    client.open()
    assert client.ask(Get(b"x")) is None


def test_info_tells_what_is_in_force(
    usual: PrivateServer, careless: PrivateServer
) -> None:
    """049, and the process behind a TCP port."""
    with administered(usual.connect_settings()) as store:
        info = store.info()
        assert info.version.startswith(("MariaDB ", "MySQL ", "Percona "))
        assert info.durability.startswith("fsync")
        assert info.compression == "none"
        assert info.details["autocommit"] == "ON"
        assert info.client.startswith("wire")
        assert info.memory_limit_bytes is None
    with administered(careless.connect_settings() | {"client": "driver"}) as store:
        info = store.info()
        assert info.durability.startswith("memory")
        assert "key_block_size=8" in info.compression
        assert info.details["autocommit"] == "ON"
        assert info.details["row_format"] == "compressed"
        assert info.details["innodb_flush_method"] == "fsync"
        assert info.details["max_allowed_packet"] == str(PACKET_BYTES)
        assert info.process_id == careless.process_id
        assert info.address == f"127.0.0.1:{careless.port}"
        assert info.client.startswith("driver, PyMySQL ")
        assert info.memory_limit == f"buffer pool {POOL_BYTES:,} bytes"


@pytest.mark.parametrize(
    ("variables", "begin"),
    [
        ({"innodb_flush_log_at_trx_commit": "0"}, "memory"),
        ({"innodb_flush_log_at_trx_commit": "1"}, "fsync"),
        ({"innodb_flush_log_at_trx_commit": "2"}, "OS cache"),
        (
            {
                "innodb_flush_log_at_trx_commit": "1",
                "innodb_flush_method": "nosync",
            },
            "OS cache",
        ),
    ],
)
def test_durability_is_named_by_the_settings(
    variables: dict[str, str], begin: str
) -> None:
    """049."""
    assert durability(variables).startswith(begin)


@pytest.mark.parametrize("row_format", ["dynamic", "compact", "redundant"])
def test_any_row_format_keeps_keys_and_values(
    talker: Talker, careless: PrivateServer, row_format: str
) -> None:
    settings = careless.connect_settings() | {"row_format": row_format}
    client = talker(settings)  # the tables are empty, and so take the new format
    client.ask(Put(b"kvtui:test:" + b"k" * 239, b"v" * 70_000))
    assert client.ask(Get(b"kvtui:test:" + b"k" * 239)) == b"v" * 70_000
    with administered(settings) as store:
        assert store.info().details["row_format"] == row_format
    with pytest.raises(StoreUnavailable) as caught:
        talker(careless.connect_settings())
    assert row_format in caught.value.message
    assert "compressed" in caught.value.message
    client.close()
    with administered(settings) as store:
        assert store.wipe("test") == 1


def databases(cursor: Any) -> set[str]:
    cursor.execute("SHOW DATABASES")
    return {str(name) for (name,) in cursor.fetchall()}


def tables(cursor: Any) -> set[str]:
    cursor.execute("SHOW TABLES FROM kvtui")
    return {str(name) for (name,) in cursor.fetchall()}


@pytest.fixture
def stranger(careless: PrivateServer) -> Iterator[Any]:
    """A cursor on a server that has no database of ours."""
    with raw(careless) as cursor:
        cursor.execute("DROP DATABASE IF EXISTS kvtui")
        yield cursor
        cursor.execute("DROP DATABASE IF EXISTS kvtui")


def test_what_kvtui_made_goes_when_it_is_empty(
    careless: PrivateServer, stranger: Any
) -> None:
    """056: tables and database, once nothing is in them."""
    with administered(careless.connect_settings()) as store:
        store.put(b"kvtui:test:x", b"x")
        store.put(b"kvtui:fans:x", b"x")
        assert store.wipe("test") == 1
        assert tables(stranger) == {"kvtui_values", "kvtui_counters"}
        assert store.get(b"kvtui:fans:x") == b"x"
        assert store.wipe("fans") == 1
        assert "kvtui" not in databases(stranger)
        # And is made again should it be needed.
        assert store.count("fans") == 0
        store.wipe("fans")
        store.put(b"kvtui:test:x", b"again")
        assert store.get(b"kvtui:test:x") == b"again"
        store.wipe("test")
    assert "kvtui" not in databases(stranger)


def test_tables_that_another_client_uses_stay(
    careless: PrivateServer, stranger: Any
) -> None:
    settings = careless.connect_settings()
    with administered(settings) as other, administered(settings) as store:
        store.put(b"kvtui:test:x", b"x")
        assert store.wipe("test") == 1
        other.put(b"kvtui:fans:x", b"x")
        assert other.get(b"kvtui:fans:x") == b"x"
        other.wipe("fans")


def test_a_database_of_somebodys_stays_with_all_that_is_in_it(
    careless: PrivateServer, stranger: Any
) -> None:
    """056: made by them, or made by us and used by them."""
    settings = careless.connect_settings()
    stranger.execute("CREATE DATABASE kvtui")
    with administered(settings) as store:
        store.put(b"kvtui:test:x", b"x")
        assert store.wipe("test") == 1
    assert "kvtui" in databases(stranger)
    assert tables(stranger) == set()
    stranger.execute("DROP DATABASE kvtui")
    with administered(settings) as store:
        stranger.execute("CREATE TABLE kvtui.theirs (n INT)")
        stranger.execute("INSERT INTO kvtui.theirs VALUES (7)")
        store.put(b"kvtui:test:x", b"x")
        assert store.wipe("test") == 1
    assert tables(stranger) == {"theirs"}
    stranger.execute("SELECT n FROM kvtui.theirs")
    assert stranger.fetchall() == ((7,),)


def test_a_table_of_our_name_that_is_not_ours_is_refused(
    talker: Talker, careless: PrivateServer, stranger: Any
) -> None:
    stranger.execute("CREATE DATABASE kvtui")
    stranger.execute("CREATE TABLE kvtui.kvtui_values (k VARBINARY(250), v LONGBLOB)")
    stranger.execute("INSERT INTO kvtui.kvtui_values VALUES ('theirs', 'x')")
    with pytest.raises(StoreUnavailable) as caught:
        talker(careless.connect_settings())
    assert "kvtui.kvtui_values" in caught.value.message
    assert "schema=" in (caught.value.hint or "")
    stranger.execute("SELECT k, v FROM kvtui.kvtui_values")
    assert stranger.fetchall() == ((b"theirs", b"x"),)


def test_who_may_not_come_in_is_told_so_without_the_password(
    talker: Talker, careless: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """133, 134."""
    settings = careless.connect_settings()
    monkeypatch.setenv("KVTUI_TEST_PASSWORD", SECRET)
    wrong = {**settings, "password_env": "KVTUI_TEST_PASSWORD"}
    for asked in (
        wrong,
        {**wrong, "username": "nobody"},
        {k: v for k, v in settings.items() if k != "password_file"},
        {**settings, "schema": "elsewhere"},
    ):
        with pytest.raises(StoreUnavailable) as caught:
            talker(asked)
        error: KvtuiError = caught.value
        assert "denied" in error.message
        assert "password_file" in (error.hint or "")
        shown = [str(error), repr(error), error.hint or "", repr(error.__cause__)]
        shown += [repr(MySqlStore(asked).__dict__)]
        own = Path(settings["password_file"]).read_text()
        assert not [text for text in shown if "S3cr3t" in text or own in text]


def test_tls_is_refused_where_it_cannot_be_had(careless: PrivateServer) -> None:
    settings = careless.connect_settings() | {"tls": True}
    with pytest.raises(StoreUnavailable) as caught:
        MySqlStore(settings).wire()
    assert "client=driver" in (caught.value.hint or "")
    with pytest.raises(StoreUnavailable) as caught:
        MySqlStore(settings).open()
    assert "SSL" in caught.value.message


GREETING = (
    b"\x0a5.5.5-10.11.0-fake\0" + bytes(4) + b"saltsalt\0" + b"\xff\xf7\x08\x02\0"
    b"\xff\x81\x15" + bytes(10) + b"moresaltmore\0mysql_native_password\0"
)


@contextlib.contextmanager
def saying(*packets: bytes, then_silent: bool = False) -> Iterator[tuple[Any, Any]]:
    """A server that says these packets in turn, whatever it hears; settings, and all
    that it heard."""
    heard: list[bytes] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def talk() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    for packet in packets:
                        connection.sendall(packet)
                        heard.append(connection.recv(65536))
                    while then_silent and connection.recv(65536):
                        pass

        thread = Thread(target=talk, daemon=True)
        thread.start()
        yield {"host": "127.0.0.1", "port": listener.getsockname()[1]}, heard
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def packet(payload: bytes, number: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((number,)) + payload


@pytest.mark.parametrize(
    "packets",
    [
        [b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        [b"-ERR unknown command\r\n"],
        [packet(b"\x0a")],
        [packet(b"\xff\x10\x04Too many connections")],
        [packet(GREETING), packet(b"", 2)],
        [packet(GREETING), packet(b"\xff", 2)],
        [packet(GREETING), packet(bytes(7), 2), packet(b"\xfb/etc/passwd", 1)],
        [],
    ],
)
def test_what_does_not_answer_like_mysql_is_no_store(
    talker: Talker, packets: list[bytes]
) -> None:
    with saying(*packets) as (settings, _), pytest.raises(StoreUnavailable) as caught:
        talker(settings | {"timeout_s": 20})
    assert f"127.0.0.1:{settings['port']}" in caught.value.message
    assert caught.value.hint


def test_a_server_that_says_nothing_is_said_to(talker: Talker) -> None:
    """029."""
    for packets in ([], [packet(GREETING)]):
        with (
            saying(*packets, then_silent=True) as (settings, _),
            pytest.raises(StoreUnavailable) as caught,
        ):
            talker(settings | {"timeout_s": 0.3})
        assert "in time" in caught.value.message


def test_a_password_is_never_sent_in_clear(
    talker: Talker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever answers there may ask for it."""
    monkeypatch.setenv("KVTUI_TEST_PASSWORD", SECRET)
    for plugin in (b"mysql_clear_password", b"dialog"):
        asks = packet(b"\xfe" + plugin + b"\0\x02Password: ", 2)
        with (
            saying(packet(GREETING), asks) as (settings, heard),
            pytest.raises(StoreUnavailable) as caught,
        ):
            talker(settings | {"password_env": "KVTUI_TEST_PASSWORD"})
        assert "in clear" in caught.value.message
        assert heard
        assert not [data for data in heard if b"S3cr3t" in data]


# Its private server.


def test_a_private_server_has_one_account_of_little_power(
    careless: PrivateServer,
) -> None:
    """050: whoever runs it, nobody else comes in, and kvtui only to its database."""
    with raw(careless) as cursor:
        cursor.execute("SHOW GRANTS")
        grants = [str(line) for (line,) in cursor.fetchall()]
        assert all("`kvtui`.*" in each or "GRANT USAGE" in each for each in grants)
        with pytest.raises(pymysql.err.MySQLError):
            cursor.execute("SELECT * FROM mysql.user")
    for user in ("root", "kvtui", "", "mysql"):
        with pytest.raises(pymysql.err.MySQLError):
            pymysql.connect(host="127.0.0.1", port=careless.port, user=user)
    for name in ("password", "account.sql", "server.log"):
        assert stat.S_IMODE((careless.directory / name).stat().st_mode) == 0o600
    listening = {
        each.laddr.ip
        for each in psutil.Process(careless.process_id).net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_killed_server_recovers_and_kept_what_it_had_acknowledged(
    tmp_path: Path,
) -> None:
    """046: ready only when it has recovered; with a flush each commit all is there."""
    require_server("mysql")
    server = private_server("mysql", tmp_path, {"memory": "32MB"})
    try:
        with administered(server.start()) as store:
            for number in range(50):
                store.put(b"kvtui:test:%d" % number, b"x" * 5000)
            process_id = server.process_id
            assert process_id is not None
            os.kill(process_id, signal.SIGKILL)
            until(server.death, "it has died")
            fails(Calls(store), "disconnected", Get(b"kvtui:test:1"), broken=True)
        with administered(server.start()) as store:
            for number in range(50):
                assert store.get(b"kvtui:test:%d" % number) == b"x" * 5000
    finally:
        server.stop()


def test_a_full_disk_is_said_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_server("mysql")
    usage = shutil.disk_usage(tmp_path)
    full = type(usage)(usage.total, usage.total, 1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(StoreUnavailable) as caught:
        private_server("mysql", tmp_path, {}).start()
    assert "1,000,000 bytes free" in caught.value.message
    assert not list(tmp_path.glob("data*"))


def test_an_installation_that_fails_shows_its_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """050."""
    require_server("mysql")
    failing = [sys.executable, "-c", "import sys; sys.exit('no room for tables')"]
    monkeypatch.setattr(server_module, "_install_words", lambda *words: failing)
    with pytest.raises(StoreUnavailable) as caught:
        private_server("mysql", tmp_path, {}).start()
    assert "status 1" in caught.value.message
    assert "no room for tables" in caught.value.message
    assert not (tmp_path / "data").exists()


def test_it_dies_with_whoever_started_it(tmp_path: Path) -> None:
    """052: also when that one is killed and can clean up nothing."""
    require_server("mysql")
    code = (
        "import sys, time; from pathlib import Path\n"
        "from kvtui.stores.servers import private_server\n"
        "server = private_server('mysql', Path(sys.argv[1]), {'memory': '32MB'})\n"
        "server.start(); print(server.process_id, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)

    def gone() -> bool:
        try:
            process = psutil.Process(process_id)
            return bool(process.status() == psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return True

    until(gone, "the server is gone", 10)


def test_ours_is_known_by_its_key_mapping(usual: PrivateServer) -> None:
    """007: three pages whose names are too long for any index."""
    names = [b"p" * 2900, b"q" * 2099 + b"1", b"q" * 2099 + b"2"]
    with administered(usual.connect_settings()) as store:
        for number, name in enumerate(names):
            store.put(key("test", name), b"%d" % number)
        assert [store.get(key("test", name)) for name in names] == [b"0", b"1", b"2"]
        assert store.wipe("test") == 3
