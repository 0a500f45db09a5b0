"""How the loops learn that they should stop, and when they give up."""

from __future__ import annotations

from threading import Event
from typing import Final

from kvtui.errors import KvtuiError

TICK_NS: Final = 10_000_000
"""How often a loop looks whether it should stop, and hands over its counts."""
GIVE_UP_S: Final = 10.0
"""How long a store may be gone before its trial ends."""
FIRST_BACK_OFF_S: Final = 0.05
LONGEST_BACK_OFF_S: Final = 1.0


class StoreGone(KvtuiError):
    """The store went away and did not come back; the trial cannot go on."""


class Control:
    """Shared by all loops of a worker."""

    def __init__(self) -> None:
        self._stop = Event()
        self.stopping = False

    def stop(self) -> None:
        """Let every client finish its operation, and no more."""
        self.stopping = True
        self._stop.set()

    def wait(self, length_s: float) -> bool:
        """Wait, or less when asked to stop; whether to stop."""
        return self._stop.wait(length_s)
