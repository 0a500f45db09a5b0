"""The workbench: which stores, which workload, and off it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widget import Widget

from kvtui.errors import KvtuiError
from kvtui.screens import wishes as wishing
from kvtui.screens.base import Page, bindings
from kvtui.screens.widgets.editor import LineEditor
from kvtui.screens.widgets.lines import Line, length, wrap
from kvtui.screens.widgets.pane import ListPane, Pane
from kvtui.stores import registry
from kvtui.text import cells, cut, fit, visible

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size

    from kvtui.runs.history import RunDirectory
    from kvtui.screens.session import Session
    from kvtui.stores.registry import StoreProfile


class Wished(Message):
    """Something else is wished for now."""


class StoreList(ListPane):
    """The stores, to be ticked."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.glyphs, id="stores")
        self.session = session

    @property
    def profiles(self) -> list[StoreProfile]:
        """In the order shown."""
        return list(self.session.profiles.values())

    def row_count(self) -> int:
        """A row each."""
        return len(self.session.profiles)

    def title(self) -> str:
        """How many are ticked."""
        ticked = len(wishing.store_words(self.session.wishes, self.session.profiles))
        return f"Stores: {ticked} ticked"

    def row(self, index: int, width: int) -> Line:
        """Tick, digit, name, and where it is or why it is not."""
        profile = self.profiles[index]
        found = self.session.availability.get(profile.name)
        ticked = profile.name in self.session.wishes.stores
        missing = found is not None and not found.ready
        missing = missing or bool(wishing.unfit(self.session.wishes, profile))
        box = "[x]" if ticked and not missing else "[ ]"
        digit = f"{index + 1}" if index < 9 else " "
        widest = max(len(visible(each, 40)) for each in self.session.profiles)
        name = fit(visible(profile.name, 40), min(widest, max(10, width - 22)))
        line: Line = [
            ("[-]" if missing else box, "dim" if missing else "bold" if ticked else ""),
            (f" {digit} ", "key"),
            (name, "dim" if missing else ""),
            (" ", ""),
        ]
        where = self._where(profile)
        line.append((cut(where, max(0, width - length(line))), "dim"))
        return line

    def _where(self, profile: StoreProfile) -> str:
        found = self.session.availability.get(profile.name)
        if found is None:
            return visible(profile.place) or "looking …"
        if not found.ready:
            return visible(found.text)
        unfit = wishing.unfit(self.session.wishes, profile)
        if unfit:
            return unfit
        text = found.text
        if wishing.can_choose_client(profile):
            text += f", {wishing.client(self.session.wishes, profile)}"
        return visible(text)

    def note(self, index: int) -> str:
        """More on the store under the cursor, where its row has no room."""
        profile = self.profiles[index]
        found = self.session.availability.get(profile.name)
        if found is not None and not found.ready:
            hint = f" To have it: {found.hint}" if found.hint else ""
            return f"{profile.name} – {found.text}.{hint}"
        unfit = wishing.unfit(self.session.wishes, profile)
        return f"{profile.name} – {unfit}." if unfit else ""

    def toggle(self, index: int) -> str:
        """Tick or untick; what to say if that cannot be."""
        if not 0 <= index < self.row_count():
            return ""
        self.go(index)
        note = self.note(index)
        ticked = self.session.wishes.stores
        name = self.profiles[index].name
        if name in ticked:
            ticked.remove(name)
        elif not note:
            ticked.append(name)
        self.post_message(Wished())
        return note

    def on_click(self, event: events.Click) -> None:
        """A click on a row ticks it."""
        before = self.cursor
        super().on_click(event)
        if event.x <= 5 or before == self.cursor:
            self.toggle(self.cursor)


