"""From what is typed to a plan, its words and its command."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from kvtui import config
from kvtui.screens import wishes as wishing
from kvtui.screens.session import Remembered, Session
from kvtui.screens.wishes import Wishes
from kvtui.stores.registry import StoreProfile
from tests.screens.frames import Starter


def profiles() -> dict[str, StoreProfile]:
    return config.store_profiles()


def test_the_default_is_a_plan() -> None:
    plan = wishing.plan(Wishes(), profiles())
    assert [store.name for store in plan.stores] == ["null", "ram", "leveldb"]
    assert plan.workload.name == "fans"
    assert plan.workload.parameters["mode"] == "record"
    data, names = config.sample_profiles()
    assert plan.workload.parameters["data"] == str(data)
    assert plan.workload.parameters["names"] == str(names)
    assert "first" not in plan.workload.parameters
    assert "cache_mb" not in plan.workload.parameters


def test_a_ycsb_workload_has_a_form_of_its_own() -> None:
    wished = Wishes(stores=["ram", "redis-unix", "http"], workload="ycsb-e")
    assert wishing.shown_fields(wished) == [
        *("workload", "records", "operations", "value_bytes", "distribution"),
        *("clients", "workers", "repeat", "seed"),
    ]
    assert wishing.command(wished, profiles()) == "kvtui run ycsb-e --store ram"
    wished = msgspec.structs.replace(
        wished,
        workload="ycsb-d",
        records="500",
        operations="7000",
        value_bytes="100",
        distribution="hotspot",
    )
    plan = wishing.plan(wished, profiles())
    assert [store.name for store in plan.stores] == ["ram", "redis-unix"]
    given = {"records": 500, "operations": 7000, "value_bytes": 100}
    assert plan.workload.parameters == {**given, "distribution": "hotspot"}
    assert shlex.split(wishing.command(wished, profiles())) == [
        *("kvtui", "run", "ycsb-d", "--store", "ram", "--store", "redis-unix"),
        *("--records", "500", "--operations", "7000", "--value-bytes", "100"),
        *("--distribution", "hotspot"),
    ]
    assert "500 records of 100 bytes, then 7,000 operations: 19 reads" in (
        wishing.sentence(wished, profiles())
    )
    wished.value_bytes = "5"
    assert wishing.faults(wished) == {"value_bytes": "at least 24"}


def test_everything_wished_for_is_in_plan_and_command(tmp_path: Path) -> None:
    data = tmp_path / "my profiles.tsv"
    data.write_text("a\tb\n")
    wished = Wishes(
        stores=["redis-unix", "null"],
        driver=["redis-unix", "null"],
        mode="cached",
        clients="50",
        workers="3",
        repeat="3",
        seed="7",
        first="1000",
        data=str(data),
        cache_mb="32",
    )
    plan = wishing.plan(wished, profiles())
    assert [store.name for store in plan.stores] == ["null", "redis-unix:client=driver"]
    assert plan.stores[1].settings["client"] == "driver"
    assert (plan.clients, plan.workers, plan.repeat, plan.seed) == (50, 3, 3, 7)
    parameters = {"mode": "cached", "first": 1000, "cache_mb": 32, "data": str(data)}
    assert plan.workload.parameters == parameters
    assert shlex.split(wishing.command(wished, profiles())) == [
        *("kvtui", "run", "fans", "--store", "null"),
        *("--store", "redis-unix:client=driver", "--data", str(data)),
        *("--first", "1000", "--set", "mode=cached", "--set", "cache_mb=32"),
        *("--clients", "50", "--workers", "3", "--repeat", "3", "--seed", "7"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("clients", "", "a number from 1"),
        ("clients", "0", "at least 1"),
        ("clients", "10001", "at most 10,000"),
        ("clients", "9" * 5000, "too large"),
        ("clients", "٣", "digits only"),
        ("seed", "0", ""),
        ("seed", str(2**63), "too large"),
        ("first", "", ""),
        ("first", "0", "at least 1"),
        ("data", "", ""),
        ("data", "/no/such", "no such file"),
        ("data", "/", "that is a folder"),
        ("data", "a\0b", "no such file"),
        ("data", "~nosuchperson/x", "not a file name"),
        ("data", "x" * 900, "not a file name"),
        ("names", "", ""),
    ],
)
def test_a_fault_is_named_at_its_field(name: str, value: str, fault: str) -> None:
    wished = Wishes()
    setattr(wished, name, value)
    assert wishing.fault(wished, name) == fault
    assert (name in wishing.faults(wished)) == bool(fault)
    if fault:
        assert wishing.LABELS[name] in wishing.sentence(wished, profiles())
        assert wishing.command(wished, profiles()) == ""


def test_fields_that_do_not_matter_are_not_shown() -> None:
    assert "cache_mb" not in wishing.shown_fields(Wishes())
    assert "cache_mb" in wishing.shown_fields(Wishes(mode="cached"))
    assert "names" not in wishing.shown_fields(Wishes())
    assert "names" in wishing.shown_fields(Wishes(data="x"))


def test_the_plan_in_words() -> None:
    assert wishing.sentence(Wishes(repeat="2", first="1000"), profiles()) == (
        "3 stores × 2 repeats, 8 clients in 2 workers, mode record: one get and one put"
        " of the page's whole record for each fan, the first 1,000 people"
    )
    assert "tick" in wishing.sentence(Wishes(stores=[]), profiles())


def test_wishes_are_remembered(starter: Starter) -> None:
    session = Session(starter)
    session.remember()
    assert not session.memory.exists()
    session.wishes.clients = "99"
    session.remember()
    assert session.memory.stat().st_mode & 0o777 == 0o600
    assert Session(starter).wishes.clients == "99"
    assert [each.name for each in session.memory.parent.iterdir()] == ["ui.json"]


@pytest.mark.parametrize("kept", [b"", b"\xff", b"[]", b'{"wishes": {"mode": 1}}'])
def test_an_unreadable_memory_is_ignored(starter: Starter, kept: bytes) -> None:
    memory = Session(starter).memory
    memory.parent.mkdir(parents=True)
    memory.write_bytes(kept)
    assert Session(starter).wishes == Wishes()


def test_a_mode_that_is_no_more_is_forgotten(starter: Starter) -> None:
    memory = Session(starter).memory
    memory.parent.mkdir(parents=True)
    memory.write_bytes(msgspec.json.encode(Remembered(wishes=Wishes(mode="gone"))))
    assert Session(starter).wishes.mode == "record"


def test_the_form_begins_with_the_files_choices_and_remembers_others(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remembered choices beat the file."""
    assert wishing.first() == Wishes()
    config.config_path().parent.mkdir(parents=True)
    config.config_path().write_text(
        "[run]\nclients = 20\n[workloads.fans]\nmode = 'cached'\ncache_mb = 64.0\n"
    )
    monkeypatch.setenv("KVTUI_SEED", "7")
    session = Session(starter)
    wished = session.wishes
    assert (wished.clients, wished.seed, wished.repeat) == ("20", "7", "1")
    assert (wished.mode, wished.cache_mb) == ("cached", "64")
    session.wishes.clients = "30"
    session.remember()
    assert Session(starter).wishes.clients == "30"
    session.memory.unlink()
    monkeypatch.setenv("KVTUI_SEED", "x")
    assert "KVTUI_SEED" in Session(starter).settings_problem


def test_a_broken_settings_file_is_said(starter: Starter) -> None:
    config.config_path().parent.mkdir(parents=True)
    config.config_path().write_text("[stores.x]\n")
    session = Session(starter)
    assert "stores.x" in session.settings_problem
    assert "ram" in session.profiles
