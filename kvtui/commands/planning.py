"""What every ``kvtui run WORKLOAD`` shares: its options, and the plan they make."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click
import msgspec

from kvtui import config
from kvtui.commands import console
from kvtui.commands.options import Count, file_to_write
from kvtui.errors import StoreUnavailable, UsageError
from kvtui.jobs import registry as jobs
from kvtui.runs.plan import (
    DEFAULT_CLIENTS,
    DEFAULT_WORKERS,
    RunPlan,
    StorePlan,
    WorkloadPlan,
)
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from kvtui.text import visible

if TYPE_CHECKING:
    from kvtui.defaults import Effective

Command = TypeVar("Command", bound=Callable[..., Any])

STORES: Final = click.option(
    "--store",
    "stores",
    multiple=True,
    metavar="NAME[:KEY=VALUE,…]|URL",
    help="A store, as often as there are stores; kvtui stores lists them.",
)
_OPTIONS: Final = (
    click.option(
        "-c",
        "--clients",
        type=Count(),
        metavar="N",
        help="Callers at the same time, over all workers."
        f"  [default: {DEFAULT_CLIENTS}]",
    ),
    click.option(
        "--workers",
        type=Count(),
        metavar="N",
        help="Processes; a store that lives in its process has one."
        f"  [default: {DEFAULT_WORKERS}]",
    ),
    click.option(
        "--repeat",
        type=Count(),
        metavar="N",
        help="All stores N times over; the median counts.  [default: 1]",
    ),
    click.option("--seed", type=Count(), metavar="N", help="[default: 1]"),
    click.option("--save", metavar="FILE", help="A further place for the snapshot."),
)
_HOW: Final = ("clients", "workers", "repeat", "seed")
AS_JSON: Final = click.option(
    "--json", "as_json", is_flag=True, help="Print the ranking as JSON."
)


def parameters_option(which: str) -> Callable[[Command], Command]:
    """``--set KEY=VALUE``, as often as wanted; ``which`` says what there is."""
    return click.option(
        "--set", "words", multiple=True, metavar="KEY=VALUE", help=which
    )


def run_options(command: Command) -> Command:
    """How often and by how many the stores are asked, and where the snapshot goes:
    the arguments ``clients``, ``workers``, ``repeat``, ``seed`` and ``save``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def chosen_values(
    workload: str, given: dict[str, Any], how: dict[str, Any]
) -> dict[str, Effective]:
    """Everything that may be set, with what was said: on the command line about the
    workload and about the run, else elsewhere."""
    flags = {f"workloads.{workload}.{name}": value for name, value in given.items()}
    return config.effective(flags | {f"run.{name}": how[name] for name in _HOW})


def of_workload(workload: str, chosen: dict[str, Effective]) -> dict[str, Any]:
    """What somebody has said about a workload, wherever."""
    start = f"workloads.{workload}."
    return {
        name.removeprefix(start): each.value
        for name, each in chosen.items()
        if name.startswith(start) and each.source != "default"
    }


def run_plan(
    workload: WorkloadPlan,
    stores: tuple[str, ...],
    chosen: dict[str, Effective],
    *,
    save: str | None,
    clear: bool = False,
    keep: bool = False,
) -> RunPlan:
    """The plan that all this comes to."""
    return RunPlan(
        workload,
        chosen_stores(stores),
        save_to=None if save is None else str(file_to_write(save)),
        clear=clear,
        keep=keep,
        **{name: chosen[f"run.{name}"].value for name in _HOW},
    )


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


def check(plan: RunPlan) -> None:
    """Raise for what can be told without looking at data or servers."""
    plan.check()
    workload = jobs.workload_class(plan.workload.name)
    workload.check(plan.workload.parameters)
    for store in plan.stores:
        if workload.writes and registry.kind(store.kind).read_only:
            raise UsageError(
                f"store {store.name} can only be read, and {workload.name} writes"
            )
        if workload.kinds and store.kind not in workload.kinds:
            raise UsageError(
                f"store {store.name} is no store for {workload.name}",
                hint=f"it is asked of {' or '.join(sorted(workload.kinds))}",
            )
        profile = StoreProfile(store.name, store.kind, store.settings, store.private)
        found = registry.availability(profile)
        if not found.ready:
            raise StoreUnavailable(
                f"store {store.name} is {found.text}", hint=found.hint or None
            )


def check_servers(plan: RunPlan) -> Checked:
    """Look at somebody's servers; ask whether keys that are in the way may go."""
    told: list[str] = []
    for store in plan.stores:
        if registry.is_somebodys(store.kind, store.private, store.settings):
            plan = _check_server(store, plan, told)
    return Checked(plan, told)


def _check_server(store: StorePlan, plan: RunPlan, told: list[str]) -> RunPlan:
    """Connect to somebody's server, and see that nobody's keys are in the way."""
    from kvtui.engine import markers, premises

    namespace = jobs.workload_class(plan.workload.name).namespace

    def tell(text: str) -> None:
        console.say(f"kvtui: {visible(text)}")

    with premises.reached(store, tell) as opened:
        found = markers.look(store, namespace, opened)
    told.append(f"  {visible(store.name)}: {visible(markers.in_words(found))}")
    warning = markers.eviction_warning(store, found)
    if warning:
        told.append(f"  warning: {visible(warning)}")
    how = markers.standing(found, store, config.runs_directory())
    if how == "in use" and found.marker is not None:
        run, runner = found.marker.run, found.marker.process_id
        told_of = markers.in_use(run, store, config.runs_directory(), runner)
        raise UsageError(told_of.message, hint=told_of.hint)
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


def words_of_clients(plan: RunPlan) -> str:
    """By how many and how often, in words."""
    turns = "once each" if plan.repeat == 1 else f"{plan.repeat} times each"
    return (
        f"  {_number(plan.clients, 'client')} in {_number(plan.workers, 'worker')},"
        f" {turns}, seed {plan.seed}"
    )


def _number(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' if number != 1 else ''}"
