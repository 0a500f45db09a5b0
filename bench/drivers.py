"""The calls loop beside a bare loop over the same driver, a thread a client.

A get and a put of 100 bytes in turn, with the same statements or calls, on the same
server, in turn and in one process. The bare loop reads the clock twice an operation and
appends one number, as anybody would who measures by hand; so the ratio is what kvtui's
generator, dispatch, checks and accounting cost an application's view of a store.

Target: at least 0.9 of the bare loop, at 50 clients. One client is there to show more:
no thread waits for its turn, and the same cost is a larger share of what is quick.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier, Thread
from typing import Any, Final, NamedTuple

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, Missing, table
from bench.loops import (
    CLIENTS,
    KEYS,
    VALUE,
    Settings,
    calls_rate,
    gets_and_puts,
    reachable,
)
from kvtui.stores import registry
from kvtui.stores.store import Store

ROUNDS = 7
LEAST_RATIO = 0.9

GetCall = Callable[[bytes], Any]
PutCall = Callable[[bytes, bytes], Any]
Connect = Callable[[], tuple[GetCall, PutCall]]
"""Called in each thread: a connected driver's get and put."""
Bare = Callable[[Settings], AbstractContextManager[Connect]]


class Subject(NamedTuple):
    """A store with a driver, and the driver alone."""

    kind: str
    settings: dict[str, Any]
    bare: Bare
    operations: int = 4_000
    crowded: int | None = None
    """Operations where many threads make it slow; otherwise as many."""


@contextlib.contextmanager
def bare_mysql(settings: Settings) -> Iterator[Connect]:
    """PyMySQL's cursor with kvtui's statements."""
    import pymysql

    from kvtui.stores.mysql import statements as sql

    get_text, put_text = (text.replace("?", "%s") for text in (sql.GET, sql.PUT))
    password = Path(settings["password_file"]).read_text()
    opened: list[Any] = []

    def connect() -> tuple[GetCall, PutCall]:
        connection = pymysql.connect(
            unix_socket=settings["path"],
            user=settings["username"],
            password=password,
            database="kvtui",
            autocommit=True,
            ssl_disabled=True,
        )
        opened.append(connection)
        cursor = connection.cursor()

        def get(at: bytes) -> bytes | None:
            cursor.execute(get_text, (at,))
            row = cursor.fetchone()
            return None if row is None else row[0]

        def put(at: bytes, value: bytes) -> None:
            cursor.execute(put_text, (at, value))

        return get, put

    yield connect
    for each in opened:
        each.close()


@contextlib.contextmanager
def _opened(kind: str, settings: Settings) -> Iterator[Any]:
    """The adapter, for what it opened with its own settings."""
    store: Store = registry.adapter(kind)(settings)
    store.open()
    yield store
    store.close()


@contextlib.contextmanager
def bare_leveldb(settings: Settings) -> Iterator[Connect]:
    """plyvel's own methods."""
    with _opened("leveldb", settings) as store:
        database = store._database
        # The same keys in their other place, so that no key is changed on the way.
        for each in KEYS:
            database.put(each, VALUE)
        yield lambda: (database.get, database.put)


@contextlib.contextmanager
def bare_wiredtiger(settings: Settings) -> Iterator[Connect]:
    """A cursor of the bindings."""
    with _opened("wiredtiger", settings) as store:

        def connect() -> tuple[GetCall, PutCall]:
            cursor = store._at.mine().values

            def get(at: bytes) -> bytes | None:
                cursor.set_key(b"v" + at)
                if cursor.search():
                    return None
                value: bytes = cursor.get_value()
                cursor.reset()
                return value

            def put(at: bytes, value: bytes) -> None:
                cursor.set_key(b"v" + at)
                cursor.set_value(value)
                cursor.insert()

            return get, put

        yield connect


