"""The figures of a profile file, against counting in plain words."""

import statistics
import tempfile
from collections import Counter

import numpy as np
import pytest

from kvtui.errors import DataError
from kvtui.jobs.fans import summary as module
from kvtui.jobs.fans.profiles import open_profiles
from kvtui.jobs.fans.summary import PageFans, summarise
from tests.jobs.fans.test_profiles import GOODBOOKS, MSWEB, needs, truth


def test_small(tmp_path):
    path = tmp_path / "profiles"
    path.write_bytes(b"x\nx\ty\n\nhttp://a.test/The-Page\t\xff\nx\tz\n")
    found = summarise(open_profiles(path), names={"z": "Zed"})
    assert (found.profiles, found.empty_profiles, found.bad_lines) == (4, 1, 1)
    assert (found.memberships, found.pages, found.pages_with_one_fan) == (5, 3, 2)
    assert found.mean_fans == pytest.approx(5 / 3)
    assert found.mean_length == 1.25
    assert (found.median_length, found.max_length) == (1.5, 2)
    assert found.top == [
        PageFans("x", "", 3),
        PageFans("y", "", 1),
        PageFans("z", "Zed", 1),
    ]
    assert found.first_bad[0].number == 4
    assert found.format == "one profile a line, tab-separated"


def test_nothing_measured_is_none(tmp_path):
    path = tmp_path / "profiles"
    path.write_text("[\n")
    found = summarise(open_profiles(path, format="jsonl"))
    assert found.profiles == 0
    assert found.mean_fans is found.mean_length is found.median_length is None
    assert found.p90_length is found.max_length is None


@pytest.mark.parametrize("ids_in_ram", [10, 1000, 10**9])
def test_spilling_changes_no_figure(tmp_path, monkeypatch, ids_in_ram):
    monkeypatch.setattr(module, "_IDS_IN_RAM", ids_in_ram)
    profiles = [
        [f"p{n * k % 997}" for k in range(1, n % 17 + 1)] for n in range(1, 2000)
    ]
    path = tmp_path / "profiles"
    path.write_text("".join("\t".join(p) + "\n" for p in profiles))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    found = summarise(open_profiles(path), scratch)
    distinct = [set(profile) for profile in profiles]
    fans = Counter(page for profile in distinct for page in profile)
    lengths = [len(profile) for profile in distinct]
    assert found.pages == len(fans)
    assert found.memberships == fans.total()
    assert found.pages_with_one_fan == sum(n == 1 for n in fans.values())
    assert found.median_length == statistics.median(lengths)
    assert found.p90_length == pytest.approx(np.percentile(lengths, 90))
    best = sorted(fans.items(), key=lambda item: (-item[1], item[0]))[:10]
    assert [(top.page, top.fans) for top in found.top] == best
    assert list(scratch.iterdir()) == []


def test_no_scratch_space_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IDS_IN_RAM", 1)
    path = tmp_path / "profiles"
    path.write_text("a\tb\n")
    with pytest.raises(DataError, match="temporary disk space") as caught:
        summarise(open_profiles(path), tmp_path / "nowhere")
    assert "TMPDIR" in str(caught.value.hint)


def test_temporary_files_have_no_name(tmp_path):
    with tempfile.TemporaryFile(dir=tmp_path):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param("msweb", MSWEB, marks=needs(MSWEB)),
        pytest.param(
            "goodbooks-toread",
            GOODBOOKS / "to_read.csv.zip",
            marks=needs(GOODBOOKS / "to_read.csv.zip"),
        ),
    ],
)
def test_real_data(name, path):
    found = summarise(open_profiles(path, first=10_000))
    expected = truth(name, "first10000")
    assert found.profiles == expected["users"]
    assert found.pages == expected["items"]
    assert found.memberships == expected["memberships"]
    assert found.mean_fans == pytest.approx(expected["fans_per_item"]["mean"], abs=1e-3)
    assert found.pages_with_one_fan == expected["fans_per_item"]["items_with_one_fan"]
    lengths = expected["list_length"]
    assert found.mean_length == pytest.approx(lengths["mean"], abs=1e-3)
    assert found.median_length == lengths["median"]
    assert found.p90_length == lengths["p90"]
    assert found.max_length == lengths["max"]
    fans = [item["fans"] for item in expected["top10_items"]]
    assert [top.fans for top in found.top] == fans
