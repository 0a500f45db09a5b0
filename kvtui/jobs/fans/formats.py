"""One reader for each format: numbered lines in, profiles or runs of rows out.

``tabs``         one profile a line, page ids with tabs between them. No quoting:
                 a quote mark is a letter. A blank line is a profile without a
                 page; an empty field (two tabs, a tab at the end) is no page.
``jsonl``        one profile a line: ``{"pages": [...]}`` or just the list. Ids
                 are strings; a whole number counts as its digits. A blank line,
                 a missing or null ``pages`` is a profile without a page. Where a
                 key occurs twice the last one counts (RFC 8259 leaves it open).
``pairs-csv``    a person and a page a row, further columns ignored; also with
``pairs-tsv``    tabs or ``::`` in between. A person's rows may be anywhere in the
``pairs-colons`` file. A row with more fields than the file's rows usually have
                 is bad: most likely a delimiter inside a name.
``lists-csv``    a row holds a person and then that person's pages; also with
``lists-colons`` ``::`` in between. Every unquoted delimiter divides.
``dst``          ``A`` lines name pages, a ``C`` line begins a person, the ``V``
                 lines after it are that person's pages; as in the UCI data set
                 "Anonymous Microsoft Web Data".

An empty page id is never a page: outside ``tabs`` it makes the line a bad one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import orjson

from kvtui.jobs.fans.delimited import Bad, Numbered, rows
from kvtui.jobs.fans.grouping import Run

FORMATS: dict[str, str] = {
    "tabs": "one profile a line, tab-separated",
    "jsonl": "JSON Lines, one profile a line",
    "pairs-csv": "a person and a page a row, CSV",
    "pairs-tsv": "a person and a page a row, tab-separated",
    "pairs-colons": "a person and a page a row, :: in between",
    "lists-csv": "a person and that person's pages a row, CSV",
    "lists-colons": "a person and that person's pages a row, :: in between",
    "dst": "DST: A lines name pages, C begins a person, V is a page",
}
"""The key of each format, and what to call it for people."""

DELIMITERS = {"csv": ",", "tsv": "\t", "colons": "::"}


class Layout(NamedTuple):
    """How to read a file. The column numbers, from 0, are for rows only."""

    key: str
    person: int = 0
    page: int = 1
    width: int = 0
    """Fields in a usual row; 0 when rows may differ."""
    header: bool = False

    @property
    def delimiter(self) -> str:
        return DELIMITERS[self.key.rpartition("-")[2]]


def tab_profiles(numbered: Numbered) -> Iterator[list[str]]:
    """Format ``tabs``: the distinct page ids of each line."""
    for _, text in numbered:
        pages = dict.fromkeys(text.split("\t"))
        pages.pop("", None)
        yield list(pages)


def json_profiles(numbered: Numbered, bad: Bad) -> Iterator[list[str]]:
    """Format ``jsonl``: the distinct page ids of each line.

    Hostile lines (endless numbers, deep nesting, NaN, half a surrogate pair)
    are bad lines like any other text that is no JSON.
    """
    for number, text in numbered:
        if not text.strip():
            yield []
            continue
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            bad(number, f"not JSON: {error.msg}")
            continue
        pages = value.get("pages") if isinstance(value, dict) else value
        if pages is None and isinstance(value, dict):
            pages = []
        if not isinstance(pages, list):
            bad(number, "neither a list of pages nor an object with one in `pages`")
            continue
        ids: dict[str, None] = {}
        for page in pages:
            if type(page) is int:  # bool is an int, but no id
                page = str(page)
            if not isinstance(page, str) or not page:
                bad(number, "a page id is not a string, or empty")
                break
            ids[page] = None
        else:
            yield list(ids)


def row_runs(numbered: Numbered, layout: Layout, bad: Bad) -> Iterator[Run]:
    """Formats ``pairs-…`` and ``lists-…``: runs of neighbouring rows."""
    many = layout.key.startswith("lists-")
    least = 1 if many else max(layout.person, layout.page) + 1
    most = layout.width or None
    divided = rows(numbered, layout.delimiter, bad)
    if layout.header:
        next(divided, None)
    person, run = "", list[str]()
    for number, fields in divided:
        if len(fields) < least or (most and len(fields) > most):
            usual = f"{most} are" if most else f"at least {least} is"
            plural = "s" if len(fields) != 1 else ""
            bad(number, f"{len(fields)} field{plural} where {usual} usual")
            continue
        pages = fields[1:] if many else [fields[layout.page]]
        if not fields[layout.person] or "" in pages:
            bad(number, "an empty field where an id belongs")
            continue
        if fields[layout.person] != person:
            if person:
                yield person, run
            person, run = fields[layout.person], []
        run += pages
        if len(run) >= 10_000:  # one endless run stays out of RAM
            yield person, run
            run = []
    if person:
        yield person, run


def dst_runs(numbered: Numbered, bad: Bad, names: dict[str, str]) -> Iterator[Run]:
    """Format ``dst``: runs as above; fills ``names`` from the A lines."""
    person: str | None = None
    run: list[str] = []
    for number, fields in rows(numbered, ",", bad):
        kind, more = fields[0], fields[1:]
        if kind == "V" and more and more[0]:
            if person is None:
                bad(number, "a V line before the first C line")
            else:
                run.append(more[0])
        elif kind == "C" and more and more[0]:
            if person is not None:
                yield person, run
            person, run = more[0], []
        elif kind == "A" and len(more) >= 3 and more[0]:
            names.setdefault(more[0], more[2])
        elif kind not in ("I", "N", "T"):
            bad(number, "not a line of the DST format")
    if person is not None:
        yield person, run
