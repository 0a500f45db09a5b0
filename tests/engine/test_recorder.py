"""Latencies are counted as HdrHistogram counts them, and none is lost."""

from __future__ import annotations

import math
import random
from threading import Event, Thread

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.engine import recorder as recording
from kvtui.engine.recorder import Counts, Outcomes, Recorder, bucket_indices
from kvtui.engine.trial import merge
from kvtui.errors import OperationFailed
from kvtui.runs.latency import HIGHEST_NS, LOWEST_NS, Latency, merged, new_histogram

EDGES = sorted(
    {
        max(1, edge + offset)
        for bit in range(42)
        for edge in (1 << bit, 3 << bit >> 1)
        for offset in (-1, 0, 1)
        if edge + offset <= HIGHEST_NS
    }
    | {LOWEST_NS, 2047, 2048, 2049, 65_535, 65_536, HIGHEST_NS - 1, HIGHEST_NS}
)

latencies = st.integers(LOWEST_NS, HIGHEST_NS) | st.sampled_from(EDGES)


def encoded(values: list[int]) -> str | None:
    """As a worker ships them."""
    counts = Counts()
    if values:
        counts.add(values)
    return counts.take()


def within(value: int | None, exact: int) -> bool:
    """Three significant digits, or one nanosecond."""
    return value is not None and abs(value - exact) <= max(1, exact / 1000)


def nth(values: list[int], percent: float) -> int:
    """A percentile of a sorted list, as HdrHistogram defines it."""
    return sorted(values)[max(1, math.ceil(percent / 100 * len(values))) - 1]


def test_every_edge_falls_into_hdrhistograms_bucket() -> None:
    histogram: HdrHistogram = new_histogram()
    wanted = [histogram._counts_index_for(value) for value in EDGES]
    assert bucket_indices(np.array(EDGES, np.int64)).tolist() == wanted


@given(st.lists(latencies, min_size=1, max_size=200))
def test_buckets_are_hdrhistograms(values: list[int]) -> None:
    histogram: HdrHistogram = new_histogram()
    wanted = [histogram._counts_index_for(value) for value in values]
    assert bucket_indices(np.array(values, np.int64)).tolist() == wanted


@settings(deadline=None)
@given(st.lists(latencies, min_size=1, max_size=300))
def test_what_is_taken_decodes_to_the_same_histogram(values: list[int]) -> None:
    wanted: HdrHistogram = new_histogram()
    for value in values:
        wanted.record_value(value)
    taken = encoded(values)
    assert taken is not None
    found = HdrHistogram.decode(taken)
    assert list(found.counts) == list(wanted.counts)
    assert found.total_count == len(values)


@settings(deadline=None)
@given(
    st.lists(st.lists(latencies, max_size=100), min_size=1, max_size=5).filter(any),
    st.floats(0, 100) | st.sampled_from([0.0, 50.0, 90.0, 99.0, 99.9, 100.0]),
)
def test_merged_percentiles_agree_with_the_sorted_list(
    parts: list[list[int]], percent: float
) -> None:
    """080: from all samples, within 0.1 %."""
    everything = [value for part in parts for value in part]
    latency = Latency()
    for part in parts:
        latency.add(encoded(part))
    assert latency.count == len(everything)
    (found,) = latency.percentiles(round(percent, 3))
    assert within(found, nth(everything, round(percent, 3)))
    assert within(latency.max_ns, max(everything))
    mean = latency.mean_ns
    assert mean is not None
    assert abs(mean - sum(everything) / len(everything)) <= max(1, mean / 500)


def test_two_workers_are_merged_not_averaged() -> None:
    """079: p99 is 1 ms; never the mean of two p99s."""
    latency = Latency()
    latency.add(merged(encoded([1_000_000] * 990), encoded([1_000_000_000] * 10)))
    p50, p99, p99_5, highest = latency.percentiles(50, 99, 99.5, 100)
    assert within(p50, 1_000_000)
    assert within(p99, 1_000_000)
    assert within(p99_5, 1_000_000_000)
    assert within(highest, 1_000_000_000)
    assert within(latency.max_ns, 1_000_000_000)


def test_a_burst_shows_in_the_percentiles() -> None:
    """080: 10,000 quick ones and one slow interval."""
    quick, slow = [1_000_000] * 10_000, [200_000_000 + n for n in range(200)]
    latency = Latency()
    for start in range(0, 10_000, 1000):
        latency.add(encoded(quick[start : start + 1000]))
    latency.add(encoded(slow))
    for percent in (50, 90, 98, 98.04, 98.1, 99, 99.9, 99.99):
        (found,) = latency.percentiles(percent)
        assert within(found, nth(quick + slow, percent)), percent


def test_nothing_recorded_is_none() -> None:
    assert encoded([]) is None
    assert merged() is None
    assert merged(None, None) is None
    latency = Latency()
    latency.add(None)
    assert latency.encode() is None
    assert latency.max_ns is None
    assert latency.mean_ns is None
    assert latency.percentiles(0, 50, 100) == [None, None, None]
    taken = Recorder(3).take()
    assert taken.operations == {}


