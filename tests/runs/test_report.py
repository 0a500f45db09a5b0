"""The ranking: who has a rank, in what order, and how it looks."""

from __future__ import annotations

import statistics

import msgspec
import pytest

from kvtui.runs import report, report_text
from kvtui.runs.events import (
    AnyEvent,
    Interval,
    Measured,
    OperationInterval,
    PhaseStarted,
    RunFinished,
    RunStarted,
    StoreSeen,
    TrialFinished,
    TrialStarted,
    Verified,
)
from kvtui.runs.latency import new_histogram
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import RunState
from kvtui.tables import Column, paragraph, table
from kvtui.text import cells
from tests import journals


def folded(*events: AnyEvent) -> RunState:
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def encoded(*latencies_ns: int) -> str:
    histogram = new_histogram()
    for each in latencies_ns:
        histogram.record_value(each)
    return str(histogram.encode().decode("ascii"))


def plan(*stores: str, repeat: int = 1) -> RunPlan:
    return RunPlan(
        WorkloadPlan("fans", {"mode": "record"}),
        tuple(StorePlan(name, name.partition(":")[0]) for name in stores),
        repeat=repeat,
    )


def trial(
    number: int,
    store: str,
    elapsed_s: float = 2.0,
    *,
    repeat: int = 1,
    latencies_ns: tuple[int, ...] = (1000,) * 10,
    attempted: int | None = None,
    failed: dict[str, int] | None = None,
    wrong: int = 0,
    keeps: bool = True,
    verified: bool = True,
    outcome: str = "done",
    reason: str = "",
) -> list[AnyEvent]:
    """A trial of so many gets."""
    ok = len(latencies_ns)
    failed = failed or {}
    if attempted is None:
        attempted = ok + sum(failed.values())
    gets = OperationInterval(ok, 0, failed, encoded(*latencies_ns))
    events: list[AnyEvent] = [
        TrialStarted(0.0, number, store, repeat, 8, 1),
        StoreSeen(0.0, number, "v1", "here", "OS cache", "wire, x", keeps),
        PhaseStarted(0.0, number, "measure"),
        Interval(0.0, number, "measure", 0, 0.0, elapsed_s, {"get": gets}, 1, 1),
        Measured(0.0, number, elapsed_s, attempted, 0, 0.0, 1.0, 2.0),
    ]
    if verified:
        events.append(Verified(0.0, number, 100, 100, wrong, "x: 1, not 2"))
    events.append(TrialFinished(0.0, number, outcome, reason))  # type: ignore[arg-type]
    return events


def run(run_plan: RunPlan, *events: AnyEvent) -> RunState:
    return folded(
        RunStarted(0.0, "r", "2026-01-02T03:04:05Z", 1, run_plan, "0.1"),
        *events,
        RunFinished(9.0, "done"),
    )


def text(
    made: report.Report, width: int | None = None, ascii_only: bool = False
) -> str:
    return "\n".join(report_text.lines(made, width, ascii_only=ascii_only))


def test_the_quickest_store_that_kept_everything_is_first():
    made = report.report(
        run(
            plan("null", "redis", "ram"),
            *trial(0, "null", 0.5, keeps=False, verified=False),
            *trial(1, "redis", 6.0),
            *trial(2, "ram", 2.0),
        )
    )
    assert [(row.rank, row.store) for row in made.ranking] == [
        (1, "ram"),
        (2, "redis"),
        (None, "null"),
    ]
    assert [row.times_ram for row in made.ranking] == [1.0, 3.0, 0.25]
    assert "not kept" in made.ranking[2].reason
    assert report.failed_stores(made) == []


@pytest.mark.parametrize(
    ("trial_of", "reason"),
    [
        (trial(0, "ram", wrong=3), "3 of 100 records are wrong; first x: 1, not 2"),
        (trial(0, "ram", failed={"timeout": 2}), "2 operations failed"),
        (trial(0, "ram", outcome="failed", reason="it died"), "failed: it died"),
        (trial(0, "ram", verified=False), "not verified"),
        (trial(0, "ram", attempted=11), "do not add up: 11 attempted, 10 accounted"),
        ([], "not run"),
        (trial(0, "ram")[:-2], "not finished"),
    ],
)
def test_a_store_that_kept_less_has_no_rank_and_a_reason(trial_of, reason):
    made = report.report(run(plan("ram"), *trial_of))
    (row,) = made.ranking
    assert row.rank is None
    assert reason in row.reason
    assert report.failed_stores(made) == [row]
    assert f"no rank: ram: {row.reason}" in text(made)


