"""MySQL and MariaDB, by unix socket or TCP: through PyMySQL, or on the wire.

PyMySQL connects and logs in either way. ``client=driver`` then measures what an
application with PyMySQL sees (statements as text); ``client=wire`` takes over the
connection and speaks the binary protocol with prepared statements itself.

One operation is: get → ``SELECT``; put → ``INSERT … ON DUPLICATE KEY UPDATE``; add →
one such statement for all its counters; counts and scan → ``SELECT``; delete → one
``DELETE`` a table. Every statement commits by itself.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final

import pymysql

from kvtui.errors import KvtuiError, OperationFailed, StoreUnavailable
from kvtui.stores.mysql import statements as sql
from kvtui.stores.mysql import tables as mysql_tables
from kvtui.stores.mysql.errors import TRY_AGAIN, failed, unavailable
from kvtui.stores.mysql.login import connected, patience_s, timeout_s, where
from kvtui.stores.mysql.prepared import prepare
from kvtui.stores.mysql.status import Server, durability, packet_limit
from kvtui.stores.mysql.wire import (
    STATEMENTS,
    MySqlWire,
)
from kvtui.stores.operations import KEY_LIMIT_BYTES, prefix
from kvtui.stores.peers import peer_address, peer_process
from kvtui.stores.store import ADD, SCAN, Settings, StoreInfo, Wire, WireStore

ADMIN_TIMEOUT_S: Final = 600.0
"""Counting and wiping go over many rows."""
_WIPE_BATCH: Final = 5_000
_TEXT_BYTES: Final = 200
"""What a statement's text may take beside its parameters."""


