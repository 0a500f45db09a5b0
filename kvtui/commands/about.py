"""``kvtui stores``, ``paths`` and ``schema``: what there is, and where."""

from __future__ import annotations

import click
import msgspec

from kvtui import config, secrets
from kvtui.commands import console
from kvtui.errors import ConfigError
from kvtui.stores import registry
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import visible


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def stores(as_json: bool) -> None:
    """List the stores and what each needs.

    A store is named by --store NAME, with settings by --store NAME:KEY=VALUE,…
    A host, a port or a path makes it your server instead of a private one. More
    stores come from the settings file; kvtui paths says where that is.

    \b
    kvtui stores
    kvtui run fans --store redis-tcp:host=127.0.0.1,port=6379,client=driver
    """
    listed = [
        (profile, registry.kind(profile.kind), registry.availability(profile))
        for profile in config.store_profiles().values()
    ]
    if as_json:
        document = [
            {
                "store": profile.name,
                "kind": profile.kind,
                "ready": found.ready,
                "text": found.text,
                "hint": found.hint,
                "settings": profile.settings,
                "may_set": sorted(kind.settings),
                "clients": list(kind.clients),
                "private": profile.private,
            }
            for profile, kind, found in listed
        ]
        encoded = msgspec.json.format(msgspec.json.encode(document), indent=1)
        console.out_json(secrets.hidden(encoded.decode()).encode())
        return
    rows = [
        [
            visible(profile.name),
            profile.kind,
            "yes" if found.ready else "no",
            visible(found.text) + (f": {found.hint}" if found.hint else ""),
            ", ".join(kind.clients),
        ]
        for profile, kind, found in listed
    ]
    columns = [
        Column("store"),
        Column("kind"),
        Column("ready"),
        Column("how", gives_way=False),
        Column("clients"),
    ]
    letters = ascii_letters if console.ascii_only() else str
    clean = [[letters(secrets.hidden(cell)) for cell in row] for row in rows]
    for line in table(columns, clean):
        console.out(line)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def paths(as_json: bool) -> None:
    """Print where kvtui keeps its files.

    XDG_STATE_HOME and XDG_CONFIG_HOME move them.
    """
    try:
        sample = str(config.sample_profiles()[0])
    except ConfigError as error:
        sample = error.message
    found = {
        "runs": str(config.runs_directory()),
        "state": str(config.state_directory()),
        "servers": str(config.servers_directory()),
        "settings": str(config.config_path()),
        "sample": sample,
    }
    if as_json:
        console.out_json(msgspec.json.format(msgspec.json.encode(found), indent=1))
        return
    for name, path in found.items():
        console.out(f"{name:10}{visible(path)}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of snapshots.

    \b
    kvtui schema > snapshot.schema.json
    """
    console.out_bytes(schema_document())


def schema_document() -> bytes:
    """The schema as data/snapshot.schema.json holds it."""
    from kvtui.runs import snapshot

    encoded = msgspec.json.encode(snapshot.schema(), order="deterministic")
    return msgspec.json.format(encoded, indent=1) + b"\n"
