"""kvtui's two loops against a private server, without a run around them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from bench.compare import Missing
from kvtui.engine import calls, wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores import programs, registry
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.servers import private_server
from kvtui.stores.store import Store, WireStore

CLIENTS = 50
VALUE = b"x" * 100
KEYS = tuple(key("bench", b"%d" % number) for number in range(1000))
TIMEOUT_S = 30.0

Settings = Mapping[str, Any]
Make = Callable[[int, int], Client]
"""The client of that number, which asks that many operations."""


def gets(index: int, number: int) -> Client:
    """That many gets of one key, as most tools do."""
    for _ in range(number):
        yield Get(KEYS[0])
    return None


def puts(index: int, number: int) -> Client:
    """That many puts, each client under a key of its own."""
    for _ in range(number):
        yield Put(KEYS[index], VALUE)
    return None


def gets_and_puts(index: int, number: int) -> Client:
    """A get and a put of each key in turn."""
    for turn in range(number // 2):
        at = KEYS[turn % len(KEYS)]
        yield Get(at)
        yield Put(at, VALUE)
    return None


@contextlib.contextmanager
def reachable(
    kind_name: str, asked: Settings, keys: tuple[bytes, ...] = KEYS
) -> Iterator[dict[str, Any]]:
    """Settings under which an empty store with only these keys is reached; its
    private server goes on as long. Missing where it cannot be had."""
    kind = registry.kind(kind_name)
    if kind.servers and programs.find_program(kind.servers) is None:
        raise Missing(f"{kind.servers[0]} is missing: {kind.install}")
    folder = Path(tempfile.mkdtemp(prefix="kvtui-bench-"))
    server = None
    try:
        settings = dict(asked)
        if kind.servers:
            server = private_server(kind_name, folder / "server", asked)
            settings = server.start()
        elif "directory" in kind.settings:
            settings["directory"] = str(folder / "store")
        if keys:
            fill(registry.adapter(kind_name)(settings), keys)
        yield settings
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def fill(store: Store, keys: tuple[bytes, ...]) -> None:
    """Put a value under each key."""
    store.open()
    for each in keys:
        store.put(each, VALUE)
    store.close()


def wire_rate(kind: str, settings: Settings, make: Make, operations: int) -> float:
    """Operations a second of one wire loop with all clients."""
    store = cast(WireStore, registry.adapter(kind)(settings))
    recorder = Recorder(CLIENTS)
    connections = [store.wire() for _ in range(CLIENTS)]
    clients = [make(index, operations // CLIENTS) for index in range(CLIENTS)]
    began = time.perf_counter()
    wire.run(clients, connections, store.wire, recorder, Control(), TIMEOUT_S)
    return rate(recorder, operations, began)


def calls_rate(
    kind: str, settings: Settings, make: Make, operations: int, clients: int = CLIENTS
) -> float:
    """Operations a second of the calls loop, a thread a client."""
    adapter = registry.adapter(kind)
    if "driver" in registry.kind(kind).clients:
        settings = {**settings, "client": "driver"}
    recorder = Recorder(clients)
    with contextlib.ExitStack() as opened:
        stores: list[Store] = []
        for _ in range(1 if adapter.shared_by_threads else clients):
            one = adapter(settings)
            one.open()
            opened.callback(one.close)
            stores.append(one)
        if adapter.shared_by_threads:
            stores *= clients
        asking = [make(index, operations // clients) for index in range(clients)]
        began = time.perf_counter()
        calls.run(asking, stores, recorder, Control())
        return rate(recorder, operations, began)


def rate(recorder: Recorder, wanted: int, began: float) -> float:
    """Operations a second since then; every one must have been answered well."""
    length_s = time.perf_counter() - began
    taken = recorder.take()
    good = sum(each.ok for each in taken.operations.values())
    if good != wanted:
        raise SystemExit(f"{good} of {wanted} operations went well")
    return wanted / length_s
