"""Tokyo Tyrant, by unix socket or TCP, in its binary protocol.

No client for Python is kept any more, so both ways speak the protocol themselves:
``client=wire`` in the wire loop, ``client=calls`` by blocking calls, one thread a
client. What an operation sends stands in :mod:`~kvtui.stores.tokyo.wire`.
"""

from __future__ import annotations

import socket
from typing import Any, ClassVar, Final, TypeVar

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.operations import Add, Counts, Delete, Get, Operation, Put, prefix
from kvtui.stores.store import ADD, PENDING, Settings, StoreInfo, Wire, WireStore
from kvtui.stores.tokyo import protocol, server
from kvtui.stores.tokyo.talk import Conversation, Steps
from kvtui.stores.tokyo.wire import TokyoWire, record_of, removing

T = TypeVar("T")

DEFAULT_PORT: Final = 1978
DEFAULT_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 3.0
LIST_TIMEOUT_S: Final = 60.0
"""Listing keys walks through the whole of a hash database before it answers."""
_WIPE_KEYS: Final = 10_000
_RECEIVE_BYTES: Final = 1 << 18


class TokyoStore(WireStore):
    """One connection to a Tokyo Tyrant server.

    Settings: ``path`` of a unix socket, or ``host`` and ``port``; ``timeout_s`` for
    every reply (10).
    """

    kind: ClassVar[str] = "tokyo"
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._where = _where(settings)
        self._timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
        self._socket: socket.socket | None = None
        self._wire = TokyoWire(self._where, "<")
        self._talk = Conversation()

    def open(self) -> None:
        """Connect; ``stat`` proves that the server answers and can be used."""
        self.close()
        self._socket, self._wire = self._connect()
        self._talk = Conversation()

    def close(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def wire(self) -> tuple[socket.socket, Wire]:
        """A connection that has answered ``stat``, and its protocol."""
        return self._connect()

    def get(self, key: bytes) -> bytes | None:
        """get."""
        value: bytes | None = self._perform(Get(key))
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """put, acknowledged; never putnr, which has no reply."""
        self._perform(Put(key, value))

    def delete(self, key: bytes) -> bool:
        """out, for the value and all counters."""
        return self._perform(Delete(key)) is True

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """adddouble for each counter, in one pipeline."""
        self._perform(Add(key, counts))

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """The index, then mget."""
        found: dict[bytes, int] | None = self._perform(Counts(key))
        return found

    def info(self) -> StoreInfo:
        """From ``stat``, the live socket, and the server's command line."""
        connection = self._connected()
        stat = self._ask(_stat())
        try:
            return server.described(stat, connection, _client(self.settings))
        except OSError as error:
            raise self._failed(error) from None

    def count(self, namespace: str) -> int:
        """How many records kvtui has, by fwmkeys; many counters may be one record."""
        return len({record_of(key) for key in self._keys(namespace)})

    def wipe(self, namespace: str) -> int:
        """out for each of kvtui's own keys; never vanish."""
        keys = self._keys(namespace)
        for first in range(0, len(keys), _WIPE_KEYS):
            self._ask(removing(keys[first : first + _WIPE_KEYS]))
        return len({record_of(key) for key in keys})

    def _keys(self, namespace: str) -> list[bytes]:
        connection = self._connected()
        connection.settimeout(max(LIST_TIMEOUT_S, self._timeout_s))
        found = self._ask(_list(prefix(namespace)))
        connection.settimeout(self._timeout_s)
        return found

    def _connect(self) -> tuple[socket.socket, TokyoWire]:
        timeout_s = min(CONNECT_TIMEOUT_S, self._timeout_s)
        try:
            made = _reach(self.settings, timeout_s)
        except (OSError, ValueError) as error:
            # ValueError: a path or a host name that cannot be one.
            raise _unavailable(self._where, error) from None
        try:
            stat = _exchange(made, Conversation(), _stat())
            server.check(self._where, stat)
            made.settimeout(self._timeout_s)
        except OperationFailed as error:
            made.close()
            raise StoreUnavailable(
                f"{error.message} ({self._where})",
                hint="is it a Tokyo Tyrant server, at this address?",
            ) from None
        except OSError as error:
            made.close()
            raise _unavailable(self._where, error) from None
        except BaseException:
            made.close()
            raise
        order = ">" if stat.get("bigend") == "1" else "<"
        return made, TokyoWire(self._where, order)

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise OperationFailed(
                "disconnected", f"tokyo at {self._where} is not connected", broken=True
            )
        return self._socket

    def _perform(self, operation: Operation) -> Any:
        return self._ask(self._wire.steps(operation))

    def _ask(self, steps: Steps[T]) -> T:
        try:
            return _exchange(self._connected(), self._talk, steps)
        except OSError as error:
            # What may still come would be taken for the next operation's reply.
            self.close()
            raise self._failed(error) from None
        except OperationFailed as error:
            if error.broken:
                self.close()
            raise

    def _failed(self, error: OSError) -> OperationFailed:
        text = f"tokyo at {self._where}: {error.strerror or error}"
        kind = "timeout" if isinstance(error, TimeoutError) else "disconnected"
        return OperationFailed(kind, text, broken=True)


def _exchange(connection: socket.socket, talk: Conversation, steps: Steps[T]) -> T:
    """One operation over a blocking socket; OSError as the socket raises it."""
    connection.sendall(talk.start(steps))
    while True:
        received = connection.recv(_RECEIVE_BYTES)
        if not received:
            raise ConnectionResetError("the server closed the connection")
        reply: T = talk.feed(received)
        if reply is not PENDING:
            return reply
        if talk.more:
            more, talk.more = talk.more, b""
            connection.sendall(more)


def _stat() -> Steps[dict[str, str]]:
    yield protocol.stat()
    text = yield from protocol.read_value()
    return protocol.stat_fields(text or b"")


def _list(start: bytes) -> Steps[list[bytes]]:
    yield protocol.fwmkeys(start)
    found = yield from protocol.read_list()
    if found is None:
        raise protocol.garbage("a failure to fwmkeys, which has none")
    for key in found:
        if not key.startswith(start):
            raise protocol.garbage(f"a key outside of {start!r}")
    return found


def _reach(settings: Settings, timeout_s: float) -> socket.socket:
    if settings.get("path"):
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(timeout_s)
            made.connect(str(settings["path"]))
        except BaseException:
            made.close()
            raise
        return made
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    port = int(settings.get("port", DEFAULT_PORT))
    made = socket.create_connection((host, port), timeout_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def _client(settings: Settings) -> str:
    if settings.get("client", "wire") == "calls":
        return "calls, kvtui's own protocol code"
    return "wire, kvtui's own protocol code"


def _where(settings: Settings) -> str:
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', DEFAULT_PORT)}"


def _unavailable(where: str, error: Exception) -> StoreUnavailable:
    hint = "is the server running, and is this its address?"
    if isinstance(error, TimeoutError):
        hint = "the server did not answer in time; it may be frozen, or all of its"
        hint += " threads (-thnum) busy; or it is no Tokyo Tyrant"
    text = getattr(error, "strerror", None) or error
    return StoreUnavailable(f"tokyo at {where}: {text}", hint=hint)
