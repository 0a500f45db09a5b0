"""Cases met in public that concern a run as a whole, over every store."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Literal

import pytest

from kvtui.engine.messages import (
    Failed,
    Finish,
    Go,
    MeasuredPart,
    Message,
    Ready,
    Report,
    VerifiedPart,
    Verify,
    WorkerPlan,
)
from kvtui.engine.trial import WorkerProcess
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import registry
from kvtui.stores.operations import key
from kvtui.stores.programs import find_program
from tests.conftest import Servers
from tests.engine.inside import Stage, stage
from tests.engine.test_faults import WRITABLE, written
from tests.engine.test_runs import records
from tests.jobs.fans.people import counted
from tests.stores.proxy import Proxy
from tests.stores.talking import KEEPING, WITH_SERVER, Way

__all__ = ["stage"]


def test_a_page_that_everybody_likes_is_counted_exactly_on_every_store(
    stage: Stage, servers: Servers, tmp_path: Path
) -> None:
    """034: eight workers, two thousand people; a tenth of them where each write waits
    for the disk, or a stand-in for the server takes milliseconds."""
    crowd = [
        ["hot", f"other {number % 7}"] if number % 20 == 0 else ["hot"]
        for number in range(2000)
    ]
    stores: list[StorePlan] = []
    for way in KEEPING:
        kind = registry.kind(way.profile.kind)
        if way.profile.kind in [each.kind for each in stores]:
            continue  # Neither transport nor driver has a say in this.
        settings = {"client": way.client}
        if kind.servers:
            if kind.read_only or find_program(kind.servers) is None:
                continue
            transport = str(way.profile.settings.get("transport", "unix"))
            settings |= servers.get(way.profile.kind, transport).connect_settings()
        elif not registry.availability(way.profile).ready:
            continue
        stores.append(StorePlan(str(way), way.profile.kind, settings))
    slow = [each for each in stores if each.kind in ("mongo", "mysql")]
    for people, asked in (
        (crowd, [each for each in stores if each not in slow]),
        (crowd[:200], slow),
    ):
        if not asked:
            continue
        workload = WorkloadPlan("fans", {"data": str(written(people, tmp_path))})
        run = stage.carry_out(RunPlan(workload, tuple(asked), clients=16, workers=8))
        exact = counted(people)
        assert exact["hot"]["fans"] == len(people)
        trials = run.state().trials
        kinds = {each.name: each.kind for each in asked}
        assert len(trials) == len(asked)
        for trial in trials:
            assert trial.kept_everything, (trial.store, trial.reason)
            assert records(run, trial) == exact, trial.store
            if registry.adapter(kinds[trial.store]).shared_by_threads:
                assert trial.workers == 1
                assert trial.note == "one worker: the store lives in its process"


@pytest.mark.parametrize("beyond", ["refuse", "ignore"])
@pytest.mark.parametrize("way", WRITABLE, ids=str)
def test_a_cap_on_connections_is_a_clear_refusal(
    way: Way,
    beyond: Literal["refuse", "ignore"],
    stage: Stage,
    servers: Servers,
    tmp_path: Path,
) -> None:
    """038: wanted and got before the clock runs; never 20 measured as 100. Some
    servers close a connection too many, some accept it and say nothing."""
    transport = str(way.profile.settings.get("transport", "unix"))
    server = servers.get(way.profile.kind, transport)
    with Proxy(server.connect_settings(), most=20, beyond=beyond) as proxy:
        given = {**proxy.settings, "client": way.client, "timeout_s": 0.5}
        store = StorePlan("it", way.profile.kind, given)
        workload = WorkloadPlan("fans", {"data": str(written([["a"]], tmp_path))})
        run = stage.carry_out(RunPlan(workload, (store,), clients=100))
    (trial,) = run.state().trials
    assert (trial.outcome, trial.measured) == ("failed", None)
    assert "of 100 clients could connect" in trial.reason
    admin = registry.adapter(way.profile.kind)(server.connect_settings())
    admin.open()
    assert admin.count(FansWorkload.namespace) == 0
    admin.close()


def sockets(process: int) -> set[str]:
    """What identifies each socket of a process."""
    folder, found = Path(f"/proc/{process}/fd"), set[str]()
    for file in folder.iterdir():
        with contextlib.suppress(OSError):  # It may be closed meanwhile.
            found.add(os.readlink(file))
    return {each for each in found if each.startswith("socket:")}


def test_a_worker_has_no_connection_of_whoever_started_it(
    servers: Servers, tmp_path: Path
) -> None:
    """031: it connects by itself after its start, and the connections that were
    there before it are good afterwards."""
    here = [
        way
        for way in WITH_SERVER
        if find_program(registry.kind(way.profile.kind).servers)
        and not registry.kind(way.profile.kind).read_only
    ]
    if not here:
        pytest.skip("no server program is installed")
    data = {"data": str(written([["a"]], tmp_path))}
    FansWorkload.prepare(data, tmp_path / "prepared", lambda _: None)
    with contextlib.ExitStack() as opened:
        stores = []
        for way in here:
            transport = str(way.profile.settings.get("transport", "unix"))
            server = servers.get(way.profile.kind, transport)
            given = server.connect_settings() | {"client": way.client}
            store = registry.adapter(way.profile.kind)(given)
            store.open()
            opened.callback(store.close)
            stores.append(store)
        mine = sockets(os.getpid())
        assert len(mine) >= len(stores)
        way, given = here[0], dict(stores[0].settings)
        asked = WorkerPlan(
            *(0, way.profile.kind, given, way.client, (0, 1), 2),
            *("fans", data, str(tmp_path / "prepared"), 10.0),
        )
        log = os.open(os.devnull, os.O_WRONLY)
        worker = WorkerProcess(asked, log)
        os.close(log)
        while worker.ready is None:
            for message in worker.receiver.receive():
                assert isinstance(message, Ready), message
                worker.ready = message
        its = sockets(worker.process_id)
        assert its  # its own
        assert not its & mine
        worker.send(Finish())
        worker.end()
        for store in stores:
            assert store.get(key("test", b"missing")) is None


def test_eight_workers_never_get_each_others_replies(
    servers: Servers, tmp_path: Path
) -> None:
    """031: 100,000 reads by eight processes, after a connection of whoever started
    them was made, and while another process closes its own."""
    way = next(way for way in WITH_SERVER if str(way) == "redis-unix-wire")
    if find_program(registry.kind(way.profile.kind).servers) is None:
        pytest.skip("no redis server is installed")
    crowd = [[f"{n % 400} {page}" for page in range(10)] for n in range(10_000)]
    data = {"data": str(written(crowd, tmp_path))}
    FansWorkload.prepare(data, tmp_path / "prepared", lambda _: None)
    given = servers.get(way.profile.kind, "unix").connect_settings()
    given |= {"client": way.client}
    parent = registry.adapter(way.profile.kind)(given)
    parent.open()
    mine = key("test", b"of the parent")
    parent.put(mine, b"kept")
    log = os.open(os.devnull, os.O_WRONLY)
    workers = [
        WorkerProcess(
            WorkerPlan(
                *(number, way.profile.kind, given, way.client, (number % 8,), 8),
                *("fans", data, str(tmp_path / "prepared"), 60.0),
            ),
            log,
        )
        for number in range(9)
    ]
    os.close(log)
    told: dict[WorkerProcess, list[Message]] = {each: [] for each in workers}

    def hear(worker: WorkerProcess, wanted: type[Message]) -> Any:
        while True:
            for message in worker.receiver.receive():
                assert not isinstance(message, Failed), message
                told[worker].append(message)
                if isinstance(message, wanted):
                    return message
            assert not worker.receiver.ended

    try:
        for each in workers:
            assert hear(each, Ready)
        *workers, one = workers
        begin = Go(time.perf_counter_ns())
        for each in workers:
            each.send(begin)
        one.send(Finish())
        one.end()
        parts = [hear(each, MeasuredPart) for each in workers]
        assert sum(part.attempted for part in parts) == 200_000
        gets = [
            message.operations["get"]
            for messages in told.values()
            for message in messages
            if isinstance(message, Report) and "get" in message.operations
        ]
        assert sum(each.ok + each.miss for each in gets) == 100_000
        for each in workers:
            each.send(Verify())
        for each in workers:
            while not (found := hear(each, VerifiedPart)).finished:
                pass
            assert (found.findings.wrong, found.findings.first_wrong) == (0, "")
            assert found.findings.checked == found.findings.expected > 0
        assert parent.get(mine) == b"kept"
    finally:
        for each in workers:
            each.send(Finish())
            each.end()
        parent.delete(mine)
        parent.wipe(FansWorkload.namespace)
        parent.close()