def test_of_a_trial_whose_totals_disagree_no_figure_is_shown():
    (row,) = report.report(run(plan("ram"), *trial(0, "ram", attempted=11))).ranking
    assert row.elapsed_s is row.attempted is row.throughput_per_s is None
    assert row.operations == {}


def test_repeats_are_ranked_by_the_median_and_show_the_spread():
    lengths = [3.0, 1.0, 8.0]
    events = [
        event
        for number, length in enumerate(lengths)
        for event in trial(number, "ram", length, repeat=number + 1)
    ]
    made = report.report(run(plan("ram", repeat=3), *events))
    (row,) = made.ranking
    assert row.elapsed_s == statistics.median(lengths)
    assert (row.elapsed_min_s, row.elapsed_max_s) == (1.0, 8.0)
    assert row.attempted == 30
    assert "1.00–8.00" in text(made)


def test_percentiles_of_repeats_come_from_merged_histograms():
    made = report.report(
        run(
            plan("ram", repeat=2),
            *trial(0, "ram", latencies_ns=(1_000_000,) * 990),
            *trial(1, "ram", repeat=2, latencies_ns=(1_000_000_000,) * 10),
        )
    )
    get = made.ranking[0].operations["get"]
    # A mean of the two p99 would be half a second.
    assert get.p99_ns == pytest.approx(1_000_000, rel=0.002)
    assert get.p99_9_ns == pytest.approx(1_000_000_000, rel=0.002)


def test_one_failed_repeat_costs_the_rank_and_says_which():
    made = report.report(
        run(
            plan("ram", repeat=2),
            *trial(0, "ram"),
            *trial(1, "ram", repeat=2, wrong=1),
        )
    )
    assert made.ranking[0].rank is None
    assert "(repeat 2)" in made.ranking[0].reason


def test_a_stop_says_nothing_against_the_repeats_before_it():
    events = [
        *trial(0, "ram"),
        *trial(1, "ram", repeat=2, verified=False, outcome="stopped"),
    ]
    made = report.report(run(plan("ram", repeat=2), *events))
    assert made.ranking[0].rank == 1
    assert "1 of 2 repeats" in text(made)


def test_a_runner_that_died_interrupts_its_trial():
    state = folded(
        RunStarted(0.0, "r", "2026-01-02T03:04:05Z", 1, plan("ram"), "0.1"),
        *trial(0, "ram")[:-2],
    )
    (row,) = report.report(state, cut_off=True).ranking
    assert row.reason == "interrupted: the runner died"


@pytest.mark.parametrize("width", [80, 120, 200])
def test_it_fits_the_terminal(width):
    state = folded(
        *journals.events("null", "ram", "redis-unix", "redis-tcp", "leveldb")
    )
    for line in report_text.lines(report.report(state), width):
        assert cells(line) <= width


def test_hostile_texts_are_shown_letter_for_letter():
    for hostile in journals.HOSTILE:
        state = folded(*journals.events("ram", "redis-tcp", hostile=hostile))
        for line in report_text.lines(report.report(state), 80):
            assert "\x1b" not in line
            assert "\n" not in line
            assert "\u202e" not in line


def test_ascii_is_ascii_and_stays_aligned():
    state = folded(*journals.events("null", "ram", "redis-unix"))
    shown = text(report.report(state), ascii_only=True)
    assert shown.isascii()
    head, *rows = shown.splitlines()[:4]
    at = head.index("verified")
    assert all(row[at - 1] == " " and row[at] != " " for row in rows)


def test_the_report_is_json():
    state = folded(*journals.events("null", "ram", "redis-tcp"))
    made = report.report(state)
    assert msgspec.json.decode(msgspec.json.encode(made), type=report.Report) == made


def test_a_run_that_has_not_begun_has_a_report():
    assert text(report.report(RunState())) == "no store was run"


def test_columns_are_aligned_by_cells():
    lines = table(
        [Column("name"), Column("n", True)],
        [["日本語ページ", "1"], ["cafe\u0301", "22"], ["x", "333"]],
    )
    assert {cells(line) for line in lines} == {len("日本語ページ") * 2 + 2 + 3}


def test_a_column_that_gives_way_is_cut():
    lines = table([Column("name", gives_way=True), Column("n")], [["x" * 50, "1"]], 20)
    assert cells(lines[1]) == 20
    assert "…" in lines[1]


def test_a_paragraph_keeps_its_indents_and_its_words():
    lines = paragraph("  one two three " + "long" * 10, 12, "    ")
    assert lines == ["  one two", "    three", "    " + "long" * 10]
