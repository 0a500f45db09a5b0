"""Talking in turns over one connection, sans-I/O: an operation as a generator.

``Steps`` yield bytes for what is to be sent, and a number for how many bytes of the
answer they need next. So an operation of several round trips is written down once,
for a loop over many sockets and for a blocking one alike.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from kvtui.errors import OperationFailed
from kvtui.stores.store import PENDING
from kvtui.stores.tokyo.protocol import garbage

T = TypeVar("T")

Steps: TypeAlias = Generator["int | bytes", bytes, T]
"""A ``Parse`` that also yields requests, for which it is sent nothing of use. The
first thing it yields is a request."""

_TRIM_BYTES: Final = 1 << 18
_SMALL_BYTES: Final = 1 << 12


class Conversation:
    """One operation after another over one connection; the caller owns the socket."""

    def __init__(self) -> None:
        self.more = b""
        """What is to be sent next, while :meth:`feed` says PENDING."""
        self._steps: Steps[Any] | None = None
        self._needed = 0
        self._bytes = bytearray()
        self._at = 0

    def start(self, steps: Steps[Any]) -> bytes:
        """Begin; what is to be sent first."""
        self._steps, self.more = steps, b""
        self._bytes.clear()
        self._at = 0
        first = next(steps)
        assert isinstance(first, bytes)
        self._go_on(b"")
        return first

    def feed(self, data: bytes) -> Any:
        """The reply once it is whole, PENDING before.

        Raises OperationFailed, ``broken`` where what came is not the protocol or
        more than was asked for.
        """
        self._bytes += data
        try:
            while self._needed and len(self._bytes) - self._at >= self._needed:
                self._go_on(self._take())
        except StopIteration as done:
            self._end()
            return done.value
        except OperationFailed as error:
            if not error.broken:
                self._end()
            raise
        if self._at > _TRIM_BYTES:
            del self._bytes[: self._at]
            self._at = 0
        return PENDING

    def _take(self) -> bytes:
        start, self._at = self._at, self._at + self._needed
        if self._needed < _SMALL_BYTES:
            return bytes(self._bytes[start : self._at])
        with memoryview(self._bytes) as view:  # copied once instead of twice
            return bytes(view[start : self._at])

    def _go_on(self, piece: bytes) -> None:
        assert self._steps is not None
        wanted = self._steps.send(piece)
        if isinstance(wanted, bytes):
            self._nothing_is_left()
            self.more = wanted
            wanted = self._steps.send(b"")
        assert isinstance(wanted, int)
        self._needed = wanted

    def _end(self) -> None:
        self._steps, self._needed = None, 0
        self._nothing_is_left()

    def _nothing_is_left(self) -> None:
        # It would be taken for the answer to the next question.
        if len(self._bytes) > self._at:
            raise garbage("an answer that nobody asked for")


def batches(requests: Iterable[tuple[bytes, T]], most_bytes: int) -> list[list[Any]]:
    """Requests to be sent together: ``most_bytes`` a batch, or one larger alone.

    ttserver answers each request with a blocking write and reads the next one only
    then. Somebody who sends everything before reading anything can therefore wait
    for ever; what fits the socket's buffer is always taken.
    """
    made: list[list[Any]] = []
    room = 0
    for request, about in requests:
        if len(request) > room:
            made.append([])
            room = most_bytes
        made[-1].append((request, about))
        room -= len(request)
    return made
