"""The YCSB core workloads: records are loaded, then read, changed, added and scanned.

Operations are made in slices, ahead of their turn: draws, keys and values come from
numpy, and a client only hands them out and keeps what comes back. A slice's replies
are compared when it is over, in the client's own time, not in the store's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import compress, repeat
from operator import length_hint
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvtui.errors import OperationFailed
from kvtui.jobs.workload import Findings, Keep, Keeper, Prepared, Room, Workload
from kvtui.jobs.ycsb import parameters, stream
from kvtui.jobs.ycsb.batches import Batches, Rows
from kvtui.jobs.ycsb.ledger import CHAIN, FIRST, MAYBE, STEP, Ledger
from kvtui.jobs.ycsb.verification import LOST, STALE, WRONG, Checker, Tally
from kvtui.stores.operations import Burst, Client, Replies

Item = TypeVar("Item")

FIGURES: Final = {
    WRONG: "wrong values read",
    LOST: "lost values read",
    STALE: "stale values read",
}
"""The figures that say what the clients were given."""
COMPARED: Final = "values compared"
SKIPPED: Final = "updates skipped"
"""Writes of a read-modify-write whose read failed."""


class YcsbWorkload(Workload):
    """One of YCSB's core workloads; a subclass a file of theirs."""

    namespace: ClassVar[str] = "ycsb"
    fills: ClassVar[bool] = True
    bursts: ClassVar[bool] = True

    def __init__(self, given: dict[str, Any], directory: Path) -> None:
        self.parameters = parameters.check(self.name, given)
        self._mix = parameters.mix(self.name, self.parameters)
        self.mine: tuple[int, ...] = ()
        """The clients of this worker."""
        self._keeps = True
        self._shared: Path | None = None
        self._batches = Batches(self.parameters, self.namespace)
        self._inserted: dict[int, int] = {}
        self._done: dict[int, Progress] = {}
        self._tallies: list[Tally] = []
        self._sweep: list[Tally] = []
        self._swept = 0

    @classmethod
    def check(cls, given: dict[str, Any]) -> None:
        """Raise UsageError for parameters that make no sense."""
        parameters.check(cls.name, given)

    @classmethod
    def settled(
        cls, given: dict[str, Any], *, seed: int, clients: int
    ) -> dict[str, Any]:
        """The operations depend on both."""
        return {**given, "seed": seed, "clients": clients}

    @classmethod
    def prepare(
        cls, given: dict[str, Any], directory: Path, progress: Callable[[int], None]
    ) -> Prepared:
        """Draw all operations once: how many there are of each kind, and which."""
        asked = parameters.check(cls.name, given)
        found = stream.summary(cls.name, asked, progress)
        return Prepared(
            {
                "records": asked.records,
                "value bytes": asked.value_bytes,
                "distribution": parameters.distribution(cls.name, asked),
                "operations": asked.operations,
                **found.counts,
                "records asked for": found.distinct,
                "stream": found.digest,
            }
        )

    @property
    def needs(self) -> frozenset[str]:
        """A scan, where the mix has some."""
        return frozenset({"scan"}) if self._mix.scan else frozenset()

    def room(self) -> Room | None:
        """All records are of one size; some are inserted later."""
        given = self.parameters
        records = given.records + round(given.operations * self._mix.insert)
        return Room(
            records,
            records * given.value_bytes,
            given.value_bytes,
            "each of them",
        )

    def share(self, path: Path | None) -> None:
        """The ledger is one for all workers."""
        self._shared = path

    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Open the ledger; everything else is drawn while it goes on."""
        given = self.parameters
        self.mine, self._keeps = tuple(mine), keeps
        inserts, writes = 0, 0
        if self._mix.insert:
            most = max(stream.share(given.operations, clients, 0), 1)
            inserts = most * clients
        if self._mix.update or self._mix.rmw:
            writes = given.operations
        self._ledger = Ledger(
            self._shared,
            given.records + inserts,
            writes,
            alone=self._apart and clients == 1,
        )
        self._batches.begin(len(mine), writes=writes, scans=bool(self._mix.scan))
        self._checker = Checker(
            self._batches.keys,
            self._batches.values,
            self._ledger,
            given.records,
            writes,
        )
        if self._mix.scan:
            self._checker.expect_scans()
        for index in mine:
            total = stream.share(given.operations, clients, index)
            self._done[index] = Progress(total)

    def fillers(self) -> list[Client]:
        """Every client loads every n-th record, so that all of them together go
        through the records in order."""
        for index in self.mine:
            mine = range(index, self.parameters.records, self.parameters.clients)
            self._done[index] = Progress(len(mine))
        return [self._fill(index) for index in self.mine]

    def _fill(self, index: int) -> Client:
        given, done = self.parameters, self._done[index]
        entries = self._ledger.entry_array
        for records in _steps(
            index, given.records, given.clients, self._batches.slice_size
        ):
            keys = done.over(self._batches.names(records), len(records))
            puts = zip(keys, self._batches.first_values(records), strict=True)
            failed = _failures((yield Burst(b"", puts)))
            entries[records] = FIRST
            if failed is not None:
                entries[records[failed]] = MAYBE
        return None

    def client(self, index: int) -> Client:
        """Hand out this client's operations, and compare what comes back."""
        drawn = stream.Stream(self.name, self.parameters, index)
        done = self._done[index] = Progress(drawn.total)
        tally = Tally()
        self._tallies.append(tally)
        skipped = 0
        for draws in drawn:
            self._inserted[index] = drawn.inserted
            for rows in self._batches.rows(draws, index):
                if self._apart:
                    yield from self._in_a_burst(rows, done, tally)
                else:
                    skipped += yield from self._watching(rows, done, tally)
        return self._figures(tally, skipped)

    @property
    def _apart(self) -> bool:
        """Whether what a client reads was written by nobody else meanwhile, and no
        operation depends on the one before."""
        alone = self.parameters.clients == 1 or not self._mix.update
        return alone and not self._mix.rmw and not self._mix.scan

    def _in_a_burst(self, rows: Rows, done: Progress, tally: Tally) -> Client:
        """A slice whose order says it all: the ledger is brought up to date after."""
        keys = done.over(rows.keys, rows.units)
        asking = zip(keys, rows.values, strict=True)
        replies: list[Any] = yield Burst(b"", asking)
        entries: Any = None
        if rows.writes:
            failed = _failures(replies)
            inserting = rows.versions == FIRST
            # Whatever else is asked of an inserted record comes after its insert.
            self._ledger.entry_array[rows.records[inserting]] = FIRST
            if failed is not None:
                unsure = rows.records[inserting & failed]
                self._ledger.entry_array[unsure] = MAYBE
                self._ledger.doubtful.update(unsure.tolist())
            if self._mix.update:
                updating = np.where(inserting, 0, rows.versions)
                entries = self._ledger.settle(
                    rows.records, updating, rows.numbers, failed
                )[rows.reading]
            if self._keeps:
                replies = list(compress(replies, rows.reading.tolist()))
        self._compare(rows, replies, entries, tally)
        return None

    def _watching(self, rows: Rows, done: Progress, tally: Tally) -> Any:
        """A slice of records that others may change. What each record's entry was
        before is kept for every read and every write: that tells afterwards which
        values were stale. Returns how many writes were skipped."""
        entries, before = self._ledger.entries, self._ledger.before
        replies: list[Any] = []
        begun: list[int] = []
        keep, begin = replies.append, begun.append
        adding = np.where(
            rows.versions > FIRST, rows.versions + STEP, rows.versions
        ).tolist()
        asking = zip(
            done.over(rows.operations(), rows.units),
            rows.records.tolist(),
            adding,
            rows.numbers.tolist(),
            strict=True,
        )
        skipped = entry = record = number = 0
        while True:
            try:
                for operation, record, entry, number in asking:
                    if entry:
                        before[number] = known = entries[record]
                        yield operation
                        entries[record] = (known & CHAIN) + entry
                    else:
                        begin(entries[record])
                        keep((yield operation))
                break
            except OperationFailed as error:
                if not entry:
                    keep(error)
                    if number:  # Nothing is written that was not read.
                        next(asking)
                        skipped += 1
                elif entry == FIRST:
                    entries[record] = MAYBE
        changing = bool(self._mix.update or self._mix.rmw)
        self._compare(rows, replies, begun if changing else None, tally)
        return skipped

    def _compare(
        self, rows: Rows, replies: list[Any], begun: Any, tally: Tally
    ) -> None:
        if not self._keeps or not replies:
            return
        records = rows.records[rows.reading] if rows.writes else rows.records
        if not self._mix.scan:
            self._checker.check(records, replies, tally, begun)
            return
        lengths = rows.lengths[rows.reading] if rows.writes else rows.lengths
        scans = lengths > 0
        scanned = np.flatnonzero(scans)
        self._checker.check_scans(
            records[scanned], lengths[scanned], [replies[i] for i in scanned], tally
        )
        if len(scanned) < len(replies):
            others = np.flatnonzero(~scans)
            self._checker.check(
                records[others],
                [replies[i] for i in others],
                tally,
                None if begun is None else [begun[i] for i in others],
            )

    def _figures(self, tally: Tally, skipped: int) -> dict[str, int]:
        figures = {FIGURES[kind]: number for kind, number in tally.found.items()}
        figures[SKIPPED] = skipped
        found = {name: number for name, number in figures.items() if number}
        return {COMPARED: tally.compared, **found} if self._keeps else found

    def progress(self) -> tuple[int, int]:
        """Operations done and to do; a read-modify-write is one."""
        parts = list(self._done.values())
        return sum(part.done for part in parts), sum(part.total for part in parts)

    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """Read every record once more, each client those that it loaded and
        inserted."""
        self._swept = 0
        yield [self._read_back(index) for index in self.mine]

    def _read_back(self, index: int) -> Client:
        given, size = self.parameters, self._batches.slice_size
        tally = Tally()
        self._sweep.append(tally)
        inserted = given.records + given.clients * self._inserted.get(index, 0)
        parts = [
            _steps(index, given.records, given.clients, size),
            _steps(given.records + index, inserted + index, given.clients, size),
        ]
        for records in (each for part in parts for each in part):
            keys = self._batches.names(records)
            replies = yield Burst(b"", zip(keys, repeat(None)))
            failed = _failures(replies)
            if failed is not None:
                first = replies[int(np.argmax(failed))].message
                tally.add(LOST, int(failed.sum()), first)
            self._checker.check(records, replies, tally)
            self._swept += len(records)
        return None

    @property
    def findings(self) -> Findings:
        """What reading everything back has found, and the clients before."""
        found = Findings(checked=self._swept)
        given = self.parameters
        for index in self.mine:
            found.expected += len(range(index, given.records, given.clients))
            found.expected += self._inserted.get(index, 0)
        for tallies, when in ((self._sweep, ""), (self._tallies, " when read")):
            for tally in list(tallies):
                found.wrong += tally.total
                if tally.first and not found.first_wrong:
                    found.first_wrong = f"{tally.first}{when}"
                for kind, number in tally.found.items():
                    if number:
                        name = f"{kind}{when}"
                        found.kinds[name] = found.kinds.get(name, 0) + number
        found.stored_bytes = sum(tally.bytes for tally in self._sweep)
        return found

    def keeper(self, path: Path, facts: dict[str, str]) -> Keeper | None:
        """Values are drawn from the seed; a copy would tell nothing."""
        return None


