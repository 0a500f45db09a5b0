"""How a MongoDB server is reached: by pymongo, or by a socket of our own."""

from __future__ import annotations

import platform
import socket
from collections.abc import Mapping
from typing import Any, Final

import pymongo

import kvtui
from kvtui.errors import ConfigError, OperationFailed, StoreUnavailable
from kvtui.stores.mongo import records
from kvtui.stores.mongo.errors import unavailable
from kvtui.stores.mongo.wire import MongoWire
from kvtui.stores.passwords import password
from kvtui.stores.store import PENDING, Settings

DEFAULT_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 2.5
"""3 s in all: pymongo needs a moment more than its own limits."""
_CLOSE_TIMEOUT_S: Final = 0.5
_PORT: Final = 27017
_HEARTBEAT_MS: Final = 3_600_000
"""pymongo's monitor asks once and then, as good as, never again: it would share the
measured server and the measured interpreter. A server that goes away is noticed by
the operations."""


def where(settings: Settings) -> str:
    """The server's address as it was named."""
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', _PORT)}"


def schema(settings: Settings) -> str:
    """The database."""
    return str(settings.get("schema", "kvtui"))


def connect_timeout_s(settings: Settings) -> float:
    """What connecting may take."""
    timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
    return min(CONNECT_TIMEOUT_S, timeout_s)


def client(settings: Settings) -> Any:
    """A MongoClient with one connection and no retries. Raises ConfigError, OSError
    at once where nobody listens, and what pymongo raises."""
    arguments = _arguments(settings)
    # pymongo would go on asking until its limit.
    dial(settings).close()
    return pymongo.MongoClient(**arguments)


def close(client: Any) -> None:
    """Let go of a client, soon: taking leave of a server that is frozen would wait
    for its answer."""
    if client is not None:
        with pymongo.timeout(_CLOSE_TIMEOUT_S):
            client.close()


def dial(settings: Settings) -> socket.socket:
    """A connected socket. Raises OSError."""
    limit_s = connect_timeout_s(settings)
    if settings.get("path"):
        made = socket.socket(socket.AF_UNIX)
        try:
            made.settimeout(limit_s)
            made.connect(str(settings["path"]))
        except BaseException:
            made.close()
            raise
        return made
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    made = socket.create_connection((host, int(settings.get("port", _PORT))), limit_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def wire(settings: Settings) -> tuple[socket.socket, MongoWire]:
    """A socket of our own, greeted, and its protocol. Raises StoreUnavailable.

    pymongo has no public way to hand over a connection that it has logged in, so
    there is neither login nor TLS here.
    """
    named = where(settings)
    for name in ("username", "password_env", "password_file", "tls"):
        if settings.get(name):
            raise StoreUnavailable(
                f"mongo at {named}: {name} is set, and client=wire has neither login"
                " nor TLS",
                hint="use client=driver",
            )
    made = None
    try:
        made = dial(settings)
        spoken = MongoWire(named, schema(settings))
        greeting = {"hello": 1, "client": _introduction()}
        hello = _ask(made, spoken, spoken.command(greeting, "admin"))
        check_primary(named, hello)
        limit = int(hello.get("maxBsonObjectSize", records.DOCUMENT_LIMIT_BYTES))
        spoken.document_limit_bytes = limit
        # Anybody may say hello; only one that is let in may find.
        probe = {"find": records.COLLECTION, "filter": {"_id": ""}, "limit": 1}
        _ask(made, spoken, spoken.command(probe))
    except BaseException as error:
        if made is not None:
            made.close()
        if isinstance(error, OperationFailed):
            hint = "is this a MongoDB server, of version 4.4 or later?"
            if error.hint == records.LOGIN_HINT:
                hint = f"use client=driver, and {records.LOGIN_HINT}"
            raise StoreUnavailable(error.message, hint=hint) from None
        if isinstance(error, OSError):
            raise unavailable(named, error) from None
        raise
    return made, spoken


def check_primary(named: str, hello: Mapping[str, Any]) -> None:
    """Raise StoreUnavailable for a server that takes no writes."""
    if not hello.get("isWritablePrimary", True):
        primary = hello.get("primary")
        raise StoreUnavailable(
            f"mongo at {named}: this server takes no writes, it is no primary",
            hint=f"its primary is {primary}" if primary else "name the primary",
        )


def _ask(made: socket.socket, spoken: MongoWire, message: bytes) -> Any:
    made.sendall(message)
    while True:
        received = made.recv(1 << 16)
        if not received:
            raise ConnectionError("the server closed the connection")
        reply = spoken.feed(received)
        if reply is not PENDING:
            return reply


def _introduction() -> dict[str, Any]:
    """Who is speaking, in the form that a server insists on (MongoDB handshake
    specification: driver.name, driver.version and os.type are required)."""
    return {
        "application": {"name": "kvtui"},
        "driver": {"name": "kvtui", "version": kvtui.__version__},
        "os": {"type": platform.system()},
    }


def _arguments(settings: Settings) -> dict[str, Any]:
    connect_ms = round(1000 * connect_timeout_s(settings))
    arguments: dict[str, Any] = {
        "directConnection": True,
        "maxPoolSize": 1,
        # A retry inside the driver would run a command twice and hide a failure.
        "retryWrites": False,
        "retryReads": False,
        "serverSelectionTimeoutMS": connect_ms,
        "connectTimeoutMS": connect_ms,
        "socketTimeoutMS": round(
            1000 * float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
        ),
        "serverMonitoringMode": "poll",
        "heartbeatFrequencyMS": _HEARTBEAT_MS,
        "tls": bool(settings.get("tls", False)),
        "appname": "kvtui",
    }
    secret = password("mongo", settings)
    if settings.get("username"):
        arguments["username"] = str(settings["username"])
        arguments["password"] = secret
    elif secret is not None:
        raise ConfigError(
            "mongo has a password and nobody it belongs to", hint="add username=NAME"
        )
    path = settings.get("path")
    if path:
        if not str(path).endswith(".sock"):
            raise ConfigError(
                f"mongo at {path}: pymongo takes unix sockets named *.sock only",
                hint="let a link that ends in .sock lead there, or use host and port",
            )
        return {**arguments, "host": str(path)}
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    arguments["host"] = f"[{host}]" if ":" in host else host
    arguments["port"] = int(settings.get("port", _PORT))
    return arguments
