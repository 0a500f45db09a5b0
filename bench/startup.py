"""How long kvtui takes to start.

``kvtui --version`` as a whole process, and the first frame of the workbench beside
that of an empty Textual App, both through a terminal of 120 by 40, in turn.

Targets: under 0.15 s, and at most 1.5 times the empty App.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).parent.parent)

from bench import alternate, medians, ratio, verdict

VERSION_LIMIT_S = 0.15
FRAME_LIMIT = 1.5
ROUNDS = 7
WAIT_S = 20.0
EMPTY = (
    "from textual.app import App\n"
    "from textual.widgets import Static\n"
    "class Empty(App):\n"
    "    def compose(self):\n"
    "        yield Static('ready-to-see')\n"
    "Empty().run()\n"
)


def version() -> float:
    """Seconds for ``kvtui --version``."""
    began = time.perf_counter()
    program = Path(sys.executable).with_name("kvtui")
    subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def first_frame(words: list[str], wanted: bytes) -> float:
    """Seconds until ``wanted`` has been painted in a new terminal."""
    with tempfile.TemporaryDirectory(prefix="kvtui-bench-") as state:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "XDG_STATE_HOME": state,
            "XDG_CONFIG_HOME": state,
        }
        began = time.perf_counter()
        process_id, terminal = pty.fork()
        if process_id == 0:
            os.execvpe(words[0], words, environment)
        size = struct.pack("HHHH", 40, 120, 0, 0)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
        painted = b""
        try:
            while wanted not in painted:
                left = began + WAIT_S - time.perf_counter()
                if left <= 0 or not select.select([terminal], [], [], left)[0]:
                    raise SystemExit(f"{words} never painted {wanted!r}: {painted!r}")
                painted += os.read(terminal, 65536)
            return time.perf_counter() - began
        finally:
            os.kill(process_id, signal.SIGKILL)
            os.waitpid(process_id, 0)
            os.close(terminal)


def main() -> int:
    """Print the table; how many targets were missed."""
    version()
    took_s = statistics.median(version() for _ in range(ROUNDS))
    program = str(Path(sys.executable).with_name("kvtui"))
    rows = alternate(
        (
            lambda: first_frame([program], b"redis-unix"),
            lambda: first_frame([sys.executable, "-c", EMPTY], b"ready-to-see"),
        ),
        ROUNDS,
    )
    ours_s, empty_s = medians(rows)
    share = ratio(rows, 0, 1)
    print(
        f"kvtui --version: {took_s:.3f} s"
        f" (target < {VERSION_LIMIT_S}: {verdict(took_s < VERSION_LIMIT_S)})"
    )
    print(
        f"first frame: workbench {ours_s:.3f} s, empty App {empty_s:.3f} s, ratio"
        f" {share:.2f} (target <= {FRAME_LIMIT}: {verdict(share <= FRAME_LIMIT)})"
    )
    return (took_s >= VERSION_LIMIT_S) + (share > FRAME_LIMIT)


if __name__ == "__main__":
    sys.exit(main())
