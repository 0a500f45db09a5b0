"""``kvtui config``: what is in force, and who said so."""

from __future__ import annotations

import os
from typing import Any

import click
import msgspec

from kvtui import config, defaults, secrets
from kvtui.commands import console, example
from kvtui.commands.options import Count, settings
from kvtui.defaults import Effective
from kvtui.errors import UsageError
from kvtui.stores import registry
from kvtui.stores.settings import nearest
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import visible


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.option("--example", "as_example", is_flag=True, help="Print a settings file.")
@click.option("--clients", type=Count(), metavar="N", help="As kvtui run takes it.")
@click.option("--workers", type=Count(), metavar="N", help="As kvtui run takes it.")
@click.option("--repeat", type=Count(), metavar="N", help="As kvtui run takes it.")
@click.option("--seed", type=Count(), metavar="N", help="As kvtui run takes it.")
@click.option("--set", "words", multiple=True, metavar="KEY=VALUE", help="Of fans.")
def show(
    as_json: bool, as_example: bool, words: tuple[str, ...], **flags: int | None
) -> None:
    """Print the settings in force and where each comes from.

    A flag beats the environment, that beats the settings file, and that beats the
    default. The variable of [run] clients is KVTUI_CLIENTS, that of
    [workloads.fans] mode is KVTUI_FANS_MODE.

    \b
    kvtui config
    kvtui config --example > ~/.config/kvtui/config.toml
    """
    if as_example:
        console.out_bytes(example.text().encode())
        return
    given: dict[str, Any] = {f"run.{name}": value for name, value in flags.items()}
    for key, value in settings(words).items():
        name = f"workloads.fans.{key}"
        if name not in defaults.OPTIONS:
            known = [n.rpartition(".")[2] for n in defaults.OPTIONS if "fans" in n]
            raise UsageError(f"there is no parameter {key!r}", hint=nearest(key, known))
        given[name] = value
    values = config.effective(given)
    stores = _stores()
    strange = defaults.strangers(os.environ, _known_variables())
    if as_json:
        _print_json(values, stores, strange)
    else:
        _print(values, stores, strange)


def _stores() -> list[tuple[str, str, dict[str, Any], str]]:
    """Name, kind, settings and place of the stores that the file names."""
    document = config.settings_file()
    if document is None:
        return []
    profiles = config.store_profiles()
    return [
        (name, profiles[name].kind, profiles[name].settings, where)
        for name in document.values.get("stores", {})
        for where in [document.place("stores", name)]
    ]


def _known_variables() -> set[str]:
    """Those that say where programs are, and one of the tests."""
    programs = [name for kind in registry.KINDS.values() for name in kind.servers]
    return {
        "KVTUI_REAL_DATA",
        *(f"KVTUI_{name.upper().replace('-', '_')}" for name in programs),
    }


def _print_json(
    values: dict[str, Effective],
    stores: list[tuple[str, str, dict[str, Any], str]],
    strange: list[str],
) -> None:
    document = {
        "file": str(config.config_path()),
        "file_exists": config.config_path().exists(),
        "settings": {
            name: {
                "value": each.value,
                "source": each.source,
                "where": each.where,
                "variable": defaults.variable(name),
            }
            for name, each in values.items()
        },
        "stores": [
            {"store": name, "kind": kind, "settings": given, "where": where}
            for name, kind, given, where in stores
        ],
        "unknown_variables": strange,
    }
    encoded = msgspec.json.format(msgspec.json.encode(document), indent=1)
    console.out_json(secrets.hidden(encoded.decode()).encode())


def _print(
    values: dict[str, Effective],
    stores: list[tuple[str, str, dict[str, Any], str]],
    strange: list[str],
) -> None:
    path = config.config_path()
    there = "" if path.exists() else " (not there; kvtui config --example prints one)"
    console.out(f"settings file: {visible(str(path))}{there}")
    console.out()
    rows = []
    for name, each in values.items():
        option = defaults.OPTIONS[name]
        value = option.otherwise if each.value is None else _words(each.value)
        whose = each.source if not each.where else f"{each.source}, {each.where}"
        rows.append([name, value, whose, defaults.variable(name)])
    rows += [
        [f"stores.{name}", f"{kind} at {registry.place(given)}", f"file, {where}", ""]
        for name, kind, given, where in stores
    ]
    letters = ascii_letters if console.ascii_only() else str
    clean = [[letters(visible(secrets.hidden(cell))) for cell in row] for row in rows]
    columns = [
        Column("setting"),
        Column("value"),
        Column("from", gives_way=False),
        Column("variable"),
    ]
    for line in table(columns, clean):
        console.out(line.rstrip())
    for name in strange:
        close = nearest(name, [defaults.variable(each) for each in values])
        hint = f" ({close})" if close.startswith("did") else ""
        console.say(f"kvtui: the variable {visible(name)} means nothing here{hint}")


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
