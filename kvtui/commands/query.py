"""``kvtui query``: one page's record, for a person or as the store holds it."""

from __future__ import annotations

from collections.abc import Iterable

import click

from kvtui.commands import console
from kvtui.commands.copies import LiveStore, find_copy, is_live, named_store, open_copy
from kvtui.commands.options import Count, typed
from kvtui.errors import KvtuiError, UsageError
from kvtui.jobs.fans.archive import Archive, CoPage, FanRecord, PageRow
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import NOTHING, count, cut, percent, visible

NEAREST = 5
WIDE = 110
"""From so many cells on a page's name and its id both have a column."""


@click.command()
@click.argument("what")
@click.option("--store", metavar="NAME", help="The store whose records are read.")
@click.option("--run", "run_name", metavar="RUN", help="The run whose copy is read.")
@click.option(
    "--top",
    type=Count(),
    metavar="N",
    default=20,
    show_default=True,
    help="How many of the pages that share fans with it.",
)
@click.option("--json", "as_json", is_flag=True, help="The record as it is stored.")
def query(
    what: str, store: str | None, run_name: str | None, top: int, as_json: bool
) -> int:
    """Print the record of the page WHAT: its id, or its readable name.

    Read from the copy that the newest verified trial left. With --store of a
    server of yours, from that server, by id. Standard error says which it was.
    Ids are compared byte for byte.

    \b
    kvtui query "http://www.facebook.com/michaeljackson"
    kvtui query "Michael Jackson" --store redis-unix --top 5
    kvtui query 1008 --store redis-tcp:host=127.0.0.1,port=6379 --json
    """
    what = typed(what)
    if not what:
        raise UsageError("no page was named")
    if top < 1:
        raise UsageError(f"--top must be at least 1, not {top}")
    if store is not None and run_name is None:
        plan = named_store(store)
        if is_live(plan):
            with LiveStore(plan) as live:
                console.say(f"kvtui: read from {visible(store)} itself, by id")
                return show(
                    live.record(what, 0 if as_json else top), top, as_json, what
                )
    archive = open_copy(find_copy(run_name, store))
    try:
        return from_archive(archive, what, top, as_json)
    finally:
        archive.close()


def from_archive(archive: Archive, what: str, top: int, as_json: bool) -> int:
    """Find the page in a copy and print it; the exit code."""
    found = archive.named(what)
    exact = [row for row in found if row.page == what]
    if not exact and len(found) > 1:
        return _several(found, what, as_json)
    if not found:
        return _nothing(archive, what, as_json)
    page = found[0].page
    code = show(archive.record(page), top, as_json, what, archive.profiles or None)
    seen = {page}
    if exact:
        same = [row for row in found if row.page != page]
        _point_out("other pages have this name", same, seen)
    alike = [*archive.lookalikes(page), *archive.lookalikes(found[0].name or page)]
    _point_out("pages that look like it, and are others", alike, seen)
    return code


def _several(found: list[PageRow], what: str, as_json: bool) -> int:
    if as_json:
        raise KvtuiError(
            f"{len(found)} pages are named {what}", hint=_lines_of(found, escaped=True)
        )
    console.say(f"kvtui: {len(found)} pages are named {visible(what)}; ask by id")
    for line in _table(
        [Column("fans", True), Column("page")],
        [[count(row.fans), visible(row.page)] for row in found],
    ):
        console.out(line)
    return 0


def _nothing(archive: Archive, what: str, as_json: bool) -> int:
    if as_json:
        console.out_json(b"null")
    console.complain(f"no page has the id or the name {what}")
    seen: set[str] = set()
    _point_out("it looks like", archive.lookalikes(what), seen)
    _, near = archive.search(what, NEAREST)
    for word in sorted(what.split(), key=len, reverse=True):
        if near or len(word) < 3:
            break
        _, near = archive.search(word, NEAREST)
    _point_out("near to it", near, seen)
    return 1


def _point_out(why: str, rows: Iterable[PageRow], seen: set[str]) -> None:
    new = [row for row in rows if row.page not in seen]
    seen.update(row.page for row in new)
    if new:
        console.say(f"  {why}:")
        console.say(_lines_of(new[:NEAREST], escaped=True))


def _lines_of(rows: list[PageRow], *, escaped: bool) -> str:
    return "\n".join(f"    {_one_line(row, escaped)}" for row in rows)


def _one_line(row: PageRow, escaped: bool) -> str:
    page = _told_apart(row.page) if escaped else visible(row.page)
    name = f" ({visible(row.name, 80)})" if row.name else ""
    return f"{page}{name}, {count(row.fans)} {_fans(row.fans)}"


def _fans(number: int) -> str:
    return "fan" if number == 1 else "fans"


def _told_apart(page: str) -> str:
    """An id, and where it is not ASCII also so that look-alikes differ."""
    if page.isascii():
        return visible(page)
    return f"{visible(page)} = {visible(ascii(page))}"


def show(
    record: FanRecord | None,
    top: int,
    as_json: bool,
    what: str,
    profiles: int | None = None,
) -> int:
    """Print a record, or that there is none; the exit code."""
    if record is None:
        if as_json:
            console.out_json(b"null")
        console.complain(f"there is no record of {what}", "ids are asked for exactly")
        return 1
    if as_json:
        console.out_json(record.raw)
        return 0
    letters = ascii_letters if console.ascii_only() else str
    name = visible(record.name, 200) if record.name else visible(record.page, 200)
    people = f" of {profiles:,} people" if profiles else ""
    console.out(letters(f"{name}: {record.fans:,} {_fans(record.fans)}{people}"))
    console.out(letters(f"{visible(record.page)}"))
    if not record.others:
        console.out("no other page shares a fan with it")
        return 0
    console.out(letters(f"{len(record.others):,} pages share fans with it"))
    console.out()
    width = console.width()
    wide = width is None or width >= WIDE
    rows = [
        _row(record, other, profiles, wide) for other in record.others[: max(1, top)]
    ]
    columns = [
        Column("shared", True),
        Column("of its fans", True),
        Column("of theirs", True),
        Column("lift", True),
        Column("page", gives_way=True),
    ]
    if wide:
        columns.append(Column("id"))
    for line in _table(columns, rows):
        console.out(line)
    return 0


def _row(
    record: FanRecord, other: CoPage, profiles: int | None, wide: bool
) -> list[str]:
    lift = None
    if profiles and record.fans and other.fans:
        lift = other.shared * profiles / (record.fans * other.fans)
    cells = [
        count(other.shared),
        percent(other.shared / record.fans, 1) if record.fans else NOTHING,
        percent(other.shared / other.fans, 1) if other.fans else NOTHING,
        NOTHING if lift is None else f"{lift:,.2f}",
    ]
    if wide:
        return [*cells, cut(visible(other.name), 60), visible(other.page)]
    return [*cells, visible(other.name or other.page)]


def _table(columns: list[Column], rows: list[list[str]]) -> list[str]:
    if console.ascii_only():
        rows = [[ascii_letters(cell) for cell in row] for row in rows]
    return table(columns, rows, console.width())
