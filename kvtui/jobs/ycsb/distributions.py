"""Which record comes next: YCSB's request distributions, drawn in batches.

A chooser draws *positions* in what a client can see: 0 is the first record loaded,
``count - 1`` the newest. ``counts`` holds, for each draw, how many there are; it never
falls. A draw that lies beyond is redrawn, as in YCSB, so that nothing is asked for that
does not exist yet.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvtui.jobs.ycsb.keys import fnv, unsigned
from kvtui.jobs.ycsb.parameters import YcsbParameters

Positions = NDArray[np.int64]
BATCH: Final = 8192
"""Drawn at once: what stays in a processor's cache."""
_HEAD: Final = 1000
_REDRAWS: Final = 64

SCRAMBLED_ITEMS: Final = 10_000_000_001
SCRAMBLED_ZETA: Final = 26.46902820178302
"""YCSB's ScrambledZipfianGenerator draws from so many items, with this zeta for its
theta of 0.99, whatever the number of records."""


class Chooser(ABC):
    """Draws positions."""

    @abstractmethod
    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """A position for each of ``counts``; it may lie beyond."""


def choose(
    chooser: Chooser, random: np.random.Generator, counts: Positions
) -> Positions:
    """Positions that exist, one for each of ``counts``.

    After 64 redraws what still lies beyond is drawn uniformly; that happens only where
    far more is inserted than was loaded.
    """
    found = chooser.draw(random, counts)
    beyond = np.flatnonzero((found >= counts) | (found < 0))
    for _ in range(_REDRAWS):
        if not len(beyond):
            return found
        again = chooser.draw(random, counts[beyond])
        found[beyond] = again
        beyond = beyond[(again >= counts[beyond]) | (again < 0)]
    found[beyond] = Uniform().draw(random, counts[beyond])
    return found


class Uniform(Chooser):
    """Every record as often as any other."""

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """The number of records times a number from 0 up to 1."""
        return (random.random(len(counts)) * counts).astype(np.int64)


class Zipf:
    """Numbers from 0 on, the lower the likelier: number i with weight 1/(i+1)^theta.

    The method is that of Gray et al., "Quickly Generating Billion-Record Synthetic
    Databases" (SIGMOD 1994), as in YCSB.
    """

    def __init__(self, items: int, theta: float, zeta_n: float | None = None) -> None:
        self._items, self._theta = items, theta
        self.zeta = zeta(items, theta) if zeta_n is None else zeta_n
        self._alpha = 1 / (1 - theta)
        self._eta = 0.0
        if items > 2:  # Of two items the first two cases below say it all.
            self._eta = (1 - (2 / items) ** (1 - theta)) / (
                1 - zeta(2, theta) / self.zeta
            )

    def draw(self, random: np.random.Generator, size: int) -> Positions:
        """So many numbers."""
        u = random.random(size)
        found = u * self._eta
        found += 1 - self._eta
        np.power(found, self._alpha, out=found)
        found *= self._items
        u *= self.zeta
        found[u < 1 + 0.5**self._theta] = 1
        found[u < 1] = 0
        np.minimum(found, self._items - 1, out=found)
        return found.astype(np.int64)


def zeta(items: int, theta: float) -> float:
    """The sum of 1/i^theta for i from 1 to ``items``.

    The first thousand terms are added up; the rest is the Euler-Maclaurin formula up to
    its third derivative, whose error there is below 1e-17 of the sum (the next term is
    the fifth derivative over 30,240 at 1000), less than rounding.
    """
    exact = np.arange(1, min(items, _HEAD) + 1, dtype=np.float64)
    total = float((exact**-theta).sum())
    if items <= _HEAD:
        return total
    low, high = float(_HEAD), float(items)
    integral = (high ** (1 - theta) - low ** (1 - theta)) / (1 - theta)
    first = -theta * (high ** (-theta - 1) - low ** (-theta - 1)) / 12
    factor = -theta * (theta + 1) * (theta + 2)
    third = factor * (high ** (-theta - 3) - low ** (-theta - 3)) / 720
    rest: float = integral + (high**-theta - low**-theta) / 2 + first - third
    return total + rest


