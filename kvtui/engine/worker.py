"""A worker: hosts clients, drives them against one store, and reports.

``work`` is a plain function of a way to hear orders and a way to emit messages.
``python -m kvtui.engine.worker`` runs it with pipes on standard input and output.
It dies with whoever started it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter_ns
from typing import Final, cast

from kvtui import secrets
from kvtui.engine import calls, wire
from kvtui.engine.bursts import one_by_one
from kvtui.engine.channel import Receiver, Sender
from kvtui.engine.control import Control
from kvtui.engine.messages import (
    EVICTED,
    RETRIES,
    FaultSeen,
    Finish,
    Go,
    Kept,
    MeasuredPart,
    Message,
    Order,
    Ready,
    Report,
    Stop,
    VerifiedPart,
    Verify,
    WorkerPlan,
)
from kvtui.engine.messages import Failed as WorkerFailed
from kvtui.engine.recorder import Recorder
from kvtui.errors import KvtuiError, StoreError, StoreUnavailable
from kvtui.jobs import registry as jobs
from kvtui.jobs.workload import Workload
from kvtui.stores import registry as stores
from kvtui.stores.operations import Client
from kvtui.stores.servers.ties import die_with_parent
from kvtui.stores.store import Store, StoreInfo, Wire, WireStore

Emit = Callable[[Message], None]

STOP_LIMIT_S: Final = 2.5
"""How long clients may take to finish their operations after a stop."""
KEEP_BATCH_BYTES: Final = 1_000_000
REPORT_NS: Final = 1_000_000_000
SPARE_FILES: Final = 64


class Orders:
    """What the runner has told, in order; Stop is taken out at once."""

    def __init__(self) -> None:
        self.control = Control()
        self._waiting: queue.SimpleQueue[Order | None] = queue.SimpleQueue()

    def put(self, order: Order | None) -> None:
        """Hear an order; None when no more can come."""
        if isinstance(order, Stop):
            self.control.stop()
        else:
            self._waiting.put(order)

    def next(self) -> Order | None:
        """The next order; blocks."""
        return self._waiting.get()


def work(orders: Orders, emit: Emit) -> None:
    """Do one trial's share: connect, load, measure, verify, disconnect."""
    plan = orders.next()
    if not isinstance(plan, WorkerPlan):
        return
    secrets.learn_settings(plan.settings)
    workload = jobs.open_workload(plan.workload, plan.parameters, Path(plan.prepared))
    with contextlib.ExitStack() as opened:
        target = _Target(plan, opened)
        info = target.admin.info()
        workload.share(Path(plan.shared) if plan.shared else None)
        workload.load(plan.mine, plan.clients, keeps=info.keeps)
        emit(Ready(info, workload.progress()[1]))
        while True:
            match orders.next():
                case Go(phase="load") as go:
                    part = _measure(plan, workload, target, orders.control, emit, go)
                    target.connect_again()
                    emit(part)
                case Go() as go:
                    retried = target.retries
                    part = _measure(plan, workload, target, orders.control, emit, go)
                    _count_evicted(part, info, target)
                    if target.retries > retried:
                        part.figures[RETRIES] = target.retries - retried
                    emit(part)
                case Verify():
                    _verify(workload, target, emit, plan.mode)
                case Finish() | None:
                    return


class _Target:
    """The store as this worker reaches it."""

    def __init__(self, plan: WorkerPlan, opened: contextlib.ExitStack) -> None:
        self._plan, self._opened = plan, opened
        adapter = stores.adapter(plan.kind)
        _allow_files(len(plan.mine) + SPARE_FILES)
        self.admin: Store = adapter(plan.settings)
        self.admin.open()
        opened.callback(self.admin.close)
        self._stores: list[Store] = []
        self._connections: list[tuple[socket.socket, Wire]] = []
        try:
            self._connect(adapter, opened)
        except StoreError as error:
            have = len(self._stores) + len(self._connections)
            limit, hint = self._allowed(), error.hint
            if limit and "--clients" not in (hint or ""):
                hint = "if that is why: raise the limit, or use fewer --clients"
            raise StoreUnavailable(
                f"only {have} of {len(plan.mine)} clients could connect"
                f"{limit}: {error.message}",
                hint=hint,
            ) from None

    def _allowed(self) -> str:
        """The server's limit of clients, in words, where it tells one to a
        connection that it has."""
        with contextlib.suppress(KvtuiError):
            told = self.admin.info().details
            for name in ("maxclients", "maxconns", "max_connections"):
                if told.get(name):
                    return f" (the server's {name} is {told[name]})"
        return ""

    def _connect(self, adapter: type[Store], opened: contextlib.ExitStack) -> None:
        plan = self._plan
        if plan.mode == "wire":
            for _ in plan.mine:
                connection = cast(WireStore, self.admin).wire()
                opened.callback(connection[0].close)
                self._connections.append(connection)
        elif adapter.shared_by_threads:
            self._stores = [self.admin] * len(plan.mine)
        else:
            for _ in plan.mine:
                store = adapter(plan.settings)
                store.open()
                opened.callback(store.close)
                self._stores.append(store)

    def connect_again(self) -> None:
        """For the next phase, before its clock runs: the wire loop closes what it had.
        StoreUnavailable where that cannot be."""
        if self._plan.mode == "wire":
            admin = cast(WireStore, self.admin)
            while len(self._connections) < len(self._plan.mine):
                self._connections.append(admin.wire())
                self._opened.callback(self._connections[-1][0].close)

    @property
    def retries(self) -> int:
        """Changes made anew within their operations, by all clients of this worker."""
        return sum(each.retries for each in {self.admin, *self._stores})

    def run(
        self, clients: list[Client], recorder: Recorder, control: Control
    ) -> dict[str, int]:
        """Drive the clients in this trial's way of driving."""
        if self._plan.mode != "wire":
            return calls.run(clients, self._stores, recorder, control)
        admin = cast(WireStore, self.admin)
        made, self._connections = self._connections[: len(clients)], []
        while len(made) < len(clients):
            made.append(admin.wire())
        return wire.run(
            clients,
            made,
            admin.wire,
            recorder,
            control,
            self._plan.timeout_s,
            admin.begin,
        )


