"""Redis and Valkey, by unix socket, TCP or TLS: through redis-py, or on the wire.

redis-py connects and authenticates either way. ``client=driver`` then measures
what an application with redis-py sees; ``client=wire`` takes over the socket and
speaks RESP2 itself, with hiredis to parse.

One operation sends: get → ``GET``; put → ``SET``; add → one pipelined
``HINCRBY`` a counter; counts → ``HGETALL``; delete → ``UNLINK``.
"""

from __future__ import annotations

import importlib.metadata
import re
import socket
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import hiredis
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable
from kvtui.stores.operations import (
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    prefix,
)
from kvtui.stores.passwords import password
from kvtui.stores.store import (
    ADD,
    PENDING,
    Settings,
    StoreInfo,
    Wire,
    WireStore,
    unsupported,
)

DEFAULT_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
_SCAN_COUNT = 1000
_KNOWS_RESP3 = 5
"""redis-py, from this major version on; one before it speaks RESP2 and knows no
setting for that."""
_CODES: Final[Mapping[type[Exception], str]] = {
    redis.exceptions.OutOfMemoryError: "OOM",
    redis.exceptions.NoPermissionError: "NOPERM",
    redis.exceptions.ReadOnlyError: "READONLY",
}
"""How an error reply began that redis-py made one of its own errors of."""
_CODED = re.compile("[A-Z]+(?: |$)")
_OK = b"+OK\r\n"
_NO_TLS = "without it, redis:// in place of rediss://, or no tls"


