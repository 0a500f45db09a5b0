"""A terminal for tests: a program on a pty, what it wrote, and how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

PLAY = """
import sys
from kvtui.app import run_app
left = run_app()
sys.stdout.write(f"left with {left.code}\\n")
sys.exit(left.code)
"""
"""What the command line does, in short."""


class Terminal:
    """A program that has this terminal, in a session of its own."""

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        size: tuple[int, int] = (80, 24),
    ) -> None:
        self.written = bytearray()
        self.master, slave = pty.openpty()
        columns, lines = size
        fcntl.ioctl(
            slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0)
        )
        self.attributes = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            arguments,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._slave: int | None = slave

    def read(self, wait_s: float = 0.05) -> int:
        """Take what has been written; how many bytes it was."""
        before = len(self.written)
        while select.select([self.master], [], [], wait_s)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                break
            if not data:
                break
            self.written += data
            wait_s = 0.0
        return len(self.written) - before

    def until(self, condition: Callable[[bytes], bool], limit_s: float = 20) -> None:
        """Read until the written bytes are as wanted."""
        deadline = time.monotonic() + limit_s
        while not condition(bytes(self.written)):
            if time.monotonic() > deadline:
                raise AssertionError(f"only got {bytes(self.written)[-9000:]!r}")
            self.read()

    def shows(self, text: str, limit_s: float = 20) -> None:
        """Read until a text has been written."""
        self.until(lambda written: text.encode() in written, limit_s)

    def send(self, keys: str) -> None:
        """Type."""
        os.write(self.master, keys.encode())

    def hang_up(self) -> None:
        """The line drops."""
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None
        os.close(self.master)
        self.master = -1

    def ended(self, limit_s: float = 10) -> int:
        """The exit code; reads on meanwhile, as a terminal does."""
        deadline = time.monotonic() + limit_s
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError("it did not end")
            if self.master >= 0:
                self.read()
            else:
                time.sleep(0.05)
        if self.master >= 0:
            self.read()
        return self.process.returncode

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        for number in (self.master, self._slave):
            if number is not None and number >= 0:
                with contextlib.suppress(OSError):
                    os.close(number)


def environment(state: Path, **more: str) -> dict[str, str]:
    """A plain environment with a state directory of its own."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "VIRTUAL_ENV")
    }
    return {
        **kept,
        "XDG_STATE_HOME": str(state),
        "XDG_CONFIG_HOME": str(state / "config"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        **more,
    }


def play(state: Path, size: tuple[int, int] = (80, 24), **more: str) -> Terminal:
    """kvtui's screens on a terminal."""
    return Terminal([sys.executable, "-c", PLAY], environment(state, **more), size)
