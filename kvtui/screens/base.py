"""What every screen has: a bar above, a bar of keys below, and a smallest size."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from kvtui import actions
from kvtui.errors import SnapshotError
from kvtui.screens.widgets.lines import Line, length, wrap
from kvtui.screens.widgets.pane import ListPane, Pane, TextPane
from kvtui.text import Glyphs, cells, cut, visible

if TYPE_CHECKING:
    from pathlib import Path

    from textual import events
    from textual.app import ComposeResult
    from textual.geometry import Size
    from textual.widget import Widget

    from kvtui.runs.history import RunDirectory
    from kvtui.screens.session import Session
    from kvtui.screens.watch import Watch

SMALLEST = (60, 16)
"""Columns and lines that a screen needs."""

SHORT_MODE = 4
"""Letters of a mode's name where there is no room for the whole of all."""

ALWAYS = frozenset({"leave", "interrupt", "suspend"})
"""What can be done on a terminal that is too small for anything else."""


def bindings(screen: str) -> list[BindingType]:
    """Textual's bindings for a screen, from the table of actions."""
    return [
        Binding(key, call, action.help, show=False, priority=action.first)
        for key, call, action in actions.calls(screen)
    ]


class TopBar(Pane):
    """The modes, and the run that goes on."""

    def __init__(self, session: Session, mode: str) -> None:
        super().__init__(session.glyphs)
        self.session = session
        self.mode = mode

    def frame(self, width: int, height: int) -> list[Line]:
        """One line."""
        text, style = self.session.status()
        line = self._modes(width, short=False)
        if text and length(line) + cells(visible(text)) + 3 > width:
            # The run's state matters more than the other modes' whole names.
            line = self._modes(width, short=True)
        room = width - length(line) - 3
        if text and room > 8:
            shown = cut(visible(text), room)
            line.append((" " * (room - cells(shown) + 2), ""))
            line.append((shown, style))
        return [line]

    def _modes(self, width: int, *, short: bool) -> Line:
        """The modes and their keys, the present one marked and never shortened."""
        line: Line = [(" kvtui ", "title")]
        page = self.screen
        for action in actions.of_screen("live"):
            if action.id != "show":
                continue
            here = action.argument == self.mode
            line.append(("  " if width >= 80 else " ", ""))
            key = action.keys[0]
            if isinstance(page, Page) and page.is_typing:
                key = actions.key_name(actions.key_while_typing(action))
            name = action.text
            if short and not here:
                name = name[:SHORT_MODE].rstrip()
            line.append((f"{key} {name}", "here" if here else ""))
        return line