class PlainZipfian(Chooser):
    """The first record is the hottest.

    ``span`` is the number of records that there will be, and more: so the hot ones stay
    the same while records are inserted.
    """

    def __init__(self, span: int, theta: float) -> None:
        self._zipf = Zipf(span, theta)

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """From the whole span."""
        return self._zipf.draw(random, len(counts))


class ScrambledZipfian(Chooser):
    """What YCSB calls zipfian: a draw from ten thousand million items, hashed, modulo
    ``span``. The hot records lie anywhere, and are as hot at any number of records."""

    def __init__(self, span: int, theta: float) -> None:
        known = SCRAMBLED_ZETA if theta == 0.99 else None
        self._zipf = Zipf(SCRAMBLED_ITEMS, theta, known)
        self._span = np.uint64(span)

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """From the whole span. Five octets hold any of the items."""
        drawn = unsigned(fnv(self._zipf.draw(random, len(counts)), octets=5))
        return (drawn % self._span).astype(np.int64)


class Latest(Chooser):
    """The newest record is the hottest."""

    def __init__(self, theta: float) -> None:
        self._theta = theta
        self._zipf = Zipf(1, theta)
        self._count = 1

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """Back from the newest. The skew is that of the first of ``counts``; the
        others are larger by what this batch inserts."""
        if not len(counts):
            return counts.copy()
        if int(counts[0]) != self._count:
            self._count = int(counts[0])
            self._zipf = Zipf(self._count, self._theta)
        return counts - 1 - self._zipf.draw(random, len(counts))


class Hotspot(Chooser):
    """Most operations on the lowest records; uniform among them and the others."""

    def __init__(self, hot_records: float, hot_operations: float) -> None:
        self._records, self._operations = hot_records, hot_operations

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """From the hot set so often, else from the others; a set that is empty leaves
        everything to the other one."""
        hot = (counts * self._records).astype(np.int64)
        to_hot = random.random(len(counts)) < self._operations
        to_hot = (to_hot & (hot > 0)) | (hot == counts)
        u = random.random(len(counts))
        below = (u * hot).astype(np.int64)
        above = hot + (u * (counts - hot)).astype(np.int64)
        return np.where(to_hot, below, above)


class Exponential(Chooser):
    """Back from the newest record, ever less likely."""

    def __init__(self, percentile: float, span: float) -> None:
        self._scale = -span / math.log(1 - percentile / 100)

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """May lie before the first record."""
        back = random.exponential(self._scale, len(counts))
        return counts - 1 - back.astype(np.int64)


class Sequential(Chooser):
    """One after the other: client ``c`` of ``n`` takes every n-th, so that all of
    them together go through the records."""

    def __init__(self, first: int, step: int) -> None:
        self._next, self._step = first, step

    def draw(self, random: np.random.Generator, counts: Positions) -> Positions:
        """The next ones, from the first again after the last."""
        numbers = self._next + self._step * np.arange(len(counts), dtype=np.int64)
        self._next += self._step * len(counts)
        return numbers % counts


def chooser(
    name: str, given: YcsbParameters, *, span: int, client: int, clients: int
) -> Chooser:
    """The distribution of that name, for one client. ``span``: how many records it may
    come to see, at most."""
    match name:
        case "uniform":
            return Uniform()
        case "zipfian":
            return ScrambledZipfian(span, given.theta)
        case "zipfian-plain":
            return PlainZipfian(span, given.theta)
        case "latest":
            return Latest(given.theta)
        case "hotspot":
            return Hotspot(given.hot_records, given.hot_operations)
        case "exponential":
            return Exponential(
                given.exponential_percentile,
                given.exponential_fraction * given.records,
            )
        case "sequential":
            return Sequential(client, clients)
    raise ValueError(name)
