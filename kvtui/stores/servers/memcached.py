"""A private memcached: enough memory that it need not drop anything."""

from __future__ import annotations

import os
import pwd
import resource
from typing import ClassVar, Final

from kvtui.errors import StoreUnavailable
from kvtui.stores.servers.base import PrivateServer
from kvtui.stores.settings import size_bytes

DEFAULT_MEMORY_MB: Final = 1024
"""memcached's own default of 64 would drop records of the fan-page job in silence."""
DEFAULT_ITEM_LIMIT_BYTES: Final = 64 * 2**20
MAX_CONNECTIONS: Final = 20_000
_MB: Final = 2**20
_CHUNK: Final = 2**19
"""Its items are made of chunks of this size: -I must be a multiple of it."""


class MemcachedServer(PrivateServer):
    """memcached, with its own defaults but for memory, largest item and connections.

    Settings: ``memory`` (-m; 64MB is memcached's own default) and ``item_limit`` (-I),
    rounded up to what memcached takes: whole half mebibytes, and one mebibyte at least.
    """

    kind: ClassVar[str] = "memcached"
    for_server_only: ClassVar[frozenset[str]] = frozenset({"memory", "item_limit"})

    def command(self, program: str) -> list[str]:
        """A unix socket of mode 700, or a port on 127.0.0.1."""
        if self.path is None:
            listen = ["-l", "127.0.0.1", "-p", str(self.port), "-U", "0"]
        else:
            listen = ["-s", str(self.path), "-a", "0700"]
        memory_mb = self._memory_mb()
        words = [program, *listen, "-m", str(memory_mb)]
        words += ["-I", str(self._item_limit_bytes(memory_mb))]
        words += ["-c", str(_connections()), "-t", "4"]
        if os.geteuid() == 0:
            # It refuses to run as root unless told to. Another account would cost
            # its tie to this process, which ends where an account is changed, and
            # could not reach the socket's folder.
            words += ["-u", pwd.getpwuid(0).pw_name]
        return words

    def stop(self) -> None:
        """End it, and remove the socket that it leaves behind."""
        super().stop()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _memory_mb(self) -> int:
        """What -m counts in: 64MB and 64MiB are both its 64."""
        asked = self.settings.get("memory")
        if asked is None:
            return DEFAULT_MEMORY_MB
        size = size_bytes(asked)
        return max(2, size // 10**6 if size % 10**6 == 0 else size // _MB)

    def _item_limit_bytes(self, memory_mb: int) -> int:
        # It does not start with items larger than half of its memory.
        most = memory_mb * _MB // 2
        asked = self.settings.get("item_limit")
        if asked is None:
            return min(DEFAULT_ITEM_LIMIT_BYTES, most)
        size = max(_MB, -(-size_bytes(asked) // _CHUNK) * _CHUNK)
        if size > most:
            raise StoreUnavailable(
                f"memcached: item_limit may be half of memory at most: {most:,} bytes,"
                f" not {size:,}",
                hint="raise memory, or lower item_limit",
            )
        return size


def _connections() -> int:
    """As many as this process may have files: with more it would not start."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return min(MAX_CONNECTIONS, hard)
