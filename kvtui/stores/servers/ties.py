"""Processes that end when the one that started them is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_TIE: Final = (
    "import ctypes, os, sys\n"
    f"ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})\n"
    "if os.getppid() != int(sys.argv[1]): sys.exit('its parent is gone')\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def tied_to_this_process(words: list[str]) -> list[str]:
    """A command that the kernel ends when this process is gone (Linux only).

    The tie is made by a small Python that then becomes the command: a function run
    between fork and exec is not safe in a process with threads.
    """
    if sys.platform != "linux":
        return words
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid()), *words]


def die_with_parent() -> None:
    """Have the kernel end this process when its parent is gone (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
