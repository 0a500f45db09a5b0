"""Tokyo Tyrant's binary protocol, sans-I/O: requests and replies.

A request is ``C8``, a command byte and its fields, big-endian; a reply is a code
(0 done, 1 failed or not there) and what the command gives. What stands here was
checked byte for byte against ttserver 1.1.41 (protocol 0.91), whose own account of
it is its specification, section "Protocol".

Replies are parsed by generators that yield how many bytes they need next and are
sent them; :class:`~kvtui.stores.tokyo.talk.Conversation` drives them.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, TypeVar

from kvtui.errors import OperationFailed

T = TypeVar("T")

Parse: TypeAlias = Generator[int, bytes, T]
"""Yields how many bytes it needs (at least 1), is sent them, returns the reply."""

ARGUMENT_LIMIT_BYTES: Final = 256 << 20
"""One key or value. The server closes at one byte more, without a reply."""
ARGUMENTS_LIMIT: Final = 1 << 20
"""Keys in one mget; likewise."""
WHOLE_LIMIT: Final = 2**53
"""Below it (in size), a double holds every whole number."""
ALL: Final = -1
"""For fwmkeys: no limit."""

_ONE = struct.Struct(">BBI").pack
_TWO = struct.Struct(">BBII").pack
_THREE = struct.Struct(">BBIII").pack
_DOUBLE = struct.Struct(">qq")
_MAGIC: Final = 0xC8


# Requests.


def put(key: bytes, value: bytes) -> bytes:
    """Store; code 1 is a failure."""
    return b"%b%b%b" % (_TWO(_MAGIC, 0x10, len(key), len(value)), key, value)


def putkeep(key: bytes, value: bytes) -> bytes:
    """Store where nothing is yet; code 1: something was there."""
    return b"%b%b%b" % (_TWO(_MAGIC, 0x11, len(key), len(value)), key, value)


def putcat(key: bytes, value: bytes) -> bytes:
    """Append, or store."""
    return b"%b%b%b" % (_TWO(_MAGIC, 0x12, len(key), len(value)), key, value)


def out(key: bytes) -> bytes:
    """Remove; code 1: it was not there."""
    return _ONE(_MAGIC, 0x20, len(key)) + key


def get(key: bytes) -> bytes:
    """The value, by :func:`read_value`."""
    return _ONE(_MAGIC, 0x30, len(key)) + key


def mget(keys: Sequence[bytes]) -> bytes:
    """Several values, by :func:`read_pairs`; what is not there is left out."""
    words = [_ONE(_MAGIC, 0x31, len(keys))]
    for key in keys:
        words += (len(key).to_bytes(4, "big"), key)
    return b"".join(words)


def vsiz(key: bytes) -> bytes:
    """The value's length, by :func:`read_size`."""
    return _ONE(_MAGIC, 0x38, len(key)) + key


def iterinit() -> bytes:
    """Begin anew; the server has one iterator for all its connections."""
    return b"\xc8\x50"


def iternext() -> bytes:
    """The next key, by :func:`read_value`; None at the end."""
    return b"\xc8\x51"


def fwmkeys(prefix: bytes, most: int = ALL) -> bytes:
    """Up to ``most`` keys that begin so, by :func:`read_list`."""
    length = len(prefix)
    return struct.pack(">BBIi", _MAGIC, 0x58, length, most) + prefix


def addint(key: bytes, amount: int) -> bytes:
    """Add to a 32-bit number, in place, by :func:`read_int`.

    Any value of four bytes is such a number to the server, which wraps in silence.
    """
    return struct.pack(">BBIi", _MAGIC, 0x60, len(key), amount) + key


def adddouble(key: bytes, amount: int) -> bytes:
    """Add a whole number, by :func:`read_sums`.

    It travels as a signed 64-bit whole part and a fraction in 1e-12, but the server
    makes a double of it: exact only below :data:`WHOLE_LIMIT` (measured: 2^62 + 1
    is 2^62). It keeps that double, in its own byte order.
    """
    return struct.pack(">BBIqq", _MAGIC, 0x61, len(key), amount, 0) + key


def sync() -> bytes:
    """Write everything to the disk."""
    return b"\xc8\x70"


