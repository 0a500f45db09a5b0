"""The fan-page job beside the same job in plain PHP, the language of the original.

The PHP program and its profile generator are looked up in ``KVTUI_BASELINE`` or in
``../shared/baseline`` beside the checkout; PHP comes with ``apt install php-cli
php-redis``. Both sides get the same profile file and, for Redis, a fresh private
server each; they take turns. PHP's time is its own loop, without start-up; kvtui's is
the measured phase, first request to last reply. The whole commands are shown too
(kvtui's verifies every record and keeps a copy).

Targets: RAM with one client at most half of PHP's time; Redis by unix socket and by
TCP faster with one client, at most half with the default number of clients.
"""

from __future__ import annotations

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import verdict
from kvtui import config
from kvtui.engine import launcher
from kvtui.runs.plan import (
    DEFAULT_CLIENTS,
    DEFAULT_WORKERS,
    RunPlan,
    WorkloadPlan,
)
from kvtui.stores.servers.redis import RedisServer

ROUNDS = 3


class Took(NamedTuple):
    """One run of the job."""

    loop_s: float
    whole_s: float


class Case(NamedTuple):
    """One comparison."""

    store: str
    php: str
    clients: int
    limit: float
    """kvtui's time over PHP's, at most."""


CASES = (
    Case("ram", "ram", 1, 0.5),
    Case("redis-unix", "redis", 1, 1.0),
    Case("redis-tcp", "redis", 1, 1.0),
    Case("redis-unix", "redis", DEFAULT_CLIENTS, 0.5),
    Case("redis-tcp", "redis", DEFAULT_CLIENTS, 0.5),
)


def baseline() -> Path:
    """Where the PHP program is."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "baseline"
    folder = Path(os.environ.get("KVTUI_BASELINE", beside))
    if not (folder / "fananalyze.php").is_file():
        raise SystemExit(f"there is no fananalyze.php in {folder}: KVTUI_BASELINE=…")
    if shutil.which("php") is None:
        raise SystemExit("php is missing: apt install php-cli php-redis")
    return folder


def php(program: Path, profiles: Path, case: Case, scratch: Path) -> Took:
    """PHP's time for the job."""
    words = ["php", str(program), "-f", str(profiles), "-s", case.php]
    server = None
    if case.php == "redis":
        transport = "tcp" if case.store.endswith("tcp") else "unix"
        server = RedisServer(scratch / "php", {"transport": transport})
        reached = server.start()
        words += ["-h", str(reached.get("path") or reached["host"])]
        words += ["-p", str(reached.get("port", 0))]
    try:
        began = time.perf_counter()
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        whole_s = time.perf_counter() - began
    finally:
        if server is not None:
            server.stop()
    found = re.search(r"loop ([\d.]+) s", done.stderr)
    if found is None:
        raise SystemExit(f"PHP said no time: {done.stderr}")
    return Took(float(found[1]), whole_s)


def kvtui(profiles: Path, case: Case, scratch: Path) -> Took:
    """kvtui's time for the job, verified."""
    plan = RunPlan(
        WorkloadPlan("fans", {"data": str(profiles), "mode": "record"}),
        (config.store_plan(case.store, config.store_profiles()),),
        clients=case.clients,
        workers=DEFAULT_WORKERS,
    )
    began = time.perf_counter()
    run = launcher.start(plan, scratch / "runs")
    while not (state := run.state()).outcome:
        if time.perf_counter() - began > 5 and not run.goes_on:
            raise SystemExit(f"the run ended early: {run.log.read_text()}")
        time.sleep(0.1)
    whole_s = time.perf_counter() - began
    trial = state.trials[0]
    if not trial.kept_everything or trial.elapsed_s is None:
        raise SystemExit(f"{case.store}: {trial.reason or trial.verification}")
    return Took(trial.elapsed_s, whole_s)


def compare(
    ours: Callable[[], Took], theirs: Callable[[], Took]
) -> tuple[list[Took], list[Took]]:
    """Both sides in turn."""
    rows = [(theirs(), ours()) for _ in range(ROUNDS)]
    return [row[1] for row in rows], [row[0] for row in rows]


def main() -> int:
    """Print the table; how many targets were missed."""
    folder = baseline()
    missed = 0
    print(
        "store        clients   PHP loop   kvtui     ratio (rounds)   whole: PHP, kvtui"
    )
    with tempfile.TemporaryDirectory(prefix="kvtui-bench-") as name:
        scratch = Path(name)
        profiles = scratch / "profiles.tsv"
        maker = [sys.executable, str(folder / "gen_profiles.py"), "-o", str(profiles)]
        subprocess.run(maker, check=True, stdout=subprocess.DEVNULL)
        for case in CASES:
            ours, theirs = compare(
                partial(kvtui, profiles, case, scratch),
                partial(php, folder / "fananalyze.php", profiles, case, scratch),
            )
            ratios = [a.loop_s / b.loop_s for a, b in zip(ours, theirs, strict=True)]
            share = statistics.median(ratios)
            holds = share <= case.limit
            missed += not holds
            print(
                f"{case.store:12} {case.clients:7}"
                f" {statistics.median(each.loop_s for each in theirs):8.2f} s"
                f" {statistics.median(each.loop_s for each in ours):8.2f} s"
                f" {share:6.2f} ({' '.join(f'{each:.2f}' for each in ratios)})"
                f"   {statistics.median(each.whole_s for each in theirs):.1f} s,"
                f" {statistics.median(each.whole_s for each in ours):.1f} s"
                f"   target <= {case.limit}: {verdict(holds)}",
                flush=True,
            )
    return missed


if __name__ == "__main__":
    sys.exit(main())
