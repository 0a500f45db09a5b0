"""A private ttserver: in memory unless a file is asked for, and never synchronised."""

from __future__ import annotations

from typing import ClassVar, Final

from kvtui.stores.servers.base import PrivateServer

DATABASES: Final = {
    "hash": "*",
    "tree": "+",
    # Without the large option, a database file stops at 2 GB.
    "hash-file": "kvtui.tch#opts=l",
    "tree-file": "kvtui.tcb#opts=l",
}
"""By the setting ``engine``; what follows ``#`` are Tokyo Cabinet's options."""


class TokyoServer(PrivateServer):
    """ttserver, found by KVTUI_TTSERVER, on PATH, or by the setting ``program``."""

    kind: ClassVar[str] = "tokyo"
    for_server_only: ClassVar[frozenset[str]] = frozenset({"engine"})

    def command(self, program: str) -> list[str]:
        """A unix socket, or a port on 127.0.0.1; it would bind every address."""
        if self.path is None:
            listen = ["-host", "127.0.0.1", "-port", str(self.port)]
        else:
            listen = ["-host", str(self.path), "-port", "0"]
        return [program, *listen, "-le", self._database()]

    def _database(self) -> str:
        engine = str(self.settings.get("engine", "hash"))
        database = DATABASES[engine]
        # A second server on one file would wait for its lock for ever: the file is
        # in this server's own folder.
        return str(self.directory / database) if "." in database else database