def rnum() -> bytes:
    """How many records, by :func:`read_number`."""
    return b"\xc8\x80"


def size() -> bytes:
    """The database's bytes, by :func:`read_number`."""
    return b"\xc8\x81"


def stat() -> bytes:
    """Lines of name, tab, value, by :func:`read_value` and :func:`stat_fields`."""
    return b"\xc8\x88"


def misc(name: bytes, arguments: Sequence[bytes], options: int = 0) -> bytes:
    """A function by its name, by :func:`read_list`; ``options`` 1: no update log."""
    words = [_THREE(_MAGIC, 0x90, len(name), options, len(arguments)), name]
    for each in arguments:
        words += (len(each).to_bytes(4, "big"), each)
    return b"".join(words)


# Replies.


def read_code() -> Parse[bool]:
    """Whether it was done."""
    return _is_done((yield 1))


def read_value() -> Parse[bytes | None]:
    """A value; None for code 1."""
    if not _is_done((yield 1)):
        return None
    return (yield from _bytes())


def read_size() -> Parse[int | None]:
    """A length; None for code 1."""
    if not _is_done((yield 1)):
        return None
    return _length((yield 4))


def read_int() -> Parse[int | None]:
    """A signed 32-bit sum; None for code 1."""
    if not _is_done((yield 1)):
        return None
    return int.from_bytes((yield 4), "big", signed=True)


def read_number() -> Parse[int | None]:
    """An unsigned 64-bit number; None for code 1."""
    if not _is_done((yield 1)):
        return None
    return int.from_bytes((yield 8), "big")


def read_sums(count: int) -> Parse[list[int | None]]:
    """The replies to ``count`` pipelined adddoubles; None for code 1.

    A sum that a double may not hold exactly comes as it is; see
    :data:`WHOLE_LIMIT`. A fraction is not of kvtui's making, and a failure.
    """
    sums: list[int | None] = []
    code = yield 1
    for left in range(count - 1, -1, -1):
        if not _is_done(code[:1]):
            sums.append(None)
            code = (yield 1) if left else b""
            continue
        # With the next reply's code, so that one step reads one reply.
        piece = yield 17 if left else 16
        whole, fraction = _DOUBLE.unpack_from(piece)
        if fraction:
            raise garbage(f"a counter with a fraction, {fraction}e-12")
        sums.append(whole)
        code = piece[16:]
    return sums


def read_list() -> Parse[list[bytes] | None]:
    """Keys (fwmkeys) or elements (misc); None for code 1."""
    done = _is_done((yield 1))
    count = _length((yield 4))
    found = []
    for _ in range(count):
        found.append((yield from _bytes()))
    return found if done else None


def read_pairs() -> Parse[list[tuple[bytes, bytes]] | None]:
    """Keys with their values (mget); None for code 1."""
    done = _is_done((yield 1))
    count = _length((yield 4))
    found = []
    for _ in range(count):
        sizes = yield 8
        key_length, value_length = _length(sizes[:4]), _length(sizes[4:])
        both = (yield key_length + value_length) if key_length + value_length else b""
        found.append((both[:key_length], both[key_length:]))
    return found if done else None


def stat_fields(text: bytes) -> dict[str, str]:
    """The lines of ``stat``: ``version``, ``pid``, ``type``, ``path``, …"""
    fields = {}
    for line in text.decode("utf-8", "replace").splitlines():
        name, tab, value = line.partition("\t")
        if tab:
            fields[name] = value
    return fields


def garbage(what: str) -> OperationFailed:
    """The error for bytes that are not the protocol."""
    return OperationFailed("protocol", f"tokyo sent {what}", broken=True)


def _is_done(code: bytes) -> bool:
    if code == b"\0":
        return True
    if code == b"\1":
        return False
    raise garbage(f"{code!r} where a reply's code is 0 or 1: is it Tokyo Tyrant?")


def _length(four: bytes) -> int:
    length = int.from_bytes(four, "big")
    if length >= 1 << 31:
        raise garbage(f"a length of {length}, which nothing has")
    return length


def _bytes() -> Parse[bytes]:
    length = _length((yield 4))
    return (yield length) if length else b""
