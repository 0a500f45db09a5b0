"""The workbench, and what is said on the normal screen when it has been left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvtui.commands import console
from kvtui.errors import KvtuiError

if TYPE_CHECKING:
    from kvtui.runs.history import RunDirectory


def open_workbench(attach_to: RunDirectory | None) -> int:
    """Show the screens; when they are left, the ranking of the run they showed."""
    from kvtui import config

    config.apply_ui()
    from kvtui.app import run_app

    left = run_app(attach=attach_to)
    if left.watched is not None and left.code in (0, 130):
        _print_ranking(left.watched)
    return left.code


def _print_ranking(run: RunDirectory) -> None:
    from kvtui.runs import report

    try:
        state = run.state()
        over = state.outcome is not None or run.goes_on
        made = report.report(state, cut_off=not over)
    except KvtuiError as error:
        console.complain_of(error)
        return
    if any(each.elapsed_s is not None or each.reason for each in made.ranking):
        from kvtui.commands.following import show

        show(run, made)
