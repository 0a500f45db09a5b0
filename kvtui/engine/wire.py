"""The wire loop: many clients in one thread over non-blocking connections.

Every turn first takes all replies that have arrived, stamping each as soon as it
is whole, and only then lets the workload's clients compute and ask again. When that
has taken TURN_NS (OWN_TURN_NS where each operation makes its own connection) it looks
at the sockets again before the next client computes, so that a reply waits for its
stamp no longer than that and one client's own work take.

A connection that may serve no more, or that the server closed between two requests,
is replaced within the operation that needs it: its connecting is part of the
operation's time, and the other clients go on meanwhile. They also go on while a
connection that failed is made anew (:mod:`~kvtui.engine.reconnect`).
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final

from kvtui.engine.calls import Figures, add_up
from kvtui.engine.control import (
    FIRST_BACK_OFF_S,
    GIVE_UP_S,
    LONGEST_BACK_OFF_S,
    TICK_NS,
    Control,
    StoreGone,
)
from kvtui.engine.reconnect import Reconnecting
from kvtui.engine.recorder import Recorder, Stages
from kvtui.errors import OperationFailed, StoreError
from kvtui.stores.operations import Add, Client, Delete, Get, Operation, Put, Request
from kvtui.stores.store import PENDING, NewConnection, Wire

READ_BYTES: Final = 1 << 14
"""Little, as room for it is made anew for every reply; yet all that a TLS record
holds, so that none is left half read in the ssl object, where no poll would tell."""
MORE_BYTES: Final = 1 << 18
"""Read at once where READ_BYTES were not all."""
WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
TURN_NS: Final = 100_000
"""How long clients may compute before replies are looked for again."""
OWN_TURN_NS: Final = 500_000
"""The same where each operation makes its own connection, which takes some 40 us of
system calls: with a look after every second one, server and loop wake each other for
each request, and a fifth fewer are asked in a second (bench/http.py)."""
SPENT_LIMIT: Final = 32
"""Connections that wait to be closed at once: each holds a file of the process's."""
STOP_GRACE_NS: Final = 2_000_000_000
"""How long replies may still come after a stop."""
CONNECT_LIMIT_NS: Final = 3_000_000_000
"""How long a connection that an operation waits for may take."""

Connect = Callable[[], tuple[socket.socket, Wire]]
Begin = Callable[[Wire], tuple[socket.socket, Wire]]


class Connection:
    """One client with its connection."""

    __slots__ = (
        "ask",
        "back_off_s",
        "begin",
        "came",
        "client",
        "down_since",
        "encode",
        "error",
        "feed",
        "first",
        "index",
        "last",
        "opening",
        "operation",
        "read",
        "rest",
        "retry_at",
        "sent",
        "single",
        "socket",
        "wire",
        "write",
    )

    def __init__(
        self, index: int, client: Client, made: tuple[socket.socket, Wire]
    ) -> None:
        self.index = index
        self.client = client
        self.ask = client.send
        self.connect(*made)
        self.opening = False
        """Whether it may still be connecting."""
        self.operation: Operation | None = None
        self.begin = self.first = self.last = 0
        self.rest: memoryview | None = None
        self.error: OperationFailed | None = None
        self.down_since = self.retry_at = 0
        self.back_off_s = FIRST_BACK_OFF_S

    def connect(self, made: socket.socket, wire: Wire) -> None:
        """Speak over this socket from now on."""
        if made.gettimeout() != 0.0:
            made.setblocking(False)
        self.socket = made
        self.read, self.write = made.recv, made.send
        self.wire, self.encode, self.feed = wire, wire.encode, wire.feed
        self.single = wire.single
        self.sent = 0
        """When an operation's own connection had taken its request."""
        self.came = 0
        """When the first piece of a reply came that was not yet whole."""


def run(
    clients: Sequence[Client],
    connections: Sequence[tuple[socket.socket, Wire]],
    connect: Connect,
    recorder: Recorder,
    control: Control,
    timeout_s: float,
    begin: Begin | None = None,
) -> Figures:
    """Drive every client over its connection until all have ended.

    ``connect`` makes a connection anew after a failure; ``begin`` starts one in
    another's place, while an operation waits for it. Returns the clients' figures,
    summed. Raises StoreGone when the store stays away; every connection is closed
    then.
    """
    made = [
        Connection(index, client, connection)
        for index, (client, connection) in enumerate(
            zip(clients, connections, strict=True)
        )
    ]
    loop = _Loop(connect, begin or (lambda _: connect()), recorder, control, timeout_s)
    try:
        loop.run(made)
    finally:
        loop.close(made)
    return add_up(loop.figures)


