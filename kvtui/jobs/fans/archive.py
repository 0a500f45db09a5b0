"""The copy of a trial's records that stays when the store is gone.

One SQLite file a trial, ``records-<trial>.sqlite``: every record byte for byte as
the store held it, with what the screens need to find it. Written once by the
runner, then only read.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from kvtui.errors import SnapshotError
from kvtui.jobs.workload import Keeper

if TYPE_CHECKING:
    from kvtui.jobs.fans.dataset import Dataset

_SCHEMA: Final = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pages (
    number INTEGER PRIMARY KEY,
    page TEXT NOT NULL,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    fans INTEGER NOT NULL
);
CREATE TABLE records (number INTEGER PRIMARY KEY, record BLOB NOT NULL);
"""
_INDEXES: Final = """
CREATE UNIQUE INDEX pages_page ON pages (page);
CREATE INDEX pages_fans ON pages (fans DESC, page);
"""
_BATCH: Final = 2000


class PageRow(NamedTuple):
    """A page as a list shows it."""

    page: str
    name: str
    fans: int


class CoPage(NamedTuple):
    """A page that shares fans with another."""

    page: str
    name: str
    fans: int
    shared: int


class FanRecord(NamedTuple):
    """A page's record, resolved."""

    page: str
    name: str
    fans: int
    others: list[CoPage]
    """By shared fans, most first, then by page."""
    raw: bytes
    """As the store held it."""


def folded(text: str) -> str:
    """Text as it is searched: composed alike, without case."""
    return unicodedata.normalize("NFKC", text).casefold()


class ArchiveWriter(Keeper):
    """Writes the copy; the file appears under its name only when whole."""

    def __init__(self, path: Path, facts: dict[str, str], dataset: Dataset) -> None:
        self._path = path
        self._dataset = dataset
        self._partial = path.with_name(f"{path.name}.partial")
        self._waiting: list[tuple[int, bytes]] = []
        self._partial.unlink(missing_ok=True)
        self._database = self._created(facts)

    def _created(self, facts: dict[str, str]) -> sqlite3.Connection:
        with self._writing():
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
            os.close(os.open(self._partial, flags, 0o600))
            database = sqlite3.connect(self._partial, isolation_level=None)
            # A copy that a crash cut off is made anew, so it needs no journal.
            database.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SCHEMA
            )
            database.execute("BEGIN")
            database.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
            return database

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise SnapshotError(
                f"the copy of the records cannot be written: {error}",
                hint="is the disk full? the store's own records are not touched",
            ) from error

    def keep(self, number: int, record: bytes) -> None:
        """Take one record, byte for byte."""
        self._waiting.append((number, record))
        if len(self._waiting) >= _BATCH:
            self._write()

    def _write(self) -> None:
        rows = []
        for number, record in self._waiting:
            page = self._dataset.page(number).decode()
            name = self._dataset.name(number)
            rows.append((number, page, name, folded(f"{name}\n{page}"), _fans(record)))
        with self._writing():
            self._database.executemany("INSERT INTO pages VALUES (?, ?, ?, ?, ?)", rows)
            self._database.executemany(
                "INSERT INTO records VALUES (?, ?)", self._waiting
            )
        self._waiting = []

    def close(self) -> None:
        """Finish the file and give it its name."""
        self._write()
        with self._writing():
            self._database.execute("COMMIT")
            self._database.executescript(_INDEXES)
            self._database.close()
            self._partial.replace(self._path)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._database.close()
        self._partial.unlink(missing_ok=True)


def _fans(record: bytes) -> int:
    try:
        fans = orjson.loads(record)["fans"]
    except (ValueError, KeyError, TypeError):
        return 0
    return fans if isinstance(fans, int) else 0


