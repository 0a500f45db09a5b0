"""The workbench by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from kvtui import config
from kvtui.errors import RunError
from kvtui.screens.help import BoxPage
from kvtui.screens.live import LivePage
from kvtui.screens.workbench import WorkbenchPage
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from tests.journals import HOSTILE, Runner
from tests.screens.frames import Starter, application, frame, shows, until


async def test_start_with_the_keyboard_alone(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "Stores: 3 ticked")
        await pilot.press("1", "4")
        await shows(pilot, "--store redis-unix")
        await pilot.press("m")
        await shows(pilot, "[cached]")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LivePage))
        await shows(pilot, "starting")
    (plan,) = starter.plans
    assert [store.name for store in plan.stores] == ["ram", "leveldb", "redis-unix"]
    assert plan.workload.parameters["mode"] == "cached"
    assert app.session.memory.exists()


async def test_a_missing_store_is_shown_and_cannot_be_ticked(starter: Starter) -> None:
    app = application(starter)
    app.session.wishes.stores.append("redis-tcp")
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "not here: redis-server is missing")
        assert "[-] 5 redis-tcp" in frame(app)
        assert "redis-tcp" not in app.session.wishes.stores
        await pilot.press("5")
        await shows(pilot, "To have it: apt install redis-server")
        assert "redis-tcp" not in app.session.wishes.stores
        await pilot.press("down")
        await until(pilot, lambda: "To have it" not in frame(app))


async def test_typing_is_checked_at_once(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("tab", "down", "down")
        assert app.session.wishes.clients == "8"
        await pilot.press("backspace")
        await shows(pilot, "Not yet: clients")
        await pilot.press(*"20000")
        await shows(pilot, "✗ at most 10,000")
        await pilot.press("enter")
        await shows(pilot, "clients: at most 10,000")
        assert isinstance(app.screen, WorkbenchPage)
        await pilot.press("backspace", "backspace")
        await shows(pilot, "200 clients in 2 workers")
    assert starter.plans == []


async def test_letters_are_commands_in_numbers_and_text_in_names(
    starter: Starter,
) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("tab", "down", "down", "m")
        assert app.session.wishes.mode == "cached"
        await pilot.press(*["down"] * 5)
        await pilot.press(*"q?[w", "space")
        assert app.session.wishes.data == "q?[w "
        shown = await shows(pilot, "q?[w")
        assert "no such file" in shown
        assert "F1 help" in shown
        await pilot.press("escape")
        assert "? help" in await shows(pilot, "▸ Stores")


async def test_a_pasted_file_name_is_shown_letter_for_letter(
    starter: Starter,
) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("tab", *["down"] * 7)
        for name in HOSTILE:
            app.post_message(events.Paste(name))
            shown = await shows(pilot, "Not yet: data file")
            assert all(each == "\n" or each.isprintable() for each in shown)
            await pilot.press("home", "right", "end")
            frame(app)
            await pilot.press("ctrl+u")
            await shows(pilot, "3 stores × 1 repeat")


async def test_a_file_name_has_all_the_room_there_is(
    starter: Starter, tmp_path: Path
) -> None:
    path = tmp_path / "long-file-name.tsv"
    path.write_text("a\tb\n")
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("tab", *["down"] * 7)
        app.post_message(events.Paste(str(path)))
        shown = await shows(pilot, "--data")
        assert "/long-file-name.tsv" in shown.split("Plan")[0]
        await pilot.press("up")
        shown = await shows(pilot, "first N: people to read")
        assert str(path)[:20] in shown.split("Plan")[0]


async def test_nothing_ticked_starts_nothing(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "a", "enter")
        await shows(pilot, "Tick at least one store")
    assert starter.plans == []


async def test_a_store_can_be_asked_through_its_driver(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "redis-server, wire")
        await pilot.press("4", "d")
        await shows(pilot, "--store redis-unix:client=driver")
        assert "redis-server, driver" in frame(app)
        await pilot.press("up", "d")
        await shows(pilot, "leveldb has one way to be asked")


async def test_an_error_while_starting_is_a_box(starter: Starter) -> None:
    starter.error = RunError("no space [/] left\x1b[2J", hint="make some")
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, BoxPage))
        shown = await shows(pilot, "no space [/] left\\e[2J")
        assert "make some" in shown
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, WorkbenchPage))


async def test_a_second_run_is_not_started(starter: Starter, runs: Path) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "Stores: 3 ticked")
        runner = Runner(runs, "null")
        runner.until(3)
        await pilot.press("enter")
        await shows(pilot, "A run goes on")
        await pilot.press("l")
        await shows(pilot, runner.run.name)
        runner.vanish()
    assert starter.plans == []


async def test_enter_twice_starts_once(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "enter")
        await until(pilot, lambda: isinstance(app.screen, LivePage))
        await pilot.press("w", "enter")
        await shows(pilot, "A run goes on")
    assert len(starter.plans) == 1


async def test_a_run_that_goes_on_is_offered(starter: Starter, runs: Path) -> None:
    runner = Runner(runs, "null", "ram")
    runner.until(3)
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "A run goes on")
        await shows(pilot, "● run fans 1/2")
        runner.vanish()


async def test_a_broken_settings_file_is_said(starter: Starter) -> None:
    config.config_path().parent.mkdir(parents=True)
    config.config_path().write_text('[stores."[/]"]\nkind = 3\n')
    app = application(starter)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "[stores.[/]]")


async def test_help_is_of_this_screen(starter: Starter) -> None:
    app = application(starter)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("?")
        shown = await shows(pilot, "Help: workbench")
        assert "Space       tick the store" in shown
        await pilot.press("end", "escape")
        await shows(pilot, "Stores: 3 ticked")


async def test_a_store_that_a_workload_does_not_suit_says_so(
    starter: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages come from web servers, and those take no records."""
    page = StoreProfile("http", "http", {"transport": "tcp"}, True, "TCP, loopback")
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN[:2], page))
    app = application(starter)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "[-] 3 http")
        await pilot.press("3")
        await shows(pilot, "only for the workload http")
        assert "http" not in app.session.wishes.stores
        await pilot.press("tab", "right")
        await shows(pilot, "Workload: http")
        await shows(pilot, "[-] 1 null")
        await shows(pilot, "tick at least one store")
        await pilot.press("3", "down", *["backspace"] * 5, *"250")
        await shows(pilot, "kvtui run http --store http --requests 250")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LivePage))
    (plan,) = starter.plans
    assert [store.name for store in plan.stores] == ["http"]
    assert plan.workload.name == "http"
    assert plan.workload.parameters == {"requests": 250}


