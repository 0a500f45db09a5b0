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
    packaged = _packaged(Path(program))
    if packaged:
        return packaged
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


def _packaged(program: Path) -> str:
    """The version of the Python package that brought a program of a virtual
    environment: such a program may take seconds to say it, or never do."""
    environment = program.parent.parent
    if not (environment / "pyvenv.cfg").is_file():
        return ""
    script = re.compile(rf"^{re.escape(program.name)}\s*=", re.M)
    for points in environment.glob("lib/*/site-packages/*.dist-info/entry_points.txt"):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if script.search(points.read_text("utf-8")):
                found = _VERSION.search(points.parent.name.encode())
                return found[0].decode() if found else ""
    return ""