@contextlib.contextmanager
def bare_mongo(settings: Settings) -> Iterator[Connect]:
    """pymongo's find_one and replace_one on kvtui's documents."""
    import pymongo

    client: Any = pymongo.MongoClient(
        settings["host"],
        settings["port"],
        directConnection=True,
        maxPoolSize=CLIENTS,
        retryReads=False,
        retryWrites=False,
        w=1,
        serverMonitoringMode="poll",
        heartbeatFrequencyMS=3_600_000,
    )
    records = client.kvtui.kvtui_records
    names = {at: at.decode() for at in KEYS}

    def get(at: bytes) -> bytes | None:
        found = records.find_one({"_id": names[at]}, {"_id": 0, "v": 1})
        return None if found is None else found["v"]

    def put(at: bytes, value: bytes) -> None:
        name = names[at]
        records.replace_one({"_id": name}, {"_id": name, "v": value}, upsert=True)

    def connect() -> tuple[GetCall, PutCall]:
        get(KEYS[0])  # takes a connection of the pool
        return get, put

    with client:
        yield connect


SUBJECTS: Final = (
    Subject("leveldb", {}, bare_leveldb, 100_000),
    Subject("wiredtiger", {}, bare_wiredtiger, 100_000, 5_000),
    # No flush a commit: the disk is not what is compared.
    Subject("mysql", {"transport": "unix", "flush_at_commit": 0}, bare_mysql, 20_000),
    Subject("mongo", {"transport": "tcp"}, bare_mongo, 1_000),
)


def with_bare_loop(
    subject: Subject, settings: Settings, operations: int, clients: int
) -> float:
    """Operations a second of clock, call, clock, append."""
    clock = time.perf_counter_ns
    found: list[int] = []

    def one(connect: Connect, begin: Barrier) -> None:
        get, put = connect()
        begin.wait()
        latencies: list[int] = []
        append = latencies.append
        for turn in range(operations // clients // 2):
            at = KEYS[turn % len(KEYS)]
            start = clock()
            value = get(at)
            append(clock() - start)
            if value is None:
                return
            start = clock()
            put(at, VALUE)
            append(clock() - start)
        found.append(len(latencies))

    began = 0.0

    def note() -> None:
        nonlocal began
        began = time.perf_counter()

    begin = Barrier(clients, note)
    with subject.bare(settings) as connect:
        threads = [
            Thread(target=one, args=(connect, begin), daemon=True)
            for _ in range(clients)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        length_s = time.perf_counter() - began
    done = sum(found)
    if done != operations:
        raise SystemExit("a value is missing")
    return done / length_s


def compared(subject: Subject) -> Iterator[Comparison]:
    """The calls loop beside the bare loop, with many clients and with one."""
    kind = registry.kind(subject.kind)
    if kind.module and not find_spec(kind.module):
        raise Missing(f"there is no Python module {kind.module}: {kind.install}")
    with reachable(subject.kind, subject.settings) as settings:
        if "driver" in kind.clients:
            settings = {**settings, "client": "driver"}
        for clients, target in ((CLIENTS, LEAST_RATIO), (1, None)):
            asked = subject.operations
            if clients > 1 and subject.crowded:
                asked = subject.crowded
            asked -= asked % (2 * clients)  # As many for each, in pairs.
            yield Comparison(
                subject.kind,
                f"driver, {clients} client{'s' * (clients > 1)}, get+put",
                partial(
                    calls_rate,
                    *(subject.kind, settings, gets_and_puts, asked, clients),
                ),
                "bare loop over driver",
                partial(with_bare_loop, subject, settings, asked, clients),
                target,
                ROUNDS,
            )


def comparisons() -> list[tuple[str, Callable[[], Iterator[Comparison]]]]:
    """Each store's, by name."""
    return [(each.kind, partial(compared, each)) for each in SUBJECTS]


def main() -> int:
    """Print the table; how many targets were missed."""
    return table(comparisons())


if __name__ == "__main__":
    sys.exit(main())
