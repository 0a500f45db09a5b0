"""The live screen on runs that never were."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtui.runs import history, snapshot
from kvtui.screens import figures
from tests import journals
from tests.journals import HOSTILE, Runner
from tests.screens.frames import Starter, application, frame, shows, until

STORES = ("null", "ram", "leveldb", "redis-unix", "redis-tcp")


async def test_a_finished_run_can_be_looked_at(starter: Starter, runs: Path) -> None:
    run = journals.write(runs, *STORES)
    app = application(starter, attach=run)
    async with app.run_test(size=(120, 40)) as pilot:
        shown = await shows(pilot, "run fans done")
        assert "✓ 9,071 of 9,071" in shown or "✓ verified" in shown
        assert "not kept" in shown
        assert "▸ null" in shown
        await pilot.press("3")
        shown = await shows(pilot, "leveldb: operations a second")
        assert "████▁▁████" in shown
        await pilot.press("]", "]")
        shown = await shows(pilot, "redis-tcp: operations a second")
        assert "✗ get timeout, first at 12.0 s" in shown
        assert "failed: get: timeout" in shown
        await pilot.press("enter")
        await shows(pilot, "redis-tcp: its records were not copied, its trial is fa")
        await pilot.press("[")
        await shows(pilot, "verified 9,071 of 9,071 records, 169 MB")
        await pilot.press("o")
        await shows(pilot, "latency of put")
        await pilot.press("s")
        await shows(pilot, "The snapshot is in")
        assert snapshot.read(run.snapshot).outcome == "done"


async def test_a_run_is_followed(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null", "ram", seconds=10)
    runner.until(4)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        shown = await shows(pilot, "● run fans 1/2")
        assert "▸ null       measure" in shown
        assert "ram        waiting" in shown
        runner.until(15)
        shown = await shows(pilot, "▸ ram        measure")
        assert "~" in shown
        runner.finish()
        await shows(pilot, "run fans done")


async def test_a_snapshot_of_a_run_that_goes_on(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null", "ram", seconds=10)
    runner.until(15)
    runner.run.snapshot.write_text("the runner's own")
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(200, 40)) as pilot:
        await shows(pilot, "● run fans 2/2")
        await pilot.press("s")
        await shows(pilot, "snapshot-at-")
        (saved,) = runner.run.path.glob("snapshot-at-*.json")
        assert snapshot.read(saved).outcome is None
        assert runner.run.snapshot.read_text() == "the runner's own"
        runner.vanish()


async def test_the_mouse_is_optional_and_works(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=journals.write(runs, *STORES))
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.click("#trials", offset=(10, 4))
        await shows(pilot, "▸ leveldb")
        await pilot.press("w")
        await shows(pilot, "Stores: 3 ticked")
        await pilot.click("#stores", offset=(3, 4))
        await shows(pilot, "Stores: 4 ticked")


async def test_choosing_a_trial_ends_following(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null", "ram", "leveldb", seconds=5)
    runner.until(8)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "▸ ram")
        await pilot.press("1")
        await shows(pilot, "▸ null")
        runner.finish()
        await shows(pilot, "run fans done")
        assert "▸ null" in frame(app)


async def test_a_killed_runner_is_told(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null", "ram")
    runner.until(4)
    runner.vanish()
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        shown = await shows(pilot, "run fans interrupted")
        assert "lost" in shown
        assert "interrupted: the runner is gone" in shown
        assert "not run" in shown


async def test_old_figures_say_their_age(
    starter: Starter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = Runner(runs, "null", "ram")
    runner.until(4)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        watch = app.session.watch
        assert watch is not None
        watch._heard -= 7
        shown = await shows(pilot, "nothing heard for")
        assert "quiet for" in shown
        runner.vanish()


async def test_stopping_asks_once(
    starter: Starter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def stop(run: history.RunDirectory) -> int:
        stopped.append(run.name)
        return 1

    monkeypatch.setattr(history, "stop", stop)
    runner = Runner(runs, "null")
    runner.until(4)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        await pilot.press("x")
        await shows(pilot, "Stop the run?")
        await pilot.press("q")
        await until(pilot, lambda: "Stop the run?" not in frame(app))
        assert stopped == []
        await pilot.press("x", "y")
        shown = await shows(pilot, "Told the run to stop")
        assert stopped == [runner.run.name]
        assert "x stop" in shown
        runner.finish()
        await shows(pilot, "run fans done")
        await until(pilot, lambda: "Told the run" not in frame(app))
        assert "x stop" not in frame(app)


async def test_a_message_that_came_later_stays(
    starter: Starter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "stop", lambda run: 1)
    runner = Runner(runs, "null")
    runner.until(4)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        await pilot.press("x", "y")
        await shows(pilot, "Told the run to stop")
        await pilot.press("enter")
        await shows(pilot, "f shows those of others")
        runner.finish()
        await shows(pilot, "run fans done")
        assert "f shows those of others" in frame(app)


async def test_only_a_run_that_goes_on_can_be_stopped(
    starter: Starter, runs: Path
) -> None:
    app = application(starter, attach=journals.write(runs, "null"))
    async with app.run_test(size=(120, 40)) as pilot:
        assert "x stop" not in await shows(pilot, "run fans done")
        await pilot.press("x")
        await shows(pilot, "No run goes on here.")


async def test_ctrl_c_asks_while_a_run_goes_on(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null")
    runner.until(4)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        await pilot.press("ctrl+c")
        await shows(pilot, "Leave? The run goes on without you")
        await pilot.press("n")
        await pilot.press("ctrl+c", "ctrl+c")
        await until(pilot, lambda: app._exit)
        runner.vanish()


async def test_nothing_to_stop(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("l")
        await shows(pilot, "No run yet")
        await pilot.press("x")
        await shows(pilot, "No run goes on here")
        await pilot.press("o", "1", "]", "[", "s")
        await shows(pilot, "there is no snapshot")


@pytest.mark.parametrize(
    "text", [" ".join(HOSTILE[:4]), " ".join(HOSTILE[4:-1]), HOSTILE[-1]]
)
async def test_hostile_texts_are_shown_letter_for_letter(
    starter: Starter, runs: Path, text: str
) -> None:
    run = journals.write(runs, "ram", "redis-tcp", hostile=text, seconds=3)
    app = application(starter, attach=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("2", "tab", "end")
        for character in frame(app):
            assert character == "\n" or character.isprintable()
        if text.startswith("Green"):
            await shows(pilot, "line 7: not text: Green Bay Packers [NFL] [/] x [/")


async def test_a_run_that_never_began_shows_its_log(
    starter: Starter, runs: Path
) -> None:
    run = history.create(runs, journals.plan("ram"))
    run.log.write_text("Traceback: [/] no such module\n")
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        watch = app.session.watch
        assert watch is not None
        watch._began = watch._heard = watch._began - 60
        await shows(pilot, "The runner never began")
        await shows(pilot, "[/] no such module")


@pytest.mark.parametrize("width", range(58, 200, 3))
def test_columns_fit(width: int) -> None:
    chosen = figures.columns(width)
    assert sum(each.width + 1 for each in chosen) - 1 <= width
    names = [each.name for each in chosen]
    for name in ("store", "phase", "progress", "ops/s", "p99", "fail"):
        assert name in names
    assert (width < 78) or "40 s" in names or "last 40 s" in names


def test_short_numbers() -> None:
    assert figures.short_count(99_999) == "99999"
    assert figures.short_count(199_846) == "199k"
    assert figures.short_count(12_345_678) == "12M"
    assert figures.short_time(41) == "41 s"
    assert figures.short_time(700) == "12 min"
    assert figures.short_time(10_000) == "3 h"
