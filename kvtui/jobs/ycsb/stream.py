"""The operations of one client, drawn from the seed alone.

Client ``c`` of ``n`` draws from a generator of its own, seeded with the run's seed and
``c``; neither the store's answers nor the number of workers come into it. So the same
seed asks the same of every store. A client sees what was loaded and what it inserted
itself before: those records are certainly there, at any timing. (YCSB's clients see
each other's inserts too, and so ask something else each time.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kvtui.jobs.ycsb import parameters
from kvtui.jobs.ycsb.distributions import BATCH, Zipf, choose, chooser
from kvtui.jobs.ycsb.keys import Records
from kvtui.jobs.ycsb.parameters import YcsbParameters

READ, UPDATE, INSERT, SCAN, RMW = range(5)
"""Kinds of operation, in the order of :data:`parameters.PROPORTIONS`."""
WORDS: Final = ("reads", "updates", "inserts", "scans", "read-modify-writes")


class Draws(NamedTuple):
    """Some operations of one client, in order."""

    first: int
    """How many operations of this client came before."""
    kinds: NDArray[np.uint8]
    records: Records
    lengths: Records
    """Of the scans; empty where the mix has none."""


class Stream:
    """The operations of client ``client``."""

    def __init__(self, workload: str, given: YcsbParameters, client: int) -> None:
        self._given = given
        self._client = client
        self.total = share(given.operations, given.clients, client)
        mix = parameters.mix(workload, given)
        self._bounds = np.cumsum(mix)[:-1]
        self._inserts, self._scans = mix.insert > 0, mix.scan > 0
        # The same for every client, so that all have the same hot records: YCSB's
        # twice what is expected to be inserted.
        widened = 2 * math.ceil(given.operations / given.clients * mix.insert)
        self._chooser = chooser(
            parameters.distribution(workload, given),
            given,
            span=given.records + widened,
            client=client,
            clients=given.clients,
        )
        self._random = np.random.Generator(
            np.random.PCG64(np.random.SeedSequence([given.seed, client]))
        )
        self.inserted = 0
        """How many inserts have been drawn."""

    def __iter__(self) -> Iterator[Draws]:
        """Everything, in batches of a fixed size."""
        for first in range(0, self.total, BATCH):
            yield self._draw(first, min(BATCH, self.total - first))

    def _draw(self, first: int, size: int) -> Draws:
        random = self._random
        drawn = np.searchsorted(self._bounds, random.random(size), "right")
        kinds = drawn.astype(np.uint8)
        before = np.zeros(size, np.int64)
        inserting = kinds == INSERT
        if self._inserts:
            before = self.inserted + np.cumsum(inserting) - inserting
            self.inserted += int(inserting.sum())
        counts = self._given.records + before
        positions = choose(self._chooser, random, counts)
        # An insert makes the record that is the next one in its client's view.
        records = self.record(np.where(inserting, counts, positions))
        lengths = np.zeros(0, np.int64)
        if self._scans:
            lengths = self._lengths(size)
        return Draws(first, kinds, records, lengths)

    def record(self, positions: Records) -> Records:
        """Positions in this client's view as numbers of records: what it inserts lies
        beyond what was loaded, every n-th record of that."""
        if not self._inserts:
            return positions
        loaded = self._given.records
        own = loaded + (positions - loaded) * self._given.clients + self._client
        return np.where(positions < loaded, positions, own)

    def _lengths(self, size: int) -> Records:
        least, most = self._given.scan_shortest, self._given.scan_longest
        if self._given.scan_lengths == "uniform":
            return self._random.integers(least, most + 1, size)
        return least + Zipf(most - least + 1, self._given.theta).draw(
            self._random, size
        )


def share(total: int, clients: int, client: int) -> int:
    """A client's share of the operations; the first ones have one more where they do
    not come out even."""
    each, more = divmod(total, clients)
    return each + (client < more)


class Summary(NamedTuple):
    """What all clients together will ask."""

    counts: dict[str, int]
    """By kind; those that there are."""
    distinct: int
    """Records that are asked for at least once, but for inserts and what scans find."""
    digest: str
    """Of every operation of every client in order; hexadecimal."""


def summary(
    workload: str, given: YcsbParameters, progress: Callable[[int], None]
) -> Summary:
    """Draw everything once."""
    numbers = np.zeros(len(WORDS), np.int64)
    seen = np.zeros(given.records, np.bool_)
    beyond: set[int] = set()
    whole = blake2b(digest_size=16)
    whole.update(msgspec.json.encode(_asked(workload, given)))
    done = 0
    for client in range(min(given.clients, given.operations)):
        mine = blake2b(digest_size=16)
        for draws in Stream(workload, given, client):
            for part in draws[1:]:
                mine.update(np.ascontiguousarray(part).data)
            numbers += np.bincount(draws.kinds, minlength=len(WORDS))
            asked = draws.records[draws.kinds != INSERT]
            seen[asked[asked < given.records]] = True
            beyond.update(asked[asked >= given.records].tolist())
            done += len(draws.kinds)
            progress(done)
        whole.update(mine.digest())
    counts = {
        word: number
        for word, number in zip(WORDS, numbers.tolist(), strict=True)
        if number
    }
    return Summary(counts, int(seen.sum()) + len(beyond), whole.hexdigest())


def _asked(workload: str, given: YcsbParameters) -> list[object]:
    """What the operations depend on beside the draws: keys and values."""
    return [
        given.records,
        given.value_bytes,
        given.compress_ratio,
        given.insert_order,
        given.zero_padding,
        given.seed,
        given.clients,
    ]
