"""Somebody's server: what is found there, what may go, and what is left."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from kvtui import config
from kvtui.commands import planning
from kvtui.commands import run as command
from kvtui.engine import markers, premises, system
from kvtui.errors import StoreUnavailable, UsageError
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.runs import history
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import TrialState
from kvtui.stores import registry
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import tokyo as tokyo_server
from kvtui.stores.store import StoreInfo
from tests.conftest import Servers, require_server
from tests.engine.inside import Stage, stage
from tests.stores.fakes import Fake
from tests.waiting import until

__all__ = ["stage"]

MARKER = b"kvtui:run:fans"


@pytest.fixture
def mine(servers: Servers) -> Iterator[Any]:
    """Somebody's own connection to somebody's server, empty before and after."""
    made = redis.Redis(unix_socket_path=str(servers.get("redis", "unix").path))
    yield made
    made.flushall()
    made.config_set("maxmemory", 0)
    made.config_set("maxmemory-policy", "noeviction")
    made.close()


@pytest.fixture
def store(redis_unix: PrivateServer) -> StorePlan:
    return StorePlan("mine", "redis", redis_unix.connect_settings())


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.tsv"
    path.write_text("".join(f"hot\tp{n % 7}\tq{n}\n" for n in range(60)))
    return path


def plan(data: Path, *stores: StorePlan, **more: Any) -> RunPlan:
    given = {"data": str(data), "mode": "record"}
    return RunPlan(WorkloadPlan("fans", given), stores, clients=2, **more)


def only(stage: Stage, asked: RunPlan) -> TrialState:
    """The run's only trial."""
    (trial,) = stage.carry_out(asked).state().trials
    return trial


def notes(stage: Stage) -> list[str]:
    assert stage.run is not None
    return [note.text for note in stage.run.state().notes]


def marker(run: str, **more: Any) -> bytes:
    made = markers.Marker(run, "here", markers.machine(), "2026-01-02T03:04:05", "fans")
    return msgspec.json.encode(msgspec.structs.replace(made, **more))


def interrupted(asked: RunPlan) -> str:
    """A run of this machine that is not going on."""
    return history.create(config.runs_directory(), asked).name


