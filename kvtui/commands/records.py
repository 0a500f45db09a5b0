"""``kvtui records``: every count that a store ended up with, as lines or digests."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import click
import msgspec

from kvtui.commands import console
from kvtui.commands.copies import entries, fans_of, find_copy, open_copy
from kvtui.commands.options import file_to_write
from kvtui.errors import DataError, UsageError
from kvtui.jobs.fans.archive import Archive

_ESCAPES: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_BLOCK: Final = 1 << 16


class Digests(msgspec.Struct):
    """What all lines together are."""

    items: int = 0
    fans: int = 0
    items_sha256: str = ""
    pairs: int = 0
    pair_counts: int = 0
    pairs_sha256: str = ""


@click.command()
@click.option("--store", metavar="NAME", help="The store whose copy is read.")
@click.option("--run", "run_name", metavar="RUN", help="The run whose copy is read.")
@click.option("--items", metavar="FILE", help="Write a line for each page here.")
@click.option("--pairs", metavar="FILE", help="Write a line for each pair here.")
@click.option("--json", "as_json", is_flag=True, help="Print the digests as JSON.")
def records(
    store: str | None,
    run_name: str | None,
    items: str | None,
    pairs: str | None,
    as_json: bool,
) -> int:
    """Write all counts that a store ended up with, or print their digests.

    A line of --items is ITEM, tab, FANS. A line of --pairs is A, tab, B, tab,
    COUNT; each pair once, the lower id first. Ids stand in order: by number where
    all are whole numbers, else by their bytes. UTF-8, lines end with LF; a
    backslash, tab, LF or CR inside an id is written \\\\, \\t, \\n or \\r. - is
    standard output.

    Without files the numbers of lines and their SHA-256 are printed: two stores
    with equal digests hold equal records.

    \b
    kvtui records --store redis-unix
    kvtui records --items items.tsv --pairs - | sort -t "$(printf '\\t')" -nrk3 | head
    """
    if items == pairs == "-":
        raise UsageError("--items and --pairs cannot both be standard output")
    if items is not None and pairs is not None and _same_file(items, pairs):
        raise UsageError(f"--items and --pairs both name {items}")
    if as_json and "-" in (items, pairs):
        raise UsageError("--json and a list cannot both be on standard output")
    archive = open_copy(find_copy(run_name, store))
    try:
        digests = write(archive, items, pairs)
    finally:
        archive.close()
    if as_json:
        console.out_json(msgspec.json.format(msgspec.json.encode(digests), indent=1))
    elif items is None and pairs is None:
        console.out(f"items   {digests.items:>12,}  sha256 {digests.items_sha256}")
        console.out(f"pairs   {digests.pairs:>12,}  sha256 {digests.pairs_sha256}")
    else:
        console.say(f"kvtui: {digests.items:,} items, {digests.pairs:,} pairs")
    return 0


def _same_file(one: str, other: str) -> bool:
    return file_to_write(one) == file_to_write(other)


def write(archive: Archive, items: str | None, pairs: str | None) -> Digests:
    """Write both lists; their digests. Memory: the ids, and one record at a time."""
    digests = Digests()
    order: dict[str, int] = {}
    with _lines_to(items) as lines:
        for page, raw in archive.raw_records():
            order[page] = len(order)
            fans = fans_of(raw)
            digests.items += 1
            digests.fans += fans
            lines.write(f"{escaped(page)}\t{fans}\n".encode())
        digests.items_sha256 = lines.digest()
    one_sided = 0
    both = 0
    with _lines_to(pairs) as lines:
        for page, raw in archive.raw_records():
            mine = order[page]
            first = escaped(page)
            after: list[tuple[int, str, int]] = []
            for other, count in entries(raw):
                both += count
                place = order.get(other)
                if place is None:
                    one_sided += 1
                elif place > mine:
                    after.append((place, other, count))
            after.sort()
            for _, other, count in after:
                digests.pairs += 1
                digests.pair_counts += count
                lines.write(f"{first}\t{escaped(other)}\t{count}\n".encode())
        digests.pairs_sha256 = lines.digest()
    if one_sided or both != 2 * digests.pair_counts:
        console.complain(
            "the records do not agree with each other: a pair's two counts differ",
            "the store did not keep them whole; pairs are as the lower id has them",
        )
    return digests


def escaped(page: str) -> str:
    """An id that takes one field of one line."""
    if page.isprintable() and "\\" not in page:
        return page
    return "".join(_ESCAPES.get(character, character) for character in page)


class _Lines:
    """Lines on their way to a file, and their digest."""

    def __init__(self, file: IO[bytes] | None) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._waiting: list[bytes] = []
        self._size = 0

    def write(self, line: bytes) -> None:
        self._waiting.append(line)
        self._size += len(line)
        if self._size >= _BLOCK:
            self.flush()

    def flush(self) -> None:
        block = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        self._digest.update(block)
        if self._file is not None:
            self._file.write(block)

    def digest(self) -> str:
        self.flush()
        return self._digest.hexdigest()


@contextlib.contextmanager
def _lines_to(path: str | None) -> Iterator[_Lines]:
    """Lines to a file that appears when it is whole, to standard output or nowhere."""
    if path is None:
        yield _Lines(None)
        return
    if path == "-":
        sys.stdout.flush()
        yield _Lines(getattr(sys.stdout, "buffer", None))
        return
    target = file_to_write(path)
    if target.exists() and not target.is_file():
        # A pipe or /dev/null: there is nothing to put a name on.
        with target.open("wb") as file:
            yield _Lines(file)
        return
    partial = ""
    try:
        number, partial = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(number, "wb") as file:
            yield _Lines(file)
        Path(partial).chmod(0o666 & ~_umask())
        os.replace(partial, target)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}"
        ) from error
    finally:
        if partial:
            Path(partial).unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
