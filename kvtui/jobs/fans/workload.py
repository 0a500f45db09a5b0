"""The fan-page job as a workload.

Every page is owned by one client, so that no two clients ever change one record and
the result is exact at any level of parallelism.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvtui.errors import OperationFailed
from kvtui.jobs.fans import oracle, parameters, records, room
from kvtui.jobs.fans.archive import ArchiveWriter
from kvtui.jobs.fans.dataset import compile_profiles, open_dataset
from kvtui.jobs.fans.names import read_names
from kvtui.jobs.fans.profiles import open_profiles
from kvtui.jobs.workload import (
    Findings,
    Keep,
    Keeper,
    Prepared,
    Room,
    Workload,
)
from kvtui.stores.operations import Add, Client, Counts, Get, Put, key

_CHUNK: Final = 8192
_RECORD_BYTES: Final = 600
_ENTRY_BYTES: Final = 140
"""What a decoded record and an entry of it are taken to cost in the cache: the dicts
of CPython 3.11 with their share of empty slots, and a name of some 50 letters that
is not shared because it came from the store."""


class FansWorkload(Workload):
    """One get, one change and one put of a page's record for each of its fans."""

    name: ClassVar[str] = "fans"
    namespace: ClassVar[str] = "fans"

    def __init__(self, given: dict[str, Any], directory: Path) -> None:
        self.parameters = parameters.check(given)
        self._dataset = open_dataset(directory)
        self._codec = records.RecordCodec([])
        self._mine: NDArray[np.int64] = np.zeros(0, np.int64)
        self._positions: dict[int, NDArray[np.int64]] = {}
        self._clients = 1
        self._keeps = True
        self._done: dict[int, int] = {}
        self._total = 0
        self._expected = 0
        self._parts: list[Findings] = []

    @classmethod
    def check(cls, given: dict[str, Any]) -> None:
        """Raise UsageError for parameters that make no sense."""
        parameters.check(given)

    @classmethod
    def prepare(
        cls, given: dict[str, Any], directory: Path, progress: Callable[[int], None]
    ) -> Prepared:
        """Compile the profile file into ``directory``."""
        asked = parameters.check(given)
        names = read_names(Path(asked.names)) if asked.names else None
        source = open_profiles(
            Path(asked.data),
            first=asked.first,
            format=asked.format,
            encoding=asked.encoding,
        )
        dataset = compile_profiles(source, directory, names, progress)
        return Prepared(
            {
                "source": Path(asked.data).name,
                "format": dataset.format,
                "encoding": dataset.encoding,
                "profiles": dataset.profiles,
                "pages": dataset.pages,
                "memberships": dataset.memberships,
                "digest": dataset.digest,
            },
            dataset.bad_lines,
            tuple((bad.number, bad.reason) for bad in dataset.first_bad),
        )

    @property
    def needs(self) -> frozenset[str]:
        """Mode native needs a store with an add of its own."""
        return frozenset({"add"}) if self.parameters.mode == "native" else frozenset()

    def room(self) -> Room | None:
        """What the records come to."""
        found = room.estimate(self._dataset)
        counters = self.parameters.mode == "native"
        return msgspec.structs.replace(found, counters=counters)

    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Find the updates of each client, in file order."""
        self._keeps = keeps
        dataset = self._dataset
        pages = dataset.page_table()
        self._codec = records.RecordCodec([page.decode() for page in pages])
        self._clients = clients
        owner = owners(dataset.fans, clients)
        self._mine = np.flatnonzero(np.isin(owner, np.asarray(mine, np.int32)))
        self._done = dict.fromkeys(mine, 0)
        for client in mine:
            owned = owner == client
            parts = [
                np.flatnonzero(
                    owned[np.asarray(dataset.members[start : start + 2**22])]
                )
                + start
                for start in range(0, dataset.memberships, 2**22)
            ]
            self._positions[client] = (
                np.concatenate(parts) if parts else np.zeros(0, np.int64)
            )
        self._total = sum(len(each) for each in self._positions.values())

    def client(self, index: int) -> Client:
        """The client in the mode asked for."""
        if self.parameters.mode == "native":
            return self._native(index)
        if self.parameters.mode == "cached":
            return self._cached(index)
        return self._record(index)

    def progress(self) -> tuple[int, int]:
        """Updates done and to do."""
        return sum(self._done.values()), self._total

    def _updates(self, index: int) -> Iterator[tuple[int, list[int]]]:
        """``(page, profile)`` of every update of a client, in file order."""
        members, offsets = self._dataset.members, self._dataset.offsets
        positions, done = self._positions[index], self._done
        last, profile = -1, [0]
        for start in range(0, len(positions), _CHUNK):
            part = positions[start : start + _CHUNK]
            people = np.searchsorted(offsets, part, side="right") - 1
            for page, person in zip(
                members[part].tolist(), people.tolist(), strict=True
            ):
                if person != last:
                    last = person
                    profile = members[offsets[person] : offsets[person + 1]].tolist()
                yield page, profile
                done[index] += 1

    def _key(self, page: int) -> bytes:
        return key(self.namespace, self._dataset.page(page))

    def _keys(self) -> Callable[[int], bytes]:
        """Keys by page number, each made once."""
        known: dict[int, bytes] = {}
        make = self._key

        def get(page: int) -> bytes:
            found = known.get(page)
            if found is None:
                found = known[page] = make(page)
            return found

        return get

    def _record(self, index: int) -> Client:
        """The article's job: the whole record, read and written each time."""
        key_of, grow, keeps = self._keys(), self._codec.grow, self._keeps
        written: set[int] = set()
        lost: set[int] = set()
        skipped = 0
        for page, profile in self._updates(index):
            if page in lost:
                skipped += 1
                continue
            try:
                value = yield Get(key_of(page))
                if value is None and page in written:
                    # Starting again from one fan would look like a new page.
                    lost.add(page)
                    continue
                yield Put(key_of(page), grow(value, page, profile))
                if keeps:
                    written.add(page)
            except (OperationFailed, records.DamagedRecord):
                lost.add(page)
        return _losses(lost, skipped)

    def _cached(self, index: int) -> Client:
        """The follow-up: records stay in a bounded cache, written back late."""
        codec, key_of = self._codec, self._keys()
        room = self.parameters.cache_mb * 1e6 / self._clients
        cache: dict[int, dict[str, Any]] = {}
        written: set[int] = set()
        lost: set[int] = set()
        used = 0.0
        updates = hits = asked = skipped = 0
        for page, profile in self._updates(index):
            if page in lost:
                skipped += 1
                continue
            updates += 1
            record = cache.pop(page, None)
            if record is None:
                try:
                    asked += 1
                    value = yield Get(key_of(page))
                    if value is None and page in written:
                        lost.add(page)
                        continue
                    record = (
                        codec.new(page) if value is None else codec.decode(page, value)
                    )
                except (OperationFailed, records.DamagedRecord):
                    lost.add(page)
                    continue
                used += _RECORD_BYTES + _ENTRY_BYTES * len(record["pages"])
            else:
                hits += 1
            before = len(record["pages"])
            try:
                codec.count(record, page, profile)
            except records.DamagedRecord:
                lost.add(page)
                used -= _RECORD_BYTES + _ENTRY_BYTES * before
                continue
            used += _ENTRY_BYTES * (len(record["pages"]) - before)
            cache[page] = record  # last in order: the most recently used
            while used > room and len(cache) > 1:
                oldest = next(iter(cache))
                leaving = cache.pop(oldest)
                used -= _RECORD_BYTES + _ENTRY_BYTES * len(leaving["pages"])
                try:
                    asked += 1
                    yield Put(key_of(oldest), records.encode(leaving))
                    if self._keeps:
                        written.add(oldest)
                except OperationFailed:
                    lost.add(oldest)
        while cache:
            page, record = cache.popitem()
            try:
                asked += 1
                yield Put(key_of(page), records.encode(record))
            except OperationFailed:
                lost.add(page)
        return {
            "cache lookups": updates,
            "cache hits": hits,
            "saved operations": 2 * updates - asked,
            **_losses(lost, skipped),
        }

    def _native(self, index: int) -> Client:
        """Counters that the store adds to itself: the page's own name counts its
        fans, every other name the fans they share."""
        key_of, page_id = self._keys(), self._dataset.page
        lost: set[int] = set()
        last: list[int] = []
        counts: tuple[tuple[bytes, int], ...] = ()
        for page, profile in self._updates(index):
            if profile is not last:
                last = profile
                counts = tuple((page_id(other), 1) for other in profile)
            try:
                yield Add(key_of(page), counts)
            except OperationFailed:
                lost.add(page)
        return _losses(lost, 0)

    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """Read back and compare every page of this worker's clients."""
        self._expected = len(self._mine)
        bound = self.parameters.verify_mb * 1e6 * len(self._done) / self._clients
        clients = max(1, len(self._done))
        for pages in oracle.slices(self._dataset, self._mine, bound):
            exact = oracle.Slice(self._dataset, pages)
            yield [
                self._verify(exact, pages[start::clients].tolist(), keep)
                for start in range(min(clients, len(pages)))
            ]

    def _verify(self, exact: oracle.Slice, pages: list[int], keep: Keep) -> Client:
        names, findings = self._codec.names, Findings()
        self._parts.append(findings)  # one each: verifiers may run in threads
        native = self.parameters.mode == "native"
        for page in pages:
            problem = ""
            found: dict[str, Any] | None = None
            try:
                if native:
                    counts = yield Counts(self._key(page))
                    if counts is not None:
                        found = self._codec.from_counts(page, counts)
                        value = records.encode(found)
                else:
                    value = yield Get(self._key(page))
                    if value is not None:
                        findings.stored_bytes += len(value)
                        keep(page, value)
                        found = self._codec.decode(page, value)
                if native and found is not None:
                    findings.stored_bytes += len(value)
                    keep(page, value)
                if found is None:
                    problem = "the store has no record"
            except OperationFailed as error:
                problem = error.message
            except (records.DamagedRecord, UnicodeDecodeError) as error:
                problem = str(error)
            if found is not None:
                fans, others, shared = exact.expected(page)
                expected = {
                    "page": names[page],
                    "fans": fans,
                    "pages": dict(
                        zip(
                            map(names.__getitem__, others.tolist()),
                            shared.tolist(),
                            strict=True,
                        )
                    ),
                }
                if found != expected:
                    problem = oracle.difference(expected, found)
            findings.checked += 1
            if problem:
                findings.wrong += 1
                findings.first_wrong = (
                    findings.first_wrong or f"{names[page]}: {problem}"
                )
        return None

    @property
    def findings(self) -> Findings:
        """What verifying has found so far, over all verifiers."""
        parts = list(self._parts)
        return Findings(
            checked=sum(part.checked for part in parts),
            expected=self._expected,
            wrong=sum(part.wrong for part in parts),
            first_wrong=next((p.first_wrong for p in parts if p.first_wrong), ""),
            stored_bytes=sum(part.stored_bytes for part in parts),
        )

    def keeper(self, path: Path, facts: dict[str, str]) -> Keeper:
        """A new copy of a trial's records."""
        return ArchiveWriter(
            path,
            {
                **facts,
                "mode": self.parameters.mode,
                "profiles": str(self._dataset.profiles),
                "pages": str(self._dataset.pages),
                "source": self._dataset.source,
                "digest": self._dataset.digest,
            },
            self._dataset,
        )


def owners(fans: NDArray[np.int32], clients: int) -> NDArray[np.int32]:
    """The client that owns each page, the same in every worker.

    Pages go to whoever has the least to do so far, the most popular ones first
    (Graham's longest-processing-time rule): the clients come to their end together,
    and none is left to wait for the store alone. The work of a page with ``f`` fans
    is taken as ``f × (150 + f)``: so many round trips, of records that grow.
    """
    owner = np.zeros(len(fans), np.int32)
    loads = [(0, client) for client in range(clients)]
    for page in np.argsort(-fans.astype(np.int64), kind="stable").tolist():
        load, client = loads[0]
        owner[page] = client
        number = int(fans[page])
        heapq.heapreplace(loads, (load + number * (150 + number), client))
    return owner


def _losses(lost: set[int], skipped: int) -> dict[str, int]:
    if not lost and not skipped:
        return {}
    return {"records lost": len(lost), "updates skipped": skipped}
