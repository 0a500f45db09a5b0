"""LevelDB in the worker process, through plyvel.

Values stand under ``v<key>``. ``add`` uses what LevelDB is good at: many small
keys and an atomic write batch, instead of rewriting a whole record. One counter
stands under ``c<key length><key><name>`` as decimal text, so that the counters of
a record lie side by side and one short scan reads them.
"""

from __future__ import annotations

import importlib.metadata
import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import plyvel

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import folders, open_paths
from kvtui.stores.memory import shared_out
from kvtui.stores.operations import prefix
from kvtui.stores.store import ADD, SCAN, Settings, Store, StoreInfo

_STRIPES = 64
_WIPE_BATCH = 10_000
_NO_SPACE = "No space left"
LARGEST_WRITE_BUFFER_BYTES = 1 << 30
"""LevelDB takes 1 GiB of a larger one (SanitizeOptions in its db_impl.cc)."""


class LevelDbStore(Store):
    """One LevelDB, shared by the threads of one process.

    Settings: ``directory`` (required), ``write_buffer_mb`` (64), ``cache_mb``
    (128), ``memory`` (what both may take together), ``sync`` (False: writes reach
    the OS cache, not the disk), ``compression`` (``snappy`` or ``none``).
    """

    kind: ClassVar[str] = "leveldb"
    shared_by_threads: ClassVar[bool] = True
    capabilities: ClassVar[frozenset[str]] = frozenset({ADD, SCAN})

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.directory = Path(str(settings["directory"]))
        self._sync = bool(settings.get("sync", False))
        self._compression = str(settings.get("compression", "snappy"))
        self._sizes, self._less = shared_out(
            settings, {"write_buffer_mb": 64, "cache_mb": 128}
        )
        more = self._sizes["write_buffer_mb"] - LARGEST_WRITE_BUFFER_BYTES
        if more > 0:
            self._sizes["write_buffer_mb"] -= more
            if "memory" in settings:
                self._sizes["cache_mb"] += more
        self._database: Any = None
        self._parents: Any = None
        self._get: Callable[..., Any] = self._refuse
        self._put: Callable[..., Any] = self._refuse
        """plyvel's own while it is open: looked up once instead of at each call."""
        self._real_path = ""
        self._adding = tuple(Lock() for _ in range(_STRIPES))

    def open(self) -> None:
        """Open, creating the directory. Refuses a second handle in this process.

        LevelDB itself refuses too, but its refusal lets go of the first handle's
        lock, and another process could then write at the same time.
        """
        if self._compression not in ("snappy", "none"):
            raise StoreUnavailable(
                f"leveldb: compression must be snappy or none, not {self._compression}"
            )
        folders.check(self.kind, self.directory, _holds_one)
        real_path = open_paths.claim(self.kind, self.directory, self._forked)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._database = plyvel.DB(
                str(self.directory),
                create_if_missing=True,
                write_buffer_size=self._sizes["write_buffer_mb"],
                lru_cache_size=self._sizes["cache_mb"],
                compression=self._compression if self._compression != "none" else None,
            )
        except (plyvel.Error, OSError, ValueError) as error:
            open_paths.release(real_path)
            raise _unavailable(self.directory, error) from error
        self._real_path, self._parents = real_path, None
        self._get = self._database.get
        put = self._database.put
        self._put = partial(put, sync=True) if self._sync else put

    def _forked(self) -> None:
        """In a child: the handle is the parent's. It is kept, as letting go of it
        would close the parent's files."""
        self._parents, self._database = self._database, None
        self._get = self._put = self._refuse

    def close(self) -> None:
        """Close the handle."""
        if self._database is not None:
            self._database.close()
            open_paths.release(self._real_path)
        self._database = None
        self._get = self._put = self._refuse

    def _ours(self) -> Any:
        if self._database is None:
            raise self._unusable()
        return self._database

    def _refuse(self, *_: bytes) -> None:
        raise self._unusable()

    def _unusable(self) -> OperationFailed:
        if self._parents is None:
            return OperationFailed("disconnected", "leveldb is not open", broken=True)
        # Both processes would write, and one's writes would be lost in silence.
        return OperationFailed(
            "unsupported", "leveldb was opened by another process", broken=True
        )

    def get(self, key: bytes) -> bytes | None:
        """The value under ``key``; None is a miss."""
        try:
            value: bytes | None = self._get(b"v" + key)
        except plyvel.Error as error:
            raise _failed(error) from error
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """A blind write."""
        try:
            self._put(b"v" + key, value)
        except plyvel.Error as error:
            raise _failed(error) from error

    def delete(self, key: bytes) -> bool:
        """Remove value and counters."""
        database = self._ours()
        try:
            there = database.get(b"v" + key) is not None
            with database.write_batch(transaction=True, sync=self._sync) as batch:
                batch.delete(b"v" + key)
                for name in database.iterator(
                    prefix=_counter_prefix(key), include_value=False
                ):
                    there = True
                    batch.delete(name)
        except plyvel.Error as error:
            raise _failed(error) from error
        return there

    def add(self, key: bytes, counts: tuple[tuple[bytes, int], ...]) -> None:
        """Read the named counters, write them all in one batch."""
        database, start = self._ours(), _counter_prefix(key)
        try:
            with self._adding[hash(key) % _STRIPES]:
                batch = database.write_batch(sync=self._sync)
                changed: dict[bytes, int] = {}  # a name may come more than once
                for name, amount in counts:
                    full = start + name
                    old = changed.get(full)
                    if old is None:
                        old = int(database.get(full, b"0"))
                    new = changed[full] = old + amount
                    batch.put(full, b"%d" % new)
                batch.write()
        except plyvel.Error as error:
            raise _failed(error) from error

    def counts(self, key: bytes) -> dict[bytes, int] | None:
        """One scan over the record's counters."""
        start = _counter_prefix(key)
        try:
            found = {
                name[len(start) :]: int(value)
                for name, value in self._ours().iterator(prefix=start)
            }
        except plyvel.Error as error:
            raise _failed(error) from error
        return found or None

    def scan(self, key: bytes, count: int) -> list[tuple[bytes, bytes]]:
        """Pairs in key order."""
        try:
            found: list[tuple[bytes, bytes]] = []
            for name, value in self._ours().iterator(start=b"v" + key, stop=b"w"):
                if len(found) >= count:
                    break
                found.append((name[1:], value))
        except plyvel.Error as error:
            raise _failed(error) from error
        return found

    def info(self) -> StoreInfo:
        """Settings in force; plyvel's wheels bring LevelDB 1.23 (its changelog)."""
        return StoreInfo(
            f"plyvel {importlib.metadata.version('plyvel')}",
            f"embedded, {self.directory.name}",
            "fsync at each write" if self._sync else "OS cache (sync off)",
            "calls",
            memory_limit=(
                f"write buffer {self._sizes['write_buffer_mb'] / 1e6:,.6g} MB,"
                f" cache {self._sizes['cache_mb'] / 1e6:,.6g} MB"
                + (f" ({self._less})" if self._less else "")
            ),
            compression=self._compression,
        )

    def _keys(self, namespace: str) -> Any:
        start = prefix(namespace)
        database = self._ours()
        yield from database.iterator(prefix=b"v" + start, include_value=False)
        for name in database.iterator(prefix=b"c", include_value=False):
            if name[5:].startswith(start):
                yield name

    def count(self, namespace: str) -> int:
        """How many records kvtui has: values, and records made of counters."""
        records: set[bytes] = set()
        for name in self._keys(namespace):
            if name[:1] == b"v":
                records.add(name[1:])
            else:
                (length,) = struct.unpack(">I", name[1:5])
                records.add(name[5 : 5 + length])
        return len(records)

    def wipe(self, namespace: str) -> int:
        """Remove kvtui's keys under ``namespace``."""
        removed = self.count(namespace)
        names: list[bytes] = []
        for name in self._keys(namespace):
            names.append(name)
            if len(names) >= _WIPE_BATCH:
                self._remove(names)
                names = []
        self._remove(names)
        return removed

    def _remove(self, names: list[bytes]) -> None:
        with self._ours().write_batch() as batch:
            for name in names:
                batch.delete(name)


