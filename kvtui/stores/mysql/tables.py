"""kvtui's own tables on a MySQL server: made when missing, known by their comment.

Only one client at a time may look, make or remove them, by a named lock of the server
(GET_LOCK): otherwise one would remove the tables that another has just found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from kvtui.errors import StoreUnavailable
from kvtui.stores.mysql.statements import COLUMNS, TABLES
from kvtui.stores.store import Settings

DEFAULT_SCHEMA: Final = "kvtui"
OURS: Final = "made by kvtui, with its database"
OURS_IN_THEIRS: Final = "made by kvtui"
"""Comments of a table; the first says that the database is kvtui's too."""

_LOCK_WAIT_S: Final = 3
_KEY_BLOCK: Final = " KEY_BLOCK_SIZE=8"
"""Kilobytes of a compressed page: half of InnoDB's 16, the server's own default."""


def schema_of(settings: Settings) -> str:
    """The database that holds kvtui's tables."""
    return str(settings.get("schema", DEFAULT_SCHEMA))


def quoted(name: str) -> str:
    """A name as SQL text: names cannot be bound."""
    if not name or "\0" in name or len(name) > 64:
        raise StoreUnavailable(f"mysql: {name!r} cannot be the name of a schema")
    return "`" + name.replace("`", "``") + "`"


def ready(cursor: Any, settings: Settings) -> None:
    """Use the database, and make what is missing.

    Raises StoreUnavailable when a table of our name is not ours, or holds rows of
    another row format than asked; and whatever PyMySQL raises.
    """
    schema = schema_of(settings)
    with _alone(cursor, schema):
        made = _use(cursor, schema)
        there = _there(cursor, schema)
        asked = str(settings.get("row_format", "")).upper()
        for table in TABLES:
            if table not in there:
                _make(cursor, table, asked, OURS if made else OURS_IN_THEIRS)
                continue
            engine, comment, row_format = there[table]
            if comment not in (OURS, OURS_IN_THEIRS) or engine != "InnoDB":
                raise StoreUnavailable(
                    f"mysql: there is a table {schema}.{table} that is not kvtui's",
                    hint="name another database: schema=NAME",
                )
            if asked and row_format.upper() != asked:
                _reformat(cursor, schema, table, row_format, asked)


def _use(cursor: Any, schema: str) -> bool:
    """Whether the database had to be made."""
    cursor.execute(
        "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = %s",
        (schema,),
    )
    made = not cursor.fetchone()[0]
    if made:
        # Its default does not matter: our columns are bytes.
        cursor.execute(f"CREATE DATABASE {quoted(schema)} CHARACTER SET utf8mb4")
    cursor.execute(f"USE {quoted(schema)}")
    return made


def _there(cursor: Any, schema: str) -> dict[str, tuple[str, str, str]]:
    cursor.execute(
        "SELECT table_name, engine, table_comment, row_format"
        " FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name IN (%s, %s)",
        (schema, *TABLES),
    )
    return {
        str(name): (str(engine), str(comment), str(row_format))
        for name, engine, comment, row_format in cursor.fetchall()
    }


def _make(cursor: Any, table: str, asked: str, comment: str) -> None:
    cursor.execute(
        f"CREATE TABLE {table} ({COLUMNS[table]}) ENGINE=InnoDB"
        f" DEFAULT CHARACTER SET utf8mb4{_row_format(asked)} COMMENT='{comment}'"
    )


def _row_format(asked: str) -> str:
    if not asked:
        return ""
    return f" ROW_FORMAT={asked}" + (_KEY_BLOCK if asked == "COMPRESSED" else "")


def _reformat(cursor: Any, schema: str, table: str, found: str, asked: str) -> None:
    cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
    if cursor.fetchone():
        raise StoreUnavailable(
            f"mysql: {schema}.{table} holds rows as {found.lower()},"
            f" not as {asked.lower()}",
            hint="remove them with --clear under the old row_format first",
        )
    # A block size would be refused with any other format.
    block = "" if asked == "COMPRESSED" else " KEY_BLOCK_SIZE=0"
    cursor.execute(f"ALTER TABLE {table}{_row_format(asked)}{block}")


def remove_when_empty(cursor: Any, settings: Settings) -> bool:
    """Drop our tables when nothing is in them and nobody else is about to use them;
    and the database, when kvtui made it and nothing else is in it. Whether it did."""
    schema = schema_of(settings)
    with _alone(cursor, schema):
        there = _there(cursor, schema)
        if set(there) != set(TABLES) or any(
            comment not in (OURS, OURS_IN_THEIRS) for _, comment, _ in there.values()
        ):
            return False
        cursor.execute(
            "SELECT COUNT(*) FROM information_schema.processlist"
            " WHERE db = %s AND id <> CONNECTION_ID()",
            (schema,),
        )
        if cursor.fetchone()[0]:
            return False
        for table in TABLES:
            cursor.execute(f"SELECT 1 FROM {table} LIMIT 1")
            if cursor.fetchone():
                return False
        cursor.execute(f"DROP TABLE {', '.join(TABLES)}")
        if all(comment == OURS for _, comment, _ in there.values()):
            _drop_database(cursor, schema)
    return True


def _drop_database(cursor: Any, schema: str) -> None:
    # Anything that somebody else has put there since: tables, views, routines.
    for question in (
        "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = %s",
        "SELECT COUNT(*) FROM information_schema.routines WHERE routine_schema = %s",
        "SELECT COUNT(*) FROM information_schema.events WHERE event_schema = %s",
    ):
        cursor.execute(question, (schema,))
        if cursor.fetchone()[0]:
            return
    cursor.execute(f"DROP DATABASE {quoted(schema)}")


@contextlib.contextmanager
def _alone(cursor: Any, schema: str) -> Iterator[None]:
    name = f"kvtui {schema}"[:64]
    cursor.execute("SELECT GET_LOCK(%s, %s)", (name, _LOCK_WAIT_S))
    if cursor.fetchone()[0] != 1:
        raise StoreUnavailable(
            f"mysql: another client holds the lock {name!r} for long",
            hint="another kvtui may be setting up or removing its tables",
        )
    try:
        yield
    finally:
        # Ends with the connection, should this fail.
        with contextlib.suppress(Exception):
            cursor.execute("SELECT RELEASE_LOCK(%s)", (name,))
            cursor.fetchone()
