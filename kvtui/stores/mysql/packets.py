"""MySQL's packets: framing, sequence numbers, lengths, and what a reply can be.

Source: the protocol's description in MySQL's developer documentation ("Client/Server
Protocol") and MariaDB's knowledge base; every form used here was seen from a live
MariaDB 10.11. A packet is three bytes of length, one of sequence, and a payload; a
payload of 0xffffff bytes is continued in the next packet. Each command begins again at
sequence 0, and the server counts on from there.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct

from kvtui.errors import OperationFailed

LONGEST: Final = 0xFFFFFF
"""Bytes of payload in one packet; one that is as long is continued."""

_OK, _END, _ERROR = 0x00, 0xFE, 0xFF
_END_LONGEST: Final = 9
"""An end-of-rows packet is shorter than this; a row may begin with the same byte."""


class Refusal(Struct, frozen=True):
    """An error packet."""

    number: int
    text: str


def broken_protocol(problem: str) -> OperationFailed:
    """What came is not the protocol: the connection is of no further use."""
    return OperationFailed("protocol", f"mysql: {problem}", broken=True)


def framed(payload: bytes, sequence: int = 0) -> bytes:
    """A payload as packets: one, or as many as it takes."""
    length = len(payload)
    if length < LONGEST:
        return b"%b%c%b" % (length.to_bytes(3, "little"), sequence & 255, payload)
    parts: list[bytes] = []
    for number, start in enumerate(range(0, length + 1, LONGEST), sequence):
        part = payload[start : start + LONGEST]
        parts += (len(part).to_bytes(3, "little"), bytes((number & 255,)), part)
    return b"".join(parts)


def packets_of(length: int) -> int:
    """How many packets a payload of that length takes."""
    return length // LONGEST + 1


def length_coded(data: bytes) -> bytes:
    """A text with its length before it."""
    length = len(data)
    if length < 251:
        return b"%c%b" % (length, data)
    if length < 1 << 16:
        return b"\xfc%b%b" % (length.to_bytes(2, "little"), data)
    if length < 1 << 24:
        return b"\xfd%b%b" % (length.to_bytes(3, "little"), data)
    return b"\xfe%b%b" % (length.to_bytes(8, "little"), data)


_WIDTHS: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}


def read_number(data: bytes, at: int) -> tuple[int, int]:
    """A length-coded number and where it ends; protocol failure when it is none."""
    if at >= len(data):
        raise broken_protocol("a packet ends too early")
    first = data[at]
    if first < 251:
        return first, at + 1
    width = _WIDTHS.get(first)
    if width is None or at + 1 + width > len(data):
        raise broken_protocol("a packet holds no length where one belongs")
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def read_text(data: bytes, at: int) -> tuple[bytes, int]:
    """A length-coded text and where it ends."""
    length, at = read_number(data, at)
    if at + length > len(data):
        raise broken_protocol("a packet is shorter than what it holds")
    return data[at : at + length], at + length


def is_ok(payload: bytes) -> bool:
    """Whether it is an OK packet, where no row can come."""
    return payload[:1] == b"\0"


def is_end(payload: bytes) -> bool:
    """Whether it ends a list of columns, parameters or rows."""
    return len(payload) < _END_LONGEST and payload[:1] == b"\xfe"


def refusal(payload: bytes) -> Refusal | None:
    """The error that it is, or None."""
    if payload[:1] != b"\xff":
        return None
    if len(payload) < 3:
        raise broken_protocol("an error packet ends too early")
    text = payload[3:]
    if text[:1] == b"#":
        text = text[6:]  # the SQL state, five characters
    return Refusal(
        int.from_bytes(payload[1:3], "little"), text.decode("utf-8", "replace")
    )


def affected_rows(payload: bytes) -> int:
    """What an OK packet says was changed."""
    return read_number(payload, 1)[0]


class Prepared(Struct, frozen=True):
    """What a server says of a statement that it has prepared."""

    statement: int
    columns: int
    parameters: int


def prepared(payload: bytes) -> Prepared:
    """The first packet of the answer to COM_STMT_PREPARE."""
    if len(payload) < 12 or payload[0] != _OK:
        raise broken_protocol("a statement was prepared without an answer")
    return Prepared(*struct.unpack_from("<IHH", payload, 1))


class Packets:
    """Puts payloads together, however their bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sequence = 0
        self._parts: list[bytes] = []

    def expect(self, sequence: int) -> None:
        """The number of the next packet: the request's packets came before."""
        self._sequence = sequence & 255

    @property
    def unfinished(self) -> bool:
        """Whether bytes are here that are no whole payload."""
        return bool(self._buffer or self._parts)

    def feed(self, data: bytes) -> list[bytes]:
        """Every payload that is whole by now.

        Raises OperationFailed for a packet out of turn, ``disconnected`` when it is
        the farewell that a server sends unasked.
        """
        buffer = self._buffer
        buffer += data
        payloads: list[bytes] = []
        at, end = 0, len(buffer)
        while end - at >= 4:
            length = int.from_bytes(buffer[at : at + 3], "little")
            if end - at < 4 + length:
                # A packet out of turn may never become whole.
                if buffer[at + 3] != self._sequence and not _is_farewell(buffer, at):
                    raise _out_of_turn(buffer[at + 3], self._sequence)
                break
            payload = bytes(buffer[at + 4 : at + 4 + length])
            if buffer[at + 3] != self._sequence:
                gone = refusal(payload)
                if gone is not None:
                    raise OperationFailed(
                        "disconnected", f"mysql: {gone.text}", broken=True
                    )
                raise _out_of_turn(buffer[at + 3], self._sequence)
            self._sequence = (self._sequence + 1) & 255
            at += 4 + length
            if length == LONGEST:
                self._parts.append(payload)
            elif self._parts:
                payloads.append(b"".join((*self._parts, payload)))
                self._parts = []
            else:
                payloads.append(payload)
        del buffer[:at]
        return payloads


def _is_farewell(buffer: bytearray, at: int) -> bool:
    return len(buffer) - at < 5 or buffer[at + 4] == _ERROR


def _out_of_turn(number: int, wanted: int) -> OperationFailed:
    return broken_protocol(f"packet {number} came where packet {wanted} was due")
