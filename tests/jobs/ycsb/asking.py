"""Workloads with their clients, driven against stores that may lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kvtui.engine import calls
from kvtui.engine.bursts import one_by_one
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.jobs.registry import workload_class
from kvtui.jobs.workload import Findings
from kvtui.jobs.ycsb.workload import YcsbWorkload
from kvtui.stores.operations import Client, Operation
from kvtui.stores.ram import RamStore
from kvtui.stores.store import Store
from tests.engine.sums import Sums, sums

Get = Callable[[bytes], bytes | None]
Put = Callable[[bytes, bytes], None]


class Lying(RamStore):
    """A dict whose ``get`` and ``put`` can be replaced by something worse."""

    def __init__(self) -> None:
        super().__init__({})
        self.honest_get: Get = self.get
        self.honest_put: Put = self.put

    def lie(self, get: Get | None = None, put: Put | None = None) -> None:
        """Use these instead of its own; without any, be honest again."""
        self.__dict__.update(get=get or self.honest_get, put=put or self.honest_put)

    @property
    def values(self) -> dict[bytes, bytes]:
        """What it holds."""
        return self._values


def opened(
    name: str,
    mine: Sequence[int] = (0,),
    *,
    clients: int = 1,
    seed: int = 1,
    keeps: bool = True,
    shared: Path | None = None,
    **given: Any,
) -> YcsbWorkload:
    """A workload as a worker has it that hosts the clients ``mine``."""
    kind: Any = workload_class(name)
    settled = kind.settled(given, seed=seed, clients=clients)
    workload: YcsbWorkload = kind(settled, Path())
    workload.share(shared)
    workload.load(mine, clients, keeps=keeps)
    return workload


def run(
    clients: list[Client], store: Store, control: Control | None = None
) -> tuple[Sums, dict[str, int]]:
    """Drive them to their end in the calls loop; the sums, which add up."""
    recorder = Recorder(len(clients))
    figures = calls.run(clients, [store] * len(clients), recorder, control or Control())
    return sums(recorder), figures


def loaded(workload: YcsbWorkload, store: Store) -> Sums:
    """Fill the store."""
    return run(workload.fillers(), store)[0]


def measured(
    workload: YcsbWorkload, store: Store, control: Control | None = None
) -> tuple[Sums, dict[str, int]]:
    """Let all its clients run."""
    return run([workload.client(i) for i in workload.mine], store, control)


def swept(workload: YcsbWorkload, store: Store) -> Findings:
    """Read everything back."""
    for batch in workload.verifiers(lambda number, record: None):
        run(batch, store)
    return workload.findings


def operations(client: Client, store: Store) -> list[Operation]:
    """Everything that a client asks."""
    found: list[Operation] = []
    answer: Any = None
    client = one_by_one(client)
    try:
        while True:
            operation = client.send(answer)
            found.append(operation)
            match type(operation).__name__:
                case "Get":
                    answer = store.get(operation.key)
                case "Put":
                    answer = store.put(operation.key, operation.value)  # type: ignore[attr-defined]
                case "Scan":
                    answer = store.scan(operation.key, operation.count)  # type: ignore[attr-defined]
    except StopIteration:
        return found
