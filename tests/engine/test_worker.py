"""A worker by itself: orders in, messages out."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter_ns

from kvtui.engine.messages import (
    Finish,
    Go,
    MeasuredPart,
    Message,
    Report,
    WorkerPlan,
)
from kvtui.engine.worker import Orders, work
from kvtui.jobs.fans.workload import FansWorkload


def told(data: Path, begin_ns: int, *, mine: tuple[int, ...]) -> list[Message]:
    """What a worker says that hears to begin at ``begin_ns``."""
    parameters = {"data": str(data)}
    prepared = data.parent / "prepared"
    FansWorkload.prepare(parameters, prepared, lambda _: None)
    orders, messages = Orders(), list[Message]()
    plan = WorkerPlan(
        0, "ram", {}, "calls", mine, 2, "fans", parameters, str(prepared), 10.0
    )
    for order in (plan, Go(begin_ns), Finish()):
        orders.put(order)
    work(orders, messages.append)
    return messages


def part(messages: list[Message]) -> MeasuredPart:
    """Its sums."""
    (found,) = (each for each in messages if isinstance(each, MeasuredPart))
    return found


def test_a_worker_that_comes_late_counts_from_the_agreed_moment(
    tmp_path: Path,
) -> None:
    """Else the time before the last worker began would be left out of the elapsed
    time, and the throughput of many workers would be too high."""
    data = tmp_path / "people.tsv"
    data.write_text("a\tb\nb\tc\n")
    messages = told(data, perf_counter_ns() - 5_000_000_000, mine=(0, 1))
    measured = part(messages)
    assert measured.attempted == measured.finished == 8
    assert measured.first_s is not None
    assert measured.last_s is not None
    assert 5 <= measured.first_s <= measured.last_s
    reports = [each for each in messages if isinstance(each, Report)]
    assert reports[0].start_s == 0
    assert reports[-1].start_s + reports[-1].length_s >= measured.last_s


def test_nothing_begins_before_the_agreed_moment(tmp_path: Path) -> None:
    data = tmp_path / "people.tsv"
    data.write_text("a\tb\n")
    begin_ns = perf_counter_ns() + 50_000_000
    measured = part(told(data, begin_ns, mine=(0, 1)))
    assert perf_counter_ns() >= begin_ns
    assert measured.first_s is not None
    assert measured.first_s >= 0


def test_a_worker_with_nothing_to_do_has_no_times(tmp_path: Path) -> None:
    data = tmp_path / "people.tsv"
    data.write_text("\n\n")
    measured = part(told(data, perf_counter_ns(), mine=(0,)))
    assert (measured.attempted, measured.first_s, measured.last_s) == (0, None, None)
