"""Readable names of pages: from a names file, or made from the page's address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from kvtui.errors import DataError
from kvtui.jobs.fans.compressed import lines
from kvtui.jobs.fans.delimited import rows
from kvtui.jobs.fans.detect import PAGE_HEADS, header_names

_ID_HEADS = PAGE_HEADS | {"id"}
_NAME_HEADS = frozenset(
    ("title", "name", "page_name", "item_name", "book_title", "movie_title")
)


def read_names(path: Path | str, *, encoding: str = "utf-8") -> dict[str, str]:
    """Page id -> name, from a file of names; the first name of an id counts.

    Two columns divided by tabs (no quoting), ``::`` or commas (RFC 4180), or a
    table whose header has an id column (``id``, ``book_id``, ``url``, …) and a
    name column (``title``, ``name``, …), plain, gzip or zip. A line without both,
    or not in the encoding, is left out: names are only for reading. DataError
    when the file cannot be read or no line has a name.
    """
    path = Path(path)

    def numbered() -> Iterator[tuple[int, str]]:
        for number, line in enumerate(lines(path), 1):
            if line is not None:
                try:
                    yield number, line.decode(encoding)
                except UnicodeDecodeError:
                    continue

    head = next((text for _, text in numbered() if text.strip()), "")
    delimiter = next((mark for mark in ("\t", "::") if mark in head), ",")
    key, name = 0, 1
    names: dict[str, str] = {}
    for index, (_, fields) in enumerate(
        rows(numbered(), delimiter, lambda number, reason: None)
    ):
        if index == 0:
            columns = header_names(fields)
            keys = [n for n, column in enumerate(columns) if column in _ID_HEADS]
            titles = [n for n, column in enumerate(columns) if column in _NAME_HEADS]
            if keys and titles:
                key, name = keys[0], titles[0]
                continue
        if len(fields) > max(key, name) and fields[key] and fields[name]:
            names.setdefault(fields[key], fields[name])
    if not names:
        raise DataError(
            f"{path} holds no names",
            hint="A names file has a page id and a name on each line, "
            "with a tab in between.",
        )
    return names


def readable_name(page_id: str) -> str:
    """What a page's address says about its name; "" when it says nothing.

    The last part of the path that is more than a number, percent-decoded, with
    blanks for dashes and underscores: ``…/pages/Green-Bay-Packers/146`` is
    ``Green Bay Packers``. An id that is not an address has no such name.
    """
    scheme, found, rest = page_id.partition("://")
    if not found or not scheme.isalnum():
        return ""
    parts = [part for part in rest.split("?")[0].split("#")[0].split("/") if part]
    for part in reversed(parts[1:]):
        text = " ".join(unquote(part).replace("-", " ").replace("_", " ").split())
        if text and not text.isdecimal():
            return text
    return parts[0] if parts else ""
