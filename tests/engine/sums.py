"""What a recorder has counted, and whether it adds up; and small clients."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Thread
from typing import Any

from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed
from kvtui.runs.latency import Latency
from kvtui.stores.operations import Client, Operation


@dataclass
class Sums:
    """Everything that came out of a loop."""

    attempted: int = 0
    ok: int = 0
    miss: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    unfinished: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    reconnects: int = 0
    messages: list[str] = field(default_factory=list)
    connects: int = 0
    """Operations that made their own connection, where stages were taken."""
    answered: int = 0
    """Operations with stages: the answers, and the replies that said no."""

    @property
    def failures(self) -> int:
        """Of every kind."""
        return sum(self.failed.values())


def decoded(encoded: str | None) -> Latency:
    """An encoded histogram."""
    latency = Latency()
    latency.add(encoded)
    return latency


def sums(recorder: Recorder) -> Sums:
    """Take all; AssertionError where the parts are not the whole."""
    taken = recorder.take()
    found = Sums(
        attempted=recorder.attempted,
        unfinished=recorder.unfinished,
        read_bytes=taken.read_bytes,
        written_bytes=taken.written_bytes,
        reconnects=recorder.reconnects,
        messages=[fault.message for fault in recorder.take_faults()],
    )
    stages = taken.stages
    if stages is not None:
        found.connects = decoded(stages.connect).count
        waited, whole = decoded(stages.waiting).count, decoded(stages.whole).count
        found.answered = waited + whole
        assert decoded(stages.processing).count == waited >= found.connects
        answers = sum(each.ok for each in taken.operations.values())
        assert found.answered == answers + decoded(stages.refused).count
        longest = decoded(stages.refused)
        for each in taken.operations.values():
            longest.add(each.latency)
        for part in (stages.connect, stages.waiting, stages.processing):
            assert (decoded(part).max_ns or 0) <= (longest.max_ns or 0)
    for interval in taken.operations.values():
        found.ok += interval.ok
        found.miss += interval.miss
        for kind, number in interval.failed.items():
            found.failed[kind] = found.failed.get(kind, 0) + number
        for encoded, expected in (
            (interval.latency, interval.ok),
            (interval.miss_latency, interval.miss),
            (interval.failed_latency, sum(interval.failed.values())),
        ):
            latency = decoded(encoded)
            assert latency.count == expected
            (lowest,) = latency.percentiles(0)
            assert lowest is None or lowest >= 1
    finished = found.ok + found.miss + found.failures
    assert recorder.finished == finished
    assert found.attempted == finished + found.unfinished, found
    assert recorder.first_ns is None or (
        recorder.last_ns is not None and recorder.first_ns <= recorder.last_ns
    )
    assert not any(recorder.waiting)
    assert recorder.client_work_ns >= 0
    return found


def asking(operations: Sequence[Operation], replies: list[Any] | None = None) -> Client:
    """A client that asks these and goes on after a failure."""
    done = 0
    for operation in operations:
        try:
            reply = yield operation
        except OperationFailed as error:
            reply = error
        done += 1
        if replies is not None:
            replies.append(reply)
    return {"asked": done, "clients": 1}


def endless(make: Callable[[int], Operation]) -> Client:
    """A client that never ends by itself."""
    number = 0
    while True:
        with contextlib.suppress(OperationFailed):
            yield make(number)
        number += 1


class InThread:
    """A loop in a thread, so that a test can stop it; ``result`` gives its end."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._found: Any = None
        self._error: BaseException | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = self._call()
        except BaseException as error:
            self._error = error

    def result(self, limit_s: float = 60) -> Any:
        """What the call returned, or raises what it raised."""
        self._thread.join(limit_s)
        assert not self._thread.is_alive(), "the loop did not end"
        if self._error is not None:
            raise self._error
        return self._found
