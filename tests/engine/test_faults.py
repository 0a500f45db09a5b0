"""What may happen between kvtui and a server in the middle of a trial.

Every networked store, each way it can be driven, through whole runs: each must end
in bounded time, with counts that add up, with the truth about its records, and cost
the trial beside it nothing.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvtui.engine.markers import marker_key
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.runs import snapshot
from kvtui.runs.events import Event, Faulted, Interval
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import TrialState
from kvtui.stores import registry
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import base as server_module
from kvtui.stores.store import ADD, WireStore
from tests.conftest import Servers, require_server
from tests.engine.inside import Stage, stage
from tests.engine.test_runs import log_is_clean, records
from tests.jobs.fans.people import counted
from tests.stores.proxy import HANDSHAKE_REPLIES, Fault, Proxy
from tests.stores.talking import WITH_SERVER, Way
from tests.waiting import until

__all__ = ["stage"]

WRITABLE = [way for way in WITH_SERVER if not registry.kind(way.profile.kind).read_only]
EVERY_WAY = pytest.mark.parametrize("way", WRITABLE, ids=str)
MIDDLE = 120
"""An operation of the first client that is neither its first nor near its last."""
SHORT_S, LONG_S = 1.0, 50.0
"""Time-outs: one that a test waits for, though no healthy reply takes so long even
on a busy machine; and one that nothing here comes near."""
NEIGHBOUR = StorePlan("ram", "ram")


def invented() -> list[list[str]]:
    draw = random.Random(5)
    table = [f"http://ex.test/{number}" for number in range(40)]
    return [["hot", *draw.sample(table, draw.randrange(1, 6))] for _ in range(200)] + [
        ["alone"]
    ]


PEOPLE = invented()


def written(people: list[list[str]], directory: Path) -> Path:
    path = directory / "people.jsonl"
    path.write_text("".join(json.dumps({"pages": pages}) + "\n" for pages in people))
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two hundred profiles; records stay small."""
    return written(PEOPLE, tmp_path)


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A few of them, for what goes slowly."""
    return written(PEOPLE[:40], tmp_path)


def plan(data: Path, store: StorePlan, mode: str = "record") -> RunPlan:
    """Two clients on that store, and then a neighbour that nothing happens to."""
    workload = WorkloadPlan("fans", {"data": str(data), "mode": mode})
    return RunPlan(workload, (store, NEIGHBOUR), clients=2)


def private(way: Way, **settings: Any) -> StorePlan:
    """A store with a server of its own."""
    require_server(way.profile.kind)
    given = {**way.profile.settings, "client": way.client, **settings}
    return StorePlan("it", way.profile.kind, given, private=True)


def behind(way: Way, proxy: Proxy, timeout_s: float) -> StorePlan:
    """Somebody's store, which happens to be behind the proxy."""
    given = {**proxy.settings, "client": way.client, "timeout_s": timeout_s}
    return StorePlan("it", way.profile.kind, given)


class Watched:
    """The server that kvtui starts in a trial, as soon as there is one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[PrivateServer] = []
        start = server_module.PrivateServer.start

        def noted(server: PrivateServer, **how: Any) -> dict[str, Any]:
            self.made.append(server)
            return start(server, **how)

        monkeypatch.setattr(server_module.PrivateServer, "start", noted)

    def signal(self, number: int) -> None:
        """Send it a signal."""
        process_id = self.made[-1].process_id
        assert process_id is not None
        os.kill(process_id, number)

    def left(self) -> list[int]:
        """Processes that are still there."""
        started = [server.process_id for server in self.made]
        return [pid for pid in started if pid is not None and psutil.pid_exists(pid)]


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """The private servers of this test's runs."""
    return Watched(monkeypatch)


@pytest.fixture
def proxied(
    request: pytest.FixtureRequest, way: Way, servers: Servers
) -> Iterator[Proxy]:
    """A proxy in front of a server that is somebody's; clean afterwards."""
    server = servers.get(
        way.profile.kind, str(way.profile.settings.get("transport", "unix"))
    )
    with Proxy(server.connect_settings()) as proxy:
        yield proxy
    admin = registry.adapter(way.profile.kind)(server.connect_settings())
    admin.open()
    admin.wipe(FansWorkload.namespace)
    admin.delete(marker_key(FansWorkload.namespace))
    admin.close()


def answer(run: RunDirectory) -> dict[str, Any]:
    """What every store should hold at the end of that run."""
    facts = run.state().data
    assert facts is not None
    return counted(PEOPLE[: int(facts.facts["profiles"])])


