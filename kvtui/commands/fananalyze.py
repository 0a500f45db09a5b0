"""``kvtui fananalyze``: the published script's own words."""

from __future__ import annotations

from typing import Any

import click

from kvtui import config, urls
from kvtui.commands import console, following
from kvtui.commands.copies import LiveStore, find_copy, is_live, open_copy
from kvtui.commands.options import Count, existing_file, typed
from kvtui.commands.query import from_archive, show
from kvtui.commands.run import check, words_of
from kvtui.errors import UsageError
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import registry
from kvtui.stores.settings import nearest
from kvtui.text import visible


@click.command(context_settings={"help_option_names": ["--help"]})
@click.option("-f", "file", metavar="FILE", help="Analyse this profile file.")
@click.option("-q", "page", metavar="PAGE", help="Print this page's record as JSON.")
@click.option("-s", "store", metavar="STORE", default="ram", help="ram, redis, …")
@click.option("-h", "host", metavar="HOST", help="Its host, or path of its socket.")
@click.option("-p", "port", type=Count(), metavar="PORT", help="Its port.")
@click.option("-r", "cached", is_flag=True, help="With a cache in front of it.")
@click.option("--overwrite", is_flag=True, help="Remove keys that are there.")
@click.option("--clear", is_flag=True, hidden=True)
def fananalyze(
    file: str | None,
    page: str | None,
    store: str,
    host: str | None,
    port: int | None,
    cached: bool,
    overwrite: bool,
    clear: bool,
) -> int:
    """Compile fan pages with one client, or print one, as the script of 2009 did.

    The records stay in the server that is named. A host that begins with / is a
    unix socket; a URL says everything. -h is the host; help is --help only.

    \b
    kvtui fananalyze -f data.txt -s redis -h localhost -p 6379
    kvtui fananalyze -f data.txt -s redis -h /run/redis/redis.sock -r
    kvtui fananalyze -q "http://www.facebook.com/michaeljackson" -s redis
    """
    if (file is None) == (page is None):
        raise UsageError("name a file to analyse (-f) or a page to print (-q)")
    plan = _store(store, host, port)
    if page is not None:
        return _query(plan, typed(page))
    path = existing_file(str(file), "the profile file")
    run = RunPlan(
        WorkloadPlan(
            "fans", {"data": str(path), "mode": "cached" if cached else "record"}
        ),
        (plan,),
        clients=1,
        clear=overwrite or clear,
        keep=True,
    )
    checked = check(run)
    for line in [*words_of(checked.plan), *checked.found]:
        console.say(line)
    return following.carry_out(checked.plan)


def _query(plan: StorePlan, page: str) -> int:
    if is_live(plan):
        with LiveStore(plan) as live:
            return show(live.record(page, 0), 1, True, page)
    archive = open_copy(find_copy(None, plan.name))
    try:
        return from_archive(archive, page, 1, True)
    finally:
        archive.close()


def _store(word: str, host: str | None, port: int | None) -> StorePlan:
    """The store by its name, or a server of that kind where it says."""
    profiles = config.store_profiles()
    if host is not None and urls.is_url(host):
        return _by_url(host, word, port)
    if word in profiles and host is None and port is None:
        return config.store_plan(word, profiles)
    kind = profiles[word].kind if word in profiles else word
    if kind not in registry.KINDS:
        raise UsageError(
            f"there is no store {word!r}",
            hint=nearest(word, [*registry.KINDS, *profiles]),
        )
    if not registry.kind(kind).servers:
        if host is not None or port is not None:
            console.say(f"kvtui: {visible(word)} is no server; -h and -p say nothing")
        return StorePlan(word, kind)
    settings: dict[str, Any] = dict(profiles[word].settings) if word in profiles else {}
    settings.pop("transport", None)
    if host is not None and host.startswith("/"):
        settings["path"] = host
        label = host
    else:
        settings["host"] = host or "localhost"
        if port is not None:
            settings["port"] = port
        label = registry.place(settings)
    registry.check_settings(word, kind, settings)
    return StorePlan(f"{word} at {label}", kind, settings)


def _by_url(url: str, word: str, port: int | None) -> StorePlan:
    """``-h URL``, which must be that of the store that ``-s`` names."""
    plan = config.store_plan(url, {})
    if word not in (plan.kind, "ram"):  # ram is what is meant without -s
        raise UsageError(
            f"-s {word} and the URL of a {plan.kind} do not go together",
            hint=f"-s {plan.kind}",
        )
    if port is not None:
        raise UsageError("the port stands in the URL", hint="leave -p out")
    return plan
