"""Pages of text: help for a screen, and whatever is too long for a line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kvtui import actions
from kvtui.screens.base import Page, bindings
from kvtui.screens.widgets.lines import Line, paragraph, wrap
from kvtui.screens.widgets.pane import TextPane
from kvtui.text import fit, visible

if TYPE_CHECKING:
    from textual.widget import Widget

    from kvtui.screens.session import Session

ABOUT = {
    "workbench": "Tick the stores, say what is asked of them, press Enter. The line"
    " at the bottom is the plan in words, and the same as a command.",
    "live": "One line a trial: how far it is, answered operations a second, and the"
    " latency of those that were answered. Below, the chosen trial: its"
    " operations a second from the first second on, and what is known of it. A"
    " trial is verified once every record was read back and compared.",
    "fans": "Type to find a page, Enter opens it: who else its fans like, by shared"
    " fans. Lift says how many times more fans two pages share than chance would"
    " give. What is shown is the copy that the run made of each store's records.",
    "capacity": "Say which load should be carried; below stands how many cores that"
    " takes, with the arithmetic and what bounds its worth. It begins with a trial:"
    " what its store answered a second, and how many cores were busy with it. Or with"
    " such figures typed in. Loads are a number and a period, as in 260e9/month,"
    " 9M/day, 100k/s or 2 million gets a second; a month has 30 days."
    " Ctrl+U empties a field up to the caret.",
}


class TextPart(TextPane):
    """A text under a title."""

    def __init__(self, session: Session, title: str, text: list[str]) -> None:
        super().__init__(session.glyphs)
        self._title = title
        self._text = text

    def title(self) -> str:
        """Its title."""
        return self._title

    def lines(self, width: int) -> list[Line]:
        """The text, wrapped."""
        return [
            line
            for text in self._text
            for line in paragraph(visible(text, 100_000), width)
        ]


class HelpPart(TextPane):
    """What the keys do on a screen."""

    def __init__(self, session: Session, about: str) -> None:
        super().__init__(session.glyphs)
        self._about = about

    def title(self) -> str:
        """Which screen."""
        return f"Help: {self._about}"

    def lines(self, width: int) -> list[Line]:
        """A sentence on the screen, and its actions."""
        lines: list[Line] = [[(each, "")] for each in wrap(ABOUT[self._about], width)]
        lines.append([])
        for action in actions.of_screen(self._about):
            names = fit(actions.key_names(action), 11)
            first, *rest = wrap(action.help, max(8, width - 12))
            lines.append([(names, "key"), (f" {first}", "")])
            lines += [[(" " * 12 + each, "")] for each in rest]
        return lines


class _TextPage(Page):
    """A page that is left with Esc."""

    def action_back(self) -> None:
        """Back to the screen."""
        self.app.pop_screen()


class HelpPage(_TextPage):
    """The help of one screen."""

    NAME = "help"
    BINDINGS = bindings("help")

    def __init__(self, session: Session, about: str) -> None:
        super().__init__(session)
        self.top_bar.mode = about
        self._about = about

    def body(self) -> Iterable[Widget]:
        """The help."""
        yield HelpPart(self.session, self._about)


class BoxPage(_TextPage):
    """Any text, as of an error."""

    NAME = "box"
    BINDINGS = bindings("box")

    def __init__(self, session: Session, title: str, text: str) -> None:
        super().__init__(session)
        self._title, self._text = title, text

    def body(self) -> Iterable[Widget]:
        """The text."""
        yield TextPart(self.session, self._title, self._text.split("\n"))
