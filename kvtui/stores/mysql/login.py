"""Connecting to MySQL through PyMySQL, on kvtui's own terms."""

from __future__ import annotations

import socket
import ssl
from typing import Any, Final, NoReturn

import pymysql
from pymysql.constants import CLIENT

from kvtui.stores.passwords import password
from kvtui.stores.store import Settings

DEFAULT_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
DEFAULT_PORT = 3306

STRICT: Final = "STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION"
"""Without it a server cuts a value that is too long, and says nothing."""


class _NeverInClear:
    """In place of the ways to log in that send the password as it is: any server may
    ask for them, and PyMySQL would answer."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def authenticate(self, packet: object) -> NoReturn:
        """Refuse."""
        raise pymysql.err.OperationalError(
            2061, "the server asked for the password in clear; kvtui does not send it"
        )


def timeout_s(settings: Settings) -> float:
    """How long a reply may take."""
    return float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))


def patience_s(settings: Settings) -> float:
    """How long each step of connecting may take."""
    return min(CONNECT_TIMEOUT_S, timeout_s(settings))


def where(settings: Settings) -> str:
    """The address as configured."""
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', DEFAULT_PORT)}"


def connected(settings: Settings) -> Any:
    """A PyMySQL connection; autocommit, strict, equal values count as rows.

    Raises ConfigError for a password that is not there, and whatever PyMySQL raises.
    """
    limit_s = patience_s(settings)
    secret = password("mysql", settings)
    arguments: dict[str, Any] = {
        "user": settings.get("username"),
        # PyMySQL would write a text as Latin-1.
        "password": (secret or "").encode(),
        # While connecting; a server that says nothing is told from a slow one by
        # the operations, which wait for timeout_s.
        "connect_timeout": max(1.0, limit_s),
        "read_timeout": limit_s,
        "write_timeout": limit_s,
        "charset": "utf8mb4",
        "sql_mode": STRICT,
        "autocommit": True,
        # Otherwise writing what is already there counts 0 rows, like a missing one.
        "client_flag": CLIENT.FOUND_ROWS,
        "program_name": "kvtui",
        "auth_plugin_map": {
            "mysql_clear_password": _NeverInClear,
            "dialog": _NeverInClear,
        },
    }
    if settings.get("tls"):
        context = ssl.create_default_context()
        arguments["ssl"] = context
    else:
        # PyMySQL would use TLS, unverified, wherever the server offers it.
        arguments["ssl_disabled"] = True
    if not settings.get("path"):
        arguments["host"] = str(settings.get("host", "127.0.0.1")).strip("[]")
        arguments["port"] = int(settings.get("port", DEFAULT_PORT))
        return pymysql.connect(**arguments)
    connection = pymysql.connect(**arguments, defer_connect=True)
    # PyMySQL forgets to close a unix socket that nobody listens on.
    made = socket.socket(socket.AF_UNIX)
    try:
        made.settimeout(limit_s)
        made.connect(str(settings["path"]))
    except BaseException:
        made.close()
        raise
    connection._secure = True  # nobody listens in, as with a socket of its own
    connection.connect(made)
    return connection
