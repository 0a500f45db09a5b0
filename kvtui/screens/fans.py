"""Fan pages: find one, see whom its fans like too, walk on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kvtui.errors import SnapshotError
from kvtui.jobs.fans.archive import CoPage, FanRecord, PageRow
from kvtui.screens import figures
from kvtui.screens.archives import Archives, Matches, Opened
from kvtui.screens.base import Page, bindings
from kvtui.screens.widgets.editor import LineEditor
from kvtui.screens.widgets.lines import Line, length, paragraph, wrap
from kvtui.screens.widgets.pane import ListPane, Pane
from kvtui.text import cells, count, cut, fit, percent, times, visible

if TYPE_CHECKING:
    from textual import events
    from textual.geometry import Size
    from textual.widget import Widget

    from kvtui.runs.history import RunDirectory
    from kvtui.screens.session import Session
    from kvtui.screens.watch import Watch


class Copy(NamedTuple):
    """One store's records, as the run copied them."""

    store: str
    trial: int
    path: Path
    keeps: bool
    there: bool
    why_not: str


def copies(watch: Watch) -> list[Copy]:
    """A copy for every store of the run: of its last repeat that has one."""
    found: dict[str, Copy] = {}
    for row in figures.rows(watch.state):
        trial = row.trial
        path = watch.run.records(row.number)
        if trial is None:
            why = "its turn has not come"
            copy = Copy(row.store, row.number, path, True, False, why)
        else:
            there = path.is_file()
            why = _why_not(trial.outcome, trial.reason)
            copy = Copy(row.store, row.number, path, trial.keeps, there, why)
        if row.store not in found or copy.there:
            found[row.store] = copy
    return list(found.values())


def _why_not(outcome: str | None, reason: str) -> str:
    if outcome is None:
        return "its records are copied once they were verified"
    return f"its trial is {outcome}{': ' if reason else ''}{reason}"


class StorePart(Pane):
    """Whose records are shown, and which stores there are."""

    def __init__(self, page: FansPage) -> None:
        super().__init__(page.session.glyphs, id="copies")
        self.page = page

    def frame(self, width: int, height: int) -> list[Line]:
        """The rule and the stores in one line."""
        watch = self.page.session.watch
        copy = self.page.copy
        if watch is None or copy is None:
            return [self.heading("Fan pages", "", width), []]
        run = visible(watch.run.name)
        title = f"{visible(copy.store)}: the copy made by run {run}, trial "
        title += str(copy.trial + 1)
        return [self.heading(title, "", width), self._stores(copy, width)]

    def _stores(self, copy: Copy, width: int) -> Line:
        """As many stores as there is room for, the chosen one among them."""
        stores = [self._store(index, copy) for index in range(len(self.page.copies))]
        chosen = self.page.copies.index(copy) if copy in self.page.copies else 0
        first, taken = chosen, length(stores[chosen]) + 4
        while first and taken + length(stores[first - 1]) <= width:
            first -= 1
            taken += length(stores[first])
        line: Line = [("… ", "dim")] if first else []
        for store in stores[first:]:
            if length(line) + length(store) > width - 2:
                return [*line, ("…", "dim")]
            line += store
        return line

    def _store(self, index: int, copy: Copy) -> Line:
        each = self.page.copies[index]
        said = f"{index + 1} " if index < 9 else ""
        said += visible(each.store, 40)
        if not each.keeps:
            said += " (not kept)"
        elif not each.there:
            said += " (none)"
        here = each.store == copy.store
        return [(f" {said} ", "here" if here else "" if each.there else "dim")]


