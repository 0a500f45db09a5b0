"""Panes: parts of a screen that draw lines of text and repaint only what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.geometry import Region
from textual.widget import Widget

from kvtui.screens.widgets.lines import Line, fitted, length, strip
from kvtui.text import Glyphs, cut

if TYPE_CHECKING:
    from textual import events
    from textual.strip import Strip


class Pane(Widget):
    """Lines of text. Subclasses give them in :meth:`frame`; :meth:`update` paints
    the lines that are not what they were."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.glyphs = glyphs
        self._frame: list[Line] = []
        self._frame_of: tuple[int, int, bool] | None = None

    def frame(self, width: int, height: int) -> list[Line]:
        """What to show in that many cells and lines; a line may be too long."""
        raise NotImplementedError

    def update(self) -> None:
        """Look again, and repaint the lines that changed."""
        if not self.is_mounted or not self.size.width:
            return
        before, self._frame = self._frame, self._composed()
        if len(before) != len(self._frame):
            self.refresh()
            return
        width = self.size.width
        changed = [
            Region(0, y, width, 1)
            for y, (old, new) in enumerate(zip(before, self._frame, strict=True))
            if old != new
        ]
        if changed:
            self.refresh(*changed)

    def render_line(self, y: int) -> Strip:
        """One line, for Textual."""
        width, height = self.size
        if self._frame_of != (width, height, self.has_focus):
            self._frame = self._composed()
        line = self._frame[y] if y < len(self._frame) else []
        return strip(line, width, ascii_only=not self.glyphs.braille)

    def _composed(self) -> list[Line]:
        width, height = self.size
        self._frame_of = (width, height, self.has_focus)
        if width < 1 or height < 1:
            return []
        lines = self.frame(width, height)[:height]
        return lines + [[] for _ in range(height - len(lines))]

    def on_focus(self) -> None:
        """Show that keys go here."""
        self.update()

    def on_blur(self) -> None:
        """Show that keys go elsewhere."""
        self.update()

    def heading(self, title: str, aside: str, width: int) -> Line:
        """A rule with a title; marked where the keys go here."""
        rule = "─" if self.glyphs.braille else "-"
        mark = self.glyphs.here if self.has_focus else rule
        line: Line = [
            (f"{rule}{mark} ", "title" if self.has_focus else "dim"),
            (cut(title, max(0, width - 5)), "title" if self.has_focus else "bold"),
            (" ", ""),
        ]
        room = width - length(line)
        if aside and room >= 12:
            shown = cut(aside, room - 4)
            space = room - length([(shown, "")]) - 3
            line += [(rule * space, "dim"), (f" {shown} ", ""), (rule, "dim")]
        else:
            line.append((rule * max(0, room), "dim"))
        return line


class ListPane(Pane, can_focus=True):
    """Rows with a cursor; only the visible ones are ever made."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self.cursor = 0
        self._top = 0

    def row_count(self) -> int:
        """How many rows there are."""
        raise NotImplementedError

    def row(self, index: int, width: int) -> Line:
        """One row, without its mark, in ``width`` cells."""
        raise NotImplementedError

    def header(self, width: int) -> Line | None:
        """Names of the columns, in ``width`` cells."""
        return None

    def title(self) -> str:
        """What stands in the rule above."""
        return ""

    def aside(self) -> str:
        """What stands at the right end of the rule."""
        return ""

    def instead(self, width: int) -> list[Line]:
        """What to show where there is no row."""
        return []

    def frame(self, width: int, height: int) -> list[Line]:
        """The rule, the names of the columns and the rows around the cursor."""
        inner = width - 2
        rows = self.row_count()
        if rows:
            # Where there are none yet, the place that is returned to is kept.
            self.cursor = max(0, min(self.cursor, rows - 1))
        header = self.header(inner)
        above = 1 if header is None else 2
        room = max(1, height - above)
        self._top = max(0, min(self._top, self.cursor, rows - room))
        self._top = max(self._top, self.cursor - room + 1, 0)
        aside = self.aside()
        if rows > room:
            last = min(rows, self._top + room)
            place = f"{self._top + 1:,}–{last:,} of {rows:,}"
            aside = f"{aside} · {place}" if aside else place
        lines = [self.heading(self.title(), aside, width)]
        if header is not None:
            lines.append([("  ", ""), *((text, "dim") for text, _ in header)])
        if not rows:
            return lines + [[("  ", ""), *line] for line in self.instead(inner)]
        for index in range(self._top, min(rows, self._top + room)):
            lines.append(self._marked(index, inner))
        return lines

    def _marked(self, index: int, inner: int) -> Line:
        line = self.row(index, inner)
        if index != self.cursor:
            return [("  ", ""), *line]
        mark = (f"{self.glyphs.here} ", "bold")
        if not self.has_focus:
            return [mark, *line]
        return [mark, *((text, "here") for text, _ in fitted(line, inner))]

    def move(self, lines: int) -> None:
        """Move the cursor, as far as it goes."""
        self.go(self.cursor + lines)

    def go(self, row: int) -> None:
        """Put the cursor on a row, or the nearest that there is."""
        before = self.cursor
        self.cursor = max(0, min(row, self.row_count() - 1))
        if self.cursor != before:
            self.moved()
        self.update()

    def moved(self) -> None:
        """The cursor is on another row."""

    @property
    def screenful(self) -> int:
        """How many lines a screenful is."""
        return max(1, self.size.height - 3)

    def on_click(self, event: events.Click) -> None:
        """The mouse is optional, and does what the arrows do."""
        above = 1 if self.header(max(0, self.size.width - 2)) is None else 2
        if above <= event.y < above + self.row_count() - self._top:
            self.go(self._top + event.y - above)

    def on_mouse_scroll_down(self) -> None:
        """Down, three lines."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """Up, three lines."""
        self.move(-3)


class TextPane(Pane, can_focus=True):
    """Text that may be longer than its place."""

    def __init__(self, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self._top = 0
        self._most = 0

    def title(self) -> str:
        """What stands in the rule above; no rule where it is empty."""
        return ""

    def lines(self, width: int) -> list[Line]:
        """All of the text, in ``width`` cells."""
        raise NotImplementedError

    def frame(self, width: int, height: int) -> list[Line]:
        """The rule and the part of the text that is scrolled to."""
        lines = self.lines(width - 2)
        title = self.title()
        room = height - bool(title)
        self._most = max(0, len(lines) - room)
        self._top = min(self._top, self._most)
        shown = [[(" ", ""), *line] for line in lines[self._top : self._top + room]]
        if not title:
            return shown
        aside = ""
        if self._most:
            last = min(len(lines), self._top + room)
            aside = f"{self._top + 1}–{last} of {len(lines)}"
        return [self.heading(title, aside, width), *shown]

    def move(self, lines: int) -> None:
        """Scroll, as far as it goes."""
        self._top = max(0, min(self._most, self._top + lines))
        self.update()

    def go(self, line: int) -> None:
        """Scroll to a line."""
        self._top = 0
        self.move(line)

    @property
    def screenful(self) -> int:
        """How many lines a screenful is."""
        return max(1, self.size.height - 2)

    def on_mouse_scroll_down(self) -> None:
        """Down, three lines."""
        self.move(3)

    def on_mouse_scroll_up(self) -> None:
        """Up, three lines."""
        self.move(-3)