def true_counts(run: RunDirectory) -> tuple[TrialState, TrialState]:
    """The trial and its neighbour; AssertionError where the parts are not the whole,
    the snapshot says otherwise, or the neighbour was hurt."""
    state = run.state()
    log_is_clean(run)
    document = snapshot.read(run.snapshot)
    assert state.outcome in ("done", "failed"), state.reason
    trial, neighbour = state.trials
    for each, kept in zip(state.trials, document.trials, strict=True):
        assert (each.outcome, each.kept_everything) == (kept.outcome, kept.ranked)
        if each.measured is not None:
            finished = each.ok + each.miss + each.failed
            assert each.measured.attempted == finished + each.measured.unfinished
            assert kept.attempted == each.measured.attempted
            latencies = [
                count
                for totals in each.operations.values()
                for count in (totals.latency.count, totals.miss_latency.count)
            ]
            assert sum(latencies) == each.ok + each.miss
    assert neighbour.kept_everything, neighbour.reason
    assert records(run, neighbour) == answer(run)
    return trial, neighbour


def told_truly(run: RunDirectory, trial: TrialState) -> int:
    """How many records are wrong: verification's figure, which must be what a
    comparison of the copy that was kept with the naive answer finds too."""
    verified = trial.verified
    assert trial.outcome == "done", trial.reason
    assert verified is not None
    exact = answer(run)
    assert verified.checked == verified.expected == len(exact)
    held = records(run, trial)
    wrong = [page for page, record in exact.items() if held.get(page) != record]
    assert verified.wrong == len(wrong)
    assert trial.kept_everything is (not wrong and not trial.failed)
    return len(wrong)


def kinds(trial: TrialState) -> set[str]:
    """In which ways operations have failed."""
    return {kind for each in trial.operations.values() for kind in each.failed}


def lost(trial: TrialState) -> int:
    """Records that the clients themselves know to be lost."""
    assert trial.measured is not None
    return trial.measured.figures.get("records lost", 0)


def reconnects(trial: TrialState) -> int:
    """How often a client has connected anew."""
    assert trial.measured is not None
    return trial.measured.figures.get("reconnects", 0)


# The server itself.


@EVERY_WAY
def test_a_private_server_that_is_killed_is_named(
    way: Way, stage: Stage, watched: Watched, data: Path
) -> None:
    """047."""
    stage.step_in({MIDDLE: lambda: watched.signal(signal.SIGKILL)})
    run = stage.carry_out(plan(data, private(way)))
    trial, _ = true_counts(run)
    assert trial.outcome == "failed"
    assert f"private {way.profile.kind} server was ended by SIGKILL" in trial.reason
    assert trial.verified is None
    assert watched.left() == []
    assert not list(run.path.glob("store-*"))


def frozen_until(
    stage: Stage, watched: Watched, told: Callable[[Event], bool], what: str
) -> None:
    """Freeze the server in the middle, until the journal has told of it."""

    def thaw() -> None:
        try:
            stage.until_told(told, what)
        finally:
            watched.signal(signal.SIGCONT)

    def freeze() -> None:
        watched.signal(signal.SIGSTOP)
        threading.Thread(target=thaw, daemon=True).start()

    stage.step_in({MIDDLE: freeze})


@EVERY_WAY
def test_a_short_freeze_is_a_gap_and_no_failure(
    way: Way, stage: Stage, watched: Watched, data: Path
) -> None:
    """Operations just took long."""

    def waits(event: Event) -> bool:
        return isinstance(event, Interval) and event.oldest_waiting_s > 0.15

    frozen_until(stage, watched, waits, "an operation that waits")
    run = stage.carry_out(plan(data, private(way, timeout_s=LONG_S)))
    trial, _ = true_counts(run)
    assert (trial.failed, reconnects(trial)) == (0, 0)
    assert told_truly(run, trial) == 0
    assert any(not each.operations for each in trial.intervals)  # the gap
    assert trial.measured is not None
    assert trial.measured.elapsed_s is not None
    assert trial.measured.elapsed_s > 0.15
    longest = [
        latency.percentiles(100)[0] or 0
        for each in trial.operations.values()
        for latency in (each.latency, each.miss_latency)
    ]
    assert max(longest) > 150_000_000
    assert watched.left() == []


@EVERY_WAY
def test_a_long_freeze_is_a_time_out_and_then_goes_on(
    way: Way, stage: Stage, watched: Watched, data: Path
) -> None:
    def failed(event: Event) -> bool:
        return isinstance(event, Faulted)

    frozen_until(stage, watched, failed, "a failed operation")
    run = stage.carry_out(plan(data, private(way, timeout_s=SHORT_S)))
    trial, _ = true_counts(run)
    assert kinds(trial) == {"timeout"}
    assert reconnects(trial) >= 1
    # The last write before a time-out may have arrived all the same.
    assert told_truly(run, trial) <= lost(trial)
    assert lost(trial) >= 1
    assert watched.left() == []