class FilterPart(Pane, can_focus=True):
    """The filter, and the way that was walked."""

    def __init__(self, page: FansPage) -> None:
        super().__init__(page.session.glyphs, id="filter")
        self.page = page
        self.editor = LineEditor()

    def frame(self, width: int, height: int) -> list[Line]:
        """Filter or trail, and what is to be said about it."""
        return (self._trail(width) if self.page.trail else self._filter(width))[:height]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """As many lines as there are."""
        return max(1, len(self.frame(width, 8)))

    def on_blur(self) -> None:
        """Who comes back otherwise goes on where he was."""
        self.editor.selected = False
        super().on_blur()

    def _filter(self, width: int) -> list[Line]:
        matches = self.page.matches
        said = ""
        if matches is not None:
            said = f"{count(matches.total)} of {count(matches.pages)} pages"
            if matches.total > len(matches.rows):
                said += f", the first {count(len(matches.rows))}"
        line: Line = [(" / ", "key")]
        room = max(8, width - cells(said) - 6)
        line += self.editor.view(room, active=self.has_focus, style="bold")
        if not self.editor.text and not self.has_focus:
            line.append(("name or address", "dim"))
        gap = max(1, width - length(line) - cells(said) - 1)
        line += [(" " * gap, ""), (said, "dim")]
        lines = [line]
        if matches is not None and matches.lookalikes:
            lines += _alike(
                "no page is called exactly so; these look the same:",
                matches.lookalikes,
                width,
            )
        return lines

    def _trail(self, width: int) -> list[Line]:
        names = [self.page.name_of(page) for page in self.page.trail]
        said = names[-1]
        for name in reversed(names[:-1]):
            if cells(said) + cells(name) + 3 > width - 6:
                said = f"… › {said}"
                break
            said = f"{name} › {said}"
        lines: list[Line] = [[(" ", ""), (cut(said, width - 2), "bold")]]
        opened = self.page.opened
        if opened is None or opened.record is None:
            return lines
        record = opened.record
        fans = f"{count(record.fans)} fans of {count(opened.profiles)}"
        others = f"{count(len(record.others))} other pages share some"
        facts = f"{fans} · {others} · {visible(record.page)}"
        lines.append([(" ", ""), (cut(facts, width - 2), "dim")])
        if opened.lookalikes:
            lines += _alike("another page looks the same:", opened.lookalikes, width)
        return lines


def _has(matches: Matches, text: str) -> bool:
    """Whether a page is called exactly so, as far as they are listed."""
    return not text or any(text in (row.page, row.name) for row in matches.rows)


def _alike(said: str, rows: Sequence[PageRow], width: int) -> list[Line]:
    shown = ", ".join(
        f"{_spelled(row.name or row.page)} ({count(row.fans)} fans)" for row in rows[:3]
    )
    lines = wrap(visible(f"{said} {shown}"), width - 2, most=2)
    return [[(" ", ""), (line, "warn")] for line in lines]


def _spelled(text: str) -> str:
    """A text with its characters that are not ASCII named by their numbers."""
    points = " ".join(f"U+{ord(each):04X}" for each in text if not each.isascii())
    return f"{text} [{points}]" if points else text


class PageList(ListPane):
    """The pages that match."""

    def __init__(self, page: FansPage) -> None:
        super().__init__(page.session.glyphs, id="pages")
        self.page = page

    @property
    def rows(self) -> list[PageRow]:
        """By fans, most first."""
        return self.page.matches.rows if self.page.matches else []

    def row_count(self) -> int:
        """A row each."""
        return len(self.rows)

    def title(self) -> str:
        """What they are."""
        return "Pages by fans"

    def header(self, width: int) -> Line | None:
        """Names of the columns."""
        return _page_line("page", "fans", "address", width) if self.rows else None

    def row(self, index: int, width: int) -> Line:
        """One page."""
        row = self.rows[index]
        name = row.name or row.page
        return _page_line(name, count(row.fans), row.page, width)

    def instead(self, width: int) -> list[Line]:
        """Why there is nothing."""
        return [[(line, "")] for line in wrap(self.page.nothing(), width)]


