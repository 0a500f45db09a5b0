"""The calls loop beside a bare loop over the same driver: one client, one thread.

A get and a put of 100 bytes in turn, with the same statements or calls, on the same
server, in turn and in one process. The bare loop reads the clock twice an operation and
appends one number, as anybody would who measures by hand; so the ratio is what kvtui's
generator, dispatch, checks and accounting cost an application's view of a store.

Target: at least 0.9 of the bare loop.
"""

from __future__ import annotations

import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, verdict
from kvtui.engine import calls
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores import programs, registry
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.servers import private_server

OPERATIONS = 4_000
ROUNDS = 7
LEAST_RATIO = 0.9
VALUE = b"x" * 100
KEYS = tuple(key("bench", b"%d" % number) for number in range(1000))

Settings = Mapping[str, Any]
GetCall = Callable[[bytes], bytes | None]
PutCall = Callable[[bytes, bytes], Any]


class Subject(NamedTuple):
    """A store with a driver, and the driver alone."""

    kind: str
    settings: dict[str, Any]
    bare: Callable[[Settings], AbstractContextManager[tuple[GetCall, PutCall]]]
    """A connected driver's get and put; everything that connecting takes is done."""


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
    # No flush a commit: the disk is not what is compared.
    Subject("mysql", {"transport": "unix", "flush_at_commit": 0}, bare_mysql),
    Subject("mongo", {"transport": "tcp"}, bare_mongo),
)


def getput(number: int) -> Client:
    """A get and a put of each key in turn."""
    for turn in range(number // 2):
        at = KEYS[turn % len(KEYS)]
        yield Get(at)
        yield Put(at, VALUE)
    return None


def with_kvtui(kind: str, settings: Settings) -> float:
    """Operations a second of the calls loop."""
    store = registry.adapter(kind)(settings)
    store.open()
    recorder = Recorder(1)
    began = time.perf_counter()
    calls.run([getput(OPERATIONS)], [store], recorder, Control())
    length_s = time.perf_counter() - began
    store.close()
    recorder.take()
    if recorder.finished != OPERATIONS:
        raise SystemExit(f"{recorder.finished} of {OPERATIONS} were counted")
    return OPERATIONS / length_s


def with_bare_loop(subject: Subject, settings: Settings) -> float:
    """Operations a second of clock, call, clock, append."""
    clock = time.perf_counter_ns
    latencies: list[int] = []
    append = latencies.append
    with subject.bare(settings) as (get, put):
        began = time.perf_counter()
        for turn in range(OPERATIONS // 2):
            at = KEYS[turn % len(KEYS)]
            start = clock()
            found = get(at)
            append(clock() - start)
            if found is None:
                raise SystemExit("a value is missing")
            start = clock()
            put(at, VALUE)
            append(clock() - start)
        return OPERATIONS / (time.perf_counter() - began)


@contextlib.contextmanager
def reachable(subject: Subject) -> Iterator[dict[str, Any]]:
    """Settings under which the store is reached, its keys all there."""
    folder = Path(tempfile.mkdtemp(prefix="kvtui-bench-"))
    kind = registry.kind(subject.kind)
    server = None
    try:
        settings = dict(subject.settings)
        if kind.servers:
            server = private_server(subject.kind, folder / "server", subject.settings)
            settings = server.start()
        else:
            settings["directory"] = str(folder / "store")
        if "driver" in kind.clients:
            settings["client"] = "driver"
        store = registry.adapter(subject.kind)(settings)
        store.open()
        for each in KEYS:
            store.put(each, VALUE)
        store.close()
        yield settings
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Print a line a store; how many targets were missed."""
    missed = 0
    for subject in SUBJECTS:
        kind = registry.kind(subject.kind)
        if kind.servers and programs.find_program(kind.servers) is None:
            print(f"{subject.kind}: skipped, {kind.servers[0]} is missing")
            continue
        with reachable(subject) as settings:
            rows = alternate(
                (
                    partial(with_kvtui, subject.kind, settings),
                    partial(with_bare_loop, subject, settings),
                ),
                ROUNDS,
            )
        ours, theirs = medians(rows)
        share = statistics.median(row[0] / row[1] for row in rows)
        holds = share >= LEAST_RATIO
        missed += not holds
        print(
            f"{subject.kind}: calls loop {ours:,.0f}/s, bare loop {theirs:,.0f}/s;"
            f" median of rounds {share:.2f} (target >= {LEAST_RATIO}): {verdict(holds)}"
        )
        print("     rounds: " + ", ".join(f"{a / b:.2f}" for a, b in rows))
    return missed


if __name__ == "__main__":
    sys.exit(main())
