"""Which folders this process has open as embedded stores.

An embedded store must not be opened twice by one process. LevelDB refuses, but its
refusal lets go of the first handle's lock, and another process could then write at
the same time; so the table is asked before the library is.

Nor is a handle of any use after a fork: threads do not come along, and both processes
would write. The child is told, so that no operation has to ask whose handle it has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from kvtui.errors import StoreUnavailable

_open: Final[dict[str, Callable[[], None]]] = {}
_changing: Final = Lock()
_listening = False


def claim(kind: str, directory: Path, forked: Callable[[], None]) -> str:
    """The real path of ``directory``, from now on taken, by whatever name it goes.

    ``forked`` is called in the child after a fork, while the path is taken. Raises
    StoreUnavailable when it is open in this process, by any kind of store.
    """
    global _listening
    real_path = os.path.realpath(directory)
    with _changing:
        if real_path in _open:
            raise StoreUnavailable(
                f"{kind}: {directory} is already open in this process"
            )
        _open[real_path] = forked
        if not _listening:
            os.register_at_fork(
                before=_changing.acquire,
                after_in_parent=_changing.release,
                after_in_child=_tell,
            )
            _listening = True
    return real_path


def _tell() -> None:
    _changing.release()
    for forked in list(_open.values()):
        forked()


def release(real_path: str) -> None:
    """Let go of what :func:`claim` gave; harmless when it is not taken."""
    with _changing:
        _open.pop(real_path, None)
