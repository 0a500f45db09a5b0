"""Small page servers that misbehave, and clients' words for them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from typing import Any, Self

from tests.stores.fakes import Conversation, Cut, Fake

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
LAST = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"

Answering = Callable[[Conversation, bytes, int], Any]
"""Takes the conversation, the path asked for, and the request's number on this
connection, from 1."""


class Pages(Fake):
    """An HTTP server on a unix socket or a loopback address; it notes each path."""

    reads_bodies = True

    def __init__(
        self, answer: Answering, *, transport: str = "unix", host: str = "127.0.0.1"
    ) -> None:
        super().__init__(lambda conversation, command: None, transport=transport)
        self.page_answer = answer
        self.host = host
        self.paths: list[bytes] = []
        self.hosts: list[bytes] = []
        self.lines: list[bytes] = []
        """The first line of each request, with its end."""
        self.fields: list[list[bytes]] = []
        """Its header, line by line."""
        self.bodies: list[bytes] = []
        self.requests = 0

    @property
    def settings(self) -> dict[str, Any]:
        """How the adapter reaches it."""
        if self.transport == "unix":
            return super().settings
        return {"host": self.host, "port": self._listener.getsockname()[1]}

    def __enter__(self) -> Self:
        if self.transport == "unix":
            super().__enter__()
            return self
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        self._listener = socket.socket(family)
        self._listener.bind((self.host, 0))
        self._listener.listen(100)
        self._start(self._accept)
        return self

    def _talk(self, conversation: Conversation) -> None:
        number = 0
        with contextlib.suppress(Cut, OSError, ValueError, IndexError):
            while line := conversation._file.readline():
                path = line.split()[1]
                fields = list(iter(conversation._file.readline, b"\r\n"))
                lengths = [
                    int(each[15:]) for each in fields if each[:15] == b"Content-Length:"
                ]
                if self.reads_bodies:
                    conversation.body = conversation._file.read(sum(lengths))
                number += 1
                with self._lock:
                    self.lines.append(line)
                    self.fields.append(fields)
                    self.bodies.append(conversation.body)
                    self.requests += 1
                    self.paths.append(path)
                    self.hosts += [
                        each[6:-2] for each in fields if each[:5] == b"Host:"
                    ]
                self.page_answer(conversation, path, number)
        with self._lock:
            if conversation in self._open:
                self._open.remove(conversation)
        conversation.close()


def saying(data: bytes, *, then_close: bool = False) -> Answering:
    """Answers everything so."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(data)
        if then_close:
            raise Cut

    return answer


def closing_after(requests: int, last: bytes = GOOD) -> Answering:
    """Closes a connection once it has served so many, ``last`` with the last."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(GOOD if number < requests else last)
        if number >= requests:
            raise Cut

    return answer


def by_path(answers: dict[bytes, bytes]) -> Answering:
    """What to send for each path."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(answers[path])

    return answer
