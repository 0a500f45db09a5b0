"""Which version a server program is, as it says itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

LIMIT_S: Final = 3.0
"""A program that takes longer is asked no more."""
_FLAGS: Final = {"nginx": "-v", "apache2": "-v", "httpd": "-v", "memcached": "-V"}
"""Of those that do not know ``--version``."""
_VERSION: Final = re.compile(rb"\d+\.\d+(?:\.\d+)*")
_MOST_BYTES: Final = 20_000


def versions(programs: list[str]) -> list[str]:
    """The version of each program, all asked at once; empty where none is told."""
    if not programs:
        return []
    with ThreadPoolExecutor(len(programs)) as asking:
        return list(asking.map(version, programs))


def version(program: str) -> str:
    """``7.0.15``, or empty. Whatever the program does instead is ended and leaves
    nothing."""
    words = [program, _FLAGS.get(Path(program).name, "--version")]
    with tempfile.TemporaryDirectory(prefix="kvtui-") as folder:
        said = Path(folder) / "said"
        with said.open("wb") as out:
            try:
                asked = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError:
                return ""
        try:
            asked.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(asked.pid, signal.SIGKILL)
            asked.wait()
        with said.open("rb") as file:
            found = _VERSION.search(file.read(_MOST_BYTES))
    return found[0].decode() if found else ""
