"""What runner and worker say to each other.

A worker is a plain function of a plan, a way to emit reports and a way to hear
orders. These are the values; :mod:`kvtui.engine.channel` carries them over pipes
today. Times are offsets from the worker's own start of the phase, so nothing here
needs a clock, a path or a pipe that another machine would not share.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from msgspec import Struct

from kvtui.jobs.workload import Findings
from kvtui.runs.events import OperationInterval, Phase, StagesInterval
from kvtui.stores.store import StoreInfo

EVICTED: Final = "evicted keys"
"""The figure that says how many records a server dropped for want of memory."""

RETRIES: Final = "retries after conflicts"
"""The figure that says how often a store undid a change for another client's, and it
was made anew within its operation."""


class WorkerPlan(Struct, frozen=True, tag=True):
    """A worker's share of a trial; the first thing it is told."""

    worker: int
    kind: str
    settings: dict[str, Any]
    """Of the store, as they reach it now."""
    mode: str
    """``wire`` or ``calls``."""
    mine: tuple[int, ...]
    """Which clients are this worker's."""
    clients: int
    """Over all workers."""
    workload: str
    parameters: dict[str, Any]
    prepared: str
    """Where the workload's prepared input is."""
    timeout_s: float
    shared: str = ""
    """A file that all workers of the trial can map; empty where there is one worker."""


class Go(Struct, frozen=True, tag=True):
    """Start a phase, all workers at the same moment."""

    begin_ns: int
    """A reading of the clock that runner and worker share, a little ahead: here
    CLOCK_MONOTONIC, as ``time.perf_counter_ns`` reads it in every process of a Linux
    machine. Whatever carries this order to another machine translates it."""
    phase: Phase = "measure"
    """``load`` for a workload that fills the store first."""


class Verify(Struct, frozen=True, tag=True):
    """Read everything back."""


class Stop(Struct, frozen=True, tag=True):
    """Finish what is outstanding, and no more."""


class Finish(Struct, frozen=True, tag=True):
    """Disconnect and end."""


Order: TypeAlias = WorkerPlan | Go | Verify | Stop | Finish


class Ready(Struct, frozen=True, tag=True):
    """Every client is connected and has its share of the work."""

    info: StoreInfo
    total: int


class Report(Struct, frozen=True, tag=True):
    """One interval of one worker."""

    index: int
    start_s: float
    length_s: float
    operations: dict[str, OperationInterval]
    done: int
    total: int
    read_bytes: int
    written_bytes: int
    cpu_s: float
    oldest_waiting_s: float
    stages: StagesInterval | None = None


class FaultSeen(Struct, frozen=True, tag=True):
    """The first failure of its kind in this worker."""

    operation: str
    kind: str
    message: str
    phase_s: float


class MeasuredPart(Struct, frozen=True, tag=True):
    """This worker's clients have ended."""

    first_s: float | None
    """From the agreed start; None when nothing was asked."""
    last_s: float | None
    attempted: int
    finished: int
    unfinished: int
    oldest_unfinished_s: float
    client_work_s: float
    store_s: float
    reconnects: int
    figures: dict[str, int]
    stopped: bool
    gone: str = ""
    """Why the store is gone, if it is."""


class Kept(Struct, frozen=True, tag=True):
    """Copies of records read back."""

    records: list[tuple[int, bytes]]


class VerifiedPart(Struct, frozen=True, tag=True):
    """What verifying has found so far, and at its end."""

    findings: Findings
    finished: bool


class Failed(Struct, frozen=True, tag=True):
    """This worker cannot go on."""

    reason: str
    hint: str = ""


Message: TypeAlias = (
    Ready | Report | FaultSeen | MeasuredPart | Kept | VerifiedPart | Failed
)