class _Loop:
    def __init__(
        self,
        connect: Connect,
        begin: Begin,
        recorder: Recorder,
        control: Control,
        timeout_s: float,
    ) -> None:
        self.figures: list[Figures] = []
        self._reconnecting = Reconnecting[Connection](connect)
        self._begin = begin
        self._recorder = recorder
        self._control = control
        self._timeout_ns = int(timeout_s * 1e9)
        self._poller = select.epoll()
        self._by_file: dict[int, Connection] = {}
        self._spent: list[socket.socket] = []
        """Connections that may serve no more, to be closed before the next poll."""
        self._down: list[Connection] = []
        self._attempted = self._read_bytes = self._written_bytes = 0
        self._stop_by = 0
        self._turn_ns = TURN_NS

    def run(self, connections: Sequence[Connection]) -> None:
        for connection in connections:
            self._watch(connection)
        if any(connection.single for connection in connections):
            self._turn_ns = OWN_TURN_NS
        # Nobody waits for anything yet: every client begins with its turn.
        self._turn(deque((connection, None) for connection in connections))

    def _turn(self, ready: deque[tuple[Connection, Any]]) -> None:
        clock, poll = perf_counter_ns, self._poller.poll
        recorder, by_file = self._recorder, self._by_file
        gets, puts = recorder.outcomes("get"), recorder.outcomes("put")
        got, missed, stored = gets.ok.append, gets.miss.append, puts.ok.append
        waiting, readable = recorder.waiting, select.EPOLLIN
        writable = select.EPOLLOUT
        check_at = clock() + TICK_NS
        control = self._control
        stages = recorder.stages
        tick_s, turn_ns = TICK_NS / 1e9, self._turn_ns
        while by_file or self._down:
            if self._spent:
                self._close_spent()
            for file, mask in poll(0 if ready else tick_s):
                connection = by_file[file]
                operation = connection.operation
                if operation is None:
                    continue  # Answered; it waits for its turn below.
                if mask != readable:
                    if connection.opening and mask & _BROKEN:
                        self._lost(connection, _pending_error(connection.socket))
                        continue
                    if mask & writable:
                        self._send_rest(connection)
                        if not mask & ~writable:
                            continue
                    if not mask & readable and connection.rest is not None:
                        self._lost(connection, _closed())
                        continue
                try:
                    data = connection.read(READ_BYTES)
                    if data:
                        if len(data) == READ_BYTES:
                            data += _what_else_is_there(connection)
                        reply = connection.feed(data)
                    else:
                        reply = connection.wire.closed(None)
                except WOULD_BLOCK:
                    if connection.rest is not None:
                        # A TLS handshake went on, and may have come to its end.
                        self._send_rest(connection)
                    continue
                except OSError as error:
                    self._lost(connection, error)
                    continue
                except OperationFailed as error:
                    if stages is not None:
                        stages.received_bytes += len(data)
                        _note_refusal(connection, stages, error)
                    self._fail(connection, error)
                    continue
                except NewConnection as why:
                    self._forget(connection)
                    self._open(connection, counts=why.counts)
                    continue
                if reply is PENDING:
                    if stages is not None:
                        stages.received_bytes += len(data)
                        connection.came = connection.came or clock()
                    more = connection.wire.more
                    if more:
                        connection.wire.more = b""
                        if connection.rest is None:
                            self._send(connection, more)
                        else:
                            # Sent on before it had taken all: see _wear_out.
                            self._forget(connection)
                            self._open(connection, counts=True)
                    continue
                end = clock()
                connection.operation = None
                waiting[connection.index] = 0
                connection.last = end
                latency = end - connection.begin
                if stages is not None:
                    stages.received_bytes += len(data)
                    if connection.sent or connection.came:
                        _note(connection, stages, end)
                    else:
                        stages.whole.append(latency)
                shape = type(operation)
                if shape is Get:
                    if reply is None:
                        missed(latency)
                    else:
                        got(latency)
                        self._read_bytes += len(reply)
                elif shape is Put:
                    stored(latency)
                    self._written_bytes += len(operation.value)  # type: ignore[attr-defined]
                else:
                    outcomes = recorder.outcomes(operation.label)
                    found = outcomes.ok
                    if reply is None and shape is not Add and shape is not Delete:
                        found = outcomes.miss
                    found.append(latency)
                    if shape is Request:
                        self._read_bytes += len(reply.body)
                        self._written_bytes += len(operation.body or b"")  # type: ignore[attr-defined]
                        if connection.rest is not None:
                            _wear_out(connection)
                ready.append((connection, reply))
            attempted = work_ns = 0
            look_again_at = clock() + turn_ns
            try:
                while ready:
                    # The same as _go_on, without the calls: this is the hot path.
                    connection, reply = ready.popleft()
                    if control.stopping:
                        self._finish(connection, {})
                        continue
                    started = clock()
                    try:
                        asked = connection.ask(reply)
                    except StopIteration as ended:
                        self._finish(connection, ended.value or {})
                        continue
                    if connection.single:
                        self._ask_anew(connection, asked, started)
                        if clock() > look_again_at:
                            break
                        continue
                    try:
                        data = connection.encode(asked)
                    except OperationFailed as error:
                        self._refused(connection, asked, error)
                        self._go_on(connection, None)
                        continue
                    except NewConnection as why:
                        self._ask_anew(connection, asked, started, why.counts)
                        if clock() > look_again_at:
                            break
                        continue
                    attempted += 1
                    connection.operation = asked
                    waiting[connection.index] = connection.begin = begin = clock()
                    work_ns += begin - started
                    if not connection.first:
                        connection.first = begin
                    try:
                        sent = connection.write(data)
                    except WOULD_BLOCK:
                        sent = 0
                    except OSError as error:
                        self._lost(connection, error)
                        continue
                    if sent < len(data):
                        self._keep_rest(connection, data, sent)
                    if begin > look_again_at:
                        break
            finally:  # A client may break; what it asked before still counts.
                self._attempted += attempted
                recorder.work_ns += work_ns
            now = clock()
            if now >= check_at:
                check_at = now + TICK_NS
                self._tick(now)

    def _go_on(self, connection: Connection, reply: Any) -> None:
        """Let the client compute, and send what it asks next."""
        connection.operation = None
        while True:
            if self._control.stopping:
                self._finish(connection, {})
                return
            started = perf_counter_ns()
            try:
                if connection.error is not None:
                    error, connection.error = connection.error, None
                    operation = connection.client.throw(error)
                else:
                    operation = connection.client.send(reply)
            except StopIteration as ended:
                self._finish(connection, ended.value or {})
                return
            try:
                data = connection.encode(operation)
            except OperationFailed as error:
                self._refused(connection, operation, error)
            except NewConnection as why:
                self._ask_anew(connection, operation, started, why.counts)
                return
            else:
                break
        self._attempted += 1
        connection.operation = operation
        begin = perf_counter_ns()
        self._recorder.work_ns += begin - started
        connection.begin = self._recorder.waiting[connection.index] = begin
        if not connection.first:
            connection.first = begin
        self._send(connection, data)

    def _ask_anew(
        self,
        connection: Connection,
        operation: Operation,
        started: int,
        counts: bool = False,
    ) -> None:
        """Begin an operation with a connection of its own: the old one may serve no
        more, and is closed while the server has something to do."""
        old = connection.socket
        file = old.fileno()
        if file >= 0:
            self._by_file.pop(file, None)
            self._spent.append(old)
            if len(self._spent) > SPENT_LIMIT:
                self._close_spent()
        self._attempted += 1
        connection.operation = operation
        begin = perf_counter_ns()
        self._recorder.work_ns += begin - started
        connection.begin = self._recorder.waiting[connection.index] = begin
        if not connection.first:
            connection.first = begin
        self._open(connection, counts=counts)

    def _open(self, connection: Connection, *, counts: bool) -> None:
        """Send what is asked over a new connection; the clock goes on meanwhile."""
        operation = connection.operation
        if operation is None:
            return
        self._recorder.reconnects += counts
        connection.rest = None
        try:
            connection.connect(*self._begin(connection.wire))
        except OperationFailed as error:
            self._fail(connection, error)
            return
        except StoreError as error:
            failed = OperationFailed("disconnected", error.message, hint=error.hint)
            failed.broken = True
            self._fail(connection, failed)
            return
        connection.opening = True
        self._watch(connection)
        try:
            data = connection.encode(operation)
        except OperationFailed as error:
            self._fail(connection, error)
            return
        except NewConnection:
            # It was encoded a moment ago; only a broken adapter comes here.
            self._fail(
                connection,
                OperationFailed("protocol", "no request could be made", broken=True),
            )
            return
        self._send(connection, data)

    def _watch(self, connection: Connection) -> None:
        file = connection.socket.fileno()
        self._by_file[file] = connection
        self._poller.register(file, select.EPOLLIN)

    def _send(self, connection: Connection, data: bytes) -> None:
        try:
            sent = connection.write(data)
            self._taken(connection)
        except ssl.SSLWantReadError:
            # A handshake: there is nothing to send before the server has spoken.
            connection.rest = memoryview(data)
            return
        except WOULD_BLOCK:
            sent = 0
        except OSError as error:
            self._lost(connection, error)
            return
        if sent < len(data):
            self._keep_rest(connection, data, sent)

    def _taken(self, connection: Connection) -> None:
        """The connection has taken bytes: it stands."""
        if connection.opening:
            connection.opening = False
            connection.sent = perf_counter_ns()

    def _refused(
        self, connection: Connection, operation: Operation, error: OperationFailed
    ) -> None:
        """The protocol has no such operation: it fails without being sent."""
        now = perf_counter_ns()
        self._attempted += 1
        self._recorder.failed(operation.label, error, 0, now)
        connection.error = error
        connection.first, connection.last = connection.first or now, now

    def _keep_rest(self, connection: Connection, data: bytes, sent: int) -> None:
        """Not all could be sent at once; the rest goes when the socket takes it."""
        connection.rest = memoryview(data)[sent:]
        self._poller.modify(
            connection.socket.fileno(), select.EPOLLIN | select.EPOLLOUT
        )

    def _send_rest(self, connection: Connection) -> None:
        rest = connection.rest
        if rest is None:
            return
        try:
            sent = connection.write(rest)
            self._taken(connection)
            wanted = select.EPOLLIN
        except ssl.SSLWantReadError:
            sent, wanted = 0, select.EPOLLIN
        except WOULD_BLOCK:
            sent, wanted = 0, select.EPOLLIN | select.EPOLLOUT
        except OSError:
            return  # reading will tell what happened
        if sent:
            connection.rest = rest[sent:] if sent < len(rest) else None
            if connection.rest is not None:
                wanted |= select.EPOLLOUT
        self._poller.modify(connection.socket.fileno(), wanted)

    def _finish(self, connection: Connection, figures: Figures) -> None:
        self.figures.append(figures)
        self._forget(connection)
        connection.client.close()
        self._recorder.waiting[connection.index] = 0
        if connection.first:
            self._recorder.client_ended(
                connection.first, connection.last or connection.first
            )

    def _forget(self, connection: Connection) -> None:
        file = connection.socket.fileno()
        if file >= 0:
            self._by_file.pop(file, None)
            connection.socket.close()  # which also takes it from the poller

    def _close_spent(self) -> None:
        """Nobody's time but this loop's."""
        started = perf_counter_ns()
        for each in self._spent:
            each.close()
        self._spent.clear()
        self._recorder.work_ns += perf_counter_ns() - started

    def _lost(self, connection: Connection, error: OSError) -> None:
        """The connection broke; its protocol knows what that means."""
        try:
            connection.wire.closed(error)
        except NewConnection as why:
            self._forget(connection)
            self._open(connection, counts=why.counts)
        except OperationFailed as failed:
            self._fail(connection, failed)

    def _fail(self, connection: Connection, error: OperationFailed) -> None:
        """Count one failed operation; go on, or first connect anew."""
        now = perf_counter_ns()
        connection.last = now
        if connection.operation is not None:
            self._recorder.failed(
                connection.operation.label, error, now - connection.begin, now
            )
            connection.error = error
        self._recorder.waiting[connection.index] = 0
        connection.operation = None
        if error.kind == "no-space":
            raise StoreGone(error.message, hint=error.hint)
        if error.broken:
            self._forget(connection)
            connection.rest = None
            connection.opening = False
            connection.down_since = connection.retry_at = now
            connection.back_off_s = FIRST_BACK_OFF_S
            self._down.append(connection)
        elif connection.error is not None:
            if connection.rest is not None:
                _wear_out(connection)
            self._go_on(connection, None)

    def _tick(self, now: int) -> None:
        self._recorder.flush(self._attempted, self._read_bytes, self._written_bytes)
        self._attempted = self._read_bytes = self._written_bytes = 0
        for connection in list(self._by_file.values()):
            asked = connection.operation is not None
            if asked and now - connection.begin > self._timeout_ns:
                text = f"no answer within {self._timeout_ns / 1e9:g} s"
                self._fail(connection, OperationFailed("timeout", text, broken=True))
            elif connection.opening and now - connection.begin > CONNECT_LIMIT_NS:
                text = f"no connection within {CONNECT_LIMIT_NS / 1e9:g} s"
                self._fail(connection, OperationFailed("timeout", text, broken=True))
        if self._control.stopping:
            self._stop(now)
        elif self._down:
            self._reconnect(now)

    def _reconnect(self, now: int) -> None:
        """Take the connections that were made anew, and have the next ones made."""
        taken = self._reconnecting.take()
        for connection, made in taken:
            if not isinstance(made, Exception):
                connection.connect(*made)
                self._down.remove(connection)
                self._recorder.reconnects += 1
                self._watch(connection)
        # Only now, when every new socket has its owner: either may raise.
        for connection, made in taken:
            if isinstance(made, Exception):
                self._still_down(connection, made, now)
            else:
                self._go_on(connection, None)
        if not self._reconnecting.busy:
            due = [each for each in self._down if each.retry_at <= now]
            if due:
                self._reconnecting.start(due)

    def _still_down(self, connection: Connection, error: Exception, now: int) -> None:
        """It could not connect: later again, or never."""
        if not isinstance(error, StoreError):
            raise error
        if now - connection.down_since > GIVE_UP_S * 1e9:
            raise StoreGone(
                f"{error.message}; gone for {GIVE_UP_S:.0f} s", hint=error.hint
            ) from None
        connection.retry_at = now + int(connection.back_off_s * 1e9)
        connection.back_off_s = min(2 * connection.back_off_s, LONGEST_BACK_OFF_S)

    def _stop(self, now: int) -> None:
        """Leave the clients that do not wait; after a grace, the others too."""
        if not self._stop_by:
            self._stop_by = now + STOP_GRACE_NS
        self._reconnecting.close()
        for connection in self._down:
            self.figures.append({})
            connection.client.close()
        self._down.clear()
        for connection in list(self._by_file.values()):
            if connection.operation is None or now >= self._stop_by:
                if connection.operation is not None:
                    self._recorder.abandon(now - connection.begin)
                self._finish(connection, {})

    def close(self, connections: Sequence[Connection]) -> None:
        """Close what is still open and hand over the last counts."""
        for connection in connections:
            if connection.operation is not None and connection.socket.fileno() >= 0:
                self._recorder.abandon(perf_counter_ns() - connection.begin)
            self._recorder.waiting[connection.index] = 0
            with contextlib.suppress(OSError):
                connection.socket.close()
            connection.client.close()
        self._close_spent()
        self._reconnecting.close()
        self._poller.close()
        self._recorder.flush(self._attempted, self._read_bytes, self._written_bytes)


