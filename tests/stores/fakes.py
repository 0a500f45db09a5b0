"""Small servers that misbehave, each connection in a thread of its own.

They understand just enough RESP to know where a command ends: a handshake (AUTH,
SELECT, HELLO, CLIENT, PING) is answered as it should be, and every other command
goes to the fake's own way of answering.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Self

HANDSHAKE = {b"AUTH", b"SELECT", b"HELLO", b"CLIENT", b"PING"}

Command = list[bytes]


class Cut(Exception):
    """End this connection now."""


class Conversation:
    """One connection, as a way of answering sees it."""

    def __init__(self, fake: Fake, connection: socket.socket) -> None:
        self.fake = fake
        self.socket = connection
        self._file = connection.makefile("rb")
        self.body = b""
        """Of the last request, where the protocol has such."""

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def in_pieces(self, data: bytes, length: int = 1) -> None:
        """Send it a few bytes at a time, each in a packet of its own."""
        for start in range(0, len(data), length):
            self.socket.sendall(data[start : start + length])

    def reset(self) -> None:
        """End the connection with a reset instead of an orderly close."""
        self.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        raise Cut

    def wait(self) -> None:
        """Wait until the fake is stopped."""
        self.fake.stopping.wait()
        raise Cut

    def commands(self) -> Iterator[Command]:
        """What the client asks, command by command."""
        while line := self._file.readline():
            words: Command = []
            for _ in range(int(line[1:])):
                length = int(self._file.readline()[1:])
                words.append(self._file.read(length))
                self._file.read(2)
            yield words

    def close(self) -> None:
        """Let go of the socket."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._file.close()
        self.socket.close()


Answer = Callable[[Conversation, Command], Any]


class Fake:
    """A server on a unix socket or a loopback port, answering in its own way."""

    def __init__(
        self,
        answer: Answer,
        *,
        transport: str = "unix",
        unknown: frozenset[bytes] = frozenset(),
    ) -> None:
        self.answer = answer
        self.unknown = unknown
        """Commands that it has never heard of, as an older server has not."""
        self.transport = transport
        self.stopping = Event()
        self.received: list[Command] = []
        """Every command but the handshakes, over all connections."""
        self.connections = 0
        self._lock = Lock()
        self._open: list[Conversation] = []
        self._threads: list[Thread] = []
        self._directory = tempfile.mkdtemp(prefix="kvtui-fake-")

    @property
    def settings(self) -> dict[str, Any]:
        """How an adapter reaches it."""
        if self.transport == "unix":
            return {"path": str(Path(self._directory) / "s")}
        return {"host": "127.0.0.1", "port": self._listener.getsockname()[1]}

    def __enter__(self) -> Self:
        if self.transport == "unix":
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.settings["path"])
        else:
            self._listener = socket.socket()
            self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(100)
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.socket.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        with contextlib.suppress(OSError):
            os.unlink(Path(self._directory) / "s")
        os.rmdir(self._directory)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self.stopping.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                conversation = Conversation(self, connection)
                self._open.append(conversation)
            self._start(self._talk, conversation)

    def _talk(self, conversation: Conversation) -> None:
        try:
            for command in conversation.commands():
                if command[0].upper() in self.unknown:
                    conversation.send(b"-ERR unknown command '%b'\r\n" % command[0])
                    continue
                if command[0].upper() in HANDSHAKE:
                    good = b"+PONG" if command[0].upper() == b"PING" else b"+OK"
                    conversation.send(good + b"\r\n")
                    continue
                with self._lock:
                    self.received.append(command)
                self.answer(conversation, command)
        except (Cut, OSError, ValueError):
            pass
        finally:
            with self._lock:
                if conversation in self._open:
                    self._open.remove(conversation)
            conversation.close()


def silent(conversation: Conversation, command: Command) -> None:
    """Takes the command and never says anything."""
    conversation.wait()


def closing(conversation: Conversation, command: Command) -> None:
    """Closes the connection instead of answering."""
    raise Cut


def resetting(conversation: Conversation, command: Command) -> None:
    """Resets the connection instead of answering."""
    conversation.reset()


def cutting(conversation: Conversation, command: Command) -> None:
    """Promises a hundred bytes, sends ten, and closes."""
    conversation.send(b"$100\r\n0123456789")
    raise Cut


def garbage(conversation: Conversation, command: Command) -> None:
    """Answers in some other protocol."""
    conversation.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def binary_error(conversation: Conversation, command: Command) -> None:
    """An error whose text is no text."""
    conversation.send(b"-ERR \xff\xfe\x1b[2J\r\n")


def refusing(conversation: Conversation, command: Command) -> None:
    """An error reply to everything."""
    conversation.send(b"-NOPERM this user may not do that\r\n")


def wrong_type(conversation: Conversation, command: Command) -> None:
    """A reply of a kind that the command never gets."""
    conversation.send(b"*1\r\n*1\r\n:7\r\n")


def one_byte_at_a_time(conversation: Conversation, command: Command) -> None:
    """A good reply in pieces of one byte."""
    conversation.in_pieces(_good(command))


def talkative(conversation: Conversation, command: Command) -> None:
    """Each reply twice: the second answers nothing."""
    conversation.send(2 * _good(command))


def lying(value: bytes) -> Answer:
    """Gives the same wrong value for every key."""

    def answer(conversation: Conversation, command: Command) -> None:
        if command[0] == b"GET":
            conversation.send(b"$%d\r\n%b\r\n" % (len(value), value))
        else:
            conversation.send(_good(command))

    return answer


def good(conversation: Conversation, command: Command) -> None:
    """A good reply."""
    conversation.send(_good(command))


def scripted(answers: Sequence[Answer], then: Answer = good) -> Answer:
    """One way of answering for each command in turn, over all connections."""
    left = list(answers)

    def answer(conversation: Conversation, command: Command) -> None:
        chosen = left.pop(0) if left else then
        chosen(conversation, command)

    return answer


def _good(command: Command) -> bytes:
    name = command[0].upper()
    if name == b"GET":
        return b"$5\r\nvalue\r\n"
    if name == b"SET":
        return b"+OK\r\n"
    if name == b"HGETALL":
        return b"*2\r\n$1\r\na\r\n$1\r\n1\r\n"
    return b":1\r\n"
