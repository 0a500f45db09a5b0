"""The copy of a trial's records: found by text, by name, and in order."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from kvtui.errors import SnapshotError
from kvtui.jobs.fans.archive import Archive, ArchiveWriter, sort_key
from tests.jobs.fans.people import compiled, counted

PEOPLE = [
    ["http://ex.test/pages/Green-Bay-Packers/146", "http://ex.test/michaeljackson"],
    ["http://ex.test/michaeljackson", "caf\u00e9", "100%", "a_b"],
    ["http://ex.test/michaeljackson", "cafe\u0301", "ab", "axb"],
    ["http://ex.test/michaeljackson", "CAF\u00c9", "[/]", "\x1b[2J", "Straße"],
    ["a\0b", "STRASSE"],
]


def written(people: list[list[str]], folder: Path) -> Archive:
    """Everybody's records, as a trial leaves them."""
    dataset = compiled(people, folder)
    answer = counted(people)
    writer = ArchiveWriter(folder / "records-0.sqlite", {"store": "ram"}, dataset)
    for number in range(dataset.pages):
        writer.keep(number, orjson.dumps(answer[dataset.page(number).decode()]))
    writer.close()
    return Archive(folder / "records-0.sqlite")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    """The people above."""
    made = written(PEOPLE, tmp_path)
    yield made
    made.close()


MICHAEL = "http://ex.test/michaeljackson"
PACKERS = "http://ex.test/pages/Green-Bay-Packers/146"


def test_it_keeps_every_record_and_is_private(archive: Archive) -> None:
    answer = counted(PEOPLE)
    assert len(archive) == len(answer)
    assert archive.path.stat().st_mode & 0o777 == 0o600
    assert archive.facts() == {"store": "ram"}
    assert archive.profiles == 0
    for page, record in answer.items():
        found = archive.record(page)
        assert found is not None
        assert orjson.loads(found.raw) == record
        assert found.fans == record["fans"]
        assert {each.page: each.shared for each in found.others} == record["pages"]
        order = [(-each.shared, each.page) for each in found.others]
        assert order == sorted(order)
        for each in found.others:
            assert each.fans == answer[each.page]["fans"]
    assert archive.record("missing") is None
    assert archive.record(MICHAEL.upper()) is None


def test_searching_is_without_case_and_form(archive: Archive) -> None:
    number, rows = archive.search("")
    assert number == len(rows) == len(archive)
    assert rows[0].page == MICHAEL
    assert [row.fans for row in rows] == sorted((r.fans for r in rows), reverse=True)
    assert [row.page for row in archive.search("GREEN bay")[1]] == [PACKERS]
    assert {row.page for row in archive.search("cafe\u0301")[1]} == {
        "caf\u00e9",
        "cafe\u0301",
        "CAF\u00c9",
    }
    assert {row.page for row in archive.search("strasse")[1]} == {"Straße", "STRASSE"}
    assert archive.search("nowhere to be found") == (0, [])


@pytest.mark.parametrize(
    ("text", "found"),
    [("%", {"100%"}), ("a_b", {"a_b"}), ("[/]", {"[/]"}), ("\x1b", {"\x1b[2J"})],
)
def test_searching_has_no_wildcards(
    archive: Archive, text: str, found: set[str]
) -> None:
    assert {row.page for row in archive.search(text)[1]} == found


@pytest.mark.parametrize("text", ["'", '"', "--", ";", "\0", "*", "%' OR 1=1 --"])
def test_searching_for_anything_is_harmless(archive: Archive, text: str) -> None:
    archive.search(text)
    archive.named(text)
    archive.lookalikes(text)
    archive.record(text)


def test_searching_tells_how_many_beyond_the_limit(archive: Archive) -> None:
    number, rows = archive.search("ex.test", limit=1)
    assert (number, [row.page for row in rows]) == (2, [MICHAEL])


def test_pages_are_found_by_exact_id_or_name(archive: Archive) -> None:
    assert [row.page for row in archive.named("Green Bay Packers")] == [PACKERS]
    assert [row.page for row in archive.named(PACKERS)] == [PACKERS]
    assert archive.named("green bay packers") == []