def _measure(
    plan: WorkerPlan,
    workload: Workload,
    target: _Target,
    control: Control,
    emit: Emit,
    go: Go,
) -> MeasuredPart:
    recorder = Recorder(len(plan.mine), stages=workload.stages)
    if go.phase == "load":
        clients = workload.fillers()
    else:
        clients = [workload.client(index) for index in plan.mine]
    clients = _suiting(clients, workload, plan.mode)
    # Nothing that exists now is garbage; do not look through it while measuring.
    gc.collect()
    gc.freeze()
    reporter = _Reporter(workload, recorder, emit)
    figures: dict[str, int] = {}
    gone = ""
    ended = Event()
    # Every worker counts from the agreed moment, also one that comes to it late:
    # first request to last reply then means the same over all of them.
    start = go.begin_ns
    control.wait(max(0, start - perf_counter_ns()) / 1e9)

    def run() -> None:
        nonlocal figures, gone
        try:
            figures = target.run(clients, recorder, control)
        except KvtuiError as error:
            gone = error.message + (f" ({error.hint})" if error.hint else "")
        except Exception as error:
            secrets.print_traceback(error)
            gone = f"{type(error).__name__}: {error}"
        finally:
            ended.set()

    reporter.start(start)
    loop = Thread(target=run, name="loop", daemon=True)
    loop.start()
    while not ended.wait(0.25):
        if control.stopping and not ended.wait(STOP_LIMIT_S):
            break  # A client hangs in the store; what it waits for is unfinished.
    reporter.stop()
    gc.unfreeze()
    return _measured_part(recorder, figures, control, start, gone, hung=loop.is_alive())


def _suiting(clients: list[Client], workload: Workload, mode: str) -> list[Client]:
    """As the loop can drive them: the wire loop knows no bursts, as its turns are what
    lets many clients share a thread."""
    if workload.bursts and mode == "wire":
        return [one_by_one(client) for client in clients]
    return clients


def _count_evicted(part: MeasuredPart, before: StoreInfo, target: _Target) -> None:
    """Keys that the server dropped to stay within its memory limit, as it counts."""
    if "evicted_keys" not in before.details or part.gone:
        return
    with contextlib.suppress(KvtuiError):
        after = target.admin.info().details.get("evicted_keys", "")
        evicted = int(after or 0) - int(before.details["evicted_keys"] or 0)
        if evicted > 0:
            part.figures[EVICTED] = evicted


def _measured_part(
    recorder: Recorder,
    figures: dict[str, int],
    control: Control,
    start: int,
    gone: str,
    hung: bool,
) -> MeasuredPart:
    unfinished, oldest_ns = recorder.unfinished, recorder.oldest_unfinished_ns
    attempted = recorder.attempted
    if hung:
        ages = [perf_counter_ns() - began for began in recorder.waiting if began]
        unfinished += len(ages)
        oldest_ns = max([oldest_ns, *ages])
        # The loops that hang have not handed over their last counts.
        attempted = recorder.finished + unfinished
    return MeasuredPart(
        first_s=_offset_s(recorder.first_ns, start),
        last_s=_offset_s(recorder.last_ns, start),
        attempted=attempted,
        finished=recorder.finished,
        unfinished=unfinished,
        oldest_unfinished_s=oldest_ns / 1e9,
        client_work_s=recorder.client_work_ns / 1e9,
        store_s=recorder.latency_ns / 1e9,
        reconnects=recorder.reconnects,
        figures=figures,
        stopped=control.stopping and not gone,
        gone=gone,
    )