class MySqlStore(WireStore):
    """One connection to a MySQL or MariaDB server.

    Settings: ``path`` of a unix socket, or ``host`` and ``port``; ``username``,
    ``password_env`` or ``password_file``, ``tls`` (driver only), ``schema`` (kvtui),
    ``row_format`` (the server's default), ``timeout_s`` for every reply (10).
    """

    kind: ClassVar[str] = "mysql"
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._where = where(settings)
        self._connection: Any = None
        self._cursor: Any = None
        self._limit = 0
        """max_allowed_packet."""
        self._retries = 0

    @property
    def retries(self) -> int:
        """After a deadlock."""
        return self._retries

    def _retried(self) -> None:
        self._retries += 1

    def open(self) -> None:
        """Connect, and make kvtui's tables where they are missing."""
        if self._connection is None:
            self._connection = self._connect()
            self._cursor = self._connection.cursor()

    def _connect(self) -> Any:
        try:
            connection = connected(self.settings)
        except KvtuiError:
            raise
        except Exception as error:
            raise unavailable(self._where, error) from None
        try:
            with connection.cursor() as cursor:
                limit = packet_limit(cursor)
                mysql_tables.ready(cursor, self.settings)
            # Connected: from now on a reply may take as long as was set.
            _be_patient(connection, timeout_s(self.settings))
        except Exception as error:
            _let_go(connection)
            if isinstance(error, KvtuiError):
                raise
            raise unavailable(self._where, error) from None
        self._limit = limit
        return connection

    def close(self) -> None:
        """Disconnect."""
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            _let_go(connection)

    def wire(self) -> tuple[socket.socket, Wire]:
        """Connect through PyMySQL, prepare the statements, take over its socket."""
        if self.settings.get("tls"):
            raise StoreUnavailable(
                f"mysql at {self._where}: client=wire does not speak TLS",
                hint="client=driver does",
            )
        connection = self._connect()
        try:
            made = connection._sock
            made.settimeout(patience_s(self.settings))
            prepared = [
                prepare(made.sendall, made.recv, self._where, text)
                for text in STATEMENTS
            ]
        except Exception as error:
            _let_go(connection)
            raise unavailable(self._where, error) from None
        # PyMySQL offers no public way to let go of a connected socket.
        taken: socket.socket = made
        connection._rfile.close()
        connection._sock = connection._rfile = None
        return taken, MySqlWire(self._where, prepared, self._limit, self._retried)

    def get(self, key: bytes) -> bytes | None:
        """SELECT."""
        cursor = self._cursor or self._again()
        try:
            cursor.execute(_GET, (key,))
            found = cursor.fetchone()
        except Exception as error:
            raise failed(self._where, error) from None
        if found is None:
            return None
        value: bytes = found[0]
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """INSERT … ON DUPLICATE KEY UPDATE, acknowledged."""
        cursor = self._cursor or self._again()
        size = 2 * (len(key) + len(value)) + _TEXT_BYTES  # PyMySQL writes it in hex
        if size >= self._limit:
            raise sql.too_large(self._where, size, self._limit)
        changed = self._until_done(cursor, _PUT, (key, value))
        if changed not in (1, 2):
            raise self._lied(f"a write was answered with {changed} rows")

    def delete(self, key: bytes) -> bool:
        """DELETE, value and counters."""
        cursor = self._cursor or self._again()
        values = self._until_done(cursor, _DELETE_VALUE, (key,))
        counters = self._until_done(cursor, _DELETE_COUNTERS, (key,))
        return bool(values or counters)

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """One statement for all counters; several where it would be too large."""
        cursor = self._cursor or self._again()

        def cost(row: sql.Row) -> int:
            return 2 * (len(key) + len(row[1])) + _TEXT_BYTES

        rows = sql.rows(counts)
        for row in rows:
            if cost(row) >= self._limit:
                raise sql.too_large(self._where, cost(row), self._limit)
        for batch in sql.batches(rows, cost, self._limit - _TEXT_BYTES - 1):
            given = [field for row in batch for field in (key, *row)]
            statement = _driver(sql.add_statement(len(batch)))
            changed = self._until_done(cursor, statement, given)
            if changed < len(batch):
                raise self._lied(f"{changed} of {len(batch)} counters were changed")

    def _until_done(self, cursor: Any, statement: str, given: Sequence[Any]) -> int:
        """Execute it, again after a deadlock: the server undid all of it. Clients
        that change the same rows meet in one; see TRIES."""
        for left in range(sql.TRIES - 1, -1, -1):
            try:
                return int(cursor.execute(statement, given))
            except pymysql.err.MySQLError as error:
                if not left or not TRY_AGAIN.intersection(error.args[:1]):
                    raise failed(self._where, error) from None
                self._retried()
            except Exception as error:
                raise failed(self._where, error) from None
        raise AssertionError("the last try returns or raises")

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """SELECT the record's counters."""
        cursor = self._cursor or self._again()
        try:
            cursor.execute(_COUNTS, (key,))
            found = dict(cursor.fetchall())
        except Exception as error:
            raise failed(self._where, error) from None
        return found or None

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """SELECT in key order."""
        cursor = self._cursor or self._again()
        try:
            cursor.execute(_SCAN, (key, max(0, count)))
            return list(cursor.fetchall())
        except Exception as error:
            raise failed(self._where, error) from None

    def info(self) -> StoreInfo:
        """From the server's variables, its dictionary and the live socket."""
        with self._administering() as cursor:
            server = Server.of(cursor, mysql_tables.schema_of(self.settings))
            connection = self._connection._sock
            return StoreInfo(
                server.version,
                peer_address(connection),
                durability(server.variables),
                self._client(),
                memory_limit=f"buffer pool {server.buffer_pool_bytes:,} bytes",
                item_limit_bytes=self._item_limit_bytes(),
                compression=server.compression,
                process_id=peer_process(connection),
                details=server.details,
            )

    def _client(self) -> str:
        version = importlib.metadata.version("PyMySQL")
        if self.settings.get("client", "wire") == "driver":
            return f"driver, PyMySQL {version}, text protocol"
        return "wire, binary protocol, prepared statements"

    def _item_limit_bytes(self) -> int:
        room = self._limit - _TEXT_BYTES - 2 * KEY_LIMIT_BYTES - 1
        return room // 2 if self.settings.get("client", "wire") == "driver" else room

    def count(self, namespace: str) -> int:
        """How many records: keys with a value or counters."""
        with self._administering() as cursor:
            return _count(cursor, namespace)

    def wipe(self, namespace: str) -> int:
        """DELETE the rows in the namespace's range of keys; then our tables, when
        nothing is left in them and nobody else uses them."""
        with self._administering() as cursor:
            removed = _count(cursor, namespace)
            for table in sql.TABLES:
                statement = f"DELETE FROM {table} WHERE k >= %s AND k < %s LIMIT %s"
                while cursor.execute(statement, (*_span(namespace), _WIPE_BATCH)):
                    pass
            # Somebody who may not drop tables has them empty.
            with contextlib.suppress(
                pymysql.err.OperationalError, pymysql.err.ProgrammingError
            ):
                if mysql_tables.remove_when_empty(cursor, self.settings):
                    self._cursor = None  # made anew should they be needed again
        return removed

    @contextlib.contextmanager
    def _administering(self) -> Iterator[Any]:
        cursor, connection = self._cursor or self._again(), self._connection
        try:
            _be_patient(connection, ADMIN_TIMEOUT_S)
            yield cursor
        except KvtuiError:
            raise
        except Exception as error:
            raise failed(self._where, error) from None
        finally:
            _be_patient(connection, timeout_s(self.settings))

    def _again(self) -> Any:
        """The cursor, with tables, after this connection has removed them."""
        if self._connection is None:
            raise OperationFailed(
                "disconnected", f"mysql at {self._where} is not connected", broken=True
            )
        cursor = self._connection.cursor()
        try:
            mysql_tables.ready(cursor, self.settings)
        except KvtuiError:
            raise
        except Exception as error:
            raise failed(self._where, error) from None
        self._cursor = cursor
        return cursor

    def _lied(self, problem: str) -> OperationFailed:
        return OperationFailed(
            "protocol", f"mysql at {self._where}: {problem}", broken=True
        )


