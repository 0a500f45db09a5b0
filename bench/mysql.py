"""kvtui's wire loop beside mysqlslap: a unix socket, 50 clients, 100 bytes.

One worker's loop in this process against one private server; MariaDB's or MySQL's own
load generator with the same statement against the same server in turn; the driver mode
for comparison. mysqlslap sends statements as text, as the driver does; the wire loop
executes prepared ones, so it spares the server their parsing. The log is flushed once a
second, so that the disk is not what is compared. Gets and puts apart, medians of five.

Target: at least as many gets and puts a second as mysqlslap.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, ratio, verdict
from kvtui.engine import calls, wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores.mysql import statements as sql
from kvtui.stores.mysql.store import MySqlStore
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.servers.mysql import MySqlServer

CLIENTS = 50
ROUNDS = 5
OPERATIONS = 20_000
DRIVER_OPERATIONS = 10_000
VALUE = b"x" * 100
KEYS = [key("bench", b"%d" % number) for number in range(CLIENTS)]
SLAPS = ("mariadb-slap", "mysqlslap")
LENGTH = re.compile(r"Average number of seconds to run all queries: ([\d.]+)")


def gets(index: int, number: int) -> Client:
    """That many gets of one key."""
    for _ in range(number):
        yield Get(KEYS[0])
    return None


def puts(index: int, number: int) -> Client:
    """That many puts, each client under a key of its own."""
    for _ in range(number):
        yield Put(KEYS[index], VALUE)
    return None


def with_wire(store: MySqlStore, client: Callable[[int, int], Client]) -> float:
    """Operations a second of the wire loop."""
    recorder = Recorder(CLIENTS)
    connections = [store.wire() for _ in range(CLIENTS)]
    clients = [client(index, OPERATIONS // CLIENTS) for index in range(CLIENTS)]
    began = time.perf_counter()
    wire.run(clients, connections, store.wire, recorder, Control(), 10.0)
    return _rate(recorder, OPERATIONS, began)


def with_driver(store: MySqlStore, client: Callable[[int, int], Client]) -> float:
    """Operations a second of 50 threads through PyMySQL."""
    recorder = Recorder(CLIENTS)
    with contextlib.ExitStack() as opened:
        stores = []
        for _ in range(CLIENTS):
            one = MySqlStore(store.settings)
            one.open()
            opened.callback(one.close)
            stores.append(one)
        share = DRIVER_OPERATIONS // CLIENTS
        clients = [client(index, share) for index in range(CLIENTS)]
        began = time.perf_counter()
        calls.run(clients, stores, recorder, Control())
        return _rate(recorder, DRIVER_OPERATIONS, began)


def _rate(recorder: Recorder, wanted: int, began: float) -> float:
    length_s = time.perf_counter() - began
    recorder.take()
    if recorder.finished != wanted:
        raise SystemExit(f"{recorder.finished} of {wanted} operations were counted")
    return wanted / length_s


def with_slap(program: str, folder: Path, path: str, statement: str) -> float:
    """Statements a second that mysqlslap reports."""
    options = folder / "client.cnf"
    words = [program, f"--defaults-file={options}", f"--socket={path}"]
    words += ["--create-schema=kvtui", "--no-drop", f"--concurrency={CLIENTS}"]
    words += [f"--number-of-queries={OPERATIONS}", f"--query={statement}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    found = LENGTH.search(done.stdout)
    if found is None:
        raise SystemExit(f"{program} printed no time: {done.stdout}")
    return OPERATIONS / float(found[1])


def as_text(statement: str, *values: bytes) -> str:
    """A statement with its parameters in it: mysqlslap knows no others."""
    for value in values:
        statement = statement.replace("?", f"x'{value.hex()}'", 1)
    return statement


@contextlib.contextmanager
def server(folder: Path) -> Iterator[MySqlStore]:
    """A private server and a store that reaches it."""
    started = MySqlServer(folder, {"transport": "unix", "flush_at_commit": 0})
    try:
        settings = started.start()
        options = folder / "client.cnf"
        options.touch(0o600)
        secret = Path(settings["password_file"]).read_text()
        options.write_text(f"[client]\nuser=kvtui\npassword={secret}\n")
        store = MySqlStore(settings)
        store.open()
        for each in KEYS:
            store.put(each, VALUE)
        yield store
        store.close()
    finally:
        started.stop()


def main() -> int:
    """Print the table; how many targets were missed."""
    program = next(filter(None, map(shutil.which, SLAPS)), None)
    if program is None:
        print(f"{SLAPS[0]} is missing: apt install mariadb-client")
        return 1
    missed = 0
    folder = Path(tempfile.mkdtemp(prefix="kvtui-bench-"))
    try:
        with server(folder) as store:
            path = str(store.settings["path"])
            for test, client, statement in (
                ("get", gets, as_text(sql.GET, KEYS[0])),
                ("put", puts, as_text(sql.PUT, KEYS[0], VALUE)),
            ):
                rows = alternate(
                    (
                        partial(with_wire, store, client),
                        partial(with_slap, program, folder, path, statement),
                    ),
                    ROUNDS,
                )
                driver = statistics.median(with_driver(store, client) for _ in range(3))
                ours, theirs = medians(rows)
                share = ratio(rows, 0, 1)
                holds = ours >= theirs
                missed += not holds
                print(
                    f"{test}: wire {ours:,.0f}/s, mysqlslap {theirs:,.0f}/s,"
                    f" driver {driver:,.0f}/s; wire / mysqlslap {ours / theirs:.2f}"
                    f" (median of rounds {share:.2f}): {verdict(holds)}"
                )
                print(
                    "     rounds: "
                    + ", ".join(f"{a / 1000:.1f}k : {b / 1000:.1f}k" for a, b in rows)
                )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
