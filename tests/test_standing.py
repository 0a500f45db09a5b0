"""Servers that stay: started, said, found again, and stopped, and nobody else's."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from kvtui import cli, config
from kvtui.commands import servers as command
from kvtui.engine import launcher
from kvtui.errors import UsageError
from kvtui.runs import history
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.stores import programs, registry
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers import standing, versions
from kvtui.stores.servers.base import SOCKET_LINK
from tests.conftest import require_server
from tests.terminal import environment
from tests.waiting import until


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where they are; all are stopped afterwards."""
    yield config.servers_directory()
    for each in standing.all_standing(config.servers_directory()):
        standing.down(config.servers_directory(), each.name)


def kvtui(tmp_path: Path, *words: str) -> tuple[int, str, str]:
    """A command in a process of its own, with this test's folders."""
    made = environment(tmp_path / "state")
    made["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    done = subprocess.run(
        [sys.executable, "-m", "kvtui", *words],
        capture_output=True,
        env=made,
        check=False,
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def gone(process_id: int) -> bool:
    return standing.identity(process_id) == ""


def test_a_server_stays_when_its_command_has_ended_and_goes_when_told(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    require_server("redis")
    code, out, _ = kvtui(tmp_path, "servers", "up", "redis-unix", "redis-tcp")
    assert code == 0
    (one, two) = standing.all_standing(folder)
    assert (one.name, two.name) == ("redis-tcp", "redis-unix")
    assert one.lives
    assert two.lives
    assert two.path.stat().st_mode & 0o777 == 0o700
    assert (two.path / standing.FILE).stat().st_mode & 0o777 == 0o600
    assert one.standing is not None
    assert two.standing is not None
    word = command.store_word(two.standing)
    assert f"--store {word}" in out
    assert f"redis-cli -s {two.standing.settings['path']}" in out
    plan = config.store_plan(word, config.store_profiles())
    assert not plan.private
    store = RedisStore(plan.settings)
    store.open()
    assert store.info().process_id == two.standing.process_id
    store.put(b"k", b"v")
    # A second one of the same name is refused, and changes nothing.
    assert cli._run(["servers", "up", "redis-unix"]) == 2
    assert "up already" in capsys.readouterr().err
    assert store.get(b"k") == b"v"
    # A run on it leaves nothing behind.
    data = tmp_path / "data.tsv"
    data.write_text("a\tb\n")
    words = ("run", "fans", "--data", str(data), "--store", word)
    assert kvtui(tmp_path, *words)[0] == 0
    assert store._client.keys() == [b"k"]
    store.close()
    assert cli._run(["servers", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in told["up"]] == ["up", "up"]
    assert told["up"][1]["store"] == word
    assert cli._run(["servers", "down", "redis-tcp"]) == 0
    assert gone(one.standing.process_id)
    assert not gone(two.standing.process_id)
    code, out, _ = kvtui(tmp_path, "servers", "down")
    assert (code, out) == (0, "redis-unix: stopped\n")
    assert gone(two.standing.process_id)
    assert not two.path.exists()
    assert standing.all_standing(folder) == []


def start(folder: Path) -> standing.Standing:
    require_server("redis")
    settings = {"transport": "unix"}
    return standing.up(folder, "redis-unix", "redis-unix", "redis", settings)


def test_a_dead_one_is_said_to_be_dead_and_makes_room(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """052."""
    first = start(folder)
    os.kill(first.process_id, signal.SIGKILL)
    until(lambda: gone(first.process_id), "it is dead")
    assert cli._run(["servers"]) == 0
    assert "redis-unix: dead" in capsys.readouterr().out
    second = start(folder)
    assert second.process_id != first.process_id
    os.kill(second.process_id, signal.SIGKILL)
    until(lambda: gone(second.process_id), "it is dead")
    assert cli._run(["servers", "down"]) == 0
    assert "was dead" in capsys.readouterr().out
    assert standing.all_standing(folder) == []


def test_a_process_that_was_given_the_number_since_is_never_touched(
    folder: Path,
) -> None:
    """The number alone is no proof."""
    with subprocess.Popen(["sleep", "600"]) as stranger:
        try:
            path = folder / "redis-unix"
            path.mkdir(parents=True)
            told = standing.Standing(
                "redis-unix", "redis-unix", "redis", stranger.pid, "earlier", "", {}
            )
            (path / standing.FILE).write_bytes(msgspec.json.encode(told))
            assert not standing.look(path).lives
            standing.down(folder, "redis-unix")
            assert not path.exists()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_a_start_that_was_broken_off_is_cleaned_with_its_process(
    folder: Path,
) -> None:
    """052: killed before it could write who it is."""
    started = start(folder)
    (folder / "redis-unix" / standing.FILE).unlink()
    (seen,) = standing.all_standing(folder)
    assert (seen.standing, seen.lives) == (None, False)
    standing.down(folder, "redis-unix")
    assert gone(started.process_id)


def test_one_that_does_not_want_to_stop_is_killed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standing, "STOP_LIMIT_S", 0.3)
    started = start(folder)
    psutil.Process(started.process_id).suspend()
    standing.down(folder, "redis-unix")
    assert gone(started.process_id)


def test_a_start_that_fails_leaves_nothing(folder: Path) -> None:
    require_server("redis")
    code = cli._run(["servers", "up", "redis-unix:program=/bin/false"])
    assert code == 3
    assert standing.all_standing(folder) == []


def test_two_commands_at_once_wait_for_each_other(folder: Path) -> None:
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another kvtui servers"):
            start(folder)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("up ram", "needs no server"),
        ("up redis-tcp:port=1", "needs no server"),
        ("up redis", "did you mean redis-"),
        ("up redis://127.0.0.1:1", "needs no server"),
        ("down redis-unix", "is not up"),
        ("up", "missing argument"),
    ],
)
def test_what_cannot_be_is_said(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["servers", *words.split()]) == 2
    assert said in capsys.readouterr().err


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("name", "script", "wanted"),
    [
        ("redis-server", "echo Redis server v=7.0.15 sha=0", "7.0.15"),
        ("nginx", '[ "$1" = -v ] && echo nginx/1.22.1 >&2', "1.22.1"),
        ("mysqld", "echo mysqld  Ver 8.0.36 for Linux; exit 1", "8.0.36"),
        ("x", "echo usage", ""),
        ("x", "exit 1", ""),
        ("x", "yes 1", ""),
        ("x", "printf '\\377 1.5\\n'", "1.5"),
        ("x", "sleep 600", ""),
    ],
)
def test_versions_are_read_leniently_and_in_bounded_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    script: str,
    wanted: str,
) -> None:
    monkeypatch.setattr(versions, "LIMIT_S", 0.3 if not wanted else 20)
    assert versions.version(program(tmp_path, name, script)) == wanted


