"""Finding the programs that kvtui can run."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import platformdirs

WIREDTIGER_INSTALL: Final = (
    f"{shlex.quote(sys.executable)} -m kvtui.stores.wiredtiger.build"
)
"""Brings WiredTiger's module into the environment that kvtui itself runs in."""


def servers_directory() -> Path:
    """Where servers may be put that come as Python packages, each in a virtual
    environment of its own: ``$XDG_DATA_HOME/kvtui/servers/NAME``."""
    return Path(platformdirs.user_data_dir("kvtui")) / "servers"


def find_program(names: Iterable[str]) -> str | None:
    """The first of the programs: where ``KVTUI_NAME`` says, on PATH, or in the
    usual folders for servers. A name with a slash is a path."""
    folders = os.pathsep.join(_folders())
    for name in names:
        variable = f"KVTUI_{name.upper().replace('-', '_')}"
        found = shutil.which(os.environ.get(variable) or name, path=folders)
        if found:
            return found
    return None


def _folders() -> list[str]:
    own = [Path(sys.prefix) / "servers", servers_directory()]
    return [
        os.environ.get("PATH", ""),
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
        *(str(each) for folder in own for each in sorted(folder.glob("*/bin"))),
    ]