class Form(ListPane):
    """The workload's fields. Typing goes to the field under the cursor."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.glyphs, id="form")
        self.session = session
        self._room = 0
        self._editors = {
            name: LineEditor(
                getattr(session.wishes, name),
                digits=name not in (*wishing.TEXTS, "method"),
            )
            for name in wishing.LABELS
            if name not in wishing.CHOICES
        }

    @property
    def names(self) -> list[str]:
        """The fields that matter now."""
        return wishing.shown_fields(self.session.wishes)

    @property
    def name_here(self) -> str:
        """The field under the cursor."""
        names = self.names
        return names[min(self.cursor, len(names) - 1)]

    @property
    def takes_letters(self) -> bool:
        """Whether the field under the cursor is a text."""
        return self.name_here in (*wishing.TEXTS, "method")

    def moved(self) -> None:
        """Another field may take other keys."""
        self.post_message(Wished())

    def row_count(self) -> int:
        """A row each."""
        return len(self.names)

    def title(self) -> str:
        """Which workload it is."""
        return f"Workload: {self.session.wishes.workload}"

    def aside(self) -> str:
        """What it does."""
        return wishing.WORKLOADS[self.session.wishes.workload].partition(":")[0]

    def row(self, index: int, width: int) -> Line:
        """Label, value, and what is wrong with it or what it means."""
        name = self.names[index]
        label: Line = [(fit(wishing.LABELS[name], 11), "")]
        room = self._room = width - 11
        if name in wishing.CHOICES:
            return label + self._choices(name, room)
        here = self.has_focus and index == self.cursor
        fault = wishing.fault(self.session.wishes, name)
        said = f"{self.glyphs.no} {fault}" if fault else wishing.HINTS[name]
        short = name not in wishing.TEXTS
        value_room = 9 if short else room
        if fault and not short:
            value_room = max(8, room - cells(said) - 2)
        value = self._editors[name].view(
            value_room, active=here, style="bad" if fault else "bold"
        )
        if not self._editors[name].text and not here:
            value = [(_when_blank(name), "")]
        gap = max(1, 10 - length(value))
        left = room - length(value) - gap
        if not fault and cells(said) > left:
            # Half a hint is none; the whole of it stands below the fields.
            return [*label, *value]
        said = cut(said, max(0, left))
        return [*label, *value, (" " * gap, ""), (said, "bad" if fault else "dim")]

    def _fitting(self, name: str, room: int) -> list[str]:
        """The choices that there is room for beside each other, from the first on
        with which the chosen one is among them."""
        choices = list(wishing.CHOICES[name])
        if _breadth(choices) <= room:
            return choices
        room -= 2 * cells(self.glyphs.ellipsis)
        last = choices.index(getattr(self.session.wishes, name)) + 1
        first = 0
        while first < last - 1 and _breadth(choices[first:last]) > room:
            first += 1
        while last < len(choices) and _breadth(choices[first : last + 1]) <= room:
            last += 1
        return choices[first:last]

    def _choices(self, name: str, room: int) -> Line:
        line: Line = []
        for choice in self._fitting(name, room):
            chosen = choice == getattr(self.session.wishes, name)
            said = f"[{choice}]" if chosen else f" {choice} "
            line.append((said, "bold" if chosen else "dim"))
        if len(line) < len(wishing.CHOICES[name]):
            line.append((self.glyphs.ellipsis, "dim"))
        return line

    def _marked(self, index: int, inner: int) -> Line:
        # The field's own caret says where one is; a reversed row would hide it.
        line = self.row(index, inner)
        here = index == self.cursor and self.has_focus
        return [(f"{self.glyphs.here} " if here else "  ", "bold"), *line]

    def frame(self, width: int, height: int) -> list[Line]:
        """The fields, and below them what the one under the cursor means."""
        lines = super().frame(width, height)
        name = self.name_here
        said = wishing.HINTS[name]
        if name in wishing.CHOICES:
            said = wishing.CHOICES[name][getattr(self.session.wishes, name)]
        said = f"{wishing.LABELS[name]}: {said}"
        return [
            *lines,
            [],
            *([("  ", ""), (each, "dim")] for each in wrap(said, width - 3)),
        ]

    def next_choice(self, name: str, step: int = 1) -> None:
        """Take the choice after, or before, in a field that has choices."""
        if name not in self.names:
            return
        choices = list(wishing.CHOICES[name])
        at = choices.index(getattr(self.session.wishes, name))
        self._take(name, choices[(at + step) % len(choices)])

    def _take(self, name: str, choice: str) -> None:
        setattr(self.session.wishes, name, choice)
        self.post_message(Wished())

    def on_key(self, event: events.Key) -> None:
        """Typing goes into the field; what is no text stays a command."""
        name = self.name_here
        if name in wishing.CHOICES:
            return
        if event.key in ("home", "end") and not self._editors[name].text:
            return
        if self._editors[name].key(event.key, event.character):
            event.stop()
            event.prevent_default()
            self._typed(name)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text goes into the field."""
        event.stop()
        if self.name_here not in wishing.CHOICES:
            self._editors[self.name_here].insert(event.text)
            self._typed(self.name_here)

    def _typed(self, name: str) -> None:
        setattr(self.session.wishes, name, self._editors[name].text)
        self.post_message(Wished())

    def on_click(self, event: events.Click) -> None:
        """A click on a choice takes it."""
        super().on_click(event)
        name = self.name_here
        if name in wishing.CHOICES and event.y == self.cursor + 1:
            left = 13
            for choice in self._fitting(name, self._room):
                if left <= event.x < left + len(choice) + 2:
                    self._take(name, choice)
                left += len(choice) + 2


