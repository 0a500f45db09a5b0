"""MongoDB's protocol, sans-I/O, for one connection: OP_MSG with BSON.

A message (manual, "MongoDB Wire Protocol", little-endian)::

    int32 messageLength, int32 requestID, int32 responseTo, int32 opCode = 2013
    uint32 flagBits
    sections: byte 0, one document | byte 1, int32 size, name NUL, documents

A reply is one section of kind 0 and answers the request by its number. kvtui asks
for no checksum and no stream of replies, so a reply with any of the lower sixteen
flags, which a reader must understand, is a failure.

Documents go through the driver's own ``bson``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import bson
from bson.errors import BSONError

from kvtui.errors import OperationFailed
from kvtui.stores.mongo import records
from kvtui.stores.operations import (
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Scan,
)
from kvtui.stores.store import PENDING, Wire, unsupported

MESSAGE_LIMIT_BYTES: Final = 48_000_000
"""maxMessageSizeBytes of every server so far."""

_OP_MSG: Final = 2013
_HEADER: Final = struct.Struct("<iiiiIB")
"""Up to the kind of the first section."""
_LEAST_BYTES: Final = _HEADER.size + 5
_MUST_UNDERSTAND: Final = 0xFFFF
_LARGEST_REQUEST: Final = 0x7FFFFFFF
_LOCAL: Final = {"level": "local"}
_ACKNOWLEDGED: Final = {"w": 1}


class MongoWire(Wire):
    """One connection, one operation at a time."""

    def __init__(
        self,
        where: str,
        schema: str,
        document_limit_bytes: int = records.DOCUMENT_LIMIT_BYTES,
    ) -> None:
        self._where = where
        self._schema = schema
        self.document_limit_bytes = document_limit_bytes
        self._request = 0
        self._shape: type[Operation] | None = None
        self._buffer = bytearray()
        self._wanted = 0
        self._pairs: list[tuple[bytes, bytes]] = []

    def encode(self, operation: Operation) -> bytes:
        """The command; of a scan, its first page's."""
        key = operation.key
        self._shape = shape = type(operation)
        name = records.record_id(key)
        if shape is Get:
            return self._find({"_id": name}, records.VALUE, 1, singleBatch=True)
        if isinstance(operation, Put):
            value = operation.value
            records.check_size(self._where, key, value, self.document_limit_bytes)
            return self._update(name, {"_id": name, "v": value})
        if isinstance(operation, Add):
            return self._update(name, records.increments(operation.counts))
        if isinstance(operation, Counts):
            return self._find({"_id": name}, records.COUNTERS, 1, singleBatch=True)
        if isinstance(operation, Delete):
            return self._write("delete", "deletes", {"q": {"_id": name}, "limit": 1})
        if isinstance(operation, Scan):
            self._wanted, self._pairs = max(operation.count, 0), []
            # A limit of 0 would be none.
            limit = max(operation.count, 1)
            return self._find(
                records.from_here(key),
                {"v": 1},
                limit,
                batchSize=limit,
                sort={"_id": 1},
            )
        raise unsupported("mongo", operation.label)

    def command(self, command: Mapping[str, Any], schema: str | None = None) -> bytes:
        """Any other command, for the handshake; its reply is the whole document."""
        self._shape = None
        return self._message({**command, "$db": schema or self._schema})

    def feed(self, data: bytes) -> Any:
        """The reply once whole."""
        buffer = self._buffer
        if buffer or len(data) < _LEAST_BYTES:
            buffer += data
            if len(buffer) < _HEADER.size - 1:
                self._check_length(buffer)
                return PENDING
            message: Any = buffer
        else:
            message = data  # Nearly every reply comes whole; it needs no copy.
        length = self._check_header(message)
        if len(message) < length:
            if message is data:
                buffer += data
            return PENDING
        if len(message) > length:
            # It would be taken for the answer to the next operation.
            raise self._strange("sent an answer that nobody asked for")
        if message[_HEADER.size - 1] != 0:
            raise self._strange("answered with a section of another kind")
        try:
            document = bson.decode(memoryview(message)[_HEADER.size :])
        except (BSONError, ValueError, TypeError, KeyError) as error:
            raise self._strange(f"sent no BSON: {error!s:.80}") from None
        self._buffer = bytearray()
        try:
            return self._reply(document)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise self._strange(f"answered unlike a MongoDB: {error!r:.80}") from None

    # Requests.

    def _find(
        self,
        wanted: Mapping[str, Any],
        projection: Mapping[str, int],
        limit: int,
        **more: Any,
    ) -> bytes:
        return self._message(
            {
                "find": records.COLLECTION,
                "filter": wanted,
                "projection": projection,
                "limit": limit,
                **more,
                "readConcern": _LOCAL,
                "$db": self._schema,
            }
        )

    def _update(self, name: str, change: Mapping[str, Any]) -> bytes:
        update = {"q": {"_id": name}, "u": change, "upsert": True}
        return self._write("update", "updates", update)

    def _write(self, verb: str, sequence: str, change: Mapping[str, Any]) -> bytes:
        """One write; as a section of its own it may be as large as a document."""
        command = {
            verb: records.COLLECTION,
            "ordered": True,
            "writeConcern": _ACKNOWLEDGED,
            "$db": self._schema,
        }
        return self._message(command, sequence.encode() + b"\0", change)

    def _message(
        self,
        command: Mapping[str, Any],
        sequence: bytes = b"",
        change: Mapping[str, Any] | None = None,
    ) -> bytes:
        self._buffer.clear()
        self._request = self._request % _LARGEST_REQUEST + 1
        try:
            body = bson.encode(command)
            more = b"" if change is None else bson.encode(change)
        except (BSONError, OverflowError) as error:
            raise OperationFailed(
                "server-error", f"mongo at {self._where}: {error}"
            ) from None
        parts = [body]
        if change is not None:
            size = 4 + len(sequence) + len(more)
            parts += [b"\x01", struct.pack("<i", size), sequence, more]
        length = _HEADER.size + sum(map(len, parts))
        header = _HEADER.pack(length, self._request, 0, _OP_MSG, 0, 0)
        return b"".join([header, *parts])

    # Replies.

    def _check_length(self, start: bytes | bytearray) -> int:
        if len(start) < 4:
            return 0
        length = int.from_bytes(start[:4], "little", signed=True)
        if not _LEAST_BYTES <= length <= MESSAGE_LIMIT_BYTES:
            raise self._strange(f"announced a message of {length:,} bytes")
        return length

    def _check_header(self, start: bytes | bytearray) -> int:
        length = self._check_length(start)
        _, _, answers, code, flags = struct.unpack_from("<iiiiI", start)
        if code != _OP_MSG:
            raise self._strange(f"answered with operation {code}, not OP_MSG")
        if answers != self._request:
            raise self._strange(
                f"answered request {answers}, and {self._request} was asked"
            )
        if flags & _MUST_UNDERSTAND:
            raise self._strange(f"set flags that nobody asked for: {flags:#x}")
        return length

    def _reply(self, document: Mapping[str, Any]) -> Any:
        if document["ok"] != 1:
            if document["ok"] != 0:
                raise ValueError("ok is neither 0 nor 1")
            raise self._refusal(document)
        shape = self._shape
        if shape is None:
            return document
        if shape is Get:
            found = self._one(document)
            return None if found is None else records.value_of(found)
        if shape is Counts:
            found = self._one(document)
            return None if found is None else records.counters_of(found)
        if shape is Scan:
            return self._page(document)
        for error in document.get("writeErrors", ()):
            raise self._refusal(error)
        if document.get("writeConcernError"):
            raise self._refusal(document["writeConcernError"])
        changed = document["n"]
        if shape is Delete and changed in (0, 1):
            return bool(changed)
        if shape is not Delete and changed == 1:
            return None
        raise ValueError(f"{shape.__name__.lower()} changed {changed} documents")

    def _one(self, document: Mapping[str, Any]) -> Any:
        """The document that was found, or None."""
        found = document["cursor"]["firstBatch"]
        if len(found) > 1:
            raise ValueError(f"{len(found)} documents under one _id")
        return found[0] if found else None

    def _page(self, document: Mapping[str, Any]) -> Any:
        """All pairs once they are there; a further page is asked for before."""
        cursor = document["cursor"]
        page = cursor["firstBatch"] if "firstBatch" in cursor else cursor["nextBatch"]
        pairs = self._pairs
        pairs.extend(map(records.pair_of, page))
        if cursor["id"] and len(pairs) < self._wanted:
            self.more = self._message(
                {
                    "getMore": bson.Int64(cursor["id"]),
                    "collection": records.COLLECTION,
                    "batchSize": self._wanted - len(pairs),
                    "$db": self._schema,
                }
            )
            return PENDING
        self._pairs = []
        return pairs[: self._wanted]

    def _refusal(self, error: Mapping[str, Any]) -> OperationFailed:
        text = error.get("errmsg") or "refused without a reason"
        return records.refusal(self._where, error.get("code"), text)

    def _strange(self, what: str) -> OperationFailed:
        self._buffer = bytearray()
        return OperationFailed(
            "protocol", f"mongo at {self._where}: the server {what}", broken=True
        )
