"""Whole runs inside the test's own process: the real runner, journal, snapshot and
worker, with threads for the workers' processes.

So a test may set the engine's limits low, step between two operations of a client,
and pay for no start of an interpreter.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from threading import Thread
from typing import Any

import pytest

from kvtui import config
from kvtui.engine import calls, runner, wire, worker
from kvtui.engine.channel import Receiver, Sender
from kvtui.engine.messages import Failed, Message, Order, WorkerPlan
from kvtui.engine.trial import WorkerProcess
from kvtui.errors import KvtuiError, OperationFailed
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.runs import history
from kvtui.runs.events import Event
from kvtui.runs.history import RunDirectory
from kvtui.runs.journal import JournalReader
from kvtui.runs.plan import RunPlan
from kvtui.stores.operations import Client
from tests.engine.sums import InThread
from tests.waiting import until

REPORT_NS = 100_000_000
LIMIT_S = 300.0


class WorkerThread(WorkerProcess):
    """A worker as the runner knows it, in a thread."""

    def __init__(self, plan: WorkerPlan, log: int) -> None:
        self.number = plan.worker
        reading, self._writing = os.pipe()
        self._telling = Sender(self._writing)
        self.receiver: Receiver[Message] = Receiver(reading, Message)
        self.ready = self.measured = self.verified = None
        self.verify_finished = False
        self.reports = {}
        self._orders = worker.Orders()
        self._thread = Thread(target=self._work, daemon=True, name="worker")
        self._thread.start()
        self.send(plan)

    @property
    def process_id(self) -> int:
        """The test's."""
        return os.getpid()

    def send(self, order: Order) -> None:
        """Tell it something."""
        self._orders.put(order)

    def death(self) -> str:
        """How it ended."""
        return "ended"

    def end(self) -> None:
        """Wait for it to end."""
        self._orders.control.stop()
        self._orders.put(None)
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), "the worker did not end"
        os.close(self.receiver.file)

    def _work(self) -> None:
        try:
            worker.work(self._orders, self._telling.send)
        except KvtuiError as error:
            self._telling.send(Failed(error.message, error.hint or ""))
        except BrokenPipeError:
            pass
        finally:
            os.close(self._writing)


class Stage:
    """Where such runs are carried out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        monkeypatch.setattr(runner, "WorkerProcess", WorkerThread)
        monkeypatch.setattr(worker, "REPORT_NS", REPORT_NS)
        self.run: RunDirectory | None = None

    def give_up_after(self, length_s: float) -> None:
        """How long a store may be gone before its trial ends."""
        for loop in (calls, wire):
            self._patch.setattr(loop, "GIVE_UP_S", length_s)

    def step_in(self, deeds: dict[int, Callable[[], None]], client: int = 0) -> None:
        """Do something just before the client asks its operation of that number."""
        made = FansWorkload.client

        def stepping(workload: FansWorkload, index: int) -> Client:
            asking = made(workload, index)
            return _between(asking, deeds) if index == client else asking

        self._patch.setattr(FansWorkload, "client", stepping)

    def begin(self, plan: RunPlan) -> InThread:
        """Carry it out in a thread; its directory is in :attr:`run`."""
        plan.check()
        self.run = history.create(config.runs_directory(), plan)
        return InThread(runner.Runner(self.run).execute)

    def until_told(self, condition: Callable[[Event], bool], what: str) -> None:
        """Wait until the journal has such an event."""
        assert self.run is not None
        reader = JournalReader(self.run.journal)
        until(lambda: any(map(condition, reader.read())), what)

    def carry_out(self, plan: RunPlan) -> RunDirectory:
        """Carry it out to its end, which must come within LIMIT_S."""
        self.begin(plan).result(LIMIT_S)
        assert self.run is not None
        return self.run


def _between(asking: Client, deeds: dict[int, Callable[[], None]]) -> Client:
    """The same client, with each deed once, before the operation of its number."""
    number = 0
    try:
        operation = next(asking)
        while True:
            number += 1
            deed: Any = deeds.pop(number, None)
            if deed is not None:
                deed()
            try:
                reply = yield operation
            except OperationFailed as error:
                operation = asking.throw(error)
            else:
                operation = asking.send(reply)
    except StopIteration as ended:
        figures: dict[str, int] | None = ended.value
        return figures
    finally:
        asking.close()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage with nothing on it."""
    return Stage(monkeypatch)
