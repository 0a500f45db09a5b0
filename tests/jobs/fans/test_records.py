"""The record of a page: patching its bytes is the same as decoding and encoding."""

from __future__ import annotations

import itertools
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvtui.jobs.fans import records
from kvtui.jobs.fans.records import DamagedRecord, RecordCodec
from tests.jobs.fans.people import NASTY, counted, names


def both_ways(
    table: list[str], page: int, people: list[list[int]]
) -> tuple[bytes, bytes, int]:
    """The record after those fans: patched where it can be, never patched, and
    how many were patched."""
    codec, value, patched = RecordCodec(table), None, 0
    record = codec.new(page)
    for profile in people:
        if value is not None and codec._patch(value, page, profile) is not None:
            patched += 1
        value = codec.grow(value, page, profile)
        codec.count(record, page, profile)
        assert value == records.encode(record), (table, page, profile)
    assert value is not None
    return value, records.encode(record), patched


tables = st.lists(names, min_size=2, max_size=14, unique=True)


@st.composite
def growing(draw: st.DrawFn) -> tuple[list[str], int, list[list[int]]]:
    """A table of names, one of its pages, and profiles that all have it."""
    table = draw(tables)
    page = draw(st.integers(0, len(table) - 1))
    profile = st.lists(
        st.integers(0, len(table) - 1), unique=True, max_size=len(table)
    ).map(lambda pages: pages if page in pages else [page, *pages])
    return table, page, draw(st.lists(profile, min_size=1, max_size=8))


@settings(max_examples=400, deadline=None)
@given(growing())
@example((["p", "abc", 'x"abc'], 0, [[0, 2], [0, 1], [0, 1, 2]]))
# The closing quote of one name and the opening quote of the next look like a name.
@example((["p", "foo,", ":x", ":1,"], 0, [[0, 1, 2], [0, 3], [0, 3]]))
@example((["p", "foo,", ":5", ":1,"], 0, [[0, 1, 3, 2], [0, 3], [0, 2]]))
@example((["p", "foo{", ":5", ":1,"], 0, [[0, 1, 2], [0, 3]]))
def test_patched_is_decoded_and_encoded_byte_for_byte(
    drawn: tuple[list[str], int, list[list[int]]],
) -> None:
    patched, encoded, _ = both_ways(*drawn)
    assert patched == encoded


def test_every_two_nasty_names_beside_each_other() -> None:
    """Each as the page, as a co-page, before and behind another."""
    for first, second in itertools.permutations(NASTY, 2):
        table = ["page of its own", first, second]
        both_ways(table, 0, [[0, 1], [0, 2], [0, 1, 2], [0, 2], [0, 1]])
        both_ways(table, 1, [[1, 2], [1, 2], [1], [1, 0, 2]])


def test_patching_is_what_happens_with_ordinary_names() -> None:
    table = [f"http://ex.test/{number}" for number in range(8)]
    people = [list(range(turn % 7 + 1)) for turn in range(1, 120)]
    people = [profile if 0 in profile else [0, *profile] for profile in people]
    _, _, patched = both_ways(table, 0, people)
    assert patched == len(people) - 1


def test_long_profiles_are_decoded() -> None:
    table = [str(number) for number in range(60)]
    value, encoded, _ = both_ways(table, 3, [list(range(60))] * 3)
    assert value == encoded
    assert orjson.loads(value)["pages"]["59"] == 3


def test_counts_grow_a_digit() -> None:
    codec, value = RecordCodec(["p", "q"]), None
    for number in range(1, 1002):
        value = codec.grow(value, 0, [0, 1])
        assert value == b'{"page":"p","fans":%d,"pages":{"q":%d}}' % (number, number)


def test_the_article_s_form() -> None:
    codec = RecordCodec(["http://a/mj", "http://a/packers", "http://a/x"])
    value = codec.grow(None, 0, [0])
    assert value == b'{"page":"http://a/mj","fans":1,"pages":{}}'
    value = codec.grow(value, 0, [2, 0])
    value = codec.grow(value, 0, [0, 1, 2])
    assert value == (
        b'{"page":"http://a/mj","fans":3,"pages":{"http://a/x":2,"http://a/packers":1}}'
    )


@pytest.mark.parametrize("profile", [[0, 1], [0, *range(1, 15)]])
@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"null",
        b"[]",
        b"5",
        b'"page"',
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"page":"p","fans":1,"pages":{',
        b'{"page":"p","fans":1,"pages":{"q":1}',
        b'{"page":"p","fans":1,"pages":[]}',
        b'{"page":"p","fans":1,"pages":null}',
        b'{"page":"p","fans":"1","pages":{}}',
        b'{"page":"p","fans":1.5,"pages":{}}',
        b'{"page":"p","fans":x,"pages":{}}',
        b'{"page":"p","fans":1_0,"pages":{}}',
        b'{"page":"p","fans":,"pages":{}}',
        b'{"page":"p","fans":null,"pages":{}}',
        b'{"page":"p","pages":{}}',
        b'{"page":"q","fans":1,"pages":{}}',
        b'{"page":"p","fans":1,"pages":{"q":"1"}}',
        b'{"page":"p","fans":1,"pages":{"q":}}',
        b'{"page":"p","fans":1,"pages":{"q":null}}',
        b'{"page":"p","fans":1,"pages":{"q":{}}}',
        b'{"page":"p","fans":1,"pages":{"q":[1]}}',
        b'{"page":"p","fans":1,"pages":{"q":1}}garbage',
    ],
)
def test_a_damaged_value_is_said_to_be_damaged(
    value: bytes, profile: list[int]
) -> None:
    """Whatever a store returns, only DamagedRecord comes of it."""
    codec = RecordCodec(["p", "q", *(f"r{number}" for number in range(20))])
    with pytest.raises(DamagedRecord):
        codec.grow(value, 0, profile)


@given(st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_no_value_brings_anything_but_damage(value: bytes) -> None:
    codec = RecordCodec(["p", "q"])
    good = b'{"page":"p","fans":1,"pages":{"q":1}}'
    for at in range(0, len(good), 5):
        spoilt = good[:at] + value + good[at:]
        try:
            grown = codec.grow(spoilt, 0, [0, 1])
        except DamagedRecord:
            continue
        assert isinstance(grown, bytes)


def test_an_unusual_but_right_layout_is_still_read() -> None:
    codec = RecordCodec(["p", "q"])
    value = b'{ "fans": 1, "pages": {"q": 4}, "page": "p" }'
    assert orjson.loads(codec.grow(value, 0, [0, 1])) == {
        "page": "p",
        "fans": 2,
        "pages": {"q": 5},
    }


@given(st.lists(names, min_size=1, max_size=12, unique=True), st.data())
def test_counters_make_the_same_record(table: list[str], data: st.DataObject) -> None:
    """Mode native: a page's own name counts its fans."""
    codec, page = RecordCodec(table), 0
    people = data.draw(
        st.lists(st.lists(st.sampled_from(table), unique=True), min_size=1, max_size=8)
    )
    people = [pages if table[0] in pages else [table[0], *pages] for pages in people]
    counts: dict[bytes, int] = {}
    for pages in people:
        for each in pages:
            counts[each.encode()] = counts.get(each.encode(), 0) + 1
    made: dict[str, Any] = codec.from_counts(page, counts)
    assert made == counted(people)[table[0]]
