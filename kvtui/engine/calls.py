"""The calls loop: one thread a client over a blocking store.

For embedded stores and for drivers that block. The loop reads the clock twice an
operation, appends one number, and looks at everything else (stop, counts) only
once a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Barrier, Thread
from time import perf_counter_ns
from typing import Any

from kvtui.engine.control import (
    FIRST_BACK_OFF_S,
    GIVE_UP_S,
    LONGEST_BACK_OFF_S,
    TICK_NS,
    Control,
    StoreGone,
)
from kvtui.engine.recorder import Recorder
from kvtui.errors import KvtuiError, OperationFailed, StoreError
from kvtui.stores.operations import (
    Add,
    Burst,
    Client,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Replies,
    Request,
    Scan,
)
from kvtui.stores.store import Store

Figures = dict[str, int]


def run(
    clients: Sequence[Client],
    stores: Sequence[Store],
    recorder: Recorder,
    control: Control,
) -> Figures:
    """Drive each client against its store until all have ended; summed figures.

    One client runs in the calling thread. Raises the first StoreGone, after every
    client has ended.
    """
    figures: list[Figures] = []
    problems: list[BaseException] = []
    # A thread that starts beside busy ones waits for its turn of the interpreter: the
    # fiftieth would begin a quarter of a second after the first.
    begin = Barrier(max(1, len(clients)))

    def one(index: int) -> None:
        try:
            begin.wait()
            figures.append(
                drive(clients[index], stores[index], recorder, control, index)
            )
        except BaseException as error:
            problems.append(error)
            control.stop()

    if len(clients) == 1:
        one(0)
    else:
        threads = [
            Thread(target=one, args=(index,), daemon=True, name=f"client {index}")
            for index in range(len(clients))
        ]
        try:
            for thread in threads:
                thread.start()
        except BaseException:
            begin.abort()
            raise
        for thread in threads:
            thread.join()
    if problems:
        raise problems[0]
    return add_up(figures)


def add_up(figures: Sequence[Figures]) -> Figures:
    """Figures of several clients as one."""
    total: Figures = {}
    for each in figures:
        for name, value in each.items():
            total[name] = total.get(name, 0) + value
    return total


def drive(
    client: Client, store: Store, recorder: Recorder, control: Control, index: int
) -> Figures:
    """One client against one store, until the client ends or is stopped."""
    clock, waiting = perf_counter_ns, recorder.waiting
    send, get, put = client.send, store.get, store.put
    gets, puts = recorder.outcomes("get"), recorder.outcomes("put")
    got, missed, stored = gets.ok.append, gets.miss.append, puts.ok.append
    others = _other_calls(store)
    attempted = read_bytes = written_bytes = 0
    figures: Figures = {}
    reply: Any
    first = begin = 0
    silent = store.reconnects
    end = clock()
    check_at = end + TICK_NS
    try:
        operation = next(client)
        first = clock()
        while True:
            shape = type(operation)
            if shape is Burst:
                recorder.flush(attempted, read_bytes, written_bytes)
                attempted = read_bytes = written_bytes = 0
                burst = _Burst(store, recorder, control, index)
                try:
                    reply = burst.ask(operation.pairs)  # type: ignore[attr-defined]
                finally:
                    end = burst.end or end
                if control.stopping:
                    break
                operation = send(reply)
                continue
            attempted += 1
            try:
                if shape is Get:
                    waiting[index] = begin = clock()
                    reply = get(operation.key)
                    end = clock()
                    if reply is None:
                        missed(end - begin)
                    else:
                        got(end - begin)
                        read_bytes += len(reply)
                elif shape is Put:
                    value = operation.value  # type: ignore[attr-defined]
                    waiting[index] = begin = clock()
                    reply = put(operation.key, value)
                    end = clock()
                    stored(end - begin)
                    written_bytes += len(value)
                else:
                    call = others[shape]
                    outcomes = recorder.outcomes(operation.label)
                    waiting[index] = begin = clock()
                    reply = call(operation)
                    end = clock()
                    found = outcomes.miss if reply is None else outcomes.ok
                    if shape is Add or shape is Delete:
                        found = outcomes.ok
                    found.append(end - begin)
                    if shape is Request and reply is not None:
                        read_bytes += len(reply.body)
                        written_bytes += len(operation.body or b"")  # type: ignore[attr-defined]
            except Exception as problem:
                end = clock()
                error = as_failure(problem)
                latency = end - begin
                _failed(operation, error, latency, end, store, recorder, control, index)
                if control.stopping:
                    break
                operation = client.throw(error)
                continue
            if end >= check_at:
                waiting[index] = 0
                recorder.flush(attempted, read_bytes, written_bytes)
                attempted = read_bytes = written_bytes = 0
                check_at = end + TICK_NS
                if control.stopping:
                    break
            operation = send(reply)
    except StopIteration as ended:
        figures = ended.value or {}
    finally:
        waiting[index] = 0
        client.close()
        recorder.flush(attempted, read_bytes, written_bytes)
        recorder.reconnected(store.reconnects - silent)
        if first:
            recorder.client_ended(first, end)
            recorder.add_span(end - first)
    return figures


def _failed(
    operation: Operation,
    error: OperationFailed,
    latency_ns: int,
    end: int,
    store: Store,
    recorder: Recorder,
    control: Control,
    index: int,
) -> None:
    """Record a failure, and connect anew where that takes. StoreGone where nothing
    more can be asked."""
    recorder.failed(operation.label, error, latency_ns, end)
    recorder.waiting[index] = 0
    if error.kind == "no-space":
        raise StoreGone(error.message, hint=error.hint) from None
    if error.broken and reconnect(store.open, store.close, control):
        recorder.reconnected()


class _Burst:
    """The same for a burst: a loop with nothing of the client's in it."""

    def __init__(
        self, store: Store, recorder: Recorder, control: Control, index: int
    ) -> None:
        self._store, self._recorder = store, recorder
        self._control, self._index = control, index
        self.end = 0
        """When the last reply came."""

    def ask(self, pairs: Iterator[tuple[bytes, bytes | None]]) -> list[Any]:
        """Ask all, or as many as there are before a stop; the replies."""
        clock, recorder, index = perf_counter_ns, self._recorder, self._index
        get, put, waiting = self._store.get, self._store.put, recorder.waiting
        gets, puts = recorder.outcomes("get"), recorder.outcomes("put")
        got, missed, stored = gets.ok.append, gets.miss.append, puts.ok.append
        replies: list[Any] = []
        keep, control = replies.append, self._control
        told = read_bytes = written_bytes = begin = 0
        end = clock()
        check_at = end + TICK_NS
        key, value = b"", None
        failed = False
        try:
            while True:
                try:
                    for key, value in pairs:
                        if value is None:
                            waiting[index] = begin = clock()
                            reply = get(key)
                            end = clock()
                            keep(reply)
                            if reply is None:
                                missed(end - begin)
                            else:
                                got(end - begin)
                                read_bytes += len(reply)
                        else:
                            waiting[index] = begin = clock()
                            keep(put(key, value))
                            end = clock()
                            stored(end - begin)
                            written_bytes += len(value)
                        if end >= check_at:
                            waiting[index] = 0
                            recorder.flush(
                                len(replies) - told, read_bytes, written_bytes
                            )
                            told, read_bytes, written_bytes = len(replies), 0, 0
                            check_at = end + TICK_NS
                            if control.stopping:
                                return replies
                    return Replies(replies) if failed else replies
                except Exception as problem:
                    end = clock()
                    error = as_failure(problem)
                    failed = True
                    keep(error)  # It counts as asked, whatever comes of it.
                    asked = Get(key) if value is None else Put(key, value)
                    latency, store = end - begin, self._store
                    _failed(asked, error, latency, end, store, recorder, control, index)
                    if control.stopping:
                        return replies
        finally:
            self.end = end
            waiting[index] = 0
            recorder.flush(len(replies) - told, read_bytes, written_bytes)


