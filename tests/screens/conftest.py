"""The same machine for every test of a screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtui import config
from kvtui.stores import registry
from kvtui.stores.registry import Availability, StoreProfile
from tests.screens.frames import Starter


@pytest.fixture(autouse=True)
def _in_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the person who runs the tests prefers."""
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def _same_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis by unix socket is here, by TCP it is not, whatever is installed."""

    def availability(profile: StoreProfile) -> Availability:
        if profile.name == "redis-tcp":
            return Availability(
                False, "not here: redis-server is missing", "apt install redis-server"
            )
        if profile.kind == "redis":
            return Availability(True, "private server, redis-server")
        return Availability(True, profile.place)

    monkeypatch.setattr(registry, "availability", availability)


@pytest.fixture(autouse=True)
def _same_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores that are added later change no frame here."""
    names = ("null", "ram", "leveldb", "redis-unix", "redis-tcp")
    known = tuple(each for each in registry.BUILT_IN if each.name in names)
    monkeypatch.setattr(registry, "BUILT_IN", known)


@pytest.fixture
def runs() -> Path:
    """Where runs are kept."""
    return config.runs_directory()


@pytest.fixture
def starter(runs: Path) -> Starter:
    """Starts no runner."""
    return Starter(runs)