def _driver(statement: str) -> str:
    """A statement as PyMySQL wants it; none has a percent sign."""
    return statement.replace("?", "%s")


_GET, _PUT, _SCAN, _COUNTS, _DELETE_VALUE, _DELETE_COUNTERS = map(
    _driver,
    (sql.GET, sql.PUT, sql.SCAN, sql.COUNTS, sql.DELETE_VALUE, sql.DELETE_COUNTERS),
)


def _span(namespace: str) -> tuple[bytes, bytes]:
    """Keys from the first to before the second are the namespace's."""
    start = prefix(namespace)
    return start, start[:-1] + bytes((start[-1] + 1,))


def _count(cursor: Any, namespace: str) -> int:
    cursor.execute(
        "SELECT COUNT(*) FROM"
        f" (SELECT k FROM {sql.VALUES} WHERE k >= %s AND k < %s"
        f" UNION SELECT k FROM {sql.COUNTERS} WHERE k >= %s AND k < %s) AS records",
        (*_span(namespace), *_span(namespace)),
    )
    return int(cursor.fetchone()[0])


def _be_patient(connection: Any, seconds: float) -> None:
    """How long a reply may take.

    The kernel keeps the time: by Python's own time-out a thread would wait twice for
    each reply, for the socket and for the bytes, and let the other threads in between;
    fifty clients then do a third less.
    """
    made = connection._sock
    if made is None or isinstance(made, ssl.SSLSocket):
        connection._read_timeout = connection._write_timeout = seconds
        return
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    connection._read_timeout = connection._write_timeout = None
    if not isinstance(getattr(connection._rfile, "raw", None), _Replies):
        connection._rfile.close()
        connection._rfile = io.BufferedReader(_Replies(made))


class _Replies(io.RawIOBase):
    """What a socket receives. A socket's own file would take the kernel's time-out for
    a reply that has only begun."""

    def __init__(self, made: socket.socket) -> None:
        super().__init__()
        self._made = made

    def readable(self) -> bool:
        """It is read from."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As a file does it; TimeoutError where nothing came in time."""
        try:
            return self._made.recv_into(buffer)
        except BlockingIOError:
            raise TimeoutError("timed out") from None


def _let_go(connection: Any) -> None:
    with contextlib.suppress(Exception):
        connection.close()