def _offset_s(reading_ns: int | None, start: int) -> float | None:
    return None if reading_ns is None else (reading_ns - start) / 1e9


class _Reporter:
    """One report a second, from a thread of its own."""

    def __init__(self, workload: Workload, recorder: Recorder, emit: Emit) -> None:
        self._workload, self._recorder, self._emit = workload, recorder, emit
        self._stop = Event()
        self._thread = Thread(target=self._run, name="reporter", daemon=True)
        self._start = self._since = 0
        self._index = 0
        self._cpu_s = 0.0

    def start(self, start: int) -> None:
        """Report every second from ``start`` (a reading of perf_counter_ns) on."""
        self._start = self._since = start
        self._cpu_s = time.process_time()
        self._thread.start()

    def stop(self) -> None:
        """Report the last, shorter interval and end."""
        self._stop.set()
        self._thread.join()
        self._report()

    def _run(self) -> None:
        while True:
            due = self._start + (self._index + 1) * REPORT_NS
            if self._stop.wait(max(0.0, (due - perf_counter_ns()) / 1e9)):
                return
            self._report()

    def _report(self) -> None:
        taken = self._recorder.take()
        now = perf_counter_ns()
        cpu_s = time.process_time()
        done, total = self._workload.progress()
        for fault in self._recorder.take_faults():
            self._emit(
                FaultSeen(
                    fault.operation,
                    fault.kind,
                    fault.message,
                    max(0.0, (fault.at_ns - self._start) / 1e9),
                )
            )
        self._emit(
            Report(
                index=self._index,
                start_s=(self._since - self._start) / 1e9,
                length_s=(now - self._since) / 1e9,
                operations=taken.operations,
                done=done,
                total=total,
                read_bytes=taken.read_bytes,
                written_bytes=taken.written_bytes,
                stages=taken.stages,
                cpu_s=cpu_s - self._cpu_s,
                oldest_waiting_s=self._recorder.oldest_waiting_ns(perf_counter_ns)
                / 1e9,
            )
        )
        self._since, self._cpu_s = now, cpu_s
        self._index += 1


def _verify(workload: Workload, target: _Target, emit: Emit, mode: str) -> None:
    batch: list[tuple[int, bytes]] = []
    batch_bytes = 0
    done = Event()
    keeping = Lock()

    def keep(number: int, record: bytes) -> None:
        nonlocal batch, batch_bytes
        with keeping:
            batch.append((number, record))
            batch_bytes += len(record)
            if batch_bytes >= KEEP_BATCH_BYTES:
                emit(Kept(batch))
                batch, batch_bytes = [], 0

    def tell() -> None:
        while not done.wait(0.5):
            emit(VerifiedPart(workload.findings, finished=False))

    teller = Thread(target=tell, name="teller", daemon=True)
    teller.start()
    try:
        for clients in workload.verifiers(keep):
            clients = _suiting(clients, workload, mode)
            target.run(clients, Recorder(len(clients)), Control())
    finally:
        done.set()
        teller.join()
    if batch:
        emit(Kept(batch))
    emit(VerifiedPart(workload.findings, finished=True))


def _allow_files(wanted: int) -> None:
    """Raise the soft limit of open files where the clients need more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise StoreUnavailable(
            f"{wanted} open files are needed, {hard} are allowed",
            hint="raise the limit (ulimit -n), or use fewer --clients",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def main() -> None:
    """Work for the process at the other end of the pipes."""
    die_with_parent()
    secrets.guard()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever a library prints goes to the log, not between the messages.
    out = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    sender, orders = Sender(out), Orders()
    Thread(target=_listen, args=(orders,), name="orders", daemon=True).start()
    code = 0
    try:
        work(orders, sender.send)
    except KvtuiError as error:
        code = _tell(sender, WorkerFailed(error.message, error.hint or ""))
    except BrokenPipeError:
        code = 1
    except Exception as error:
        secrets.print_traceback(error)
        reason = secrets.hidden(f"{type(error).__name__}: {error}")
        code = _tell(sender, WorkerFailed(reason))
    sys.stderr.flush()
    # A thread may hang in a driver for ever; nothing of it is wanted any more.
    os._exit(code)


def _tell(sender: Sender, message: Message) -> int:
    with contextlib.suppress(OSError):
        sender.send(message)
    return 1


def _listen(orders: Orders) -> None:
    receiver: Receiver[Order] = Receiver(0, Order)
    while not receiver.ended:
        for order in receiver.receive():
            orders.put(order)
    # Whoever started this worker is gone: end, whatever the clients wait for.
    os._exit(1)


if __name__ == "__main__":
    main()
