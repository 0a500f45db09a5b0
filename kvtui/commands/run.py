"""``kvtui run``: check everything, start a run, follow it, print the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvtui import config
from kvtui.commands import console, following, planning
from kvtui.commands.options import Count, existing_file, settings
from kvtui.commands.planning import (
    AS_JSON,
    STORES,
    Checked,
    parameters_option,
    run_options,
    words_of_clients,
)
from kvtui.commands.run_http import http
from kvtui.commands.run_ycsb import COMMANDS as YCSB
from kvtui.errors import ConfigError, UsageError
from kvtui.jobs.fans import parameters
from kvtui.runs.plan import RunPlan, WorkloadPlan
from kvtui.text import count, visible

if TYPE_CHECKING:
    from kvtui.defaults import Effective


@click.group(no_args_is_help=True)
def run() -> None:
    """Run a workload on stores and print the ranking.

    The run is a process of its own: closing this terminal changes nothing.
    kvtui attach shows it again, kvtui stop ends it. Ctrl-C ends it too.
    """


@run.command()
@STORES
@click.option("--data", metavar="FILE", help="Profiles; kvtui's sample by default.")
@click.option("--names", metavar="FILE", help="Readable names of the pages.")
@click.option("--first", type=Count(), metavar="N", help="Only the first N people.")
@parameters_option("mode=record|cached|native, cache_mb=512, verify_mb=256.")
@run_options
@click.option(
    "--overwrite",
    is_flag=True,
    help="Remove keys under kvtui: that are on a configured server.",
)
@click.option("--clear", is_flag=True, hidden=True)
@click.option("--keep", is_flag=True, help="Leave the records on a configured server.")
@AS_JSON
@click.option(
    "--encoding", metavar="NAME", help="Of the profiles: utf-8 (default) or latin-1."
)
@click.option("--format", metavar="NAME", help="Of the profiles, where not told by it.")
def fans(
    stores: tuple[str, ...],
    data: str | None,
    names: str | None,
    first: int | None,
    words: tuple[str, ...],
    clients: int | None,
    workers: int | None,
    repeat: int | None,
    seed: int | None,
    save: str | None,
    overwrite: bool,
    clear: bool,
    keep: bool,
    as_json: bool,
    encoding: str | None,
    format: str | None,
) -> int:
    """Compile fan pages: for every fan of a page, read, change and write back the
    page's whole record.

    The ranking goes to standard output, everything else to standard error. Exit
    code 0 when every store kept everything it should, 1 when one did not.

    \b
    kvtui run fans --store ram --store leveldb --store redis-unix
    kvtui run fans --store redis-tcp:client=driver --set mode=cached --first 1k
    kvtui run fans --store redis-tcp:host=127.0.0.1,port=6379 --keep
    kvtui run fans --store ram --data profiles.csv.gz --repeat 3 --save out.json
    """
    asked = settings(words)
    for name in ("data", "names", "first", "encoding", "format"):
        if name in asked:
            raise UsageError(f"--set {name} is not how it is said", hint=f"--{name} …")
    given = {"data": data, "names": names, "first": first, "encoding": encoding}
    how = {"clients": clients, "workers": workers, "repeat": repeat, "seed": seed}
    chosen = planning.chosen_values("fans", {**given, "format": format, **asked}, how)
    plan = planning.run_plan(
        WorkloadPlan("fans", _parameters(chosen, asked)),
        stores,
        chosen,
        save=save,
        clear=overwrite or clear,
        keep=keep,
    )
    checked = check(plan)
    for line in [*words_of(checked.plan), *checked.found]:
        console.say(line)
    return following.carry_out(checked.plan, as_json=as_json)


def _parameters(chosen: dict[str, Effective], asked: dict[str, Any]) -> dict[str, Any]:
    """Of the fan-page job: what was chosen, wherever, and what was asked beside it."""
    given = planning.of_workload("fans", chosen)
    if _stronger(chosen["workloads.fans.data"], chosen["workloads.fans.names"]):
        given.pop("names", None)  # Those of another file.
    if "data" not in given:
        sample, sample_names = config.sample_profiles()
        given["data"] = str(sample)
        if "names" not in given and sample_names.is_file():
            given["names"] = str(sample_names)
    given["data"] = str(existing_file(given["data"], "the profile file"))
    if "names" in given:
        given["names"] = str(existing_file(given["names"], "the file of names"))
    return given | asked


def _stronger(one: Effective, other: Effective) -> bool:
    order = ("default", "file", "environment", "flag")
    return order.index(one.source) > order.index(other.source)


def check(plan: RunPlan) -> Checked:
    """Raise for whatever would keep the plan from being carried out, before
    anything is started; ask whether keys that are in the way may go."""
    planning.check(plan)
    _check_data(plan.workload.parameters)
    return planning.check_servers(plan)


def _check_data(given: dict[str, Any]) -> None:
    """Recognise the profile file from its first lines."""
    from kvtui.jobs.fans.profiles import open_profiles

    asked = parameters.check(given)
    open_profiles(
        Path(asked.data),
        first=asked.first,
        format=asked.format,
        encoding=asked.encoding,
    )


def words_of(plan: RunPlan) -> list[str]:
    """The plan in words, with what was left to kvtui."""
    given = parameters.check(plan.workload.parameters)
    sample = _is_sample(given.data)
    people = (
        "all people"
        if given.first is None
        else f"the first {count(given.first)} people"
    )
    names = f", names from {Path(given.names).name}" if given.names else ""
    cache = f", cache {given.cache_mb:g} MB" if given.mode == "cached" else ""
    return [
        f"kvtui: fan pages on {', '.join(visible(each.name) for each in plan.stores)}",
        f"  mode {given.mode}: {parameters.MODES[given.mode]}{cache}",
        (
            f"  data: {visible(given.data)}{' (the sample)' if sample else ''},"
            f" {people}{visible(names)}"
        ),
        words_of_clients(plan),
    ]


def _is_sample(path: str) -> bool:
    try:
        return path == str(config.sample_profiles()[0])
    except ConfigError:
        return False


run.add_command(http)
for each in YCSB:
    run.add_command(each)
