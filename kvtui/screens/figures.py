"""A run's state in words and cells: what the live screen's parts show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvtui.runs.follow import left_s, rate_now, share_of_phase
from kvtui.runs.state import RunState, TrialState
from kvtui.runs.verdict import Verdict, verdict
from kvtui.screens.watch import Watch
from kvtui.screens.widgets.lines import Line, paragraph
from kvtui.text import (
    Glyphs,
    bar,
    count,
    duration,
    fit,
    percent,
    rate,
    seconds,
    size,
    spark,
    visible,
)

RECENT = "last 40 s"
RECENT_S = 40
"""How many seconds a sparkline shows."""


class Row(NamedTuple):
    """A trial, started or not."""

    number: int
    store: str
    repeat: int
    trial: TrialState | None

    def label(self, state: RunState) -> str:
        """The store, with the repeat where there are several."""
        several = state.plan is not None and state.plan.repeat > 1
        return visible(f"{self.store} #{self.repeat}" if several else self.store)


def rows(state: RunState) -> list[Row]:
    """Every trial of the plan in order, with what is known of it."""
    if state.plan is None:
        trials = state.trials
        return [Row(each.number, each.store, each.repeat, each) for each in trials]
    started = {trial.number: trial for trial in state.trials}
    return [
        Row(number, store.name, repeat, started.get(number))
        for number, store, repeat in state.plan.trials()
    ]


class Column(NamedTuple):
    """A column of the table of trials."""

    name: str
    width: int
    right: bool = True


def columns(width: int) -> list[Column]:
    """The columns that ``width`` cells have room for, in order."""
    chosen = [
        Column("store", 10, False),
        Column("phase", 8, False),
        Column("progress", 12, False),
        Column("ops/s", 7),
        Column("p50", 7),
        Column("p99", 7),
        Column("p99.9", 7),
        Column("miss", 5),
        Column("fail", 5),
    ]
    room = width - _total(chosen)
    for dropped in ("miss", "p50", "p99.9"):
        if room < (7 if width > 70 else 0):
            chosen = [each for each in chosen if each.name != dropped]
            room = width - _total(chosen)
    if room >= 7:
        recent = min(RECENT_S, room - 1)
        if room > 30:
            recent = min(RECENT_S, room - 15)
        name = RECENT if recent >= len(RECENT) else "40 s"
        chosen.insert(4, Column(name, recent, False))
        room = width - _total(chosen)
    if room >= 10:
        chosen.append(Column("bound by", 8, False))
        room = width - _total(chosen)
    if room > 0:
        store = min(20, chosen[0].width + room)
        chosen[0] = chosen[0]._replace(width=store)
    room = width - _total(chosen)
    if room > 0:
        wider = min(24, chosen[2].width + room)
        chosen[2] = chosen[2]._replace(width=wider)
    return chosen


def _total(chosen: list[Column]) -> int:
    return sum(each.width + 1 for each in chosen) - 1


def header(width: int) -> Line:
    """The names of the columns."""
    return [
        (fit(each.name, each.width, right=each.right) + " ", "dim")
        for each in columns(width)
    ]


class Cells:
    """Cells of a trial's row. Percentiles are kept until there are more."""

    def __init__(self, glyphs: Glyphs) -> None:
        self.glyphs = glyphs
        self.operation = "get"
        self._bounds: dict[tuple[int, str | None], Verdict | None] = {}
        self._percentiles: dict[tuple[int, str], tuple[int, list[int | None]]] = {}

    def percentiles(self, trial: TrialState, operation: str) -> list[int | None]:
        """p50, p99 and p99.9 of the operations that were ok."""
        totals = trial.operations.get(operation)
        if totals is None:
            return [None, None, None]
        key, counted = (trial.number, operation), totals.latency.count
        kept = self._percentiles.get(key)
        if kept is None or kept[0] != counted:
            kept = counted, totals.latency.percentiles(50, 99, 99.9)
            self._percentiles[key] = kept
        return kept[1]

    def bound(self, state: RunState, trial: TrialState) -> Verdict | None:
        """What bounded the trial; looked for once it has been measured."""
        if trial.measured is None:
            return None
        key = trial.number, trial.outcome
        if key not in self._bounds:
            self._bounds[key] = verdict(state, trial)
        return self._bounds[key]

    def row(self, row: Row, watch: Watch, width: int) -> Line:
        """The whole row in ``width`` cells."""
        line: Line = []
        for column in columns(width):
            text, style = self._cell(column, row, watch)
            line.append((fit(text, column.width, right=column.right), style))
            line.append((" ", ""))
        return line

    def _cell(self, column: Column, row: Row, watch: Watch) -> tuple[str, str]:
        trial = row.trial
        match column.name:
            case "store":
                return row.label(watch.state), "bold"
            case "phase":
                return phase(row, watch)
            case "progress":
                return self._progress(row, watch, column.width)
        if trial is None:
            return "", ""
        quantiles = ("p50", "p99", "p99.9")
        if column.name in quantiles:
            values = self.percentiles(trial, self.operation)
            return duration(values[quantiles.index(column.name)]), ""
        match column.name:
            case "bound by":
                bound = self.bound(watch.state, trial)
                return (bound.word if bound else ""), ""
            case "ops/s":
                return rate(rate_now(trial)), ""
            case "miss":
                return short_count(trial.miss), ""
            case "fail":
                return short_count(trial.failed), "bad" if trial.failed else ""
        return spark(recent_rates(trial, column.width), self.glyphs, None), "chart"

    def _progress(self, row: Row, watch: Watch, width: int) -> tuple[str, str]:
        trial = row.trial
        if trial is None:
            return "", ""
        if trial.outcome is not None:
            return worth(trial, self.glyphs, width)
        share = share_of_phase(trial)
        if share is None:
            return "", ""
        still_s = left_s(trial, watch.state.at_s)
        said = f"{percent(share):>5}"
        if still_s is not None and width >= 12:
            said += f" {'~' + short_time(still_s):>6}"
        if width >= 18:
            said = f"{bar(share, width - 13, self.glyphs)} {said}"
        return said, ""