class Archive:
    """Reads the copy of a trial's records."""

    def __init__(self, path: Path) -> None:
        """Open it; SnapshotError when it is missing or not such a file."""
        if not path.is_file():
            raise SnapshotError(f"there is no copy of the records at {path}")
        self.path = path
        # A reader may be handed from thread to thread, one at a time.
        self._database = sqlite3.connect(
            f"file:{_quoted(path)}?mode=ro&immutable=1",
            uri=True,
            check_same_thread=False,
        )
        try:
            self._facts = dict(self._database.execute("SELECT name, value FROM facts"))
        except sqlite3.DatabaseError as error:
            self._database.close()
            raise SnapshotError(f"{path} is not a copy of records: {error}") from None

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def facts(self) -> dict[str, str]:
        """What the copy is of: run, store, trial, profiles, pages, mode, source."""
        return dict(self._facts)

    @property
    def profiles(self) -> int:
        """How many people were counted."""
        return int(self._facts.get("profiles", "0"))

    def __len__(self) -> int:
        (number,) = self._database.execute("SELECT count(*) FROM pages").fetchone()
        return int(number)

    def search(self, text: str, limit: int = 300) -> tuple[int, list[PageRow]]:
        """How many pages have ``text`` in name or id, and the first by fans."""
        if not text:
            rows = self._database.execute(
                "SELECT page, name, fans FROM pages ORDER BY fans DESC, page LIMIT ?",
                (limit,),
            )
            return len(self), [PageRow(*row) for row in rows]
        wanted = folded(text)
        (number,) = self._database.execute(
            "SELECT count(*) FROM pages WHERE instr(folded, ?)", (wanted,)
        ).fetchone()
        rows = self._database.execute(
            "SELECT page, name, fans FROM pages WHERE instr(folded, ?)"
            " ORDER BY fans DESC, page LIMIT ?",
            (wanted, limit),
        )
        return int(number), [PageRow(*row) for row in rows]

    def record(self, page: str) -> FanRecord | None:
        """The record of the page with exactly that id."""
        row = self._database.execute(
            "SELECT pages.name, records.record FROM pages JOIN records"
            " USING (number) WHERE page = ?",
            (page,),
        ).fetchone()
        if row is None:
            return None
        name, raw = row
        try:
            record = orjson.loads(raw)
            shared = {str(k): int(v) for k, v in record["pages"].items()}
            fans = int(record["fans"])
        except (ValueError, KeyError, TypeError, AttributeError):
            return FanRecord(page, name, 0, [], raw)
        rows = self._rows(list(shared))
        others = [
            CoPage(
                other,
                rows[other].name if other in rows else "",
                rows[other].fans if other in rows else 0,
                count,
            )
            for other, count in shared.items()
        ]
        others.sort(key=lambda other: (-other.shared, other.page))
        return FanRecord(page, name, fans, others, raw)

    def _rows(self, pages: Sequence[str]) -> dict[str, PageRow]:
        found: dict[str, PageRow] = {}
        for start in range(0, len(pages), 500):
            part = pages[start : start + 500]
            marks = ",".join("?" * len(part))
            for row in self._database.execute(
                f"SELECT page, name, fans FROM pages WHERE page IN ({marks})", part
            ):
                found[row[0]] = PageRow(*row)
        return found

    def named(self, text: str, limit: int = 20) -> list[PageRow]:
        """Pages whose id or readable name is exactly ``text``, most fans first."""
        rows = self._database.execute(
            "SELECT page, name, fans FROM pages WHERE page = ? OR name = ?"
            " ORDER BY page <> ?, fans DESC, page LIMIT ?",
            (text, text, text, limit),
        )
        return [PageRow(*row) for row in rows]

    def lookalikes(self, page: str) -> list[PageRow]:
        """Other pages that look the same: equal when composed and without case."""
        wanted = folded(page)
        rows = self._database.execute(
            "SELECT page, name, fans FROM pages WHERE instr(folded, ?)"
            " AND page <> ? ORDER BY fans DESC, page LIMIT 500",
            (wanted, page),
        )
        return [
            row
            for row in map(PageRow._make, rows)
            if wanted in (folded(row.page), folded(row.name))
        ]

    def raw_records(self) -> Iterator[tuple[str, bytes]]:
        """Every ``(page id, record)``, in the order of :func:`sort_key`."""
        pages: Iterable[tuple[str, int]] = self._database.execute(
            "SELECT page, number FROM pages"
        ).fetchall()
        numeric = all(_is_number(page) for page, _ in pages)
        for page, number in sorted(pages, key=lambda row: sort_key(row[0], numeric)):
            (record,) = self._database.execute(
                "SELECT record FROM records WHERE number = ?", (number,)
            ).fetchone()
            yield page, record


def sort_key(page: str, numeric: bool) -> tuple[int, bytes]:
    """Where a page stands in a list: by number where all ids are decimal numbers,
    else by its UTF-8 bytes."""
    return (int(page), b"") if numeric else (0, page.encode())


def _is_number(page: str) -> bool:
    return page.isascii() and page.isdigit() and len(page) <= 18


def _quoted(path: Path) -> str:
    from urllib.parse import quote

    return quote(str(path.absolute()))
