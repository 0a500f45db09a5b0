"""How much memory an embedded store may be given on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from kvtui.stores.settings import size_bytes

_CGROUP: Final = Path("/sys/fs/cgroup")


def shared_out(
    settings: Mapping[str, Any], parts: Mapping[str, float]
) -> tuple[dict[str, int], str]:
    """Bytes for each part, and a note where it is less than was asked for.

    ``parts`` are settings in MB with their defaults. Where ``memory`` is set it is
    what all parts may take together: they keep their proportion. It is cut down to
    half of what the machine has free; a size set in MB alone is taken as it stands.
    """
    shares = {
        name: float(settings.get(name, default)) for name, default in parts.items()
    }
    if "memory" not in settings:
        return {name: int(share * 1_000_000) for name, share in shares.items()}, ""
    asked = size_bytes(settings["memory"])
    given = min(asked, free_bytes() // 2)
    whole = sum(shares.values())
    cut = {name: int(given * (share / whole)) for name, share in shares.items()}
    if given == asked:
        return cut, ""
    return cut, f"{asked / 1e6:,.0f} MB asked for, half of the free memory given"


def free_bytes() -> int:
    """What this process may still take: the machine's free memory, or the control
    group's where that is less."""
    free = int(psutil.virtual_memory().available)
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            left = int((_CGROUP / limit).read_text()) - int(
                (_CGROUP / used).read_text()
            )
        except (OSError, ValueError):  # no such file, or "max": no limit
            continue
        free = min(free, max(0, left))
    return free
