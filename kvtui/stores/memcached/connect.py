"""Connecting to memcached, through pymemcache."""

from __future__ import annotations

import socket
from typing import Any, Final

from pymemcache.client.base import Client

from kvtui.errors import StoreUnavailable
from kvtui.stores.memcached.admin import statistics
from kvtui.stores.store import Settings

DEFAULT_PORT: Final = 11211
DEFAULT_TIMEOUT_S: Final = 10.0
CONNECT_TIMEOUT_S: Final = 3.0


def connect(settings: Settings, where: str) -> tuple[Client, dict[str, str]]:
    """A connected driver, and what the server told of its settings.

    Without asking, a server that refuses (its limit of connections) would be noticed
    only once the clock runs. Raises StoreUnavailable.
    """
    timeout_s = float(settings.get("timeout_s", DEFAULT_TIMEOUT_S))
    connect_timeout_s = min(CONNECT_TIMEOUT_S, timeout_s)
    problem: Exception = OSError("its name has no address")
    try:
        for server in _servers(settings):
            client = Client(
                server,
                connect_timeout=connect_timeout_s,
                timeout=connect_timeout_s,
                no_delay=True,
                default_noreply=False,
            )
            try:
                # Its own first command would hide what a refusing server says.
                client._connect()
            except OSError as error:
                problem = error
                continue
            return client, _greeted(client, where, timeout_s)
    except (OSError, ValueError) as error:
        problem = error
    text = str(problem) or type(problem).__name__
    hint = "is the server running, and is this its address?"
    # A unix socket tells at once that the server's queue is full.
    if isinstance(problem, TimeoutError | BlockingIOError):
        hint = (
            "it may be frozen, or at its limit of connections (-c): use fewer"
            " --clients, or raise it; or it is no memcached"
        )
        text = f"no answer within {connect_timeout_s:g} s"
    raise StoreUnavailable(f"memcached at {where}: {text}", hint=hint)


def _greeted(client: Client, where: str, timeout_s: float) -> dict[str, str]:
    connection = client.sock
    try:
        if connection is None:
            raise ConnectionResetError("pymemcache did not connect")
        told = statistics(connection, where, "settings")
        # Connected: from now on a reply may take its time.
        connection.settimeout(timeout_s)
    except BaseException:
        client.close()
        raise
    return told


def _servers(settings: Settings) -> list[Any]:
    """Where to connect, in order; pymemcache itself tries only a name's first
    address."""
    if settings.get("path"):
        return [str(settings["path"])]
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    port = int(settings.get("port", DEFAULT_PORT))
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [address[:2] for *_, address in found]


def where_of(settings: Settings) -> str:
    """The server's address, in words."""
    if settings.get("path"):
        return str(settings["path"])
    host = str(settings.get("host", "127.0.0.1")).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{settings.get('port', DEFAULT_PORT)}"