def _breadth(choices: list[str]) -> int:
    """Cells of choices beside each other, each within brackets or blanks."""
    return sum(len(choice) + 2 for choice in choices)


def _when_blank(name: str) -> str:
    blank = {"first": "all", "data": "sample", "names": "none", "body": "none"}
    return {**blank, "urls": "the store's", "method": "GET"}.get(name, "")


class PlanPart(Pane):
    """The plan in words, and as a command."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.glyphs, id="plan")
        self.session = session

    def frame(self, width: int, height: int) -> list[Line]:
        """Both, wrapped."""
        return [self.heading("Plan", "Enter starts it", width), *self._text(width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as it takes, up to seven."""
        return 1 + len(self._text(width))

    def _text(self, width: int) -> list[Line]:
        wishes, profiles = self.session.wishes, self.session.profiles
        words_most, command_most = (3, 3) if self.app.size.height >= 20 else (2, 1)
        words = wishing.sentence(wishes, profiles)
        style = "bad" if words.startswith("Not yet") else ""
        room = width - 4
        lines: list[Line] = [
            [("  ", ""), (each, style)] for each in wrap(words, room, most=words_most)
        ]
        command = wishing.command(wishes, profiles)
        if command and not style:
            lines += [
                [("  ", ""), (each, "dim")]
                for each in wrap(command, room, most=command_most)
            ]
        if self.session.settings_problem:
            problem = visible(self.session.settings_problem)
            lines += [
                [("  ", ""), (each, "warn")] for each in wrap(problem, room, most=2)
            ]
        return lines


class Panes(Widget):
    """The stores and the form, beside each other where there is room."""


