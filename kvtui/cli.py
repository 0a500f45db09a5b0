"""The command line: what there is, and how it ends.

Commands are imported when they are asked for, so that ``kvtui --version`` and
``--help`` load neither Textual nor numpy. Exit codes are those of
:mod:`kvtui.errors`; 130 after Ctrl-C, 70 after an unexpected end.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from kvtui import __version__
from kvtui.commands import console
from kvtui.errors import KvtuiError

COMMANDS: Final[Mapping[str, tuple[str, str]]] = {
    "run": ("run:run", "Run a workload on stores and print the ranking."),
    "query": ("query:query", "Print a page's record."),
    "records": ("records:records", "Write all counts, or their digests."),
    "runs": ("runs:runs", "List the runs."),
    "attach": ("runs:attach", "Open a run in the workbench."),
    "stop": ("runs:stop", "Stop a run in order."),
    "stores": ("about:stores", "List the stores and what each needs."),
    "data": ("data:data", "Make and describe profile files."),
    "paths": ("about:paths", "Print where kvtui keeps its files."),
    "schema": ("about:schema", "Print the JSON Schema of snapshots."),
    "fananalyze": ("fananalyze:fananalyze", "The published script's own words."),
}
"""Name to (module:command in kvtui.commands, what it does)."""

CRASHED: Final = 70
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
        from kvtui.commands.runs import open_workbench

        return open_workbench(None)
    return None


def main() -> None:
    """The ``kvtui`` command."""
    console.prepare()
    code = _run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_output()
        code = code or 1
    except OSError as error:
        _let_go_of_output()
        console.complain(f"the output cannot be written: {error.strerror}")
        code = code or 1
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    try:
        returned: Any = cli.main(arguments, prog_name="kvtui", standalone_mode=False)
    except click.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        _complain_of_usage(error)
        return error.exit_code
    except KvtuiError as error:
        console.complain_of(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _let_go_of_output()
        return 1
    except OSError as error:
        return _failed_in_the_system(error)
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        return _crashed(error)
    return returned if isinstance(returned, int) else 0


def _failed_in_the_system(error: OSError) -> int:
    """A full disk, a closed device: said in the system's words."""
    where = f"{error.filename}: " if error.filename else ""
    console.complain(f"{where}{error.strerror or error}")
    if error.filename is None:
        _let_go_of_output()  # It was the output that failed.
    return 1


def _complain_of_usage(error: click.ClickException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return
    hint = None
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f"{error.ctx.command_path} --help shows what there is"
    message = error.format_message().rstrip(".")
    console.complain(message[:1].lower() + message[1:], hint)


def _crashed(error: Exception) -> int:
    from kvtui.commands import crash

    path = crash.write_report(error)
    where = f"; a report is in {path}" if path else ""
    console.complain(f"unexpected {type(error).__name__}{where}")
    return CRASHED


def _let_go_of_output() -> None:
    """The reader has gone: nothing more can be written, also not at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
