"""Latencies: HdrHistogram's counts and encoding, in nanoseconds.

Percentiles come from merged histograms only. Values are kept to three significant
digits, so a percentile is within 0.1 % of the sorted list's (or 1 ns).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

LOWEST_NS: Final = 1
HIGHEST_NS: Final = 3_600_000_000_000
"""One hour; anything longer is counted there."""
SIGNIFICANT_DIGITS: Final = 3


class Latency:
    """A mergeable distribution of latencies."""

    def __init__(self) -> None:
        self._histogram: HdrHistogram | None = None

    def add(self, encoded: str | None) -> None:
        """Merge an encoded histogram in; None adds nothing."""
        if encoded is None:
            return
        from hdrh.histogram import HdrHistogram

        other = HdrHistogram.decode(encoded)
        if self._histogram is None:
            self._histogram = new_histogram()
        self._histogram.add(other)

    def encode(self) -> str | None:
        """HdrHistogram's V2 compressed form in base64; None while empty."""
        if self._histogram is None:
            return None
        return str(self._histogram.encode().decode("ascii"))

    @property
    def count(self) -> int:
        """How many latencies."""
        return 0 if self._histogram is None else int(self._histogram.total_count)

    @property
    def max_ns(self) -> int | None:
        """The longest, within the histogram's precision; None while empty."""
        histogram = self._histogram
        if histogram is None or not histogram.total_count:
            return None
        return int(histogram.get_max_value())

    @property
    def mean_ns(self) -> float | None:
        """The mean, from the middle of each bucket; None while empty."""
        histogram = self._histogram
        if histogram is None or not histogram.total_count:
            return None
        # The package's own mean visits every bucket in Python and takes seconds.
        total = sum(value * number for value, number in self.buckets())
        return float(total / histogram.total_count)

    def buckets(self) -> Iterator[tuple[int, int]]:
        """Values in rising order, each the middle of its bucket, with their numbers."""
        histogram = self._histogram
        if histogram is None or not histogram.total_count:
            return
        last = histogram._counts_index_for(histogram.max_value) + 1
        for index, number in enumerate(histogram.counts[:last]):
            if number:
                value = histogram.get_value_from_index(index)
                yield int(histogram._hdr_median_equiv_value(value)), int(number)

    def percentiles(self, *percents: float) -> list[int | None]:
        """The value at or below which each per cent of all latencies lie.

        A percentile is the smallest recorded value whose cumulative count reaches
        ``ceil(percent / 100 × count)``, as in HdrHistogram; None while empty.
        """
        histogram = self._histogram
        if histogram is None or not histogram.total_count:
            return [None] * len(percents)
        # One C-speed pass: the package's own walks the counts in Python, which
        # takes milliseconds for each percentile.
        last = histogram._counts_index_for(histogram.max_value) + 1
        sums = list(accumulate(histogram.counts[:last]))
        values: list[int | None] = []
        for percent in percents:
            wanted = max(1, -(-int(percent * 1e6) * sums[-1] // 100_000_000))
            index = bisect_left(sums, wanted)
            value = histogram.get_value_from_index(index)
            values.append(int(histogram.get_highest_equivalent_value(value)))
        return values


def new_histogram() -> HdrHistogram:
    """An empty histogram with kvtui's range and precision."""
    # Loaded with the first latency: the first frame of the screens has none.
    from hdrh.histogram import HdrHistogram

    return HdrHistogram(LOWEST_NS, HIGHEST_NS, SIGNIFICANT_DIGITS)


def merged(*encoded: str | None) -> str | None:
    """Encoded histograms as one; None when there is none."""
    present = [each for each in encoded if each is not None]
    if len(present) < 2:
        return present[0] if present else None
    latency = Latency()
    for each in present:
        latency.add(each)
    return latency.encode()
