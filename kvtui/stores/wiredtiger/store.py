"""WiredTiger in the worker process, through its own Python bindings.

Keys and values are raw bytes (format ``u``): a string format ends a key at its first
NUL. Values stand in the table ``kvtui`` under ``v<key>``, as an empty key would end
the library in a panic. The counters of ``add`` stand in the table
``kvtui_counters``, one row a counter, under ``<key length><key><name>`` as decimal
text; one add is one transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar, Final

from kvtui.stores.operations import prefix
from kvtui.stores.store import ADD, SCAN, Settings, Store, StoreInfo
from kvtui.stores.wiredtiger import library
from kvtui.stores.wiredtiger.connection import (
    TRIES,
    VALUES,
    Connection,
    Hands,
    not_open,
)

_WIPE_BATCH: Final = 10_000


class WiredTigerStore(Store):
    """One WiredTiger connection, shared by the threads of one process.

    Settings: ``directory`` (required), ``cache_mb`` (192) or ``memory``, ``layout``
    (``btree`` or ``lsm``), ``compression`` (``snappy`` where the build has it, else
    ``none``), ``page_kb`` (WiredTiger's own), ``log`` (``written``: what was
    acknowledged is with the operating system; ``buffered``, ``none``), ``sync``
    (False; True flushes each commit to the disk).
    """

    kind: ClassVar[str] = "wiredtiger"
    shared_by_threads: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._at = Connection(settings)

    @property
    def retries(self) -> int:
        """After another transaction's change of the same row."""
        return self._at.conflicts

    def open(self) -> None:
        """Open, creating the directory. Refuses a second handle in this process."""
        self._at.open()

    def close(self) -> None:
        """Close, once what goes on in other threads has ended."""
        self._at.close()

    def get(self, key: bytes) -> bytes | None:
        """The value under ``key``; None is a miss."""
        hands = self._at.mine()
        hands.busy = True
        try:
            if hands.closed:
                raise not_open()
            cursor = hands.values
            cursor.set_key(b"v" + key)
            if cursor.search():
                return None
            value: bytes = cursor.get_value()
            cursor.reset()  # lets go of the page
            return value
        except self._at.error as error:
            raise self._at.failed(error) from error
        finally:
            hands.busy = False

    def put(self, key: bytes, value: bytes) -> None:
        """A blind write."""
        hands = self._at.mine()
        hands.busy = True
        try:
            if hands.closed:
                raise not_open()
            cursor = hands.values
            for _ in range(TRIES):
                try:
                    cursor.set_key(b"v" + key)
                    cursor.set_value(value)
                    cursor.insert()
                    return
                except self._at.conflict:
                    self._at.count_conflict()
        except self._at.error as error:
            raise self._at.failed(error) from error
        finally:
            hands.busy = False
        raise self._at.given_up()

    def delete(self, key: bytes) -> bool:
        """Remove value and counters."""

        def remove(hands: Hands) -> bool:
            hands.values.set_key(b"v" + key)
            there: bool = hands.values.search() == 0
            if there:
                hands.values.remove()
            for _ in _under(hands.counters, _counter_prefix(key)):
                there = True
                hands.counters.remove()
            return there

        return self._at.transaction(remove)

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """Read and write all the named counters, in one transaction."""
        start = _counter_prefix(key)

        def change(hands: Hands) -> None:
            cursor = hands.counters
            for name, amount in counts:
                cursor.set_key(start + name)
                old = int(cursor.get_value()) if cursor.search() == 0 else 0
                cursor.set_value(b"%d" % (old + amount))
                cursor.insert()

        self._at.transaction(change)

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """One scan over the record's counters."""
        start = _counter_prefix(key)

        def read(hands: Hands) -> dict[bytes, int]:
            cursor = hands.counters
            return {
                name[len(start) :]: int(cursor.get_value())
                for name in _under(cursor, start)
            }

        return self._at.transaction(read) or None

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Pairs in key order, all of one moment."""

        def read(hands: Hands) -> list[tuple[bytes, bytes]]:
            cursor = hands.values
            names = islice(_under(cursor, b"v", b"v" + key), count)
            return [(name[1:], cursor.get_value()) for name in names]

        return self._at.transaction(read)

    def info(self) -> StoreInfo:
        """Read from the library and from the table's own description."""
        at = self._at
        table = at.transaction(lambda hands: library.facts_of(hands.session, VALUES))
        assert table is not None
        _, major, minor, patch = at.module.wiredtiger_version()
        build = "diagnostic" if library.is_diagnostic(at.module) else "release"
        return StoreInfo(
            f"{major}.{minor}.{patch}"
            + (" (diagnostic build: slow)" if build == "diagnostic" else ""),
            f"embedded, {at.directory.name}",
            library.DURABILITY[at.commit],
            "calls",
            memory_limit=f"cache {at.cache_bytes / 1e6:,.6g} MB"
            + (f" ({at.less})" if at.less else ""),
            compression=table.compression,
            details={
                "build": build,
                "layout": table.layout,
                "checkpoints": library.CHECKPOINT_WORDS,
            },
        )

    def count(self, namespace: str) -> int:
        """How many records kvtui has: values, and records made of counters."""
        start = prefix(namespace)

        def number(hands: Hands) -> int:
            values = sum(1 for _ in _under(hands.values, b"v" + start))
            both = 0
            counted = 0
            for record in _records(hands.counters, start):
                counted += 1
                hands.values.set_key(b"v" + record)
                both += hands.values.search() == 0
            return values + counted - both

        return self._at.transaction(number)

    def wipe(self, namespace: str) -> int:
        """Remove kvtui's keys under ``namespace``."""
        removed, start = self.count(namespace), prefix(namespace)

        def some(hands: Hands) -> bool:
            """A batch; whether there may be more."""
            left = _WIPE_BATCH
            for _ in islice(_under(hands.values, b"v" + start), left):
                hands.values.remove()
                left -= 1
            for record in list(islice(_records(hands.counters, start), left)):
                for _ in islice(_under(hands.counters, _counter_prefix(record)), left):
                    hands.counters.remove()
                    left -= 1
            return left == 0

        while self._at.transaction(some):
            pass
        return removed


def _counter_prefix(key: bytes) -> bytes:
    return struct.pack(">I", len(key)) + key


def _seek(cursor: Any, start: bytes) -> bool:
    """Go to the first row at or after ``start``; False where there is none."""
    cursor.set_key(start)
    near = cursor.search_near()  # -1, 0 or 1, or a negative number: an empty table
    return bool(near >= 0 or (near == -1 and cursor.next() == 0))


def _under(cursor: Any, start: bytes, first: bytes | None = None) -> Iterator[bytes]:
    """The keys that begin with ``start``, from ``first`` on; the cursor stands on
    each in turn."""
    there = _seek(cursor, start if first is None else first)
    while there:
        key: bytes = cursor.get_key()
        if not key.startswith(start):
            return
        yield key
        there = cursor.next() == 0


def _records(cursor: Any, start: bytes) -> Iterator[bytes]:
    """The keys of all records made of counters that begin with ``start``, without
    going through each record's counters."""
    at = _counter_prefix(b"")
    while _seek(cursor, at):
        row: bytes = cursor.get_key()
        (length,) = struct.unpack(">I", row[:4])
        record = row[4 : 4 + length]
        if record.startswith(start):
            yield record
            at = _after(row[: 4 + length])
        elif length >= len(start) and record < start:
            at = row[:4] + start
        else:
            at = struct.pack(">I", length + 1)


def _after(start: bytes) -> bytes:
    """The first key behind all that begin with ``start``."""
    kept = start.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1])
