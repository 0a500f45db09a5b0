"""``kvtui run``: check everything, start a run, follow it, print the ranking."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from kvtui import config
from kvtui.commands import console, following
from kvtui.commands.options import (
    Count,
    existing_file,
    file_to_write,
    settings,
)
from kvtui.errors import ConfigError, StoreUnavailable, UsageError
from kvtui.jobs import registry as jobs
from kvtui.jobs.fans import parameters
from kvtui.runs.plan import (
    DEFAULT_CLIENTS,
    DEFAULT_WORKERS,
    RunPlan,
    StorePlan,
    WorkloadPlan,
)
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
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
@click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]|URL",
    help="A store, as often as there are stores; kvtui stores lists them.",
)
@click.option("--data", metavar="FILE", help="Profiles; kvtui's sample by default.")
@click.option("--names", metavar="FILE", help="Readable names of the pages.")
@click.option("--first", type=Count(), metavar="N", help="Only the first N people.")
@click.option(
    "--set",
    "words",
    multiple=True,
    metavar="KEY=VALUE",
    help="mode=record|cached|native, cache_mb=512, verify_mb=256.",
)
@click.option(
    "--clients",
    type=Count(),
    metavar="N",
    help=f"Callers at the same time, over all workers.  [default: {DEFAULT_CLIENTS}]",
)
@click.option(
    "--workers",
    type=Count(),
    metavar="N",
    help="Processes; a store that lives in its process has one."
    f"  [default: {DEFAULT_WORKERS}]",
)
@click.option(
    "--repeat",
    type=Count(),
    metavar="N",
    help="All stores N times over; the median counts.  [default: 1]",
)
@click.option("--seed", type=Count(), metavar="N", help="[default: 1]")
@click.option("--save", metavar="FILE", help="A further place for the snapshot.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Remove keys under kvtui: that are on a configured server.",
)
@click.option("--clear", is_flag=True, hidden=True)
@click.option("--keep", is_flag=True, help="Leave the records on a configured server.")
@click.option("--json", "as_json", is_flag=True, help="Print the ranking as JSON.")
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
    flags = {f"workloads.fans.{k}": v for k, v in {**given, "format": format}.items()}
    flags |= {f"workloads.fans.{key}": value for key, value in asked.items()}
    flags |= {"run.clients": clients, "run.workers": workers}
    flags |= {"run.repeat": repeat, "run.seed": seed}
    chosen = config.effective(flags)
    plan = RunPlan(
        WorkloadPlan("fans", _parameters(chosen, asked)),
        chosen_stores(stores),
        clients=chosen["run.clients"].value,
        workers=chosen["run.workers"].value,
        repeat=chosen["run.repeat"].value,
        seed=chosen["run.seed"].value,
        save_to=None if save is None else str(file_to_write(save)),
        clear=overwrite or clear,
        keep=keep,
    )
    checked = check(plan)
    for line in [*words_of(checked.plan), *checked.found]:
        console.say(line)
    return following.carry_out(checked.plan, as_json=as_json)


def _parameters(chosen: dict[str, Effective], asked: dict[str, Any]) -> dict[str, Any]:
    """Of the fan-page job: what was chosen, wherever, and what was asked beside it."""
    start = "workloads.fans."
    given = {
        name.removeprefix(start): each.value
        for name, each in chosen.items()
        if name.startswith(start) and each.source != "default"
    }
    if "data" not in given:
        sample, sample_names = config.sample_profiles()
        given["data"] = str(sample)
        if "names" not in given and sample_names.is_file():
            given["names"] = str(sample_names)
    given["data"] = str(existing_file(given["data"], "the profile file"))
    if "names" in given:
        given["names"] = str(existing_file(given["names"], "the file of names"))
    return given | asked


def chosen_stores(words: tuple[str, ...]) -> tuple[StorePlan, ...]:
    """The stores as they were named on the command line."""
    profiles = config.store_profiles()
    if not words:
        ready = [
            name for name, each in profiles.items() if registry.availability(each).ready
        ]
        raise UsageError(
            "no store was chosen",
            hint="name one or more: "
            + " ".join(f"--store {name}" for name in ready[:6]),
        )
    return tuple(config.store_plan(word, profiles) for word in words)


class Checked(NamedTuple):
    """A plan that can be carried out."""

    plan: RunPlan
    found: list[str]
    """What somebody's servers are, in words."""


