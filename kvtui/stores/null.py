"""The null store: takes everything, keeps nothing, answers at once.

Its figure is the cost of asking: the workload and the engine without any store.
"""

from __future__ import annotations

from typing import ClassVar

from kvtui.stores.operations import Request, Response
from kvtui.stores.store import ADD, SCAN, Store, StoreInfo


class NullStore(Store):
    """Every get is a miss; every put is dropped."""

    kind: ClassVar[str] = "null"
    shared_by_threads: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def get(self, key: bytes) -> bytes | None:
        """Always a miss."""
        return None

    def put(self, key: bytes, value: bytes) -> None:
        """Dropped."""

    def delete(self, key: bytes) -> bool:
        """Nothing was there."""
        return False

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """Dropped."""

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """Always a miss."""
        return None

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Always empty."""
        return []

    def request(self, asked: Request) -> Response | None:
        """Always a miss."""
        return None

    def info(self) -> StoreInfo:
        """A store that keeps nothing."""
        return StoreInfo("", "in process", "none", "calls", keeps=False)

    def count(self, namespace: str) -> int:
        """Always 0."""
        return 0

    def wipe(self, namespace: str) -> int:
        """Nothing to remove."""
        return 0
