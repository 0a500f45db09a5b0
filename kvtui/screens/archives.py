"""Reading the copies of records in one thread beside the screen."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeVar

from kvtui.errors import SnapshotError
from kvtui.jobs.fans.archive import Archive, FanRecord, PageRow

T = TypeVar("T")

LIMIT = 300
"""How many matches are listed."""


class Matches(NamedTuple):
    """What a filter found."""

    text: str
    total: int
    rows: list[PageRow]
    pages: int
    """How many there are in all."""
    lookalikes: Sequence[PageRow] = ()
    """Where no page is called exactly so: those that look as if they were."""


class Opened(NamedTuple):
    """A page's record as one store's copy holds it."""

    record: FanRecord | None
    profiles: int
    lookalikes: Sequence[PageRow] = ()
    """Pages that are called the same to the eye, and are others."""


class Archives:
    """Answers one question after the other; one that was given up is skipped."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")
        self._archive: Archive | None = None

    async def search(self, path: Path, text: str) -> Matches:
        """Pages with ``text`` in their name or id."""
        return await self._ask(path, lambda archive: _search(archive, text))

    async def open(self, path: Path, page: str) -> Opened:
        """The record of one page."""
        return await self._ask(path, lambda archive: _open(archive, page))

    async def lookalikes(self, path: Path, *texts: str) -> list[PageRow]:
        """Pages that look as if they were called so, and are others.

        Every page is looked at, so this is asked after the page itself was shown.
        """
        return await self._ask(path, lambda archive: _lookalikes(archive, texts))

    def close(self) -> None:
        """No more questions; the file is closed by the thread that reads it."""
        self._thread.submit(self._let_go)
        self._thread.shutdown(wait=False)

    def _let_go(self) -> None:
        if self._archive is not None:
            self._archive.close()
            self._archive = None

    async def _ask(self, path: Path, question: Callable[[Archive], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._answer, path, question)

    def _answer(self, path: Path, question: Callable[[Archive], T]) -> T:
        try:
            if self._archive is None or self._archive.path != path:
                self._let_go()
                self._archive = Archive(path)
            return question(self._archive)
        except (sqlite3.Error, OSError, ValueError) as error:
            raise SnapshotError(f"{path} cannot be read: {error}") from error


def _search(archive: Archive, text: str) -> Matches:
    total, rows = archive.search(text, LIMIT)
    return Matches(text, total, rows, len(archive))


def _open(archive: Archive, page: str) -> Opened:
    return Opened(archive.record(page), archive.profiles)


def _lookalikes(archive: Archive, texts: tuple[str, ...]) -> list[PageRow]:
    found: dict[str, PageRow] = {}
    for text in dict.fromkeys(texts):
        for row in archive.lookalikes(text) if text else ():
            # What differs in case only is no trap: one sees it.
            if text.casefold() not in (row.page.casefold(), row.name.casefold()):
                found[row.page] = row
    return list(found.values())
