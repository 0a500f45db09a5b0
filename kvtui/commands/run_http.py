"""``kvtui run http``: ask a server for a page or several, so many times."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from kvtui.commands import console, following, planning
from kvtui.commands.options import Count, existing_file, settings, typed
from kvtui.commands.planning import (
    AS_JSON,
    STORES,
    parameters_option,
    run_options,
    words_of_clients,
)
from kvtui.errors import DataError, UsageError
from kvtui.jobs.http import headers, parameters
from kvtui.runs import ab
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import RunState
from kvtui.stores import settings as store_settings
from kvtui.text import count, visible

_SHOWN_PAGES = 6


class Seconds(click.ParamType[float]):
    """A time, as ``5``, ``5s``, ``250ms`` or ``1m``."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it."""
        text = str(value).strip().lower()
        for unit, factor in (("ms", 0.001), ("s", 1), ("m", 60), ("", 1)):
            if text.endswith(unit):
                try:
                    return float(text.removesuffix(unit)) * factor
                except ValueError:
                    break
        self.fail(f"{value!r} is not a time such as 5s or 250ms")


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
    "-X",
    "--method",
    metavar="METHOD",
    help="GET, HEAD, POST, …  [default: GET; POST with a body]",
)
@click.option(
    "-H",
    "--header",
    "header_words",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="As often as wanted. A secret by where it is kept: 'Authorization: Bearer"
    " env:TOKEN', 'Cookie: file:cookie.txt'.",
)
@click.option("--body", metavar="FILE", help="Sent with every request.")
@click.option(
    "-T",
    "--content-type",
    metavar="TYPE",
    help=f"Of the body.  [default: {parameters.CONTENT_TYPE}]",
)
@click.option(
    "--url",
    "url_words",
    multiple=True,
    metavar="'/PATH [WEIGHT]'",
    help="A page of the store's server, as often as there are pages; one of weight 3"
    " is asked for three times as often as one of weight 1.",
)
@click.option("--urls", metavar="FILE", help="The same, a line each.")
@click.option(
    "--follow/--no-follow",
    default=None,
    help="Follow redirects, up to 10 a request, on the same server only.",
)
@click.option(
    "--ok",
    metavar="STATUSES",
    help="Statuses that are answers, such as 2xx,304.  [default: 2xx]",
)
@click.option(
    "--keep-alive/--no-keep-alive",
    default=None,
    help="One connection for all of a client's requests, or one for each.",
)
@click.option(
    "--timeout",
    type=Seconds(),
    metavar="TIME",
    help="For a reply, such as 5s or 250ms.  [default: 10s]",
)
@click.option(
    "--ca", metavar="FILE", help="TLS: trust certificates that this one signed."
)
@click.option(
    "--verify/--no-verify",
    default=None,
    help="TLS: whether certificates are checked.  [default: they are]",
)
@click.option(
    "--report",
    "form",
    type=click.Choice(["ranking", "ab"]),
    default="ranking",
    help="ab: in the terms of ApacheBench.  [default: ranking]",
)
@click.option(
    "-e",
    "--percentages",
    metavar="FILE",
    help="Write a CSV of the percentages of requests and their times, as ab -e.",
)
@parameters_option("changing=true: a page may change between replies.")
@run_options
@AS_JSON
def http(
    stores: tuple[str, ...],
    requests: int | None,
    method: str | None,
    header_words: tuple[str, ...],
    body: str | None,
    content_type: str | None,
    url_words: tuple[str, ...],
    urls: str | None,
    follow: bool | None,
    ok: str | None,
    keep_alive: bool | None,
    timeout: float | None,
    ca: str | None,
    verify: bool | None,
    form: str,
    percentages: str | None,
    words: tuple[str, ...],
    clients: int | None,
    workers: int | None,
    repeat: int | None,
    seed: int | None,
    save: str | None,
    as_json: bool,
) -> int:
    """Ask an HTTP server for a page, so many times.

    Only a 2xx is an answer, or what --ok says; redirects are not followed unless that
    is asked for. Every body is compared with the first one of its page. Exit code 0
    when every reply was good, 1 when one was not.

    \b
    kvtui run http --store http -n 10k -c 24           # a private server
    kvtui run http --store http://127.0.0.1:8080/page.html -n 1M -c 24
    kvtui run http --store http://[::1]/ --no-keep-alive --report ab -e times.csv
    kvtui run http --store https://localhost:8443/ --ca ca.pem --timeout 2s
    kvtui run http --store http:path=/run/web.sock,page=/index.html
    kvtui run http --store http://127.0.0.1/ --url '/a 3' --url '/b 1' --seed 7
    kvtui run http --store http://127.0.0.1/api --body order.json \\
        -T application/json -H 'Authorization: Bearer env:TOKEN'
    """
    asked = _set_words(words)
    how = {"clients": clients, "workers": workers, "repeat": repeat, "seed": seed}
    flags = {
        "requests": requests,
        "method": method and method.upper(),
        "body": body and body.removeprefix("@"),
        "content_type": content_type,
        "follow": follow,
    }
    chosen = planning.chosen_values("http", flags | asked, how)
    given = planning.of_workload("http", chosen) | asked
    if given.get("body"):
        given["body"] = str(existing_file(given["body"], "the body"))
    if header_words:
        given["headers"] = [typed(each) for each in header_words]
    pages = [typed(each).strip() for each in url_words]
    if urls is not None:
        pages += _pages_in(existing_file(urls, "the list of pages"))
    if pages:
        given |= {"urls": pages, "seed": chosen["run.seed"].value}
    # Nothing else is looked at before it is known that no secret is in the way.
    headers.resolved(parameters.check(given).fields)
    plan = planning.run_plan(WorkloadPlan("http", given), stores, chosen, save=save)
    plan = _with_settings(
        plan,
        {
            "ok": ok,
            "keep_alive": keep_alive,
            "timeout_s": timeout,
            "ca": ca and str(existing_file(ca, "the certificate")),
            "verify": verify,
        },
    )
    planning.check(plan)
    checked = planning.check_servers(plan)
    for line in [*words_of(checked.plan), *checked.found]:
        console.say(line)
    return following.carry_out(
        checked.plan,
        as_json=as_json,
        body=ab.lines if form == "ab" else None,
        ended=partial(_write_percentages, percentages) if percentages else None,
    )


