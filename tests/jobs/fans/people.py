"""Profiles for tests, compiled, and the naive answer counted over plain sets."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from kvtui.jobs.fans.dataset import Dataset, compile_profiles, open_dataset
from kvtui.jobs.fans.profiles import open_profiles

NASTY = [
    "abc",
    'x"abc',
    'x,"abc',
    "x{abc",
    'abc":1,"',
    "abc\\",
    '\\"abc',
    "foo,",
    "foo{",
    "fo1,",
    ":1,",
    ":12,",
    ":x",
    ":5",
    ":",
    ",",
    "{",
    "}}",
    '"',
    "\\",
    "fans",
    "pages",
    "page",
    ',"pages":{',
    "ab",
    "c",
    "a b",
    "a\x00b",
    "a\u007f",
    "\u2028",
    "é",
    "e\u0301",
    "日本語",
    "🎸",
    "a" * 400,
    "#",
    "100%",
]

names = st.sampled_from(NASTY) | st.text(
    st.sampled_from('abc,:{}"\\1 ') | st.characters(exclude_categories=["Cs"]),
    min_size=1,
    max_size=6,
)

profiles = st.lists(
    st.lists(names, max_size=12, unique=True), min_size=1, max_size=25
).filter(any)


def compiled(people: Sequence[Sequence[str]], directory: Path) -> Dataset:
    """Those profiles as a compiled data set, under ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "people.jsonl"
    path.write_text(
        "".join(json.dumps({"pages": list(pages)}) + "\n" for pages in people)
    )
    compile_profiles(open_profiles(path, format="jsonl"), directory / "prepared")
    return open_dataset(directory / "prepared")


def people_of(dataset: Dataset) -> list[list[str]]:
    """The profiles of a compiled data set, as it has read them."""
    offsets, members = dataset.offsets.tolist(), dataset.members.tolist()
    return [
        [dataset.page(page).decode() for page in members[start:end]]
        for start, end in itertools.pairwise(offsets)
    ]


def counted(people: Sequence[Sequence[str]]) -> dict[str, dict[str, Any]]:
    """Every page's record, the slow and obvious way."""
    fans: Counter[str] = Counter()
    shared: dict[str, Counter[str]] = {}
    for pages in people:
        for page in set(pages):
            fans[page] += 1
            shared.setdefault(page, Counter()).update(set(pages) - {page})
    return {
        page: {"page": page, "fans": number, "pages": dict(shared[page])}
        for page, number in fans.items()
    }
