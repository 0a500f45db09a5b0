"""Which process of this machine is at the other end of a connection."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Any, Final

_CREDENTIALS: Final = struct.Struct("3i")  # process, user, group: unix(7)


def peer_address(connection: socket.socket) -> str:
    """The path, or host and port, that the connection leads to."""
    peer = connection.getpeername()
    if not isinstance(peer, tuple):
        return peer.decode("utf-8", "replace") if isinstance(peer, bytes) else peer
    host = f"[{peer[0]}]" if ":" in peer[0] else peer[0]
    return f"{host}:{peer[1]}"


def peer_process(connection: socket.socket) -> int | None:
    """The id of the process that listens there, for a server that does not tell it;
    None where it is not on this machine, or cannot be seen."""
    if connection.family == socket.AF_UNIX:
        if not hasattr(socket, "SO_PEERCRED"):
            return None
        found = connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        # 0: a process of another container.
        return int(_CREDENTIALS.unpack(found)[0]) or None
    import psutil  # slow to load, and needed here alone

    here, there = _plain(connection.getsockname()), _plain(connection.getpeername())
    with contextlib.suppress(psutil.Error, OSError):
        for each in psutil.net_connections("tcp"):
            if not each.pid or not each.raddr:
                continue
            if (_plain(each.laddr), _plain(each.raddr)) == (there, here):
                return int(each.pid)
    return None


def only_listener(connection: socket.socket) -> int | None:
    """The id of the one process that listens where this connection leads, also once
    the server has closed it.

    None where several share the work, as a web server's workers do: no one of them
    is the server, and its CPU time is not the server's.
    """
    import psutil

    try:
        if connection.family == socket.AF_UNIX:
            found = {peer_process(connection)} - {None}
        elif connection.getpeername()[0] != connection.getsockname()[0]:
            return None
        else:
            port = connection.getpeername()[1]
            found = {
                each.pid
                for each in psutil.net_connections("tcp")
                if each.pid
                and each.status == psutil.CONN_LISTEN
                and each.laddr.port == port
            }
        if len(found) != 1:
            return None
        (only,) = found
        return None if psutil.Process(only).children() else only
    except (psutil.Error, OSError):
        return None


def _plain(address: Any) -> tuple[str, int]:
    return str(address[0]).removeprefix("::ffff:"), int(address[1])
