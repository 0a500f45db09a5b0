"""What remains of an unexpected end: a report without variables or passwords."""

from __future__ import annotations

import os
import platform
import re
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from kvtui import __version__
from kvtui.secrets import hidden

_SECRET_NAMES: Final = re.compile(r"PASS|SECRET|TOKEN|CREDENTIAL|API_?KEY", re.I)


def write_report(error: BaseException) -> Path | None:
    """Keep where the error came from; None where that is not possible.

    A traceback names files, lines and the error, and holds no variables.
    """
    from kvtui import config

    folder = config.state_directory()
    now = datetime.now(UTC)
    path = folder / f"crash-{now:%Y%m%dT%H%M%S}-{os.getpid()}.log"
    text = "".join(traceback.format_exception(error))
    command = " ".join(sys.argv[1:2])
    head = (
        f"kvtui {__version__}, Python {platform.python_version()},"
        f" {platform.platform()}\ncommand: {command}\n\n"
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(head + without_secrets(text))
    except OSError:
        return None
    return path


def without_secrets(text: str) -> str:
    """``text`` without passwords in addresses and without values of the environment
    whose names say that they are secret."""
    text = hidden(text)
    for name, value in os.environ.items():
        if len(value) >= 4 and _SECRET_NAMES.search(name):
            text = text.replace(value, f"<{name}>")
    return text.encode("utf-8", "backslashreplace").decode()
