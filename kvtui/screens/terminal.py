"""The terminal itself: whether there is one, and keeping it clean.

While the screen is up nothing else may write to it: what libraries print, also
from C, goes to a log. A terminal that is gone ends the application; it never spins.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, TextIO

from kvtui.errors import UsageError

HEADLESS: Final = "kvtui run fans --store ram runs without one"
LOG_LIMIT_BYTES: Final = 1_000_000
GRACE_S: Final = 3.0
"""How long an orderly end may take before it is cut short."""
_RESTORE: Final = (
    b"\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1004l\x1b[?2004l"
    b"\x1b[<u\x1b[?7h\x1b[?25h\x1b[?1049l"
)


def require(environment: Mapping[str, str] | None = None) -> None:
    """Raise UsageError where there is no terminal that can show a screen."""
    environment = os.environ if environment is None else environment
    kind = environment.get("TERM", "")
    if kind in ("", "dumb", "unknown"):
        said = f"TERM={kind}" if kind else "TERM is not set"
        raise UsageError(
            f"kvtui needs a terminal that can place text, and {said}", hint=HEADLESS
        )
    for number, name in ((0, "input"), (2, "error output")):
        if not _is_terminal(number):
            raise UsageError(
                f"kvtui needs a terminal, and standard {name} is none", hint=HEADLESS
            )


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False


class Terminal:
    """Holds the terminal for the screen, from ``with`` to its end."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._saved: dict[int, int] = {}
        self._streams: tuple[TextIO | None, TextIO | None] = (None, None)
        self._attributes: list[Any] | None = None
        self._over = threading.Event()
        self._leaving: int | None = None
        self._warn = warnings.showwarning
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> Terminal:
        # An exported size would be believed for ever.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        try:
            self._attributes = termios.tcgetattr(0)
        except termios.error:
            self._attributes = None
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._saved = {number: os.dup(number) for number in (1, 2)}
        screen = os.dup(2)
        os.set_inheritable(screen, False)
        log = _opened(self._log)
        for number in (1, 2):
            os.dup2(log, number)
        os.close(log)
        self._streams = (sys.__stdout__, sys.__stderr__)
        file = os.fdopen(screen, "w", encoding="utf-8", errors="replace")
        # Textual draws on the one, and asks the other for its size.
        sys.__stdout__ = sys.__stderr__ = file  # type: ignore[misc]
        warnings.showwarning = _log_warning
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        warnings.showwarning = self._warn
        file = sys.__stderr__
        sys.__stdout__, sys.__stderr__ = self._streams  # type: ignore[misc, assignment]
        for number, saved in self._saved.items():
            os.dup2(saved, number)
            os.close(saved)
        if file is not None:
            try:
                file.close()
            except OSError:
                return  # the terminal is gone

    def guard(self, leave: Callable[[int], None]) -> None:
        """Call ``leave`` with an exit code when asked to end or left alone.

        What does not end in time is ended, with the terminal restored as far as it
        lets one.
        """

        def asked(number: int, frame: FrameType | None) -> None:
            if self._leaving is None:
                self._leaving = 128 + number
                leave(128 + number)

        # A handler of Python's own also runs while the loop waits for a terminal
        # that takes no more output; one of the loop's would not.
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._handlers[number] = signal.signal(number, asked)
        threading.Thread(
            target=self._watch, args=(leave,), name="terminal", daemon=True
        ).start()

    def _watch(self, leave: Callable[[int], None]) -> None:
        poller = select.poll()
        poller.register(0, 0)
        gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
        while not self._over.wait(0.5):
            if self._leaving is None:
                if not any(event & gone for _, event in poller.poll(0)):
                    continue
                self._leaving = 128 + signal.SIGHUP
                leave(self._leaving)
            if not self._over.wait(GRACE_S):
                self._restore()
                os._exit(self._leaving)

    def _restore(self) -> None:
        screen = self._saved[2]
        try:
            os.set_blocking(screen, False)
            os.write(screen, _RESTORE)
            if self._attributes is not None:
                termios.tcsetattr(0, termios.TCSANOW, self._attributes)
        except (OSError, termios.error):
            return  # it is gone


def _opened(log: Path) -> int:
    """A file for stray output; nowhere if it cannot be had."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
            flags |= os.O_TRUNC
        return os.open(log, flags, 0o600)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


def _log_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    text = warnings.formatwarning(message, category, filename, lineno, line)
    os.write(2, text.encode("utf-8", "backslashreplace"))
