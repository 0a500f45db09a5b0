"""The live screen on a run of a workload that has no data and keeps no records."""

from __future__ import annotations

from pathlib import Path

from kvtui.engine import launcher
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from tests.screens.frames import Starter, application, shows
from tests.waiting import until


async def test_the_live_screen_shows_a_run_of_another_workload(
    starter: Starter, runs: Path
) -> None:
    run = launcher.start(
        RunPlan(
            WorkloadPlan("http", {"requests": 200}),
            (StorePlan("http", "http", {"transport": "tcp"}, private=True),),
        ),
        runs,
    )
    until(lambda: not run.goes_on and run.snapshot.is_file(), "the run has ended")
    app = application(starter, attach=run)
    async with app.run_test(size=(120, 40)) as pilot:
        shown = await shows(pilot, "run http done")
        assert "latency of get" in shown
        assert "verified 1 of 1" in shown
        assert "data:" not in shown
        await pilot.press("enter")
        await shows(pilot, "http: its records were not copied")
        await pilot.press("f")
        await shows(pilot, "http has no copy")
