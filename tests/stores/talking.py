"""Every store behind one blocking face, whichever way it is driven."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from kvtui.errors import OperationFailed
from kvtui.stores import registry
from kvtui.stores.operations import (
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Scan,
)
from kvtui.stores.registry import BUILT_IN, StoreProfile
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import PENDING, Store, Wire, WireStore
from tests.conftest import Servers, require_module

TIMEOUT_S = 30.0


class Calls:
    """A store driven by its methods."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def open(self) -> None:
        """Connect."""
        self.store.open()

    def close(self) -> None:
        """Disconnect."""
        self.store.close()

    def ask(self, operation: Operation) -> Any:
        """One operation's reply."""
        store, key = self.store, operation.key
        match operation:
            case Get():
                return store.get(key)
            case Put():
                return store.put(key, operation.value)
            case Add():
                return store.add(key, operation.counts)
            case Counts():
                return store.counts(key)
            case Scan():
                return store.scan(key, operation.count)
            case Delete():
                return store.delete(key)
        raise AssertionError(operation)


class OnTheWire(Calls):
    """A store driven by its protocol, as the wire loop does it but blocking."""

    def __init__(self, store: Store, piece: int = 1 << 16) -> None:
        super().__init__(store)
        self._piece = piece
        self._made: tuple[socket.socket, Wire] | None = None

    def open(self) -> None:
        """Connect, and take over the socket."""
        self._made = cast(WireStore, self.store).wire()
        self._made[0].settimeout(float(self.store.settings.get("timeout_s", TIMEOUT_S)))

    def close(self) -> None:
        """Disconnect."""
        if self._made is not None:
            self._made[0].close()
            self._made = None

    def ask(self, operation: Operation) -> Any:
        """One operation's reply."""
        if self._made is None:
            raise OperationFailed("disconnected", "not connected", broken=True)
        connection, wire = self._made
        data = wire.encode(operation)
        try:
            connection.sendall(data)
            while True:
                received = connection.recv(self._piece)
                if not received:
                    raise OperationFailed("disconnected", "closed", broken=True)
                reply = wire.feed(received)
                if reply is not PENDING:
                    return reply
                if wire.more:
                    more, wire.more = wire.more, b""
                    connection.sendall(more)
        except TimeoutError:
            raise OperationFailed("timeout", "no answer in time", broken=True) from None
        except OSError as error:
            raise OperationFailed("disconnected", str(error), broken=True) from None


class Way(NamedTuple):
    """A built-in store and a way to drive it."""

    profile: StoreProfile
    client: str

    def __str__(self) -> str:
        return f"{self.profile.name}-{self.client}"


def _differing() -> list[StoreProfile]:
    """One profile a kind, transport and layout: the others differ only in how their
    server is set, and the servers here are set the same; or in sizes."""
    firsts: dict[tuple[object, ...], StoreProfile] = {}
    for profile in BUILT_IN:
        settings = profile.settings
        differs = (profile.kind, settings.get("transport"), settings.get("layout"))
        firsts.setdefault(differs, profile)
    return list(firsts.values())


WAYS = [
    Way(profile, client)
    for profile in _differing()
    for client in registry.kind(profile.kind).clients
]
"""Every store of the table, every way: a later one gets the contract by itself."""

WRITABLE = [way for way in WAYS if not registry.kind(way.profile.kind).read_only]
KEEPING = [way for way in WRITABLE if way.profile.kind != "null"]
WITH_SERVER = [way for way in WAYS if registry.kind(way.profile.kind).servers]


def offering(capability: str) -> list[Way]:
    """The ways of the stores that keep data and offer this."""
    return [
        way
        for way in KEEPING
        if capability in registry.adapter(way.profile.kind).capabilities
    ]


class Subject:
    """One store under test: as many connections as a test wants."""

    def __init__(
        self, way: Way, settings: dict[str, Any], server: PrivateServer | None
    ) -> None:
        self.way = way
        self.kind = way.profile.kind
        self.settings = settings
        self.server = server
        self.adapter = registry.adapter(self.kind)
        self.capabilities = self.adapter.capabilities
        self.keeps = self.kind != "null"
        self._opened = contextlib.ExitStack()
        self.admin = self.adapter(settings)
        self.admin.open()
        self._opened.callback(self.admin.close)

    def talk(self) -> Calls:
        """A connection of its own (the shared one where the store is shared)."""
        if self.adapter.shared_by_threads:
            return Calls(self.admin)
        talker = OnTheWire if self.way.client == "wire" else Calls
        made = talker(self.adapter(self.settings))
        made.open()
        self._opened.callback(made.close)
        return made

    def close(self) -> None:
        """Close every connection."""
        self._opened.close()


@contextlib.contextmanager
def opened(way: Way, servers: Servers, directory: Path) -> Iterator[Subject]:
    """The store of that way, empty, on a private server where it needs one."""
    settings: dict[str, Any] = {}
    server = None
    if registry.kind(way.profile.kind).servers:
        transport = str(way.profile.settings.get("transport", "unix"))
        server = servers.get(way.profile.kind, transport)
        settings = server.connect_settings() | {"client": way.client}
        settings.pop("transport", None)
    elif "directory" in registry.kind(way.profile.kind).settings:
        require_module(way.profile.kind)
        settings = way.profile.settings | {"directory": str(directory / "store")}
    subject = Subject(way, settings, server)
    try:
        yield subject
    finally:
        with contextlib.suppress(OperationFailed):
            subject.admin.wipe("test")
            subject.admin.wipe("fans")
        subject.close()
