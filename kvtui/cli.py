"""The command line: what there is, and how it ends.

Commands are imported when they are asked for, so that ``kvtui --version`` and
``--help`` load neither Textual nor numpy. Exit codes are those of
:mod:`kvtui.errors`; 130 after Ctrl-C, 70 after an unexpected end.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

from kvtui import secrets
from kvtui.commands import console
from kvtui.errors import KvtuiError

CRASHED: Final = 70
INTERRUPTED: Final = 130


def main() -> None:
    """The ``kvtui`` command."""
    console.prepare()
    secrets.guard()
    for word in sys.argv[1:]:
        secrets.learn_typed(word)
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
        if not arguments:
            # The workbench needs no words: the library that reads them is loaded
            # only where there are some.
            from kvtui.commands.workbench import open_workbench

            return open_workbench(None)
        from kvtui.commands.group import run

        return run(arguments)
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


def _failed_in_the_system(error: OSError) -> int:
    """A full disk, a closed device: said in the system's words."""
    where = f"{error.filename}: " if error.filename else ""
    console.complain(f"{where}{error.strerror or error}")
    if error.filename is None:
        _let_go_of_output()  # It was the output that failed.
    return 1


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
