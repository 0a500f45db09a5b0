"""A million draws of each of YCSB's request distributions, of a million records.

Beside them, in the same process and in turn, a million random numbers and their
logarithms by numpy: what a draw cannot do without.

Target: under 0.1 s each.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, ratio, verdict
from kvtui.jobs.ycsb.distributions import BATCH, choose, chooser
from kvtui.jobs.ycsb.parameters import DISTRIBUTIONS, YcsbParameters

RECORDS = 1_000_000
DRAWS = 1_000_000
ROUNDS = 7
LIMIT_S = 0.1


def drawing(name: str) -> float:
    """Seconds for all, start-up included."""
    random = np.random.default_rng(1)
    counts = np.full(BATCH, RECORDS, np.int64)
    began = time.perf_counter()
    asked = YcsbParameters(records=RECORDS)
    draws = chooser(name, asked, span=RECORDS, client=0, clients=1)
    for _ in range(DRAWS // BATCH + 1):
        choose(draws, random, counts).tolist()
    return time.perf_counter() - began


def bare() -> float:
    """Seconds for numbers and logarithms."""
    random = np.random.default_rng(1)
    began = time.perf_counter()
    for _ in range(DRAWS // BATCH + 1):
        np.log(random.random(BATCH)).tolist()
    return time.perf_counter() - began


def main() -> int:
    """Print the table; how many targets were missed."""
    sides: list[Callable[[], float]] = [bare]
    sides += [functools.partial(drawing, name) for name in DISTRIBUTIONS]
    rows = alternate(sides, ROUNDS)
    missed = 0
    print("distribution     s for a million   of the bare numbers")
    for column, (name, took) in enumerate(
        zip(["(bare)", *DISTRIBUTIONS], medians(rows), strict=True)
    ):
        holds = took < LIMIT_S
        missed += not holds
        print(f"{name:15}  {took:15.3f}   {ratio(rows, column, 0):19.1f}", end="")
        print(f"   (target < {LIMIT_S} s: {verdict(holds)})" if column else "")
    return missed


if __name__ == "__main__":
    sys.exit(main())
