"""A run as it is asked for: what the runner reads, and nothing else.

A plan is complete: it names every store with its settings, the workload with its
parameters, and the seed, so that the same plan asks the same operations again. It
holds no secret; a store's password is named by where it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field

from kvtui.errors import UsageError

FORMAT = 1
"""Version of plan, journal and snapshot; raised when a reader must know."""

DEFAULT_CLIENTS = 8
"""Enough to keep a server busy, and few enough for a worker or two to drive."""
DEFAULT_WORKERS = 2
"""What the command line and the form ask for: with one, the worker would bound what
most servers can do (measured: Redis, records of 20 kB, 1.6 times as fast with two)."""
CLIENTS_LIMIT = 10_000
WORKERS_LIMIT = 256


class StorePlan(Struct, frozen=True):
    """One store: a kind with settings, under a name."""

    name: str
    kind: str
    settings: dict[str, Any] = {}
    private: bool = False
    """Whether the runner starts a server of its own for it."""


class WorkloadPlan(Struct, frozen=True):
    """What is asked of every store."""

    name: str
    parameters: dict[str, Any] = {}


class RunPlan(Struct, frozen=True):
    """An ordered list of trials: every store, ``repeat`` times over."""

    workload: WorkloadPlan
    stores: tuple[StorePlan, ...]
    clients: int = DEFAULT_CLIENTS
    """Over all workers."""
    workers: int = 1
    """Processes; a store embedded in its process always has one."""
    repeat: int = 1
    seed: int = 1
    save_to: str | None = None
    """A further place for the snapshot; absolute."""
    clear: bool = False
    """Whether keys that an earlier run left on a configured store may go."""
    keep: bool = False
    """Whether the records stay on a configured store after the run."""
    format: int = field(default=FORMAT)

    def trials(self) -> Iterator[tuple[int, StorePlan, int]]:
        """``(trial number from 0, store, repeat number from 1)`` in order."""
        number = 0
        for repeat in range(1, self.repeat + 1):
            for store in self.stores:
                yield number, store, repeat
                number += 1

    def check(self) -> None:
        """Raise UsageError for what cannot be run, with the field and a reason."""
        if not self.stores:
            raise UsageError("no store was chosen", hint="name one: --store ram")
        names = [store.name for store in self.stores]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(
                    f"store {name} is named twice",
                    hint="use --repeat to run a store several times",
                )
        _within("clients", self.clients, CLIENTS_LIMIT)
        _within("workers", self.workers, WORKERS_LIMIT)
        _within("repeat", self.repeat, 1000)
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"seed {self.seed} is not between 0 and 2^63 - 1")


def _within(name: str, value: int, limit: int) -> None:
    if not 1 <= value <= limit:
        raise UsageError(f"{name} must be from 1 to {limit:,}, not {value:,}")
