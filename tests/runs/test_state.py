"""The one fold from events to figures."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvtui.runs.events import (
    AnyEvent,
    Faulted,
    Interval,
    Measured,
    Note,
    OperationInterval,
    PhaseStarted,
    Progress,
    RunFinished,
    RunStarted,
    StoreSeen,
    System,
    TrialFinished,
    TrialStarted,
    Verified,
)
from kvtui.runs.latency import Latency, new_histogram
from kvtui.runs.state import RunState, TrialState
from tests import journals


def encoded(*latencies_ns: int) -> str | None:
    """Latencies as a worker ships them."""
    if not latencies_ns:
        return None
    histogram = new_histogram()
    for latency in latencies_ns:
        histogram.record_value(latency)
    return str(histogram.encode().decode("ascii"))


def interval(index: int, ok: int = 0, miss: int = 0, failed: int = 0) -> Interval:
    """One second of puts."""
    put = OperationInterval(
        ok,
        miss,
        {"timeout": failed} if failed else {},
        encoded(*[1000] * ok),
        encoded(*[500] * miss),
        encoded(*[10] * failed),
    )
    operations = {"put": put} if ok or miss or failed else {}
    return Interval(
        float(index), 0, "measure", index, float(index), 1.0, operations, index, 9
    )


DID = interval(0, ok=2)


def trial(*events: AnyEvent, more: bool = False) -> TrialState:
    """The first trial of a run with those events in it."""
    state = RunState()
    state.apply(
        RunStarted(0.0, "r", "2026-01-01T00:00:00Z", 1, journals.plan("ram"), "0.1")
    )
    state.apply(TrialStarted(0.0, 0, "ram", 1, 1, 1))
    state.apply(PhaseStarted(0.0, 0, "measure"))
    for event in events:
        state.apply(event)
    return state.trials[0]


def measured(elapsed_s: float, attempted: int = 0, **more: Any) -> Measured:
    """The end of the measure phase."""
    return Measured(9.0, 0, elapsed_s, attempted, 0, 0.0, 0.0, 0.0, **more)


def test_totals_are_the_sums_of_the_intervals() -> None:
    """085: by operation, by outcome and by kind of failure."""
    draw, folded = random.Random(1), []
    wanted: dict[str, list[int]] = {"get": [0, 0, 0], "put": [0, 0, 0]}
    latencies: list[int] = []
    for index in range(30):
        operations = {}
        for label in wanted:
            ok, miss, failed = (draw.randrange(4) for _ in range(3))
            values = [draw.randrange(1, 10**9) for _ in range(ok)]
            latencies += values if label == "get" else []
            operations[label] = OperationInterval(
                ok, miss, {"timeout": failed} if failed else {}, encoded(*values)
            )
            for place, number in enumerate((ok, miss, failed)):
                wanted[label][place] += number
        folded.append(
            Interval(
                float(index),
                0,
                "measure",
                index,
                float(index),
                1.0,
                operations,
                index,
                30,
                read_bytes=10,
                written_bytes=20,
            )
        )
    found = trial(*folded)
    for label, (ok, miss, failed) in wanted.items():
        totals = found.operations[label]
        assert (totals.ok, totals.miss, totals.failures) == (ok, miss, failed)
        assert totals.finished == ok + miss + failed
        assert totals.latency.count == ok
    assert found.ok == sum(each[0] for each in wanted.values())
    assert found.miss == sum(each[1] for each in wanted.values())
    assert found.failed == sum(each[2] for each in wanted.values())
    assert found.completed == found.ok + found.miss
    assert (found.read_bytes, found.written_bytes) == (300, 600)
    merged = Latency()
    merged.add(encoded(*latencies))
    asked = (0, 50, 90, 99, 99.9, 100)
    get = found.operations["get"].latency
    assert get.percentiles(*asked) == merged.percentiles(*asked)


def test_quiet_seconds_are_kept() -> None:
    """A stall is a row of zeros, not a gap."""
    found = trial(interval(0, 5), interval(1), interval(2), interval(3, 7))
    rates = [found.interval_rate(each) for each in found.intervals]
    assert rates == [5.0, 0.0, 0.0, 7.0]
    assert found.ok == 12
    assert found.elapsed_s == 4.0


def test_throughput_counts_neither_failures_nor_the_time_around() -> None:
    """067, 068, 076: successes from the first request to the last reply."""
    found = trial(interval(0, 100, 20, 300), measured(2.0, 420))
    assert found.throughput == 60.0
    assert found.elapsed_s == 2.0


@pytest.mark.parametrize("events", [[], [interval(0)], [measured(0.0)]])
def test_nothing_measured_is_none(events: list[AnyEvent]) -> None:
    """Rule 6: no 0, no NaN, no huge number."""
    found = trial(*events)
    assert found.throughput in (None, 0.0)
    if not events or isinstance(events[0], Measured):
        assert found.throughput is None
    assert found.operations["get"].latency.percentiles(50) == [None]
    assert found.operations["get"].latency.max_ns is None


def test_an_interval_without_length_has_no_rate() -> None:
    found = trial(Interval(0.0, 0, "measure", 0, 0.0, 0.0, {}, 0, 0))
    assert found.interval_rate(found.intervals[0]) == 0.0


def test_only_the_measure_phase_is_the_headline() -> None:
    other = Interval(
        1.0, 0, "warm-up", 0, 0.0, 1.0, {"get": OperationInterval(1000)}, 1, 1
    )
    found = trial(other, interval(0, 5))
    assert found.ok == 5
    assert len(found.intervals) == 1


def verified(checked: int, expected: int, wrong: int = 0, **more: Any) -> Verified:
    return Verified(1.0, 0, checked, expected, wrong, **more)


SEEN = StoreSeen(0.0, 0, "v", "a", "memory", "calls", True)
SEEN_NULL = StoreSeen(0.0, 0, "", "in process", "none", "calls", False)


@pytest.mark.parametrize(
    ("events", "rank", "words"),
    [
        ([SEEN, DID, verified(9071, 9071)], True, "9,071 of 9,071"),
        ([SEEN, verified(9071, 9071)], False, "9,071 of 9,071"),
        ([SEEN, verified(9071, 9071, 1)], False, "1 wrong of 9,071"),
        ([SEEN, verified(9000, 9071)], False, "only 9,000 of 9,071"),
        ([SEEN, verified(9, 90, sampled=True)], False, "sampled 9 of 90"),
        ([SEEN], False, ""),
        ([SEEN_NULL], False, "not kept"),
        ([SEEN, interval(0, 9, 0, 1), verified(9, 9)], False, "9 of 9"),
        ([SEEN, verified(0, 0)], False, ""),
    ],
)
def test_who_may_be_ranked(events: list[AnyEvent], rank: bool, words: str) -> None:
    found = trial(*events, TrialFinished(9.0, 0, "done"))
    assert found.kept_everything is rank
    assert found.verification == words


@pytest.mark.parametrize("outcome", ["failed", "stopped", "skipped", None])
def test_what_did_not_end_well_has_no_rank(outcome: Any) -> None:
    ended = [TrialFinished(9.0, 0, outcome)] if outcome else []
    assert not trial(SEEN, verified(9, 9), *ended).kept_everything


def test_events_of_unknown_trials_are_left_out() -> None:
    state = RunState()
    for event in (
        interval(0, 5),
        measured(1.0),
        verified(1, 1),
        PhaseStarted(0.0, 7, "load"),
        Faulted(0.0, 7, "get", "timeout", "x", 0.0),
        Progress(0.0, 7, "verify", 1, 2),
        TrialFinished(3.0, 7, "done"),
    ):
        state.apply(event)
    assert state.trials == []
    assert state.current is None
    assert state.at_s == 9.0


def test_a_whole_run_from_its_events() -> None:
    state = RunState()
    for event in journals.events("null", "ram", "redis-tcp"):
        state.apply(event)
    assert [each.store for each in state.trials] == ["null", "ram", "redis-tcp"]
    assert [each.outcome for each in state.trials] == ["done", "done", "failed"]
    assert state.outcome == "done"
    assert state.current is None
    assert state.trials_planned == 3
    assert state.trials[2].reason.startswith("get: timeout")
    assert state.trials[2].faults[0].kind == "timeout"
    assert len(state.system) == sum(len(each.intervals) for each in state.trials)


def test_time_never_goes_back() -> None:
    state = RunState()
    state.apply(Note(5.0, "info", "x"))
    state.apply(System(3.0, 0.5, 2.0))
    state.apply(RunFinished(4.0, "done"))
    assert state.at_s == 5.0
    assert len(state.system) == 1
