"""The exact answer, against counting over plain sets."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui.jobs.fans import oracle
from kvtui.jobs.fans.dataset import Dataset
from tests.jobs.fans.people import compiled, counted, people_of, profiles


def answers(dataset: Dataset, bound: float) -> dict[str, dict[str, object]]:
    """Every page's record as the oracle counts it, slice by slice."""
    found: dict[str, dict[str, object]] = {}
    mine = np.arange(dataset.pages)
    for pages in oracle.slices(dataset, mine, bound):
        exact = oracle.Slice(dataset, pages)
        for page in pages.tolist():
            fans, others, shared = exact.expected(page)
            assert others.tolist() == sorted(others.tolist())
            name = dataset.page(page).decode()
            assert name not in found
            found[name] = {
                "page": name,
                "fans": fans,
                "pages": {
                    dataset.page(other).decode(): number
                    for other, number in zip(
                        others.tolist(), shared.tolist(), strict=True
                    )
                },
            }
    return found


@settings(deadline=None, max_examples=60)
@given(profiles, st.sampled_from([1.0, 300.0, 1e9]))
def test_it_is_what_sets_count(people: list[list[str]], bound: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dataset = compiled(people, Path(folder))
        assert answers(dataset, bound) == counted(people_of(dataset))


def test_people_without_a_pair_count_as_fans(tmp_path: Path) -> None:
    """106."""
    dataset = compiled([[], ["x"], ["x", "y"], []], tmp_path)
    assert answers(dataset, 1e9) == {
        "x": {"page": "x", "fans": 2, "pages": {"y": 1}},
        "y": {"page": "y", "fans": 1, "pages": {"x": 1}},
    }


def test_a_hot_page_counts_every_fan(tmp_path: Path) -> None:
    """034: 2,000 people have it."""
    people = [["hot", f"p{number % 7}", f"q{number % 11}"] for number in range(2000)]
    dataset = compiled(people, tmp_path)
    found = answers(dataset, 1000.0)
    assert found == counted(people)
    assert found["hot"]["fans"] == 2000


@pytest.mark.parametrize("bound_kb", [0, 1, 10, 64, 1000, 10**9])
def test_slices_keep_the_bound_and_cover_everything(
    tmp_path: Path, bound_kb: int
) -> None:
    people = [[f"p{n % k}" for k in (3, 50, 331)] for n in range(3000)]
    dataset = compiled([sorted(set(pages)) for pages in people], tmp_path)
    mine = np.arange(0, dataset.pages, 2)
    bound = bound_kb * 1000.0
    found = list(oracle.slices(dataset, mine, bound))
    assert np.concatenate(found).tolist() == mine.tolist()
    for pages in found:
        held = int(dataset.fans[pages].sum()) * oracle._BYTES_A_MEMBERSHIP
        assert len(pages) == 1 or held <= bound
    # Nor are they smaller than they need be.
    for before, after in itertools.pairwise(found):
        both = int(dataset.fans[before].sum() + dataset.fans[after[0]])
        assert both * oracle._BYTES_A_MEMBERSHIP > bound


def test_no_pages_are_no_slices(tmp_path: Path) -> None:
    dataset = compiled([["x", "y"]], tmp_path)
    assert list(oracle.slices(dataset, np.zeros(0, np.int64), 1000.0)) == []


def test_many_memberships_are_found_across_scans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is gone through in parts; a part's edge loses nothing."""
    monkeypatch.setattr(oracle, "_SCAN", 7)
    people = [[f"p{n % 5}", f"q{n % 3}", "r"] for n in range(40)]
    dataset = compiled(people, tmp_path)
    assert answers(dataset, 500.0) == counted(people)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"fans": 8}, "fans is 8, not 7"),
        ({"pages": {"a": 2}}, "'b' are 0, not 5"),
        ({"pages": {"a": 2, "b": 4}}, "'b' are 4, not 5"),
        ({"pages": {"a": 2, "b": 5, "c": 1}}, "'c' are 1, not 0"),
        ({"pages": {"a": 2, "b": 5}, "extra": 1}, "differs"),
    ],
)
def test_the_difference_is_named(change: dict[str, object], words: str) -> None:
    expected = {"page": "p", "fans": 7, "pages": {"a": 2, "b": 5}}
    assert words in oracle.difference(expected, expected | change)
