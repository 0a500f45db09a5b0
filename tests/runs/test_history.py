"""Where runs are, which of them go on, and which one is meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kvtui.errors import RunError
from kvtui.runs import history
from kvtui.runs.events import RunStarted
from kvtui.runs.journal import JournalWriter
from tests import journals
from tests.waiting import until


def test_runs_of_one_second_have_names_of_their_own(tmp_path: Path) -> None:
    """130: by exclusive create, also from many at once."""
    with ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(
                lambda _: history.create(tmp_path, journals.plan("ram")), range(40)
            )
        )
    assert len({run.name for run in made}) == 40
    for run in made:
        assert run.path.stat().st_mode & 0o777 == 0o700
        assert run.plan_path.stat().st_mode & 0o777 == 0o600
        assert run.plan() == journals.plan("ram")


def test_the_newest_comes_first(tmp_path: Path) -> None:
    names = [
        "20260101T000000Z-fans",
        "20260101T000000Z-fans-2",
        "20260101T000000Z-fans-3",
        "20260101T000000Z-fans-10",
        "20260102T000000Z-fans",
    ]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text("{}")
    found = [run.name for run in history.all_runs(tmp_path)]
    assert found == names[::-1]


def test_anything_else_in_the_folder_is_left_out(tmp_path: Path) -> None:
    run = history.create(tmp_path, journals.plan("ram"))
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "plan-is-a-folder" / "plan.json").mkdir(parents=True)
    assert history.all_runs(tmp_path) == [run]
    assert history.all_runs(tmp_path / "missing") == []
    assert history.all_runs(tmp_path / "file") == []


@pytest.mark.parametrize("name", ["x-²", "x-١٢", "-", "-1", "x--1", "ü", "x" * 200])
def test_odd_names_do_not_close_the_list(tmp_path: Path, name: str) -> None:
    """130: digits of another script are no number of ours."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "plan.json").write_text("junk")
    run = history.create(tmp_path, journals.plan("ram"))
    assert {each.name for each in history.all_runs(tmp_path)} == {name, run.name}


def test_a_damaged_run_is_listed_and_says_what_is_wrong(tmp_path: Path) -> None:
    """128: the list still opens."""
    good = journals.write(tmp_path, "ram")
    junk = history.create(tmp_path, journals.plan("ram"))
    junk.plan_path.write_bytes(b"\0junk")
    junk.journal.write_bytes(b"junk\n\xff\n{}\nno end")
    bare = history.create(tmp_path, journals.plan("ram"))
    assert set(history.all_runs(tmp_path)) == {good, junk, bare}
    with pytest.raises(RunError) as caught:
        junk.plan()
    assert str(junk.plan_path) in caught.value.message
    for run in (junk, bare):
        assert run.goes_on is False
        assert run.state().started is None
    assert list(history.going_on(tmp_path)) == []


def test_a_run_is_found_by_name_beginning_or_folder(tmp_path: Path) -> None:
    for name in ("20260101T000000Z-fans", "20260101T000000Z-fans-2", "20260203T-x"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.json").write_text("{}")
    find = history.find
    assert find(tmp_path, None).name == "20260203T-x"
    assert find(tmp_path, "202602").name == "20260203T-x"
    # A whole name wins over being the beginning of another.
    assert find(tmp_path, "20260101T000000Z-fans").name == "20260101T000000Z-fans"
    folder = str(tmp_path / "20260203T-x")
    assert find(tmp_path / "elsewhere", folder).path == Path(folder)
    for wanted, said in (
        ("202601", "several"),
        ("1999", "1999"),
        (str(tmp_path), str(tmp_path)),
    ):
        with pytest.raises(RunError) as caught:
            find(tmp_path, wanted)
        assert said in caught.value.message
    with pytest.raises(RunError) as caught:
        find(tmp_path / "missing", None)
    assert caught.value.hint


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError) as caught:
        history.create(tmp_path / "file" / "runs", journals.plan("ram"))
    assert caught.value.hint


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[tuple[history.RunDirectory, int]]:
    """A run whose stand-in for a runner lives, with its process id."""
    run = history.create(tmp_path, journals.plan("ram"))
    code = (
        "import os, sys, time; from pathlib import Path\n"
        "from kvtui.runs.events import RunStarted\n"
        "from kvtui.runs.history import RunDirectory\n"
        "from kvtui.runs.journal import JournalWriter\n"
        "run = RunDirectory(Path(sys.argv[1]))\n"
        "writer = JournalWriter(run.journal)\n"
        "writer.append(RunStarted(0.0, run.name, '', os.getpid(), run.plan(), ''))\n"
        "time.sleep(600)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(run.path)])
    try:
        until(lambda: run.state().started, "the runner has begun")
        yield run, child.pid
    finally:
        child.kill()
        child.wait()


def test_a_living_runner_is_asked_to_stop(
    tmp_path: Path, runner: tuple[history.RunDirectory, int]
) -> None:
    run, process_id = runner
    assert list(history.going_on(tmp_path)) == [run]
    assert history.stop(run) == process_id
    assert os.waitpid(process_id, 0)[1] == signal.SIGTERM
    assert not run.goes_on


def test_nobody_is_stopped_for_a_run_that_is_over(tmp_path: Path) -> None:
    run = journals.write(tmp_path, "ram")
    with pytest.raises(RunError) as caught:
        history.stop(run)
    assert run.name in caught.value.message


def test_a_stranger_with_the_runners_number_is_not_stopped(tmp_path: Path) -> None:
    """The journal is locked, but the process is not the runner."""
    run = history.create(tmp_path, journals.plan("ram"))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1) as stranger:
        with JournalWriter(run.journal) as writer:
            with pytest.raises(RunError):
                history.stop(run)  # it has not begun yet
            writer.append(RunStarted(0.0, run.name, "", stranger.pid, run.plan(), ""))
            with pytest.raises(RunError) as caught:
                history.stop(run)
            assert "cannot be told" in caught.value.message
        assert stranger.poll() is None
        stranger.kill()
