"""Somebody's server: what is found there, what may go, and what is left."""

from __future__ import annotations

import contextlib
import io
import json
import re
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
from kvtui.engine import markers, premises
from kvtui.errors import StoreUnavailable, UsageError
from kvtui.runs import history
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import TrialState
from kvtui.stores import registry
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import StoreInfo
from tests.conftest import Servers, require_server
from tests.engine.inside import Stage, stage
from tests.stores.fakes import Fake

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
    # Under another name it is not proved to be that run, so it is asked about.
    assert found == [("in use", "left")]


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