def test_lookalikes_are_told(archive: Archive) -> None:
    """008: not just 'not found'."""
    assert {row.page for row in archive.lookalikes("caf\u00e9")} == {
        "cafe\u0301",
        "CAF\u00c9",
    }
    assert [
        row.page for row in archive.lookalikes("HTTP://EX.TEST/MichaelJackson")
    ] == [MICHAEL]
    assert archive.lookalikes("cafe") == []


@pytest.mark.parametrize(
    ("pages", "order"),
    [
        (["10", "9", "100", "1"], ["1", "9", "10", "100"]),
        (["10", "9", "x"], ["10", "9", "x"]),
        (["é", "z", "a", "Z", "日"], ["Z", "a", "z", "é", "日"]),
        (["1", "١"], ["1", "١"]),
        (["1" * 19, "2"], ["1" * 19, "2"]),
        (["²", "1"], ["1", "²"]),
    ],
)
def test_records_are_listed_in_order(
    tmp_path: Path, pages: list[str], order: list[str]
) -> None:
    """By number where all ids are numbers, else by bytes."""
    archive = written([pages], tmp_path)
    assert [page for page, _ in archive.raw_records()] == order
    for page, raw in archive.raw_records():
        assert orjson.loads(raw)["page"] == page
    archive.close()


def test_sorting_is_by_bytes_not_by_alphabet() -> None:
    assert sort_key("é", numeric=False) > sort_key("z", numeric=False)
    assert sort_key("10", numeric=True) > sort_key("9", numeric=True)


def test_the_file_appears_only_when_whole(tmp_path: Path) -> None:
    dataset = compiled(PEOPLE, tmp_path)
    path = tmp_path / "records-3.sqlite"
    writer = ArchiveWriter(path, {}, dataset)
    writer.keep(0, b"{}")
    assert not path.exists()
    writer.discard()
    assert [name for name in os.listdir(tmp_path) if "records" in name] == []
    # What a crash left behind is made anew.
    path.with_name("records-3.sqlite.partial").write_bytes(b"junk")
    writer = ArchiveWriter(path, {}, dataset)
    writer.close()
    assert len(Archive(path)) == 0


@pytest.mark.parametrize(
    "raw", [b"", b"junk", b"[]", b'{"fans": "x"}', b'{"pages": []}', b"\xff"]
)
def test_a_damaged_record_is_kept_as_it_is(tmp_path: Path, raw: bytes) -> None:
    """What the store held is evidence, whatever it is."""
    dataset = compiled([["x", "y"]], tmp_path)
    writer = ArchiveWriter(tmp_path / "records-0.sqlite", {}, dataset)
    writer.keep(0, raw)
    writer.close()
    archive = Archive(tmp_path / "records-0.sqlite")
    found = archive.record(dataset.page(0).decode())
    assert found is not None
    assert (found.raw, found.fans, found.others) == (raw, 0, [])
    assert archive.search("")[1][0].fans == 0
    archive.close()


def test_what_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk" * 1000)
    (tmp_path / "empty").write_bytes(b"")
    for name in ("junk", "empty", "missing"):
        with pytest.raises(SnapshotError) as caught:
            Archive(tmp_path / name)
        assert name in caught.value.message


def test_many_co_pages_are_resolved(tmp_path: Path) -> None:
    """More than SQLite takes variables in one question."""
    pages = [f"p{number}" for number in range(3000)]
    dataset = compiled([pages, ["p0"]], tmp_path)
    shared = dict.fromkeys(pages[1:], 1)
    writer = ArchiveWriter(tmp_path / "records-0.sqlite", {}, dataset)
    for number in range(dataset.pages):
        record = {"page": pages[number], "fans": 1, "pages": {}}
        writer.keep(number, orjson.dumps(record | {"pages": {} if number else shared}))
    writer.close()
    archive = Archive(tmp_path / "records-0.sqlite")
    found = archive.record("p0")
    assert found is not None
    assert len(found.others) == 2999
    assert all(each.fans == 1 for each in found.others)
    archive.close()


def test_a_full_disk_is_an_error_for_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database's own exception would end the trial that is being verified."""

    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    dataset = compiled(PEOPLE, tmp_path)
    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(SnapshotError, match="disk is full"):
        ArchiveWriter(tmp_path / "r.sqlite", {}, dataset)
