"""What kvtui says to MySQL: two tables, seven statements, names only as parameters.

Values stand in ``kvtui_values``; counters in ``kvtui_counters``, one row a counter,
found by the digest of its name so that any bytes can be a name. Keys are VARBINARY:
under a text collation "É" is "e", and trailing blanks do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Final

from kvtui.errors import OperationFailed
from kvtui.stores.operations import KEY_LIMIT_BYTES

VALUES: Final = "kvtui_values"
COUNTERS: Final = "kvtui_counters"
TABLES: Final = (VALUES, COUNTERS)

GET: Final = f"SELECT v FROM {VALUES} WHERE k = ?"
PUT: Final = (
    f"INSERT INTO {VALUES} (k, v) VALUES (?, ?) ON DUPLICATE KEY UPDATE v = VALUES(v)"
)
SCAN: Final = f"SELECT k, v FROM {VALUES} WHERE k >= ? ORDER BY k LIMIT ?"
COUNTS: Final = f"SELECT name, n FROM {COUNTERS} WHERE k = ?"
DELETE_VALUE: Final = f"DELETE FROM {VALUES} WHERE k = ?"
DELETE_COUNTERS: Final = f"DELETE FROM {COUNTERS} WHERE k = ?"

COLUMNS: Final = {
    VALUES: f"k VARBINARY({KEY_LIMIT_BYTES}) NOT NULL PRIMARY KEY, v LONGBLOB NOT NULL",
    COUNTERS: (
        f"k VARBINARY({KEY_LIMIT_BYTES}) NOT NULL, d BINARY(20) NOT NULL,"
        " name LONGBLOB NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (k, d)"
    ),
}
"""The key is at most 250 bytes, within the index limit of every row format."""

TRIES: Final = 10
"""How often a statement is tried when the server undid it for a deadlock. All tries
are one operation with one latency, and those after the first are counted."""

MOST_ROWS: Final = 1024
"""In one statement; a statement takes 65,535 parameters."""

Row = tuple[bytes, bytes, int]
"""A counter: the digest of its name, its name, the amount."""


def add_statement(rows: int) -> str:
    """The upsert of so many counters."""
    places = ", ".join(["(?, ?, ?, ?)"] * rows)
    return (
        f"INSERT INTO {COUNTERS} (k, d, name, n) VALUES {places}"
        " ON DUPLICATE KEY UPDATE n = n + VALUES(n)"
    )


def rows(counts: Sequence[tuple[bytes, int]]) -> list[Row]:
    """Each counter once, in the order of digests.

    All clients lock rows in the same order, which avoids most deadlocks. Raises
    OperationFailed for an amount that no BIGINT holds.
    """
    amounts: dict[bytes, int] = {}
    for name, amount in counts:
        amounts[name] = amounts.get(name, 0) + amount
    for amount in amounts.values():
        if not -(1 << 63) <= amount < 1 << 63:
            raise OperationFailed("too-large", "mysql: a counter takes 64 bits")
    return sorted(
        (blake2b(name, digest_size=20).digest(), name, amount)
        for name, amount in amounts.items()
    )


def batches(
    every: Sequence[Row], cost: Callable[[Row], int], room: int
) -> Iterator[Sequence[Row]]:
    """The rows in as few statements as fit ``room`` bytes and :data:`MOST_ROWS`."""
    start = used = 0
    for number, row in enumerate(every):
        bytes_of_row = cost(row)
        if number - start >= MOST_ROWS or (
            number > start and used + bytes_of_row > room
        ):
            yield every[start:number]
            start, used = number, 0
        used += bytes_of_row
    if start < len(every):
        yield every[start:]


def too_large(where: str, size: int, limit: int) -> OperationFailed:
    """A statement over the server's limit. It is never sent: the server would only
    close the connection."""
    return OperationFailed(
        "too-large",
        f"mysql at {where}: a request of {size:,} bytes is over max_allowed_packet,"
        f" {limit:,} bytes",
        hint="raise the server's max_allowed_packet (of a private one: max_packet=1GB)",
    )
