"""Starting a run: write the plan, start the runner, let go.

The runner is a process of its own in a new session with no terminal: nothing that
happens to whoever started it changes the run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kvtui.runs import history
from kvtui.runs.plan import RunPlan
from kvtui.stores.servers.elsewhere import remove_elsewhere

_runners: list[subprocess.Popen[bytes]] = []
"""Started by this process and not yet ended: an ended child stays in the process
table until somebody asks for it."""


def start(plan: RunPlan, runs: Path) -> history.RunDirectory:
    """Check and write the plan, start the runner; returns at once.

    Raises UsageError for a plan that cannot be run and RunError when the run's
    directory cannot be made.
    """
    plan.check()
    tidy(runs)
    run = history.create(runs, plan)
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        runner = subprocess.Popen(
            [sys.executable, "-m", "kvtui.engine.runner", str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        _reap(runner)
    finally:
        os.close(log)
    return run


def _reap(runner: subprocess.Popen[bytes]) -> None:
    """Keep the runner until it ends, and let go of those that have ended."""
    _runners.append(runner)
    _runners[:] = [each for each in _runners if each.poll() is None]


def tidy(runs: Path) -> None:
    """Remove what runners that were killed left of their private stores.

    Only in the folders of runs that no longer go on, and only what a runner makes
    there for a trial and removes itself: prepared input, stores, half a copy.
    """
    for run in history.all_runs(runs):
        left = [run.path / "prepared", *run.path.glob("store-*")]
        left += run.path.glob("records-*.partial")
        if not any(path.exists() for path in left) or run.goes_on:
            continue
        for path in left:
            remove_elsewhere(path)
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
