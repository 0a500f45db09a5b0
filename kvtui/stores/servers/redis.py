"""A private redis-server or valkey-server: memory only, nothing saved."""

from __future__ import annotations

from typing import ClassVar

from kvtui.stores.servers.base import PrivateServer


class RedisServer(PrivateServer):
    """redis-server or valkey-server."""

    kind: ClassVar[str] = "redis"

    def command(self, program: str) -> list[str]:
        """A unix socket of mode 700, or a port on 127.0.0.1."""
        if self.path is None:
            listen = ["--port", str(self.port), "--bind", "127.0.0.1"]
        else:
            listen = ["--port", "0", "--unixsocket", str(self.path)]
            listen += ["--unixsocketperm", "700"]
        return [
            program,
            *listen,
            "--dir",
            str(self.directory),
            "--save",
            "",
            "--appendonly",
            "no",
            "--maxclients",
            "20000",
            "--daemonize",
            "no",
        ]
