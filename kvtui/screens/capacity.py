"""Capacity: how many cores a load needs, answered while one types."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from kvtui import sizing
from kvtui.errors import RunError
from kvtui.screens import sizes as sizing_up
from kvtui.screens.base import Page, bindings
from kvtui.screens.session import Sizes
from kvtui.screens.sizes import Found
from kvtui.screens.widgets.editor import LineEditor
from kvtui.screens.widgets.lines import Line, length, paragraph, wrap
from kvtui.screens.widgets.pane import ListPane, TextPane
from kvtui.text import cells, cut, fit, visible

if TYPE_CHECKING:
    from textual import events

    from kvtui.runs.history import RunDirectory
    from kvtui.runs.state import RunState
    from kvtui.screens.session import Session

BESIDE = 110
"""Columns from which form and answer stand beside each other."""
LABEL = 15
WHAT = 12
VALUE = 14
"""Cells of a field's label, and of a step's name and value."""


class Changed(Message):
    """The fields are not what they were."""


class CapacityForm(ListPane):
    """The fields. Typing goes to the one under the cursor."""

    def __init__(self, page: CapacityPage) -> None:
        super().__init__(page.session.glyphs, id="sizes")
        self.page = page
        self.editors = {
            name: LineEditor(getattr(page.sizes, name)) for name in sizing_up.READERS
        }

    @property
    def names(self) -> list[str]:
        """The fields that matter now."""
        return sizing_up.shown_fields(self.page.sizes)

    @property
    def name_here(self) -> str:
        """The field under the cursor."""
        names = self.names
        return names[min(self.cursor, len(names) - 1)]

    @property
    def takes_letters(self) -> bool:
        """Whether the field under the cursor is a text."""
        return self.name_here in self.editors

    def moved(self) -> None:
        """Another field may take other keys."""
        self.post_message(Changed())

    def row_count(self) -> int:
        """A row each."""
        return len(self.names)

    def title(self) -> str:
        """What it asks for."""
        return "Which load, on what?"

    def row(self, index: int, width: int) -> Line:
        """Label, value, and what is wrong with it or what it means."""
        name = self.names[index]
        label: Line = [(fit(sizing_up.LABELS[name], LABEL), "")]
        room = max(0, width - LABEL)
        if name not in self.editors:
            return label + self._choice(name, room)
        here = self.has_focus and index == self.cursor
        fault = sizing_up.fault(self.page.sizes, name)
        said = f"{self.glyphs.no} {fault}" if fault else sizing_up.HINTS[name]
        style = "bad" if fault else "bold"
        text = visible(self.editors[name].text)
        least = max(13, cells(text) + 1)
        value = self.editors[name].view(min(room, least), active=here, style=style)
        if not text and not here:
            value = [(sizing_up.WHEN_EMPTY.get(name, ""), "")]
        gap = max(1, 14 - length(value))
        if cells(said) > room - length(value) - gap:
            # Half a hint is none; an error stands whole where the answer would.
            said = self.glyphs.no if fault else ""
        return [*label, *value, (" " * gap, ""), (said, "bad" if fault else "dim")]

    def _choice(self, name: str, room: int) -> Line:
        if name == "figures":
            line: Line = []
            for choice, said in (("trial", "of a trial"), ("typed", "typed in")):
                chosen = choice == self.page.sizes.figures
                shown = f"[{said}]" if chosen else f" {said} "
                line.append((shown, "bold" if chosen else "dim"))
            return line
        said, place = self.page.choice(name)
        shown = cut(visible(said, 200), room)
        if place and cells(shown) + cells(place) + 2 <= room:
            return [(shown, "bold"), (f"  {place}", "dim")]
        return [(shown, "bold")]

    def _marked(self, index: int, inner: int) -> Line:
        # The field's own caret says where one is; a reversed row would hide it.
        here = index == self.cursor and self.has_focus
        mark = f"{self.glyphs.here} " if here else "  "
        return [(mark, "bold"), *self.row(index, inner)]

    def frame(self, width: int, height: int) -> list[Line]:
        """The fields, and below them what is wrong with the one under the cursor."""
        lines = super().frame(width, height)
        name = self.name_here
        fault = sizing_up.fault(self.page.sizes, name)
        said = fault or sizing_up.HINTS.get(name, "left and right choose")
        style = "bad" if fault else "dim"
        said = f"{sizing_up.LABELS[name]}: {said}"
        return [*lines, [], *([("  ", ""), (t, style)] for t in wrap(said, width - 3))]

    def fill(self) -> None:
        """Show what the fields hold now."""
        for name, editor in self.editors.items():
            editor.put(getattr(self.page.sizes, name))

    def on_key(self, event: events.Key) -> None:
        """Typing goes into the field; what is no text stays a command."""
        if not self.takes_letters:
            return
        editor = self.editors[self.name_here]
        if event.key in ("home", "end") and not editor.text:
            return
        if editor.key(event.key, event.character):
            event.stop()
            event.prevent_default()
            self._typed()

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text goes into the field."""
        event.stop()
        if self.takes_letters:
            self.editors[self.name_here].insert(event.text)
            self._typed()

    def _typed(self) -> None:
        name = self.name_here
        setattr(self.page.sizes, name, self.editors[name].text)
        self.post_message(Changed())


