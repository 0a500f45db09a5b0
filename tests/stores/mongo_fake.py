"""A small server that speaks MongoDB's protocol and answers in its own way.

It greets as a standalone server does, over OP_MSG and over the older OP_QUERY that
drivers begin with; what is asked of kvtui's records goes to the fake's own answer.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import bson

from tests.stores.fakes import Conversation, Cut, Fake

Document = dict[str, Any]
Reply = Callable[[Document], Any]

HELLO: Document = {
    "isWritablePrimary": True,
    "ismaster": True,
    "helloOk": True,
    "maxBsonObjectSize": 16_777_216,
    "maxMessageSizeBytes": 48_000_000,
    "maxWriteBatchSize": 100_000,
    "logicalSessionTimeoutMinutes": 30,
    "minWireVersion": 0,
    "maxWireVersion": 21,
    "readOnly": False,
    "ok": 1.0,
}


def message(
    document: Mapping[str, Any],
    answers: int,
    *,
    code: int = 2013,
    flags: int = 0,
    section: int = 0,
) -> bytes:
    """One reply on the wire."""
    body = bson.encode(document)
    length = 21 + len(body)
    return struct.pack("<iiiiIB", length, 99, answers, code, flags, section) + body


def found(*documents: Mapping[str, Any], cursor: int = 0) -> Document:
    """The answer to a find."""
    page = {"firstBatch": list(documents), "id": bson.Int64(cursor), "ns": "a.b"}
    return {"cursor": page, "ok": 1.0}


class MongoFake(Fake):
    """Answers every command on records with what ``reply`` makes of it.

    A document is sent as a reply; bytes are sent as they are; None is silence.
    ``most``: so many connections at once; one beyond is closed, as mongod does it.
    """

    def __init__(
        self,
        reply: Reply,
        hello: Mapping[str, Any] = HELLO,
        most: int | None = None,
        **also: Any,
    ):
        super().__init__(lambda conversation, command: None, transport="tcp")
        self.most = most
        self.reply = reply
        self.hello = hello
        self.also = also
        """Answers to commands of administration, by name."""
        self.asked: list[Document] = []
        """Every command on records, over all connections."""

    def __enter__(self) -> MongoFake:
        super().__enter__()
        return self

    def _talk(self, conversation: Conversation) -> None:
        try:
            if self.most is not None and len(self._open) > self.most:
                raise Cut
            for number, code, command in _commands(conversation):
                name = next(iter(command))
                if code == 2004:
                    body = bson.encode(self.hello)
                    conversation.send(
                        struct.pack("<iiii", 36 + len(body), 98, number, 1)
                        + struct.pack("<iqii", 8, 0, 0, 1)
                        + body
                    )
                elif name in ("hello", "ismaster", "isMaster"):
                    conversation.send(message(self.hello, number))
                elif name == "find" and command["filter"] == {"_id": ""}:
                    conversation.send(message(found(), number))
                elif name == "serverStatus" and self.most is not None:
                    told = {"current": len(self._open)}
                    told["available"] = self.most - told["current"]
                    status = {"connections": told, "ok": 1.0}
                    conversation.send(message(status, number))
                elif command["$db"] == "admin":
                    answer = self.also.get(name, {"ok": 1.0})
                    conversation.send(message(answer, number))
                else:
                    with self._lock:
                        self.asked.append(command)
                    answer = self.reply(command)
                    if answer is None:
                        conversation.wait()
                    elif isinstance(answer, bytes):
                        conversation.send(answer)
                    else:
                        conversation.send(message(answer, number))
        except (Cut, OSError):
            pass
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._open.remove(conversation)
            conversation.close()


def _commands(conversation: Conversation) -> Iterator[tuple[int, int, Document]]:
    read = conversation._file.read
    while header := read(16):
        length, number, _, code = struct.unpack("<iiii", header)
        body = read(length - 16)
        if code == 2004:
            start = body.index(b"\0", 4) + 1 + 8
            yield number, code, bson.decode(body[start:])
            continue
        command: Document = {}
        at = 4
        while at < len(body):
            kind, size = body[at], int.from_bytes(body[at + 1 : at + 5], "little")
            section = body[at + 1 : at + 1 + size]
            at += 1 + size
            if kind == 0:
                command = bson.decode(section) | command
            else:
                name, _, documents = section[4:].partition(b"\0")
                command = command | {name.decode(): bson.decode_all(documents)}
        # The command's own name stands first, wherever its sections stood.
        verbs = [key for key in command if key in ("update", "delete", "insert")]
        if verbs:
            command = {verbs[0]: command[verbs[0]]} | command
        yield number, code, command
