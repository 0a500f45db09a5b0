"""The RAM store: a dict in the worker process, the control for every other store."""

from __future__ import annotations

import platform
from bisect import bisect_left
from collections import defaultdict
from threading import Lock
from typing import ClassVar

from kvtui.stores.operations import prefix
from kvtui.stores.store import ADD, SCAN, Settings, Store, StoreInfo


class RamStore(Store):
    """Values in one dict, counters in another."""

    kind: ClassVar[str] = "ram"
    shared_by_threads: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._values: dict[bytes, bytes] = {}
        self._counters: dict[bytes, defaultdict[bytes, int]] = {}
        self._adding = Lock()
        # The dict's own methods, without a Python frame around each call: the
        # control must cost as little as it can.
        self.__dict__.update(get=self._values.get, put=self._values.__setitem__)

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close; the values go with the process."""

    def get(self, key: bytes) -> bytes | None:
        """The value under ``key``; None is a miss."""
        return self._values.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Keep ``value``."""
        self._values[key] = value

    def delete(self, key: bytes) -> bool:
        """Remove ``key``."""
        there = self._values.pop(key, None) is not None
        return self._counters.pop(key, None) is not None or there

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """Add in place, under a lock: threads may share a record."""
        with self._adding:
            counters = self._counters.get(key)
            if counters is None:
                counters = self._counters[key] = defaultdict(int)
            for name, amount in counts:
                counters[name] += amount

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """A copy of the counters."""
        with self._adding:
            counters = self._counters.get(key)
            return None if counters is None else dict(counters)

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Sorts the keys each time: for checking other stores, not for speed."""
        keys = sorted(self._values)
        first = bisect_left(keys, key)
        return [(each, self._values[each]) for each in keys[first : first + count]]

    def info(self) -> StoreInfo:
        """The interpreter's dict."""
        return StoreInfo(
            f"dict of Python {platform.python_version()}",
            "in process",
            "memory",
            "calls",
        )

    def _ours(self, namespace: str) -> set[bytes]:
        start = prefix(namespace)
        return {
            key
            for kept in (self._values, self._counters)
            for key in kept
            if key.startswith(start)
        }

    def count(self, namespace: str) -> int:
        """How many keys kvtui has."""
        return len(self._ours(namespace))

    def wipe(self, namespace: str) -> int:
        """Remove them."""
        ours = self._ours(namespace)
        for key in ours:
            self.delete(key)
        return len(ours)