def _write_percentages(path: str, state: RunState) -> None:
    try:
        with open(path, "w", encoding="utf-8", opener=_private) as file:
            file.writelines(f"{line}\n" for line in ab.percentages(state))
    except OSError as error:
        console.complain(
            f"{visible(path)} could not be written: {error.strerror or error}",
            f"kvtui runs show {state.run} --percentages prints the same",
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


_FLAGS = {
    "requests": "-n",
    "method": "-X",
    "headers": "-H",
    "body": "--body",
    "content_type": "-T",
    "urls": "--url",
    "follow": "--follow",
    "seed": "--seed",
}


def _set_words(words: tuple[str, ...]) -> dict[str, Any]:
    asked = settings(words)
    for name in asked:
        if name in _FLAGS:
            raise UsageError(
                f"--set {name} is not how it is said", hint=f"{_FLAGS[name]} …"
            )
    if asked.get("changing") in ("true", "yes", "on", "false", "no", "off"):
        asked["changing"] = asked["changing"] in ("true", "yes", "on")
    return asked


def _pages_in(path: Path) -> list[str]:
    """The pages of a file: one a line; blank lines and those with a # are none."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except UnicodeDecodeError:
        raise DataError(f"{path} is no text in UTF-8") from None
    found = []
    for number, line in enumerate(lines, 1):
        word = line.strip()
        if not word or word.startswith("#"):
            continue
        try:
            parameters.page(word)
        except UsageError as error:
            raise DataError(
                f"{path}, line {number}: {error.message}", hint=error.hint
            ) from None
        found.append(word)
    if not found:
        raise DataError(f"{path} names no page", hint="a line each: /a 3")
    return found


def _with_settings(plan: RunPlan, wanted: dict[str, Any]) -> RunPlan:
    """The same for every HTTP server of the plan."""
    said = {name: value for name, value in wanted.items() if value is not None}
    for name, value in said.items():
        wrong = store_settings.problem(name, value)
        if wrong:
            raise UsageError(f"--{_OPTION.get(name, name)} {wrong}")
    told = tuple(
        replace(each, settings={**each.settings, **said})
        if each.kind == "http"
        else each
        for each in plan.stores
    )
    secure = [each for each in told if each.settings.get("tls")]
    if not secure and (said.keys() & {"ca", "verify"}):
        raise UsageError(
            "none of the stores is asked by TLS", hint="--store https://HOST/PAGE"
        )
    if secure:
        # What is said of certificates is for those that show one.
        told = tuple(_without_tls_words(each, said) for each in told)
    return replace(plan, stores=told)


_OPTION = {"timeout_s": "timeout", "keep_alive": "keep-alive"}


def _without_tls_words(store: StorePlan, said: dict[str, Any]) -> StorePlan:
    if store.settings.get("tls"):
        return store
    left = {
        name: value
        for name, value in store.settings.items()
        if name not in ("ca", "verify") or name not in said
    }
    return replace(store, settings=left)


def words_of(plan: RunPlan) -> list[str]:
    """The plan in words, with what was left to kvtui."""
    given = parameters.check(plan.workload.parameters)
    changes = ", and a page may change" if given.changing else ""
    lines = [
        f"kvtui: pages from {', '.join(visible(each.name) for each in plan.stores)}",
        f"  {count(given.requests)} {_request_words(given)}{changes}",
    ]
    pages = [
        visible(page.path, 60) + (f" × {page.weight}" if page.weight != 1 else "")
        for page in given.pages
    ]
    if pages:
        more = len(pages) - _SHOWN_PAGES
        shown = ", ".join(pages[:_SHOWN_PAGES])
        lines.append(f"  pages: {shown}" + (f" and {more:,} more" if more > 0 else ""))
    if given.follow:
        lines.append("  redirects are followed, on the same server")
    lines += [
        f"  warning: {visible(each.name)}: its certificate is not checked"
        for each in plan.stores
        if each.settings.get("verify") is False
    ]
    return [*lines, words_of_clients(plan)]


def _request_words(given: parameters.HttpParameters) -> str:
    said = "requests"
    if given.verb != "GET":
        said = f"{given.verb} requests"
    if given.body:
        said += f" with {visible(given.body, 60)}"
    names = [visible(each.name, 40) for each in headers.parsed(given.headers)]
    if names:
        said += f", header{'s'[: len(names) > 1]} {', '.join(names)}"
    return said
