"""Whether a store can hold what a workload will put into it."""

from __future__ import annotations

from typing import Final

from kvtui.engine.trial import TrialFailed
from kvtui.jobs.workload import Room
from kvtui.stores.store import StoreInfo

_SURELY: Final = 0.85
"""Of an estimated total; the estimate is within a tenth on every data set that it
was tried on, and keys and the store's own needs come on top."""
_CLOSE: Final = 0.8
_PER_RECORD_BYTES: Final = 200
"""A key and what a store keeps beside it: up to 180 bytes in Redis 7.0."""
_CONNECTIONS_BYTES: Final = 1_000_000
_COUNTERS_FACTOR: Final = 2
"""What counters take of a value's bytes: 2.0 in Redis 7.0, where one record is one
hash, and more in memcached 1.6."""


def check_fit(store: str, room: Room, info: StoreInfo) -> str:
    """A warning where it may become tight, else empty. TrialFailed where the store
    cannot hold the records. Nothing is known of counters."""
    if room.counters:
        return ""
    item, limit = info.item_limit_bytes, info.memory_limit_bytes
    if item is not None and room.largest_bytes > item:
        raise TrialFailed(
            f"{store} cannot hold this data set: the record of {room.largest_name}"
            f" comes to {room.largest_bytes:,} bytes, and one value may take"
            f" {item:,} at most",
            hint="raise the server's limit, or take less data (--first, --records)",
        )
    if limit is None:
        return ""
    if room.total_bytes * _SURELY > limit:
        raise TrialFailed(
            f"{store} cannot hold this data set: its {room.records:,} records come to"
            f" about {_megabytes(room.total_bytes)}, and the server may use"
            f" {_megabytes(limit)}",
            hint="raise the server's limit, or take less data (--first, --records)",
        )
    free = limit - (info.memory_used_bytes or 0)
    if room.total_bytes > _CLOSE * free:
        used = limit - free
        others = f", of which {_megabytes(used)} are in use" if used else ""
        return (
            f"{store} may run out of memory: the records come to about"
            f" {_megabytes(room.total_bytes)}, and the server may use"
            f" {_megabytes(limit)}{others}"
        )
    return ""


def spare_others(store: str, room: Room, info: StoreInfo) -> None:
    """TrialFailed where the store would rather drop keys that are not kvtui's than
    refuse the records: with all that they take, not only their bytes."""
    limit = info.memory_limit_bytes
    if limit is None:
        return
    values = room.total_bytes * info.memory_factor
    values *= _COUNTERS_FACTOR if room.counters else 1
    needed = int(values) + room.records * _PER_RECORD_BYTES + _CONNECTIONS_BYTES
    used = info.memory_used_bytes or 0
    if needed > limit - used:
        raise TrialFailed(
            f"{store} has no room for this data set: the records would take about"
            f" {_megabytes(needed)}, and the server may use {_megabytes(limit)}, of"
            f" which {_megabytes(used)} are in use: it would drop keys that are not"
            f" kvtui's (policy {info.eviction})",
            hint="raise the server's limit, or take less data (--first, --records)",
        )


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"