def phase(row: Row, watch: Watch) -> tuple[str, str]:
    """What the trial does, or how it ended."""
    trial = row.trial
    over = watch.standing in ("done", "failed", "stopped", "interrupted")
    if trial is None:
        return ("not run", "dim") if over else ("waiting", "dim")
    if trial.outcome is not None:
        styles = {"done": "good", "failed": "bad", "stopped": "warn"}
        return trial.outcome, styles.get(trial.outcome, "dim")
    if over:
        return "lost", "bad"
    return trial.phase or "connect", ""


def worth(trial: TrialState, glyphs: Glyphs, width: int) -> tuple[str, str]:
    """What a finished trial's data is worth, in one cell."""
    verified = trial.verified
    if not trial.keeps:
        return "not kept", "dim"
    if verified is None:
        return "unverified", "warn"
    if not verified.expected:
        return "not read again", "dim"
    if verified.wrong:
        return f"{glyphs.no} {short_count(verified.wrong)} wrong", "bad"
    if verified.checked < verified.expected:
        return f"{percent(verified.checked / verified.expected)} verified", "warn"
    said = f"{glyphs.yes} {trial.verification}"
    return (said if len(said) <= width else f"{glyphs.yes} verified"), "good"


def recent_rates(trial: TrialState, width: int) -> list[float | None]:
    """The rates of the last seconds, as many to a cell as it takes.

    The seconds of a cell stay the same while time goes on, so that the line moves
    and does not flicker.
    """
    each_s = -(-RECENT_S // width)
    count_all = len(trial.intervals)
    first = max(0, -(-count_all // each_s) - RECENT_S // each_s) * each_s
    rates: list[float | None] = []
    for start in range(first, count_all, each_s):
        cell = trial.intervals[start : start + each_s]
        rates.append(sum(map(trial.interval_rate, cell)) / len(cell))
    return rates


def short_time(length_s: float) -> str:
    """A time left in few cells: ``41 s``, ``12 min``, ``3 h``."""
    if length_s < 99.5:
        return f"{length_s:.0f} s"
    if length_s < 5970:
        return f"{length_s / 60:.0f} min"
    return f"{length_s / 3600:.0f} h"


def short_count(number: int) -> str:
    """A count in at most five cells: ``12345``, ``123k``."""
    if number < 100_000:
        return str(number)
    if number < 10_000_000:
        return f"{number // 1000}k"
    return f"{number // 1_000_000}M"


def details(watch: Watch, row: Row, cells: Cells, width: int) -> Iterator[Line]:
    """Everything known of the chosen trial and of the run, most telling first."""
    state, trial = watch.state, row.trial
    if trial is not None:
        yield from _ending(trial, cells.glyphs, width)
        yield from _faults(trial, cells.glyphs, width)
        yield from _operations(trial, cells, width)
        bound = cells.bound(state, trial)
        if bound is not None:
            by = "bound" if bound.word == "unclear" else "bound by"
            yield from paragraph(f"{by} {bound.word}: {bound.reason}", width)
        yield from _store(trial, width)
        yield from _work(trial, width)
    yield from _machine(state, trial, width)
    yield from _notes(state, row, width)
    yield from _data(state, width)


def _ending(trial: TrialState, glyphs: Glyphs, width: int) -> Iterator[Line]:
    if trial.outcome not in (None, "done"):
        said = f"{trial.outcome}: {trial.reason or 'no reason was given'}"
        style = "bad" if trial.outcome == "failed" else "warn"
        yield from paragraph(visible(said), width, style)
    verified = trial.verified
    if verified is not None and verified.wrong:
        said = f"{glyphs.no} {trial.verification} records: {verified.first_wrong}"
        yield from paragraph(visible(said), width, "bad")
    elif verified is not None and trial.keeps and not verified.expected:
        yield [("nothing was read again: that would change something", "dim")]
    elif verified is not None and trial.keeps:
        kept = f", {size(verified.stored_bytes)}" if verified.stored_bytes else ""
        style = "good" if trial.kept_everything else "warn"
        said = f"verified {trial.verification} records{kept}"
        yield [(said, style)]
    elif not trial.keeps:
        yield [("keeps nothing: its figures show what the harness costs", "dim")]


def _faults(trial: TrialState, glyphs: Glyphs, width: int) -> Iterator[Line]:
    for fault in trial.faults:
        said = (
            f"{glyphs.no} {fault.operation} {fault.kind}, first at"
            f" {seconds(fault.phase_s)}: {fault.message}"
        )
        yield from paragraph(visible(said), width, "bad")


def _operations(trial: TrialState, cells: Cells, width: int) -> Iterator[Line]:
    for label, totals in list(trial.operations.items()):
        low, high, highest = cells.percentiles(trial, label)
        said = (
            f"{visible(label):<4} {count(totals.ok)} ok, {count(totals.miss)} miss,"
            f" {count(totals.failures)} failed · p50 {duration(low)}"
            f" p99 {duration(high)} p99.9 {duration(highest)}"
            f" max {duration(totals.latency.max_ns)}"
        )
        if totals.miss and not totals.ok:
            low, high, _ = totals.miss_latency.percentiles(50, 99, 99.9)
            said += f" · misses: p50 {duration(low)} p99 {duration(high)}"
        yield from paragraph(said, width)


def _store(trial: TrialState, width: int) -> Iterator[Line]:
    seen = trial.seen
    many = f"{trial.clients} clients" if trial.clients != 1 else "1 client"
    workers = f"{trial.workers} workers" if trial.workers != 1 else "1 worker"
    if seen is None:
        yield [(f"{many} in {workers}", "")]
        return
    parts = [seen.version, seen.address, f"durability {seen.durability}"]
    parts += [f"by {seen.client}", f"{many} in {workers}"]
    extra = {
        "memory limit": seen.memory_limit,
        "eviction": seen.eviction,
        "compression": seen.compression,
    }
    parts += [f"{name} {value}" for name, value in extra.items() if value]
    parts += [f"{name} {value}" for name, value in seen.details.items()]
    if trial.note:
        parts.append(trial.note)
    said = " · ".join(visible(part, 300) for part in parts if part)
    yield from paragraph(said, width)


def _work(trial: TrialState, width: int) -> Iterator[Line]:
    measured = trial.measured
    if measured is None:
        return
    said = f"{seconds(measured.elapsed_s)}, {count(measured.attempted)} attempted"
    if measured.unfinished:
        said += f", {count(measured.unfinished)} unfinished"
    both_s = measured.client_work_s + measured.store_s
    if both_s > 0:
        said += (
            f" · clients waited {percent(measured.store_s / both_s)} for the store,"
            f" worked {percent(measured.client_work_s / both_s)} themselves"
        )
    for name, value in measured.figures.items():
        said += f" · {visible(name, 60)} {count(value)}"
    yield from paragraph(said, width)


def _machine(state: RunState, trial: TrialState | None, width: int) -> Iterator[Line]:
    if not state.system:
        return
    last = state.system[-1]
    parts = [f"CPU {percent(last.cpu_busy)} of {last.cpus:g}"]
    if trial is not None and trial.outcome is None and trial.intervals:
        interval = trial.intervals[-1]
        if interval.worker_cpu_s and interval.length_s > 0:
            busiest = max(interval.worker_cpu_s) / interval.length_s
            parts.append(f"worker {percent(busiest)}")
        if interval.server_cpu_s is not None and interval.length_s > 0:
            parts.append(f"server {percent(interval.server_cpu_s / interval.length_s)}")
    if last.iowait:
        parts.append(f"waits for disks {percent(last.iowait)}")
    if last.memory_used_bytes:
        parts.append(f"memory {size(last.memory_used_bytes)}")
    for name, (read, written, busy) in list(last.disks.items())[:4]:
        parts.append(
            f"{visible(name, 20)} reads {size(read)}/s writes {size(written)}/s"
            f" busy {percent(busy)}"
        )
    yield from paragraph(" · ".join(parts), width)


def _notes(state: RunState, row: Row, width: int) -> Iterator[Line]:
    for note in state.notes[-20:]:
        if note.trial in (None, row.number):
            style = {"error": "bad", "warning": "warn"}.get(note.level, "")
            yield from paragraph(visible(note.text), width, style)


def _data(state: RunState, width: int) -> Iterator[Line]:
    data = state.data
    if data is None or not (data.facts or data.bad_lines):
        return  # A workload may need no data.
    numbers = [
        f"{count(value)} {visible(name, 60)}"
        for name, value in data.facts.items()
        if isinstance(value, int)
    ]
    words = [
        f"{visible(name, 60)} {_fact(value)}"
        for name, value in data.facts.items()
        if not isinstance(value, int)
    ]
    said = "data: " + " · ".join(numbers + words)
    if data.bad_lines:
        said += f" · {count(data.bad_lines)} bad line{'s' * (data.bad_lines != 1)}"
    yield from paragraph(said, width, "dim")
    for number, reason in data.first_bad[:5]:
        yield from paragraph(visible(f"  line {number}: {reason}"), width, "warn")


def _fact(value: float | str) -> str:
    if isinstance(value, str):
        # A digest says enough with its beginning.
        return visible(value, 40) if len(value) < 64 else f"{visible(value[:12])}…"
    return f"{value:,.2f}"


def chart_values(trial: TrialState) -> list[float | None]:
    """Answered operations a second, for every second of the measure phase."""
    return [trial.interval_rate(each) for each in trial.intervals]
