"""Makes profiles that look like the ones of the published fan-page job.

The job's 10,000 profiles of 2009 were never published. What is known of them:
406 profiles are fans of Michael Jackson, 22 of these of the Green Bay Packers
too, and the published times imply two to three fans a page, so most pages have
one. The rest follows public data of the same kind (shelves of readers, plays of
listeners); all people and nearly all pages are invented:

- the length of a list is 1 + a negative binomial number;
- page of popularity rank k is drawn in proportion to 1 / (k + flatness), the
  Zipf-Mandelbrot law with exponent 1, out of many times more pages than occur;
- every profile has a few taste groups (one page in ``groups`` belongs to each)
  and takes a share of its pages from them;
- some neighbours in rank are a series of 2 to 7 pages (parts of a saga, a team
  and its players): who takes one takes each further one with a probability of
  0.4 to 0.6. Without them popular pairs would go together too little.

The article's two numbers are met exactly, by selection sampling (Knuth, The Art
of Computer Programming, volume 2, 3.4.2, algorithm S); for other numbers of
profiles they scale, rounded to the nearest.

What is guaranteed: equal parameters give equal unpacked bytes on every machine
and Python version. All chance comes from ``random.Random(seed).random()``, the one
sequence Python promises to keep, and only + - * / is done with its floats, which
IEEE 754 rounds the same everywhere. A ``.gz`` holds no time and no name, so it is
equal too wherever zlib is the same one.
"""

from __future__ import annotations

import gzip
import io
import os
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import IO

import msgspec

from kvtui.errors import DataError, UsageError
from kvtui.jobs.fans.invented import Page, invented_page, mixed

MICHAEL_JACKSON = Page("http://www.facebook.com/michaeljackson", "Michael Jackson")
GREEN_BAY_PACKERS = Page(
    "http://www.facebook.com/pages/Green-Bay-Packers/14064362870", "Green Bay Packers"
)

# Fans of a hundred hundred profiles: the article's two, and an invented one that
# lets the Packers' 22 common fans be a little over twice what chance would make.
_JACKSON, _BOTH, _PACKERS, _OF = 406, 22, 240, 10_000

_STRIP_BITS = 3  # a series lies within eight neighbouring ranks
# Series are rare among the most popular pages, or they would make up all of the
# top pairs: strip n has one with a probability of series * n² / (n² + this²).
_SCARCE_STRIPS = 800


class SyntheticParameters(msgspec.Struct, frozen=True, kw_only=True):
    """What shapes the profiles; ``checked`` says what is out of range."""

    profiles: int = 10_000
    seed: int = 2009
    mean_length: float = 8.0
    """Mean pages a profile."""
    dispersion: float = 1.18
    """Of the negative binomial: the smaller, the longer the longest lists."""
    pool: int = 14
    """Pages that can occur, for each profile."""
    flatness: float = 24.0
    """The larger, the flatter the head of the popularity law."""
    groups: int = 30
    groups_each: int = 3
    taste: float = 0.6
    """Share of the pages that a profile takes from its taste groups."""
    series: float = 0.5
    """Share of the strips of eight ranks that hold a series, far from the head."""

    def checked(self) -> SyntheticParameters:
        """These parameters; UsageError when one is out of its range."""
        limits = {
            "profiles": (1, 100_000_000),
            "seed": (0, 2**63 - 1),
            "mean_length": (1, 1000),
            "dispersion": (0.05, 100),
            "pool": (1, 1000),
            "flatness": (0, 1_000_000),
            "groups": (1, 100_000),
            "groups_each": (1, 100),
            "taste": (0, 1),
            "series": (0, 1),
        }
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            if not least <= value <= most:  # also catches NaN
                raise UsageError(
                    f"{name.replace('_', ' ')} is {value}",
                    hint=f"It goes from {least:,} to {most:,}.",
                )
        return self


