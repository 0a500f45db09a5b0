"""The round trips of memcached's operations, as generators that touch no socket.

From protocol.txt of memcached 1.6 (meta commands). None asks for silence: every
command is answered, and every answer is looked at. All answers to a request have come
before the first of them is judged, so that a failure leaves none behind.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeAlias

from msgspec import Struct

from kvtui.errors import OperationFailed
from kvtui.stores.memcached.counters import BIAS, Place, entries, names_in
from kvtui.stores.operations import KEY_LIMIT_BYTES, Add, Counts, Delete, Operation
from kvtui.stores.store import unsupported

BATCH: Final = 1000
"""Commands sent before their answers are read: these answers fit a socket's buffer,
so that neither side ever waits for the other to read first."""
ITEM_OVERHEAD_BYTES: Final = 59
"""What an item takes beside key and value, with its CAS number: measured on 1.6.18 as
the difference to ``item_size_max`` at which a value is refused."""
STORED, MISSING, NOT_FOUND, NOT_STORED = b"HD", b"EN", b"NF", b"NS"
NOTHING: Final = b"MN"
ERRORS: Final = (b"SERVER_ERROR", b"CLIENT_ERROR", b"ERROR")

Reply: TypeAlias = tuple[bytes, bytes | None]
"""A reply's line, and its value where it has one."""
Exchange: TypeAlias = Generator[tuple[bytes, int], list[Reply], Any]
"""Yields a request with the number of replies it gets, and is sent these."""


class Peer(Struct, frozen=True):
    """What must be known of a server to tell its errors."""

    where: str
    item_size_max: int
    """Bytes of an item with its key and header."""
    evicts: bool
    """Whether it drops old items when it is full, rather than refuse new ones."""


def exchange_for(operation: Operation, peer: Peer) -> Exchange:
    """The round trips of an operation that may need several."""
    if isinstance(operation, Add):
        return _adding(peer, operation)
    if isinstance(operation, Counts):
        return _counting(peer, operation.key)
    if isinstance(operation, Delete):
        return _deleting(peer, operation.key)
    raise unsupported("memcached", operation.label)


def _adding(peer: Peer, operation: Add) -> Exchange:
    place = Place(operation.key)
    new: dict[bytes, None] = {}
    if not operation.counts:
        yield b"mn\r\n", 1  # asks for nothing, and is answered
    for counts in batches(operation.counts):
        request = [_add_one(place.counter(name), amount) for name, amount in counts]
        replies = yield b"".join(request), len(request)
        for (name, amount), reply in zip(counts, replies, strict=True):
            total = _number(peer, reply, operation.key)
            # Just made, or back at 0 before: then it stands in the index twice.
            if total == amount:
                new[name] = None
    if new:
        added = entries(new)
        # An append needs something to append to; "NS" when that is there already.
        made, appended = yield (
            b"ms %b 0 ME\r\n\r\nms %b %d MA\r\n%b\r\n"
            % (place.index, place.index, len(added), added),
            2,
        )
        if made[0] not in (STORED, NOT_STORED):
            raise refused(peer, made[0], operation.key, 0)
        if appended[0] == NOT_STORED:
            raise OperationFailed(
                "too-large",
                f"memcached at {peer.where} keeps no longer list of the counters of"
                f" {shown(operation.key)}: an item may take {peer.item_size_max:,}"
                " bytes",
                hint="raise its limit of an item (-I)",
            )
        if appended[0] != STORED:
            raise refused(peer, appended[0], operation.key, len(added))


def _add_one(where: bytes, amount: int) -> bytes:
    if not -BIAS <= amount < BIAS:
        raise OperationFailed(
            "unsupported", f"memcached counts up to 2**63, and not by {amount}"
        )
    return b"ma %b N0 J%d D%d M%b v\r\n" % (
        where,
        BIAS + amount,
        abs(amount),
        b"I" if amount >= 0 else b"D",
    )


def _counting(peer: Peer, key: bytes) -> Exchange:
    place = Place(key)
    (index,) = yield b"mg %b v\r\n" % place.index, 1
    names = _names(peer, index, key)
    found: dict[bytes, int] = {}
    missing = 0
    for some in batches(names):
        request = b"".join([b"mg %b v\r\n" % place.counter(name) for name in some])
        replies = yield request, len(some)
        for name, reply in zip(some, replies, strict=True):
            if reply[0] == MISSING:
                missing += 1
            else:
                found[name] = _number(peer, reply, key)
    if missing:
        raise OperationFailed(
            "server-error",
            f"memcached at {peer.where} has lost {missing:,} of the {len(names):,}"
            f" counters of {shown(key)}",
            hint="it may have evicted them: give it more memory (-m)",
        )
    return found or None


