"""Prepared statements of MySQL's binary protocol: making them, executing them.

Source: as for :mod:`kvtui.stores.mysql.packets`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from kvtui.errors import OperationFailed
from kvtui.stores.mysql import packets
from kvtui.stores.mysql.answers import Answer, Answering
from kvtui.stores.mysql.errors import server_error
from kvtui.stores.mysql.packets import Packets, Prepared, Refusal, broken_protocol

PREPARE: Final = b"\x16"
_EXECUTE: Final = 0x17
BLOB, LONGLONG = b"\xfc\0", b"\x08\0"
"""Types of parameters."""
HEAD: Final = struct.Struct("<BIBI")


def prepare_request(text: str) -> bytes:
    """The payload of COM_STMTPREPARE."""
    return PREPARE + text.encode()


def prepare(
    send: Callable[[bytes], Any], receive: Callable[[int], bytes], where: str, text: str
) -> Prepared:
    """Have a statement prepared, blocking. Raises OperationFailed, and what ``send``
    and ``receive`` raise."""
    payload = prepare_request(text)
    incoming, answering = Packets(), Answering(prepares=True)
    incoming.expect(packets.packets_of(len(payload)))
    send(packets.framed(payload))
    answer: Answer | None = None
    while answer is None:
        data = receive(1 << 16)
        if not data:
            raise OperationFailed("disconnected", "mysql: it hung up", broken=True)
        for payload in incoming.feed(data):
            if answer is not None:
                raise unasked()
            answer = answering.take(payload)
    if incoming.unfinished:
        raise unasked()
    if isinstance(answer, Refusal):
        raise server_error(where, answer.number, answer.text)
    if not isinstance(answer, Prepared):
        raise broken_protocol("a statement was prepared without an answer")
    return answer


def head(statement: int) -> bytes:
    """How COM_STMT_EXECUTE begins: no cursor, one iteration."""
    return HEAD.pack(_EXECUTE, statement, 0, 1)


def bound(types: bytes, parameters: int = 0) -> bytes:
    """The null bitmap (none is), and the parameters' types. A BLOB parameter is bytes
    to the server, whatever the connection's character set."""
    number = parameters or len(types) // 2
    return bytes((number + 7) // 8) + b"\x01" + types


def unasked() -> OperationFailed:
    """It would be taken for the answer to the next operation."""
    return broken_protocol("an answer came that nobody asked for")


def not_done(where: str, answer: Answer) -> OperationFailed:
    """What an answer means that is not the one that was due."""
    if isinstance(answer, Refusal):
        return server_error(where, answer.number, answer.text)
    return broken_protocol(f"an unexpected answer: {answer!r:.60}")
