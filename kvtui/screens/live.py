"""The live screen: a run as it goes, or as it went."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from textual.widget import Widget

from kvtui.errors import RunError
from kvtui.runs import history
from kvtui.screens import figures
from kvtui.screens.base import Page, bindings
from kvtui.screens.widgets import chart
from kvtui.screens.widgets.lines import Line, paragraph
from kvtui.screens.widgets.pane import ListPane, Pane, TextPane
from kvtui.text import cells, count, fit, rate, seconds, visible

if TYPE_CHECKING:
    from kvtui.actions import Action
    from kvtui.runs.state import TrialState
    from kvtui.screens.session import Session


_TOLD: Final = "Told the run to stop; it finishes its second."


class TrialList(ListPane):
    """A row a trial."""

    def __init__(self, session: Session, shown: figures.Cells) -> None:
        super().__init__(session.glyphs, id="trials")
        self.session = session
        self.shown = shown

    @property
    def rows(self) -> list[figures.Row]:
        """Every trial of the plan."""
        watch = self.session.watch
        return figures.rows(watch.state) if watch else []

    def frame(self, width: int, height: int) -> list[Line]:
        """The rows around the chosen one."""
        self.cursor = self.session.chosen_trial
        return super().frame(width, height)

    def moved(self) -> None:
        """Another trial is looked at from now on."""
        self.session.chosen_trial = self.cursor
        self.session.follows = False
        page = self.screen
        if isinstance(page, LivePage):
            page.follow()

    def row_count(self) -> int:
        """A row each."""
        return len(self.rows)

    def row(self, index: int, width: int) -> Line:
        """One trial."""
        watch = self.session.watch
        return self.shown.row(self.rows[index], watch, width) if watch else []

    def header(self, width: int) -> Line | None:
        """Names of the columns."""
        return figures.header(width) if self.row_count() else None

    def title(self) -> str:
        """Which run."""
        watch = self.session.watch
        return f"Run {visible(watch.run.name)}" if watch else "No run"

    def aside(self) -> str:
        """Whose latencies, and how the run stands."""
        watch = self.session.watch
        if watch is None:
            return ""
        standing = watch.standing
        if standing == "reading":
            said = f"reading … {count(watch.events)} events"
        elif watch.stale:
            said = f"nothing heard for {watch.quiet_s:.0f} s"
        elif standing == "going on":
            said = seconds(watch.state.at_s)
        else:
            said = standing
        return f"latency of {self.shown.operation} · {said}"

    def instead(self, width: int) -> list[Line]:
        """What to do where there is no run."""
        watch = self.session.watch
        if watch is None:
            return [[("No run yet. Press w, tick stores and press Enter.", "")]]
        if watch.standing == "interrupted":
            return [[("The runner never began.", "bad")]]
        return [[(f"The run is {watch.standing} …", "dim")]]


class ChartPane(Pane, can_focus=False):
    """Operations a second of the chosen trial, from its first second on."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.glyphs, id="chart")
        self.session = session

    def frame(self, width: int, height: int) -> list[Line]:
        """Axis and curve."""
        row = chosen(self.session)
        trial = row.trial if row else None
        watch = self.session.watch
        name = row.label(watch.state) if row and watch else ""
        title = f"{name}: operations a second" if name else "Operations a second"
        aside = ""
        if trial is not None and trial.elapsed_s:
            aside = f"0 to {seconds(trial.elapsed_s)}"
        lines = [self.heading(title, aside, width)]
        if trial is None or not trial.intervals:
            return [*lines, [("  nothing measured yet", "dim")]]
        return lines + self._curve(trial, width, height - 1)

    def _curve(self, trial: TrialState, width: int, height: int) -> list[Line]:
        values = figures.chart_values(trial)
        top = chart.nice_top(max((each for each in values if each), default=0.0))
        labels = [rate(top), *[""] * (height - 2), "0"] if height > 1 else [rate(top)]
        if height >= 9 and height % 2:
            labels[height // 2] = rate(top / 2)
        gutter = max(map(cells, labels))
        drawn = chart.draw(values, width - gutter - 2, height, self.glyphs, top)
        return [
            [(fit(label, gutter, right=True), "dim"), (" ", ""), (curve, "chart")]
            for label, curve in zip(labels, drawn, strict=True)
        ]


class DetailPart(TextPane):
    """What is known of the chosen trial."""

    def __init__(self, session: Session, shown: figures.Cells) -> None:
        super().__init__(session.glyphs, id="details")
        self.session = session
        self.shown = shown

    def title(self) -> str:
        """Which trial."""
        row, watch = chosen(self.session), self.session.watch
        return row.label(watch.state) if row and watch else "Details"

    def lines(self, width: int) -> list[Line]:
        """Most telling first."""
        watch, row = self.session.watch, chosen(self.session)
        if watch is None:
            return []
        lines = list(self._standing(width))
        if row is not None:
            lines += figures.details(watch, row, self.shown, width)
        if row is None or watch.standing == "interrupted":
            lines += self._log(width)
        return lines

    def _standing(self, width: int) -> Iterable[Line]:
        watch = self.session.watch
        if watch is None:
            return
        standing = watch.standing
        if standing == "interrupted":
            said = (
                "interrupted: the runner is gone and did not say why. What it"
                " finished is kept."
            )
            yield from paragraph(said, width, "bad")
        elif standing in ("failed", "stopped"):
            said = f"run {standing}: {watch.state.reason or 'no reason was given'}"
            yield from paragraph(visible(said), width, "bad")
        elif watch.stale and watch.events:
            said = f"nothing heard for {watch.quiet_s:.0f} s; what you see is that old"
            yield from paragraph(said, width, "warn")
        if watch.unreadable_lines:
            said = f"{watch.unreadable_lines} lines of the journal cannot be read"
            yield from paragraph(said, width, "warn")

    def _log(self, width: int) -> list[Line]:
        watch = self.session.watch
        tail = watch.log_tail() if watch is not None and watch.quiet_s > 2 else []
        if not tail or watch is None:
            return []
        lines: list[Line] = [[(f"from {visible(str(watch.run.log))}:", "dim")]]
        for text in tail:
            lines += paragraph(visible(text), width, "dim")
        return lines


def chosen(session: Session) -> figures.Row | None:
    """The row of the trial that is looked at."""
    watch = session.watch
    rows = figures.rows(watch.state) if watch else []
    return rows[min(session.chosen_trial, len(rows) - 1)] if rows else None


def _why_no_records(row: figures.Row, *, goes_on: bool) -> str:
    trial = row.trial
    if trial is not None and not trial.keeps:
        return "are not kept"
    if trial is not None and trial.outcome not in (None, "done"):
        return f"were not copied, its trial is {trial.outcome}"
    return "are not copied yet" if goes_on else "were not copied"


class Lower(Widget):
    """Chart and details, beside each other where there is room."""


class LivePage(Page):
    """Watch the run."""

    NAME = "live"
    BINDINGS = bindings("live")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.shown = figures.Cells(session.glyphs)
        self.trials = TrialList(session, self.shown)
        self.chart = ChartPane(session)
        self.details = DetailPart(session, self.shown)
        self._rows = -1
        self._told: history.RunDirectory | None = None
        """The run that was told to stop, until it has."""

    def body(self) -> Iterable[Widget]:
        """Trials, chart, details."""
        yield self.trials
        yield Lower(self.chart, self.details)

    def place(self, width: int, height: int) -> None:
        """The trials take what they need, at most a good third."""
        super().place(width, height)
        rows = self.trials.row_count()
        self._rows = rows
        most = max(5, height * 2 // 5)
        self.trials.styles.height = max(3, min(rows + 2, most))
        left = height - 3 - max(3, min(rows + 2, most))
        beside = width >= 110
        self.set_class(beside, "beside")
        self.chart.display = beside or left >= 9
        self.chart.styles.height = "100%" if beside else max(5, left * 9 // 20)

    def follow(self) -> None:
        """Show what is new."""
        watch = self.session.watch_newest()
        super().follow()
        if watch is not None:
            if self.session.follows and watch.goes_on and watch.state.trials:
                self.session.chosen_trial = len(watch.state.trials) - 1
            labels = self._labels()
            if labels and self.shown.operation not in labels:
                self.shown.operation = labels[0]
        if self.trials.row_count() != self._rows:
            self.place(*self.app.size)
        self.trials.update()
        self.chart.update()
        self.details.update()
        if self._told is not None and (
            watch is None or watch.run != self._told or not watch.goes_on
        ):
            self._told = None
            if self.key_bar.message == _TOLD:
                self.say("")
        self.key_bar.update()

    def offers(self, action: Action) -> bool:
        """There is nothing to stop once a run is over."""
        watch = self.session.watch
        return action.id != "stop" or (watch is not None and watch.goes_on)

    def _labels(self) -> list[str]:
        row = chosen(self.session)
        return list(row.trial.operations) if row and row.trial else []

    # Keys.

    def action_store(self, digit: str) -> None:
        """Look at the trial with that number."""
        self.trials.go(int(digit) - 1)

    def action_previous_store(self) -> None:
        """The trial before."""
        self.trials.move(-1)

    def action_next_store(self) -> None:
        """The trial after."""
        self.trials.move(1)

    def action_operation(self) -> None:
        """Latencies of the next kind of operation."""
        labels = self._labels() or ["get", "put"]
        here = self.shown.operation
        at = labels.index(here) if here in labels else -1
        self.shown.operation = labels[(at + 1) % len(labels)]
        self.follow()

    def action_open(self) -> None:
        """The fan pages as this store holds them."""
        row, watch = chosen(self.session), self.session.watch
        if row is None or watch is None:
            return
        if not watch.run.records(row.number).is_file():
            why = _why_no_records(row, goes_on=watch.goes_on)
            self.say(f"{row.store}: its records {why}; f shows those of others.")
            return
        self.session.wanted_store = row.store
        self.app.switch_mode("fans")

    def action_back(self) -> None:
        """To the trials, then to the workbench."""
        if self.focused is not self.trials:
            self.trials.focus()
        else:
            self.app.switch_mode("workbench")

    def action_stop(self) -> None:
        """Stop the run, once it was asked."""
        watch = self.session.watch
        if watch is None or not watch.goes_on:
            self.say("No run goes on here.", "warn")
            return
        self.key_bar.ask(
            "Stop the run? What was measured so far is kept.", self._stop_answered
        )

    def _stop_answered(self, yes: bool) -> None:
        watch = self.session.watch
        if not yes or watch is None:
            return
        self.run_worker(
            lambda: self._stop(watch.run),
            thread=True,
            group="stop",
            exit_on_error=False,
        )

    def _stop(self, run: history.RunDirectory) -> None:
        # In a thread: a long journal is read to find the runner.
        try:
            history.stop(run)
        except (RunError, OSError) as error:
            said = f"It could not be stopped: {error}"
            self.app.call_from_thread(self.say, said, "bad")
        else:
            self.app.call_from_thread(self._was_told, run)

    def _was_told(self, run: history.RunDirectory) -> None:
        self._told = run
        self.say(_TOLD)
        self.follow()  # It may have stopped already.