class AnswerPart(TextPane):
    """The answer, its arithmetic and its caveats."""

    def __init__(self, page: CapacityPage) -> None:
        super().__init__(page.session.glyphs, id="answer")
        self.page = page

    def title(self) -> str:
        """The answer itself, so that it is never scrolled away."""
        answer = self.page.found.answer
        return answer.sentence if answer else "No answer yet"

    def lines(self, width: int) -> list[Line]:
        """All steps, then what bounds them."""
        found = self.page.found
        if found.answer is None:
            problem = visible(found.problem or "reading …")
            return paragraph(problem, width, "warn", 0)
        lines: list[Line] = []
        room = max(16, width - WHAT - VALUE - 2)
        for step in found.answer.steps:
            last = step.what in ("cores", "machines")
            first, *rest = wrap(visible(step.words), room)
            value = fit(step.shown, max(VALUE, cells(step.shown)), right=True)
            lines.append(
                [
                    (fit(step.what, WHAT), ""),
                    (value, "bold" if last else ""),
                    (f"  {first}", "dim"),
                ]
            )
            lines += [[(" " * (WHAT + VALUE + 2) + each, "dim")] for each in rest]
        lines.append([])
        for caveat in found.answer.caveats:
            said = f"{caveat.about}: {visible(caveat.text)}"
            lines += _with_head(paragraph(said, width), caveat.about)
        if found.notes:
            lines.append([])
        for note in found.notes:
            lines += paragraph(note, width)
        return lines


def _with_head(lines: list[Line], head: str) -> list[Line]:
    """The first words in bold, where the first line holds them whole."""
    ((text, style),) = lines[0]
    if text.startswith(head):
        lines[0] = [(head, "bold"), (text[len(head) :], style)]
    return lines


class Sides(Widget):
    """Form and answer, beside each other where there is room."""


