"""Shares of the hottest records, against figures computed from YCSB's algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from kvtui.jobs.ycsb import distributions as of
from kvtui.jobs.ycsb.parameters import DISTRIBUTIONS, YcsbParameters

DRAWS = 1_000_000


def drawn(
    name: str, records: int, size: int = DRAWS, *, seed: int = 1, **given: float
) -> NDArray[np.int64]:
    """So many draws from that many records."""
    asked = YcsbParameters(records=records, **given)  # type: ignore[arg-type]
    chooser = of.chooser(name, asked, span=records, client=0, clients=1)
    random = np.random.default_rng(seed)
    return of.choose(chooser, random, np.full(size, records, np.int64))


def shares(found: NDArray[np.int64], records: int) -> tuple[float, float]:
    """Of the hottest record, and of the fifth of them that is hottest."""
    counts = np.sort(np.bincount(found, minlength=records))[::-1]
    return counts[0] / len(found), counts[: records // 5].sum() / len(found)


@pytest.mark.parametrize(
    ("name", "records", "hottest", "fifth"),
    [
        ("zipfian", 1_000, 0.038, 0.39),
        ("zipfian", 100_000, 0.038, 0.56),
        ("zipfian", 1_000_000, 0.038, 0.77),
        ("zipfian-plain", 1_000, 0.129, 0.79),
        ("zipfian-plain", 100_000, 0.078, 0.87),
        ("zipfian-plain", 1_000_000, 0.065, 0.98),
        ("latest", 1_000, 0.129, 0.79),
        ("latest", 100_000, 0.078, 0.87),
    ],
)
def test_shares_are_those_of_the_algorithm(
    name: str, records: int, hottest: float, fifth: float
) -> None:
    found = shares(drawn(name, records), records)
    assert found[0] == pytest.approx(hottest, abs=0.0012)
    assert found[1] == pytest.approx(fifth, abs=0.006)


def test_which_record_is_hottest() -> None:
    assert np.bincount(drawn("zipfian-plain", 1000)).argmax() == 0
    assert np.bincount(drawn("latest", 1000)).argmax() == 999
    # FNV of 0, which is what YCSB's scrambling makes of its likeliest number.
    assert np.bincount(drawn("zipfian", 1000)).argmax() == 6284781860667377211 % 1000


def test_uniform_is_even() -> None:
    counts = np.bincount(drawn("uniform", 100), minlength=100)
    assert counts.min() > 9_500
    assert counts.max() < 10_500


@pytest.mark.parametrize("hot", [0.2, 0.01])
def test_hotspot_goes_so_often_to_the_lowest(hot: float) -> None:
    found = drawn("hotspot", 10_000, hot_records=hot)
    assert (found < 10_000 * hot).mean() == pytest.approx(0.8, abs=0.003)
    inside = np.bincount(found[found < 10_000 * hot])
    assert inside.max() < 1.5 * inside.mean()


def test_a_hot_set_without_records_and_one_of_all() -> None:
    assert len(np.unique(drawn("hotspot", 100, hot_records=0))) == 100
    assert len(np.unique(drawn("hotspot", 100, hot_records=1))) == 100


def test_exponential_has_its_percentile_among_the_newest() -> None:
    found = drawn("exponential", 100_000, exponential_fraction=0.1)
    assert (found >= 90_000).mean() == pytest.approx(0.95, abs=0.002)
    # YCSB's own 6/7: what lies before the first record is drawn again.
    found = drawn("exponential", 100_000)
    within = 0.95 / (1 - 0.05 ** (7 / 6))
    assert (found >= 100_000 / 7).mean() == pytest.approx(within, abs=0.003)


def test_sequential_clients_go_through_the_records_together() -> None:
    asked = YcsbParameters(records=10)
    counts = np.full(5, 10, np.int64)
    random = np.random.default_rng(1)
    found = []
    for client in range(3):
        chooser = of.chooser("sequential", asked, span=10, client=client, clients=3)
        found.append([*chooser.draw(random, counts), *chooser.draw(random, counts)])
    together = [each for turn in zip(*found, strict=True) for each in turn]
    assert together == [number % 10 for number in range(30)]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@pytest.mark.parametrize("records", [1, 2, 3, 7])
def test_few_records_are_all_that_is_drawn(name: str, records: int) -> None:
    found = drawn(name, records, 10_000)
    assert set(found.tolist()) == set(range(records))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_seed_draws_the_same_and_another_one_not(name: str) -> None:
    once, again = drawn(name, 1000, 5000), drawn(name, 1000, 5000)
    assert once.tolist() == again.tolist()
    if name != "sequential":
        assert once.tolist() != drawn(name, 1000, 5000, seed=2).tolist()


@given(
    st.sampled_from(list(DISTRIBUTIONS)),
    st.lists(st.integers(0, 3), min_size=1, max_size=200),
    st.integers(1, 50),
    st.integers(0, 300),
)
def test_no_draw_lies_beyond_what_there_is(
    name: str, growth: list[int], records: int, beyond: int
) -> None:
    counts = records + np.cumsum(np.array(growth, np.int64))
    asked = YcsbParameters(records=records)
    chooser = of.chooser(name, asked, span=records + beyond, client=0, clients=1)
    found = of.choose(chooser, np.random.default_rng(1), counts)
    assert (found >= 0).all()
    assert (found < counts).all()


@pytest.mark.parametrize("theta", [0.1, 0.5, 0.99])
@pytest.mark.parametrize("items", [1, 2, 999, 1000, 1001, 1_000_000])
def test_zeta_is_the_sum(items: int, theta: float) -> None:
    exact = float((np.arange(1, items + 1, dtype=np.float64) ** -theta).sum())
    assert of.zeta(items, theta) == pytest.approx(exact, rel=1e-12)


def test_zeta_of_ycsbs_ten_thousand_million_items() -> None:
    found = of.zeta(of.SCRAMBLED_ITEMS, 0.99)
    assert found == pytest.approx(of.SCRAMBLED_ZETA, rel=1e-9)


def test_theta_says_how_skewed() -> None:
    flat = shares(drawn("zipfian-plain", 1000, theta=0.2), 1000)[0]
    steep = shares(drawn("zipfian-plain", 1000, theta=0.9), 1000)[0]
    assert flat == pytest.approx(1 / of.zeta(1000, 0.2), rel=0.05)
    assert steep == pytest.approx(1 / of.zeta(1000, 0.9), rel=0.05)
