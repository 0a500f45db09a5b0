"""What every test has: its own state and settings folders; and private servers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtui.engine.markers import marker_key
from kvtui.stores import programs, registry
from kvtui.stores.servers import PrivateServer, private_server


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees, or changes, what the person at this machine has."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def pytest_configure() -> None:
    """Where there is no ttserver, which nobody packages, the stand-in is used."""
    if programs.find_program(registry.kind("tokyo").servers) is None:
        stand_in = Path(__file__).parent / "stores" / "ttserver.py"
        os.environ["KVTUI_TTSERVER"] = str(stand_in)


def require_server(kind: str) -> None:
    """Skip, saying why, where no server program of that kind is installed."""
    wanted = registry.kind(kind)
    if wanted.own_server:
        return
    if wanted.servers and programs.find_program(wanted.servers) is None:
        pytest.skip(f"{wanted.servers[0]} is not installed: {wanted.install}")


def require_module(kind: str) -> None:
    """Skip, saying why, where the module of an embedded store is not installed."""
    wanted = registry.kind(kind)
    if wanted.module and importlib.util.find_spec(wanted.module) is None:
        pytest.skip(f"no Python module {wanted.module}: {wanted.install}")


class Servers:
    """Private servers, started when first asked for and kept for the session."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: dict[tuple[str, str], PrivateServer] = {}

    def get(self, kind: str, transport: str) -> PrivateServer:
        """A running server of that kind on that transport."""
        require_server(kind)
        server = self._started.get((kind, transport))
        if server is None:
            directory = self._directory / f"{kind}-{transport}"
            server = private_server(kind, directory, {"transport": transport})
            server.start()
            self._started[kind, transport] = server
        elif not registry.kind(kind).read_only:
            _sweep(server)
        return server

    def stop(self) -> None:
        """Stop them all."""
        for server in self._started.values():
            server.stop()


def _sweep(server: PrivateServer) -> None:
    """Remove what runs left that a test kept from cleaning up behind them."""
    store = registry.adapter(server.kind)(server.connect_settings())
    store.open()
    try:
        store.wipe("fans")
        store.delete(marker_key("fans"))
    finally:
        store.close()


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Private servers for the whole session."""
    directory = Path(tempfile.mkdtemp(prefix="kvtui-test-"))
    started = Servers(directory)
    try:
        yield started
    finally:
        started.stop()
        shutil.rmtree(directory)


@pytest.fixture
def redis_unix(servers: Servers) -> PrivateServer:
    """A private redis-server on a unix socket."""
    return servers.get("redis", "unix")


@pytest.fixture
def redis_tcp(servers: Servers) -> PrivateServer:
    """A private redis-server on a loopback port."""
    return servers.get("redis", "tcp")
