"""memcached, by unix socket or TCP: through pymemcache, or on the wire.

pymemcache connects either way. ``client=driver`` then measures what an application
with pymemcache sees, one that waits for every answer; ``client=wire`` takes over the
socket and speaks the meta commands itself (:mod:`~kvtui.stores.memcached.wire`).
Counters need meta commands, which pymemcache does not have: the driver's socket is
lent to the same exchanges for them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import socket
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pymemcache.client.base import Client
from pymemcache.exceptions import (
    MemcacheClientError,
    MemcacheIllegalInputError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
    MemcacheUnknownCommandError,
)

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable
from kvtui.stores.memcached import admin
from kvtui.stores.memcached.connect import connect, where_of
from kvtui.stores.memcached.counters import records
from kvtui.stores.memcached.exchanges import (
    ITEM_OVERHEAD_BYTES,
    Exchange,
    Peer,
    deleting_all,
    deleting_counters,
    exchange_for,
    failure,
    refused,
)
from kvtui.stores.memcached.wire import MemcachedWire
from kvtui.stores.operations import KEY_LIMIT_BYTES, Add, Counts, prefix
from kvtui.stores.peers import peer_address
from kvtui.stores.store import ADD, PENDING, Settings, StoreInfo, Wire, WireStore

_PIECE: Final = 1 << 18
_WIPE_ROUNDS: Final = 10
_MEMORY_FACTOR: Final = 2.4
"""Memory is dealt out by pages to classes of size, and stays there while records grow
out of their class: 1.6.18 set aside 2.1 to 3.2 times the bytes of the records of 1,500
and 3,000 profiles, and dropped some of its keys at 2.5."""


class MemcachedStore(WireStore):
    """One connection to a memcached server.

    Settings: ``path`` of a unix socket, or ``host`` and ``port``; ``timeout_s`` for
    every reply (10).
    """

    kind: ClassVar[str] = "memcached"
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._client: Client | None = None
        self._where = where_of(settings)
        self._peer = Peer(self._where, 0, True)

    def open(self) -> None:
        """Connect; the server's settings prove that it serves this connection."""
        self.close()
        self._client, told = connect(self.settings, self._where)
        self._peer = admin.peer_from(told, self._where)

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def get(self, key: bytes) -> bytes | None:
        """``get``."""
        client, _ = self._connected()
        try:
            value = client.get(key)
        except Exception as error:
            raise self._failed(error) from None
        if value is not None and not isinstance(value, bytes):
            raise self._strange(value)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """``set``, acknowledged."""
        client, _ = self._connected()
        try:
            stored = client.set(key, value, noreply=False)
        except MemcacheServerError as error:
            raise self._refused(error, key, len(value)) from None
        except Exception as error:
            raise self._failed(error) from None
        if stored is not True:
            raise self._strange(stored)

    def delete(self, key: bytes) -> bool:
        """``delete``, and the counters of the record where it has some."""
        client, _ = self._connected()
        try:
            there = client.delete(key, noreply=False)
        except Exception as error:
            raise self._failed(error) from None
        return bool(self._hold(deleting_counters(self._peer, key))) or bool(there)

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """One ``ma`` a counter, in one pipeline."""
        self._hold(exchange_for(Add(key, counts), self._peer))

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """``mg`` of the record's index, then of every counter."""
        found: dict[bytes, int] | None = self._hold(
            exchange_for(Counts(key), self._peer)
        )
        return found

    def wire(self) -> tuple[socket.socket, Wire]:
        """Connect through pymemcache, then take over its socket."""
        client, told = connect(self.settings, self._where)
        peer = admin.peer_from(told, self._where)
        taken, client.sock = client.sock, None
        if taken is None:
            raise StoreUnavailable(f"memcached at {self._where} let go of us")
        return taken, MemcachedWire(peer)

    def info(self) -> StoreInfo:
        """From ``stats``, ``stats settings`` and the live socket."""
        with self._lent() as connection:
            found = admin.statistics(connection, self._where)
            told = admin.statistics(connection, self._where, "settings")
            address = peer_address(connection)
            local = connection.family == socket.AF_UNIX or connection.getpeername()[
                0
            ] in ("127.0.0.1", "::1")
        peer = admin.peer_from(told, self._where)
        limit, used = _number(found, "limit_maxbytes"), _number(found, "bytes")
        return StoreInfo(
            f"memcached {found.get('version', '?')}",
            address or self._where,
            "memory (nothing outlives the server)",
            self._driver(),
            memory_limit=f"{limit:,} bytes" if limit else "none",
            memory_limit_bytes=limit or None,
            memory_used_bytes=used,
            memory_factor=_MEMORY_FACTOR,
            evictable_keys=(_number(found, "curr_items") or 0) if peer.evicts else 0,
            item_limit_bytes=max(
                0, peer.item_size_max - ITEM_OVERHEAD_BYTES - KEY_LIMIT_BYTES
            ),
            eviction="LRU" if peer.evicts else "none",
            process_id=_number(found, "pid") if local else None,
            details={
                "evicted_keys": found.get("evictions", ""),
                "threads": found.get("threads", ""),
                "maxconns": told.get("maxconns", ""),
                "item_size_max": told.get("item_size_max", ""),
                "protocol": "meta commands for counters"
                if self._is_driver()
                else "meta commands",
            },
        )

    def _is_driver(self) -> bool:
        return bool(self.settings.get("client", "wire") == "driver")

    def _driver(self) -> str:
        if self._is_driver():
            return f"driver, pymemcache {importlib.metadata.version('pymemcache')}"
        return "wire, meta commands"

    def count(self, namespace: str) -> int:
        """How many records kvtui has, from a crawl over all keys."""
        with self._lent() as connection:
            found = admin.keys(connection, self._peer, prefix(namespace))
        return records(namespace, found)

    def wipe(self, namespace: str) -> int:
        """Crawl for kvtui's own keys and delete them, until a crawl finds none; never
        flush_all."""
        removed: set[bytes] = set()
        for _ in range(_WIPE_ROUNDS):
            with self._lent() as connection:
                found = admin.keys(connection, self._peer, prefix(namespace))
            if not found:
                return records(namespace, removed)
            removed |= found
            self._hold(deleting_all(self._peer, found))
        raise OperationFailed(
            "server-error",
            f"memcached at {self._where}: new keys under {prefix(namespace).decode()}"
            " come while the old ones are removed",
            hint="does another run use this server?",
        )

    def _hold(self, exchange: Exchange) -> Any:
        """Carry an exchange out over the driver's connection."""
        with self._lent() as connection:
            wire = MemcachedWire(self._peer)
            request = wire.begin(exchange)
            while True:
                connection.sendall(request)
                while (reply := wire.feed(self._received(connection))) is PENDING:
                    if wire.more:
                        request, wire.more = wire.more, b""
                        break
                else:
                    return reply

    def _received(self, connection: socket.socket) -> bytes:
        received = connection.recv(_PIECE)
        if not received:
            raise ConnectionResetError("the server closed the connection")
        return received

    @contextlib.contextmanager
    def _lent(self) -> Iterator[socket.socket]:
        """The driver's connection. Its errors become ours, and it is closed where
        something of an answer may still be on its way."""
        client, connection = self._connected()
        try:
            yield connection
        except OperationFailed as error:
            if error.broken:
                client.close()
            raise
        except StoreUnavailable:
            raise
        except Exception as error:
            client.close()
            raise self._failed(error) from None

    def _connected(self) -> tuple[Client, socket.socket]:
        # pymemcache would quietly connect anew.
        if self._client is None or self._client.sock is None:
            raise OperationFailed(
                "disconnected",
                f"memcached at {self._where} is not connected",
                broken=True,
            )
        return self._client, self._client.sock

    def _refused(self, error: Exception, key: bytes, size: int) -> StoreError:
        if isinstance(error, MemcacheUnexpectedCloseError):
            return self._failed(error)
        found = refused(self._peer, _line(b"SERVER_ERROR", error), key, size)
        found.broken = self._is_gone()
        return found

    def _is_gone(self) -> bool:
        """pymemcache closes its connection after every error."""
        return self._client is None or self._client.sock is None

    def _strange(self, answer: object) -> OperationFailed:
        return OperationFailed(
            "protocol",
            f"memcached at {self._where} does not answer like one: {answer!r:.60}",
            broken=True,
        )

    def _failed(self, error: Exception) -> StoreError:
        """An exception of the driver's, or of its socket's, as one failed operation."""
        text = f"memcached at {self._where}: {error}"
        if isinstance(error, StoreError):
            return error
        if isinstance(error, TimeoutError):
            return OperationFailed("timeout", text, broken=True)
        if isinstance(error, ConnectionRefusedError):
            return OperationFailed("refused", text, broken=True)
        if isinstance(error, (OSError, MemcacheUnexpectedCloseError)):
            said = text if str(error) else f"{text}the server closed the connection"
            return OperationFailed("disconnected", said, broken=True)
        if isinstance(error, MemcacheIllegalInputError):
            return OperationFailed("unsupported", text)
        if isinstance(error, MemcacheServerError):
            found = failure(self._peer, _line(b"SERVER_ERROR", error))
        elif isinstance(error, MemcacheUnknownCommandError):
            found = failure(self._peer, b"ERROR")
        elif isinstance(error, MemcacheClientError):
            found = failure(self._peer, _line(b"CLIENT_ERROR", error))
        else:
            return self._strange(error)
        found.broken = self._is_gone()
        return found


def _line(word: bytes, error: Exception) -> bytes:
    """The line that pymemcache has made this exception of."""
    said = error.args[0] if error.args else b""
    return word + b" " + (said if isinstance(said, bytes) else str(said).encode())


def _number(found: dict[str, str], name: str) -> int | None:
    text = found.get(name, "")
    return int(text) if text.isdecimal() else None
