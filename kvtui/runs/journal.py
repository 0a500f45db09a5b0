"""The journal: typed events, one JSON object a line, written by one runner.

The writer holds an exclusive lock on the file while it lives, so anybody can tell
a run that goes on from one whose runner is gone. Readers follow the file and take
whole lines only; a last line that was cut off (a full disk, a killed runner) is
left unread.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec

from kvtui.errors import RunError
from kvtui.runs.events import AnyEvent, Event

NAME = "journal.jsonl"
_LOCK_LIMIT_S: Final = 1.0
"""Whoever looks whether a journal is written holds its lock for a moment."""
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_OWED_LIMIT_BYTES: Final = 1 << 26


class JournalWriter:
    """Appends events; holds the lock until closed."""

    def __init__(self, path: Path) -> None:
        """Create the journal, mode 0600; RunError when somebody else writes it."""
        self._encoder = msgspec.json.Encoder()
        self._owed = b""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        give_up = time.monotonic() + _LOCK_LIMIT_S
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > give_up:
                    os.close(self._file)
                    raise RunError(
                        f"{path} is being written by another runner"
                    ) from None
            time.sleep(0.01)

    def append(self, event: Event) -> None:
        """Write one event.

        While the disk is full events wait for room, 64 MiB of them at most, as the
        store that has filled it may be gone soon; then, or when the disk fails,
        OSError.
        """
        self._owed += self._encoder.encode(event) + b"\n"
        try:
            self._write()
        except OSError as error:
            if error.errno not in _FULL or len(self._owed) > _OWED_LIMIT_BYTES:
                raise

    def owes(self) -> bool:
        """Whether events are still waiting for room on the disk."""
        return bool(self._owed)

    def _write(self) -> None:
        # Up to the last byte that fits: the next time goes on from there.
        while self._owed:
            self._owed = self._owed[os.write(self._file, self._owed) :]

    def close(self) -> None:
        """Let go of the lock; what never found room is lost."""
        with contextlib.suppress(OSError):
            self._write()
        os.close(self._file)

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class JournalReader:
    """Follows a journal: each :meth:`read` gives the events since the last."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable_lines = 0
        self._decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)
        self._offset = 0
        self._rest = b""

    def read(self, limit_bytes: int = 4_000_000) -> list[AnyEvent]:
        """Whole events that have arrived, at most about ``limit_bytes`` of them.

        An empty list means that there is nothing new (yet). A line that is not an
        event is counted in ``unreadable_lines`` and passed over.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                while data := file.read(limit_bytes):
                    self._offset += len(data)
                    *lines, self._rest = (self._rest + data).split(b"\n")
                    if events := list(self._decoded(lines)):
                        return events
        except FileNotFoundError:
            pass
        return []

    def _decoded(self, lines: list[bytes]) -> Iterator[AnyEvent]:
        for line in lines:
            try:
                yield self._decoder.decode(line)
            except (msgspec.MsgspecError, RecursionError):
                self.unreadable_lines += 1


def is_written(path: Path) -> bool:
    """Whether a living runner holds the journal's lock."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(file)
