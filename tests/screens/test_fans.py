"""Fan pages: finding one, walking on, other stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from kvtui.runs.history import RunDirectory
from kvtui.screens.fans import FansPage, lift
from kvtui.text import cells
from tests import journals
from tests.journals import HOSTILE
from tests.screens import copies
from tests.screens.frames import Starter, application, frame, shows, until

PAGES = [
    ("http://x/mj", "Michael Jackson", 40),
    ("http://x/gbp", "Green Bay Packers", 24),
    ("http://x/cafe1", "Caf\u00e9", 9),
    ("http://x/cafe2", "Cafe\u0301", 3),
    ("http://x/alone", "Alone", 1),
]
SHARED = {
    ("http://x/mj", "http://x/gbp"): 22,
    ("http://x/mj", "http://x/cafe1"): 5,
    ("http://x/gbp", "http://x/cafe1"): 2,
}


@pytest.fixture
def run(runs: Path) -> RunDirectory:
    """A run on null, ram and leveldb; leveldb's copy lacks a fan."""
    made = journals.write(runs, "null", "ram", "leveldb", "redis-tcp", seconds=3)
    copies.write(made.records(1), PAGES, SHARED)
    copies.write(
        made.records(2), PAGES, {**SHARED, ("http://x/mj", "http://x/gbp"): 21}
    )
    return made


async def test_find_open_walk_and_come_back(
    starter: Starter, run: RunDirectory
) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f4")
        await shows(pilot, "5 of 5 pages")
        await pilot.press(*"JACK")
        shown = await shows(pilot, "1 of 5 pages")
        assert "▸ Michael Jackson" in shown
        await pilot.press("enter")
        shown = await shows(pilot, "Green Bay Packers")
        assert "40 fans of 100 · 2 other pages share some · http://x/mj" in shown
        row = next(line for line in shown.split("\n") if "Green Bay" in line)
        assert row.split()[-6:] == ["22", "55.0", "%", "91.7", "%", "2.29×"]
        await pilot.press("down", "enter")
        shown = await shows(pilot, "Michael Jackson › Café")
        await shows(pilot, "9 fans of 100")
        await pilot.press("escape")
        shown = await shows(pilot, "▸ Café")
        assert "Liked by the same fans" in shown
        await pilot.press("escape")
        shown = await shows(pilot, "1 of 5 pages")
        await pilot.press("escape")
        await shows(pilot, "5 of 5 pages")


async def test_the_same_page_as_other_stores_held_it(
    starter: Starter, run: RunDirectory
) -> None:
    app = application(starter, attach=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("f")
        shown = await shows(pilot, f"ram: the copy made by run {run.name}, trial 2")
        assert "1 null (not kept)" in shown
        assert "4 redis-tcp (none)" in shown
        await pilot.press("enter")
        await shows(pilot, "55.0 %")
        await pilot.press("3")
        shown = await shows(pilot, "52.5 %")
        assert "leveldb: the copy" in shown
        await pilot.press("]")
        await shows(pilot, "redis-tcp has no copy: its trial is failed: get: timeout")
        await pilot.press("]")
        shown = await shows(pilot, "not kept: null keeps nothing")
        assert "Tab, then" not in shown
        await pilot.press("[", "[")
        await shows(pilot, "52.5 %")
        await pilot.press("2")
        await shows(pilot, "55.0 %")


async def test_enter_on_a_trial_goes_to_its_pages(
    starter: Starter, run: RunDirectory
) -> None:
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("3", "enter")
        await shows(pilot, "leveldb: the copy")
        await pilot.press("f3", "2", "enter")
        await shows(pilot, "ram: the copy")


async def test_names_that_look_alike_are_told_apart(
    starter: Starter, run: RunDirectory
) -> None:
    app = application(starter, attach=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f")
        await shows(pilot, "5 of 5 pages")
        await pilot.press(*"caf", "é")
        await shows(pilot, "2 of 5 pages")
        await pilot.press("enter")
        await shows(pilot, "another page looks the same: Cafe\u0301 [U+0301] (3 fans)")


async def test_a_name_written_otherwise_is_pointed_at(
    starter: Starter, runs: Path
) -> None:
    run = journals.write(runs, "ram", seconds=3)
    copies.write(run.records(0), [("p1", "Cafe\u0301", 3), ("p2", "Other", 1)], {})
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "2 of 2 pages")
        await pilot.press("C", "a", "f", "é")
        await shows(pilot, "no page is called exactly so; these look the same")


async def test_signs_can_be_typed(starter: Starter, run: RunDirectory) -> None:
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "5 of 5 pages")
        for sign in "[]\\'%_/?q":
            await pilot.press(sign)
        await shows(pilot, "[]\\'%_/?q")
        await shows(pilot, "0 of 5 pages")
        assert "No page has that" in frame(app)
        await pilot.press("enter", "ctrl+u")
        await shows(pilot, "5 of 5 pages")


