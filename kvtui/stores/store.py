"""The contract between kvtui and a store.

An adapter is bytes in, bytes out: it holds no clock, no statistics and no retry.
It raises :class:`~kvtui.errors.OperationFailed` for one failed operation and
:class:`~kvtui.errors.StoreUnavailable` when the store cannot be had at all.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from msgspec import Struct

from kvtui.errors import OperationFailed
from kvtui.stores.operations import Operation, Request, Response

ADD: Final = "add"
"""Capability: ``add`` and ``counts``."""
SCAN: Final = "scan"
"""Capability: ``scan`` in key order."""

Settings = Mapping[str, Any]


class StoreInfo(Struct, frozen=True, omit_defaults=True):
    """What was measured, read from the live store."""

    version: str
    address: str
    """The address really used, from the live socket; or ``in process``."""
    durability: str
    """``none``, ``memory``, ``OS cache`` or ``fsync``, with the setting."""
    client: str
    """``calls``, ``wire`` or ``driver``, with the driver's name and version."""
    memory_limit: str = ""
    memory_limit_bytes: int | None = None
    """What all records together may take, where the store has a limit that it would
    rather drop or refuse records than pass."""
    memory_used_bytes: int | None = None
    """What of that limit is in use already, where there is one."""
    memory_factor: float = 1.2
    """How much of that limit a byte of a value takes, near enough. Redis 7.0 took 1.15
    bytes on the records of 200 to 3,000 profiles, and 170 more a key."""
    records_limit: int | None = None
    """How many keys it holds at most, whosever, where it drops some beyond."""
    records_used: int | None = None
    """How many of them it holds already, where there is such a limit."""
    evictable_keys: int = 0
    """How many keys it holds, whosever, where it may drop some of them rather than
    refuse a write."""
    item_limit_bytes: int | None = None
    """What one value may take, where the store has a limit."""
    eviction: str = ""
    compression: str = ""
    process_id: int | None = None
    """The server's, where it runs on this machine."""
    keeps: bool = True
    """False for a store that drops everything, like null."""
    details: dict[str, str] = {}
    """``evicted_keys`` among them, where the server counts what it dropped."""


class Store(ABC):
    """One connection to a store (or, embedded, the store itself).

    An object belongs to one client, except that all clients of a process share
    one object where :attr:`shared_by_threads` says so.
    """

    kind: ClassVar[str]
    shared_by_threads: ClassVar[bool] = False
    """Whether one object serves many threads; such a store lives in one process."""
    capabilities: ClassVar[frozenset[str]] = frozenset()
    reconnects: int = 0
    """Connections that the server closed between two operations, and that were made
    anew in silence, by the methods of this object."""

    @property
    def retries(self) -> int:
        """How often a change was made anew within its operation, because the store
        had undone it for somebody else's: a deadlock, a write conflict. By the
        methods of this object, and over the connections it made for the wire."""
        return 0

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def open(self) -> None:
        """Connect. Raises StoreUnavailable with what would help."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect; safe to call twice, and after a failure."""

    @abstractmethod
    def get(self, key: bytes) -> bytes | None:
        """The value under ``key``; None is a miss."""

    @abstractmethod
    def put(self, key: bytes, value: bytes) -> None:
        """Store ``value``; returns when the store has acknowledged it."""

    @abstractmethod
    def delete(self, key: bytes) -> bool:
        """Remove ``key``; whether it was there."""

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """Add to the named counters of the record under ``key``, atomically."""
        raise unsupported(self.kind, "add")

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """The counters of the record under ``key``; None is a miss."""
        raise unsupported(self.kind, "counts")

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Up to ``count`` pairs in key order, from the first at or after ``key``."""
        raise unsupported(self.kind, "scan")

    def request(self, asked: Request) -> Response | None:
        """An HTTP server's answer; None is a miss."""
        raise unsupported(self.kind, asked.label)

    # Administration, outside the measured time.

    @abstractmethod
    def info(self) -> StoreInfo:
        """What is being measured, read from the live store."""

    @abstractmethod
    def count(self, namespace: str) -> int:
        """How many keys kvtui has under ``namespace``."""

    @abstractmethod
    def wipe(self, namespace: str) -> int:
        """Remove kvtui's keys under ``namespace``, nothing else; how many."""


class Wire(ABC):
    """A store's protocol, sans-I/O, for one connection.

    The wire loop owns the socket: it sends what :meth:`encode` returns and hands
    what arrives to :meth:`feed` until that returns something else than
    :data:`PENDING`. At most one operation is outstanding.

    An operation may need several round trips: while it is PENDING, the loop takes
    what stands in :attr:`more`, sends it, and goes on feeding. All of them together
    are one operation, with one latency.
    """

    more: bytes = b""
    """What is to be sent next for the operation that is outstanding."""
    single: bool = False
    """Whether every operation is to have a connection of its own: the loop then begins
    one before it encodes."""

    @abstractmethod
    def encode(self, operation: Operation) -> bytes:
        """The request's bytes."""

    @abstractmethod
    def feed(self, data: bytes) -> Any:
        """The reply once it is whole, PENDING before.

        Raises OperationFailed for an error reply, and with ``broken=True`` when
        what arrived is not the protocol.
        """

    def closed(self, error: OSError | None) -> Any:
        """The connection has ended while an operation is outstanding: in order by
        the server, or with an error of the system's.

        Returns the reply that an orderly end completes, where the protocol has such
        replies. Otherwise raises OperationFailed (``broken=True``), or NewConnection
        where the operation may be asked again: nobody has begun to answer it.
        """
        said = "the server closed the connection"
        if error is not None:
            said = error.strerror or str(error)
        raise OperationFailed("disconnected", said, broken=True)


class NewConnection(Exception):
    """Raised by a Wire (``encode`` and ``closed``): this connection is of no further
    use, and that is no failure; the operation goes over a new one.

    ``counts``: whether it is told as a reconnect. A connection that was never to
    serve more than one operation is none.
    """

    def __init__(self, *, counts: bool = True) -> None:
        super().__init__()
        self.counts = counts


class WireStore(Store):
    """A store that can also describe its protocol sans-I/O."""

    @abstractmethod
    def wire(self) -> tuple[socket.socket, Wire]:
        """A new connection: the driver connects (and authenticates), we take over.

        Raises StoreUnavailable. The caller owns and closes the socket.
        """

    def begin(self, old: Wire) -> tuple[socket.socket, Wire]:
        """The same while the clock runs, for an operation that waits for it.

        The socket may still be connecting: non-blocking, so that the other clients
        of the loop go on. ``old`` was the protocol of the connection that this one
        replaces, and may be used again. Raises OperationFailed or StoreUnavailable.
        """
        return self.wire()


class _Pending:
    def __repr__(self) -> str:
        return "PENDING"


PENDING: Final = _Pending()
"""No whole reply yet."""


def unsupported(kind: str, operation: str) -> OperationFailed:
    """The error for an operation that a kind of store does not offer."""
    return OperationFailed("unsupported", f"{kind} has no {operation}")
