"""The snapshot: valid, whole, and never a harm to the one before."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

import kvtui
from kvtui.errors import SnapshotError
from kvtui.runs import snapshot
from kvtui.runs.events import AnyEvent
from kvtui.runs.state import RunState
from tests import journals
from tests.waiting import until


def folded(events: Iterable[AnyEvent]) -> RunState:
    """The state after those events."""
    state = RunState()
    for event in events:
        state.apply(event)
    return state


def document(*stores: str, **options: Any) -> snapshot.Snapshot:
    """A snapshot of a run that never was."""
    return snapshot.snapshot(folded(journals.events(*stores, **options)))


def valid(path: Path) -> Any:
    """The file as JSON, valid against the schema; strict about numbers."""

    def constant(text: str) -> None:
        raise AssertionError(f"{text} is no JSON")

    found = json.loads(path.read_bytes(), parse_constant=constant)
    jsonschema.validate(found, snapshot.schema(), jsonschema.Draft202012Validator)
    return found


def test_the_schema_is_a_schema_and_is_the_published_one() -> None:
    jsonschema.Draft202012Validator.check_schema(snapshot.schema())
    published = Path(kvtui.__file__).parents[1] / "data" / "snapshot.schema.json"
    assert json.loads(published.read_bytes()) == json.loads(
        json.dumps(snapshot.schema())
    )


@pytest.mark.parametrize("finish", [True, False])
def test_a_snapshot_is_valid_and_reads_back_equal(tmp_path: Path, finish: bool) -> None:
    made = document(
        "null", "ram", "redis-tcp", finish=finish, hostile="\x1b[2J\u202e\0"
    )
    path = tmp_path / "snapshot.json"
    snapshot.write(path, made)
    assert path.stat().st_mode & 0o777 == 0o600
    found = valid(path)
    assert snapshot.read(path) == made
    assert [each["store"] for each in found["trials"]] == ["null", "ram", "redis-tcp"]
    for each in found["trials"]:
        for label in ("get", "put"):
            figures = each["operations"][label]
            latency = figures["latency"]
            assert latency["count"] > 0
            assert latency["p50_ns"] <= latency["p99_ns"] <= latency["max_ns"]
            sums = [
                sum(i["operations"][label].get(key, 0) for i in each["intervals"])
                for key in ("ok", "miss")
            ]
            assert [figures["ok"], figures["miss"]] == sums


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 7, 9, 25, 26, 27, 28, 30, 32, 45])
def test_a_snapshot_is_valid_after_every_event(tmp_path: Path, after: int) -> None:
    """131: whenever it is written, whatever is still unknown."""
    events = list(journals.events("null", "redis-tcp", seconds=10))[:after]
    path = tmp_path / "snapshot.json"
    snapshot.write(path, snapshot.snapshot(folded(events)))
    found = valid(path)
    for each in found["trials"]:
        if not each["intervals"]:
            assert each["throughput_per_s"] is None
            assert each["elapsed_s"] is None
            assert each["operations"] == {}
        if each["records_checked"] is None:
            assert each["verified"] is None
        assert each["ranked"] in (True, False)


def test_one_failed_trial_costs_no_other_its_figures() -> None:
    """131."""
    made = document("ram", "redis-tcp", "leveldb")
    assert [each.outcome for each in made.trials] == ["done", "failed", "done"]
    assert [each.throughput_per_s is not None for each in made.trials] == [True] * 3
    assert [each.ranked for each in made.trials] == [True, False, True]
    assert made.trials[1].reason
    assert made.trials[1].attempted is None


def test_there_is_nothing_to_save_before_the_run_began() -> None:
    with pytest.raises(SnapshotError):
        snapshot.snapshot(RunState())


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_full_disk_leaves_the_old_file_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    """128: and nothing half-written beside it."""
    path = tmp_path / "snapshot.json"
    snapshot.write(path, document("ram"))
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(SnapshotError) as caught:
        snapshot.write(path, document("null", "ram"))
    assert os.strerror(error) in caught.value.message
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["snapshot.json"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError) as caught:
        snapshot.write(tmp_path / "missing" / "snapshot.json", document("ram"))
    assert "No such file" in caught.value.message


def test_two_saves_at_once_leave_one_of_them_whole(tmp_path: Path) -> None:
    """128."""
    path = tmp_path / "snapshot.json"
    documents = [document("ram"), document("null", "ram"), document("redis-tcp")]
    with ThreadPoolExecutor(6) as pool:
        for future in [
            pool.submit(snapshot.write, path, documents[number % 3])
            for number in range(30)
        ]:
            future.result()
    assert snapshot.read(path) in documents
    assert os.listdir(tmp_path) == ["snapshot.json"]


def test_a_save_that_is_killed_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """128: kill -9 at any moment of saving again and again."""
    path = tmp_path / "snapshot.json"
    code = (
        "import sys; from pathlib import Path\n"
        "from kvtui.runs import snapshot\n"
        "from tests.runs.test_snapshot import document\n"
        "made = [document('ram'), document('null', 'ram')]\n"
        "while True:\n"
        "    for each in made: snapshot.write(Path(sys.argv[1]), each)\n"
    )
    root = Path(kvtui.__file__).parents[1]
    with subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=root) as child:
        until(path.exists, "it has saved once")
        child.send_signal(signal.SIGKILL)
    valid(path)
    snapshot.read(path)


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"not JSON",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"format": 1, "x": ' + b"[" * 200_000,
        b'{"format": "one"}',
        b'{"format": ' + b"1" * 5000 + b"}",
    ],
)
def test_a_junk_file_is_named_as_such(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "snapshot.json"
    path.write_bytes(junk)
    with pytest.raises(SnapshotError) as caught:
        snapshot.read(path)
    assert str(path) in caught.value.message


def test_junk_behind_a_whole_snapshot_is_named_as_such(tmp_path: Path) -> None:
    """128: a valid object with junk behind it is not a snapshot."""
    path = tmp_path / "snapshot.json"
    snapshot.write(path, document("ram"))
    whole = path.read_bytes()
    for junk in (whole + b"junk", whole + whole, whole[:-10], whole[: len(whole) // 2]):
        path.write_bytes(junk)
        with pytest.raises(SnapshotError):
            snapshot.read(path)


def test_a_missing_or_unreadable_file_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(SnapshotError) as caught:
            snapshot.read(path)
        assert str(path) in caught.value.message


def test_fields_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    made = msgspec.to_builtins(document("ram"))
    made["colour"] = "red"
    path = tmp_path / "snapshot.json"
    path.write_text(json.dumps(made))
    assert snapshot.read(path).run == made["run"]