class Progress:
    """How far a client has come: told from the iterator that it goes through, so that
    an operation costs nothing for it."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self._begun = self._units = 0
        self._rows = 1
        self._left: Iterator[Any] = iter(())

    def over(self, operations: list[Item], units: int) -> Iterator[Item]:
        """Go through these, which are so many units of work."""
        self._left = going = iter(operations)
        self._rows, self._units = max(1, len(operations)), units
        self._begun += units
        return going

    @property
    def done(self) -> int:
        """Units that were handed out."""
        return self._begun - self._units * length_hint(self._left) // self._rows


def _failures(replies: list[Any]) -> NDArray[np.bool_] | None:
    """Which of them failed; None where none did."""
    if type(replies) is not Replies:
        return None
    return np.array([isinstance(reply, OperationFailed) for reply in replies])


def _steps(first: int, end: int, step: int, size: int) -> Iterator[NDArray[np.int64]]:
    """Every ``step``-th number from ``first`` up to ``end``, ``size`` at a time."""
    for start in range(first, end, step * size):
        yield np.arange(start, min(end, start + step * size), step, dtype=np.int64)


class YcsbA(YcsbWorkload):
    """Half reads, half updates."""

    name: ClassVar[str] = "ycsb-a"


class YcsbB(YcsbWorkload):
    """Mostly reads."""

    name: ClassVar[str] = "ycsb-b"


class YcsbC(YcsbWorkload):
    """Only reads."""

    name: ClassVar[str] = "ycsb-c"


class YcsbD(YcsbWorkload):
    """Reads of what was just inserted."""

    name: ClassVar[str] = "ycsb-d"


class YcsbE(YcsbWorkload):
    """Short scans."""

    name: ClassVar[str] = "ycsb-e"


class YcsbF(YcsbWorkload):
    """Reads, and reads that are written back."""

    name: ClassVar[str] = "ycsb-f"
