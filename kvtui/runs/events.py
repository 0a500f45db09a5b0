"""The journal's vocabulary: everything that can be told about a run.

One event is one JSON object a line, ``{"event": "Interval", "at_s": 12.0, …}``.
``at_s`` is seconds since the run began, on a clock that only goes forward. Fields
are added, never renamed or given another meaning; readers ignore what they do not
know.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from kvtui.runs.plan import RunPlan

Phase: TypeAlias = Literal[
    "connect", "load", "warm-up", "measure", "verify", "clean-up"
]
TrialOutcome: TypeAlias = Literal["done", "failed", "stopped", "skipped"]
RunOutcome: TypeAlias = Literal["done", "failed", "stopped"]


class Event(Struct, frozen=True, tag_field="event", omit_defaults=True):
    """Something that happened ``at_s`` seconds into the run."""

    at_s: float


class RunStarted(Event, frozen=True, tag=True):
    """The runner is alive."""

    run: str
    """The run's identifier: the name of its directory."""
    started_utc: str
    """Wall time, ISO 8601, UTC. For labels only; never subtracted."""
    process_id: int
    plan: RunPlan
    kvtui: str
    """Version."""
    machine: dict[str, str] = {}


class DataReady(Event, frozen=True, tag=True):
    """The workload's input has been read."""

    facts: dict[str, int | float | str]
    """As ``{"profiles": 10000, "pages": 9071, "memberships": 155082}``."""
    bad_lines: int = 0
    first_bad: tuple[tuple[int, str], ...] = ()
    """The first 20 as (line number, reason)."""


class TrialStarted(Event, frozen=True, tag=True):
    """A store's turn has come."""

    trial: int
    store: str
    repeat: int
    clients: int
    workers: int
    """Really used: one where the store lives in its process."""
    note: str = ""


class PhaseStarted(Event, frozen=True, tag=True):
    """A trial goes on to its next phase."""

    trial: int
    phase: Phase


class StoreSeen(Event, frozen=True, tag=True):
    """What was found when the store was opened."""

    trial: int
    version: str
    address: str
    durability: str
    client: str
    keeps: bool
    memory_limit: str = ""
    eviction: str = ""
    compression: str = ""
    server_process_id: int | None = None
    details: dict[str, str] = {}


class OperationInterval(Struct, frozen=True, omit_defaults=True):
    """What one kind of operation did in one interval.

    Histograms are HdrHistogram's own encoding (V2, compressed, base64), in
    nanoseconds with three significant digits.
    """

    ok: int = 0
    miss: int = 0
    failed: dict[str, int] = {}
    """By kind of failure."""
    latency: str | None = None
    """Service time of the operations that were ok."""
    miss_latency: str | None = None
    failed_latency: str | None = None


class StagesInterval(Struct, frozen=True, omit_defaults=True):
    """The parts of the answered operations' time in one interval, as histograms.

    An operation over a connection that stood has no ``connect``; one whose reply came
    in one piece over such a connection has its time in ``whole`` alone, which stands
    for its waiting and its processing.
    """

    connect: str | None = None
    """Until the operation's own connection had taken the request."""
    waiting: str | None = None
    """From the request to the first piece of the reply."""
    processing: str | None = None
    """From the request to the whole reply."""
    whole: str | None = None
    refused: str | None = None
    """The whole time of those that count as failed, for their reply said no."""
    received_bytes: int = 0
    """Of the replies, with all that frames them."""
    refused_bytes: int = 0
    """Of the bodies of those that said no."""


class Interval(Event, frozen=True, tag=True):
    """One second of a phase, over all workers; quiet seconds have one too."""

    trial: int
    phase: Phase
    index: int
    start_s: float
    """From the phase's first request."""
    length_s: float
    operations: dict[str, OperationInterval]
    """By label (``get``, ``put``, …)."""
    done: int
    """Work units done so far, of ``total``."""
    total: int
    read_bytes: int = 0
    written_bytes: int = 0
    worker_cpu_s: tuple[float, ...] = ()
    """CPU time of each worker within the interval."""
    server_cpu_s: float | None = None
    oldest_waiting_s: float = 0.0
    """Age of the operation that has waited longest for its reply."""
    stages: StagesInterval | None = None
    """Where the workload asks for them and the wire loop drives."""


