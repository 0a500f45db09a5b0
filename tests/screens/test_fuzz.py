"""Many sizes and many keys: whatever is pressed, the screen answers."""

from __future__ import annotations

import random
from pathlib import Path

from textual import events
from textual.keys import _character_to_key

from kvtui.screens.workbench import WorkbenchPage
from tests.journals import Runner
from tests.screens import copies
from tests.screens.frames import Starter, application, frame, shows, until
from tests.screens.test_fans import PAGES, SHARED

KEYS = [
    *"wlfcpmadoxs[]12345679gjkn/",
    *("?", "escape", "escape", "enter", "tab", "shift+tab", "space"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
    *("f1", "f2", "f3", "f4", "f5", "f6", "backspace", "delete", "ctrl+u"),
]


async def test_any_key_at_any_size(starter: Starter, runs: Path) -> None:
    random_ = random.Random(2026)
    runner = Runner(runs, "null", "ram", "leveldb", "redis-tcp", seconds=12)
    runner.until(30)
    copies.write(runner.run.records(1), PAGES, SHARED)
    app = application(starter, attach=runner.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await shows(pilot, "● run fans")
        for _ in range(60):
            width = random_.choice([1, 3, 20, 59, 60, 61, 80, 100, 120, 200])
            height = random_.choice([1, 2, 5, 15, 16, 17, 24, 40, 60])
            await pilot.resize_terminal(width, height)
            for key in random_.choices(KEYS, k=7):
                character = key if len(key) == 1 else None
                name = _character_to_key(key) if character else key
                app.post_message(events.Key(name, character))
            await pilot.pause()
            frame(app)
        await pilot.resize_terminal(80, 24)
        runner.finish()
        for _ in range(12):
            await pilot.press("n", "escape")
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, WorkbenchPage))
        await shows(pilot, "Plan")
        await shows(pilot, "run fans done")