class CapacityPage(Page):
    """Reckon how many cores a load needs."""

    NAME = "capacity"
    BINDINGS = bindings("capacity")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.found = Found(None)
        self.store = ""
        """The chosen store; empty for the best ranked."""
        self.runs: list[RunDirectory] = []
        """Newest first, once they were looked for."""
        self.run: RunDirectory | None = None
        """A run that was chosen here; None for the one that is watched."""
        self._states: dict[str, RunState] = {}
        self._problem = ""
        self._own: Sizes | None = None
        self.form = CapacityForm(self)
        self.answer = AnswerPart(self)

    @property
    def sizes(self) -> Sizes:
        """What the fields hold."""
        return self.session.sizes

    def body(self) -> Iterable[Widget]:
        """Form and answer."""
        yield Sides(self.form, self.answer)

    def on_mount(self) -> None:
        """Start where one can type."""
        super().on_mount()
        self.form.focus()

    def on_screen_resume(self) -> None:
        """There may be other runs than last time."""
        self.beside(self._look, "runs", exclusive=True)

    async def _look(self) -> None:
        from kvtui.runs import history

        self.runs = await asyncio.to_thread(history.all_runs, self.session.runs)
        if self.session.newest is None and self.runs:
            self.session.newest = self.runs[0]
        self.follow()

    def place(self, width: int, height: int) -> None:
        """On a low terminal the form keeps a few lines and scrolls."""
        super().place(width, height)
        beside = width >= BESIDE
        self.set_class(beside, "beside")
        rows = len(self.form.names) + 1
        low = min(rows, max(5, (height - 2) // 2 - 1))
        self.form.styles.height = "100%" if beside else low

    @property
    def is_typing(self) -> bool:
        """Letters go into a field that is a text."""
        return self.focused is self.form and self.form.takes_letters

    # Which run and store.

    @property
    def state(self) -> RunState | None:
        """The chosen run's state, as far as it is known."""
        watch = self.session.watch
        if self.run is not None and (watch is None or watch.run != self.run):
            return self._states.get(self.run.name)
        if watch is None or not watch.events or watch.standing == "reading":
            return None
        return watch.state

    @property
    def _run_here(self) -> RunDirectory | None:
        watch = self.session.watch
        return self.run or (watch.run if watch else None)

    @property
    def _stores(self) -> list[str]:
        return sizing.stores(self.state) if self.state is not None else []

    @property
    def _store_here(self) -> str:
        """The store in question; empty while that is not known."""
        if self.store in self._stores:
            return self.store
        if self.state is None:
            return ""
        try:
            return sizing.best_store(self.state)
        except RunError:
            return ""

    def choice(self, name: str) -> tuple[str, str]:
        """What a field that is chosen holds, and which of how many it is."""
        if name == "run":
            run = self._run_here
            if run is None:
                return "none yet", ""
            names = [each.name for each in self.runs]
            if run.name not in names:
                return run.name, ""
            return run.name, f"{names.index(run.name) + 1} of {len(names)}"
        store, stores = self._store_here, self._stores
        if not store:
            return "none yet", ""
        return store, f"{stores.index(store) + 1} of {len(stores)}"

    def _why_none(self) -> str:
        if self._problem:
            return self._problem
        if self._run_here is None:
            return (
                "No run yet: F2, tick a store and press Enter; or choose typed in"
                " above. F6 types the published figures in."
            )
        return "reading the run …"

    def _take_run(self, step: int) -> None:
        if not self.runs:
            return
        names = [each.name for each in self.runs]
        here = self._run_here
        at = names.index(here.name) if here and here.name in names else 0
        self.run = self.runs[(at + step) % len(self.runs)]
        self._problem = ""
        watch = self.session.watch
        if watch is None or watch.run != self.run:
            self.beside(partial(self._read, self.run), "run", exclusive=True)
        self.on_changed()

    async def _read(self, run: RunDirectory) -> None:
        """A whole journal, beside the screen; a run that goes on is read anew."""
        try:
            if run.name not in self._states or run.goes_on:
                self._states[run.name] = await asyncio.to_thread(run.state)
        except (RunError, OSError) as error:
            self._problem = f"{run.name}: {error}"
        if self.run == run:
            self.on_changed()

    def _take_store(self, at: int) -> None:
        stores = self._stores
        if stores:
            self.store = stores[at % len(stores)]
            self.on_changed()

    def _step_store(self, step: int) -> None:
        stores, here = self._stores, self._store_here
        if here:
            self._take_store(stores.index(here) + step)

    # What is shown follows the fields and the run.

    def follow(self) -> None:
        """Take up what is new in the run."""
        super().follow()
        self.session.watch_newest()
        self.on_changed()

    def on_changed(self) -> None:
        """Reckon anew, and show it."""
        self.found = sizing_up.find(
            self.sizes, self.state, self._store_here, why=self._why_none()
        )
        self.top_bar.update()
        self.key_bar.update()
        self.form.update()
        self.answer.update()

    # Keys.

    def _step(self, step: int) -> None:
        if self.focused is not self.form:
            return
        match self.form.name_here:
            case "figures":
                other = "typed" if self.sizes.figures == "trial" else "trial"
                self.sizes.figures = other
                self.on_changed()
            case "run":
                self._take_run(step)
            case "store":
                self._step_store(step)

    def action_left(self) -> None:
        """The choice before."""
        self._step(-1)

    def action_right(self) -> None:
        """The choice after."""
        self._step(1)

    def action_store(self, digit: str) -> None:
        """The store with that number."""
        if self.sizes.figures == "trial" and int(digit) <= len(self._stores):
            self._take_store(int(digit) - 1)

    def action_previous_store(self) -> None:
        """The store before."""
        self._step_store(-1)

    def action_next_store(self) -> None:
        """The store after."""
        self._step_store(1)

    def action_paper(self) -> None:
        """The published figures; again: what stood there before."""
        if self._own is not None and sizing_up.is_paper(self.sizes):
            self.session.sizes, self._own = self._own, None
        else:
            self._own = self.session.sizes
            self.session.sizes = Sizes()
            sizing_up.paper(self.session.sizes)
        self.form.fill()
        self.on_changed()

    def action_back(self) -> None:
        """From the answer to the form, then to the run."""
        if self.focused is self.form:
            self.app.switch_mode("live")
        else:
            self.form.focus()
