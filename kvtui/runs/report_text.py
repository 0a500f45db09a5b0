"""A run's ranking as plain text, for a terminal of any width or for a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, TypeAlias

from kvtui.runs.report import Report, StoreRow, operation_order
from kvtui.tables import Column, ascii_letters, breadth, paragraph, table
from kvtui.text import (
    NOTHING,
    count,
    cut,
    duration,
    percent,
    rate,
    seconds,
    size,
    times,
    visible,
)

NAME_LIMIT: Final = 200
_WORK: Final = {
    "fans": "decode, change, encode",
    "http": "compare",
    **dict.fromkeys((f"ycsb-{letter}" for letter in "abcdef"), "draw, make, compare"),
}
"""What a workload's own work is."""
SHORT_NAME: Final = 16
"""Cells of a store's name before its further columns on a narrow terminal."""

Pairs: TypeAlias = list[tuple[Column, list[str]]]
"""Columns and their cells."""


def lines(
    made: Report, width: int | None = None, *, ascii_only: bool = False
) -> Iterator[str]:
    """The ranking in lines of at most ``width`` cells; None means as wide as it is.

    A table that is too wide is divided in two.
    """
    shown = _Shown(made, width, ascii_only)
    yield from shown.tables()
    yield from shown.details()
    yield from shown.data()


def nothing_succeeded(
    made: Report, width: int | None = None, *, ascii_only: bool = False
) -> Iterator[str]:
    """What must be seen first: a store of which every operation failed, with the most
    frequent kind of failure and what was said then."""
    for row in made.ranking:
        if not row.failed or row.ok or row.miss:
            continue
        kinds: Counter[str] = Counter()
        for operation in row.operations.values():
            kinds.update(operation.failed)
        noun = "requests" if made.workload == "http" else "operations"
        line = f"0 successful {noun} of {count(row.attempted or 0)}: {_name(row)}"
        for kind, number in kinds.most_common(1):
            said = next((each.message for each in row.faults if each.kind == kind), "")
            line += f", {count(number)} times {visible(kind)} ({visible(said, 300)})"
        yield from paragraph(ascii_letters(line) if ascii_only else line, width, "  ")


