"""Private servers: started for one trial, on a unix socket or loopback, and gone.

A server is a child of the process that starts it and dies with it (PDEATHSIG on
Linux). It is ready only when a real write and read worked *and* the answering
process is the child, so that a foreign server on the same port is never taken for
ours. Stopping is: ask, wait, kill after a limit, and only then remove its files.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Final

from kvtui.errors import KvtuiError, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.programs import find_program
from kvtui.stores.servers.ties import tied_to_this_process
from kvtui.stores.store import Settings, Store

READY_LIMIT_S: Final = 20.0
_PROBE_TIMEOUT_S: Final = 1.0
STOP_LIMIT_S: Final = 5.0
SOCKET_PATH_LIMIT: Final = 107
"""Bytes in a unix socket's path (unix(7)); some servers cut a longer one."""
FILES: Final = 20_000
"""Open files that a server may have, where the system lets it."""
LINE_LIMIT: Final = 200
SOCKET_LINK: Final = "sockets"
"""In a server's folder: where its sockets are, when not there."""


class PrivateServer(ABC):
    """One server program, run for one trial in ``directory``."""

    kind: ClassVar[str]
    default_transport: ClassVar[str] = "unix"
    for_server_only: ClassVar[frozenset[str]] = frozenset()
    """Settings that say how the server is run; an adapter never sees them."""

    def __init__(self, directory: Path, settings: Settings) -> None:
        self.directory = directory
        self.settings = settings
        self.log = directory / "server.log"
        self.port = 0
        """On 127.0.0.1, where it listens by TCP."""
        self.path: Path | None = None
        """Of its socket, where it listens on one."""
        self._process: subprocess.Popen[bytes] | None = None
        self._short_directory: Path | None = None

    @abstractmethod
    def command(self, program: str) -> list[str]:
        """The command line; ``port`` or ``path`` is chosen by then."""

    def prepare(self, program: str) -> None:  # noqa: B027 - most have nothing to do
        """What must be done in the directory before the program can start."""

    def probe(self, store: Store) -> None:
        """Prove that it keeps data. Raises StoreUnavailable otherwise."""
        key, value = b"kvtui:ready:probe", os.urandom(8)
        store.put(key, value)
        if store.get(key) != value:
            raise StoreUnavailable("it did not keep the first value")
        store.delete(key)

    def connect_settings(self) -> dict[str, Any]:
        """Settings under which an adapter reaches this server: its socket or its
        port, beside what was asked for."""
        hidden = {"transport", "program", *self.for_server_only}
        asked = {k: v for k, v in self.settings.items() if k not in hidden}
        if self.path is not None:
            return {**asked, "path": str(self.path)}
        return {**asked, "host": "127.0.0.1", "port": self.port}

    @property
    def process_id(self) -> int | None:
        """The server's, while it runs."""
        return None if self._process is None else self._process.pid

    def start(self, *, tied: bool = True) -> dict[str, Any]:
        """Start and wait until it has written and read; how to connect.

        ``tied``: whether it ends with this process. Raises StoreUnavailable with
        the server's last lines.
        """
        program = self._program()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._choose_address()
        self.prepare(program)
        words = self.command(program)
        _allow_files()
        with self.log.open("ab") as log:
            os.chmod(self.log, 0o600)
            self._process = subprocess.Popen(
                tied_to_this_process(words) if tied else words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
                umask=0o077,  # its socket and its files are for this user only
            )
        try:
            self._wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self.connect_settings()

    def _program(self) -> str:
        kind = registry.kind(self.kind)
        asked = self.settings.get("program")
        program = find_program([str(asked)] if asked else kind.servers)
        if program is None:
            raise StoreUnavailable(
                f"{asked or kind.servers[0]} is not installed",
                hint="program=PATH names it" if asked else kind.install,
            )
        return program

    def _choose_address(self) -> None:
        transport = self.settings.get("transport", self.default_transport)
        if transport == "tcp":
            self.port = free_port()
            return
        self.path = self.socket_path(f"{self.kind}.sock")
        # One that a killed server left would keep some from starting.
        self.path.unlink(missing_ok=True)

    def _wait_until_ready(self) -> None:
        limit = time.monotonic() + READY_LIMIT_S
        problem = "no answer"
        while time.monotonic() < limit:
            died = self.death()
            if died:
                raise StoreUnavailable(
                    f"{self.kind}: the private server {died}: {self.last_lines()}"
                )
            try:
                self._try()
            except KvtuiError as error:
                problem = error.message
                time.sleep(0.005)
            else:
                return
        raise StoreUnavailable(
            f"{self.kind}: the private server was not ready within"
            f" {READY_LIMIT_S:.0f} s ({problem}): {self.last_lines()}"
        )

    def _try(self) -> None:
        # Somebody else may listen there and never answer; ours is soon asked again.
        settings = {**self.connect_settings(), "timeout_s": _PROBE_TIMEOUT_S}
        store = registry.adapter(self.kind)(settings)
        store.open()
        try:
            answering = store.info().process_id
            if answering not in (None, self.process_id):
                raise StoreUnavailable(
                    f"another server (process {answering}) answers there"
                )
            self.probe(store)
        finally:
            store.close()

    def death(self) -> str | None:
        """How the server ended, in words; None while it runs."""
        if self._process is None or self._process.poll() is None:
            return None
        code = self._process.returncode
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def last_lines(self, number: int = 3) -> str:
        """The end of its log, on one line."""
        try:
            text = self.log.read_bytes()[-4000:].decode("utf-8", "replace")
        except OSError:
            return "no log"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        shown = [line[-LINE_LIMIT:] for line in lines[-number:]]
        return " / ".join(shown) or "it printed nothing"

    def stop(self) -> None:
        """Ask it to end, wait, kill it after a limit; then remove its socket."""
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._short_directory is not None:
            shutil.rmtree(self._short_directory, ignore_errors=True)
            self._short_directory = None

    def socket_path(self, name: str) -> Path:
        """A place for a unix socket that is short enough for every server."""
        path = self.directory / name
        if len(os.fsencode(path)) <= SOCKET_PATH_LIMIT:
            return path
        if self._short_directory is None:
            self._short_directory = Path(tempfile.mkdtemp(prefix="kvtui-"))
            # So that it is found again should this process be killed.
            (self.directory / SOCKET_LINK).symlink_to(self._short_directory)
        return self._short_directory / name


def _allow_files() -> None:
    """Raise this process's soft limit of open files, which a server inherits: it
    needs one for each client, and not every server raises its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def free_port() -> int:
    """A TCP port on 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