def _counter_prefix(key: bytes) -> bytes:
    return b"c" + struct.pack(">I", len(key)) + key


def _words(error: Exception) -> str:
    """plyvel gives LevelDB's own text as bytes."""
    first = error.args[0] if error.args else ""
    return first.decode("utf-8", "replace") if isinstance(first, bytes) else str(error)


def _holds_one(directory: Path) -> bool:
    """Whether there is a LevelDB: its CURRENT names the manifest that is valid."""
    try:
        named = (directory / "CURRENT").read_bytes()
        manifest = re.fullmatch(rb"(MANIFEST-[0-9]+)\n", named)
        return manifest is not None and (directory / manifest[1].decode()).is_file()
    except OSError:
        return False


def _unavailable(directory: Path, error: Exception) -> StoreUnavailable:
    said = _words(error)
    hint = "is the folder yours to write in?"
    if _NO_SPACE in said:
        hint = folders.FREE_SOME_SPACE
    elif "lock" in said:
        hint = "another process may have it open: end that, or name another folder"
    elif "Corruption" in said:
        hint = "what is there is damaged: name another folder"
    return StoreUnavailable(f"leveldb: {directory} cannot be opened: {said}", hint=hint)


def _failed(error: Exception) -> OperationFailed:
    text = f"leveldb: {_words(error)}"
    if _NO_SPACE in text:
        return OperationFailed(
            "no-space", text, hint=folders.FREE_SOME_SPACE, broken=True
        )
    return OperationFailed("server-error", text)