class _Shown:
    """One report being written."""

    def __init__(self, made: Report, width: int | None, ascii_only: bool) -> None:
        self._made, self._width = made, width
        self._letters = ascii_letters if ascii_only else str

    def _say(self, text: str, indent: str = "") -> list[str]:
        return paragraph(self._letters(text), self._width, indent)

    def tables(self) -> Iterator[str]:
        """The ranking itself, and under it why a store has no rank."""
        rows = self._made.ranking
        if not rows:
            yield "no store was run"
            return
        name, groups = self._name(), self._operations()
        whole = [*name, *self._result(), *chain(*groups), *self._end()]
        if self._width is None or self._breadth(whole) <= self._width:
            yield from self._table(whole)
        else:
            yield from self._table([*name, *self._result(), *self._end()])
            for part in self._packed(groups, self._width):
                yield ""
                yield from self._table([self._short_name(), *part])
        unranked = [row for row in rows if row.reason]
        if unranked:
            yield ""
        for row in unranked:
            said = f"no rank: {_name(row)}: {visible(row.reason)}"
            yield from self._say(said, "  ")

    def _packed(self, groups: list[Pairs], width: int) -> Iterator[Pairs]:
        """As many groups of columns beside each other as there is room for."""
        part: Pairs = []
        for group in groups:
            if part and self._breadth([self._short_name(), *part, *group]) > width:
                yield part
                part = []
            part = [*part, *group]
        if part:
            yield part

    def _table(self, pairs: Pairs) -> list[str]:
        columns, rows = self._turned(pairs)
        return table(columns, rows, self._width)

    def _breadth(self, pairs: Pairs) -> int:
        return breadth(*self._turned(pairs))

    def _turned(self, pairs: Pairs) -> tuple[list[Column], list[list[str]]]:
        columns = [
            column._replace(head=self._letters(column.head)) for column, _ in pairs
        ]
        turned = zip(*(cells for _, cells in pairs), strict=True)
        return columns, [[self._letters(cell) for cell in row] for row in turned]

    def _column(
        self, head: str, cells: Iterable[str], right: bool = True
    ) -> tuple[Column, list[str]]:
        return Column(head, right, gives_way=head == "store"), list(cells)

    def _name(self) -> Pairs:
        rows = self._made.ranking
        return [
            self._column("rank", (str(row.rank or NOTHING) for row in rows)),
            self._column("store", map(_name, rows), False),
        ]

    def _short_name(self) -> tuple[Column, list[str]]:
        rows = self._made.ranking
        return self._column("store", (cut(_name(r), SHORT_NAME) for r in rows), False)

    def _result(self) -> Pairs:
        rows = self._made.ranking
        columns = [
            self._column("client", map(_client, rows), False),
            self._column("seconds", (_seconds(row.elapsed_s) for row in rows)),
        ]
        if self._made.repeat > 1:
            columns.append(self._column("min–max", map(_spread, rows)))
        if any(row.times_ram for row in rows):
            columns.append(self._column("× ram", (times(r.times_ram) for r in rows)))
        columns.append(
            self._column("ops/s", (rate(row.throughput_per_s) for row in rows))
        )
        return columns

    def _operations(self) -> list[Pairs]:
        """A group of columns for each kind of operation, and the bytes."""
        rows = self._made.ranking
        groups = []
        for label in sorted(
            {each for row in rows for each in row.operations}, key=operation_order
        ):
            group = []
            for head, field in (
                ("p50", "p50_ns"),
                ("p99", "p99_ns"),
                ("p99.9", "p99_9_ns"),
            ):
                values = [
                    getattr(row.operations.get(label), field, None) for row in rows
                ]
                if any(value is not None for value in values):
                    cells = map(duration, values)
                    group.append(self._column(f"{label} {head}", cells))
            if group:  # none where every get was a miss
                groups.append(group)
        if groups:
            groups.append(
                [
                    self._column("read", (size(row.read_bytes) for row in rows)),
                    self._column("written", (size(r.written_bytes) for r in rows)),
                ]
            )
        return groups

    def _end(self) -> Pairs:
        rows = self._made.ranking
        return [
            self._column("verified", map(_verified, rows), False),
            self._column("bound by", (row.verdict or NOTHING for row in rows), False),
        ]

    def details(self) -> Iterator[str]:
        """A paragraph a store: where the time went, and what was measured."""
        for row in self._made.ranking:
            told = list(_details(row, self._made))
            if not told:
                continue
            yield ""
            yield from self._say(f"{_name(row)}: {told[0]}", "  ")
            for text in told[1:]:
                yield from self._say(f"  {text}", "    ")

    def data(self) -> Iterator[str]:
        """What was read, what was left out of it, and what else there is to know."""
        made = self._made
        facts = made.data
        if facts:
            yield ""
            yield from self._say(f"data: {_facts(facts)}", "  ")
        if made.bad_lines:
            told = len(made.first_bad_lines)
            first = f"; the first {told}" if told < made.bad_lines else ""
            yield from self._say(
                f"  {made.bad_lines:,} bad lines were left out{first}:", "    "
            )
            for number, reason in made.first_bad_lines:
                yield from self._say(
                    f"    line {number:,}: {visible(reason)}", "      "
                )
        for note in made.notes:
            yield from self._say(f"note: {visible(note)}", "  ")


def _facts(facts: dict[str, int | float | str]) -> str:
    if "source" in facts:
        names = ["profiles", "pages", "memberships", "body bytes"]
    else:
        names = [name for name, value in facts.items() if not isinstance(value, str)]
    numbers = ", ".join(
        f"{count(value)} {visible(name)}"
        for name in names
        if isinstance(value := facts.get(name), int)
    )
    if "source" in facts:
        return f"{visible(str(facts['source']))}: {numbers}"
    words = [
        f"{visible(name)} {visible(value)}"
        for name, value in facts.items()
        if isinstance(value, str)
    ]
    return ", ".join([numbers, *words])


def _name(row: StoreRow) -> str:
    return visible(row.store, NAME_LIMIT)


def _client(row: StoreRow) -> str:
    return visible((row.client or NOTHING).partition(",")[0], 20)


