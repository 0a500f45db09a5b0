"""``kvtui runs``, ``attach`` and ``stop``; and the workbench itself."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click
import msgspec

from kvtui import config
from kvtui.commands import console, following
from kvtui.commands.workbench import open_workbench
from kvtui.errors import RunError, UsageError
from kvtui.runs import ab, history, report, sysstat
from kvtui.runs.events import AnyEvent, RunFinished, RunStarted
from kvtui.runs.history import RunDirectory
from kvtui.runs.state import RunState
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import visible

STOP_LIMIT_S: Final = 30.0
START_LIMIT_S: Final = 20.0
_TAIL_BYTES: Final = 1 << 20


class RunRow(msgspec.Struct, frozen=True):
    """A run in the list."""

    run: str
    state: str
    """``goes on``, ``starting``, ``done``, ``stopped``, ``failed``,
    ``interrupted`` or ``damaged``."""
    reason: str
    started_utc: str | None
    workload: str | None
    stores: list[str]
    path: str


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def runs(context: click.Context, as_json: bool) -> None:
    """List the runs, the newest first.

    \b
    kvtui runs
    kvtui runs show 20260102T03 --vmstat
    kvtui query "Michael Jackson" --run 20260102T03
    """
    if context.invoked_subcommand is None:
        _list(as_json)


@runs.command()
@click.argument("run", required=False)
@click.option(
    "--vmstat", is_flag=True, help="The machine, second by second, as vmstat."
)
@click.option("--iostat", is_flag=True, help="Its disks, as iostat -x.")
@click.option(
    "--ab", "as_ab", is_flag=True, help="A run of http in the terms of ApacheBench."
)
@click.option(
    "--percentages",
    is_flag=True,
    help="Its percentages of requests as a CSV, as ab -e.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def show(
    run: str | None,
    vmstat: bool,
    iostat: bool,
    as_ab: bool,
    percentages: bool,
    as_json: bool,
) -> None:
    """Print the report of RUN, the newest when it is not named.

    With --vmstat or --iostat print what the machine did meanwhile instead, in the
    layouts of those tools: memory in KiB, traffic in KiB a second.

    \b
    kvtui runs show
    kvtui runs show 20260102T03 --vmstat
    """
    if as_json and (vmstat or iostat):
        raise UsageError(
            "--json prints the report", hint="the snapshot has vmstat's rows as JSON"
        )
    found = history.find(config.runs_directory(), run)
    state = found.state()
    if (as_ab or percentages) and not _asks_for_pages(state):
        raise UsageError(f"run {found.name} did not ask an HTTP server for pages")
    if percentages:
        for line in ab.percentages(state):
            console.out(line)
        return
    if not (vmstat or iostat):
        cut_off = state.outcome is None and not found.goes_on
        following.show(
            found,
            report.report(state, cut_off=cut_off),
            as_json=as_json,
            body=ab.lines(state) if as_ab else None,
        )
        return
    lines: list[str] = []
    if vmstat:
        lines += sysstat.vmstat_lines(state.system)
    if iostat:
        lines += sysstat.iostat_lines(state.system)
    if not lines:
        raise RunError(
            f"run {found.name} has no such rows",
            hint="it may have taken less than a second, or the kernel tells none",
        )
    for line in lines:
        console.out(visible(line))


def _asks_for_pages(state: RunState) -> bool:
    return state.plan is not None and state.plan.workload.name == "http"


def _list(as_json: bool) -> None:
    rows = [row(RunDirectory(path)) for path in _directories()]
    if as_json:
        console.out_json(msgspec.json.format(msgspec.json.encode(rows), indent=1))
        return
    if not rows:
        console.say("kvtui: there is no run yet")
        console.say("  kvtui run fans --store ram")
        return
    cells = [
        [
            visible(each.run, 80),
            _local(each.started_utc),
            each.state,
            visible(each.workload or "", 40),
            visible(", ".join(each.stores) if each.workload else each.reason),
        ]
        for each in rows
    ]
    columns = [
        Column("run"),
        Column("started"),
        Column("state"),
        Column("workload"),
        Column("stores", gives_way=True),
    ]
    if console.ascii_only():
        cells = [[ascii_letters(cell) for cell in line] for line in cells]
    for line in table(columns, cells, console.width()):
        console.out(line)


def _directories() -> list[Path]:
    folder = config.runs_directory()
    known = [run.path for run in history.all_runs(folder)]
    try:
        there = {path for path in folder.iterdir() if path.is_dir()}
    except OSError:
        return known
    return known + sorted(there - set(known), reverse=True)


def row(run: RunDirectory) -> RunRow:
    """What the list says of a run; a damaged one is a row like any other."""
    try:
        plan = run.plan()
    except RunError as error:
        return RunRow(run.name, "damaged", error.message, None, None, [], str(run.path))
    first, last = _ends(run.journal)
    started = first.started_utc if isinstance(first, RunStarted) else None
    reason = ""
    # A journal without a line is one that its runner may not have locked yet.
    if first is not None and run.goes_on:
        state = "goes on"
    elif isinstance(last, RunFinished):
        state, reason = last.outcome, last.reason
    elif first is None and _is_young(run):
        state = "starting"
    else:
        state = "interrupted"
        if first is None:
            reason = "its runner never came to life"
    stores = [store.name for store in plan.stores]
    return RunRow(
        run.name, state, reason, started, plan.workload.name, stores, str(run.path)
    )


def _is_young(run: RunDirectory) -> bool:
    try:
        return time.time() - run.plan_path.stat().st_mtime < START_LIMIT_S
    except OSError:
        return False


def _ends(journal: Path) -> tuple[AnyEvent | None, AnyEvent | None]:
    """The first event and the last whole one, without reading what is between."""
    try:
        with journal.open("rb") as file:
            first = file.readline()
            size = file.seek(0, 2)
            file.seek(max(0, size - _TAIL_BYTES))
            lines = file.read().splitlines()
    except OSError:
        return None, None
    last = next((event for line in reversed(lines) if (event := _event(line))), None)
    return _event(first), last


def _event(line: bytes) -> AnyEvent | None:
    try:
        event: AnyEvent = msgspec.json.decode(line, type=AnyEvent)
    except msgspec.MsgspecError:
        return None
    return event


def _local(started_utc: str | None) -> str:
    if started_utc is None:
        return ""
    try:
        moment = datetime.fromisoformat(started_utc)
    except ValueError:
        return ""
    return (
        moment.replace(tzinfo=moment.tzinfo or UTC)
        .astimezone()
        .strftime("%Y-%m-%d %H:%M:%S")
    )


@click.command()
@click.argument("run", required=False)
def attach(run: str | None) -> int:
    """Open RUN in the workbench: the one that goes on, else the newest.

    A finished run is shown as it was, second by second.

    \b
    kvtui attach
    kvtui attach 20260102T030405Z-fans
    """
    folder = config.runs_directory()
    if run is None:
        going = next(history.going_on(folder), None)
        return open_workbench(going or history.find(folder, None))
    return open_workbench(history.find(folder, run))


@click.command()
@click.argument("run", required=False)
def stop(run: str | None) -> int:
    """Stop RUN in order: the newest that goes on, when it is not named.

    The clients finish their operations, nothing more is verified, and the
    snapshot says that the run was stopped.

    \b
    kvtui stop
    """
    folder = config.runs_directory()
    if run is None:
        found = next(history.going_on(folder), None)
        if found is None:
            raise RunError("no run goes on", hint="kvtui runs lists them all")
    else:
        found = history.find(folder, run)
    _ask_to_stop(found)
    deadline = time.monotonic() + STOP_LIMIT_S
    while found.goes_on and time.monotonic() < deadline:
        time.sleep(0.05)
    if found.goes_on:
        raise RunError(
            f"run {found.name} was asked to stop and has not ended yet",
            hint="kvtui runs says when it has",
        )
    console.out(f"run {found.name}: {row(found).state}")
    return 0


def _ask_to_stop(run: RunDirectory) -> None:
    """A run that has only just been started cannot be asked yet; wait for it."""
    deadline = time.monotonic() + START_LIMIT_S
    while row(run).state == "starting" and time.monotonic() < deadline:
        time.sleep(0.05)
    history.stop(run)
