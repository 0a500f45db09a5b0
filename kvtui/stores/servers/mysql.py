"""A private mariadbd or mysqld: its data in the run's folder, one account for kvtui.

As root it runs as root: a run's folder lies where only its owner may enter, so another
account could not reach its own data there. What keeps others out is that folder (0700,
the socket is in it) and a password made for this server alone, in a file of mode 0600;
the account can use kvtui's database and nothing else.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import Any, ClassVar, Final

import psutil

from kvtui.errors import StoreUnavailable
from kvtui.stores.memory import free_bytes
from kvtui.stores.mysql.tables import quoted, schema_of
from kvtui.stores.programs import find_program
from kvtui.stores.servers.base import LINE_LIMIT, PrivateServer
from kvtui.stores.servers.ties import tied_to_this_process
from kvtui.stores.settings import size_bytes

ACCOUNT: Final = "kvtui"
_INSTALLERS: Final = ("mariadb-install-db", "mysql_install_db")
_INSTALL_LIMIT_S: Final = 120.0
_DATA_BYTES: Final = 130_000_000
"""What a fresh data directory takes without its log; 114 MB were measured."""
_MOST_POOL_BYTES: Final = 1 << 30
_LEAST_LOG_BYTES: Final = 48 << 20
_MOST_LOG_BYTES: Final = 512 << 20
_DEFAULT_PACKET_BYTES: Final = 256 << 20
_DEFAULT_FLUSH: Final = 1
"""The server's own default, and what any installation has: a fsync each commit."""