class RedisStore(WireStore):
    """One connection to a Redis or Valkey server.

    Settings: ``path`` of a unix socket, or ``host`` and ``port``; ``database``
    (0), ``username``, ``password_env`` or ``password_file``, ``tls``,
    ``timeout_s`` for connecting and for every reply (10).
    """

    kind: ClassVar[str] = "redis"
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._client: Any = None
        self._where = _where(settings)

    def open(self) -> None:
        """Connect; the first command proves that the server answers."""
        try:
            self._client = redis.Redis(
                connection_pool=redis.ConnectionPool(
                    connection_class=_connection_class(self.settings),
                    **_connection_arguments(self.settings),
                ),
                single_connection_client=True,
            )
            self._client.ping()
            _be_patient(self._client.connection, self.settings)
        except (redis.RedisError, OSError) as error:
            self._client = None
            raise _unavailable(self._where, error, self.settings) from None

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client.connection_pool.disconnect()
            self._client = None

    def get(self, key: bytes) -> bytes | None:
        """GET."""
        try:
            value: bytes | None = self._connected().get(key)
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """SET, acknowledged."""
        try:
            self._connected().set(key, value)
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None

    def delete(self, key: bytes) -> bool:
        """UNLINK."""
        try:
            return bool(self._connected().unlink(key))
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """HINCRBY for each counter, in one pipeline."""
        try:
            pipeline = self._connected().pipeline(transaction=False)
            for name, amount in counts:
                pipeline.hincrby(key, name, amount)
            pipeline.execute()
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """HGETALL."""
        try:
            found = self._connected().hgetall(key)
            return {name: int(value) for name, value in found.items()} or None
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None
        except (TypeError, ValueError) as error:
            raise _no_counters(error) from None

    def wire(self) -> tuple[socket.socket, Wire]:
        """Connect through redis-py, then take over its socket."""
        connection = _connection_class(self.settings)(
            **_connection_arguments(self.settings)
        )
        try:
            connection.connect()
            # Without it, a server that refuses (a password, its limit of
            # clients) would be noticed only once the clock runs.
            connection.send_command("PING")
            connection.read_response()
        except (redis.RedisError, OSError) as error:
            connection.disconnect()
            raise _unavailable(self._where, error, self.settings) from None
        # redis-py offers no public way to let go of a connected socket.
        taken: socket.socket = connection._sock
        connection._sock = None
        return taken, RedisWire()

    def info(self) -> StoreInfo:
        """From INFO, CONFIG GET and the live socket."""
        try:
            client = self._connected()
            found = client.info()
            config = self._config()
            peer = client.connection._sock.getpeername()
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None
        if not isinstance(found, dict):
            raise _no_redis(self._where, found)
        appending = int(found.get("aof_enabled", 0))
        saving = config.get("save", "")
        if appending:
            durability = f"append-only file, fsync {config.get('appendfsync', '?')}"
        elif saving:
            durability = f"memory, snapshots ({saving})"
        else:
            durability = "memory (no save, no append-only file)"
        limit = int(found.get("maxmemory", 0))
        server = "Valkey" if "valkey_version" in found else "Redis"
        version = found.get("valkey_version") or found.get("redis_version", "?")
        local = isinstance(peer, str) or peer[0] in ("127.0.0.1", "::1")
        return StoreInfo(
            f"{server} {version}",
            peer if isinstance(peer, str) and peer else _address(peer, self._where),
            durability,
            self._driver(),
            memory_limit=f"{limit:,} bytes" if limit else "none",
            memory_limit_bytes=limit or None,
            memory_used_bytes=int(found.get("used_memory", 0)) if limit else None,
            evictable_keys=_evictable(found) if limit else 0,
            eviction=str(found.get("maxmemory_policy", "")),
            process_id=int(found["process_id"]) if local else None,
            details={
                "evicted_keys": str(found.get("evicted_keys", "")),
                "io_threads": config.get("io-threads", ""),
                "maxclients": config.get("maxclients", ""),
                "protocol": "RESP2",
            },
        )

    def _driver(self) -> str:
        version = importlib.metadata.version("redis")
        parser = f"hiredis {importlib.metadata.version('hiredis')}"
        if self.settings.get("client", "wire") == "driver":
            return f"driver, redis-py {version}, {parser}"
        return f"wire, {parser}"

    def _config(self) -> dict[str, str]:
        try:
            return dict(
                self._connected().config_get(
                    "save", "appendfsync", "io-threads", "maxclients"
                )
            )
        except redis.ResponseError:
            return {}  # CONFIG may be forbidden on a managed server.

    def count(self, namespace: str) -> int:
        """How many keys kvtui has, by SCAN."""
        try:
            return len(self._keys(namespace))
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None

    def wipe(self, namespace: str) -> int:
        """SCAN for kvtui's own keys and UNLINK them; never FLUSHALL."""
        removed = 0
        batch: list[bytes] = []
        try:
            for key in self._keys(namespace):
                batch.append(key)
                if len(batch) >= _SCAN_COUNT:
                    removed += self._connected().unlink(*batch)
                    batch = []
            if batch:
                removed += self._connected().unlink(*batch)
        except (redis.RedisError, OSError) as error:
            raise self._failed(error) from None
        return removed

    def _keys(self, namespace: str) -> set[bytes]:
        pattern = prefix(namespace) + b"*"
        # SCAN may return a key more than once.
        try:
            return set(self._connected().scan_iter(pattern, _SCAN_COUNT))
        except (TypeError, ValueError) as error:
            raise _no_redis(self._where, error) from None

    def _connected(self) -> Any:
        if self._client is None:
            raise OperationFailed(
                "disconnected", f"redis at {self._where} is not connected", broken=True
            )
        return self._client

    def _failed(self, error: Exception) -> StoreError:
        return failed(self._where, error)


def _evictable(info: dict[str, Any]) -> int:
    """The keys of all databases, which share one limit, where some may be dropped."""
    policy = str(info.get("maxmemory_policy", ""))
    found = [each for name, each in info.items() if re.fullmatch(r"db\d+", name)]
    found = [each for each in found if isinstance(each, dict)]
    mortal = "expires" if policy.startswith("volatile") else "keys"
    if policy in ("", "noeviction") or not any(each[mortal] for each in found):
        return 0
    return sum(int(each["keys"]) for each in found)


