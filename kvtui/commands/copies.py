"""Where a record is read from: the copy that a trial left, or a live server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from kvtui import config
from kvtui.commands import console
from kvtui.errors import OperationFailed, RunError
from kvtui.jobs.fans.archive import Archive, CoPage, FanRecord
from kvtui.jobs.fans.records import RecordCodec, encode
from kvtui.runs import history
from kvtui.runs.events import TrialStarted, Verified
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalReader
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry
from kvtui.stores.operations import key
from kvtui.text import visible

NAMESPACE = "fans"


class Copy(NamedTuple):
    """The copy of a trial's records."""

    run: RunDirectory
    store: str
    verified: Verified


def copies(run: RunDirectory) -> list[Copy]:
    """The copies that a run left, the last one first."""
    stores: dict[int, str] = {}
    found: list[Copy] = []
    reader = JournalReader(run.journal)
    while events := reader.read():
        for event in events:
            if isinstance(event, TrialStarted):
                stores[event.trial] = event.store
            elif isinstance(event, Verified) and event.records:
                found.append(Copy(run, stores.get(event.trial, ""), event))
    return [
        copy for copy in reversed(found) if (run.path / copy.verified.records).is_file()
    ]


def find_copy(run_name: str | None, store: str | None) -> Copy:
    """The copy meant: of that run or the newest that has one, of that store or the
    last that was verified. RunError says what there is instead."""
    runs = config.runs_directory()
    if run_name is not None:
        run = history.find(runs, run_name)
        found = copies(run)
        for copy in found:
            if _is_of(copy, store):
                return copy
        of = f" of {store}" if store else ""
        have = ", ".join(dict.fromkeys(visible(copy.store) for copy in found))
        raise RunError(
            f"run {run.name} has no copy of records{of}",
            hint=f"it has: {have}" if have else "only a verified trial leaves one",
        )
    for run in history.all_runs(runs):
        for copy in copies(run):
            if _is_of(copy, store):
                return copy
    if store is not None:
        raise RunError(
            f"no run has left a copy of the records of {store}",
            hint=f"kvtui run fans --store {store}",
        )
    raise RunError(
        "no run has left a copy of records yet",
        hint="kvtui run fans --store ram",
    )


def _is_of(copy: Copy, store: str | None) -> bool:
    return store is None or copy.store == store


def open_copy(copy: Copy) -> Archive:
    """Open it, and say what is read."""
    wrong = copy.verified.wrong
    damage = f"; {wrong:,} of its records are wrong" if wrong else ""
    console.say(
        f"kvtui: read from the copy of {visible(copy.store)} in run"
        f" {copy.run.name}{damage}"
    )
    return Archive(copy.run.path / copy.verified.records)


def named_store(text: str) -> StorePlan:
    """The store that ``--store`` names."""
    return config.store_plan(text, config.store_profiles())


def is_live(store: StorePlan) -> bool:
    """Whether it is somebody's server, which holds its records after a run."""
    return not store.private and bool(registry.kind(store.kind).servers)


class LiveStore:
    """Records read by key from a server."""

    def __init__(self, store: StorePlan) -> None:
        self._store = registry.adapter(store.kind)(store.settings)
        self._codec = RecordCodec([])

    def __enter__(self) -> LiveStore:
        self._store.open()
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def raw(self, page: str) -> bytes | None:
        """The record as the store holds it; counters as the record they make."""
        name = key(NAMESPACE, page.encode())
        try:
            value = self._store.get(name)
        except OperationFailed as error:
            if error.kind != "server-error":
                raise
            value = None  # Redis: there is something, but it is a hash
        if value is not None:
            return value
        try:
            counts = self._store.counts(name)
        except OperationFailed:
            return None
        if counts is None:
            return None
        codec = RecordCodec([page])
        return encode(codec.from_counts(0, counts))

    def record(self, page: str, top: int) -> FanRecord | None:
        """The record, with the fans of the ``top`` pages that share most."""
        raw = self.raw(page)
        decoded = _decoded(raw)
        if raw is None or decoded is None:
            return None if raw is None else FanRecord(page, "", 0, [], raw)
        fans, shared = decoded
        ordered = sorted(shared.items(), key=lambda each: (-each[1], each[0]))
        others = []
        for number, (other, together) in enumerate(ordered):
            theirs = _decoded(self.raw(other)) if number < top else None
            others.append(CoPage(other, "", theirs[0] if theirs else 0, together))
        return FanRecord(page, "", fans, others, raw)


def _decoded(raw: bytes | None) -> tuple[int, dict[str, int]] | None:
    if raw is None:
        return None
    try:
        record: dict[str, Any] = orjson.loads(raw)
        return int(record["fans"]), {k: int(v) for k, v in record["pages"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def entries(raw: bytes) -> Iterator[tuple[str, int]]:
    """The co-pages of a record and their counts; none of one that is damaged."""
    decoded = _decoded(raw)
    return iter(()) if decoded is None else iter(decoded[1].items())


def fans_of(raw: bytes) -> int:
    """The fans that a record counts; 0 of one that is damaged."""
    decoded = _decoded(raw)
    return 0 if decoded is None else decoded[0]
