"""What kvtui's records look like in MongoDB, and what its refusals mean.

One collection, ``kvtui_records``, one document a record::

    {"_id": "kvtui:fans:…", "v": <binary value>}
    {"_id": "kvtui:fans:…", "c": {"n<name>": <64-bit integer>, …}}

``_id`` is text and not binary: MongoDB orders binary data by its length first
(manual, "Comparison/Sort Order"), so keys with a common prefix would be no range.
Each byte of a key is one character (Latin-1), which keeps every key apart and the
order of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from bson.int64 import Int64

from kvtui.errors import OperationFailed
from kvtui.stores.operations import prefix

COLLECTION: Final = "kvtui_records"
DOCUMENT_LIMIT_BYTES: Final = 16_777_216
"""maxBsonObjectSize of every server so far; the live one's is read from ``hello``."""

VALUE: Final[Mapping[str, int]] = {"_id": 0, "v": 1}
COUNTERS: Final[Mapping[str, int]] = {"_id": 0, "c": 1}
"""Projections."""

_FRAME_BYTES: Final = 4 + (1 + 4 + 4 + 1) + (1 + 2 + 4 + 1) + 1
"""Of a document with one value, beside key and value (bsonspec.org)."""
_PLAIN: Final = frozenset(range(0x21, 0x7F)) - set(b"%.$")
_ESCAPED: Final = {code: f"%{code:02X}" for code in range(256) if code not in _PLAIN}

# Error codes of the server, src/mongo/base/error_codes.yml.
_TOO_LARGE: Final = frozenset({10334, 17419, 17420})
_NO_SPACE: Final = frozenset({14031})
NO_LOGIN: Final = frozenset({13, 18})
_TIMEOUT: Final = frozenset({50, 89, 262})


def record_id(key: bytes) -> str:
    """The ``_id`` of a key."""
    return key.decode("latin-1")


def key_of(found: Any) -> bytes:
    """The key of an ``_id``; ValueError where kvtui did not write it."""
    if type(found) is not str:
        raise ValueError(f"_id is {type(found).__name__}, not text")
    return found.encode("latin-1")


def ours(namespace: str) -> dict[str, Any]:
    """The filter for the records of a namespace: a range of ``_id``."""
    start = prefix(namespace)
    after = start[:-1] + bytes([start[-1] + 1])
    return {"_id": {"$gte": record_id(start), "$lt": record_id(after)}}


def from_here(key: bytes) -> dict[str, Any]:
    """The filter for the values from a key on; counters are no values."""
    return {"_id": {"$gte": record_id(key)}, "v": {"$exists": True}}


def increments(counts: Iterable[tuple[bytes, int]]) -> dict[str, dict[str, int]]:
    """The update that adds to counters; a name that comes twice is summed.

    Field names may not be empty nor hold NUL, and in an update a dot descends and
    ``$`` is an operator: ``n`` before it and percent-escapes make every name legal,
    and no two alike.
    """
    sums: dict[str, int] = {}
    for name, amount in counts:
        field = "c.n" + name.decode("latin-1").translate(_ESCAPED)
        sums[field] = sums.get(field, 0) + amount
    return {"$inc": {field: Int64(amount) for field, amount in sums.items()}}


def value_of(document: Any) -> bytes | None:
    """The value in a document; None where it holds counters."""
    value = document.get("v")
    if value is None or type(value) is bytes:
        return value
    raise ValueError(f"v is {type(value).__name__}, not bytes")


def pair_of(document: Any) -> tuple[bytes, bytes]:
    """Key and value of a document that a scan found."""
    value = value_of(document)
    if value is None:
        raise ValueError("a document of a scan has no value")
    return key_of(document.get("_id")), value


def counters_of(document: Any) -> dict[bytes, int] | None:
    """The counters in a document; None where it has none."""
    counters = document.get("c")
    if counters is None:
        return None
    found: dict[bytes, int] = {}
    for field, amount in counters.items():
        if not isinstance(amount, int) or isinstance(amount, bool):
            raise ValueError(f"a counter is {type(amount).__name__}")
        found[unquote_to_bytes(field[1:])] = int(amount)
    return found or None


def check_size(where: str, key: bytes, value: bytes, limit_bytes: int) -> None:
    """Raise OperationFailed ``too-large`` for a document that no server takes."""
    size = _FRAME_BYTES + len(key) + len(value)
    if size > limit_bytes:
        raise OperationFailed(
            "too-large",
            f"mongo at {where}: a value of {len(value):,} bytes makes a document of"
            f" {size:,} bytes; MongoDB takes {limit_bytes:,}",
            hint="use smaller values; MongoDB's limit cannot be raised",
        )


def value_limit_bytes(limit_bytes: int, key_bytes: int) -> int:
    """What one value may take under a key of that length."""
    return limit_bytes - _FRAME_BYTES - key_bytes


def refusal(where: str, code: Any, text: object) -> OperationFailed:
    """The server's refusal as one failed operation; the connection goes on."""
    kind, hint = "server-error", None
    if code in _TOO_LARGE:
        kind = "too-large"
        hint = "use smaller records; MongoDB's limit cannot be raised"
    elif code in _NO_SPACE:
        kind, hint = "no-space", "free space where the server keeps its data"
    elif code in _TIMEOUT:
        kind = "timeout"
    elif code in NO_LOGIN:
        hint = LOGIN_HINT
    named = f" (code {code})" if code is not None else ""
    return OperationFailed(kind, f"mongo at {where}: {text}{named}", hint=hint)


LOGIN_HINT: Final = (
    "name a login that may read and write: username=NAME with"
    " password_env=NAME or password_file=FILE"
)