class KeyBar(Pane, can_focus=False):
    """What the keys do here; above it what has just been said or is asked."""

    def __init__(self, glyphs: Glyphs, screen_name: str) -> None:
        super().__init__(glyphs)
        self.screen_name = screen_name
        self.message = ""
        self.style = ""
        self._answer: Callable[[bool], None] | None = None
        self._focus_before: Widget | None = None

    def frame(self, width: int, height: int) -> list[Line]:
        """The message, if there is one, and the keys."""
        lines = self._message_lines(width)
        return [*lines, self._keys(width)]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One line more for each line of the message."""
        return 1 + len(self._message_lines(width))

    def _message_lines(self, width: int) -> list[Line]:
        if not self.message:
            return []
        lines = wrap(self.message, max(8, width - 2), most=4)
        return [[(" ", ""), (line, self.style)] for line in lines]

    def _keys(self, width: int) -> Line:
        if self._answer is not None:
            return [
                (" y", "key"),
                (" yes  ", ""),
                (" any other key", "key"),
                (" no", ""),
            ]
        items: list[tuple[str, str]] = []
        page = self.screen
        typing = isinstance(page, Page) and page.is_typing
        for action in actions.in_footer(self.screen_name):
            if isinstance(page, Page) and not page.offers(action):
                continue
            name = actions.key_names(action).split(" ")[0]
            if typing:
                name = actions.key_name(actions.key_while_typing(action))
            if name:
                items.append((name, action.text))
        # Help and leaving stand last, and stay when there is no room for all.
        while len(items) > 2 and sum(cells(a + b) + 3 for a, b in items) > width:
            del items[-3]
        return [
            part
            for name, text in items
            for part in ((" ", ""), (name, "key"), (f" {text} ", ""))
        ]

    def say(self, message: str, style: str = "") -> None:
        """Show a message until the next one, or until it is cleared."""
        message = visible(message)
        if (message, style) != (self.message, self.style):
            self.message, self.style = message, style
            self.refresh(layout=True)
        self.update()

    @property
    def asks(self) -> bool:
        """Whether an answer is waited for."""
        return self._answer is not None

    def ask(self, question: str, answer: Callable[[bool], None]) -> None:
        """Ask; the next key is the answer."""
        if self._answer is None:
            self._focus_before = self.screen.focused
        self._answer = answer
        self.say(question, "warn")
        self.can_focus = True
        self.focus()

    def answer(self, yes: bool) -> None:
        """Take the answer."""
        answer, self._answer = self._answer, None
        self.say("")
        self.can_focus = False
        self.screen.set_focus(self._focus_before)
        if answer is not None:
            answer(yes)

    def on_key(self, event: events.Key) -> None:
        """Every key is an answer while something is asked."""
        if self._answer is not None:
            event.stop()
            event.prevent_default()
            self.answer(event.key in ("y", "Y"))


class TooSmall(Pane):
    """Shown instead of a screen that does not fit."""

    def frame(self, width: int, height: int) -> list[Line]:
        """What is needed, what is there, and how to leave."""
        columns, lines = SMALLEST
        said = [
            f"kvtui needs {columns} columns and {lines} lines.",
            f"Here are {width} and {height}.",
            "A run that goes on goes on.",
            "q leaves",
        ]
        rows = [row for text in said for row in wrap(text, max(1, width))]
        blank: list[Line] = [[] for _ in range(max(0, height - len(rows)) // 2)]
        return blank + [
            [(" " * ((width - cells(row)) // 2), ""), (row, "")] for row in rows
        ]


class Page(Screen[None]):
    """A screen of kvtui."""

    NAME: ClassVar[str] = ""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.top_bar = TopBar(session, self.NAME)
        self.key_bar = KeyBar(session.glyphs, self.NAME)

    def body(self) -> Iterable[Widget]:
        """The parts between the bars."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """The bars, the parts, and what is shown where they do not fit."""
        yield self.top_bar
        yield from self.body()
        yield self.key_bar
        yield TooSmall(self.session.glyphs)

    def on_mount(self) -> None:
        """Look right from the first frame on."""
        self.place(*self.app.size)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the parts to the terminal."""
        self.place(*event.size)

    def place(self, width: int, height: int) -> None:
        """Give the parts their places."""
        self.set_class(self.is_too_small, "small")
        self.set_class(width >= 78, "wide")

    @property
    def is_too_small(self) -> bool:
        """Whether the terminal has no room for this screen."""
        width, height = self.app.size
        return width < SMALLEST[0] or height < SMALLEST[1]

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Nothing but leaving can be done on a screen that cannot be seen."""
        return not self.is_too_small or action in ALWAYS

    @property
    def is_typing(self) -> bool:
        """Whether letters go into a text instead of being commands."""
        return False

    def offers(self, action: actions.Action) -> bool:
        """Whether the line of keys names it now."""
        return True

    def on_descendant_focus(self) -> None:
        """The keys mean something else now."""
        self.top_bar.update()
        self.key_bar.update()

    def follow(self) -> None:
        """The watched run may have something new: show it."""
        self.top_bar.update()

    def on_screen_resume(self) -> None:
        """Shown again: be up to date."""
        self.follow()

    def say(self, message: str, style: str = "") -> None:
        """Tell the person something in the line above the keys."""
        self.key_bar.say(message, style)

    def on_key(self) -> None:
        """A key ends a message that has been read."""
        if self.key_bar.message and not self.key_bar.asks:
            self.say("")

    # What the arrows do, wherever they are.

    @property
    def part(self) -> ListPane | TextPane | None:
        """The part that the keys go to, if it can move."""
        focused = self.focused
        return focused if isinstance(focused, ListPane | TextPane) else None

    def action_up(self) -> None:
        """One line up."""
        self._move(-1)

    def action_down(self) -> None:
        """One line down."""
        self._move(1)

    def action_page_up(self) -> None:
        """One screenful up."""
        if self.part is not None:
            self._move(-self.part.screenful)

    def action_page_down(self) -> None:
        """One screenful down."""
        if self.part is not None:
            self._move(self.part.screenful)

    def action_home(self) -> None:
        """To the first line."""
        if self.part is not None:
            self.part.go(0)

    def action_end(self) -> None:
        """To the last line."""
        if self.part is not None:
            self.part.go(2**31)

    def _move(self, lines: int) -> None:
        if self.part is not None:
            self.part.move(lines)

    def action_next_part(self) -> None:
        """On to the next part of the screen."""
        self.focus_next()

    def action_previous_part(self) -> None:
        """Back to the part before."""
        self.focus_previous()

    def action_back(self) -> None:
        """One level back; nothing where this is the first level."""

    def action_leave(self) -> None:
        """Leave; a run goes on by itself."""
        self.session.remember()
        self.app.exit()

    def action_interrupt(self) -> None:
        """Leave; ask first while a run goes on."""
        watch = self.session.watch
        if self.key_bar.asks or self.is_too_small:
            self.action_leave()
        elif watch is not None and watch.goes_on:
            self.key_bar.ask(
                "Leave? The run goes on without you; kvtui attach shows it again.",
                lambda yes: self.action_leave() if yes else None,
            )
        else:
            self.action_leave()

    def action_suspend(self) -> None:
        """Back to the shell until fg."""
        self.app.action_suspend_process()

    def action_show(self, mode: str) -> None:
        """Go to another mode."""
        self.app.switch_mode(mode)

    def action_help(self) -> None:
        """The help page of this screen."""
        from kvtui.screens.help import HelpPage

        self.app.push_screen(HelpPage(self.session, self.NAME))

    def action_save(self) -> None:
        """Save the snapshot and say where; at its end the runner has done so."""
        watch = self.session.watch
        if watch is None:
            self.say("There is no run yet, so there is no snapshot.", "warn")
        elif not watch.caught_up:
            self.say("The run's journal is still being read.", "warn")
        elif not watch.goes_on and watch.run.snapshot.is_file():
            self.say(f"The snapshot is in {watch.run.snapshot}", "good")
        else:
            self._save(watch)

    def _save(self, watch: Watch) -> None:
        """Write a snapshot of what is known now.

        While the run goes on its own file is the runner's to replace, so this one
        has a name with its second.
        """
        path = watch.run.snapshot
        if watch.goes_on:
            path = path.with_stem(f"{path.stem}-at-{watch.state.at_s:.0f}s")
        self.say("saving …")
        self.beside(partial(self._write, watch.run, path), "snapshot")

    async def _write(self, run: RunDirectory, path: Path) -> None:
        from kvtui.runs import snapshot

        def write() -> None:
            # From the journal: the watched state is without single histograms.
            snapshot.write(path, snapshot.snapshot(run.state()))

        try:
            await asyncio.to_thread(write)
        except SnapshotError as error:
            hint = f" ({error.hint})" if error.hint else ""
            self.say(f"{error.message}{hint}", "bad")
        else:
            self.say(f"The snapshot is in {path}", "good")

    def beside(
        self,
        work: Callable[[], Coroutine[Any, Any, None]],
        group: str,
        *,
        exclusive: bool = False,
    ) -> None:
        """Do something beside the screen; ``exclusive`` gives up the group's last."""
        self.run_worker(
            cast(Any, work), group=group, exclusive=exclusive, exit_on_error=False
        )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """What failed beside the screen is said, and never ends it."""
        if event.state is WorkerState.ERROR:
            error = event.worker.error
            self.say(f"{event.worker.group}: {type(error).__name__}: {error}", "bad")

    def show_box(self, title: str, text: str) -> None:
        """A text that may be long, on a page of its own."""
        from kvtui.screens.help import BoxPage

        self.app.push_screen(BoxPage(self.session, title, text))
