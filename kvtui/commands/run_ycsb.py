"""``kvtui run ycsb-a`` to ``ycsb-f``: YCSB's core workloads."""

from __future__ import annotations

from typing import Any

import click

from kvtui.commands import console, following, planning
from kvtui.commands.options import Count, settings
from kvtui.commands.planning import (
    AS_JSON,
    STORES,
    parameters_option,
    run_options,
    words_of_clients,
)
from kvtui.errors import UsageError
from kvtui.jobs import registry
from kvtui.jobs.ycsb import parameters
from kvtui.runs.plan import RunPlan, WorkloadPlan
from kvtui.text import count, size, visible

_SAID: dict[str, str] = {
    "records": "--records N",
    "operations": "-n N",
    "value_bytes": "--value-bytes N",
    "distribution": "--distribution NAME",
    "seed": "--seed N",
    "clients": "-c N",
}
_WORDS = {
    "read": "reads",
    "update": "updates",
    "insert": "inserts",
    "scan": "scans",
    "rmw": "read-modify-writes",
}


def command(workload: str) -> click.Command:
    """The command of one of them."""

    @click.command(workload, short_help=f"{registry.WORKLOADS[workload].sentence}.")
    @STORES
    @click.option(
        "--records",
        type=Count(),
        metavar="N",
        help=f"Loaded before the clock runs.  [default: {parameters.RECORDS}]",
    )
    @click.option(
        "-n",
        "--operations",
        type=Count(),
        metavar="N",
        help=f"Over all clients.  [default: {parameters.OPERATIONS}]",
    )
    @click.option(
        "--value-bytes",
        type=Count(),
        metavar="N",
        help=f"Of each value.  [default: {parameters.VALUE_BYTES}]",
    )
    @click.option(
        "--distribution",
        type=click.Choice(list(parameters.DISTRIBUTIONS)),
        help="How records are chosen."
        f"  [default: {parameters.PRESETS[workload].distribution}]",
    )
    @parameters_option(
        "theta=0.99, compress_ratio=1, insert_order=hashed|ordered, scan_longest=100,"
        " hot_records=0.2, hot_operations=0.8; read=, update=, insert=, scan=, rmw= for"
        " other proportions; …"
    )
    @run_options
    @click.option(
        "--overwrite",
        is_flag=True,
        help="Remove keys under kvtui: that are on a configured server.",
    )
    @AS_JSON
    def run(
        stores: tuple[str, ...],
        records: int | None,
        operations: int | None,
        value_bytes: int | None,
        distribution: str | None,
        words: tuple[str, ...],
        clients: int | None,
        workers: int | None,
        repeat: int | None,
        seed: int | None,
        save: str | None,
        overwrite: bool,
        as_json: bool,
    ) -> int:
        asked = settings(words)
        for name in asked:
            if name in _SAID:
                raise UsageError(
                    f"--set {name} is not how it is said", hint=_SAID[name]
                )
        given = {
            "records": records,
            "operations": operations,
            "value_bytes": value_bytes,
            "distribution": distribution,
        }
        how = {"clients": clients, "workers": workers, "repeat": repeat, "seed": seed}
        chosen = planning.chosen_values("ycsb", given, how)
        told: dict[str, Any] = {**planning.of_workload("ycsb", chosen), **asked}
        plan = planning.run_plan(
            WorkloadPlan(workload, told), stores, chosen, save=save, clear=overwrite
        )
        planning.check(plan)
        checked = planning.check_servers(plan)
        for line in [*words_of(checked.plan), *checked.found]:
            console.say(line)
        return following.carry_out(checked.plan, as_json=as_json)

    run.help = _help(workload)
    return run


def _help(workload: str) -> str:
    sentence = registry.WORKLOADS[workload].sentence
    letter = workload[-1].upper()
    return f"""YCSB's core workload {letter}: {sentence}.

    All records are loaded first. Every value that is read is compared with what it
    must be, and every record is read back at the end: wrong, lost and stale values are
    told apart. A record is one value; an update writes the whole of it. Exit code 0
    when every store kept everything, 1 when one did not.

    \b
    kvtui run {workload} --store ram --store leveldb --store redis-unix
    kvtui run {workload} --records 100k -n 1M --value-bytes 100 --store memcached-unix
    kvtui run {workload} --distribution hotspot --set hot_records=0.01 --store mysql
    """


def words_of(plan: RunPlan) -> list[str]:
    """The plan in words, with what was left to kvtui."""
    name = plan.workload.name
    given = parameters.check(name, plan.workload.parameters)
    shares = parameters.mix(name, given)
    mixed = ", ".join(
        f"{share * 100:.4g} % {_WORDS[kind]}"
        for kind, share in zip(parameters.PROPORTIONS, shares, strict=True)
        if share
    )
    chosen = parameters.distribution(name, given)
    total = given.records * given.value_bytes
    return [
        f"kvtui: {name} on {', '.join(visible(each.name) for each in plan.stores)}",
        (
            f"  first load {count(given.records)} records of {count(given.value_bytes)}"
            f" bytes ({size(total)} of values), then {count(given.operations)}"
            f" operations: {mixed}"
        ),
        f"  {chosen}: {parameters.DISTRIBUTIONS[chosen]}{_details(given, chosen)}",
        words_of_clients(plan),
    ]


def _details(given: parameters.YcsbParameters, chosen: str) -> str:
    if chosen in ("zipfian", "zipfian-plain", "latest"):
        if given.theta != 0.99 and chosen == "zipfian":
            return f"; theta {given.theta:g} instead of 0.99, so another share"
        return f"; theta {given.theta:g}"
    if chosen == "hotspot":
        return (
            f"; {given.hot_operations * 100:g} % of the operations on"
            f" {given.hot_records * 100:g} % of the records"
        )
    if chosen == "exponential":
        return (
            f"; {given.exponential_percentile:g} % of the operations on the newest"
            f" {given.exponential_fraction * 100:.4g} %"
        )
    return ""


COMMANDS = tuple(command(name) for name in parameters.PRESETS)