class MySqlServer(PrivateServer):
    """mariadbd or mysqld.

    Settings: ``memory`` is the buffer pool (1 GiB, or a quarter of the machine's
    memory where that is less; never more than half of what is free), the redo log a
    quarter of it, 512 MiB at most; ``flush_at_commit`` (1), ``max_packet`` (256 MiB),
    ``direct_io`` (the server's default), ``row_format``.
    """

    kind: ClassVar[str] = "mysql"
    for_server_only: ClassVar[frozenset[str]] = frozenset(
        {"memory", "flush_at_commit", "max_packet", "direct_io"}
    )

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def command(self, program: str) -> list[str]:
        """Its own socket or a port on 127.0.0.1; nothing from any settings file."""
        flush = self.settings.get("flush_at_commit", _DEFAULT_FLUSH)
        words = [
            program,
            "--no-defaults",  # must come first
            f"--datadir={self._data}",
            f"--tmpdir={self.directory}",
            f"--pid-file={self.directory / 'mysql.pid'}",
            f"--init-file={self._account_file}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--local-infile=0",
            "--loose-mysqlx=0",
            "--max-connections=4000",
            "--character-set-server=utf8mb4",
            f"--innodb-buffer-pool-size={self._pool_bytes()}",
            f"--innodb-log-file-size={self._log_bytes()}",
            f"--innodb-flush-log-at-trx-commit={flush}",
            f"--max-allowed-packet={self._packet_bytes()}",
            # Stopping writes the log and no pages: the data goes with the folder.
            "--innodb-fast-shutdown=2",
            *self._flush_method(),
            *_as_root(),
        ]
        if self.path is not None:
            return [*words, f"--socket={self.path}", "--skip-networking"]
        own = self.socket_path("mysql.sock")
        own.unlink(missing_ok=True)
        return [
            *words,
            f"--socket={own}",
            "--bind-address=127.0.0.1",
            f"--port={self.port}",
        ]

    def connect_settings(self) -> dict[str, Any]:
        """With the account that this server was given."""
        return {
            **super().connect_settings(),
            "username": ACCOUNT,
            "password_file": str(self._password_file),
        }

    def prepare(self, program: str) -> None:
        """An empty data directory, and the statements that make the account."""
        self._write_account()
        if self._data.is_dir():
            return  # of an earlier start in this folder
        needed = _DATA_BYTES + self._log_bytes()
        free = shutil.disk_usage(self.directory).free
        if free < needed:
            raise StoreUnavailable(
                f"mysql: {self.directory} has {free:,} bytes free; a private server"
                f" begins with {needed:,}",
                hint="free some space, or XDG_STATE_HOME=FOLDER on another disk",
            )
        # Renamed when it is whole: a half-made one is never taken for a whole.
        made = self.directory / "data.new"
        shutil.rmtree(made, ignore_errors=True)
        self._install(program, made)
        made.rename(self._data)

    def _install(self, program: str, made: Path) -> None:
        words = _install_words(program, made)
        with self.log.open("ab") as log:
            os.chmod(self.log, 0o600)
            try:
                done = subprocess.run(
                    tied_to_this_process(words),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.directory,
                    timeout=_INSTALL_LIMIT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise StoreUnavailable(
                    f"mysql: {words[0]} did not end within {_INSTALL_LIMIT_S:.0f} s:"
                    f" {self.last_lines()}"
                ) from None
        if done.returncode:
            raise StoreUnavailable(
                f"mysql: {words[0]} ended with status {done.returncode}:"
                f" {self._errors() or self.last_lines()}"
            )

    def _errors(self) -> str:
        """What went wrong; an installer ends with lines of general advice."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        found = [line.strip()[:LINE_LIMIT] for line in lines if "ERROR" in line]
        return " / ".join(found[:3])

    @property
    def _password_file(self) -> Path:
        return self.directory / "password"

    @property
    def _account_file(self) -> Path:
        return self.directory / "account.sql"

    def _write_account(self) -> None:
        secret = secrets.token_hex(20)
        _write(self._password_file, secret)
        # _ and % are wildcards in a GRANT.
        schema = quoted(schema_of(self.settings))
        schema = schema.replace("_", r"\_").replace("%", r"\%")
        lines = []
        for host in ("localhost", "127.0.0.1"):
            account = f"'{ACCOUNT}'@'{host}'"
            lines += [
                f"CREATE USER IF NOT EXISTS {account};",
                f"ALTER USER {account} IDENTIFIED BY '{secret}';",
                f"GRANT ALL ON {schema}.* TO {account};",
            ]
        _write(self._account_file, "\n".join(lines) + "\n")

    def _pool_bytes(self) -> int:
        asked = self.settings.get("memory")
        usual = min(_MOST_POOL_BYTES, int(psutil.virtual_memory().total) // 4)
        wanted = size_bytes(asked) if asked else usual
        return min(wanted, free_bytes() // 2)

    def _log_bytes(self) -> int:
        quarter = self._pool_bytes() // 4
        log = min(max(quarter, _LEAST_LOG_BYTES), _MOST_LOG_BYTES)
        return log >> 20 << 20

    def _packet_bytes(self) -> int:
        asked = self.settings.get("max_packet", _DEFAULT_PACKET_BYTES)
        return max(1024, size_bytes(asked) // 1024 * 1024)

    def _flush_method(self) -> list[str]:
        direct = self.settings.get("direct_io")
        if direct is None:
            return []
        return [f"--innodb-flush-method={'O_DIRECT' if direct else 'fsync'}"]


def _as_root() -> list[str]:
    # Without it a server refuses to run as root.
    return ["--user=root"] if os.geteuid() == 0 else []


def _install_words(program: str, made: Path) -> list[str]:
    if not _is_mariadb(program):
        return [
            program,
            "--no-defaults",
            "--initialize-insecure",
            f"--datadir={made}",
            f"--tmpdir={made.parent}",
            *_as_root(),
        ]
    beside = Path(program).resolve().parent
    near = [
        str(folder / name)
        for folder in (beside, beside.parent / "bin", beside.parent / "scripts")
        for name in _INSTALLERS
    ]
    installer = find_program([*near, *_INSTALLERS])
    if installer is None:
        raise StoreUnavailable(
            f"mysql: {_INSTALLERS[0]} is not installed, which {program} needs",
            hint="apt install mariadb-server-core mariadb-client",
        )
    return [
        installer,
        "--no-defaults",
        f"--datadir={made}",
        # No account without a password: root comes in only as the system's root.
        "--auth-root-authentication-method=socket",
        "--skip-test-db",
        "--skip-name-resolve",
        # Another server that starts removes what it finds in a shared one.
        f"--tmpdir={made.parent}",
        # Nothing is in it yet that a crash of the machine could take.
        "--innodb-flush-method=nosync",
        *_as_root(),
    ]


def _is_mariadb(program: str) -> bool:
    """By its own word: a mysqld may well be a MariaDB."""
    try:
        told = subprocess.run(
            [program, "--no-defaults", "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreUnavailable(f"mysql: {program} cannot be run: {error}") from None
    return "mariadb" in told.stdout.lower()


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(
        os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
    ) as f:
        f.write(text)
