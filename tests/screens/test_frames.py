"""Whole frames, as text, at the sizes that people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtui.runs import history
from kvtui.runs.history import RunDirectory
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from kvtui.text import ASCII
from tests import journals
from tests.screens import copies
from tests.screens.frames import Starter, application, frame, same_as_golden, shows
from tests.screens.test_fans import PAGES, SHARED

SIZES = [(60, 16), (80, 24), (120, 40)]


def a_run(runs: Path) -> RunDirectory:
    """A finished run under a name that stays the same."""
    path = runs / "20260102T030405Z-fans"
    stores = ("null", "ram", "leveldb", "redis-unix", "redis-tcp")
    journals.write(runs, *stores).path.rename(path)
    run = history.RunDirectory(path)
    copies.write(run.records(1), PAGES, SHARED)
    return run


@pytest.mark.parametrize("size", SIZES)
async def test_workbench(starter: Starter, size: tuple[int, int]) -> None:
    app = application(starter)
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "private server" if size[1] > 20 else "--store leveldb")
        same_as_golden(f"workbench-{size[0]}x{size[1]}", frame(app))


@pytest.mark.parametrize("size", SIZES)
async def test_workbench_for_pages(
    starter: Starter, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = StoreProfile("http", "http", {"transport": "tcp"}, True, "TCP, loopback")
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, page))
    app = application(starter)
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "Stores: 3 ticked")
        await pilot.press("tab", "right")
        await shows(pilot, "Workload: http")
        await pilot.press(*["down"] * 6, *"/a", "space", *"3, /b")
        await pilot.press("shift+tab", "end", "space")
        await shows(pilot, "run http --store")
        same_as_golden(f"pages-{size[0]}x{size[1]}", frame(app))


@pytest.mark.parametrize("size", SIZES)
async def test_live(starter: Starter, runs: Path, size: tuple[int, int]) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("3")
        await shows(pilot, "▸ leveldb")
        same_as_golden(f"live-{size[0]}x{size[1]}", frame(app))


@pytest.mark.parametrize("size", SIZES)
async def test_fans(starter: Starter, runs: Path, size: tuple[int, int]) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("2", "f")
        await shows(pilot, "5 of 5 pages")
        same_as_golden(f"fans-{size[0]}x{size[1]}", frame(app))
        await pilot.press("enter")
        await shows(pilot, "2.29×")
        same_as_golden(f"record-{size[0]}x{size[1]}", frame(app))


@pytest.mark.parametrize("size", SIZES)
async def test_capacity(starter: Starter, runs: Path, size: tuple[int, int]) -> None:
    app = application(starter, attach=a_run(runs))
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("c", *"2M")
        await shows(pilot, "did you mean 2M/s?")
        await pilot.press("slash", "s", "down", "3", "tab", "4")
        await shows(pilot, "6,000,000/s")
        same_as_golden(f"capacity-{size[0]}x{size[1]}", frame(app))
        await pilot.press("p")
        await shows(pilot, "26 cores, 13 machines of 2")
        same_as_golden(f"paper-{size[0]}x{size[1]}", frame(app))


async def test_ascii(starter: Starter, runs: Path) -> None:
    app = application(starter, attach=a_run(runs), glyphs=ASCII)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "run fans done")
        await pilot.press("3")
        shown = await shows(pilot, "> leveldb")
        assert shown.isascii()
        same_as_golden("live-80x24-ascii", shown)
        await pilot.press("w")
        assert (await shows(pilot, "Stores: 3 ticked")).isascii()


@pytest.mark.parametrize("size", [(59, 16), (60, 15), (20, 5), (3, 2), (1, 1)])
async def test_too_small(starter: Starter, size: tuple[int, int]) -> None:
    app = application(starter)
    async with app.run_test(size=size) as pilot:
        if size[0] > 40:
            shown = await shows(pilot, "kvtui needs 60 columns and 16 lines.")
            assert f"Here are {size[0]} and {size[1]}." in shown
            assert "q leaves" in shown
        await pilot.press("enter", "l", "?", "space")
        assert not starter.plans
        await pilot.resize_terminal(80, 24)
        await shows(pilot, "Stores: 3 ticked")
        await pilot.resize_terminal(*size)
        await pilot.press("q")
        assert app._exit
