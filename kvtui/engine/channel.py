"""Messages over pipes: MessagePack behind a length of four bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from threading import Lock
from typing import Any, Final, Generic, TypeVar

import msgspec

_LENGTH: Final = struct.Struct(">I")
_READ_BYTES: Final = 1 << 18

M = TypeVar("M")


class Sender:
    """Writes messages to a file descriptor, from any thread."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._encoder = msgspec.msgpack.Encoder()
        self._lock = Lock()

    def send(self, message: msgspec.Struct) -> None:
        """Write one message whole; BrokenPipeError when nobody reads."""
        body = self._encoder.encode(message)
        data = memoryview(_LENGTH.pack(len(body)) + body)
        with self._lock:
            while data:
                data = data[os.write(self._file, data) :]


class Receiver(Generic[M]):
    """Puts messages together from what a file descriptor gives."""

    def __init__(self, file: int, kinds: Any) -> None:
        self.file = file
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(kinds)
        self._buffer = bytearray()
        self.ended = False

    def receive(self) -> Iterator[M]:
        """Read once (blocking if the descriptor does); whole messages, if any.

        Sets :attr:`ended` at the end of the stream.
        """
        data = os.read(self.file, _READ_BYTES)
        if not data:
            self.ended = True
            return
        self._buffer += data
        begin, have = 0, len(self._buffer)
        messages: list[M] = []
        while have - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, begin)
            end = begin + _LENGTH.size + length
            if end > have:
                break
            body = bytes(self._buffer[begin + _LENGTH.size : end])
            messages.append(self._decoder.decode(body))
            begin = end
        del self._buffer[:begin]
        yield from messages
