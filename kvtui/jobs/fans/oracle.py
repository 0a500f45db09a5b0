"""The exact answer: fans and shared fans of every page, counted in RAM.

Counted page by page from the compiled data set, in slices of pages whose fan
lists fit a stated bound, so that any file can be checked in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvtui.jobs.fans.dataset import Dataset

Numbers = NDArray[np.int64]

_BYTES_A_MEMBERSHIP: Final = 64
"""What a slice holds for each of its memberships: positions, pages, profiles and
the sorting of them (eight bytes each), with room for numpy's copies."""
_SCAN: Final = 1_000_000


def slices(dataset: Dataset, mine: Numbers, bound_bytes: float) -> Iterator[Numbers]:
    """The pages ``mine`` in ascending order, cut so that each slice fits."""
    weights = np.cumsum(dataset.fans[mine].astype(np.int64)) * _BYTES_A_MEMBERSHIP
    begin = 0
    while begin < len(mine):
        before = int(weights[begin - 1]) if begin else 0
        end = int(np.searchsorted(weights, before + bound_bytes, side="right"))
        end = max(end, begin + 1)
        yield mine[begin:end]
        begin = end


class Slice:
    """The fan lists of some pages."""

    def __init__(self, dataset: Dataset, pages: Numbers) -> None:
        self._dataset = dataset
        wanted = np.zeros(dataset.pages, dtype=bool)
        wanted[pages] = True
        found: list[Numbers] = []
        for start in range(0, dataset.memberships, _SCAN):
            part = np.asarray(dataset.members[start : start + _SCAN])
            found.append(np.flatnonzero(wanted[part]) + start)
        positions = np.concatenate(found) if found else np.zeros(0, np.int64)
        page_of = np.asarray(dataset.members)[positions]
        order = np.argsort(page_of, kind="stable")
        profiles = np.searchsorted(dataset.offsets, positions, side="right") - 1
        self._profiles: Numbers = profiles[order]
        self._starts: Numbers = np.searchsorted(page_of[order], pages, side="left")
        self._ends: Numbers = np.searchsorted(page_of[order], pages, side="right")
        self._index = {int(page): index for index, page in enumerate(pages)}

    def expected(self, page: int) -> tuple[int, Numbers, Numbers]:
        """``(fans, co-pages ascending, shared fans of each)`` of one page."""
        index = self._index[page]
        profiles = self._profiles[self._starts[index] : self._ends[index]]
        dataset = self._dataset
        begins = np.asarray(dataset.offsets)[profiles]
        lengths = np.asarray(dataset.offsets)[profiles + 1] - begins
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        # Positions of every member of every fan's list, without a Python loop.
        places = np.arange(total) + np.repeat(begins - (ends - lengths), lengths)
        others, shared = np.unique(
            np.asarray(dataset.members)[places], return_counts=True
        )
        keep = others != page
        return len(profiles), others[keep].astype(np.int64), shared[keep]


def difference(expected: dict[str, Any], found: dict[str, Any]) -> str:
    """The first thing wrong with a record, in words."""
    if found["fans"] != expected["fans"]:
        return f"fans is {found['fans']}, not {expected['fans']}"
    wanted, there = expected["pages"], found["pages"]
    for page, shared in wanted.items():
        if there.get(page) != shared:
            return f"shared fans with {page!r} are {there.get(page, 0)}, not {shared}"
    extra = next(iter(page for page in there if page not in wanted), None)
    if extra is not None:
        return f"shared fans with {extra!r} are {there[extra]}, not 0"
    return "it differs from the exact answer"
