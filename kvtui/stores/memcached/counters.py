"""Counters of one record as many small memcached items, and where they are kept.

memcached can only add to a number of its own, so a record of counters is:

- one item a counter, ``<namespace>#c<record><counter>``, its value biased by 2**63:
  memcached's numbers are unsigned, and stop at 0 when something is taken away;
- one index, ``<namespace>#i<record>``: the names of the counters, each after its
  length (4 bytes, big-endian). A name stands in it at least once.

``<record>`` and ``<counter>`` are digests of 22 characters, so that these keys are
neither longer than memcached allows nor equal to any that
:func:`kvtui.stores.operations.key` makes (``#`` and 40 digits). Both stand in a
counter's key, so that a counter whose index is lost is still found as that record's.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from kvtui.stores.operations import prefix

BIAS: Final = 2**63
"""What a counter of 0 is stored as; a counter may be from -2**63 to 2**63 - 1."""
_COUNTER, _INDEX = b"#c", b"#i"
_DIGEST_BYTES: Final = 16
_DIGEST_CHARACTERS: Final = 22
_LENGTH_BYTES: Final = 4
_SHORT_NAME: Final = 300


class Place:
    """Where the counters of the record under ``key`` are."""

    __slots__ = ("_start", "index")

    def __init__(self, key: bytes) -> None:
        namespace, record = _namespace(key), _digest(key)
        self._start = namespace + _COUNTER + record
        self.index = namespace + _INDEX + record

    def counter(self, name: bytes) -> bytes:
        """The key of one counter."""
        short = len(name) <= _SHORT_NAME
        return self._start + (_remembered(name) if short else _digest(name))


def entries(names: Iterable[bytes]) -> bytes:
    """The names as they stand in an index."""
    return b"".join(len(each).to_bytes(_LENGTH_BYTES) + each for each in names)


def names_in(index: bytes) -> list[bytes]:
    """The names in an index, each once; ValueError when it is none."""
    found: dict[bytes, None] = {}
    at = 0
    while at < len(index):
        start = at + _LENGTH_BYTES
        at = start + int.from_bytes(index[at:start])
        if start > len(index) or at > len(index):
            raise ValueError("it ends within a name")
        found[index[start:at]] = None
    return list(found)


def records(namespace: str, keys: Iterable[bytes]) -> int:
    """How many records these keys of a namespace are: a value and all counters
    under the same key are one."""
    start = prefix(namespace)
    with_counters: set[bytes] = set()
    values: list[bytes] = []
    for each in keys:
        record = _record(each[len(start) :])
        if record is None:
            values.append(each)
        else:
            with_counters.add(record)
    if with_counters:
        with_counters.difference_update(map(_digest, values))
    return len(values) + len(with_counters)


def _record(name: bytes) -> bytes | None:
    """Whose counter or index has this name; None for anything else."""
    mark, rest = name[:2], name[2:]
    if (mark == _INDEX and len(rest) == _DIGEST_CHARACTERS) or (
        mark == _COUNTER and len(rest) == 2 * _DIGEST_CHARACTERS
    ):
        return rest[:_DIGEST_CHARACTERS]
    return None


def _namespace(key: bytes) -> bytes:
    """``kvtui:<namespace>:``; nothing where a key has none."""
    parts: Sequence[bytes] = key.split(b":", 2)
    return b"%b:%b:" % (parts[0], parts[1]) if len(parts) == 3 else b""


def _digest(data: bytes) -> bytes:
    found = blake2b(data, digest_size=_DIGEST_BYTES).digest()
    return b2a_base64(found, newline=False)[:_DIGEST_CHARACTERS]


# The same few thousand names come again and again.
_remembered = lru_cache(maxsize=1 << 16)(_digest)