async def test_a_slash_leads_to_the_filter_and_is_not_typed(
    starter: Starter, run: RunDirectory
) -> None:
    """As the help says, also where one is there already."""
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "5 of 5 pages")
        await pilot.press("/", *"jackson")
        await shows(pilot, "1 of 5 pages")
        page = app.screen
        assert isinstance(page, FansPage)
        assert page.wanted == "jackson"
        # Once more, from the list and from an open page: it is a new search.
        await pilot.press("escape", "/", *"packers")
        await shows(pilot, "▸ Green Bay Packers")
        assert page.wanted == "packers"
        await pilot.press("enter")
        await shows(pilot, "24 fans of 100")
        await pilot.press("/", "/", *"alo")
        await shows(pilot, "▸ Alone")
        assert page.wanted == "alo"
        # By Tab one goes on with what is there.
        await pilot.press("escape", "/", "tab", "shift+tab", *"ne/")
        assert page.wanted == "alone/"


async def test_hostile_names_keep_the_columns(starter: Starter, runs: Path) -> None:
    run = journals.write(runs, "ram", seconds=3)
    pages = [(f"page {name}", name, 50 - n) for n, name in enumerate(HOSTILE)]
    first = pages[0][0]
    shared = {(first, page): 30 - n for n, (page, _, _) in enumerate(pages[1:])}
    copies.write(run.records(0), pages, shared)
    for size in ((60, 16), (80, 24), (120, 40)):
        app = application(starter, attach=run)
        async with app.run_test(size=size) as pilot:
            await pilot.press("f")
            await shows(pilot, "16 of 16 pages")
            for name in HOSTILE[:4]:
                assert size[1] < 20 or name in frame(app)
            _aligned(frame(app))
            await pilot.press("enter")
            shown = await shows(pilot, "1.22×")
            _aligned(shown)
            for _ in range(4):
                await pilot.press("down", "enter")
            assert all(c == "\n" or c.isprintable() for c in frame(app))


def _aligned(shown: str) -> None:
    """The numbers of every row end in the same column."""
    lines = shown.split("\n")
    at = next(
        i for i, line in enumerate(lines) if "fans  address" in line or "lift" in line
    )
    end = cells(lines[at].split("  address")[0])
    for line in lines[at + 1 : -2]:
        if line.strip():
            wide = 0
            for index, character in enumerate(line):
                wide += cells(character)
                if wide == end:
                    assert character in "0123456789×–", line
                    assert line[index + 1 : index + 2] in ("", " "), line


async def test_a_late_answer_is_dropped(
    starter: Starter, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    from kvtui.jobs.fans.archive import Archive

    gate = threading.Event()
    asked: list[str] = []
    search = Archive.search

    def slow(self: Archive, text: str, limit: int = 300) -> object:
        asked.append(text)
        if text == "M":
            gate.wait(10)
        return search(self, text, limit)

    monkeypatch.setattr(Archive, "search", slow)
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "5 of 5 pages")
        await pilot.press("M")
        await until(pilot, lambda: asked[-1] == "M")
        await pilot.press("i", "c")
        gate.set()
        await shows(pilot, "1 of 5 pages")
        assert asked[-1] == "Mic"
        assert "Mi" not in asked


async def test_enter_waits_for_what_was_typed(
    starter: Starter, run: RunDirectory
) -> None:
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "5 of 5 pages")
        for key in (*"alone", "enter"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await shows(pilot, "1 fans of 100")
        assert "Alone" in await shows(pilot, "Nobody who likes this page")


async def test_a_copy_that_is_none(starter: Starter, runs: Path) -> None:
    run = journals.write(runs, "ram", seconds=3)
    run.records(0).write_bytes(b"no database at all, just [/] text" * 100)
    app = application(starter, attach=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "is not a copy of records")


async def test_without_any_run(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f")
        await shows(pilot, "No run yet")
        await pilot.press("a", "enter", "escape", "1", "]", "slash", "escape")
        assert isinstance(app.screen, FansPage)
        await pilot.press("f2")
        await shows(pilot, "Stores:")


def test_lift() -> None:
    from kvtui.jobs.fans.archive import CoPage, FanRecord

    record = FanRecord("a", "A", 406, [], b"")
    assert lift(CoPage("b", "B", 240, 22), record, 10_000) == pytest.approx(
        2.2578, 1e-4
    )
    assert lift(CoPage("b", "B", 0, 22), record, 10_000) is None


async def test_with_nothing_kept_the_way_on_is_one_that_works(
    starter: Starter, runs: Path
) -> None:
    for stores in (("null",), ("null", "redis-tcp")):
        app = application(starter, attach=journals.write(runs, *stores))
        async with app.run_test(size=(80, 24)) as pilot:
            await pilot.press("f", "tab")
            await pilot.press("1", "/")
            shown = await shows(pilot, "not kept: null keeps nothing")
            # In the filter a bracket is a letter.
            assert ("Tab, then [" in shown) == (len(stores) > 1)
