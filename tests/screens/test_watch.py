"""Following a journal without ever waiting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kvtui.runs import history
from kvtui.screens.watch import Watch
from tests import journals
from tests.journals import Runner


def read_all(watch: Watch) -> Watch:
    while watch.step():
        pass
    return watch


def standing(watch: Watch) -> str:
    return watch.standing


def test_a_finished_run(runs: Path) -> None:
    run = journals.write(runs, "null", "ram")
    watch = Watch(run)
    assert standing(watch) == "starting"
    read_all(watch)
    assert standing(watch) == "done"
    assert watch.share_done() == 1
    assert not watch.goes_on
    assert not watch.stale


def test_a_run_that_goes_on(runs: Path) -> None:
    runner = Runner(runs, "null", "ram", seconds=10)
    runner.until(4)
    watch = read_all(Watch(runner.run))
    assert watch.goes_on
    assert standing(watch) == "going on"
    share = watch.share_done()
    assert share is not None
    assert 0 < share < 0.5
    version = watch.version
    read_all(watch)
    assert watch.version == version
    runner.finish()
    read_all(watch)
    assert standing(watch) == "done"


def test_a_killed_runner(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(runs, "null")
    runner.until(4)
    watch = read_all(Watch(runner.run))
    runner.vanish()
    now = time.monotonic()
    monkeypatch.setattr("kvtui.screens.watch.time.monotonic", lambda: now + 2)
    read_all(watch)
    assert standing(watch) == "interrupted"
    assert not watch.goes_on


def test_a_quiet_runner_is_stale(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(runs, "null")
    runner.until(4)
    watch = read_all(Watch(runner.run))
    assert watch.quiet_s < 3
    now = time.monotonic()
    monkeypatch.setattr("kvtui.screens.watch.time.monotonic", lambda: now + 5)
    assert watch.stale
    assert 4 < watch.quiet_s < 6
    runner.vanish()


def test_a_runner_that_never_begins(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = history.create(runs, journals.plan("ram"))
    run.log.write_bytes(b"ImportError: \x1b[2J no module\n")
    watch = read_all(Watch(run))
    assert standing(watch) == "starting"
    now = time.monotonic()
    monkeypatch.setattr("kvtui.screens.watch.time.monotonic", lambda: now + 25)
    read_all(watch)
    assert standing(watch) == "interrupted"
    assert watch.log_tail() == ["ImportError: \x1b[2J no module"]


def test_the_lock_is_left_alone_before_the_first_event(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = history.create(runs, journals.plan("ram"))

    def looked(self: history.RunDirectory) -> bool:
        raise AssertionError("a runner that starts now would find its journal locked")

    monkeypatch.setattr(history.RunDirectory, "goes_on", property(looked))
    read_all(Watch(run))


def test_a_long_journal_is_read_in_slices(runs: Path) -> None:
    watch = Watch(journals.write(runs, "ram", "leveldb", seconds=300))
    steps = []
    more = True
    while more:
        began = time.perf_counter()
        more = watch.step()
        steps.append(time.perf_counter() - began)
    assert len(steps) > 3
    assert sorted(steps)[len(steps) // 2] < 0.2
    assert standing(watch) == "done"
    assert len(watch.state.trials[1].intervals) == 300


def test_a_journal_with_junk(runs: Path) -> None:
    run = journals.write(runs, "ram")
    with run.journal.open("ab") as file:
        file.write(b"junk\n")
    watch = read_all(Watch(run))
    assert standing(watch) == "done"
    assert watch.unreadable_lines == 1
