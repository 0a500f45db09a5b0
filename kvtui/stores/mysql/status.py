"""What a live MySQL server says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from kvtui.errors import StoreUnavailable
from kvtui.stores.mysql.statements import VALUES

_VARIABLES: Final = (
    "autocommit",
    "innodb_buffer_pool_size",
    "innodb_compression_default",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_log_file_size",
    "innodb_page_size",
    "innodb_redo_log_capacity",
    "log_bin",
    "max_allowed_packet",
    "max_connections",
    "sql_mode",
    "sync_binlog",
    "transaction_isolation",
    "tx_isolation",
    "version",
    "version_comment",
)
"""Servers have one of the two names for isolation, and for the log's size."""

_SHOWN: Final = frozenset(_VARIABLES) - {"version", "version_comment"}


def packet_limit(cursor: Any) -> int:
    """max_allowed_packet, in bytes.

    Raises StoreUnavailable where our session is not as we need it.
    """
    cursor.execute("SELECT @@max_allowed_packet, @@sql_mode, @@autocommit")
    limit, mode, commits = cursor.fetchone()
    if "STRICT_ALL_TABLES" not in str(mode) or not commits:
        raise StoreUnavailable(
            "mysql: the server does not let a session be strict and commit by itself",
            hint=f"its sql_mode stayed {mode!s:.60}, autocommit {commits!s:.5}",
        )
    return int(limit)


def durability(variables: Mapping[str, str]) -> str:
    """What an acknowledged write has reached, from the settings in force."""
    level = variables.get("innodb_flush_log_at_trx_commit", "?")
    setting = f"innodb_flush_log_at_trx_commit={level}"
    if level == "0":
        return f"memory, log written and flushed once a second ({setting})"
    if variables.get("innodb_flush_method", "").lower() in ("nosync", "littlesync"):
        return f"OS cache, never flushed (innodb_flush_method, {setting})"
    if level == "2":
        return f"OS cache, log flushed once a second ({setting})"
    return f"fsync at each commit ({setting})"


class Server(Struct, frozen=True):
    """A server's version, settings and counters."""

    version: str
    buffer_pool_bytes: int
    compression: str
    variables: dict[str, str]
    details: dict[str, str]

    @classmethod
    def of(cls, cursor: Any, schema: str) -> Server:
        """Read them; raises whatever PyMySQL raises."""
        places = ", ".join(["%s"] * len(_VARIABLES))
        cursor.execute(
            f"SHOW SESSION VARIABLES WHERE variable_name IN ({places})", _VARIABLES
        )
        variables = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        cursor.execute(
            "SELECT row_format, create_options FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            (schema, VALUES),
        )
        row_format, options = (str(each) for each in cursor.fetchone() or ("?", "?"))
        # The server counts what its clients, ours and others', had to try again.
        cursor.execute(
            "SHOW GLOBAL STATUS WHERE variable_name IN"
            " ('Innodb_deadlocks', 'Innodb_row_lock_waits')"
        )
        counted = {str(name).lower(): str(value) for name, value in cursor.fetchall()}
        details = {name: variables[name] for name in sorted(_SHOWN & variables.keys())}
        return cls(
            _version(variables),
            int(variables.get("innodb_buffer_pool_size", 0)),
            _compression(row_format, options, variables),
            variables,
            details
            | counted
            | {"schema": schema, "row_format": row_format.lower(), "engine": "InnoDB"},
        )


def _version(variables: Mapping[str, str]) -> str:
    version = variables.get("version", "?")
    number, *rest = version.split("-")
    if any("mariadb" in each.lower() for each in rest):
        return f"MariaDB {number}"
    percona = "percona" in variables.get("version_comment", "").lower()
    return f"{'Percona Server' if percona else 'MySQL'} {number}"


def _compression(row_format: str, options: str, variables: Mapping[str, str]) -> str:
    if row_format.lower() == "compressed":
        block = "8"
        for word in options.lower().split():
            name, _, value = word.partition("=")
            if name == "key_block_size":
                block = value
        return f"zlib, rows of compressed pages (key_block_size={block})"
    if variables.get("innodb_compression_default", "OFF").upper() == "ON":
        return "page compression, the server's default"
    return "none"
