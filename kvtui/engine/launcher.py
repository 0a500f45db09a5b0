"""Starting a run: write the plan, start the runner, let go.

The runner is a process of its own in a new session with no terminal: nothing that
happens to whoever started it changes the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kvtui.runs import history
from kvtui.runs.plan import RunPlan

START_LIMIT_S = 20.0
"""How long a runner may take until it holds its journal."""


def start(plan: RunPlan, runs: Path) -> history.RunDirectory:
    """Check and write the plan, start the runner; returns at once.

    Raises UsageError for a plan that cannot be run and RunError when the run's
    directory cannot be made.
    """
    plan.check()
    run = history.create(runs, plan)
    log = os.open(run.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        subprocess.Popen(
            [sys.executable, "-m", "kvtui.engine.runner", str(run.path)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            close_fds=True,
        )
    finally:
        os.close(log)
    return run