def _deleting(peer: Peer, key: bytes) -> Exchange:
    place = Place(key)
    deleted, index = yield b"md %b\r\nmg %b v\r\n" % (key, place.index), 2
    there = was_there(peer, deleted)
    counters = yield from _deleting_indexed(peer, key, place, index)
    return there or counters


def deleting_counters(peer: Peer, key: bytes) -> Exchange:
    """Delete the counters under ``key``; whether there were some."""
    place = Place(key)
    (index,) = yield b"mg %b v\r\n" % place.index, 1
    there = yield from _deleting_indexed(peer, key, place, index)
    return there


def _deleting_indexed(
    peer: Peer, key: bytes, place: Place, index: Reply
) -> Generator[tuple[bytes, int], list[Reply], bool]:
    if index[0] == MISSING:
        return False
    # The index last: until then the counters can still be found.
    where = [place.counter(name) for name in _names(peer, index, key)]
    yield from deleting_all(peer, [*where, place.index])
    return True


def deleting_all(peer: Peer, keys: Iterable[bytes]) -> Exchange:
    """Delete these keys; how many were there."""
    removed = 0
    for some in batches(keys):
        replies = yield b"".join([b"md %b\r\n" % each for each in some]), len(some)
        removed += sum(was_there(peer, reply) for reply in replies)
    return removed


def batches(items: Iterable[Any]) -> Iterator[list[Any]]:
    """The items, BATCH at a time."""
    left = iter(items)
    while some := list(islice(left, BATCH)):
        yield some


def _names(peer: Peer, index: Reply, key: bytes) -> list[bytes]:
    try:
        return names_in(value_of(index, peer) or b"")
    except ValueError as error:
        raise _no_counters(peer, key, str(error)) from None


def _number(peer: Peer, reply: Reply, key: bytes) -> int:
    line, value = reply
    if value is None:
        raise refused(peer, line, key, 0)
    try:
        return int(value) - BIAS
    except ValueError:
        raise _no_counters(peer, key, f"{value!r:.40} is no number") from None


def value_of(reply: Reply, peer: Peer) -> bytes | None:
    """What ``mg`` found; None is a miss."""
    line, value = reply
    if value is not None or line == MISSING:
        return value
    raise failure(peer, line)


def was_there(peer: Peer, reply: Reply) -> bool:
    """What ``md`` found."""
    line = reply[0]
    if line in (STORED, NOT_FOUND):
        return line == STORED
    raise failure(peer, line)


def refused(peer: Peer, line: bytes, key: bytes, size: int) -> OperationFailed:
    """A write that was not done; ``size`` is the value's, in bytes."""
    text = _text(line)
    if "too large" in text:
        return OperationFailed(
            "too-large",
            f"memcached at {peer.where}: {text}: {shown(key)} with"
            f" {size:,} bytes; an item may take {peer.item_size_max:,} bytes with its"
            f" key and {ITEM_OVERHEAD_BYTES} more, and what was there is gone",
            hint="raise its limit of an item: -I, or item_limit of a private server",
        )
    if "out of memory" in text.lower() and not peer.evicts:
        # It is full and stays so: nothing more can be stored.
        return OperationFailed(
            "no-space",
            f"memcached at {peer.where}: {text}: {shown(key)} with {size:,} bytes",
            hint="give it more memory: -m, or memory of a private server",
        )
    return failure(peer, line)


def failure(peer: Peer, line: bytes) -> OperationFailed:
    """An answer that is none of the expected ones."""
    if line.startswith(b"SERVER_ERROR"):
        return OperationFailed(
            "server-error", f"memcached at {peer.where}: {_text(line)}"
        )
    if line.startswith(ERRORS):
        # It did not understand the command, and may take a value for the next one.
        return OperationFailed(
            "server-error",
            f"memcached at {peer.where}: {_text(line)}",
            hint="kvtui needs memcached 1.6, with its meta commands",
            broken=True,
        )
    return protocol_error(peer, line)


def protocol_error(peer: Peer, problem: str | bytes) -> OperationFailed:
    """What came is not the protocol."""
    text = problem if isinstance(problem, str) else f"it sent {problem!r:.60}"
    return OperationFailed(
        "protocol",
        f"memcached at {peer.where} does not answer like one: {text}",
        broken=True,
    )


def _no_counters(peer: Peer, key: bytes, problem: str) -> OperationFailed:
    return OperationFailed(
        "server-error",
        f"memcached at {peer.where} holds no counters for {shown(key)}: {problem}",
    )


def _text(line: bytes) -> str:
    return line.decode("ascii", "backslashreplace")


def shown(key: bytes) -> str:
    """A key in a message."""
    return repr(key[:KEY_LIMIT_BYTES])[2:-1] or "the empty one"
