"""What the clients of one worker did, at a few nanoseconds an operation.

A loop appends each latency to a plain list, which costs less than anything else
that keeps it. A few times a second the lists are drained into HdrHistogram's
counts with numpy. Draining removes exactly the values that it counted, so that
loops may append at the same time (list methods are atomic under the GIL).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from kvtui.errors import OperationFailed
from kvtui.runs.events import OperationInterval, StagesInterval
from kvtui.runs.latency import HIGHEST_NS, LOWEST_NS, new_histogram

DRAIN_AT: Final = 20_000
"""A list longer than this is drained by the loop that filled it: the latencies
stay in the processor's caches, and memory stays bounded at any speed."""

_SMALL_NS: Final = 1 << 16
_SUB_BUCKET_BITS: Final = 11  # 2048 sub-buckets: three significant digits
_HALF_BITS: Final = _SUB_BUCKET_BITS - 1


class Counts:
    """HdrHistogram counts of one kind of outcome."""

    def __init__(self) -> None:
        self._array: NDArray[np.int64] = np.zeros(new_histogram().counts_len, np.int64)
        self.total = 0
        self.sum_ns = 0
        self._lowest = HIGHEST_NS
        self._highest = 0

    def add(self, latencies: list[int]) -> None:
        """Count latencies in nanoseconds."""
        values = np.fromiter(latencies, np.int64, len(latencies))
        np.clip(values, LOWEST_NS, HIGHEST_NS, out=values)
        small = values[values < _SMALL_NS]
        # Counting short latencies by the nanosecond first leaves few different
        # values to find buckets for; it halves the cost of an operation on null.
        by_ns = np.bincount(small)
        present = np.flatnonzero(by_ns)
        np.add.at(self._array, bucket_indices(present), by_ns[present])
        if len(small) < len(values):
            counted = np.bincount(bucket_indices(values[values >= _SMALL_NS]))
            self._array[: len(counted)] += counted
        self.total += len(latencies)
        self.sum_ns += int(values.sum())
        self._lowest = min(self._lowest, int(np.min(values)))
        self._highest = max(self._highest, int(np.max(values)))

    def take(self) -> str | None:
        """Everything counted, encoded; then start afresh. None while empty."""
        if not self.total:
            return None
        histogram: Any = new_histogram()
        ctypes.memmove(histogram.counts, self._array.ctypes.data, self._array.nbytes)
        histogram.total_count = self.total
        histogram.min_value = self._lowest
        histogram.max_value = self._highest
        encoded = str(histogram.encode().decode("ascii"))
        self._array[:] = 0
        self.total = self.sum_ns = self._highest = 0
        self._lowest = HIGHEST_NS
        return encoded


