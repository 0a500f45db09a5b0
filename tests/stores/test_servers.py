"""Private servers: ours and no other's, and gone afterwards."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvtui.errors import StoreUnavailable
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import base as servers
from kvtui.stores.servers.redis import RedisServer
from tests.conftest import require_server
from tests.waiting import until


@pytest.fixture(autouse=True)
def needs_redis() -> None:
    """Skip all where there is no server to start."""
    require_server("redis")


@pytest.fixture(params=["unix", "tcp"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PrivateServer]:
    """A server that is stopped afterwards, whatever happened."""
    made = private_server("redis", tmp_path / "s", {"transport": request.param})
    yield made
    made.stop()


def gone(process_id: int) -> bool:
    """Whether that process is no more (a zombie is no more)."""
    try:
        return bool(psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def test_it_is_ready_when_it_has_started_and_gone_when_stopped(
    server: PrivateServer,
) -> None:
    settings = server.start()
    store = RedisStore(settings)
    store.open()
    info = store.info()
    assert info.process_id == server.process_id
    assert info.durability.startswith("memory")
    assert store._client.dbsize() == 0  # the probe has been taken away
    store.close()
    assert server.death() is None
    process_id = server.process_id
    assert process_id is not None
    server.stop()
    assert gone(process_id)
    server.stop()  # twice is harmless


def test_what_it_leaves_is_private_and_in_its_folder(server: PrivateServer) -> None:
    settings = server.start()
    assert server.directory.stat().st_mode & 0o777 == 0o700
    assert server.log.stat().st_mode & 0o777 == 0o600
    if "path" in settings:
        mode = os.stat(settings["path"]).st_mode
        assert stat.S_ISSOCK(mode)
        assert mode & 0o077 == 0
    else:
        assert settings["host"] == "127.0.0.1"
        process = psutil.Process(server.process_id)
        listening = {
            each.laddr.ip
            for each in process.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
    server.stop()
    assert set(os.listdir(server.directory)) <= {"server.log"}


def test_a_path_too_long_for_a_socket_goes_elsewhere_and_is_removed(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("d" * 100) / "s"
    server = private_server("redis", deep, {"transport": "unix"})
    try:
        settings = server.start()
        elsewhere = Path(settings["path"]).parent
        assert len(settings["path"]) <= servers.SOCKET_PATH_LIMIT
        assert elsewhere.stat().st_mode & 0o077 == 0
        store = RedisStore(settings)
        store.open()
        store.close()
    finally:
        server.stop()
    assert not elsewhere.exists()


class Dying(RedisServer):
    """Started with an option that the program does not have."""

    def command(self, program: str) -> list[str]:
        return [*super().command(program), "--no-such-option", "yes"]


def test_a_server_that_dies_at_its_start_shows_its_last_lines(tmp_path: Path) -> None:
    """050."""
    server = Dying(tmp_path, {"transport": "unix"})
    with pytest.raises(StoreUnavailable) as caught:
        server.start()
    assert "ended with status 1" in caught.value.message
    assert "no-such-option" in caught.value.message


def test_a_program_that_is_not_there_is_said_with_the_command_that_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "find_program", lambda names: None)
    with pytest.raises(StoreUnavailable) as caught:
        private_server("redis", tmp_path, {}).start()
    assert "redis-server" in caught.value.message
    assert caught.value.hint == "apt install redis-server"


def test_a_kind_without_a_server_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        private_server("leveldb", tmp_path, {})


class Strange(RedisServer):
    """Reaches another server than the one that it has started."""

    elsewhere: dict[str, Any]

    def connect_settings(self) -> dict[str, Any]:
        return self.elsewhere


def test_a_strangers_server_is_never_taken_for_ours(
    tmp_path: Path, redis_tcp: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """055: the answering process must be the child; the stranger is not touched."""
    monkeypatch.setattr(servers, "READY_LIMIT_S", 0.5)
    settings = redis_tcp.connect_settings()
    stranger = RedisStore(settings)
    stranger.open()
    stranger.put(b"foreign", b"value")
    before = stranger._client.dbsize()
    server = Strange(tmp_path, {"transport": "unix"})
    server.elsewhere = settings
    with pytest.raises(StoreUnavailable) as caught:
        server.start()
    assert f"process {redis_tcp.process_id}" in caught.value.message
    assert server.process_id is not None
    assert gone(server.process_id)
    assert stranger._client.dbsize() == before
    assert stranger.get(b"foreign") == b"value"
    stranger.delete(b"foreign")
    stranger.close()


def test_a_port_that_somebody_took_meanwhile_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """055."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        monkeypatch.setattr(servers, "free_port", lambda: taken.getsockname()[1])
        with pytest.raises(StoreUnavailable) as caught:
            private_server("redis", tmp_path, {"transport": "tcp"}).start()
    assert "in use" in caught.value.message


def test_its_end_is_told_in_words(server: PrivateServer) -> None:
    server.start()
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    assert until(server.death, "it has died") == "was ended by SIGKILL"
    assert "ready to accept connections" in server.last_lines().lower()


def test_one_that_does_not_want_to_stop_is_killed(
    server: PrivateServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """053: ask, wait, kill after a limit."""
    monkeypatch.setattr(servers, "STOP_LIMIT_S", 0.2)
    server.start()
    process_id = server.process_id
    assert process_id is not None
    os.kill(process_id, signal.SIGSTOP)
    server.stop()
    assert gone(process_id)
    assert server.death() == "was ended by SIGKILL"


def test_a_folder_used_before_can_be_used_again(tmp_path: Path) -> None:
    """A socket left behind by a killed server is no hindrance."""
    first = private_server("redis", tmp_path, {"transport": "unix"})
    first.start()
    assert first.process_id is not None
    os.kill(first.process_id, signal.SIGKILL)
    until(first.death, "it has died")
    second = private_server("redis", tmp_path, {"transport": "unix"})
    try:
        second.start()
    finally:
        second.stop()
        first.stop()


@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_it_dies_with_whoever_started_it(tmp_path: Path, transport: str) -> None:
    """052: also when that one is killed and can clean up nothing."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from kvtui.stores.servers import private_server\n"
        "server = private_server('redis', Path(sys.argv[1]),"
        " {'transport': sys.argv[2]})\n"
        "server.start(); print(server.process_id, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), transport], stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        assert not gone(process_id)
        parent.send_signal(signal.SIGKILL)
    until(lambda: gone(process_id), "the server is gone", 10)


def test_many_start_at_once_without_taking_each_others_port(tmp_path: Path) -> None:
    made = [
        private_server("redis", tmp_path / str(number), {"transport": "tcp"})
        for number in range(4)
    ]
    try:
        ports = {server.start()["port"] for server in made}
        assert len(ports) == 4
    finally:
        for server in made:
            server.stop()
