"""``kvtui run http``: ask a server for a page, so many times."""

from __future__ import annotations

import click
from msgspec.structs import replace

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
from kvtui.jobs.http import parameters
from kvtui.runs.plan import RunPlan, WorkloadPlan
from kvtui.stores import settings as store_settings
from kvtui.text import count, visible


@click.command()
@STORES
@click.option(
    "-n",
    "--requests",
    type=Count(),
    metavar="N",
    help=f"Over all clients.  [default: {parameters.REQUESTS}]",
)
@click.option(
    "--ok",
    metavar="STATUSES",
    help="Statuses that are answers, such as 2xx,304.  [default: 2xx]",
)
@parameters_option("changing=true: the page may change between replies.")
@run_options
@AS_JSON
def http(
    stores: tuple[str, ...],
    requests: int | None,
    ok: str | None,
    words: tuple[str, ...],
    clients: int | None,
    workers: int | None,
    repeat: int | None,
    seed: int | None,
    save: str | None,
    as_json: bool,
) -> int:
    """Get a page from an HTTP server, so many times.

    Only a 2xx is an answer, or what --ok says; redirects are not followed. Every body
    is compared with the first one. Exit code 0 when every reply was good, 1 when one
    was not.

    \b
    kvtui run http --store http -n 10k -c 24
    kvtui run http --store http:keep_alive=false
    kvtui run http --store http://127.0.0.1:8080/index.html --clients 100
    """
    asked = settings(words)
    if "requests" in asked:
        raise UsageError("--set requests is not how it is said", hint="-n …")
    if asked.get("changing") in ("true", "yes", "on", "false", "no", "off"):
        asked["changing"] = asked["changing"] in ("true", "yes", "on")
    how = {"clients": clients, "workers": workers, "repeat": repeat, "seed": seed}
    chosen = planning.chosen_values("http", {"requests": requests, **asked}, how)
    given = {**planning.of_workload("http", chosen), **asked}
    plan = planning.run_plan(WorkloadPlan("http", given), stores, chosen, save=save)
    if ok is not None:
        plan = _with_answers(plan, ok)
    planning.check(plan)
    checked = planning.check_servers(plan)
    for line in [*words_of(checked.plan), *checked.found]:
        console.say(line)
    return following.carry_out(checked.plan, as_json=as_json)


def _with_answers(plan: RunPlan, ok: str) -> RunPlan:
    """The same for every HTTP server of the plan."""
    wrong = store_settings.problem("ok", ok)
    if wrong:
        raise UsageError(f"--ok {wrong}")
    told = [
        replace(store, settings={**store.settings, "ok": ok})
        if store.kind == "http"
        else store
        for store in plan.stores
    ]
    return replace(plan, stores=tuple(told))


def words_of(plan: RunPlan) -> list[str]:
    """The plan in words, with what was left to kvtui."""
    given = parameters.check(plan.workload.parameters)
    changes = ", and its page may change" if given.changing else ""
    return [
        f"kvtui: pages from {', '.join(visible(each.name) for each in plan.stores)}",
        f"  {count(given.requests)} requests{changes}",
        words_of_clients(plan),
    ]