class RedisWire(Wire):
    """RESP2 for one connection, one operation at a time."""

    def __init__(self) -> None:
        # Its type says str or bytes; its C code takes any buffer.
        self._reader: Any = hiredis.Reader(notEnoughData=PENDING)
        self._wanted = 1
        self._replies: list[Any] = []
        self._shape: type[Operation] = Get
        self._fresh = True
        """Whether nothing of the reply has come yet."""

    def encode(self, operation: Operation) -> bytes:
        """The command, or for ``Add`` a pipeline of them."""
        key = operation.key
        self._shape = shape = type(operation)
        self._fresh = True
        if shape is Get:
            return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key)
        if isinstance(operation, Put):
            value = operation.value
            return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (
                len(key),
                key,
                len(value),
                value,
            )
        if isinstance(operation, Add):
            self._wanted = len(operation.counts)
            self._replies = []
            start = b"*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%b\r\n" % (len(key), key)
            return b"".join(
                [
                    b"%b$%d\r\n%b\r\n$%d\r\n%d\r\n"
                    % (start, len(name), name, len(b"%d" % amount), amount)
                    for name, amount in operation.counts
                ]
            )
        if isinstance(operation, Counts):
            return b"*2\r\n$7\r\nHGETALL\r\n$%d\r\n%b\r\n" % (len(key), key)
        if isinstance(operation, Delete):
            return b"*2\r\n$6\r\nUNLINK\r\n$%d\r\n%b\r\n" % (len(key), key)
        raise unsupported("redis", operation.label)

    def feed(self, data: bytes) -> Any:
        """The reply once whole."""
        shape, reader = self._shape, self._reader
        if shape is Put and self._fresh and data == _OK:
            return None  # Nearly every reply to a put; it needs no parser.
        try:
            reader.feed(data)
            reply = reader.gets()
            if shape is Add:
                reply = self._collect(reply)
        except hiredis.ProtocolError as error:
            raise OperationFailed(
                "protocol", f"redis sent no RESP: {error}", broken=True
            ) from None
        if reply is PENDING:
            self._fresh = False
            return PENDING
        if reader.has_data():
            # It would be taken for the answer to the next operation.
            raise OperationFailed(
                "protocol", "redis sent an answer that nobody asked for", broken=True
            )
        if shape is Get and (reply is None or type(reply) is bytes):
            return reply
        if isinstance(reply, hiredis.ReplyError):
            raise server_error(reply)
        if shape is Put:
            if reply == b"OK":
                return None
        elif shape is Counts:
            if isinstance(reply, list):
                try:
                    pairs = zip(reply[::2], reply[1::2], strict=True)
                    return {name: int(value) for name, value in pairs} or None
                except (TypeError, ValueError) as error:
                    raise _no_counters(error) from None
        elif shape is Add:
            return None
        elif isinstance(reply, int):
            return bool(reply)
        raise OperationFailed(
            "protocol",
            f"redis answered {shape.__name__.lower()} with {reply!r:.60}",
            broken=True,
        )

    def _collect(self, reply: Any) -> Any:
        """The pipeline's first error, else its last reply, once all are there."""
        while reply is not PENDING:
            self._replies.append(reply)
            if len(self._replies) == self._wanted:
                errors = (e for e in self._replies if isinstance(e, Exception))
                return next(errors, reply)
            reply = self._reader.gets()
        return PENDING


def _where(settings: Settings) -> str:
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', 6379)}"


def _address(peer: Any, where: str) -> str:
    if not isinstance(peer, tuple):
        return where
    host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
    return f"{host}:{peer[1]}"


def _connection_class(settings: Settings) -> Any:
    if settings.get("path"):
        return redis.UnixDomainSocketConnection
    return redis.SSLConnection if settings.get("tls") else redis.Connection