def test_a_program_of_a_python_package_is_not_started_for_its_version(
    tmp_path: Path,
) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name, script in (("other-9.9", "other"), ("db-1.4.0", "dbd-py")):
        points = site / f"{name}.dist-info" / "entry_points.txt"
        points.parent.mkdir(parents=True)
        points.write_text(f"[console_scripts]\n{script} = db:main\n")
    (tmp_path / "pyvenv.cfg").touch()
    (tmp_path / "bin").mkdir()
    asked = program(tmp_path / "bin", "dbd-py", f"touch {tmp_path}/started")
    assert versions.version(asked) == "1.4.0"
    assert not (tmp_path / "started").exists()


def test_a_program_that_is_none_has_no_version(tmp_path: Path) -> None:
    assert versions.versions([str(tmp_path / "nothing"), str(tmp_path)]) == ["", ""]
    assert versions.versions([]) == []


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any server."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(programs, "_folders", lambda: [str(tmp_path / "empty")])
    for name in list(os.environ):
        if name.startswith("KVTUI_"):
            monkeypatch.delenv(name)


def test_a_bare_machine_is_told_what_would_bring_each_store(
    bare: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli._run(["stores", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    missing = [each for each in told if not each["ready"]]
    assert {each["store"] for each in missing} >= {"redis-unix", "redis-tcp"}
    assert all(each["hint"] for each in missing)
    assert cli._run(["servers", "--json"]) == 0
    for each in json.loads(capsys.readouterr().out)["programs"]:
        assert each["program"] is None
        assert each["hint"] or not each["stores"], each["kind"]


def test_listing_the_stores_loads_no_driver(tmp_path: Path) -> None:
    code = (
        "import sys; sys.argv = ['kvtui', 'stores']\n"
        "from kvtui.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    heavy = {'textual', 'numpy', 'redis', 'plyvel', 'pymongo', 'pymysql',\n"
        "             'pymemcache', 'wiredtiger', 'psutil'}\n"
        "    sys.stderr.write(' '.join(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env=environment(tmp_path),
        check=False,
    )
    assert done.stdout.startswith(b"store")
    assert done.stderr == b""


def test_what_a_killed_run_left_elsewhere_is_found(tmp_path: Path) -> None:
    """052: of any kind of server, by the link in its folder."""
    runs = config.runs_directory()
    asked = RunPlan(WorkloadPlan("fans", {}), (StorePlan("ram", "ram"),))
    run = history.create(runs, asked)
    elsewhere = Path(tempfile.mkdtemp(prefix="kvtui-"))
    (elsewhere / "http.sock").touch()
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    for number, target in enumerate((elsewhere, strangers)):
        store = run.path / f"store-{number}"
        store.mkdir()
        (store / SOCKET_LINK).symlink_to(target)
    launcher.tidy(runs)
    assert not elsewhere.exists()
    assert strangers.is_dir()
    assert not list(run.path.glob("store-*"))


def test_every_kind_of_server_can_be_reached_by_hand() -> None:
    for kind, of_kind in registry.KINDS.items():
        if not of_kind.server:
            continue
        for settings in ({"path": "/x"}, {"host": "127.0.0.1", "port": 1}):
            told = standing.Standing(kind, kind, kind, 1, "", "", settings)
            assert ("/x" in command.by_hand(told)) == ("path" in settings) or (
                kind == "mongo"
            )
