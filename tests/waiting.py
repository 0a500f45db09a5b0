"""Waiting for conditions, bounded; no test sleeps for a fixed time instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LIMIT_S = 60.0
"""Generous: a slow machine must not fail a test, only a wrong one."""


def until(condition: Callable[[], T], what: str, limit_s: float = LIMIT_S) -> T:
    """The condition's first true value; AssertionError after ``limit_s``."""
    give_up = time.monotonic() + limit_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > give_up:
            raise AssertionError(f"not within {limit_s:g} s: {what}")
        time.sleep(0.01)
