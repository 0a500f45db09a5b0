"""``kvtui run ycsb-a`` and its sisters, from the command line to the snapshot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtui import config
from kvtui.engine import trial as trials
from kvtui.jobs.registry import WORKLOADS
from kvtui.jobs.ycsb.parameters import PRESETS
from kvtui.runs import history, snapshot
from kvtui.runs.events import Interval, Loaded, Verified
from kvtui.runs.journal import JournalReader
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.snapshot import Snapshot, TrialSnapshot
from kvtui.stores import registry
from kvtui.stores.ram import RamStore
from kvtui.stores.store import SCAN
from tests.conftest import require_module, require_server
from tests.engine.inside import Stage, stage

__all__ = ["stage"]

KEEPING = [
    "ram",
    "leveldb",
    "wiredtiger",
    "memcached-unix",
    "redis-unix",
    "redis-unix:client=driver",
    "tokyo-unix",
    "mongo",
    "mysql",
]
SMALL = ("--records", "211", "-n", "1003", "--value-bytes", "150")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """``kvtui run`` with these words."""
    return subprocess.run(
        [sys.executable, "-m", "kvtui", "run", *words],
        capture_output=True,
        text=True,
        timeout=180,
    )


def only_run() -> Snapshot:
    """The snapshot of the one run that there is."""
    (made,) = history.all_runs(config.runs_directory())
    return snapshot.read(made.snapshot)


def rows(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    """The ranking printed as JSON, by store."""
    return {row["store"]: row for row in json.loads(done.stdout)["ranking"]}


@pytest.mark.parametrize("store", KEEPING)
@pytest.mark.parametrize("workload", ["ycsb-a", "ycsb-f"])
def test_every_store_keeps_what_it_acknowledges(workload: str, store: str) -> None:
    """Four clients in two workers change the same records; every value that is read,
    and every record afterwards, is what it must be."""
    kind = config.store_plan(store, config.store_profiles()).kind
    require_server(kind)
    require_module(kind)
    done = run(workload, "--store", store, *SMALL, "-c", "4", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = rows(done).values()
    facts = only_run().data
    pairs = facts.get("read-modify-writes", 0)
    assert row["rank"] == 1
    assert row["attempted"] == row["ok"] == 1003 + int(pairs)
    assert row["operations"]["get"]["ok"] == row["figures"]["values compared"]
    assert row["figures"]["values compared"] == int(facts["reads"]) + int(pairs)
    assert (row["records_checked"], row["records_wrong"]) == (211, 0)
    assert row["stored_bytes"] == 211 * 150
    assert row["load"]["ok"] == 211
    assert row["load"]["throughput_per_s"] > 0
    assert 0 < row["load"]["p50_ns"] <= row["load"]["max_ns"]


@pytest.mark.parametrize("workload", PRESETS)
def test_the_workload_in_words_and_its_stream_is_the_same(workload: str) -> None:
    streams = set()
    for workers in (1, 3):
        done = run(
            *(workload, "--store", "ram", "--store", "redis-unix", *SMALL),
            *("--clients", "5", "--workers", str(workers), "--seed", "7", "--json"),
        )
        assert "first load 211 records of 150 bytes (31.6 kB of values)" in done.stderr
        assert "then 1,003 operations: " in done.stderr
        ranked = rows(done)
        streams.add(json.loads(done.stdout)["data"]["stream"])
        assert ranked["ram"]["rank"] is not None
        if workload == "ycsb-e":
            assert done.returncode == 1
            assert "redis-unix has no scan of its own" in ranked["redis-unix"]["reason"]
        else:
            assert done.returncode == 0, done.stderr
            operations = {
                name: each["ok"] for name, each in ranked["ram"]["operations"].items()
            }
            others = ranked["redis-unix"]["operations"]
            assert operations == {name: each["ok"] for name, each in others.items()}
    assert len(streams) == 1


def test_the_report_tells_the_load_and_the_real_mix() -> None:
    done = run("ycsb-d", "--store", "ram", *SMALL, "--set", "theta=0.5")
    assert done.returncode == 0, done.stderr
    assert "latest: zipfian, counted back from the newest record; theta 0.5" in (
        done.stderr
    )
    assert "loaded before: 211 records in " in done.stdout
    assert "data: 211 records, 150 value bytes, 1,003 operations, 9" in done.stdout
    assert "distribution latest, stream " in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-n", "0"], "operations must be from 1"),
        (["--records", "-1"], "records must be from 1"),
        (["--value-bytes", "8"], "value_bytes must be from 24"),
        (["--set", "records=5"], "--set records is not how it is said"),
        (["--set", "seed=5"], "--set seed is not how it is said"),
        (["--set", "theta=2"], "theta must be above 0 and below 1"),
        (["--set", "fieldcount=2"], "ycsb-a has no parameter 'fieldcount'"),
        (["--set", "read=0.3"], "the proportions come to 0.3, not to 1"),
        (["--distribution", "gauss"], "gauss"),
    ],
)
def test_words_that_are_off_start_nothing(words: list[str], said: str) -> None:
    done = run("ycsb-a", "--store", "ram", *words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not list(history.all_runs(config.runs_directory()))


def test_every_workload_has_a_sentence_and_a_command() -> None:
    done = run("--help")
    for name in PRESETS:
        assert name in WORKLOADS
        assert f"{name} " in done.stdout
    assert "half reads and half updates" in run("ycsb-a", "--help").stdout


def test_the_table_says_who_can_scan() -> None:
    for name, kind in registry.KINDS.items():
        try:
            adapter = registry.adapter(name)
        except ModuleNotFoundError:
            continue
        assert kind.scans == (SCAN in adapter.capabilities), name


def test_settings_for_all_of_them_stand_in_one_section(tmp_path: Path) -> None:
    file = tmp_path / "config" / "kvtui" / "config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[workloads.ycsb]\nrecords = 33\noperations = 44\n")
    done = subprocess.run(
        [sys.executable, "-m", "kvtui", "run", "ycsb-c", "--store", "ram", "--json"],
        capture_output=True,
        text=True,
        env={**os.environ, "KVTUI_YCSB_OPERATIONS": "55"},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["data"]["records"] == 33
    assert json.loads(done.stdout)["data"]["operations"] == 55


def plan(workload: str = "ycsb-a", **given: Any) -> RunPlan:
    """On the RAM store, with one worker."""
    asked = {"records": 40, "operations": 400, "value_bytes": 50, **given}
    return RunPlan(WorkloadPlan(workload, asked), (StorePlan("ram", "ram"),), clients=2)


def the_trial(made: history.RunDirectory) -> TrialSnapshot:
    """The one trial of a run that was carried out here."""
    (only,) = snapshot.read(made.snapshot).trials
    return only


def test_loading_has_intervals_that_come_to_its_sum(stage: Stage) -> None:
    made = stage.carry_out(plan())
    events = list(JournalReader(made.journal).read())
    loading = [e for e in events if isinstance(e, Interval) and e.phase == "load"]
    (told,) = (e for e in events if isinstance(e, Loaded))
    assert sum(each.operations["put"].ok for each in loading if each.operations) == 40
    assert (told.attempted, told.failed, told.unfinished) == (40, 0, 0)
    assert (loading[-1].done, loading[-1].total) == (40, 40)
    measuring = [e for e in events if isinstance(e, Interval) and e.phase == "measure"]
    assert (
        sum(each.ok for interval in measuring for each in interval.operations.values())
        == 400
    )
    found = the_trial(made)
    assert (found.attempted, found.ok) == (400, 400)
    assert found.load is not None
    assert found.load.operations["put"].ok == 40


def test_a_store_that_loses_records_has_no_rank(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(store: RamStore, settings: dict[str, Any]) -> None:
        made(store, settings)
        values = store._values
        store.__dict__.update(
            put=lambda key, value: (
                values.__setitem__(key, value) if not key.endswith(b"1") else None
            )
        )

    made = RamStore.__init__
    monkeypatch.setattr(RamStore, "__init__", forgetful)
    run_directory = stage.carry_out(plan())
    found = the_trial(run_directory)
    events = list(JournalReader(run_directory.journal).read())
    (told,) = (e for e in events if isinstance(e, Verified))
    assert found.outcome == "done"
    assert (found.ranked, found.verified) == (False, False)
    assert told.kinds == found.wrong_by_kind
    assert set(found.wrong_by_kind) == {"lost", "lost when read"}
    assert found.wrong_by_kind["lost when read"] == found.figures["lost values read"]
    assert found.miss == found.figures["lost values read"]


def test_a_load_that_fails_for_one_record_fails_the_trial(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def picky(store: RamStore, settings: dict[str, Any]) -> None:
        made(store, settings)
        values, turns = store._values, iter(range(10**6))

        def put(key: bytes, value: bytes) -> None:
            if next(turns) == 7:
                raise ValueError("not this one")
            values[key] = value

        store.__dict__.update(put=put)

    made = RamStore.__init__
    monkeypatch.setattr(RamStore, "__init__", picky)
    found = the_trial(stage.carry_out(plan()))
    assert found.outcome == "failed"
    assert "1 of 40 records could not be loaded into ram" in found.reason
    assert found.attempted is None
    assert [fault["message"] for fault in found.faults] == ["ValueError: not this one"]
    assert found.load is not None
    assert (found.load.attempted, found.load.failed) == (40, 1)


def test_loads_that_do_not_add_up_are_not_believed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check is the one of the measure phase; it holds for loading too."""
    honest = trials.Trial._interval

    def losing(trial: trials.Trial, index: int, parts: Any) -> Interval:
        found = honest(trial, index, parts)
        if trial.phase == "load":
            trial._counted -= 1
        return found

    monkeypatch.setattr(trials.Trial, "_interval", losing)
    found = the_trial(stage.carry_out(plan()))
    assert found.outcome == "failed"
    assert "the counts do not add up" in found.reason
