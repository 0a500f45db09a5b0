"""Capacity: an answer while one types, from runs, stores and typed-in figures."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from kvtui.runs import history
from kvtui.screens.capacity import CapacityPage
from kvtui.screens.session import Session
from kvtui.text import ASCII
from tests import journals
from tests.journals import HOSTILE, Runner
from tests.screens.frames import Starter, application, frame, shows
from tests.screens.test_frames import a_run


async def typed(pilot: Pilot[None], text: str) -> None:
    """Type a text."""
    for character in text:
        pilot.app.post_message(events.Key(_key(character), character))
    await pilot.pause()


def _key(character: str) -> str:
    from textual.keys import _character_to_key

    return _character_to_key(character)


async def test_the_answer_follows_what_is_typed(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await shows(pilot, "load: type it in")
        await typed(pilot, "2M gets")
        await shows(pilot, "did you mean 2M gets/s?")
        await typed(pilot, "/s")
        # leveldb is the slowest; ram the fastest that kept everything.
        shown = await shows(pilot, "gets are 50 % of the operations measured")
        assert "ram  2 of 5" in shown
        assert "2,000,000/s  2M gets/s" in shown
        before = int(_cores(app.page))
        await pilot.press("enter")
        await typed(pilot, "3")
        await shows(pilot, "4,000,000/s × 3")
        await pilot.press("down")
        await typed(pilot, "30")
        await shows(pilot, "did you mean 30%?")
        await typed(pilot, "%")
        await shows(pilot, "30 % is kept free")
        assert int(_cores(app.page)) > 4 * before
        await pilot.press("down")
        await typed(pilot, "8")
        await shows(pilot, "machines of 8")


def _cores(page: object) -> str:
    assert isinstance(page, CapacityPage)
    assert page.found.answer is not None
    return str(page.found.answer.cores)


async def test_stores_are_chosen_with_keys(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await typed(pilot, "2M/s")
        await shows(pilot, "ram  2 of 5")
        await pilot.press("tab")
        await pilot.press("4")
        shown = await shows(pilot, "redis-unix  4 of 5")
        assert "the server's own CPU time" in shown
        await pilot.press("]")
        await shows(pilot, "redis-tcp  5 of 5")
        await shows(pilot, "no rank: this trial has none: failed")
        await pilot.press("]")
        shown = await shows(pilot, "null  1 of 5")
        assert "null: it keeps nothing" in shown
        await pilot.press("[", "[")
        await shows(pilot, "redis-unix  4 of 5")
        # In the form the arrows and Space do the same.
        await pilot.press("escape", *["down"] * 6, "left")
        await shows(pilot, "leveldb  3 of 5")
        await pilot.press("space")
        await shows(pilot, "redis-unix  4 of 5")
        await pilot.press("2")
        await shows(pilot, "ram  2 of 5")


async def test_another_run_is_read_beside_the_screen(
    starter: Starter, runs: Path
) -> None:
    journals.write(runs, "leveldb", seconds=4).path.rename(runs / "20250101T000000Z-a")
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await typed(pilot, "2M/s")
        await shows(pilot, "20260102T030405Z-fans  1 of 2")
        await pilot.press(*["down"] * 5, "right")
        shown = await shows(pilot, "leveldb  1 of 1")
        assert "20250101T000000Z-a  2 of 2" in shown
        await shows(pilot, "in which the store lives")
        await pilot.press("right")
        await shows(pilot, "ram  2 of 5")
        # The watched run is what it was.
        assert app.session.watch is not None
        assert app.session.watch.run.name == "20260102T030405Z-fans"


async def test_a_run_that_goes_on_is_followed(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "redis-unix", seconds=12)
    runner.until(5)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        await pilot.press("c")
        await typed(pilot, "2M/s")
        await shows(pilot, "not finished: the trial has not")
        runner.finish()
        await shows(pilot, "run fans done")
        await shows(pilot, "closed loop")
        assert "not finished" not in frame(app)


async def test_the_published_figures_and_back(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await typed(pilot, "9M/day")
        await shows(pilot, "104.2/s")
        await pilot.press("f6")
        shown = await shows(pilot, "26 cores, 13 machines of 2")
        for text in ("100,309/s", "15,960/s", "3,990/s", "25.1", "The paper"):
            assert text in shown
        await pilot.press("tab", "p")
        await shows(pilot, "104.2/s")
        assert app.session.sizes.figures == "trial"


async def test_figures_typed_in_need_no_run(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        await typed(pilot, "100k/s")
        await shows(pilot, "No run yet")
        await pilot.press(*["down"] * 4, "space")
        await shows(pilot, "measured: type it in")
        await pilot.press("down")
        await typed(pilot, "15960/s")
        await pilot.press("down")
        await typed(pilot, "34% of")
        await shows(pilot, "No answer yet")
        await typed(pilot, " 24")
        shown = await shows(pilot, "52 cores")
        assert "typed in: 34% of 24" in shown
        await pilot.press("ctrl+u")
        await shows(pilot, "busy cores: type it in")


async def test_what_was_typed_is_remembered(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c")
        await typed(pilot, "7M/day")
        await pilot.press("tab", "q")
    assert Session(starter).sizes.target == "7M/day"


async def test_pasted_and_hostile_text_is_shown_and_refused(
    starter: Starter, runs: Path
) -> None:
    for size in ((60, 16), (80, 24), (120, 40)):
        app = application(starter)
        async with app.run_test(size=size) as pilot:
            await pilot.press("c")
            await shows(pilot, "Which load")
            for text in HOSTILE:
                app.post_message(events.Paste(text))
                await shows(pilot, "No answer yet")
                assert all(c == "\n" or c.isprintable() for c in frame(app))
                await pilot.press("end", "ctrl+u")


async def test_a_run_whose_stores_have_hostile_names(
    starter: Starter, runs: Path
) -> None:
    run = journals.write(runs, *HOSTILE[:12], seconds=3)
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await typed(pilot, "2M/s")
        await shows(pilot, "of 12")
        await pilot.press("tab")
        for _ in HOSTILE[:12]:
            await pilot.press("]")
            assert all(c == "\n" or c.isprintable() for c in frame(app))


async def test_ascii(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=a_run(runs), glyphs=ASCII)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c", "f6")
        shown = await shows(pilot, "26 cores, 13 machines of 2")
        assert shown.isascii()
        assert "15,960/s / 4 cores" in shown


async def test_a_run_that_cannot_be_read(
    starter: Starter, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journals.write(runs, "ram", seconds=3).path.rename(runs / "20250101T000000Z-a")
    app = application(starter, attach=a_run(runs))

    def state(self: history.RunDirectory) -> object:
        raise OSError("the disk is gone")

    monkeypatch.setattr(history.RunDirectory, "state", state)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c")
        await typed(pilot, "2M/s")
        await shows(pilot, "1 of 2")
        await pilot.press(*["down"] * 5, "right")
        await shows(pilot, "20250101T000000Z-a: the disk is gone")
