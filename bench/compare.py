"""One comparison of kvtui with another tool, and how it is printed.

A store's file in this folder yields its comparisons, each while its server runs;
:mod:`bench.stores` prints them all as one table. Both sides take turns; a figure is
the median of its rounds, the ratio the median of the rounds' ratios.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bench import alternate, medians, ratio, verdict
from kvtui.stores.programs import find_program

ROUNDS = 5


class Missing(Exception):
    """A program that a comparison needs is not here; what would bring it."""


class Comparison(NamedTuple):
    """Two ways to ask the same of one server."""

    store: str
    what: str
    ours: Callable[[], float]
    """Operations a second of kvtui."""
    tool: str
    theirs: Callable[[], float]
    """Operations a second of the other tool."""
    target: float | None
    """What the ratio must reach; None for orientation only."""
    rounds: int = ROUNDS


Comparisons = Callable[[], Iterator[Comparison]]

_HEAD = ("store", "compared", "kvtui/s", "beside it", "tool/s", "ratio", "target")
_ROW = "{:<12} {:<26} {:>9} {:<22} {:>9} {:>6}  {}"


def table(sources: Iterable[tuple[str, Comparisons]]) -> int:
    """Measure and print; how many targets were missed. What is missing is named."""
    print(_ROW.format(*_HEAD))
    missed = 0
    for name, comparisons in sources:
        try:
            for each in comparisons():
                missed += not _printed(each)
        except Missing as missing:
            print(f"{name}: not compared, {missing}")
    return missed


def _printed(asked: Comparison) -> bool:
    rows = alternate((asked.ours, asked.theirs), asked.rounds)
    ours, theirs = medians(rows)
    share = ratio(rows, 0, 1)
    holds = asked.target is None or share >= asked.target
    target = "" if asked.target is None else f">= {asked.target:g}: {verdict(holds)}"
    figures = f"{ours:,.0f}", f"{theirs:,.0f}", f"{share:.2f}"
    print(
        _ROW.format(
            asked.store, asked.what, figures[0], asked.tool, *figures[1:], target
        ),
        flush=True,
    )
    return holds


def program(*names: str, package: str) -> str:
    """The first of the programs that is here; Missing with what would bring it."""
    found = find_program(names)
    if found is None:
        raise Missing(f"{names[0]} is missing: apt install {package}")
    return found


def printed_by(words: list[str], wanted: str) -> tuple[str, ...]:
    """Run a tool; the groups of what it must print."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(wanted, done.stdout)
    if done.returncode or found is None:
        raise SystemExit(
            f"{words[0]} ended with {done.returncode}: {done.stdout[-500:]}"
        )
    return found.groups()