def _other_calls(store: Store) -> dict[type[Operation], Callable[[Any], Any]]:
    return {
        Add: lambda operation: store.add(operation.key, operation.counts),
        Counts: lambda operation: store.counts(operation.key),
        Scan: lambda operation: store.scan(operation.key, operation.count),
        Delete: lambda operation: store.delete(operation.key),
        Request: lambda operation: store.request(operation),
    }


def as_failure(error: Exception) -> OperationFailed:
    """Whatever an adapter raised, as one failed operation."""
    if isinstance(error, OperationFailed):
        return error
    if isinstance(error, KvtuiError):
        return OperationFailed("server-error", error.message, hint=error.hint)
    return OperationFailed("server-error", f"{type(error).__name__}: {error}")


def reconnect(
    open_again: Callable[[], None], close: Callable[[], None], control: Control
) -> bool:
    """Connect anew with back-off; False when asked to stop meanwhile.

    Raises StoreGone after GIVE_UP_S.
    """
    limit = perf_counter_ns() + int(GIVE_UP_S * 1e9)
    back_off_s = FIRST_BACK_OFF_S
    while True:
        close()
        try:
            open_again()
        except StoreError as error:
            if perf_counter_ns() >= limit:
                raise StoreGone(
                    f"{error.message}; gone for {GIVE_UP_S:.0f} s", hint=error.hint
                ) from None
        else:
            return not control.stopping
        if control.wait(back_off_s):
            return False
        back_off_s = min(2 * back_off_s, LONGEST_BACK_OFF_S)
