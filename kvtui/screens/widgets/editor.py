"""Editing one line of text, without a screen."""

from __future__ import annotations

from kvtui.screens.widgets.lines import Line
from kvtui.text import cells, cut, visible

LIMIT = 1000
"""Characters that a line may have; more are not taken."""


class LineEditor:
    """A text and a caret.

    With ``digits`` only digits are taken, so that letters stay commands.
    """

    def __init__(self, text: str = "", *, digits: bool = False) -> None:
        self.text = text
        self.caret = len(text)
        self.digits = digits
        self.selected = False
        """Whether the next text replaces the whole one."""

    def put(self, text: str) -> None:
        """Replace the whole text; the caret goes to its end."""
        self.text, self.caret = text[:LIMIT], len(text[:LIMIT])
        self.selected = False

    def select(self) -> None:
        """Take the whole text, so that what is typed next replaces it; a key that
        moves the caret keeps it."""
        self.caret, self.selected = len(self.text), bool(self.text)

    def key(self, key: str, character: str | None) -> bool:
        """Do what a key asks for; False when it is none of this line's keys."""
        selected, self.selected = self.selected, False
        match key:
            case "backspace" | "delete" if selected:
                self.put("")
            case "backspace":
                before = max(0, self.caret - 1)
                self.text = self.text[:before] + self.text[self.caret :]
                self.caret = before
            case "delete":
                self.text = self.text[: self.caret] + self.text[self.caret + 1 :]
            case "left":
                self.caret = max(0, self.caret - 1)
            case "right":
                self.caret = min(len(self.text), self.caret + 1)
            case "home":
                self.caret = 0
            case "end":
                self.caret = len(self.text)
            case "ctrl+u":
                self.text, self.caret = self.text[self.caret :], 0
            case _:
                self.selected = selected
                if not character or not character.isprintable():
                    return False
                if self.digits and not ("0" <= character <= "9"):
                    return False
                self.insert(character)
        return True

    def insert(self, text: str) -> None:
        """Put text in at the caret; of several lines, the first."""
        lines = text.splitlines()
        taken = lines[0] if lines else ""
        if self.digits:
            taken = "".join(each for each in taken if "0" <= each <= "9")
        if self.selected:
            self.put("")
        taken = taken[: LIMIT - len(self.text)]
        self.text = self.text[: self.caret] + taken + self.text[self.caret :]
        self.caret += len(taken)

    def view(self, width: int, *, active: bool, style: str = "") -> Line:
        """The part of the text around the caret, in at most ``width`` cells."""
        if not active:
            return [(cut(visible(self.text), width), style)]
        if self.selected:
            return [(cut(visible(self.text), width), "cursor")]
        before = visible(self.text[: self.caret])
        under = visible(self.text[self.caret : self.caret + 1]) or " "
        after = visible(self.text[self.caret + 1 :])
        while before and cells(before) + cells(under) > width:
            before = before[max(1, len(before) // 8) :]
        room = width - cells(before) - cells(under)
        return [(before, style), (under, "cursor"), (cut(after, max(0, room)), style)]
