"""What a killed server left outside of its folder: sockets with short paths, and files
of the account that it ran as."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from kvtui.stores.servers.base import SOCKET_LINK


def remove_elsewhere(path: Path) -> None:
    """Remove the folder for sockets and the like that a server's folder points to."""
    link = path / SOCKET_LINK
    if not link.is_symlink():
        return
    target = Path(os.readlink(link))
    ours = target.name.startswith("kvtui-")
    if not ours or target.parent != Path(tempfile.gettempdir()) or target.is_symlink():
        return
    with contextlib.suppress(OSError):
        # Root gives it to whom the server runs as.
        if os.getuid() in (0, target.stat().st_uid):
            shutil.rmtree(target, ignore_errors=True)