def test_impossible_latencies_are_held_within_the_range() -> None:
    """082: no negative latency, no year-long one."""
    latency = Latency()
    latency.add(encoded([-5, 0, HIGHEST_NS * 10]))
    assert latency.count == 3
    assert latency.percentiles(1) == [1]
    assert within(latency.max_ns, HIGHEST_NS)


def test_taking_starts_afresh() -> None:
    outcomes = Outcomes()
    outcomes.ok += [5, 6]
    outcomes.miss.append(7)
    first = outcomes.take()
    assert first is not None
    assert (first.ok, first.miss, first.failed) == (2, 1, {})
    assert outcomes.take() is None
    outcomes.ok.append(9)
    second = outcomes.take()
    assert second is not None
    latency = Latency()
    latency.add(second.latency)
    assert (second.ok, second.miss) == (1, 0)
    assert latency.percentiles(0, 100) == [9, 9]
    assert outcomes.finished == 4
    assert outcomes.latency_ns == 27


def test_failures_are_apart_from_successes() -> None:
    """083: fast errors do not pull the latency down."""
    recorder = Recorder(1)
    gets = recorder.outcomes("get")
    for _ in range(30):
        gets.ok.append(50_000_000)
    for number in range(70):
        kind = "timeout" if number < 20 else "refused"
        recorder.failed("get", OperationFailed(kind, f"no {number}"), 100_000, number)
    taken = recorder.take().operations["get"]
    assert taken.ok == 30
    assert taken.failed == {"timeout": 20, "refused": 50}
    good, bad = Latency(), Latency()
    good.add(taken.latency)
    bad.add(taken.failed_latency)
    assert within(good.percentiles(50)[0], 50_000_000)
    assert within(bad.percentiles(50)[0], 100_000)
    faults = recorder.take_faults()
    assert [(each.kind, each.message, each.at_ns) for each in faults] == [
        ("timeout", "no 0", 0),
        ("refused", "no 20", 20),
    ]
    assert recorder.take_faults() == []
    assert recorder.finished == 100


def test_workers_of_one_second_add_up() -> None:
    """085: the merged interval is the sum of its parts."""
    intervals = []
    for worker in range(3):
        recorder = Recorder(1)
        recorder.outcomes("get").ok.extend(range(1, 101 + worker))
        recorder.outcomes("get").miss.append(5)
        recorder.failed("get", OperationFailed("timeout", "x"), 9, 1)
        intervals.append(recorder.take().operations["get"])
    total = merge(intervals)
    assert total.ok == 100 + 101 + 102
    assert total.miss == 3
    assert total.failed == {"timeout": 3}
    latency = Latency()
    latency.add(total.latency)
    assert latency.count == total.ok


@pytest.mark.parametrize("drain_at", [1, 100, recording.DRAIN_AT])
def test_draining_while_others_append_loses_nothing(
    drain_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "DRAIN_AT", drain_at)
    recorder = Recorder(4)
    each, done = 40_000, Event()

    def loop(seed: int) -> None:
        draw = random.Random(seed)
        outcomes = recorder.outcomes("get")
        got, missed = outcomes.ok.append, outcomes.miss.append
        for number in range(each):
            (got if number % 4 else missed)(draw.randrange(1, 100_000))
            if number % 500 == 0:
                recorder.flush(500, 1, 2)
                error = OperationFailed("timeout", "x")
                recorder.failed("get", error, 7, number)

    taken: list[tuple[int, int, int, int]] = []
    read = written = 0

    def take() -> None:
        nonlocal read, written
        found = recorder.take()
        read += found.read_bytes
        written += found.written_bytes
        for interval in found.operations.values():
            latency = Latency()
            latency.add(interval.latency)
            taken.append(
                (
                    interval.ok,
                    latency.count,
                    interval.miss,
                    sum(interval.failed.values()),
                )
            )

    def reporter() -> None:
        while not done.wait(0.001):
            take()

    threads = [Thread(target=loop, args=(seed,)) for seed in range(4)]
    watcher = Thread(target=reporter)
    for thread in [*threads, watcher]:
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    watcher.join()
    take()
    assert sum(ok for ok, _, _, _ in taken) == 4 * each * 3 // 4
    assert sum(count for _, count, _, _ in taken) == 4 * each * 3 // 4
    assert sum(miss for _, _, miss, _ in taken) == each
    assert sum(failed for _, _, _, failed in taken) == 4 * each // 500
    assert recorder.finished == 4 * each + 4 * each // 500
    assert recorder.attempted == 4 * each
    assert (read, written) == (4 * each // 500, 2 * (4 * each // 500))


def test_the_oldest_waiting_operation_is_known() -> None:
    recorder = Recorder(3)
    assert recorder.oldest_waiting_ns(lambda: 100) == 0
    recorder.waiting[:] = [0, 70, 40]
    assert recorder.oldest_waiting_ns(lambda: 100) == 60
    assert recorder.oldest_waiting_ns(lambda: 10) == 0  # never negative


def test_the_span_goes_from_the_first_request_to_the_last_reply() -> None:
    """076: whoever was first, and whoever was last."""
    recorder = Recorder(3)
    recorder.client_ended(50, 90)
    recorder.client_ended(40, 60)
    recorder.client_ended(70, 80)
    assert (recorder.first_ns, recorder.last_ns) == (40, 90)
