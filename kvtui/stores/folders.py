"""Which folder an embedded store may be made in: one with nothing else in it.

A library takes every file whose name is like its own for its own, and removes what it
does not need: LevelDB opened among somebody's ``20240101.log`` deletes that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from kvtui.errors import StoreUnavailable

_NOBODYS: Final = frozenset({"lost+found"})
"""What an empty file system holds."""
FREE_SOME_SPACE: Final = (
    "free some space on the disk of this folder; a run's own folder is where"
    " XDG_STATE_HOME says"
)


def check(kind: str, directory: Path, holds_one: Callable[[Path], bool]) -> None:
    """Raise StoreUnavailable unless the folder is missing, empty, or ``holds_one``:
    a database of this kind. Nothing is touched."""
    try:
        names = {each.name for each in directory.iterdir()} - _NOBODYS
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise StoreUnavailable(
            f"{kind}: {directory} is, or is under, a file and no folder",
            hint="name a folder",
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"{kind}: {directory} cannot be read: {error.strerror}",
            hint="name a folder of yours",
        ) from None
    if not names or holds_one(directory):
        return
    some = ", ".join(sorted(names)[:3]) + (" …" if len(names) > 3 else "")
    raise StoreUnavailable(
        f"{kind}: {directory} holds other files ({some}), and no whole {kind} database",
        hint="name an empty folder, or one that is not there yet",
    )
