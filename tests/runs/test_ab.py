"""ApacheBench's terms: its arithmetic, its errors, and the exact figures beside."""

from __future__ import annotations

from math import ceil
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.engine.recorder import Counts
from kvtui.runs.ab import Times
from kvtui.runs.latency import Latency

NS = st.integers(1, 10**11)


def latency(values: list[int]) -> Latency:
    counts, made = Counts(), Latency()
    if values:
        counts.add(list(values))
    made.add(counts.take())
    return made


@given(st.lists(NS), st.lists(NS), st.integers(0, 5))
def test_times_are_those_of_the_sorted_list(
    some: list[int], more: list[int], zeros: int
) -> None:
    every = sorted([0] * zeros + some + more)
    times = Times(latency(some), latency(more), zeros=zeros)
    assert times.count == len(every)
    if not every:
        return
    for index, value in enumerate(every):
        assert times.at(index) == pytest.approx(value / 1e6, rel=1e-3, abs=1e-6)
    assert times.at(len(every) + 7) == times.at(len(every) - 1)
    assert times.mean == pytest.approx(mean(every) / 1e6, rel=1e-3, abs=1e-6)
    for percent in (1, 50, 99, 100):
        true = every[max(0, ceil(len(every) * percent / 100) - 1)] / 1e6
        assert times.percentile(percent) == pytest.approx(true, rel=1e-3, abs=1e-6)


@given(st.lists(NS, min_size=2))
def test_the_deviation_is_the_samples(values: list[int]) -> None:
    # Each value is off by at most a thousandth; so is what they are apart.
    room = 2e-3 * max(values) / 1e6
    assert Times(latency(values)).deviation == pytest.approx(
        stdev(values) / 1e6, abs=room
    )


def test_abs_median_is_half_a_step_off() -> None:
    """Of an odd number the middle is averaged with the next, of an even number the
    upper one is taken."""
    odd = Times(latency([1_000_000, 2_000_000, 4_000_000]))
    assert odd.ab_median == pytest.approx(3.0, rel=1e-3)
    assert odd.percentile(50) == pytest.approx(2.0, rel=1e-3)
    even = Times(latency([1_000_000, 2_000_000, 4_000_000, 8_000_000]))
    assert even.ab_median == pytest.approx(4.0, rel=1e-3)
    assert even.percentile(50) == pytest.approx(2.0, rel=1e-3)
    assert Times(latency([5_000_000])).ab_median == pytest.approx(5.0, rel=1e-3)
