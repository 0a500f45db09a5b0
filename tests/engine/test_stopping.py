"""Stopping a run before anything is measured, whatever it waits for by then.

No time is measured here: what had waited for its time-out would have *failed*, and
what stops at once has *stopped*.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import psutil
import pytest

from kvtui.runs import history
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import registry
from kvtui.stores.programs import find_program
from kvtui.stores.servers import PrivateServer
from tests.conftest import Servers
from tests.engine.test_runs import World, ended, log_is_clean, plan, world, write_people
from tests.stores.proxy import Proxy
from tests.stores.talking import WITH_SERVER
from tests.waiting import until

__all__ = ["world"]

Dead = Literal["silent", "unreachable"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Hardly anything."""
    return write_people([["a", "b"]], tmp_path / "people.jsonl")


@contextlib.contextmanager
def dead_place(dead: Dead) -> Iterator[socket.socket]:
    """A listener that lets a connection in and never answers, or one whose queue is
    full, so that the kernel drops what asks to be let in."""
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0 if dead == "unreachable" else 100)
        while dead == "unreachable":
            filler = opened.enter_context(socket.socket())
            filler.settimeout(0.2)
            try:
                filler.connect(listener.getsockname())
            except TimeoutError:
                break
        yield listener


def connecting(run: RunDirectory, listener: socket.socket, dead: Dead) -> bool:
    """Whether the run waits for that listener by now."""
    if dead == "silent":
        return bool(select.select([listener], [], [], 0)[0])
    started = run.state().started
    if started is None:
        return False
    port = listener.getsockname()[1]
    return any(
        each.status == psutil.CONN_SYN_SENT and each.raddr and each.raddr[1] == port
        for each in psutil.Process(started.process_id).net_connections("tcp")
    )


def asked_of(kind: str, data: Path) -> WorkloadPlan:
    """A workload that this kind of store can be asked."""
    if registry.kind(kind).read_only:
        return WorkloadPlan("http", {"requests": 10})
    return WorkloadPlan("fans", {"data": str(data)})


@pytest.mark.parametrize("dead", ["silent", "unreachable"])
def test_stop_does_not_wait_for_a_dead_host(
    world: World, data: Path, dead: Dead
) -> None:
    """029: every store that is reached by a network, all at once, so that the test
    takes no longer than one of them."""
    with contextlib.ExitStack() as opened:
        runs = {}
        for kind, about in registry.KINDS.items():
            if not about.servers or (about.read_only and dead == "silent"):
                continue  # HTTP has no greeting that it could wait for.
            listener = opened.enter_context(dead_place(dead))
            host, port = listener.getsockname()
            there = {"host": host, "port": port, "timeout_s": 600}
            asked = RunPlan(asked_of(kind, data), (StorePlan("it", kind, there),))
            runs[kind] = listener, world.start(asked)
        assert len(runs) >= 5
        left = dict(runs)

        def all_stopped() -> bool:
            for kind, (listener, run) in list(left.items()):
                if connecting(run, listener, dead):
                    history.stop(run)
                    del left[kind]
            return not left

        until(all_stopped, f"all of {list(left)} are connecting")
        for kind, (_, run) in runs.items():
            state = ended(run)
            (trial,) = state.trials
            assert (trial.outcome, trial.phase) == ("stopped", "connect"), kind
            assert state.outcome == "stopped"
            log_is_clean(run)
    world.nothing_left()


def test_stop_does_not_wait_for_clients_that_cannot_connect(
    world: World, servers: Servers, data: Path
) -> None:
    """029: the server answers the runner, and not all of the clients; what the runner
    left there is removed."""
    way = next(each for each in WITH_SERVER if each.profile.kind == "redis")
    if find_program(registry.kind(way.profile.kind).servers) is None:
        pytest.skip("no server program is installed")
    server: PrivateServer = servers.get(way.profile.kind, "unix")
    with Proxy(server.connect_settings(), most=5, beyond="ignore") as proxy:
        given = {**proxy.settings, "client": way.client, "timeout_s": 600}
        asked = StorePlan("it", way.profile.kind, given)
        run = world.start(plan(data, asked, clients=100))
        until(lambda: proxy.ignored, "one too many is connecting")
        history.stop(run)
        state = ended(run)
    (trial,) = state.trials
    assert (trial.outcome, state.outcome) == ("stopped", "stopped")
    assert not [note for note in state.notes if note.level == "warning"]
    log_is_clean(run)
    world.nothing_left()


def test_stop_does_not_wait_for_a_private_server_to_be_ready(
    world: World, data: Path, tmp_path: Path
) -> None:
    """029: it is ended, and its folder is gone."""
    program = tmp_path / "never-ready"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o700)
    given = {"transport": "unix", "program": str(program)}
    run = world.start(plan(data, StorePlan("its", "redis", given, private=True)))
    until(lambda: any("sleep" in each.name() for each in world.processes()), "started")
    history.stop(run)
    (trial,) = ended(run).trials
    assert trial.outcome == "stopped"
    log_is_clean(run)
    world.nothing_left()