def make_profiles(
    parameters: SyntheticParameters,
    profiles_path: Path | str,
    names_path: Path | str | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Writes the profiles, one a line with tabs between page addresses.

    ``names_path`` gets the address and the readable name of every page that
    occurs, a tab in between, by popularity rank. A path that ends in ``.gz`` is
    packed with gzip. ``progress`` gets the number of profiles written, every
    thousand and at the end. Memory: one bit for each page that can occur, and
    bounded caches.

    Raises UsageError for parameters out of range, DataError when a file cannot
    be written; what was written of it is then removed.
    """
    maker = _Maker(parameters.checked())
    with _written(Path(profiles_path)) as stream:
        for count, profile in enumerate(maker.profiles(), 1):
            stream.write("\t".join(profile).encode() + b"\n")
            if progress and (count % 1000 == 0 or count == parameters.profiles):
                progress(count)
    if names_path is not None:
        with _written(Path(names_path)) as stream:
            for address, name in maker.pages_used():
                stream.write(f"{address}\t{name}\n".encode())


class _Maker:
    """Draws profiles and remembers which pages occurred."""

    def __init__(self, parameters: SyntheticParameters) -> None:
        self._parameters = parameters
        self._chance = random.Random(parameters.seed).random
        groups = parameters.groups
        # Whole rounds of groups, so that each group has the same number of pages.
        self._pool = -(-max(parameters.pool * parameters.profiles, 1000) // groups)
        self._pool *= groups
        self._used = bytearray(self._pool // 8 + 1)
        self._rank = _zipf(self._chance, self._pool, parameters.flatness)
        self._group = _zipf(self._chance, groups, parameters.flatness)
        self._length = _one_plus_negative_binomial(
            self._chance, parameters.mean_length - 1, parameters.dispersion
        )
        self._digits = len(str(self._pool))
        # Bounded caches: popular pages come back all the time.
        self._series = lru_cache(100_000)(self._series_of)
        self._address = lru_cache(100_000)(self._address_of)

    def _address_of(self, rank: int) -> str:
        self._used[rank >> 3] |= 1 << (rank & 7)
        return self._page(rank).address

    def _page(self, rank: int) -> Page:
        first, size, _ = self._series(rank >> _STRIP_BITS)
        part = (rank - first + 1, first) if first <= rank < first + size else None
        return invented_page(rank, self._digits, self._parameters.seed, part)

    def _series_of(self, strip: int) -> tuple[int, int, float]:
        """The first rank, the size and the probability of a strip's series.

        The size is 0 where the strip holds none.
        """
        bits = mixed(strip, self._parameters.seed)
        rarity = strip * strip / (strip * strip + _SCARCE_STRIPS * _SCARCE_STRIPS)
        share = self._parameters.series * rarity
        if (bits & 0xFFFF) >= share * 0x10000:
            return 0, 0, 0.0
        size = 2 + (bits >> 16) % 6
        first = (strip << _STRIP_BITS) + (bits >> 24) % (9 - size)
        if first + size > self._pool:
            return 0, 0, 0.0
        return first, size, 0.4 + 0.2 * ((bits >> 32) & 0xFF) / 0xFF

    def profiles(self) -> Iterator[list[str]]:
        """Each profile: the addresses of its distinct pages."""
        n = self._parameters.profiles
        jackson, both, packers = (_scaled(x, n) for x in (_JACKSON, _BOTH, _PACKERS))
        chance, address = self._chance, self._address
        alone = packers - both  # fans of the Packers only
        for left in range(n, 0, -1):
            special = []
            if chance() * left < jackson:
                special.append(MICHAEL_JACKSON.address)
                if chance() * jackson < both:
                    special.append(GREEN_BAY_PACKERS.address)
                    both -= 1
                jackson -= 1
            elif chance() * (left - jackson) < alone:
                special.append(GREEN_BAY_PACKERS.address)
                alone -= 1
            wanted = self._length() - len(special)
            profile = [address(rank) for rank in self._ranks(wanted)]
            for page in special:
                profile.insert(int(chance() * (len(profile) + 1)), page)
            yield profile

    def _ranks(self, wanted: int) -> dict[int, None]:
        """Distinct ranks, in the order in which they were drawn."""
        chance, rank_of = self._chance, self._rank
        taste, groups = self._parameters.taste, self._parameters.groups
        mine = [self._group() for _ in range(self._parameters.groups_each)]
        ranks: dict[int, None] = {}
        tries = 20 * wanted + 20  # a small pool may not hold enough pages
        while len(ranks) < wanted and tries:
            tries -= 1
            rank = rank_of()
            if chance() < taste:
                rank += mine[int(chance() * len(mine))] - rank % groups
            if rank in ranks:
                continue
            ranks[rank] = None
            first, size, probability = self._series(rank >> _STRIP_BITS)
            if first <= rank < first + size:
                for other in range(first, first + size):
                    if chance() < probability and len(ranks) < wanted:
                        ranks[other] = None
        return ranks

    def pages_used(self) -> Iterator[Page]:
        """The pages that occurred, by rank after the two of the article."""
        n = self._parameters.profiles
        if _scaled(_JACKSON, n):
            yield MICHAEL_JACKSON
        if _scaled(_PACKERS, n):
            yield GREEN_BAY_PACKERS
        for byte, bits in enumerate(self._used):
            if bits:
                for bit in range(8):
                    if bits >> bit & 1:
                        yield self._page(byte * 8 + bit)


def _scaled(fans: int, profiles: int) -> int:
    return (2 * fans * profiles + _OF) // (2 * _OF)


def _zipf(
    chance: Callable[[], float], count: int, flatness: float
) -> Callable[[], int]:
    """Draws k from 0 to count - 1 in proportion to 1 / (k + 1 + flatness).

    By rejection from a staircase that touches the law at the start of each step;
    steps grow with k, so a few dozen do for any count. No table, no powers.
    """
    starts: list[int] = []
    sizes: list[int] = []
    weights: list[float] = []
    start = 0
    while start < count:
        size = min(1 + int((start + flatness) / 4), count - start)
        starts.append(start)
        sizes.append(size)
        weights.append(size / (start + 1 + flatness))
        start += size
    upto = list(accumulate(weights))
    total = upto[-1]
    last = len(starts) - 1

    def draw() -> int:
        while True:
            step = min(bisect_right(upto, chance() * total), last)
            start = starts[step]
            rank = start + int(chance() * sizes[step])
            if chance() * (rank + 1 + flatness) < start + 1 + flatness:
                return rank

    return draw


def _one_plus_negative_binomial(
    chance: Callable[[], float], mean: float, dispersion: float
) -> Callable[[], int]:
    """Draws 1 + k, k negative binomial, by looking up its cumulative sums.

    Each weight follows from the one before, so no power is needed.
    """
    weights = [1.0]
    total = 1.0
    k = 0
    ratio = mean / (mean + dispersion)
    while weights[-1] > total * 1e-9 and k < 1_000_000:
        weights.append(weights[-1] * (k + dispersion) / (k + 1) * ratio)
        total += weights[-1]
        k += 1
    upto = list(accumulate(weights))
    return lambda: 1 + min(bisect_right(upto, chance() * upto[-1]), k)


@contextmanager
def _written(path: Path) -> Iterator[IO[bytes]]:
    """A new file, packed when its name ends in .gz; nothing is left on failure."""
    partial = path.with_name(path.name + ".part")
    try:
        with open(partial, "wb", buffering=2**20) as plain:
            if path.name.endswith(".gz"):
                with (
                    gzip.GzipFile("", "wb", 6, plain, mtime=0) as packed,
                    # Packing line by line would take twice the time.
                    io.BufferedWriter(packed, 2**20) as buffered,
                ):
                    yield buffered
            else:
                yield plain
        os.replace(partial, path)
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="Check the directory and the space on the disk.",
        ) from error
    finally:
        partial.unlink(missing_ok=True)
