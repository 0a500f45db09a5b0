"""Connecting anew while the wire loop goes on.

A store's driver connects by blocking calls, up to three seconds where a server is
frozen; every reply of the other clients would wait for that, and be stamped late. So
connections are made in a thread of their own and handed over at the loop's next tick.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from threading import Lock, Thread
from typing import Generic, TypeVar

from kvtui.stores.store import Wire

T = TypeVar("T")

Made = tuple[socket.socket, Wire]


class Reconnecting(Generic[T]):
    """Makes connections for whoever waits, one after the other."""

    def __init__(self, connect: Callable[[], Made]) -> None:
        self._connect = connect
        self._lock = Lock()
        self._results: list[tuple[T, Made | Exception]] = []
        self._closed = False
        self._thread: Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether connections are still being made, or wait to be taken."""
        with self._lock:
            working = self._thread is not None and self._thread.is_alive()
            return working or bool(self._results)

    def start(self, waiting: Sequence[T]) -> None:
        """Make a connection for each of them, up to the first that cannot be made:
        the others would only meet the same refusal. Only while not busy."""
        self._thread = Thread(
            target=self._run, args=(tuple(waiting),), daemon=True, name="reconnect"
        )
        self._thread.start()

    def _run(self, waiting: tuple[T, ...]) -> None:
        for each in waiting:
            result: Made | Exception
            try:
                result = self._connect()
            except Exception as error:
                result = error
            with self._lock:
                if not self._closed:
                    self._results.append((each, result))
                elif not isinstance(result, Exception):
                    result[0].close()
                if self._closed or isinstance(result, Exception):
                    return

    def take(self) -> list[tuple[T, Made | Exception]]:
        """What has come of it since the last call; the sockets are the caller's."""
        with self._lock:
            taken, self._results = self._results, []
            return taken

    def close(self) -> None:
        """Nobody waits any more; a connection that is still made is closed then."""
        with self._lock:
            self._closed = True
            results, self._results = self._results, []
        for _, result in results:
            if not isinstance(result, Exception):
                result[0].close()