_BROKEN: Final = select.EPOLLERR | select.EPOLLHUP


def _note(connection: Connection, stages: Stages, end: int) -> None:
    """The stages of an operation that is answered now."""
    begin = connection.begin
    sent = connection.sent or begin
    if connection.sent:
        stages.connect.append(sent - begin)
    stages.waiting.append((connection.came or end) - sent)
    stages.processing.append(end - sent)
    connection.sent = connection.came = 0


def _note_refusal(
    connection: Connection, stages: Stages, error: OperationFailed
) -> None:
    """A whole reply that says no has its stages as well."""
    if not error.broken:
        end = perf_counter_ns()
        _note(connection, stages, end)
        stages.refused.append(end - connection.begin)
        stages.refused_bytes += error.reply_bytes
    connection.sent = connection.came = 0


def _wear_out(connection: Connection) -> None:
    """Answered before all of the request was sent: what is left of it would stand
    before the next one. So that goes over a new connection."""

    def encode(operation: Operation) -> bytes:
        raise NewConnection

    connection.rest = None
    connection.encode = encode


def _what_else_is_there(connection: Connection) -> bytes:
    """What else has come; nothing after an error, which the next read tells too."""
    try:
        return bytes(connection.read(MORE_BYTES))
    except OSError:
        return b""


def _closed() -> OSError:
    return ConnectionResetError(0, "the connection was closed")


def _pending_error(made: socket.socket) -> OSError:
    """Why a connection could not be made."""
    code = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return OSError(code, os.strerror(code)) if code else _closed()