def _connection_arguments(settings: Settings) -> dict[str, Any]:
    timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
    arguments: dict[str, Any] = {
        "db": int(settings.get("database", 0)),
        "username": settings.get("username"),
        "password": password("redis", settings),
        # While connecting; a server that says nothing is told from a slow one by
        # the operations, which wait for timeout_s.
        "socket_timeout": min(CONNECT_TIMEOUT_S, timeout_s),
        # A retry inside the driver would run a command twice and hide a failure.
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "decode_responses": False,
    }
    if int(redis.__version__.partition(".")[0]) >= _KNOWS_RESP3:
        arguments["protocol"] = 2
    if settings.get("path"):
        arguments["path"] = str(settings["path"])
        return arguments
    arguments["host"] = str(settings.get("host", "127.0.0.1")).strip("[]")
    arguments["port"] = int(settings.get("port", 6379))
    arguments["socket_connect_timeout"] = min(CONNECT_TIMEOUT_S, timeout_s)
    return arguments


def _be_patient(connection: Any, settings: Settings) -> None:
    """Connected: from now on a reply may take ``timeout_s``."""
    timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
    connection.socket_timeout = timeout_s
    connection._sock.settimeout(timeout_s)


def _no_redis(where: str, problem: object) -> OperationFailed:
    return OperationFailed(
        "protocol", f"redis at {where} does not answer like one: {problem!s:.80}"
    )


def _unavailable(where: str, error: Exception, settings: Settings) -> StoreUnavailable:
    text = str(error)
    tls = bool(settings.get("tls")) and not settings.get("path")
    hint = "is the server running, and is this its address?"
    if isinstance(error, redis.AuthenticationError) or "NOAUTH" in text:
        hint = "name the right password: password_env=NAME or password_file=FILE"
    elif isinstance(error, redis.TimeoutError):
        hint = "the server did not answer in time; it may be loading or frozen, or is"
        hint += " no Redis"
        if tls:
            hint += f"; or it does not speak TLS: {_NO_TLS}"
    elif tls and ("SSL" in text or "TLS" in text) and "CERTIFICATE" not in text.upper():
        hint = f"does it speak TLS? {_NO_TLS}"
    elif isinstance(error, redis.exceptions.InvalidResponse):
        hint = "is it a Redis or Valkey server, at this address?"
    elif "DB index is out of range" in text:
        text = f"it has no database {settings.get('database', 0)}: {text}"
        hint = "name a lower one (database=0); databases in the server's configuration"
        hint += " says how many it has"
    elif "max number of clients" in text:
        hint = "raise the server's maxclients, or use fewer --clients"
    loading = isinstance(error, redis.BusyLoadingError)
    return StoreUnavailable(f"redis at {where}: {text}", hint=hint, loading=loading)


def failed(where: str, error: Exception) -> StoreError:
    """A driver's exception as one failed operation."""
    text = f"redis at {where}: {error}"
    if isinstance(error, redis.TimeoutError):
        return OperationFailed("timeout", text, broken=True)
    if isinstance(error, redis.ResponseError):
        return server_error(error)
    if isinstance(error, ConnectionRefusedError) or "refused" in text:
        return OperationFailed("refused", text, broken=True)
    return OperationFailed("disconnected", text, broken=True)


def _no_counters(error: Exception) -> OperationFailed:
    return OperationFailed("server-error", f"redis: these are no counters: {error}")


def server_error(error: Exception) -> OperationFailed:
    """An error reply; the connection goes on."""
    text = str(error)
    # redis-py takes the code off the text of the errors that it has a class for, and
    # keeps it beside the text in its later versions only.
    code = getattr(error, "status_code", None) or _CODES.get(type(error))
    if code is None and type(error) is redis.ResponseError and not _CODED.match(text):
        code = "ERR"
    if isinstance(code, str) and not text.startswith(code):
        text = f"{code} {text}"
    word = text.split(" ", 1)[0]
    kind = "no-space" if word in ("OOM", "MISCONF") else "server-error"
    return OperationFailed(kind, f"redis: {text}")
