"""Whether a store can hold what a workload will put into it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
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
_COUNTER_BYTES: Final = len(b'"x":1,')
"""What a counter takes at least of a value's bytes."""
_COUNTERS_FACTOR: Final = 2
"""What counters take of a value's bytes: 2.0 in Redis 7.0, where one record is one
hash, and more in memcached 1.6."""

_REWRITTEN: Final = 2
"""What a store that writes to a disk may need at times: what was replaced stands
beside what replaces it until it is compacted."""
_COMPRESSED: Final = 2
"""What compression makes of such records, near enough."""
_MOST_COMPRESSED: Final = 20
"""What it makes of them at most. Snappy writes 64 bytes as 3 in the best case."""


def check_fit(store: str, room: Room, info: StoreInfo) -> str:
    """A warning where it may become tight, else empty. TrialFailed where the store
    cannot hold the records. Little is known of counters."""
    return _check_number(store, room, info) or _check_bytes(store, room, info)


def _check_number(store: str, room: Room, info: StoreInfo) -> str:
    limit = info.records_limit
    if limit is None:
        return ""
    if room.records > limit:
        raise TrialFailed(
            f"{store} cannot hold this data set: it has {room.records:,} records, and"
            f" the server keeps {limit:,} at most, whatever their size"
            f" ({info.memory_limit})",
            hint="raise the server's limit, or take fewer profiles with --first",
        )
    free = limit - (info.records_used or 0)
    most = _most_keys(room)
    if most > _CLOSE * free:
        many = f"its {room.records:,} records"
        if room.counters:
            many += f" may be {most:,} keys, one for each counter"
        return f"{store} may drop records: {many}, and the server keeps {free:,} more"
    return ""


def _check_bytes(store: str, room: Room, info: StoreInfo) -> str:
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
    if info.records_limit is not None:
        left = info.records_limit - (info.records_used or 0)
        # It drops some before: it shares the keys out, not evenly, among several maps.
        if _most_keys(room) > _CLOSE * left:
            raise TrialFailed(
                f"{store} has no room for this data set: the records may take"
                f" {_most_keys(room):,} keys, and the server keeps {left:,} more than"
                f" it has: it would drop keys that are not kvtui's (policy"
                f" {info.eviction})",
                hint="raise the server's limit, or take fewer profiles with --first",
            )
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


def _most_keys(room: Room) -> int:
    """How many keys the records take at most, and one for the marker."""
    keys = room.records + 1
    if room.counters:
        # Where each is a key of its own, and each record has one that lists them.
        keys += room.records + room.total_bytes // _COUNTER_BYTES
    return keys


def check_disk(store: str, room: Room, folder: Path, *, compressed: bool) -> str:
    """A warning where the disk of a store's folder may become full, else empty.
    TrialFailed where it surely would. The folder need not be there yet; what stands in
    it already counts as room. Nothing is known of counters."""
    if room.counters:
        return ""
    try:
        free = shutil.disk_usage(_nearest(folder)).free + _taken(folder)
    except OSError:
        return ""  # Who opens the store says what is wrong there.
    told = (
        f"its {room.records:,} records come to about {_megabytes(room.total_bytes)}"
        f"{' before they are compressed' if compressed else ''}, and {folder} has"
        f" {_megabytes(free)} of free disk"
    )
    if room.total_bytes * _SURELY / (_MOST_COMPRESSED if compressed else 1) > free:
        raise TrialFailed(
            f"{store} cannot hold this data set: {told}",
            hint="free some space, name a folder on another disk (directory=, or"
            " XDG_STATE_HOME for all runs), or take fewer profiles with --first",
        )
    if room.total_bytes * _REWRITTEN / (_COMPRESSED if compressed else 1) > free:
        return f"{store} may fill its disk: {told}"
    return ""


def _nearest(folder: Path) -> Path:
    """The folder, or the one nearest to it that is there."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder


def _taken(folder: Path) -> int:
    """What the files in a folder take of its disk."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            total += 512 * os.lstat(os.path.join(place, name)).st_blocks
    return total


def _megabytes(number: int) -> str:
    return f"{number / 1e6:,.1f} MB"