class Loaded(Event, frozen=True, tag=True):
    """The records of a workload that fills the store first are in it; the sums are
    the workers' own. Its intervals came before, of phase ``load``."""

    trial: int
    elapsed_s: float | None
    """First request to last reply; None when nothing was asked."""
    attempted: int
    failed: int
    unfinished: int
    stopped: bool = False


class Faulted(Event, frozen=True, tag=True):
    """The first failure of its kind in a trial, with an example text."""

    trial: int
    operation: str
    kind: str
    message: str
    phase_s: float
    """From the phase's first request."""


class Measured(Event, frozen=True, tag=True):
    """The measure phase is over; the sums are the workers' own."""

    trial: int
    elapsed_s: float | None
    """First request to last reply; None when nothing was asked."""
    attempted: int
    unfinished: int
    oldest_unfinished_s: float
    client_work_s: float
    """Time in the workload's own code (decode, change, encode), summed over the
    clients. Not store time."""
    store_s: float
    """Time waiting for the store, summed over the clients."""
    figures: dict[str, int] = {}
    """The workload's own, as ``{"cache hits": 146011}``."""
    stopped: bool = False


class Progress(Event, frozen=True, tag=True):
    """How far a phase without intervals has come."""

    trial: int
    phase: Phase
    done: int
    total: int


class Verified(Event, frozen=True, tag=True):
    """Every record was read back and compared with the exact answer."""

    trial: int
    checked: int
    expected: int
    wrong: int
    first_wrong: str = ""
    sampled: bool = False
    stored_bytes: int = 0
    records: str = ""
    """Name of the file in the run's directory that keeps a copy."""
    kinds: dict[str, int] = {}
    """Of what is wrong, how many in which way (``{"lost": 3, "stale when read": 1}``),
    where the workload tells them apart."""


class Vmstat(Struct, frozen=True):
    """One row of vmstat: memory in KiB, traffic in KiB a second, CPU in percent."""

    running: int
    blocked: int
    swapped_kib: int
    free_kib: int
    buffers_kib: int
    cache_kib: int
    swapped_in_kib_s: int
    swapped_out_kib_s: int
    read_kib_s: int
    written_kib_s: int
    interrupts_s: int
    switches_s: int
    user: int
    system: int
    idle: int
    iowait: int
    steal: int


class Iostat(Struct, frozen=True):
    """One device's line of ``iostat -x``; what it derives from these is left out."""

    reads_s: float
    read_kib_s: float
    reads_merged_s: float
    read_wait_ms: float
    writes_s: float
    written_kib_s: float
    writes_merged_s: float
    write_wait_ms: float
    discards_s: float
    discarded_kib_s: float
    discards_merged_s: float
    discard_wait_ms: float
    flushes_s: float
    flush_wait_ms: float
    queue: float
    """Requests waiting or served, on average."""
    busy: float
    """Percent of the time in which something was."""


class System(Event, frozen=True, tag=True):
    """The machine in the second before ``at_s``."""

    cpu_busy: float
    """Share of the CPUs that this process may use, 0 to 1."""
    cpus: float
    cores: tuple[float, ...] = ()
    iowait: float = 0.0
    memory_used_bytes: int = 0
    disks: dict[str, tuple[float, float, float]] = {}
    """Device to (bytes read a second, written a second, share of time busy)."""
    vmstat: Vmstat | None = None
    """None where the kernel tells nothing."""
    iostat: dict[str, Iostat] = {}


class Note(Event, frozen=True, tag=True):
    """Something a person should know."""

    level: Literal["info", "warning", "error"]
    text: str
    trial: int | None = None


class TrialFinished(Event, frozen=True, tag=True):
    """A trial is over, one way or another."""

    trial: int
    outcome: TrialOutcome
    reason: str = ""


class RunFinished(Event, frozen=True, tag=True):
    """Nothing more follows."""

    outcome: RunOutcome
    reason: str = ""


AnyEvent: TypeAlias = (
    RunStarted
    | DataReady
    | TrialStarted
    | PhaseStarted
    | StoreSeen
    | Interval
    | Loaded
    | Faulted
    | Measured
    | Progress
    | Verified
    | System
    | Note
    | TrialFinished
    | RunFinished
)
