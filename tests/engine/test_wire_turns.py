"""In which order the wire loop takes replies and lets clients work."""

from __future__ import annotations

import socket
from threading import Thread
from typing import Any

import pytest

from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores.operations import Client, Get, Operation
from kvtui.stores.store import PENDING, Wire


class Noted(Wire):
    """Any byte is a reply; each one taken is noted."""

    def __init__(self, index: int, log: list[str]) -> None:
        self._index, self._log = index, log

    def encode(self, operation: Operation) -> bytes:
        return b"q"

    def feed(self, data: bytes) -> Any:
        self._log.append(f"reply {self._index}")
        return bytes(data)


def order(monkeypatch: pytest.MonkeyPatch, turn_ns: int) -> list[str]:
    """What happens with three clients when the first one's second piece of work
    brings the reply that the second one waits for."""
    monkeypatch.setattr(wire, "TURN_NS", turn_ns)
    log: list[str] = []
    pairs = [socket.socketpair() for _ in range(3)]
    peers = [pair[1] for pair in pairs]

    def client(index: int) -> Client:
        if index != 1:
            peers[index].send(b"r")
        yield Get(b"k")
        log.append(f"work {index}")
        if index == 0:
            peers[1].send(b"r")
        peers[index].send(b"r")
        yield Get(b"k")
        return None

    def never() -> tuple[socket.socket, Wire]:
        raise AssertionError("nothing was lost")

    recorder = Recorder(3)
    made = [(pair[0], Noted(index, log)) for index, pair in enumerate(pairs)]
    clients = [client(index) for index in range(3)]
    wire.run(clients, made, never, recorder, Control(), 10.0)
    recorder.take()
    assert recorder.attempted == recorder.finished == 6
    for peer in peers:
        peer.close()
    return log


def test_a_reply_is_stamped_before_the_next_client_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would wait for the work of every client whose turn comes first."""
    log = order(monkeypatch, -1)
    assert log.index("work 0") < log.index("reply 1") < log.index("work 2")


def test_short_work_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    log = order(monkeypatch, 10**12)
    assert log.index("work 0") < log.index("work 2") < log.index("reply 1")


class Long(Wire):
    """A reply is whole after so many bytes."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._come = b""

    def encode(self, operation: Operation) -> bytes:
        return b"q"

    def feed(self, data: bytes) -> Any:
        self._come += data
        return PENDING if len(self._come) < self._length else self._come


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize(
    "length", [wire.READ_BYTES, 2 * wire.READ_BYTES, wire.READ_BYTES + wire.MORE_BYTES]
)
def test_a_reply_of_any_length_is_read_whole(length: int, off: int, ends: bool) -> None:
    """Around what is read at once; also where the server then closes."""
    ours, server = socket.socketpair()
    sent = bytes(range(256)) * (length // 256 + 1)
    sent = sent[: length + off]

    def answer() -> None:
        server.recv(1)
        server.sendall(sent)
        if ends:
            server.close()

    def client() -> Client:
        replies.append((yield Get(b"k")))
        return None

    def never() -> tuple[socket.socket, Wire]:
        raise AssertionError("nothing was lost")

    replies: list[bytes] = []
    answering = Thread(target=answer, daemon=True)
    answering.start()
    recorder = Recorder(1)
    pairs = [(ours, Long(len(sent)))]
    wire.run([client()], pairs, never, recorder, Control(), 10.0)
    assert replies == [sent]
    answering.join(10)
    server.close()
