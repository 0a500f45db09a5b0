"""What a workload asks of a store, and how its names become keys.

An operation is a small immutable value; a workload's client yields them and is
sent what the store replied:

===========  ======================================  =============================
operation    asks                                    is sent
===========  ======================================  =============================
Get          the value under a key                   ``bytes``, or None (a *miss*)
Put          store a value, whatever was there       None
Add          add to several named counters of one    None
             record, in the store's own best way
Counts       the counters of one record              ``dict[bytes, int]``, or None
Scan         up to ``count`` pairs from ``start`` on  ``list[tuple[bytes, bytes]]``
Delete       remove a key                            whether it was there
Request      any HTTP request for a path             :class:`Response`, or None
===========  ======================================  =============================

A failed operation is raised at the ``yield`` as
:class:`~kvtui.errors.OperationFailed`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from hashlib import blake2b
from typing import Any, ClassVar, Final, TypeAlias

from msgspec import Struct


class Operation(Struct, frozen=True, gc=False):
    """One thing asked of a store."""

    label: ClassVar[str]
    """Its name in every figure: ``get``, ``put``, …"""
    key: bytes


class Get(Operation, frozen=True, gc=False):
    """Ask for the value under a key."""

    label: ClassVar[str] = "get"


class Put(Operation, frozen=True, gc=False):
    """Store a value under a key."""

    label: ClassVar[str] = "put"
    value: bytes


class Add(Operation, frozen=True, gc=False):
    """Add to counters of the record under a key; ``counts`` is (name, amount)."""

    label: ClassVar[str] = "add"
    counts: tuple[tuple[bytes, int], ...]


class Counts(Operation, frozen=True, gc=False):
    """Ask for all counters of the record under a key."""

    label: ClassVar[str] = "counts"


class Scan(Operation, frozen=True, gc=False):
    """Ask for ``count`` pairs in key order, the first at or after ``key``."""

    label: ClassVar[str] = "scan"
    count: int


class Delete(Operation, frozen=True, gc=False):
    """Remove a key."""

    label: ClassVar[str] = "delete"


class Burst(Operation, frozen=True, gc=False):
    """Several operations, each asked once the one before is answered: a client that
    needs to see no reply before its next request spares the engine a turn for each.

    Is sent the replies as a list, in order; where some failed, as :class:`Replies`. No
    store ever sees a burst: what it is asked, and what is measured, is each operation
    by itself.
    """

    label: ClassVar[str] = "burst"
    pairs: Iterator[tuple[bytes, bytes | None]]
    """Keys, each with the value to put, or None for a get. They are taken from it one
    by one, so that a client can tell how far the engine has come."""


class Replies(list[Any]):
    """The replies to a burst in which something failed: there an OperationFailed. (By
    its type a client knows, without looking through all of them.)"""


class Request(Operation, frozen=True, gc=False):
    """Ask an HTTP server by any method; ``key`` names the path, as it does in a Get.

    A plain Get asks the same with less work where there is nothing but a path.
    """

    method: str
    fields: tuple[tuple[str, str], ...] = ()
    """Header fields, names as they were given; they come before the store's own."""
    body: bytes | None = None
    follow: bool = False
    """Whether redirects on the same server are part of the operation."""

    @property
    def label(self) -> str:  # type: ignore[override]
        """That of the method, so that a GET is a ``get`` in every figure."""
        return self.method.lower()


class Response(Struct, frozen=True, gc=False):
    """What an HTTP server answered in the end."""

    status: int
    body: bytes
    hops: int = 0
    """Redirects that led there."""


Reply: TypeAlias = Any
"""``bytes``, counters, pairs, a bool or None: see the table above."""

Client: TypeAlias = Generator[Operation, Reply, dict[str, int] | None]
"""One logical caller. What it returns at its end are figures of its own
(``{"cache hits": 12}``), which the engine sums over all clients."""

KEY_LIMIT_BYTES: Final = 250
"""The strictest store's limit: memcached's (its protocol.txt)."""

_DIGEST_MARK: Final = b"#"


def prefix(namespace: str) -> bytes:
    """What every key of a namespace begins with: ``kvtui:fans:``."""
    return b"kvtui:%b:" % namespace.encode()


def key(namespace: str, name: bytes) -> bytes:
    """The key for ``name``: legal in every store, and never two names' key.

    ``kvtui:<namespace>:<name>`` where the name is printable ASCII without blanks
    and the whole fits :data:`KEY_LIMIT_BYTES`; ``kvtui:<namespace>:#<digest>``
    (BLAKE2b, 160 bits, hexadecimal) for any other name. A name that itself
    begins with ``#`` is digested too, so the two forms cannot meet. The real name
    always stands inside the record.
    """
    start = prefix(namespace)
    if (
        name
        and len(start) + len(name) <= KEY_LIMIT_BYTES
        and not name.startswith(_DIGEST_MARK)
        and _is_printable_ascii(name)
    ):
        return start + name
    return start + _DIGEST_MARK + blake2b(name, digest_size=20).hexdigest().encode()


def _is_printable_ascii(name: bytes) -> bool:
    return name.isascii() and b" " not in name and name.decode("ascii").isprintable()
