"""Looking at screens in tests: frames as text, waiting for conditions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from kvtui.app import AttachedApp, KvtuiApp
from kvtui.runs import history
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan
from kvtui.screens.session import Session
from kvtui.text import UNICODE, Glyphs, cells

GOLDEN = Path(__file__).parent / "golden"


def frame(app: KvtuiApp) -> str:
    """What the screen shows, line by line, without blanks at the ends."""
    compositor = app.screen._compositor
    strips = compositor.render_strips()
    lines = [strip.text.rstrip() for strip in strips]
    width, height = compositor.size
    assert len(lines) == height
    for strip in strips:
        assert strip.cell_length == width, strip.text
        assert cells(strip.text) == width, strip.text
    return "\n".join(lines) + "\n"


async def until(pilot: Pilot[None], condition: Callable[[], Any]) -> None:
    """Wait for a condition, while the application's clock runs fast."""
    app = pilot.app
    assert isinstance(app, KvtuiApp)
    deadline = time.monotonic() + 20
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never came:\n{frame(app)}")
        app._tick()
        await pilot.pause()
        await asyncio.sleep(0.005)
    await pilot.pause()


async def shows(pilot: Pilot[None], text: str) -> str:
    """Wait until the screen shows a text; the frame that does."""
    app = pilot.app
    assert isinstance(app, KvtuiApp)
    await until(pilot, lambda: text in frame(app))
    return frame(app)


class Starter:
    """Starts no runner; keeps the plans."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.plans: list[RunPlan] = []
        self.error: Exception | None = None

    def __call__(self, plan: RunPlan) -> RunDirectory:
        if self.error is not None:
            raise self.error
        self.plans.append(plan)
        return history.create(self.runs, plan)


def application(
    start: Callable[[RunPlan], RunDirectory],
    *,
    attach: RunDirectory | None = None,
    glyphs: Glyphs = UNICODE,
) -> KvtuiApp:
    """kvtui's screens."""
    session = Session(start, glyph_set=glyphs, attach=attach)
    return (AttachedApp if attach else KvtuiApp)(session)


def same_as_golden(name: str, shown: str) -> None:
    """Compare with the frame kept under ``name``; KVTUI_GOLDEN=1 keeps this one."""
    import os

    path = GOLDEN / f"{name}.txt"
    if os.environ.get("KVTUI_GOLDEN") == "1":
        path.write_text(shown, "utf-8")
    assert shown == path.read_text("utf-8")