def test_a_marker_stands_there_while_a_run_goes_on_and_no_longer(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    seen: list[bytes] = []
    mine.set("other", "value")
    stage.step_in({5: lambda: seen.append(mine.get(MARKER))})
    trial = only(stage, plan(data, store))
    assert trial.kept_everything
    assert stage.run is not None
    told = json.loads(seen[0])
    assert (told["run"], told["kept"]) == (stage.run.name, False)
    assert told["workload"] == "fans"
    assert mine.keys() == [b"other"]


def test_what_an_interrupted_run_left_is_cleared_by_itself(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    mine.set("kvtui:fans:x", "old")
    mine.set(MARKER, marker(interrupted(plan(data, store))))
    trial = only(stage, plan(data, store))
    assert trial.kept_everything, trial.reason
    assert any("interrupted run" in text for text in notes(stage))
    assert mine.keys() == []


@pytest.mark.parametrize(
    "left",
    [
        None,
        b"no marker",
        {"kept": True},
        {"machine": "another", "host": "elsewhere"},
        {"run": "20200101T000000Z-fans"},
        {"run": "../../x"},
    ],
)
def test_anything_else_is_said_and_stays(
    stage: Stage,
    mine: Any,
    store: StorePlan,
    data: Path,
    left: bytes | dict[str, Any] | None,
) -> None:
    """056: kept, another machine's, nobody's."""
    mine.set("kvtui:fans:x", "old")
    if isinstance(left, dict):
        left = marker(**{"run": interrupted(plan(data, store)), **left})
    if left is not None:
        mine.set(MARKER, left)
    before = sorted(mine.keys())
    trial = only(stage, plan(data, store))
    assert trial.outcome == "failed"
    assert "still holds 1 key under kvtui:fans:" in trial.reason
    assert "--overwrite" in trial.reason
    assert sorted(mine.keys()) == before
    assert mine.get(MARKER) == left
    trial = only(stage, plan(data, store, clear=True))
    assert trial.kept_everything
    assert mine.keys() == []


def test_a_run_of_another_store_proves_nothing(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    mine.set("kvtui:fans:x", "old")
    other = StorePlan("other", "redis", {"host": "127.0.0.1", "port": 1})
    mine.set(MARKER, marker(interrupted(plan(data, other))))
    assert only(stage, plan(data, store)).outcome == "failed"


def test_a_mark_without_keys_may_be_of_a_run_that_has_only_begun(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    left = marker("20260102T030405Z-fans", machine="another", host="elsewhere")
    mine.set(MARKER, left)
    trial = only(stage, plan(data, store))
    assert trial.outcome == "failed"
    assert "20260102T030405Z-fans on elsewhere" in trial.reason
    assert "no keys yet" in trial.reason
    assert mine.get(MARKER) == left


def test_a_marker_that_is_no_text_is_in_the_way(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    """020."""
    mine.rpush(MARKER, "a list")
    trial = only(stage, plan(data, store))
    assert "nothing says whose they are" in trial.reason
    assert mine.lrange(MARKER, 0, -1) == [b"a list"]


def test_another_run_is_told_by_its_marker_also_under_another_name(
    stage: Stage, mine: Any, store: StorePlan, redis_unix: PrivateServer, data: Path
) -> None:
    """Two names of one socket: the address does not tell, the marker does."""
    link = data.parent / "link.sock"
    link.symlink_to(str(redis_unix.path))
    found: list[tuple[str, str]] = []

    def ask() -> None:
        other = StorePlan("other", "redis", {"path": str(link)})
        mark = msgspec.json.decode(mine.get(MARKER), type=markers.Marker)
        left = markers.Found(StoreInfo("", "", "", ""), 3, True, mark)
        runs = config.runs_directory()
        found.append(
            (
                markers.standing(left, store, runs),
                markers.standing(left, other, runs),
            )
        )

    stage.step_in({5: ask})
    assert only(stage, plan(data, store)).kept_everything
    assert found == [("in use", "in use")]


@pytest.fixture
def elsewhere() -> Iterator[dict[str, Any]]:
    """A marker's words on a runner that lives, under another state folder."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as runner:
        yield {
            "process_id": runner.pid,
            "process_started_s": system.process_started_s(runner.pid),
        }
        runner.kill()


@pytest.mark.parametrize("clear", [False, True])
def test_a_run_under_another_state_folder_is_left_alone(
    stage: Stage,
    mine: Any,
    store: StorePlan,
    data: Path,
    elsewhere: dict[str, Any],
    clear: bool,
) -> None:
    """Also with --overwrite: its keys are being written."""
    mine.set("kvtui:fans:x", "its")
    left = marker("20260102T030405Z-fans", **elsewhere)
    mine.set(MARKER, left)
    with pytest.raises(UsageError, match="in use by run 20260102T030405Z") as caught:
        command.check(plan(data, store, clear=clear))
    assert caught.value.hint is not None
    assert f"kill {elsewhere['process_id']}" in caught.value.hint
    trial = only(stage, plan(data, store, clear=clear))
    assert trial.outcome == "failed"
    assert f"goes on (process {elsewhere['process_id']})" in trial.reason
    assert mine.get("kvtui:fans:x") == b"its"
    assert mine.get(MARKER) == left


def test_a_process_of_the_same_number_is_not_the_run(
    mine: Any, store: StorePlan, data: Path, elsewhere: dict[str, Any]
) -> None:
    def standing(**more: Any) -> str:
        told = {**elsewhere, **more}
        left = msgspec.json.decode(marker("r", **told), type=markers.Marker)
        found = markers.Found(StoreInfo("", "", "", ""), 3, True, left)
        return markers.standing(found, store, config.runs_directory(), "r")

    assert standing() == "in use"  # Though its name is that of the run that asks.
    began = elsewhere["process_started_s"]
    assert standing(process_started_s=began - 60) == "left"
    assert standing(process_id=2**22 + 1) == "left"
    assert standing(machine="another") == "left"
    assert standing(kept=True) == "left"
    assert standing(process_id=None, process_started_s=None) == "interrupted"


def test_a_process_that_has_ended_is_not_living() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        # Ended, and nobody has asked for it yet.
        until(lambda: system.process_started_s(ended.pid) is None, "it has ended")
    assert system.process_started_s(ended.pid) is None
    assert system.process_started_s(os.getpid()) is not None


def test_a_marker_of_an_older_version_is_read(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    told = json.loads(marker(interrupted(plan(data, store))))
    del told["process_id"], told["process_started_s"]
    mine.set(MARKER, json.dumps(told))
    mine.set("kvtui:fans:x", "old")
    assert only(stage, plan(data, store)).kept_everything
    assert any("interrupted run" in text for text in notes(stage))


def test_a_run_whose_keys_another_takes_over_blames_no_store(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    its = marker("20260102T030405Z-fans", machine="another", host="elsewhere")

    def take_over() -> None:
        for key in mine.keys("kvtui:*"):
            mine.delete(key)
        mine.set(MARKER, its)
        mine.set("kvtui:fans:its", "value")

    stage.step_in({9: take_over})
    trial = only(stage, plan(data, store))
    assert trial.outcome == "failed"
    assert "another run (20260102T030405Z-fans on elsewhere) took" in trial.reason
    assert trial.verified is None
    # And what is there now is not this run's to remove.
    assert mine.get(MARKER) == its
    assert mine.get("kvtui:fans:its") == b"value"
    assert any("may be left" in text for text in notes(stage))


def test_two_runs_that_begin_at_once_do_not_both_write(
    stage: Stage, mine: Any, store: StorePlan, data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    its = marker("20260102T030405Z-fans", machine="another", host="elsewhere")
    made = premises.Premises.enter

    def entering(stay: premises.Premises, **how: Any) -> None:
        made(stay, **how)
        mine.set(MARKER, its)

    monkeypatch.setattr(premises.Premises, "enter", entering)
    trial = only(stage, plan(data, store))
    assert "another run" in trial.reason
    assert trial.measured is None
    assert mine.keys() == [MARKER]


def test_a_store_that_somebody_clears_is_not_blamed(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    stage.step_in({9: mine.flushall})
    trial = only(stage, plan(data, store))
    assert trial.outcome == "failed"
    assert "marker is gone" in trial.reason
    assert "somebody cleared this store" in trial.reason
    assert trial.verified is None
    assert mine.keys() == []


def test_a_store_that_is_cleared_while_it_is_verified_is_not_blamed(
    stage: Stage, mine: Any, store: StorePlan, data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    made = FansWorkload.verifiers

    def verifiers(workload: FansWorkload, keep: Any) -> Any:
        mine.flushall()
        return made(workload, keep)

    monkeypatch.setattr(FansWorkload, "verifiers", verifiers)
    trial = only(stage, plan(data, store))
    assert "somebody cleared this store" in trial.reason
    assert trial.verified is None


def test_what_the_store_itself_loses_is_its_own_fault(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    """Its marker stands: the records are this run's alone."""

    def lose() -> None:
        for key in mine.keys("kvtui:fans:*"):
            mine.delete(key)

    stage.step_in({9: lose})
    trial = only(stage, plan(data, store))
    assert trial.outcome == "done"
    assert trial.verified is not None
    assert trial.verified.wrong > 0


def test_kept_records_are_marked_as_kept(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    trial = only(stage, plan(data, store, keep=True))
    assert trial.kept_everything
    assert stage.run is not None
    told = json.loads(mine.get(MARKER))
    assert (told["run"], told["kept"]) == (stage.run.name, True)
    again = only(stage, plan(data, store))
    assert "asked to keep" in again.reason
    # Kept, and then removed by whoever kept them: nothing is in the way.
    for key in mine.keys("kvtui:fans:*"):
        mine.delete(key)
    assert only(stage, plan(data, store)).kept_everything


def test_a_key_of_another_type_is_a_failed_operation_with_its_text(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    """020: in the middle of a run."""

    def spoil() -> None:
        mine.delete("kvtui:fans:hot")
        mine.rpush("kvtui:fans:hot", "a list")

    stage.step_in({5: spoil})
    trial = only(stage, plan(data, store))
    assert not trial.kept_everything
    assert trial.failed > 0
    assert any("WRONGTYPE" in fault.message for fault in trial.faults)
    assert mine.keys() == []


def test_a_policy_that_drops_is_warned_of_before_the_clock_runs(
    stage: Stage, mine: Any, store: StorePlan, data: Path
) -> None:
    """043."""
    mine.config_set("maxmemory", 50_000_000)
    mine.config_set("maxmemory-policy", "allkeys-lru")
    trial = only(stage, plan(data, store))
    assert trial.kept_everything
    warned = [text for text in notes(stage) if "allkeys-lru" in text]
    assert len(warned) == 1
    checked = command.check(plan(data, store))
    assert any("50 MB" in line and "free" in line for line in checked.found)
    assert any("warning: mine drops keys" in line for line in checked.found)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Records that come to 3 MB."""
    path = tmp_path / "wide.tsv"
    path.write_text("".join(f"own{n}\t{'x' * 500}{n}\n" for n in range(2500)))
    return path


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl", "noeviction"])
@pytest.mark.parametrize("clear", [False, True])
def test_keys_of_others_are_not_put_at_risk(
    stage: Stage, mine: Any, store: StorePlan, wide: Path, policy: str, clear: bool
) -> None:
    """What does not fit into what is free is refused before the first write, and
    --overwrite, which is about kvtui's own keys, changes nothing in that."""
    for number in range(1000):
        mine.set(f"shop:order:{number}", "x" * 2000, ex=86_400 if number else None)
    if clear:
        mine.set("kvtui:fans:x", "old")
    mine.config_set("maxmemory", int(mine.info("memory")["used_memory"]) + 3_000_000)
    mine.config_set("maxmemory-policy", policy)
    trial = only(stage, plan(wide, store, clear=clear))
    if policy == "noeviction":
        assert "not kvtui's" not in trial.reason
    else:
        assert trial.outcome == "failed"
        assert "it would drop keys that are not kvtui's" in trial.reason
        assert "are in use" in trial.reason
        assert trial.measured is None
        assert trial.seen is None
    assert mine.dbsize() == 1000
    assert mine.get(MARKER) is None


def test_a_server_with_room_is_used_and_the_risk_said(
    stage: Stage, mine: Any, store: StorePlan, wide: Path
) -> None:
    mine.set("shop:order:1", "x")
    mine.config_set("maxmemory", int(mine.info("memory")["used_memory"]) + 30_000_000)
    mine.config_set("maxmemory-policy", "allkeys-lru")
    checked = command.check(plan(wide, store))
    trial = only(stage, plan(wide, store))
    assert trial.kept_everything, trial.reason
    for told in (checked.found, notes(stage)):
        assert any("may drop some that are not kvtui's" in text for text in told)
    assert mine.keys() == [b"shop:order:1"]


@pytest.mark.parametrize("mode", ["record", "native"])
def test_items_of_others_in_memcached_are_not_put_at_risk(
    stage: Stage, tmp_path: Path, wide: Path, mode: str
) -> None:
    require_server("memcached")
    asked_for = {"transport": "unix", "memory": "8MB"}
    server = private_server("memcached", tmp_path / "own", asked_for)
    settings = server.start()
    stranger = registry.adapter("memcached")(settings)
    stranger.open()
    try:
        for number in range(4000):
            stranger.put(b"shop:%d" % number, b"x" * 1000)
        given = WorkloadPlan("fans", {"data": str(wide), "mode": mode})
        own = StorePlan("mine", "memcached", settings)
        trial = only(stage, RunPlan(given, (own,), clients=2))
        assert "it would drop keys that are not kvtui's" in trial.reason
        assert trial.measured is None
        assert stranger.info().evictable_keys == 4000
        assert stranger.info().details["evicted_keys"] == "0"
    finally:
        stranger.close()
        server.stop()


@contextlib.contextmanager
def tyrant_of(
    most: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[StorePlan, Any]]:
    """A ttserver that keeps so many records and drops the oldest, and somebody's own
    connection to it."""
    require_server("tokyo")
    monkeypatch.setitem(tokyo_server.DATABASES, "hash", f"*#capnum={most}")
    server = private_server("tokyo", folder / "own", {"transport": "unix"})
    settings = server.start()
    stranger = registry.adapter("tokyo")(settings)
    stranger.open()
    try:
        yield StorePlan("mine", "tokyo", settings), stranger
    finally:
        stranger.close()
        server.stop()


def test_more_records_than_a_server_keeps_are_refused_with_both_numbers(
    stage: Stage, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """043, where the limit is a number of records and of no bytes."""
    with tyrant_of(40, tmp_path, monkeypatch) as (store, stranger):
        trial = only(stage, plan(data, store))
        assert trial.outcome == "failed"
        assert "it has 68 records, and the server keeps 40 at most" in trial.reason
        assert "capnum=40" in trial.reason
        assert trial.measured is None
        assert stranger.count("fans") == 0
        checked = command.check(plan(data, store))
        assert any("drops keys" in text and "40 keys" in text for text in checked.found)


@pytest.mark.parametrize("mode", ["record", "native"])
def test_records_of_others_in_a_full_tyrant_are_not_put_at_risk(
    stage: Stage, tmp_path: Path, data: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """043: also where each counter is a key of its own."""
    with tyrant_of(120, tmp_path, monkeypatch) as (store, stranger):
        others = [
            b"shop:%d" % number for number in range(80 if mode == "record" else 1)
        ]
        for each in others:
            stranger.put(each, b"x")
        given = WorkloadPlan("fans", {"data": str(data), "mode": mode})
        trial = only(stage, RunPlan(given, (store,), clients=2))
        assert "it would drop keys that are not kvtui's" in trial.reason
        assert trial.measured is None
        assert all(stranger.get(each) == b"x" for each in others)


def test_records_that_a_server_dropped_without_counting_are_lost_data(
    stage: Stage, tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """043: what is missing at the end is the only evidence."""
    with tyrant_of(120, tmp_path, monkeypatch) as (store, _):
        given = WorkloadPlan("fans", {"data": str(data), "mode": "native"})
        trial = only(stage, RunPlan(given, (store,), clients=2))
        assert trial.outcome == "done", trial.reason
        assert trial.verified is not None
        assert trial.verified.wrong > 0
        assert not trial.kept_everything
        (told,) = [text for text in notes(stage) if "data lost" in text]
        assert f"{trial.verified.wrong:,} of 68 records" in told
        assert "capnum=120" in told
        assert any("may drop records" in text for text in notes(stage))


def test_any_eviction_makes_the_result_invalid(
    stage: Stage, mine: Any, store: StorePlan, tmp_path: Path
) -> None:
    """043: every write said OK."""
    wide = tmp_path / "wide.tsv"
    wide.write_text("".join(f"own{n}\t{'x' * 200}{n}\n" for n in range(2500)))
    mine.config_set("maxmemory", int(mine.info("memory")["used_memory"]) + 1_200_000)
    mine.config_set("maxmemory-policy", "allkeys-lru")
    trial = only(stage, plan(wide, store))
    assert int(mine.info("stats")["evicted_keys"]) > 0
    assert not trial.kept_everything
    told = [*notes(stage), trial.reason]
    assert any(re.search("data lost|cannot hold|did not keep", each) for each in told)


def test_the_plan_tells_what_was_found(mine: Any, store: StorePlan, data: Path) -> None:
    mine.set("kvtui:fans:x", "old")
    with pytest.raises(UsageError) as caught:
        command.check(plan(data, store))
    assert caught.value.hint == markers.CLEAR_HINT
    checked = command.check(plan(data, store, clear=True))
    assert any(
        "Redis" in line and str(store.settings["path"]) in line
        for line in checked.found
    )
    assert any("will be removed" in line for line in checked.found)
    mine.set(MARKER, marker(interrupted(plan(data, store))))
    checked = command.check(plan(data, store))
    assert any("will be cleared" in line for line in checked.found)
    assert mine.dbsize() == 2  # looking changes nothing


@pytest.mark.parametrize(("answer", "cleared"), [("y\n", True), ("n\n", False)])
def test_on_a_terminal_it_asks(
    mine: Any,
    store: StorePlan,
    data: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    cleared: bool,
) -> None:
    mine.set("kvtui:fans:x", "old")
    monkeypatch.setattr(planning, "_may_be_asked", lambda: True)
    monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
    asked = plan(data, store)
    if cleared:
        assert command.check(asked).plan.clear
    else:
        with pytest.raises(UsageError, match="left as it is"):
            command.check(asked)


def loading(times: int) -> Fake:
    """A server that is loading for so many questions."""
    left = [times]

    def answer(conversation: Any, words: list[bytes]) -> None:
        conversation.send(b"+PONG\r\n")

    fake = Fake(answer)
    handshake = fake._talk

    def talk(conversation: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            with contextlib.suppress(OSError):
                for _ in conversation.commands():
                    conversation.send(b"-LOADING Redis is loading the dataset\r\n")
            conversation.close()
            return
        handshake(conversation)

    fake._talk = talk  # type: ignore[method-assign]
    return fake


def test_a_server_that_is_loading_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """046: with a limit, and with words."""
    told: list[str] = []
    with loading(3) as fake:
        asked = StorePlan("mine", "redis", fake.settings)
        with premises.reached(asked, told.append) as opened:
            assert isinstance(opened, RedisStore)
    assert len(told) == 1
    assert "mine" in told[0]
    assert "loading" in told[0]
    monkeypatch.setattr(premises, "LOADING_LIMIT_S", 0.0)
    with (
        loading(10**6) as fake,
        pytest.raises(StoreUnavailable, match="loading"),
        premises.reached(StorePlan("mine", "redis", fake.settings), told.append),
    ):
        pass


def test_waiting_can_be_given_up() -> None:
    class GivenUp(Exception):
        pass

    def pause(_: float) -> None:
        raise GivenUp

    with loading(10**6) as fake:
        asked = StorePlan("mine", "redis", fake.settings)
        with pytest.raises(GivenUp), premises.reached(asked, lambda _: None, pause):
            pass


@pytest.mark.parametrize(
    "kind", [k for k, v in registry.KINDS.items() if v.servers and not v.read_only]
)
def test_a_server_of_every_kind_is_left_as_it_was_found(
    stage: Stage, servers: Servers, data: Path, kind: str
) -> None:
    """056: a stranger's key outlives a run, and nothing of kvtui's does."""
    require_server(kind)
    profile = next(p for p in registry.BUILT_IN if p.kind == kind)
    transport = str(profile.settings.get("transport", "unix"))
    settings = servers.get(kind, transport).connect_settings()
    stranger = registry.adapter(kind)(settings)
    stranger.open()
    stranger.put(b"kvtui:other:stranger", b"value")
    try:
        trial = only(stage, plan(data, StorePlan("mine", kind, settings)))
        assert trial.kept_everything, trial.reason
        assert stranger.get(b"kvtui:other:stranger") == b"value"
        assert stranger.count("fans") == 0
        assert stranger.get(MARKER) is None
    finally:
        stranger.delete(b"kvtui:other:stranger")
        stranger.close()


def test_a_server_that_cannot_be_left_clean_is_told(
    stage: Stage, mine: Any, store: StorePlan, data: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def refuse(self: RedisStore, namespace: str) -> int:
        raise StoreUnavailable("it will not")

    monkeypatch.setattr(RedisStore, "wipe", refuse)
    assert only(stage, plan(data, store)).kept_everything
    assert any("may be left on mine (it will not)" in text for text in notes(stage))
    assert mine.get(MARKER) is not None
