"""What the records will take, known before they are written."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import orjson
import pytest

from kvtui.jobs.fans import oracle, records, room
from kvtui.jobs.fans.dataset import Dataset, compile_profiles
from kvtui.jobs.fans.profiles import open_profiles
from tests.jobs.fans.people import NASTY


def compiled(directory: Path, profiles: list[list[str]]) -> Dataset:
    file = directory / "profiles.jsonl"
    file.write_bytes(b"\n".join(orjson.dumps({"pages": each}) for each in profiles))
    return compile_profiles(open_profiles(file), directory / "compiled")


def exact(dataset: Dataset) -> list[int]:
    """The sizes of all records, by making them."""
    names = [page.decode() for page in dataset.page_table()]
    pages = np.arange(dataset.pages)
    answer = oracle.Slice(dataset, pages)
    made = []
    for page in pages.tolist():
        fans, others, shared = answer.expected(page)
        pairs = zip(others.tolist(), shared.tolist(), strict=True)
        record = {
            "page": names[page],
            "fans": fans,
            "pages": {names[other]: number for other, number in pairs},
        }
        made.append(len(records.encode(record)))
    return made


def test_a_small_data_set_is_known_exactly(tmp_path: Path) -> None:
    dice = random.Random(1)
    pages = [f"http://ex.test/{number}" for number in range(12)]
    people = [dice.sample(pages, dice.randint(1, 9)) for _ in range(300)]
    dataset = compiled(tmp_path, people)
    found, wanted = room.estimate(dataset), exact(dataset)
    assert found.total_bytes == sum(wanted)
    assert found.largest_bytes == max(wanted)
    assert found.records == dataset.pages
    largest = dataset.page(wanted.index(max(wanted))).decode()
    assert exact(dataset)[dataset.page_table().index(largest.encode())] == max(wanted)
    assert found.largest_name in {page.decode() for page in dataset.page_table()}


@pytest.mark.parametrize("people", [[["x"]], [["x"], ["y"]], [NASTY, NASTY[:9]]])
def test_odd_data_sets_are_known_too(tmp_path: Path, people: list[list[str]]) -> None:
    dataset = compiled(tmp_path, people)
    found, wanted = room.estimate(dataset), exact(dataset)
    assert found.largest_bytes == max(wanted)
    assert found.total_bytes == sum(wanted)


def test_a_large_one_is_estimated_within_a_tenth(tmp_path: Path) -> None:
    dice = random.Random(2)
    pages = [f"http://ex.test/{number}" for number in range(2000)]
    weights = [1 / (rank + 5) for rank in range(2000)]
    people = [
        sorted(set(dice.choices(pages, weights, k=dice.randint(1, 20))))
        for _ in range(3000)
    ]
    dataset = compiled(tmp_path, people)
    found, wanted = room.estimate(dataset), exact(dataset)
    assert found.total_bytes == pytest.approx(sum(wanted), rel=0.1)
    assert found.largest_bytes == max(wanted)