def _page_line(name: str, fans: str, page: str, width: int) -> Line:
    name_room = max(20, (width - 10) * 11 // 20)
    rest = width - name_room - 10
    return [
        (fit(visible(name, 500), name_room), ""),
        (fit(fans, 8, right=True), ""),
        ("  ", ""),
        (cut(visible(page, 500), max(0, rest)), "dim"),
    ]


class RecordList(ListPane):
    """The pages that share fans with the one that is open."""

    def __init__(self, page: FansPage) -> None:
        super().__init__(page.session.glyphs, id="record")
        self.page = page

    @property
    def record(self) -> FanRecord | None:
        """The record that is open."""
        return self.page.opened.record if self.page.opened else None

    def row_count(self) -> int:
        """A row each."""
        return len(self.record.others) if self.record else 0

    def title(self) -> str:
        """What they are."""
        return "Liked by the same fans"

    def header(self, width: int) -> Line | None:
        """Names of the columns."""
        if not self.row_count():
            return None
        if width >= WIDE:
            return _record_line(RECORD_HEAD, width)
        return _record_line(("page", "shared", "of this", "of that", "", "lift"), width)

    def row(self, index: int, width: int) -> Line:
        """One page, what it shares, and how telling that is."""
        record, opened = self.record, self.page.opened
        if record is None or opened is None:
            return []
        other = record.others[index]
        said = (
            other.name or other.page,
            count(other.shared),
            percent(_share(other.shared, record.fans), 1),
            percent(_share(other.shared, other.fans), 1),
            count(other.fans),
            times(lift(other, record, opened.profiles)),
        )
        return _record_line(said, width)

    def instead(self, width: int) -> list[Line]:
        """Why there is nothing."""
        return [[(line, "")] for line in wrap(self.page.nothing(), width)]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def lift(other: CoPage, record: FanRecord, profiles: int) -> float | None:
    """How many times more fans two pages share than chance would give."""
    if not record.fans or not other.fans or not profiles:
        return None
    return other.shared * profiles / (record.fans * other.fans)


WIDE = 100
"""Cells from which a record's columns have room to say what they are."""
RECORD_HEAD = (
    "page",
    "shared fans",
    "of this page's fans",
    "of that page's fans",
    "its fans",
    "lift",
)


def _record_line(said: tuple[str, str, str, str, str, str], width: int) -> Line:
    name, *figures_said = said
    widths = (13, 21, 21, 10, 9) if width >= WIDE else (9, 9, 9, 0, 9)
    room = max(16, width - sum(widths))
    line: Line = [(fit(visible(name, 500), room), "")]
    return line + [
        (fit(each, room, right=True), "")
        for each, room in zip(figures_said, widths, strict=True)
        if room
    ]


class FansPage(Page):
    """Look into the records."""

    NAME = "fans"
    BINDINGS = bindings("fans")

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.archives = Archives()
        self.copies: list[Copy] = []
        self.copy: Copy | None = None
        self.matches: Matches | None = None
        self.opened: Opened | None = None
        self.trail: list[str] = []
        """Ids of the pages walked through; the last one is open."""
        self.problem = ""
        self._names: dict[str, str] = {}
        self._cursors: list[int] = []
        self._opens_first = False
        self._run: RunDirectory | None = None
        self.store_part = StorePart(self)
        self.filter = FilterPart(self)
        self.pages = PageList(self)
        self.record = RecordList(self)

    def body(self) -> Iterable[Widget]:
        """Stores, filter, list."""
        self.record.display = False
        yield self.store_part
        yield self.filter
        yield self.pages
        yield self.record

    def on_mount(self) -> None:
        """Start where one can type."""
        super().on_mount()
        self.filter.focus()

    def on_unmount(self) -> None:
        """Ask nothing more."""
        self.archives.close()

    @property
    def is_typing(self) -> bool:
        """Letters go into the filter while it has the keys."""
        return self.focused is self.filter and not self.trail

    @property
    def wanted(self) -> str:
        """What is looked for; what cannot be UTF-8 can be no page's name either."""
        return self.filter.editor.text.encode("utf-8", "replace").decode()

    def name_of(self, page: str) -> str:
        """A page's readable name, for the trail."""
        return visible(self._names.get(page) or page, 200)

    def nothing(self) -> str:
        """Why the list is empty."""
        if self.problem:
            return self.problem
        copy = self.copy
        if copy is None:
            if self.session.watch is None:
                return (
                    "No run yet. Press F2, tick stores and press Enter; the records"
                    " come here once a trial was verified."
                )
            return f"The run is {self.session.watch.standing}: no records yet."
        if not copy.keeps:
            said = f"not kept: {visible(copy.store)} keeps nothing, so there is no"
            said += " record to show."
            if len(self.copies) > 1:
                # In the filter the brackets are letters.
                first = "Tab, then " if self.is_typing else ""
                said += f" {first}[ and ] go to the other stores."
            return said
        if not copy.there:
            return f"{visible(copy.store)} has no copy: {visible(copy.why_not)}."
        if self.trail:
            if self.opened is None:
                return "reading …"
            if self.opened.record is None:
                return f"{visible(copy.store)} holds no record of this page."
            return "Nobody who likes this page likes another one."
        if self.matches is None:
            return "reading …"
        return "No page has that in its name or address."

    # What is shown follows the run and the chosen store.

    def follow(self) -> None:
        """Take up new copies."""
        super().follow()
        watch = self.session.watch_newest()
        if watch is None:
            self._paint()
            return
        if watch.run != self._run:
            self._run, self.copies, self.copy = watch.run, [], None
            self.matches = self.opened = None
            self.trail, self._cursors = [], []
        if not watch.events or (not watch.caught_up and watch.standing == "reading"):
            self._paint()
            return
        found = copies(watch)
        wanted, self.session.wanted_store = self.session.wanted_store, ""
        if found != self.copies:
            self.copies = found
            self._take_up()
        stores = [each.store for each in found]
        if wanted in stores and self.copy != found[stores.index(wanted)]:
            self._choose(stores.index(wanted))
        self._paint()

    def _take_up(self) -> None:
        """Keep to the chosen store, or take the first that has a copy."""
        if self.copy is not None:
            same = [each for each in self.copies if each.store == self.copy.store]
            before, self.copy = self.copy, same[0] if same else None
            if self.copy == before:
                return
        if self.copy is None or not self.copy.there:
            watch = self.session.watch
            rows = figures.rows(watch.state) if watch else []
            at = min(self.session.chosen_trial, len(rows) - 1)
            wanted = rows[at] if rows else None
            there = [each for each in self.copies if each.there]
            wished = [each for each in there if wanted and each.store == wanted.store]
            self.copy = next(iter(wished or there or self.copies), None)
        self._ask()

    def _ask(self) -> None:
        """Read what is wanted; an earlier question is given up."""
        self.problem = ""
        copy = self.copy
        if copy is None or not copy.there or not copy.keeps:
            self.workers.cancel_group(self, "archive")
            self.matches = self.opened = None
            self._paint()
            return
        self.beside(partial(self._answer, copy.path), "archive", exclusive=True)

    async def _answer(self, path: Path) -> None:
        try:
            if self.trail:
                page = self.trail[-1]
                opened = await self.archives.open(path, page)
                self.opened = opened
                if opened.record is not None:
                    self._names[page] = opened.record.name
                self._paint()
                alike = await self.archives.lookalikes(path, page, self._names[page])
                self.opened = opened._replace(lookalikes=alike)
            else:
                matches = await self.archives.search(path, self.wanted)
                self.matches = matches
                if self._opens_first:
                    self._opens_first = False
                    self.action_open()
                    return
                if not _has(matches, matches.text):
                    self._paint()
                    alike = await self.archives.lookalikes(path, matches.text)
                    self.matches = matches._replace(lookalikes=alike)
        except SnapshotError as error:
            self.matches = self.opened = None
            self.problem = visible(error.message)
        self._paint()

    def _paint(self) -> None:
        walking = bool(self.trail)
        if self.record.display != walking:
            focused_list = self.focused in (self.pages, self.record)
            self.record.display, self.pages.display = walking, not walking
            if walking:
                self.record.focus()
            elif focused_list:
                self.pages.focus()
        self.store_part.update()
        height = self.filter.get_content_height(self.size, self.size, self.size.width)
        if height != self.filter.size.height:
            self.filter.refresh(layout=True)
        self.filter.update()
        self.pages.update()
        self.record.update()

    # Typing.

    def typed(self, event: events.Key) -> bool:
        """Whether the filter took the key."""
        editor = self.filter.editor
        before = editor.text
        if event.key in ("home", "end") and not before:
            return False
        if event.key == "slash" and (not before or editor.selected):
            return True  # It leads to the filter, where one is already.
        if not editor.key(event.key, event.character):
            return False
        if editor.text != before:
            self.pages.cursor = 0
            self._opens_first = False
            self._ask()
        self.filter.update()
        return True

    def on_key(self, event: events.Key | None = None) -> None:
        """Letters go into the filter while the keys go there."""
        super().on_key()
        if event is None or not self.is_typing:
            return
        if event.key in ("up", "down", "pageup", "pagedown"):
            return
        if self.typed(event):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text goes into the filter."""
        if self.focused is self.filter:
            self.filter.editor.insert(event.text)
            self.pages.cursor = 0
            self._ask()

    # Keys.

    @property
    def part(self) -> ListPane | None:
        """The arrows move the list, also from the filter."""
        return self.record if self.trail else self.pages

    def action_filter(self) -> None:
        """To the filter, from wherever one is; what is typed there replaces what it
        held."""
        self.filter.editor.select()
        self.trail, self._cursors, self.opened = [], [], None
        self._paint()
        self.filter.focus()
        self._ask()

    def action_open(self) -> None:
        """Open the page under the cursor."""
        if self.trail:
            record = self.record.record
            if record is None or not record.others:
                return
            other = record.others[self.record.cursor]
            self._walk(other.page, other.name, self.record.cursor)
        elif self.matches is not None and self.matches.text != self.wanted:
            # Typed faster than it was found: open what will be found.
            self._opens_first = True
        elif self.pages.rows:
            row = self.pages.rows[self.pages.cursor]
            self._walk(row.page, row.name, self.pages.cursor)

    def _walk(self, page: str, name: str, cursor: int) -> None:
        self.trail.append(page)
        self._cursors.append(cursor)
        self._names[page] = name
        self.opened = None
        self.record.cursor = 0
        self._paint()
        self._ask()

    def action_back(self) -> None:
        """Back along the trail, then out of the filter, then empty it."""
        if self.trail:
            self.trail.pop()
            cursor = self._cursors.pop()
            self.opened = None
            if self.trail:
                self.record.cursor = cursor
            else:
                self.pages.cursor = cursor
            self._paint()
            self._ask()
        elif self.focused is self.filter:
            self.pages.focus()
        elif self.filter.editor.text:
            self.filter.editor.put("")
            self.pages.cursor = 0
            self._ask()
        else:
            self.app.switch_mode("live")

    def _choose(self, index: int) -> None:
        if 0 <= index < len(self.copies):
            self.copy = self.copies[index]
            self.opened = None
            self._ask()
            self._paint()

    def action_store(self, digit: str) -> None:
        """The same page as another store held it."""
        self._choose(int(digit) - 1)

    def action_previous_store(self) -> None:
        """As the store before held it."""
        self._step(-1)

    def action_next_store(self) -> None:
        """As the store after held it."""
        self._step(1)

    def _step(self, step: int) -> None:
        stores = [each.store for each in self.copies]
        if self.copy is not None and self.copy.store in stores:
            self._choose((stores.index(self.copy.store) + step) % len(stores))


__all__ = ["FansPage", "copies", "lift", "paragraph"]
