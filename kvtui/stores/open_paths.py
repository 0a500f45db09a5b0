"""Which folders this process has open as embedded stores.

An embedded store must not be opened twice by one process. LevelDB refuses, but its
refusal lets go of the first handle's lock, and another process could then write at
the same time; so the table is asked before the library is.
"""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock
from typing import Final

from kvtui.errors import StoreUnavailable

_open: Final[set[str]] = set()
_changing: Final = Lock()


def claim(kind: str, directory: Path) -> str:
    """The real path of ``directory``, from now on taken, by whatever name it goes.

    Raises StoreUnavailable when it is open in this process, by any kind of store.
    """
    real_path = os.path.realpath(directory)
    with _changing:
        if real_path in _open:
            raise StoreUnavailable(
                f"{kind}: {directory} is already open in this process"
            )
        _open.add(real_path)
    return real_path


def release(real_path: str) -> None:
    """Let go of what :func:`claim` gave; harmless when it is not taken."""
    with _changing:
        _open.discard(real_path)