def _seconds(length_s: float | None) -> str:
    if length_s is None:
        return NOTHING
    return f"{length_s:,.2f}" if length_s >= 0.995 else f"{length_s:.3f}"


def _length(length_s: float) -> str:
    return seconds(length_s) if length_s >= 1 else duration(length_s * 1e9)


def _spread(row: StoreRow) -> str:
    if row.repeats < 2:
        return NOTHING
    return f"{_seconds(row.elapsed_min_s)}–{_seconds(row.elapsed_max_s)}"


def _verified(row: StoreRow) -> str:
    if not row.keeps:
        return "not kept"
    if row.records_checked is None or row.records_expected is None:
        return NOTHING
    if not row.records_expected:
        return NOTHING  # Reading once more would have changed something.
    if row.records_wrong:
        return f"{row.records_wrong:,} wrong"
    if row.records_checked == row.records_expected:
        return f"all {row.records_checked:,}"
    return f"{row.records_checked:,} of {row.records_expected:,}"


def _details(row: StoreRow, made: Report) -> Iterator[str]:
    repeat = made.repeat
    if row.client is not None:
        yield "; ".join(filter(None, _what(row)))
    if row.client_work_s is not None and row.store_s is not None:
        both = row.client_work_s + row.store_s
        share = percent(row.client_work_s / both) if both else NOTHING
        # Threads of one interpreter take turns: their own time holds the waiting.
        turns = row.clients > 1 and not (row.client or "").startswith("wire")
        yield (
            f"time, summed over {row.clients:,} client{'s'[: row.clients != 1]}: own"
            f" work ({_WORK.get(made.workload, 'of the workload')}"
            f"{', waiting for a turn' * turns})"
            f" {_length(row.client_work_s)}, store {_length(row.store_s)};"
            f" {share} own work"
        )
    if row.load is not None:
        load = row.load
        took = "" if load.elapsed_s is None else f" in {_length(load.elapsed_s)}"
        failed = f", {load.failed:,} failed" if load.failed else ""
        yield (
            f"loaded before: {count(load.ok)} records{took},"
            f" {rate(load.throughput_per_s)} a second; put p50"
            f" {duration(load.p50_ns)}, p99 {duration(load.p99_ns)}{failed}"
        )
    if row.attempted is not None:
        yield (
            f"operations: {count(row.attempted)} attempted = {count(row.ok)} ok"
            f" + {count(row.miss)} miss + {count(row.failed)} failed"
            f" + {count(row.unfinished)} unfinished"
        )
    if row.figures:
        yield ", ".join(_figures(row.figures))
    if row.verdict_reason:
        yield f"bound by: {row.verdict}, {row.verdict_reason}"
    if repeat > 1 and row.repeats < row.planned:
        yield f"{row.repeats} of {row.planned} repeats"
    for note in row.notes:
        yield visible(note)
    for fault in row.faults:
        turn = f" in repeat {fault.repeat}" if repeat > 1 else ""
        yield (
            f"first {visible(fault.kind)} of {fault.operation} after"
            f" {seconds(fault.phase_s)}{turn}: {visible(fault.message, 300)}"
        )


def _what(row: StoreRow) -> Iterator[str]:
    yield visible(row.version or "")
    yield visible(row.address or "")
    if row.durability:
        yield f"durability: {visible(row.durability)}"
    yield visible(row.client or "")
    if row.compression:
        yield f"compression {visible(row.compression)}"
    if row.memory_limit and row.memory_limit != "none":
        yield f"memory limit {visible(row.memory_limit)}"
    if row.eviction:
        yield f"eviction {visible(row.eviction)}"
    if row.workers > 1:
        yield f"{row.workers} workers"


def _figures(figures: dict[str, int]) -> Iterator[str]:
    lookups, hits = figures.get("cache lookups"), figures.get("cache hits")
    for name, number in figures.items():
        if name == "cache lookups" and hits is not None:
            continue
        if name == "cache hits" and lookups:
            yield (
                f"cache hits {count(number)} of {count(lookups)} lookups"
                f" ({percent(number / lookups, 1)})"
            )
        else:
            yield f"{visible(name)} {count(number)}"
