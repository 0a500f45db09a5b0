"""Private servers that outlive the command that started them.

Each has a folder under its name with ``server.json`` in it: its process, how to reach
it, since when. A process is known by its number *and* the moment it started, so that a
number that was given to somebody else is never stopped; a folder whose process is gone
is a leftover, and said to be one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil

from kvtui.errors import StoreUnavailable, UsageError
from kvtui.stores.servers import private_server
from kvtui.stores.servers.base import PrivateServer
from kvtui.stores.servers.elsewhere import remove_elsewhere

FILE: Final = "server.json"
STOP_LIMIT_S: Final = 30.0
"""A server with much to write at its end may take its time."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")

_started: list[PrivateServer] = []
"""By this process, which lets them live."""


class Standing(msgspec.Struct, frozen=True):
    """One server, as its folder tells."""

    name: str
    store: str
    """As it was named, with its settings."""
    kind: str
    process_id: int
    process_started: str
    """See :func:`identity`."""
    since: str
    settings: dict[str, Any]
    """Under which an adapter reaches it."""


class Seen(msgspec.Struct, frozen=True):
    """A server's folder, and whether the server lives."""

    name: str
    path: Path
    standing: Standing | None
    """None where the folder does not tell: its start was broken off."""
    lives: bool


def identity(process_id: int) -> str:
    """What tells a process from a later one of the same number; empty for none."""
    try:
        # The moment of its start since boot; a clock that is set changes nothing.
        stat = Path(f"/proc/{process_id}/stat").read_bytes()
        state, *rest = stat.rpartition(b")")[2].split()
        if state == b"Z":
            return ""
        return f"{_BOOT_ID.read_text().strip()}:{rest[18].decode()}"
    except (OSError, IndexError):
        pass
    try:
        process = psutil.Process(process_id)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        return f"{process.create_time():.2f}"
    except psutil.Error:
        return ""


def all_standing(folder: Path) -> list[Seen]:
    """Every server's folder, by name."""
    if not folder.is_dir():
        return []
    return [look(path) for path in sorted(folder.iterdir()) if path.is_dir()]


def look(path: Path) -> Seen:
    """One server's folder."""
    try:
        standing = msgspec.json.decode((path / FILE).read_bytes(), type=Standing)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return Seen(path.name, path, None, False)
    found = identity(standing.process_id)
    lives = bool(found) and found == standing.process_started
    return Seen(path.name, path, standing, lives)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Nobody else starts or stops one meanwhile."""
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                "another kvtui servers is just starting or stopping some",
                hint="try again when it has ended",
            ) from None
        yield
    finally:
        os.close(lock)


def up(
    folder: Path, name: str, store: str, kind: str, settings: dict[str, Any]
) -> Standing:
    """Start one that stays. UsageError where it is up; StoreUnavailable where it
    cannot be had."""
    with _alone(folder):
        path = folder / name
        seen = look(path)
        if seen.lives:
            raise UsageError(
                f"{name} is up already", hint=f"kvtui servers down {name} stops it"
            )
        _remove(path)
        server = private_server(kind, path, settings)
        try:
            reached = server.start(tied=False)
            standing = Standing(
                name,
                store,
                kind,
                server.process_id or 0,
                identity(server.process_id or 0),
                datetime.now(UTC).isoformat(timespec="seconds"),
                reached,
            )
            _write(path / FILE, msgspec.json.encode(standing))
        except BaseException:
            server.stop()
            _remove(path)
            raise
        _started.append(server)
        return standing


def down(folder: Path, name: str) -> Seen:
    """Stop one and remove its folder; what was found there."""
    with _alone(folder):
        path = folder / name
        if not path.is_dir():
            raise UsageError(
                f"{name} is not up", hint="kvtui servers lists those that are"
            )
        seen = look(path)
        if seen.lives and seen.standing is not None:
            _stop(seen.standing)
        _remove(path)
        return seen


def _stop(standing: Standing) -> None:
    """Ask it to end, wait, kill it and its children after a limit."""
    try:
        process = psutil.Process(standing.process_id)
        if identity(standing.process_id) != standing.process_started:
            return
        family = [process, *process.children(recursive=True)]
        process.terminate()
        _, alive = psutil.wait_procs([process], timeout=STOP_LIMIT_S)
        for each in family if alive else []:
            with contextlib.suppress(psutil.Error):
                each.kill()
        _, alive = psutil.wait_procs(family, timeout=STOP_LIMIT_S)
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied:
        alive = [process]
    if alive:
        raise StoreUnavailable(
            f"{standing.name} (process {standing.process_id}) cannot be stopped"
        )


def _remove(path: Path) -> None:
    """Remove a folder whose server is gone, and what of it lies elsewhere."""
    if not path.is_dir():
        return
    for process in _at_work_in(path):
        # Of a start that was broken off before it could write who it is.
        with contextlib.suppress(psutil.Error):
            process.kill()
            process.wait(STOP_LIMIT_S)
    remove_elsewhere(path)
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        raise StoreUnavailable(f"{path} cannot be removed")


def _at_work_in(path: Path) -> list[psutil.Process]:
    """This person's processes whose working folder it is: servers run in their own."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            theirs = process.cwd()
            mine = process.uids().real == os.getuid()
            if mine and theirs == str(path.resolve()) and process.pid != os.getpid():
                found.append(process)
    return found


def _write(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(data)