@EVERY_WAY
def test_a_restarted_server_is_reconnected_to_and_its_loss_is_found(
    way: Way,
    stage: Stage,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """047: never a lower total that looks complete."""
    require_server(way.profile.kind)
    port = server_module.free_port()
    monkeypatch.setattr(server_module, "free_port", lambda: port)
    server = private_server(way.profile.kind, tmp_path / "own", way.profile.settings)
    settings = server.start()

    asked, done = threading.Event(), threading.Event()

    def restart() -> None:
        asked.set()
        done.wait()

    stage.step_in({MIDDLE: restart})
    try:
        store = StorePlan("it", way.profile.kind, {**settings, "client": way.client})
        going_on = stage.begin(plan(data, store))
        assert asked.wait(60)
        assert server.process_id is not None
        os.kill(server.process_id, signal.SIGKILL)
        until(server.death, "it has died")
        # Here, because a server ends with the thread that has started it.
        server.start()
        done.set()
        going_on.result()
        run = stage.run
        assert run is not None
        trial, _ = true_counts(run)
        assert kinds(trial) <= {"disconnected", "refused"}
        assert trial.failed >= 1
        assert reconnects(trial) >= 1
        wrong = told_truly(run, trial)
        assert lost(trial) >= 1
        assert trial.seen is not None
        if trial.seen.durability.startswith("memory"):
            assert wrong >= 1
    finally:
        done.set()
        server.stop()


# What lies between.


@EVERY_WAY
def test_no_fault_here_strikes_a_connection_in_its_making(
    way: Way, proxied: Proxy
) -> None:
    """One that fails while it is made is made again, and is no failed operation."""
    proxied.handshake_replies = 0
    adapter = registry.adapter(way.profile.kind)
    store = adapter({**proxied.settings, "client": way.client})
    if way.client == "wire":
        assert isinstance(store, WireStore)
        connection, _ = store.wire()
        connection.close()
    else:
        store.open()
        store.close()
    assert proxied.replies < HANDSHAKE_REPLIES


@EVERY_WAY
@pytest.mark.parametrize("mode", ["record", "native"])
def test_replies_that_come_byte_by_byte_are_put_together(
    way: Way, stage: Stage, proxied: Proxy, few: Path, mode: str
) -> None:
    if mode == "native" and ADD not in registry.adapter(way.profile.kind).capabilities:
        pytest.skip(f"{way.profile.kind} has no add of its own")
    proxied.piece_bytes = 1
    run = stage.carry_out(plan(few, behind(way, proxied, LONG_S), mode))
    trial, _ = true_counts(run)
    assert (trial.failed, reconnects(trial)) == (0, 0)
    assert told_truly(run, trial) == 0


def armed(proxy: Proxy, faults: Sequence[Fault]) -> dict[int, Callable[[], None]]:
    """One of these after the other, each well apart from the next."""
    return {
        MIDDLE // 4 * (1 + number): partial(proxy.arm, fault)
        for number, fault in enumerate(faults)
    }


@EVERY_WAY
def test_a_reply_that_does_not_come_whole_is_one_failure(
    way: Way, stage: Stage, proxied: Proxy, data: Path
) -> None:
    """Connected anew, and on it goes; nothing is asked twice."""
    cuts = [Fault("close"), Fault("close", after=3), Fault("reset", after=1)]
    stage.step_in(armed(proxied, [*cuts, Fault("garbage")]))
    run = stage.carry_out(plan(data, behind(way, proxied, LONG_S)))
    trial, _ = true_counts(run)
    assert proxied.struck == 4, trial.reason
    assert (trial.failed, reconnects(trial), lost(trial)) == (4, 4, 4)
    # A driver may hang up before it tells what it did not like.
    allowed = [{"disconnected", "protocol"}]
    if way.client == "driver":
        allowed.append({"disconnected"})
    assert kinds(trial) in allowed
    assert told_truly(run, trial) <= 4


@EVERY_WAY
def test_a_reply_that_never_ends_is_a_time_out(
    way: Way, stage: Stage, proxied: Proxy, data: Path
) -> None:
    """022: bounded, and a failure; before its first byte and in the middle."""
    stage.step_in(armed(proxied, [Fault("silence"), Fault("silence", after=3)]))
    run = stage.carry_out(plan(data, behind(way, proxied, SHORT_S)))
    trial, _ = true_counts(run)
    assert proxied.struck == 2, trial.reason
    assert kinds(trial) == {"timeout"}
    assert trial.failed >= 2
    assert reconnects(trial) >= 2
    assert told_truly(run, trial) <= lost(trial)


@EVERY_WAY
def test_a_server_that_stays_frozen_ends_its_trial_and_no_other(
    way: Way, stage: Stage, proxied: Proxy, data: Path
) -> None:
    """After a limit, with a reason and every count."""
    stage.give_up_after(0.2)
    stage.step_in({MIDDLE: proxied.hold})
    run = stage.carry_out(plan(data, behind(way, proxied, SHORT_S)))
    trial, _ = true_counts(run)
    assert trial.outcome == "failed"
    assert "gone for" in trial.reason
    assert trial.measured is not None
    assert kinds(trial) == {"timeout"}
    assert trial.verified is None
    # What could not be removed is said.
    notes = [note.text for note in run.state().notes]
    assert any("may be left" in text for text in notes)
