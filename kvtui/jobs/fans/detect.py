"""Finds out from its first lines how a profile file is to be read.

The first rule that fits decides; ``formats`` describes the formats.

1. ``dst``: nine lines of ten begin with one of I, T, N, A, C, V and a comma, and
   one is a full A line (``A,1277,1,"title","/url"``) or C line
   (``C,"10001",10001``).
2. ``jsonl``: at least half of the lines begin like a JSON object or a JSON list.
3. A header line that names both a person's and a page's column (``user_id``,
   ``item``, …) makes pairs, with the delimiter that divides it.
4. Lines with tabs: ``tabs``. Without a header they are pairs only if there are at
   least ten, all of the same two to four fields, no two alike, if the first
   field always looks like a person's number (digits, ``user…``, a long hex
   digest) and comes back in other lines, and if with two fields the rows of one
   person also stand together. A profile file does not look like that by chance;
   where it does, name the format.
5. No tabs, nine lines of ten divided by ``::`` (or else by commas): rows of pairs
   if there are two fields in nearly every row, or more whose further ones are
   all numbers or dates (ratings, times); otherwise a person and a list of pages.
6. Everything else: ``tabs``.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import orjson

from kvtui.errors import UsageError
from kvtui.jobs.fans.delimited import rows
from kvtui.jobs.fans.formats import FORMATS, Layout

# fmt: off
PERSON_HEADS = frozenset((
    "user", "user_id", "userid", "user_name", "username", "uid", "person",
    "person_id", "personid", "profile", "profile_id", "profileid", "visitor",
    "visitor_id", "visitorid", "member", "member_id", "memberid", "customer",
    "customer_id", "customerid", "fan", "fan_id", "reader", "reader_id", "listener",
))
PAGE_HEADS = frozenset((
    "item", "item_id", "itemid", "iid", "page", "page_id", "pageid", "page_url",
    "pages", "url", "like", "likes", "book", "book_id", "bookid", "isbn", "movie",
    "movie_id", "movieid", "artist", "artist_id", "artistid", "track", "track_id",
    "trackid", "song", "song_id", "product", "product_id", "productid", "asin",
))
# fmt: on

_DST_LINE = re.compile(r"[ITNACV],")
_DST_PROOF = re.compile(r'A,\d+,\d+,".*",".*"$|C,"[^"]*",\d+$')
_JSON_START = re.compile(r'\s*(\{|\[\s*(["\[\]{]|$))')
_PERSON = re.compile(r"\d+|(?:user|u)[_-]?\d+|[0-9a-f]{32,64}", re.IGNORECASE)
_FURTHER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?|\d{4}-\d\d-\d\d.*|", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def layout_of(sample: list[str], key: str | None = None) -> Layout:
    """The layout of the file that begins with these lines.

    ``key`` overrides the choice of format; columns and header are then still
    found in the lines. UsageError when it is not one of ``formats.FORMATS``.
    """
    if key is not None and key not in FORMATS:
        raise UsageError(
            f"{key!r} is not a format of profile files",
            hint="Choose one of: " + ", ".join(FORMATS),
        )
    if key is not None:
        return _rows_layout(key, sample) if "-" in key else Layout(key)
    filled = [line for line in sample if line.strip()]
    if not filled:
        return Layout("tabs")
    if _is_dst(filled):
        return Layout("dst")
    if 2 * sum(map(_like_json, filled)) >= len(filled):
        return Layout("jsonl")
    for name in ("pairs-tsv", "pairs-colons", "pairs-csv"):
        layout = Layout(name)
        if _header_columns(_fields(filled, layout)[:1]):
            return _rows_layout(name, filled)
    if any("\t" in line for line in filled):
        return Layout("pairs-tsv", width=0) if _tab_pairs(filled) else Layout("tabs")
    for suffix in ("colons", "csv"):
        table = _fields(filled, Layout("pairs-" + suffix))
        divided = sum(len(fields) > 1 for fields in table)
        if table and divided >= 0.9 * len(filled):
            kind = "pairs-" if _are_pairs(table) else "lists-"
            return _rows_layout(kind + suffix, filled)
    return Layout("tabs")


def header_names(fields: list[str]) -> list[str]:
    """Column names brought to one form: lower case, ``_`` for blank and ``-``."""
    return [re.sub(r"[ -]+", "_", field.strip().strip('"').lower()) for field in fields]


def _is_dst(filled: list[str]) -> bool:
    fitting = sum(1 for line in filled if _DST_LINE.match(line))
    return fitting >= 0.9 * len(filled) and any(map(_DST_PROOF.match, filled))


def _like_json(line: str) -> bool:
    if _JSON_START.match(line):
        return True
    if line.lstrip()[:1] != "[":  # "[adult swim]" is a page, "[7, 8]" is JSON
        return False
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _fields(filled: list[str], layout: Layout) -> list[list[str]]:
    numbered = iter(enumerate(filled, 1))
    return [row for _, row in rows(numbered, layout.delimiter, lambda *_: None)]


def _header_columns(table: list[list[str]]) -> tuple[int, int] | None:
    """Which columns the first row calls a person's and a page's, if both."""
    names = header_names(table[0]) if table else []
    people = [n for n, name in enumerate(names) if name in PERSON_HEADS]
    pages = [n for n, name in enumerate(names) if name in PAGE_HEADS]
    return (people[0], pages[0]) if people and pages else None


def _rows_layout(key: str, sample: list[str]) -> Layout:
    """Columns, usual width and header of a ``pairs-`` or ``lists-`` file."""
    table = _fields([line for line in sample if line.strip()], Layout(key))
    columns = _header_columns(table)
    header = columns is not None or _words_above_numbers(table)
    if key.startswith("lists-"):
        return Layout(key, header=header)
    widths = Counter(map(len, table))
    width = max(widths, key=lambda n: (widths[n], -n)) if widths else 2
    if columns is not None:
        width = len(table[0])
    person, page = columns or (0, 1)
    return Layout(key, person, page, width, header)


def _words_above_numbers(table: list[list[str]]) -> bool:
    """Whether the first row is a header, by its first column if not by its names."""
    first, *below = [fields[0].strip() for fields in table] or [""]
    return (
        bool(below)
        and not _NUMBER.fullmatch(first)
        and all(map(_NUMBER.fullmatch, below))
    )


def _are_pairs(table: list[list[str]]) -> bool:
    body = table[1:] if _words_above_numbers(table) else table
    (width, rows_of_it), *_ = Counter(map(len, body)).most_common(1)
    if width < 2 or rows_of_it < 0.95 * len(body):
        return False
    return all(
        _FURTHER.fullmatch(field.strip())
        for fields in body
        if len(fields) == width
        for field in fields[2:]
    )


def _tab_pairs(filled: list[str]) -> bool:
    table = [line.split("\t") for line in filled]
    width = len(table[0])
    if len(table) < 10 or not 2 <= width <= 4:
        return False
    if any(len(fields) != width or "" in fields[:2] for fields in table):
        return False
    people = [fields[0] for fields in table]
    if not all(map(_PERSON.fullmatch, people)) or len(set(people)) > 0.8 * len(people):
        return False
    if len({(fields[0], fields[1]) for fields in table}) < len(table):
        return False
    changes = 1 + sum(a != b for a, b in pairwise(people))
    return width > 2 or changes == len(set(people))
