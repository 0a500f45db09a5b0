"""A line chart of one style: braille dots, or ASCII where they cannot be shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

from kvtui.text import Glyphs

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille cell: four rows from the top, two columns."""


def nice_top(highest: float) -> float:
    """A round number at or above ``highest``, for the top of an axis."""
    if not math.isfinite(highest) or highest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest))
    for step in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10):
        if highest <= step * power * (1 + 1e-9):
            return step * power
    return 10 * power


def draw(
    values: Sequence[float | None],
    width: int,
    height: int,
    glyphs: Glyphs,
    top: float,
) -> list[str]:
    """``values`` in order over the whole width, from 0 at the bottom to ``top``.

    Where several values share a column it covers all of them, from the lowest to
    the highest, so that one quiet second among hundreds can still be seen. A value
    that was not measured leaves a gap.
    """
    if width < 1 or height < 1:
        return []
    across, down = (2 * width, 4 * height) if glyphs.braille else (width, height)
    columns = _connected(_columns(values, across, down, top))
    return (
        _braille(columns, width, height)
        if glyphs.braille
        else _ascii(columns, width, height)
    )


def _columns(
    values: Sequence[float | None], across: int, down: int, top: float
) -> list[tuple[int, int] | None]:
    """For each column the lowest and highest dot, counted from the bottom."""
    columns: list[tuple[int, int] | None] = []
    for x in range(across if values else 0):
        first = x * len(values) // across
        last = max(first + 1, (x + 1) * len(values) // across)
        dots = [
            round(max(0.0, min(1.0, value / top)) * (down - 1))
            for value in values[first:last]
            if value is not None and math.isfinite(value)
        ]
        columns.append((min(dots), max(dots)) if dots else None)
    return columns


def _connected(
    columns: list[tuple[int, int] | None],
) -> list[tuple[int, int] | None]:
    """Each column stretched until it meets the one before."""
    joined = list(columns)
    for x in range(1, len(columns)):
        before, here = columns[x - 1], columns[x]
        if before is None or here is None:
            continue
        low, high = here
        if low > before[1] + 1:
            low = before[1] + 1
        if high < before[0] - 1:
            high = before[0] - 1
        joined[x] = (low, high)
    return joined


def _braille(
    columns: list[tuple[int, int] | None], width: int, height: int
) -> list[str]:
    cells = [[0] * width for _ in range(height)]
    for x, column in enumerate(columns):
        if column is None:
            continue
        for dot in range(column[0], column[1] + 1):
            from_top = 4 * height - 1 - dot
            cells[from_top // 4][x // 2] |= _DOTS[from_top % 4][x % 2]
    return [
        "".join(chr(0x2800 + bits) if bits else " " for bits in row) for row in cells
    ]


def _ascii(columns: list[tuple[int, int] | None], width: int, height: int) -> list[str]:
    rows = [[" "] * width for _ in range(height)]
    for x, column in enumerate(columns):
        if column is None:
            continue
        low, high = column
        for dot in range(low, high + 1):
            rows[height - 1 - dot][x] = "*" if dot in column else "|"
    return ["".join(row) for row in rows]