class WorkbenchPage(Page):
    """Choose stores and a workload, and start."""

    NAME = "workbench"
    BINDINGS = bindings("workbench")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.stores = StoreList(session)
        self.form = Form(session)
        self.plan = PlanPart(session)
        self._starting = False

    def body(self) -> Iterable[Widget]:
        """Stores, form, plan."""
        yield Panes(self.stores, self.form)
        yield self.plan

    def on_mount(self) -> None:
        """Look after the first frame which stores can be had."""
        super().on_mount()
        self.call_after_refresh(self._begin)

    def place(self, width: int, height: int) -> None:
        """The stores take what they need and the form the rest."""
        super().place(width, height)
        if width < 78:
            self.stores.styles.height = min(
                self.stores.row_count() + 1, max(4, (height - 7) // 2)
            )
            self.stores.styles.width = "100%"
        else:
            self.stores.styles.height = "100%"
            self.stores.styles.width = "48%"

    def _begin(self) -> None:
        self.beside(self._probe, "availability", exclusive=True)

    async def _probe(self) -> None:
        for profile in list(self.session.profiles.values()):
            found = await asyncio.to_thread(registry.availability, profile)
            self.session.availability[profile.name] = found
            if not found.ready and profile.name in self.session.wishes.stores:
                self.session.wishes.stores.remove(profile.name)
            self.stores.update()
        self.on_wished()

    def on_wished(self) -> None:
        """Show what the wishes come to."""
        self.top_bar.update()
        self.key_bar.update()
        self.stores.update()
        self.form.update()
        self.plan.refresh(layout=True)
        self.plan.update()

    @property
    def is_typing(self) -> bool:
        """Letters go into a file name; numbers take none."""
        return self.focused is self.form and self.form.takes_letters

    # Keys.

    def action_tick(self) -> None:
        """Tick the store, or take the next mode."""
        if self.focused is self.form:
            self._next_choice()
        else:
            self._say_note(self.stores.toggle(self.stores.cursor))

    def _next_choice(self, step: int = 1) -> None:
        if self.focused is self.form and self.form.name_here in wishing.CHOICES:
            self.form.next_choice(self.form.name_here, step)

    def action_store(self, digit: str) -> None:
        """Tick the store with that number."""
        self._say_note(self.stores.toggle(int(digit) - 1))

    def _say_note(self, note: str) -> None:
        if note:
            self.say(note, "warn")

    def action_all(self) -> None:
        """Tick every store that can be had, or none."""
        ready = [
            name
            for name in self.session.profiles
            if (
                name not in self.session.availability
                or self.session.availability[name].ready
            )
            and not wishing.unfit(self.session.wishes, self.session.profiles[name])
        ]
        every = set(ready) <= set(self.session.wishes.stores)
        self.session.wishes.stores[:] = [] if every else ready
        self.on_wished()

    def action_mode(self) -> None:
        """Take the next mode."""
        self.form.next_choice("mode")

    def action_driver(self) -> None:
        """Ask the store under the cursor the other way."""
        profile = self.stores.profiles[self.stores.cursor]
        if not wishing.can_choose_client(profile):
            self.say(f"{profile.name} has one way to be asked.", "warn")
            return
        driver = self.session.wishes.driver
        if profile.name in driver:
            driver.remove(profile.name)
        else:
            driver.append(profile.name)
        self.on_wished()

    def action_previous_store(self) -> None:
        """The store before."""
        self.stores.move(-1)

    def action_next_store(self) -> None:
        """The store after."""
        self.stores.move(1)

    def action_left(self) -> None:
        """The mode before."""
        self._next_choice(-1)

    def action_right(self) -> None:
        """The mode after."""
        self._next_choice()

    def action_back(self) -> None:
        """From the form to the stores."""
        self.stores.focus()

    def action_start(self) -> None:
        """Start the run, unless one goes on."""
        if self._starting:
            return
        wishes, profiles = self.session.wishes, self.session.profiles
        wrong = wishing.faults(wishes)
        if wrong:
            name, text = next(iter(wrong.items()))
            self.form.go(self.form.names.index(name))
            self.form.focus()
            self.say(f"{wishing.LABELS[name]}: {text}", "bad")
            return
        if not wishing.store_words(wishes, profiles):
            self.stores.focus()
            self.say("Tick at least one store: Space, or its number.", "bad")
            return
        self._starting = True
        self.say("starting …")
        self.beside(self._start, "start")

    async def _start(self) -> None:
        try:
            other = await asyncio.to_thread(self._other_run)
            if other is not None:
                self.session.open_run(other)
                self.say(
                    f"A run goes on: {other.name}. Two at once would disturb each"
                    " other. l shows it; x stops it there.",
                    "warn",
                )
                return
            plan = wishing.plan(self.session.wishes, self.session.profiles)
            run = await asyncio.to_thread(self.session.start, plan)
        except KvtuiError as error:
            self.say("")
            hint = f"\n\n{error.hint}" if error.hint else ""
            self.show_box("The run could not be started", f"{error.message}{hint}")
        except OSError as error:
            self.say("")
            self.show_box("The run could not be started", str(error))
        else:
            self.say("")
            self.session.remember()
            self.session.open_run(run)
            self.app.switch_mode("live")
        finally:
            self._starting = False

    def _other_run(self) -> RunDirectory | None:
        watch = self.session.watch
        if watch is not None and watch.goes_on:
            # Also one that was started a moment ago, and holds no journal yet.
            return watch.run
        from kvtui.runs import history

        return next(iter(history.going_on(self.session.runs)), None)
