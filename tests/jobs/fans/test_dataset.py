"""The compiled profile file: the same profiles, mapped."""

import errno
import gzip
import os
import stat
from itertools import pairwise
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.errors import DataError
from kvtui.jobs.fans import dataset as module
from kvtui.jobs.fans.dataset import (
    Dataset,
    compile_profiles,
    open_dataset,
    readable_name,
)
from kvtui.jobs.fans.profiles import open_profiles


def compiled(
    directory: Path, text: str | bytes, names: dict[str, str] | None = None
) -> Dataset:
    source = directory / "source"
    source.write_bytes(text if isinstance(text, bytes) else text.encode())
    return compile_profiles(open_profiles(source), directory / "set", names)


def profiles_of(dataset: Dataset) -> list[list[str]]:
    table = dataset.page_table()
    bounds = dataset.offsets.tolist()
    members = dataset.members.tolist()
    return [
        [table[number].decode() for number in members[begin:end]]
        for begin, end in pairwise(bounds)
    ]


def test_the_arrays(tmp_path):
    dataset = compiled(tmp_path, "x\nx\ty\n\ny\tz\tz\n")
    assert (dataset.profiles, dataset.pages, dataset.memberships) == (4, 3, 5)
    assert dataset.offsets.tolist() == [0, 1, 3, 3, 5]
    assert dataset.members.tolist() == [0, 0, 1, 1, 2]
    assert dataset.fans.tolist() == [2, 2, 1]
    assert dataset.page_table() == [b"x", b"y", b"z"]
    assert dataset.page(2) == b"z"
    assert dataset.offsets.dtype == np.int64
    assert dataset.members.dtype == dataset.fans.dtype == np.int32
    assert not dataset.members.flags.writeable


def test_look_alikes_stay_two_pages(tmp_path):
    dataset = compiled(tmp_path, "caf\u00e9\ncafe\u0301\n")
    assert dataset.page_table() == ["caf\u00e9".encode(), "cafe\u0301".encode()]


def test_opened_again_it_is_the_same(tmp_path):
    first = compiled(tmp_path, b"a\tb\nb\tc\xff\nb\tc\n", names={"a": "Ä"})
    again = open_dataset(tmp_path / "set")
    assert profiles_of(again) == profiles_of(first) == [["a", "b"], ["b", "c"]]
    assert again.digest == first.digest
    assert again.bad_lines == 1
    assert again.first_bad == first.first_bad
    assert again.first_bad[0].number == 2
    assert again.format == "one profile a line, tab-separated"
    assert again.source == str(tmp_path / "source")
    assert [again.name(number) for number in range(3)] == ["Ä", "", ""]


def test_the_digest_is_of_the_content(tmp_path):
    texts = [
        b"a\tb\nc\n",
        gzip.compress(b'["a","b"]\n["c"]\n'),
        b"a\tb\n\n",
        b"a\tc\nb\n",
    ]
    digests = []
    for number, text in enumerate(texts):
        directory = tmp_path / str(number)
        directory.mkdir()
        digests.append(compiled(directory, text).digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_files_are_for_the_owner_only(tmp_path):
    compiled(tmp_path, "a\tb\n")
    assert stat.S_IMODE((tmp_path / "set").stat().st_mode) == 0o700
    modes = {stat.S_IMODE(p.stat().st_mode) for p in (tmp_path / "set").iterdir()}
    assert modes == {0o600}


def test_progress_counts_profiles(tmp_path):
    source = tmp_path / "source"
    source.write_text("a\n" * 2500)
    seen: list[int] = []
    compile_profiles(open_profiles(source), tmp_path / "set", progress=seen.append)
    assert seen == [1000, 2000, 2500]


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module, "_write_table", full)
    with pytest.raises(DataError, match="No space left") as caught:
        compiled(tmp_path, "a\tb\n")
    assert "Free some space" in str(caught.value.hint)
    assert list((tmp_path / "set").iterdir()) == []


def test_damaged_input_leaves_nothing(tmp_path):
    packed = gzip.compress(b"".join(b"%d\n" % n for n in range(100_000)))
    with pytest.raises(DataError, match=r"too early, after [\d,]+ profiles"):
        compiled(tmp_path, packed[:-6])
    assert list((tmp_path / "set").iterdir()) == []


def test_only_bad_lines_are_no_dataset(tmp_path):
    with pytest.raises(DataError, match="all 2 lines are bad") as caught:
        compiled(tmp_path, '{"pages":\n{"pages":\n')
    assert "Line 1: not JSON" in str(caught.value.hint)


def test_a_directory_in_use_is_left_alone(tmp_path):
    compiled(tmp_path, "a\tb\n")
    with pytest.raises(DataError, match="not empty"):
        compiled(tmp_path, "a\tb\n")
    assert open_dataset(tmp_path / "set").profiles == 1


def test_what_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(DataError, match="not a compiled profile file"):
        open_dataset(tmp_path)
    compiled(tmp_path, "a\tb\n")
    (tmp_path / "set" / "members.i32").write_bytes(b"123")
    with pytest.raises(DataError, match="3 bytes, not 8"):
        open_dataset(tmp_path / "set")


def test_profiles_without_any_page(tmp_path):
    dataset = compiled(tmp_path, "\n\n")
    assert (dataset.profiles, dataset.pages, dataset.memberships) == (2, 0, 0)
    assert profiles_of(dataset) == [[], []]
    assert dataset.page_table() == []


ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(ids, unique=True, max_size=6), min_size=1, max_size=20))
def test_any_profiles_come_back(tmp_path_factory, profiles):
    text = b"".join(orjson.dumps(profile) + b"\n" for profile in profiles)
    dataset = compiled(tmp_path_factory.mktemp("any"), text)
    assert profiles_of(dataset) == profiles
    assert int(dataset.fans.sum()) == dataset.memberships


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("http://www.facebook.com/michaeljackson", "michaeljackson"),
        ("http://x.test/pages/Green-Bay-Packers/146", "Green Bay Packers"),
        ("http://x.test/pages/Caf%C3%A9_%5BTV%5D/1?ref=2#top", "Café [TV]"),
        ("http://x.test/123", "x.test"),
        ("http://x.test/bad%ff/", "bad\ufffd"),
        ("1008", ""),
        ("", ""),
        ("://", ""),
    ],
)
def test_readable_names(address, name):
    assert readable_name(address) == name
