"""The contract between the engine and a workload.

A workload speaks in operations and never sees a clock, a socket or a thread. The
runner prepares it once a run; every worker opens it, takes its share of the
clients, and after the measure phase verifies what they wrote.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from kvtui.stores.operations import Client

Keep = Callable[[int, bytes], None]
"""Takes the copy of one record: its number and what the store held."""


class Prepared(Struct, frozen=True):
    """What the runner learned when it read the workload's input."""

    facts: dict[str, int | float | str]
    bad_lines: int = 0
    first_bad: tuple[tuple[int, str], ...] = ()


class Room(Struct, frozen=True):
    """What a workload's records will take in a store."""

    records: int
    total_bytes: int
    """Of all values together, near enough; keys and the store's own needs come on
    top."""
    largest_bytes: int
    """Of the largest value, exactly."""
    largest_name: str
    counters: bool = False
    """Whether they are counters, of which each store makes its own: the bytes are
    those that they would have as values."""


class Findings(Struct):
    """What verifying has found so far."""

    checked: int = 0
    expected: int = 0
    wrong: int = 0
    first_wrong: str = ""
    sampled: bool = False
    stored_bytes: int = 0
    kinds: dict[str, int] = {}
    """Of what is wrong, how many in which way, where the workload tells them apart."""


class Keeper(ABC):
    """Writes the copy of the records that a trial leaves."""

    @abstractmethod
    def keep(self, number: int, record: bytes) -> None:
        """Take one record."""

    @abstractmethod
    def close(self) -> None:
        """Finish the file."""

    @abstractmethod
    def discard(self) -> None:
        """Leave no file behind."""


class Workload(ABC):
    """One workload with its parameters."""

    name: ClassVar[str]
    namespace: ClassVar[str]
    """Under which all its keys stand."""
    writes: ClassVar[bool] = True
    """Whether it needs a store that can be written to."""
    kinds: ClassVar[frozenset[str]] = frozenset()
    """The kinds of store that it can be asked of; empty: any."""
    stages: ClassVar[bool] = False
    """Whether connecting and waiting are to be told apart within an operation."""
    bursts: ClassVar[bool] = False
    """Whether its clients yield bursts of operations."""
    fills: ClassVar[bool] = False
    """Whether it puts records into the store before the clock of measuring runs."""

    @classmethod
    @abstractmethod
    def check(cls, parameters: dict[str, Any]) -> None:
        """Raise UsageError for parameters that make no sense; reads no file."""

    @classmethod
    def settled(
        cls, given: dict[str, Any], *, seed: int, clients: int
    ) -> dict[str, Any]:
        """The parameters with what it takes from the run, for those whose input
        depends on that; all else is asked with these."""
        return given

    @classmethod
    @abstractmethod
    def prepare(
        cls,
        parameters: dict[str, Any],
        directory: Path,
        progress: Callable[[int], None],
    ) -> Prepared:
        """Read the input once, into ``directory``; DataError when it is unusable."""

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """Capabilities that a store must have for it."""

    def room(self) -> Room | None:
        """What its records will take; None where it does not know beforehand."""
        return None

    def share(self, path: Path | None) -> None:
        """Take a file of this trial that all of its workers can map; None where there
        is only one of them. Comes before :meth:`load`."""
        return None

    @abstractmethod
    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Take the share of clients ``mine`` of ``clients``, before the clock runs.

        ``keeps`` is False for a store that drops everything by nature.
        """

    def fillers(self) -> list[Client]:
        """Clients that put the records into the store, one for each of ``mine``;
        asked for only where :attr:`fills` says so. Progress is theirs meanwhile."""
        return []

    @abstractmethod
    def client(self, index: int) -> Client:
        """The client of that index, one of ``mine``."""

    @abstractmethod
    def progress(self) -> tuple[int, int]:
        """Work units done and to do, over this worker's clients."""

    @abstractmethod
    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """Batches of clients that read back what this worker's clients wrote.

        A batch has at most as many clients as this worker; it is run to its end
        before the next is asked for. What they find stands in :attr:`findings`.
        """

    @property
    @abstractmethod
    def findings(self) -> Findings:
        """What verifying has found so far."""

    @abstractmethod
    def keeper(self, path: Path, facts: dict[str, str]) -> Keeper | None:
        """A new file for the copy of a trial's records (runner only); None where the
        workload has no records to keep."""
