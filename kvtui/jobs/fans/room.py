"""How much room the records of a data set will take, before they are written.

The sizes of some pages' records are exact, from the oracle: the largest ones, and a
sample of the others. What all records take is estimated from them (ratio estimator:
a page's size is close to proportional to how many co-pages it can have at most,
which is known of every page).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import orjson
from numpy.typing import NDArray

from kvtui.jobs.fans import oracle
from kvtui.jobs.fans.dataset import Dataset
from kvtui.jobs.workload import Room

_LARGEST: Final = 24
_SAMPLED: Final = 200
_SCAN: Final = 1_000_000
_FRAME_BYTES: Final = len(b'{"page":,"fans":,"pages":{}}')
_MEMBERSHIPS: Final = 4_000_000
"""How many list entries the sample may look at, so that it takes about a second."""


def estimate(dataset: Dataset) -> Room:
    """What the records of all pages come to."""
    most = _most_co_pages(dataset)
    ordered = np.argsort(-most, kind="stable")
    exactly, others = ordered[:_LARGEST], ordered[_LARGEST:]
    if len(others):
        chosen = np.random.default_rng(1).permutation(len(others))[:_SAMPLED]
        sample = others[np.sort(chosen)]
    else:
        sample = others
    sample = sample[np.cumsum(most[sample]) <= _MEMBERSHIPS]
    pages = np.sort(np.concatenate([exactly, sample]))
    sizes = dict(zip(pages.tolist(), _sizes(dataset, pages), strict=True))
    largest = max(sizes, key=lambda page: sizes[page])
    total = float(sum(sizes[page] for page in exactly.tolist()))
    if len(sample):
        seen = sum(sizes[page] for page in sample.tolist())
        weight = _weights(most)
        total += seen * float(weight[others].sum()) / float(weight[sample].sum())
    return Room(
        records=dataset.pages,
        total_bytes=int(total),
        largest_bytes=sizes[largest],
        largest_name=dataset.page(largest).decode("utf-8", "replace"),
    )


def _weights(most: NDArray[np.int64]) -> NDArray[np.float64]:
    """What a page's size is taken to be proportional to; a page without co-pages
    still has a record."""
    return np.sqrt(most.astype(np.float64)) + 1.0


def _most_co_pages(dataset: Dataset) -> NDArray[np.int64]:
    """For each page, the lengths of its fans' lists together: an upper bound of how
    many other pages its record names."""
    lengths = np.diff(np.asarray(dataset.offsets))
    most = np.zeros(dataset.pages, np.float64)
    for start in range(0, dataset.memberships, _SCAN):
        part = np.asarray(dataset.members[start : start + _SCAN])
        places = np.arange(start, start + len(part))
        people = np.searchsorted(dataset.offsets, places, side="right") - 1
        most += np.bincount(part, lengths[people] - 1, minlength=dataset.pages)
    return most.astype(np.int64)


def _sizes(dataset: Dataset, pages: NDArray[np.int64]) -> list[int]:
    """The exact bytes of some pages' records, as ``records.encode`` makes them."""
    quoted: dict[int, int] = {}

    def length(page: int) -> int:
        found = quoted.get(page)
        if found is None:
            text = dataset.page(page).decode("utf-8", "replace")
            found = quoted[page] = len(orjson.dumps(text))
        return found

    exact = oracle.Slice(dataset, pages)
    sizes = []
    for page in pages.tolist():
        fans, co_pages, shared = exact.expected(page)
        names = sum(map(length, co_pages.tolist()))
        digits = int(np.floor(np.log10(shared)).sum()) + len(shared) if fans else 0
        # A colon for each, and commas between them.
        signs = max(0, 2 * len(shared) - 1)
        sizes.append(
            _FRAME_BYTES + length(page) + len(str(fans)) + names + digits + signs
        )
    return sizes
