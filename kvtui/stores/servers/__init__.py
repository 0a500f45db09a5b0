"""Private servers, one file a kind; :mod:`~kvtui.stores.servers.base` runs them."""

from __future__ import annotations

import importlib
from pathlib import Path

from kvtui.errors import StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.servers.base import PrivateServer
from kvtui.stores.store import Settings

__all__ = ["PrivateServer", "private_server"]


def private_server(kind: str, directory: Path, settings: Settings) -> PrivateServer:
    """The private server of a kind; StoreUnavailable where kvtui has none."""
    module_name, _, class_name = registry.kind(kind).server.partition(":")
    if not module_name:
        raise StoreUnavailable(f"kvtui cannot start a {kind} server")
    made: type[PrivateServer] = getattr(
        importlib.import_module(module_name), class_name
    )
    return made(directory, settings)
