"""The commands: what there is, each imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from kvtui import __version__
from kvtui.commands import console

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run:run", "Run a workload on stores and print the ranking."),
    "query": ("query:query", "Print a page's record."),
    "records": ("records:records", "Write all counts, or their digests."),
    "capacity": ("capacity:capacity", "Say how many cores a load needs."),
    "runs": ("runs:runs", "List the runs."),
    "attach": ("runs:attach", "Open a run in the workbench."),
    "stop": ("runs:stop", "Stop a run in order."),
    "stores": ("about:stores", "List the stores and what each needs."),
    "servers": ("servers:servers", "Start private servers that stay, and stop them."),
    "config": ("config:show", "Print the settings in force, and who said so."),
    "data": ("data:data", "Make and describe profile files."),
    "paths": ("about:paths", "Print where kvtui keeps its files."),
    "schema": ("about:schema", "Print the JSON Schema of snapshots."),
    "fananalyze": ("fananalyze:fananalyze", "The published script's own words."),
}
"""Name to (module:command in kvtui.commands, what it does)."""

INTERRUPTED: Final = 130


class LazyGroup(click.Group):
    """A group that imports a command when it is asked for, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module_name, _, name = COMMANDS[cmd_name][0].partition(":")
        module = importlib.import_module(f"kvtui.commands.{module_name}")
        command: click.Command = getattr(module, name)
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """The table of commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; one that is not there is answered with the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            close = difflib.get_close_matches(name, COMMANDS, n=2)
            hint = f" (did you mean {' or '.join(close)}?)" if close else ""
            raise click.UsageError(f"there is no command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"max_content_width": 88},
)
@click.version_option(__version__, message="%(prog)s %(version)s", prog_name="kvtui")
@click.pass_context
def cli(ctx: click.Context) -> int | None:
    """Run, measure and verify key/value stores.

    Without a command the workbench opens: tick stores, press Enter, watch.

    \b
    kvtui
    kvtui run fans --store ram --store leveldb --store redis-unix
    kvtui query "http://www.facebook.com/michaeljackson"
    """
    if ctx.invoked_subcommand is None:
        from kvtui.commands.workbench import open_workbench

        return open_workbench(None)
    return None


def run(arguments: Sequence[str]) -> int:
    """Carry the words out; the exit code. Raises what is not about the words."""
    try:
        returned: Any = cli.main(
            list(arguments), prog_name="kvtui", standalone_mode=False
        )
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        _complain_of_usage(error)
        return error.exit_code
    return returned if isinstance(returned, int) else 0


def _complain_of_usage(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    hint = None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help shows what there is"
    message = error.format_message().rstrip(".")
    console.complain(message[:1].lower() + message[1:], hint)
