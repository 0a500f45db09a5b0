"""Whose process is at the other end of a connection, where it is on this machine."""

from __future__ import annotations

import contextlib
import socket
import struct

import psutil


def serving_process(connection: socket.socket) -> int | None:
    """The process that listens where this connection leads.

    Of several that share the listening socket, the one that the others descend from.
    None where it runs elsewhere, or where the system does not tell.
    """
    try:
        if connection.family == socket.AF_UNIX:
            raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            return int(struct.unpack("3i", raw)[0]) or None  # unix(7)
        peer, own = connection.getpeername(), connection.getsockname()
        if peer[0] != own[0]:
            return None
        found: set[int] = {
            int(each.pid)
            for each in psutil.net_connections("tcp")
            if each.pid
            and each.status == psutil.CONN_LISTEN
            and each.laddr.port == peer[1]
            and each.laddr.ip in (peer[0], "0.0.0.0", "::")
        }
    except (OSError, psutil.Error, struct.error):
        return None
    for each in sorted(found):
        with contextlib.suppress(psutil.Error):
            if int(psutil.Process(each).ppid()) not in found:
                return each
    return None