async def test_any_request_can_be_asked_for(
    starter: Starter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Method, pages, a body and redirects: as the command line has them."""
    page = StoreProfile("http", "http", {"transport": "tcp"}, True, "TCP, loopback")
    monkeypatch.setattr(registry, "BUILT_IN", (page,))
    body = tmp_path / "order"
    body.write_bytes(b"x")
    app = application(starter)
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "[-] 1 http")
        await pilot.press("tab", "right")
        await shows(pilot, "Workload: http")
        await pilot.press("1", *["down"] * 5)
        await pilot.press(*"ge", "space", *"t")
        await shows(pilot, "method – 'GE T' is no method")
        await pilot.press(*["backspace"] * 4, "down", *"/a", "space", "0")
        await shows(pilot, "pages – '/a 0' is no page")
        await pilot.press("backspace", *"3,/b,c", "down", "down")
        await shows(pilot, "10,000 requests of 2 pages")
        await pilot.press(*str(body))
        await shows(pilot, "10,000 POST requests of 2 pages")
        await pilot.press("down", "right")
        shown = await shows(pilot, "redirects followed")
        words = " ".join(shown.replace("│", " ").split())
        assert "--url '/a 3' --url /b,c" in words
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LivePage))
    (plan,) = starter.plans
    assert plan.workload.parameters == {
        "requests": 10_000,
        "urls": ["/a 3", "/b,c"],
        "seed": 1,
        "body": str(body),
        "follow": True,
    }
