"""The calls loop beside a bare loop over the same driver: one client, one thread.

A get and a put of 100 bytes in turn, with the same statements or calls, on the same
server, in turn and in one process. The bare loop reads the clock twice an operation and
appends one number, as anybody would who measures by hand; so the ratio is what kvtui's
generator, dispatch, checks and accounting cost an application's view of a store.

Target: at least 0.9 of the bare loop.
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
from typing import Any, Final, NamedTuple

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, Missing, table
from bench.loops import KEYS, VALUE, Settings, calls_rate, gets_and_puts, reachable
from kvtui.stores import registry
from kvtui.stores.store import Store

ROUNDS = 7
LEAST_RATIO = 0.9

GetCall = Callable[[bytes], Any]
PutCall = Callable[[bytes, bytes], Any]
Bare = Callable[[Settings], AbstractContextManager[tuple[GetCall, PutCall]]]


class Subject(NamedTuple):
    """A store with a driver, and the driver alone."""

    kind: str
    settings: dict[str, Any]
    bare: Bare
    """A connected driver's get and put; everything that connecting takes is done."""
    operations: int = 4_000


@contextlib.contextmanager
def bare_mysql(settings: Settings) -> Iterator[tuple[GetCall, PutCall]]:
    """PyMySQL's cursor with kvtui's statements."""
    import pymysql

    from kvtui.stores.mysql import statements as sql

    connection = pymysql.connect(
        unix_socket=settings["path"],
        user=settings["username"],
        password=Path(settings["password_file"]).read_text(),
        database="kvtui",
        autocommit=True,
        ssl_disabled=True,
    )
    cursor = connection.cursor()
    get_text, put_text = (text.replace("?", "%s") for text in (sql.GET, sql.PUT))

    def get(at: bytes) -> bytes | None:
        cursor.execute(get_text, (at,))
        row = cursor.fetchone()
        return None if row is None else row[0]

    def put(at: bytes, value: bytes) -> None:
        cursor.execute(put_text, (at, value))

    yield get, put
    connection.close()


@contextlib.contextmanager
def _opened(kind: str, settings: Settings) -> Iterator[Any]:
    """The adapter, for what it opened with its own settings."""
    store: Store = registry.adapter(kind)(settings)
    store.open()
    yield store
    store.close()


@contextlib.contextmanager
def bare_leveldb(settings: Settings) -> Iterator[tuple[GetCall, PutCall]]:
    """plyvel's own methods."""
    with _opened("leveldb", settings) as store:
        database = store._database
        # The same keys in their other place, so that no key is changed on the way.
        for each in KEYS:
            database.put(each, VALUE)
        yield database.get, database.put


@contextlib.contextmanager
def bare_wiredtiger(settings: Settings) -> Iterator[tuple[GetCall, PutCall]]:
    """A cursor of the bindings."""
    with _opened("wiredtiger", settings) as store:
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

        yield get, put


@contextlib.contextmanager
def bare_mongo(settings: Settings) -> Iterator[tuple[GetCall, PutCall]]:
    """pymongo's find_one and replace_one on kvtui's documents."""
    import pymongo

    client: Any = pymongo.MongoClient(
        settings["host"],
        settings["port"],
        directConnection=True,
        maxPoolSize=1,
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

    get(KEYS[0])  # connects
    with client:
        yield get, put


SUBJECTS: Final = (
    Subject("leveldb", {}, bare_leveldb, 100_000),
    Subject("wiredtiger", {}, bare_wiredtiger, 100_000),
    # No flush a commit: the disk is not what is compared.
    Subject("mysql", {"transport": "unix", "flush_at_commit": 0}, bare_mysql),
    Subject("mongo", {"transport": "tcp"}, bare_mongo, 1_000),
)


def with_bare_loop(subject: Subject, settings: Settings) -> float:
    """Operations a second of clock, call, clock, append."""
    clock = time.perf_counter_ns
    latencies: list[int] = []
    append = latencies.append
    with subject.bare(settings) as (get, put):
        began = time.perf_counter()
        for turn in range(subject.operations // 2):
            at = KEYS[turn % len(KEYS)]
            start = clock()
            found = get(at)
            append(clock() - start)
            if found is None:
                raise SystemExit("a value is missing")
            start = clock()
            put(at, VALUE)
            append(clock() - start)
        return subject.operations / (time.perf_counter() - began)


def compared(subject: Subject) -> Iterator[Comparison]:
    """One client of the calls loop beside the bare loop."""
    kind = registry.kind(subject.kind)
    if kind.module and not find_spec(kind.module):
        raise Missing(f"there is no Python module {kind.module}: {kind.install}")
    with reachable(subject.kind, subject.settings) as settings:
        if "driver" in kind.clients:
            settings = {**settings, "client": "driver"}
        yield Comparison(
            subject.kind,
            "driver, 1 client, get+put",
            partial(
                calls_rate,
                *(subject.kind, settings, gets_and_puts, subject.operations, 1),
            ),
            "bare loop over driver",
            partial(with_bare_loop, subject, settings),
            LEAST_RATIO,
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
