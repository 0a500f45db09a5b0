"""``kvtui servers``: the programs there are, and servers that stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
import msgspec

from kvtui import config
from kvtui.commands import console
from kvtui.errors import KvtuiError, UsageError
from kvtui.stores import registry
from kvtui.stores.programs import find_program
from kvtui.stores.registry import StoreProfile
from kvtui.stores.servers import standing, versions
from kvtui.stores.servers.standing import Seen, Standing
from kvtui.stores.settings import nearest
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import visible


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.pass_context
def servers(ctx: click.Context, as_json: bool) -> None:
    """List server programs, and the servers that are up; start and stop such.

    kvtui run starts servers of its own for one trial. Those of "up" stay until
    "down": for other tools, or to look at what a run has left.

    \b
    kvtui servers
    kvtui servers up redis-unix memcached-tcp:memory=64MB
    kvtui servers down
    """
    if ctx.invoked_subcommand is not None:
        return
    programs = _programs()
    up_now = standing.all_standing(config.servers_directory())
    if as_json:
        document = {"programs": programs, "up": [_as_json(each) for each in up_now]}
        console.out_json(msgspec.json.format(msgspec.json.encode(document), indent=1))
        return
    rows = [
        [
            str(each["kind"]),
            str(each["program"] or "not here"),
            str(each["version"] or "–"),
            str(each["hint"]),
        ]
        for each in programs
    ]
    _print_table(["kind", "program", "version", "to bring it"], rows)
    console.out()
    if not up_now:
        console.out("no server is up: kvtui servers up NAME starts one that stays")
    for each in up_now:
        _tell(each)


def _programs() -> list[dict[str, Any]]:
    kinds = [(name, kind) for name, kind in registry.KINDS.items() if kind.server]
    found = [find_program(kind.servers) for _, kind in kinds]
    told = iter(versions.versions([program for program in found if program]))
    return [
        {
            "kind": name,
            "program": program,
            "version": next(told) if program else None,
            "hint": "" if program else kind.install,
            "stores": [p.name for p in registry.BUILT_IN if p.kind == name],
        }
        for (name, kind), program in zip(kinds, found, strict=True)
    ]


def _as_json(seen: Seen) -> dict[str, Any]:
    told = seen.standing
    known: dict[str, Any] = {
        "name": seen.name,
        "state": "up" if seen.lives else "dead",
        "folder": str(seen.path),
    }
    if told is None:
        return known
    return known | {
        "kind": told.kind,
        "process": told.process_id,
        "since": told.since,
        "settings": told.settings,
        "store": store_word(told),
    }


def _print_table(heads: list[str], rows: list[list[str]]) -> None:
    letters = ascii_letters if console.ascii_only() else str
    clean = [[letters(visible(cell)) for cell in row] for row in rows]
    for line in table([Column(head) for head in heads], clean):
        console.out(line.rstrip())


def _tell(seen: Seen) -> None:
    told = seen.standing
    if told is None or not seen.lives:
        console.out(
            f"{visible(seen.name)}: dead, its folder {visible(str(seen.path))} is left;"
            f" kvtui servers down {visible(seen.name)} removes it"
        )
        return
    _tell_standing(told)


def _tell_standing(told: Standing) -> None:
    since = told.since[:16].replace("T", " ")
    console.out(
        f"{visible(told.store)}: up at {visible(registry.place(told.settings))},"
        f" process {told.process_id}, since {since} UTC"
    )
    console.out(f"  --store {visible(store_word(told))}")
    console.out(f"  {visible(by_hand(told))}")


def store_word(told: Standing) -> str:
    """The word after ``--store`` that means this server."""
    known = registry.kind(told.kind).settings
    settings = {name: value for name, value in told.settings.items() if name in known}
    return f"{told.name}:" + ",".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in settings.items()
    )


def by_hand(told: Standing) -> str:
    """A command line that reaches it with its own client."""
    given: Mapping[str, Any] = told.settings
    path, port = given.get("path"), given.get("port")
    words = {
        "redis": f"redis-cli -s {path}" if path else f"redis-cli -p {port}",
        "memcached": f"nc -U {path}" if path else f"nc 127.0.0.1 {port}",
        "mysql": (
            f"mariadb -u {given.get('username')} -p"
            + (f" -S {path}" if path else f" -h 127.0.0.1 -P {port}")
            + f"    (its password is in {given.get('password_file')})"
        ),
        "mongo": f"mongosh mongodb://127.0.0.1:{port}",
        "tokyo": f"tcrmgr inform -port {port or 0} {path or '127.0.0.1'}",
        "http": (
            f"curl --unix-socket {path} http://localhost{given.get('page', '/')}"
            if path
            else f"curl http://127.0.0.1:{port}{given.get('page', '/')}"
        ),
    }
    return words.get(told.kind, "")


@servers.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME[:KEY=VALUE,…]…")
def up(names: tuple[str, ...]) -> int:
    """Start private servers that stay, and say how to reach them.

    \b
    kvtui servers up redis-unix memcached-tcp:memory=64MB
    """
    profiles = config.store_profiles()
    plans = [_plan(word, profiles) for word in names]
    code = 0
    for name, store in plans:
        try:
            told = standing.up(
                config.servers_directory(),
                name,
                store.name,
                store.kind,
                dict(store.settings),
            )
        except KvtuiError as error:
            console.complain_of(error)
            code = error.exit_code
            continue
        _tell_standing(told)
    return code


def _plan(word: str, profiles: dict[str, StoreProfile]) -> tuple[str, Any]:
    plan = config.store_plan(word, profiles)
    name = word.partition(":")[0]
    if not plan.private:
        private = [each.name for each in profiles.values() if each.private]
        raise UsageError(
            f"{word} needs no server of kvtui's", hint=f"there is: {', '.join(private)}"
        )
    return name, plan


@servers.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
def down(names: tuple[str, ...]) -> int:
    """Stop servers that "up" has started, all or those named, and remove them.

    \b
    kvtui servers down
    kvtui servers down redis-unix
    """
    folder = config.servers_directory()
    known = [each.name for each in standing.all_standing(folder)]
    unknown = [name for name in names if name not in known]
    if unknown:
        hint = nearest(unknown[0], known) if known else "no server is up"
        raise UsageError(f"{unknown[0]} is not up", hint=hint)
    code = 0
    for name in names or known:
        try:
            seen = standing.down(folder, name)
        except KvtuiError as error:
            console.complain_of(error)
            code = error.exit_code
            continue
        how = "stopped" if seen.lives else "was dead; what it left is removed"
        console.out(f"{visible(name)}: {how}")
    if not known:
        console.say("kvtui: no server is up")
    return code
