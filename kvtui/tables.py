"""Plain text tables, aligned by terminal cells."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvtui.text import cells, fit

GAP: Final = "  "
LEAST: Final = 8
"""A column that gives way to the others keeps at least as many cells."""

_LETTERS: Final = str.maketrans(
    {
        "–": "-",
        "µ": "u",
        "×": "x",
        "÷": "/",
        "…": "~",
        "·": ".",
        "─": "-",
        "█": "#",
        "✓": "y",
    }
)


class Column(NamedTuple):
    """A column's head, and how its cells stand."""

    head: str
    right: bool = False
    gives_way: bool = False
    """Whether it is cut where the table is too wide."""


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """The lines of a table, its head first, without blanks at their ends.

    ``width`` is how many cells there are; None means that nothing is cut. Columns
    that give way are cut, the widest first; the table may stay too wide.
    """
    widths = [
        max(cells(text) for text in (column.head, *(row[number] for row in rows)))
        for number, column in enumerate(columns)
    ]
    if width is not None:
        _narrow(columns, widths, width)
    heads = [column.head for column in columns]
    return [
        GAP.join(
            fit(text, wide, right=column.right)
            for column, wide, text in zip(columns, widths, row, strict=True)
        ).rstrip()
        for row in (heads, *rows)
    ]


def breadth(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """How many cells the table takes at most when nothing is cut."""
    return max(map(cells, table(columns, rows)))


def _narrow(columns: Sequence[Column], widths: list[int], width: int) -> None:
    yielding = [number for number, each in enumerate(columns) if each.gives_way]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while over > 0 and yielding:
        widest = max(yielding, key=lambda number: widths[number])
        if widths[widest] <= LEAST:
            break
        widths[widest] -= 1
        over -= 1


def ascii_letters(text: str) -> str:
    """``text`` in ASCII: signs of our own by their likes, other letters escaped.

    For a terminal that shows nothing else, before anything is aligned.
    """
    if text.isascii():
        return text
    text = unicodedata.normalize("NFC", text).translate(_LETTERS)
    return text.encode("ascii", "backslashreplace").decode("ascii")


def paragraph(text: str, width: int | None, indent: str = "") -> list[str]:
    """``text`` broken at blanks into lines of at most ``width`` cells.

    Lines after the first begin with ``indent``. A word that is longer than a line
    stays whole: an address must be copied in one piece.
    """
    if width is None:
        return [text]
    lines: list[str] = []
    bare = text.lstrip(" ")
    line, empty = text[: len(text) - len(bare)], True
    for word in bare.split(" "):
        longer = line + word if empty else f"{line} {word}"
        if not empty and cells(longer) > width:
            lines.append(line)
            longer = indent + word
        line, empty = longer, False
    lines.append(line)
    return lines
