"""Whether a store can hold what will be put into it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvtui.engine.fit import check_disk, check_fit, spare_others
from kvtui.engine.trial import TrialFailed
from kvtui.jobs.workload import Room
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import registry
from kvtui.stores.store import StoreInfo
from tests.engine.inside import Stage, stage
from tests.engine.test_faults import written

__all__ = ["stage"]

ROOM = Room(9_000, 100_000_000, 1_200_000, "http://ex.test/popular")


def info(**limits: int) -> StoreInfo:
    return StoreInfo("x 1", "here", "memory", "calls", **limits)  # type: ignore[arg-type]


def test_a_record_over_the_item_limit_is_named_with_both_numbers() -> None:
    """013: the page, its size and the limit."""
    with pytest.raises(TrialFailed) as caught:
        check_fit("memcached-tcp", ROOM, info(item_limit_bytes=1_048_576))
    for words in ("cannot hold", "ex.test/popular", "1,200,000", "1,048,576"):
        assert words in caught.value.message
    assert check_fit("x", ROOM, info(item_limit_bytes=1_200_000)) == ""


def test_more_than_the_memory_limit_is_refused_with_both_numbers() -> None:
    """044."""
    with pytest.raises(TrialFailed) as caught:
        check_fit("memcached-tcp", ROOM, info(memory_limit_bytes=64_000_000))
    for words in ("cannot hold", "9,000 records", "100.0 MB", "64.0 MB"):
        assert words in caught.value.message


def test_a_tight_fit_is_run_with_a_warning() -> None:
    assert "may run out" in check_fit("x", ROOM, info(memory_limit_bytes=110_000_000))
    assert check_fit("x", ROOM, info(memory_limit_bytes=200_000_000)) == ""


def test_what_is_in_use_already_counts() -> None:
    tight = info(memory_limit_bytes=200_000_000, memory_used_bytes=150_000_000)
    warning = check_fit("x", ROOM, tight)
    assert "150.0 MB are in use" in warning


def test_no_limit_no_word() -> None:
    assert check_fit("x", ROOM, info()) == ""


def test_keys_of_others_are_spared_by_what_the_records_really_take() -> None:
    """Beside their bytes: keys, what a store keeps of each, and what lies idle."""
    room = Room(8_000, 10_000_000, 44_000, "http://ex.test/popular")
    used = 10_000_000
    enough = info(memory_limit_bytes=25_000_000, memory_used_bytes=used)
    spare_others("x", room, enough)
    tight = info(memory_limit_bytes=22_000_000, memory_used_bytes=used)
    with pytest.raises(TrialFailed) as caught:
        spare_others("x", room, tight)
    for words in ("about 14.6 MB", "22.0 MB", "10.0 MB are in use", "not kvtui's"):
        assert words in caught.value.message
    with pytest.raises(TrialFailed):
        spare_others("x", msgspec.structs.replace(room, counters=True), enough)
    with pytest.raises(TrialFailed):
        spare_others("x", room, msgspec.structs.replace(enough, memory_factor=2.4))
    spare_others("x", room, info())


def test_nothing_is_said_of_what_counters_fit_into() -> None:
    room = msgspec.structs.replace(ROOM, counters=True)
    assert check_fit("x", room, info(memory_limit_bytes=64_000_000)) == ""


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes every disk have so many free bytes."""

    def have(free: int) -> None:
        usage = shutil.disk_usage("/")._replace(free=free)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)

    return have


def test_more_than_the_free_disk_is_refused_with_both_numbers(
    disk: Callable[[int], None], tmp_path: Path
) -> None:
    """061."""
    disk(64_000_000)
    with pytest.raises(TrialFailed) as caught:
        check_disk("leveldb", ROOM, tmp_path / "not" / "there", compressed=False)
    for words in ("cannot hold", "9,000 records", "100.0 MB", "64.0 MB", "not/there"):
        assert words in caught.value.message
    assert "another disk" in (caught.value.hint or "")
    assert (
        check_disk(
            "x",
            msgspec.structs.replace(ROOM, counters=True),
            tmp_path,
            compressed=False,
        )
        == ""
    )


@pytest.mark.parametrize(
    ("free", "compressed", "said"),
    [
        (201_000_000, False, ""),
        (199_000_000, False, "may fill its disk"),
        (101_000_000, True, ""),
        (99_000_000, True, "before they are compressed"),
        (5_000_000, True, "before they are compressed"),
        (4_000_000, True, "cannot hold"),
    ],
)
def test_how_much_disk_is_little_depends_on_compression(
    disk: Callable[[int], None], tmp_path: Path, free: int, compressed: bool, said: str
) -> None:
    """061."""
    disk(free)
    try:
        told = check_disk("x", ROOM, tmp_path, compressed=compressed)
    except TrialFailed as error:
        told = error.message
    assert (said in told) if said else told == ""


def test_what_an_earlier_run_left_in_the_folder_counts_as_room(
    disk: Callable[[int], None], tmp_path: Path
) -> None:
    """061: it is removed, or written over."""
    room = msgspec.structs.replace(ROOM, total_bytes=100_000)
    disk(10_000)
    with pytest.raises(TrialFailed):
        check_disk("x", room, tmp_path, compressed=False)
    (tmp_path / "000001.ldb").write_bytes(os.urandom(200_000))
    assert check_disk("x", room, tmp_path, compressed=False) == ""


@pytest.mark.parametrize(
    ("kind", "private", "settings", "how"),
    [
        ("leveldb", False, {}, "compressed"),
        ("leveldb", False, {"compression": "none", "directory": "/x"}, "plain"),
        ("wiredtiger", False, {"compression": "zlib"}, "compressed"),
        ("mysql", True, {}, "plain"),
        ("mysql", True, {"row_format": "compressed"}, "compressed"),
        ("mysql", False, {"host": "db"}, ""),
        ("mongo", True, {}, "compressed"),
        ("tokyo", True, {}, ""),
        ("tokyo", True, {"engine": "hash-file"}, "plain"),
        ("redis", True, {}, ""),
        ("memcached", True, {}, ""),
        ("ram", False, {}, ""),
    ],
)
def test_which_stores_fill_this_machines_disk(
    kind: str, private: bool, settings: dict[str, Any], how: str
) -> None:
    assert registry.in_files(kind, private, settings) == how


def test_a_disk_that_is_too_small_is_said_before_anything_is_started(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """061: the others go on, and the folder is not even made."""
    people = [[f"own {n}", f"shared {n % 3}"] for n in range(300)]
    usage = shutil.disk_usage(tmp_path)._replace(free=1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    workload = WorkloadPlan("fans", {"data": str(written(people, tmp_path))})
    own = {"directory": str(tmp_path / "mine"), "compression": "none"}
    asked = (
        StorePlan("mine", "leveldb", own),
        StorePlan("its", "leveldb", {"compression": "none"}),
        StorePlan("ram", "ram", {}),
    )
    run = stage.carry_out(RunPlan(workload, asked))
    *full, ram = run.state().trials
    for trial, folder in zip(full, (tmp_path / "mine", run.path), strict=True):
        assert trial.outcome == "failed"
        assert "cannot hold this data set: its 303 records" in trial.reason
        assert f"{folder}" in trial.reason
        assert "0.0 MB of free disk" in trial.reason
    assert ram.outcome == "done"
    assert not (tmp_path / "mine").exists()
