"""Rows of fields out of numbered lines: comma, tab or ``::`` between them.

Commas follow RFC 4180: a field that begins with a quote mark runs to the
closing one, may hold commas, doubled quote marks and line breaks (which come
out as LF). Tab and ``::`` know no quoting at all: a quote mark is a letter.

A quote mark that is never closed must not swallow the rows after it. So a
quoted field may cross at most ``MAX_QUOTED_LINES`` line ends, and a closing
quote mark must be followed by a comma or the end of the row; otherwise the line
where the row began is reported as bad and reading goes on with the very next
line. Every line is thus either used or reported.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator

Numbered = Iterator[tuple[int, str]]
"""Lines with their number, from 1."""

Bad = Callable[[int, str], None]
"""Takes note of a bad line: its number and the reason."""

MAX_QUOTED_LINES = 64


def rows(
    numbered: Numbered, delimiter: str, bad: Bad
) -> Iterator[tuple[int, list[str]]]:
    """The fields of each row, with the number of the line where it begins.

    Blank lines are no rows. Fields are as written: no blanks are trimmed.
    """
    if delimiter == ",":
        yield from _comma_rows(numbered, bad)
        return
    for number, text in numbered:
        if text:
            yield number, text.split(delimiter)


def _comma_rows(numbered: Numbered, bad: Bad) -> Iterator[tuple[int, list[str]]]:
    waiting: deque[tuple[int, str]] = deque()  # looked at, to be read again

    def following() -> tuple[int, str] | None:
        return waiting.popleft() if waiting else next(numbered, None)

    while (line := following()) is not None:
        number, text = line
        if not text:
            continue
        if '"' not in text:
            yield number, text.split(",")
            continue
        fields, reason = _parsed(text)
        taken: list[tuple[int, str]] = []
        while fields is None and not reason and len(taken) < MAX_QUOTED_LINES:
            further = following()
            if further is None:
                break
            taken.append(further)
            text = f"{text}\n{further[1]}"
            if '"' in further[1]:
                fields, reason = _parsed(text)
        if fields is not None:
            yield number, fields
            continue
        bad(number, reason or "a quote mark is opened and never closed")
        waiting.extendleft(reversed(taken))


def _parsed(text: str) -> tuple[list[str] | None, str]:
    """Fields; or None with a reason; or None and "" when more lines are needed."""
    try:
        return next(csv.reader([text], strict=True)), ""
    except csv.Error as error:
        reason = str(error)
        # The words of the csv module since Python 2.5.
        return None, "" if reason == "unexpected end of data" else f"CSV: {reason}"
