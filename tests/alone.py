"""File systems of a test's own, in a namespace where nobody else sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

MOUNTS: Final = ("unshare", "--map-root-user", "--mount")
_SMALL: Final = 'mount -t tmpfs -o size=64m none "$1" && exec "$2" -c "$3" "$1/db"'


def require_mounts() -> None:
    """Skip where the kernel lets nobody make such a namespace."""
    if subprocess.run([*MOUNTS, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here, not even in a namespace")


def on_a_small_disk(code: str, folder: Path) -> str:
    """What Python prints that runs ``code`` with the path of a database on a disk of
    64 MB, mounted on ``folder``. It must end well, and say nothing else."""
    require_mounts()
    done = subprocess.run(
        [*MOUNTS, "sh", "-c", _SMALL, "-", str(folder), sys.executable, code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
