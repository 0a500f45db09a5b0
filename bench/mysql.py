"""kvtui's wire loop beside mysqlslap: a unix socket, 50 clients, 100 bytes.

One worker's loop in this process against one private server; MariaDB's or MySQL's own
load generator with the same statement against the same server in turn; the driver mode
for comparison. mysqlslap sends statements as text, as the driver does; the wire loop
executes prepared ones, so it spares the server their parsing. The log is flushed once a
second, so that the disk is not what is compared. Gets and puts apart.

Target: at least as many gets and puts a second as mysqlslap.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench.compare import Comparison, printed_by, program, table
from bench.loops import (
    CLIENTS,
    KEYS,
    VALUE,
    calls_rate,
    gets,
    puts,
    reachable,
    wire_rate,
)
from kvtui.stores.mysql import statements as sql

OPERATIONS = 20_000
DRIVER_OPERATIONS = 10_000


def with_slap(tool: str, options: Path, path: str, statement: str) -> float:
    """Statements a second that mysqlslap reports."""
    words = [tool, f"--defaults-file={options}", f"--socket={path}"]
    words += ["--create-schema=kvtui", "--no-drop", f"--concurrency={CLIENTS}"]
    words += [f"--number-of-queries={OPERATIONS}", f"--query={statement}"]
    took = r"Average number of seconds to run all queries: ([\d.]+)"
    return OPERATIONS / float(printed_by(words, took)[0])


def as_text(statement: str, *values: bytes) -> str:
    """A statement with its parameters in it: mysqlslap knows no others."""
    for value in values:
        statement = statement.replace("?", f"x'{value.hex()}'", 1)
    return statement


def comparisons() -> Iterator[Comparison]:
    """Gets and puts on one server."""
    tool = program("mariadb-slap", "mysqlslap", package="mariadb-client")
    asked = {"transport": "unix", "flush_at_commit": 0}
    with (
        reachable("mysql", asked, KEYS[:CLIENTS]) as settings,
        tempfile.TemporaryDirectory(prefix="kvtui-bench-") as folder,
    ):
        options = Path(folder) / "client.cnf"
        options.touch(0o600)
        secret = Path(settings["password_file"]).read_text()
        options.write_text(
            f"[client]\nuser={settings['username']}\npassword={secret}\n"
        )
        for test, make, statement in (
            ("get", gets, as_text(sql.GET, KEYS[0])),
            ("put", puts, as_text(sql.PUT, KEYS[0], VALUE)),
        ):
            ours = partial(wire_rate, "mysql", settings, make, OPERATIONS)
            path = os.fspath(settings["path"])
            theirs = partial(with_slap, tool, options, path, statement)
            yield Comparison("mysql", f"wire, {test}", ours, "mysqlslap", theirs, 1.0)
            driver = partial(calls_rate, "mysql", settings, make, DRIVER_OPERATIONS)
            yield Comparison(
                "mysql", f"wire, {test}", ours, "its own driver mode", driver, None
            )


def main() -> int:
    """Print the table; how many targets were missed."""
    return table([("mysql", comparisons)])


if __name__ == "__main__":
    sys.exit(main())