def bucket_indices(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where HdrHistogram counts each value: its ``counts_index_for``, vectorised.

    For a range from 1 and 2048 sub-buckets: with ``b`` the number of bits beyond
    the 11 lowest, index ``(b + 1) × 1024 + (value >> b) - 1024``.
    """
    _, exponents = np.frexp(values.astype(np.float64))
    shifts = np.maximum(exponents.astype(np.int64) - _SUB_BUCKET_BITS, 0)
    return (shifts << _HALF_BITS) + (values >> shifts)


class Outcomes:
    """The outcomes of one kind of operation; loops append to the lists."""

    def __init__(self) -> None:
        self.ok: list[int] = []
        self.miss: list[int] = []
        self.failed: list[int] = []
        self.kinds: dict[str, int] = {}
        self._counts = (Counts(), Counts(), Counts())
        self.finished = 0
        self.latency_ns = 0

    def drain(self) -> None:
        """Move the lists into counts."""
        for waiting, counts in zip(
            (self.ok, self.miss, self.failed), self._counts, strict=True
        ):
            number = len(waiting)
            if number:
                taken = waiting[:number]
                del waiting[:number]
                before = counts.sum_ns
                counts.add(taken)
                self.finished += number
                self.latency_ns += counts.sum_ns - before

    def take(self) -> OperationInterval | None:
        """The interval so far; then start a new one. None when nothing happened."""
        self.drain()
        ok, miss, failed = self._counts
        if not (ok.total or miss.total or failed.total):
            return None
        kinds, self.kinds = self.kinds, {}
        return OperationInterval(
            ok=ok.total,
            miss=miss.total,
            failed=kinds,
            latency=ok.take(),
            miss_latency=miss.take(),
            failed_latency=failed.take(),
        )


class Stages:
    """The parts of an answered operation's time, for a store whose operations may
    make their own connections; loops append nanoseconds to the lists.

    An operation over a connection that stood has no ``connect``, and one whose reply
    came in one piece waited as long as it took: its time stands in ``whole`` alone.
    """

    def __init__(self) -> None:
        self.connect: list[int] = []
        """Until the connection had taken the request."""
        self.waiting: list[int] = []
        """From then, or from the operation's begin, to the first piece of a reply."""
        self.processing: list[int] = []
        """From then to the whole reply."""
        self.whole: list[int] = []
        self.refused: list[int] = []
        """The whole time of those that count as failed, for their reply said no."""
        self.received_bytes = 0
        """Of the replies, with all that frames them."""
        self.refused_bytes = 0
        """Of the bodies of those that said no."""
        self._counts = [
            (waiting, Counts())
            for waiting in (
                self.connect,
                self.waiting,
                self.processing,
                self.whole,
                self.refused,
            )
        ]

    def drain(self) -> None:
        """Move the lists into counts."""
        for waiting, counts in self._counts:
            number = len(waiting)
            if number:
                taken = waiting[:number]
                del waiting[:number]
                counts.add(taken)

    @property
    def long(self) -> bool:
        """Whether it is time to drain."""
        return len(self.whole) > DRAIN_AT or len(self.waiting) > DRAIN_AT

    def take(self) -> StagesInterval:
        """The interval so far; then start a new one."""
        self.drain()
        received, self.received_bytes = self.received_bytes, 0
        refused, self.refused_bytes = self.refused_bytes, 0
        connect, waiting, processing, whole, said_no = (
            counts.take() for _, counts in self._counts
        )
        return StagesInterval(
            connect, waiting, processing, whole, said_no, received, refused
        )


class Taken(Struct, frozen=True):
    """One interval of a worker."""

    operations: dict[str, OperationInterval]
    read_bytes: int
    written_bytes: int
    stages: StagesInterval | None = None


class Fault(Struct, frozen=True):
    """The first failure of its kind."""

    operation: str
    kind: str
    message: str
    at_ns: int


class Recorder:
    """Outcomes of all clients of a worker.

    ``waiting[i]`` is the clock reading at which client ``i`` asked for what it
    waits for, 0 while it does not wait. ``stages``: whether the wire loop is to take
    the parts of each operation's time as well.
    """

    def __init__(self, clients: int, *, stages: bool = False) -> None:
        self.waiting = [0] * clients
        self.stages = Stages() if stages else None
        self.attempted = 0
        self.reconnects = 0
        self.first_ns: int | None = None
        self.last_ns: int | None = None
        self._span_ns = 0
        self.work_ns = 0
        """Time in the workload's own code, summed over the clients."""
        self.unfinished = 0
        self.oldest_unfinished_ns = 0
        self.faults: list[Fault] = []
        self._known_faults: set[tuple[str, str]] = set()
        self._outcomes: dict[str, Outcomes] = {}
        self._read_bytes = 0
        self._written_bytes = 0
        self._lock = Lock()

    def outcomes(self, label: str) -> Outcomes:
        """Where the outcomes of a kind of operation go."""
        with self._lock:
            if label not in self._outcomes:
                self._outcomes[label] = Outcomes()
            return self._outcomes[label]

    def failed(
        self, label: str, error: OperationFailed, latency_ns: int, at_ns: int
    ) -> None:
        """Record one failed operation; keep the first text of its kind."""
        outcomes = self.outcomes(label)
        with self._lock:
            outcomes.failed.append(latency_ns)
            outcomes.kinds[error.kind] = outcomes.kinds.get(error.kind, 0) + 1
            if (label, error.kind) not in self._known_faults:
                self._known_faults.add((label, error.kind))
                self.faults.append(Fault(label, error.kind, error.message, at_ns))

    def flush(self, attempted: int, read_bytes: int, written_bytes: int) -> None:
        """Take over what a loop counted for itself; drain lists grown long."""
        with self._lock:
            self.attempted += attempted
            self._read_bytes += read_bytes
            self._written_bytes += written_bytes
            for outcomes in self._outcomes.values():
                if len(outcomes.ok) > DRAIN_AT or len(outcomes.miss) > DRAIN_AT:
                    outcomes.drain()
            if self.stages is not None and self.stages.long:
                self.stages.drain()

    def abandon(self, age_ns: int) -> None:
        """An operation was given up unanswered, at that age."""
        with self._lock:
            self.unfinished += 1
            self.oldest_unfinished_ns = max(self.oldest_unfinished_ns, age_ns)

    def reconnected(self, times: int = 1) -> None:
        """A client of the calls loop has connected anew."""
        with self._lock:
            self.reconnects += times

    def client_ended(self, first_ns: int, last_ns: int) -> None:
        """A client's first request and last reply."""
        with self._lock:
            self.first_ns = min(self.first_ns or first_ns, first_ns)
            self.last_ns = max(self.last_ns or last_ns, last_ns)

    def add_span(self, span_ns: int) -> None:
        """A client of the calls loop was busy that long: what was not waiting for
        the store was its own work."""
        with self._lock:
            self._span_ns += span_ns

    def take(self) -> Taken:
        """The interval so far; then start a new one."""
        with self._lock:
            operations = {
                label: interval
                for label, outcomes in self._outcomes.items()
                if (interval := outcomes.take()) is not None
            }
            stages = self.stages.take() if self.stages is not None else None
            taken = Taken(operations, self._read_bytes, self._written_bytes, stages)
            self._read_bytes = self._written_bytes = 0
            return taken

    def take_faults(self) -> list[Fault]:
        """New first failures since the last call."""
        with self._lock:
            faults, self.faults = self.faults, []
            return faults

    @property
    def finished(self) -> int:
        """Operations with an outcome, as far as drained."""
        return sum(each.finished for each in self._outcomes.values())

    @property
    def latency_ns(self) -> int:
        """Time spent waiting for the store, summed over the clients."""
        return sum(each.latency_ns for each in self._outcomes.values())

    @property
    def client_work_ns(self) -> int:
        """Time in the workload's own code, summed over the clients: measured by
        the wire loop, and what the calls loop did not spend waiting."""
        return self.work_ns or max(0, self._span_ns - self.latency_ns)

    def oldest_waiting_ns(self, clock: Callable[[], int]) -> int:
        """Age of the operation that waits longest; 0 when none waits."""
        began = min((each for each in self.waiting if each), default=0)
        return max(0, clock() - began) if began else 0