def check(plan: RunPlan) -> Checked:
    """Raise for whatever would keep the plan from being carried out, before
    anything is started; ask whether keys that are in the way may go."""
    plan.check()
    workload = jobs.workload_class(plan.workload.name)
    workload.check(plan.workload.parameters)
    for store in plan.stores:
        if workload.writes and registry.kind(store.kind).read_only:
            raise UsageError(
                f"store {store.name} can only be read, and {workload.name} writes"
            )
        profile = StoreProfile(store.name, store.kind, store.settings, store.private)
        found = registry.availability(profile)
        if not found.ready:
            raise StoreUnavailable(
                f"store {store.name} is {found.text}", hint=found.hint or None
            )
    _check_data(plan.workload.parameters)
    told: list[str] = []
    for store in plan.stores:
        if registry.is_somebodys(store.kind, store.private, store.settings):
            plan = _check_server(store, plan, told)
    return Checked(plan, told)


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


def _check_server(store: StorePlan, plan: RunPlan, told: list[str]) -> RunPlan:
    """Connect to somebody's server, and see that nobody's keys are in the way."""
    from kvtui.engine import markers, premises

    namespace = jobs.workload_class(plan.workload.name).namespace

    def tell(text: str) -> None:
        console.say(f"kvtui: {visible(text)}")

    with premises.reached(store, tell) as opened:
        found = markers.look(store, namespace, opened)
    told.append(f"  {visible(store.name)}: {visible(markers.in_words(found))}")
    warning = markers.eviction_warning(store, found.info)
    if warning:
        told.append(f"  warning: {visible(warning)}")
    how = markers.standing(found, store, config.runs_directory())
    if how == "in use" and found.marker is not None:
        raise UsageError(
            f"run {found.marker.run} is using {store.name}",
            hint=f"wait for it, or end it: kvtui stop {found.marker.run}",
        )
    if how == "interrupted" and found.keys and found.marker is not None:
        told.append(
            f"  {found.keys:,} keys of the interrupted run {visible(found.marker.run)}"
            " will be cleared"
        )
    if how != "left":
        return plan
    left = markers.left_in_words(found, store, namespace)
    if plan.clear:
        told.append(f"  {visible(left)}: they will be removed")
        return plan
    if not _may_be_asked():
        raise UsageError(left, hint=markers.CLEAR_HINT)
    console.say(f"kvtui: {visible(left)}")
    if not click.confirm("Remove these keys, and no others?", err=True):
        raise UsageError(f"{store.name} was left as it is", hint=markers.CLEAR_HINT)
    return msgspec.structs.replace(plan, clear=True)


def _may_be_asked() -> bool:
    return console.is_terminal(sys.stdin) and console.is_terminal(sys.stderr)


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
    turns = "once each" if plan.repeat == 1 else f"{plan.repeat} times each"
    return [
        f"kvtui: fan pages on {', '.join(visible(each.name) for each in plan.stores)}",
        f"  mode {given.mode}: {parameters.MODES[given.mode]}{cache}",
        (
            f"  data: {visible(given.data)}{' (the sample)' if sample else ''},"
            f" {people}{visible(names)}"
        ),
        (
            f"  {_number(plan.clients, 'client')} in {_number(plan.workers, 'worker')},"
            f" {turns}, seed {plan.seed}"
        ),
    ]


def _is_sample(path: str) -> bool:
    try:
        return path == str(config.sample_profiles()[0])
    except ConfigError:
        return False


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"
