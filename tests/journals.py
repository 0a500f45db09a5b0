"""Journals of runs that never were, for looking at screens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from kvtui.runs import history
from kvtui.runs.events import (
    AnyEvent,
    DataReady,
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
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalWriter
from kvtui.runs.latency import new_histogram
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan

HOSTILE = (
    "Green Bay Packers [NFL]",
    "[/]",
    "x [/",
    "[@click=app.quit]x[/]",
    "a[/b]c",
    "\x1b]52;c;ZXZpbA==\x07",
    "\x1b[2Jgone",
    "\x9b31m",
    "tab\there",
    "two\nlines",
    "日本語ページ",
    "👨‍👩‍👧 family",
    "cafe\u0301",
    "قهوة",
    "right\u202eleft",
    "n" * 10_000,
)


def plan(*stores: str, repeat: int = 1) -> RunPlan:
    """A plan for the fans workload on those stores."""
    kinds = {"redis-unix": "redis", "redis-tcp": "redis"}
    return RunPlan(
        WorkloadPlan("fans", {"mode": "record", "data": "/data/fans.tsv.gz"}),
        tuple(StorePlan(name, kinds.get(name, name)) for name in stores),
        repeat=repeat,
    )


def _latency(random_: random.Random, number: int, mean_ns: float) -> str | None:
    if not number:
        return None
    histogram = new_histogram()
    for _ in range(min(number, 300)):
        histogram.record_value(max(1, int(random_.lognormvariate(0, 0.5) * mean_ns)))
    encoded: str = histogram.encode().decode("ascii")
    return encoded


def events(
    *stores: str,
    seconds: int = 20,
    finish: bool = True,
    hostile: str = "",
    repeat: int = 1,
) -> Iterator[AnyEvent]:
    """A run over ``stores``: null keeps nothing, redis-tcp fails half-way, leveldb
    stalls for four seconds."""
    random_ = random.Random(1)
    run_plan = plan(*stores, repeat=repeat)
    yield RunStarted(
        0.0, "20260102T030405Z-fans", "2026-01-02T03:04:05Z", 4242, run_plan, "0.1"
    )
    facts: dict[str, int | float | str] = {"profiles": 10000, "pages": 9071}
    facts["memberships"] = 79587
    bad = ((7, f"not text: {hostile}"),) if hostile else ()
    yield DataReady(0.4, facts, len(bad), bad)
    now = 0.5
    for number, store, turn in run_plan.trials():
        yield TrialStarted(now, number, store.name, turn, 8, 1)
        yield PhaseStarted(now, number, "connect")
        yield StoreSeen(
            now,
            number,
            f"{store.kind} 7.0.15{hostile}",
            "unix:/run/user/1000/kvtui/redis.sock",
            "OS cache",
            "wire",
            store.name != "null",
        )
        last = number == len(run_plan.stores) * repeat - 1 and not finish
        fails = store.name == "redis-tcp"
        yield PhaseStarted(now, number, "measure")
        ticks = seconds * 6 // 10 if last or fails else seconds
        for index in range(ticks):
            stalled = store.name == "leveldb" and 8 <= index < 12
            each = 0 if stalled else 24_000 + random_.randrange(4_000)
            yield Interval(
                now + index + 1,
                number,
                "measure",
                index,
                float(index),
                1.0,
                {
                    "get": OperationInterval(
                        each - 3 * (each > 0),
                        3 * (each > 0),
                        {"timeout": 2} if fails and index == ticks - 1 else {},
                        _latency(random_, each, 82_000),
                    ),
                    "put": OperationInterval(
                        each, 0, {}, _latency(random_, each, 120_000)
                    ),
                },
                79587 * (index + 1) // seconds,
                79587,
                each * 2000,
                each * 2100,
                (0.93,),
                0.45,
            )
            yield System(
                now + index + 1,
                0.62,
                2.0,
                (0.7, 0.54),
                0.02,
                1_200_000_000,
                {"vda": (0.0, 12_000_000.0, 0.03)},
            )
        now += ticks
        if last:
            return
        if fails:
            said = f"Timeout reading from socket {hostile}"
            yield Faulted(now, number, "get", "timeout", said, float(ticks))
            yield TrialFinished(now, number, "failed", f"get: timeout ({said})")
            continue
        yield Measured(
            now, number, float(ticks), 48_000 * ticks, 0, 0.0, 60.0, 90.0, {"hits": 12}
        )
        yield PhaseStarted(now, number, "verify")
        yield Progress(now + 0.5, number, "verify", 4000, 9071)
        if store.name != "null":
            records = f"records-{number}.sqlite"
            yield Verified(
                now + 1,
                number,
                9071,
                9071,
                0,
                stored_bytes=169_000_000,
                records=records,
            )
        yield Note(now + 1, "info", f"{store.name}: nothing unusual {hostile}", number)
        now += 1.0
        yield TrialFinished(now, number, "done")
    yield RunFinished(now, "done")


def write(runs: Path, *stores: str, **options: object) -> RunDirectory:
    """A run's directory with its plan and journal; nobody writes it any more."""
    run = history.create(runs, plan(*stores))
    with JournalWriter(run.journal) as writer:
        for event in events(*stores, **options):  # type: ignore[arg-type]
            writer.append(event)
    return run


class Runner:
    """Somebody who writes a run's journal while it is watched."""

    def __init__(self, runs: Path, *stores: str, **options: object) -> None:
        self.run = history.create(runs, plan(*stores))
        self._writer = JournalWriter(self.run.journal)
        self._events = events(*stores, **options)  # type: ignore[arg-type]

    def until(self, at_s: float) -> None:
        """Write what happens up to that second of the run."""
        for event in self._events:
            self._writer.append(event)
            if event.at_s >= at_s:
                break

    def finish(self) -> None:
        """Write the rest, and let go of the journal."""
        self.until(1e9)
        self.vanish()

    def vanish(self) -> None:
        """Let go of the journal without a word, as a killed runner does."""
        self._writer.close()
