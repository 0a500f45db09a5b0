"""The sample: the article's numbers, the right shape, the same bytes again."""

import gzip
from collections import Counter
from itertools import combinations
from pathlib import Path
from statistics import mean, median

import pytest

from kvtui.errors import DataError, UsageError
from kvtui.jobs.fans.profiles import open_profiles, read_names
from kvtui.jobs.fans.synthetic import (
    GREEN_BAY_PACKERS,
    MICHAEL_JACKSON,
    SyntheticParameters,
    make_profiles,
)

DATA = Path(__file__).resolve().parents[3] / "data"


@pytest.fixture(scope="module")
def sample():
    return [dict.fromkeys(profile) for profile in open_profiles(DATA / "fans.tsv.gz")]


@pytest.fixture(scope="module")
def fans(sample):
    return Counter(page for profile in sample for page in profile)


def test_the_sample_is_what_the_program_makes(tmp_path):
    make_profiles(
        SyntheticParameters(), tmp_path / "fans.tsv.gz", tmp_path / "names.tsv.gz"
    )
    same_packer = []
    for name in ("fans.tsv.gz", "names.tsv.gz"):
        made, kept = (tmp_path / name).read_bytes(), (DATA / name).read_bytes()
        assert gzip.decompress(made) == gzip.decompress(kept)
        assert made[:8] == kept[:8]  # no time, no name
        same_packer.append(made == kept)
        assert len(kept) < 3_000_000
    # Another zlib may pack either in other bytes, but never only one of them.
    assert len(set(same_packer)) == 1


def test_the_articles_numbers(sample, fans):
    jackson, packers = MICHAEL_JACKSON.address, GREEN_BAY_PACKERS.address
    assert jackson == "http://www.facebook.com/michaeljackson"
    assert len(sample) == 10_000
    assert fans[jackson] == 406
    assert sum(jackson in profile and packers in profile for profile in sample) == 22
    assert fans.most_common(1) == [(jackson, 406)]


def test_the_shape(sample, fans):
    assert 2 < mean(fans.values()) < 3
    assert 0.65 < sum(n == 1 for n in fans.values()) / len(fans) < 0.75
    lengths = [len(profile) for profile in sample]
    assert mean(lengths) == pytest.approx(8, abs=0.3)
    assert median(lengths) == 6
    assert min(lengths) == 1
    popular = {page for page, _ in fans.most_common(1500)}
    pairs = Counter(
        pair
        for profile in sample
        for pair in combinations(sorted(popular.intersection(profile)), 2)
    )
    lifts = [
        count * len(sample) / (fans[a] * fans[b])
        for (a, b), count in pairs.most_common(100)
    ]
    assert 4 < median(lifts) < 6


def test_names_try_the_screens(fans):
    names = read_names(DATA / "names.tsv.gz")
    assert names.keys() == fans.keys()
    assert names[MICHAEL_JACKSON.address] == "Michael Jackson"
    assert names[GREEN_BAY_PACKERS.address] == "Green Bay Packers"
    values = list(names.values())
    for part in ("[NFL]", "[/]", ", ", '"', "é", "e\u0301", "日本", "קפה", "🎸"):
        assert any(part in name for name in values), part
    assert max(map(len, values)) > 150
    assert max(len(page.encode()) for page in names) > 250
    assert all(page.isascii() for page in names)


@pytest.mark.parametrize(
    ("profiles", "jackson", "both"), [(1, 0, 0), (100, 4, 0), (1000, 41, 2)]
)
def test_other_sizes_scale_the_articles_numbers(tmp_path, profiles, jackson, both):
    seen: list[int] = []
    path = tmp_path / "fans.tsv"
    make_profiles(SyntheticParameters(profiles=profiles), path, progress=seen.append)
    made = [set(profile) for profile in open_profiles(path, format="tabs")]
    assert len(made) == profiles == seen[-1]
    fans = [profile for profile in made if MICHAEL_JACKSON.address in profile]
    assert len(fans) == jackson
    assert sum(GREEN_BAY_PACKERS.address in profile for profile in fans) == both


def test_seed_and_parameters_decide(tmp_path):
    contents = []
    for seed, taste in ((1, 0.5), (1, 0.5), (2, 0.5), (1, 0.4)):
        path = tmp_path / "fans.tsv"
        make_profiles(SyntheticParameters(profiles=50, seed=seed, taste=taste), path)
        contents.append(path.read_bytes())
    assert contents[0] == contents[1]
    assert len(set(contents)) == 3


def test_a_pool_that_is_too_small_ends(tmp_path):
    parameters = SyntheticParameters(profiles=20, mean_length=1000, pool=1, groups=1)
    make_profiles(parameters, tmp_path / "fans.tsv")
    for profile in open_profiles(tmp_path / "fans.tsv", format="tabs"):
        assert len(set(profile)) == len(profile)


@pytest.mark.parametrize(
    "wrong",
    [
        {"profiles": 0},
        {"profiles": -1},
        {"seed": -1},
        {"mean_length": 0.5},
        {"mean_length": float("nan")},
        {"taste": 1.1},
        {"groups": 0},
    ],
)
def test_parameters_out_of_range(tmp_path, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong)).replace("_", " ")) as caught:
        make_profiles(SyntheticParameters(**wrong), tmp_path / "fans.tsv")
    assert "It goes from" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        make_profiles(SyntheticParameters(profiles=1), tmp_path / "no" / "fans.tsv")
