"""kvtui beside other tools and beside bare loops, in one run.

Machines are shared and noisy, so every comparison alternates its two sides and
gives the median and a ratio; single figures are for orientation only.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence


def alternate(
    sides: Sequence[Callable[[], float]], rounds: int
) -> list[tuple[float, ...]]:
    """Measure the sides in turn, ``rounds`` times; one row a round."""
    return [tuple(side() for side in sides) for _ in range(rounds)]


def medians(rows: Sequence[tuple[float, ...]]) -> list[float]:
    """The median of each side."""
    return [statistics.median(column) for column in zip(*rows, strict=True)]


def ratio(rows: Sequence[tuple[float, ...]], over: int, under: int) -> float:
    """The median of the rounds' ratios of two sides."""
    return statistics.median(row[over] / row[under] for row in rows)


def verdict(holds: bool) -> str:
    """How a target is reported."""
    return "holds" if holds else "MISSED"
