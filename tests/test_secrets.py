"""No secret leaves a process, by any way out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvtui import cli, config, secrets
from kvtui.errors import ConfigError, StoreUnavailable, UsageError
from kvtui.runs import history
from kvtui.stores import registry
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers import PrivateServer, private_server
from tests.conftest import require_server
from tests.stores.fakes import Fake
from tests.terminal import environment
from tests.waiting import until

MARKER = "S3cr3t-marker"


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    secrets.forget()
    yield
    secrets.forget()


def test_what_is_known_is_hidden_everywhere() -> None:
    secrets.learn("two\nlines \u00fc'x")
    for shown in ("two\nlines ü'x", "two\\nlines ü'x", "two\\nlines \\xfc'x"):
        assert secrets.hidden(f"<{shown}>") == f"<{secrets.HIDDEN}>"


def test_one_is_hidden_in_json_too() -> None:
    secrets.learn('S3cr3t"\\x')
    said = secrets.hidden(json.dumps({"x": 'S3cr3t"\\x'}))
    assert json.loads(said) == {"x": secrets.HIDDEN}


def test_a_short_one_is_hidden_where_it_stands_alone() -> None:
    """Inside a number or an address it would spoil what is said."""
    for each in ("p#w", "127", " ", "ü"):
        secrets.learn(each)
    assert secrets.hidden("no 'p#w' here") == f"no '{secrets.HIDDEN}' here"
    assert secrets.hidden("at 127.0.0.1:1279, for ü") == "at 127.0.0.1:1279, for ü"
    assert secrets.hidden("127 of 1,270") == f"{secrets.HIDDEN} of 1,270"


def test_errors_and_tracebacks_hold_none() -> None:
    secrets.learn(MARKER)
    error = StoreUnavailable(f"no {MARKER}", hint=f"not {MARKER}")
    assert MARKER not in f"{error.message}{error.hint}{error}{error!r}"
    out = io.StringIO()
    try:
        raise ValueError(f"x {MARKER}") from RuntimeError(MARKER)
    except ValueError as caught:
        secrets.print_traceback(caught, out)
    assert "RuntimeError" in out.getvalue()
    assert MARKER not in out.getvalue()


@pytest.mark.parametrize("thread", [False, True])
def test_what_nobody_catches_is_printed_without(thread: bool) -> None:
    call = "threading.Thread(target=fall).start()" if thread else "fall()"
    code = (
        "import sys, threading; from kvtui import secrets; secrets.guard()\n"
        "secrets.learn(sys.argv[1])\n"
        f"def fall(): raise ValueError(sys.argv[1])\n{call}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, MARKER], capture_output=True, check=False
    )
    assert b"ValueError" in done.stderr
    assert MARKER.encode() not in done.stderr


@pytest.fixture
def guarded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[PrivateServer]:
    """A Redis that wants a password."""
    require_server("redis")
    server = private_server("redis", tmp_path / "guarded", {"transport": "tcp"})
    settings = server.start()
    admin = RedisStore(settings)
    admin.open()
    admin._client.config_set("requirepass", getattr(request, "param", MARKER))
    admin.close()
    yield server
    server.stop()


PASSWORDS = ["p#w", "p@w", "p/w", "p[w", "p%2Fw", "p:w", "ü", " ", " p w "]


@pytest.mark.parametrize("guarded", PASSWORDS, indirect=True)
def test_a_password_is_taken_literally(
    guarded: PrivateServer,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """134: from the environment and from a file, by driver and by wire."""
    password = request.node.callspec.params["guarded"]
    settings = guarded.connect_settings()
    monkeypatch.setenv("OWN", password)
    (tmp_path / "own").write_text(f"{password}\n", "utf-8")
    for more in ({"password_env": "OWN"}, {"password_file": str(tmp_path / "own")}):
        store = RedisStore({**settings, **more})
        store.open()
        store.put(b"k", b"v")
        assert store.get(b"k") == b"v"
        taken, _ = store.wire()
        taken.close()
        store.close()
    with pytest.raises(StoreUnavailable, match="uthentication"):
        RedisStore(settings).open()


def everything_under(folder: Path) -> bytes:
    """Every file, name and content."""
    found = b""
    for path in folder.rglob("*"):
        found += bytes(path)
        if path.is_file():
            found += path.read_bytes()
    return found


def run(state: Path, *words: str, **more: str) -> tuple[int, bytes]:
    """A command's code, and all that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kvtui", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(state, **more),
    )
    lines: set[str] = set()

    def over() -> bool:
        for each in psutil.process_iter():
            try:
                if each.environ().get("XDG_STATE_HOME") == str(state):
                    lines.update(each.cmdline())
            except psutil.Error:
                continue
        return process.poll() is not None

    until(over, "it has ended")
    assert process.stdout is not None
    with process.stdout:
        told = process.stdout.read()
    return process.returncode, told + "\n".join(lines).encode()


def test_a_run_with_a_password_leaves_it_nowhere(
    guarded: PrivateServer, tmp_path: Path
) -> None:
    """133: not in plan, journal, snapshot, log, output or command lines."""
    data = tmp_path / "data.tsv"
    data.write_text("a\tb\nb\tc\n")
    port = guarded.connect_settings()["port"]
    state = tmp_path / "state"
    url = f"redis://127.0.0.1:{port}/0?password_env=OWN"
    driver = f"{url}&client=driver"
    code, told = run(
        state, "run", "fans", "--data", str(data), "--store", url, "--store", driver,
        "--json", OWN=MARKER,
    )  # fmt: skip
    assert code == 0, told
    assert MARKER.encode() not in told + everything_under(state)
    assert b"password_env" in everything_under(state)
    (made,) = history.all_runs(state / "kvtui" / "runs")
    assert [trial.outcome for trial in made.state().trials] == ["done", "done"]
    code, told = run(
        state, "run", "fans", "--data", str(data), "--store", url,
        OWN=f"{MARKER}-wrong",
    )  # fmt: skip
    assert code == 3
    assert b"password" in told
    assert MARKER.encode() not in told + everything_under(state)


@pytest.mark.parametrize(
    "url", [f"redis://u:{MARKER}@127.0.0.1:1/0", f"mongodb://u:{MARKER}@h.invalid/kv"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("run", "fans", "--store"),
        ("query", "x", "--store"),
        ("fananalyze", "-q", "x", "-h"),
        ("fananalyze", "-q", "x", "-s"),
    ],
)
def test_a_password_on_the_command_line_is_not_repeated(
    tmp_path: Path, url: str, words: tuple[str, ...]
) -> None:
    """133: kvtui's own words and files, that is; the shell has it already."""
    process = subprocess.run(
        [sys.executable, "-m", "kvtui", *words, url],
        capture_output=True,
        env=environment(tmp_path),
        check=False,
    )
    assert process.returncode in (1, 2)
    said = process.stdout + process.stderr + everything_under(tmp_path)
    assert b"Traceback" not in said
    assert MARKER.encode() not in said


@pytest.mark.parametrize(
    "table",
    [
        f'url = "redis://u:{MARKER}@h:1/0"',
        f'kind = "redis"\npassword = "{MARKER}"',
        f'url = "redis://h?password={MARKER}"',
    ],
)
def test_a_password_in_the_settings_file_is_refused(tmp_path: Path, table: str) -> None:
    folder = tmp_path / "config" / "kvtui"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"# mine\n[stores.mine]\n{table}\n")
    process = subprocess.run(
        [sys.executable, "-m", "kvtui", "stores"],
        capture_output=True,
        env=environment(tmp_path),
        check=False,
    )
    assert process.returncode == 2
    line = 2 + table.count("\n") + 1
    assert f"config.toml:{line}: ".encode() in process.stderr
    assert b"password_env" in process.stderr
    assert MARKER.encode() not in process.stderr


def test_a_server_that_repeats_the_password_shows_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """133: an error's text is somebody else's, and may hold anything."""
    monkeypatch.setenv("OWN", MARKER)
    with Fake(
        lambda conversation, _: conversation.send(b"-ERR " + MARKER.encode() + b"\r\n")
    ) as fake:
        store = RedisStore({**fake.settings, "password_env": "OWN"})
        store.open()
        with pytest.raises(Exception, match="ERR") as caught:
            store.get(b"k")
        store.close()
    assert MARKER not in f"{caught.value}"


IN_A_HOST = [
    f":{MARKER}@127.0.0.1",
    f"redis://:{MARKER}@h",
    f"u:{MARKER}@h",
    f"u:{MARKER}",
    f"h/{MARKER}",
    f"a {MARKER}",
]
NETWORKED = [name for name, kind in registry.KINDS.items() if "host" in kind.settings]


@pytest.mark.parametrize("host", IN_A_HOST)
@pytest.mark.parametrize("kind", NETWORKED)
def test_a_host_that_is_none_is_refused_and_not_repeated(kind: str, host: str) -> None:
    """By the settings file with its line, and on the command line."""
    path = config.config_path()
    path.parent.mkdir(parents=True)
    path.write_text(f'[stores.y]\nkind = "{kind}"\nport = 1\nhost = "{host}"\n')
    with pytest.raises(ConfigError, match="host must be a name") as caught:
        config.store_profiles()
    assert f"{path}:4: " in caught.value.message
    builtin = next(each.name for each in registry.BUILT_IN if each.kind == kind)
    profiles = {each.name: each for each in registry.BUILT_IN}
    with pytest.raises(UsageError, match="host must be a name") as typed:
        config.store_plan(f"{builtin}:host={host},port=1", profiles)
    for error in (caught.value, typed.value):
        assert error.hint is not None
        assert "://HOST:PORT" in error.hint
        assert MARKER not in f"{error.message} {error.hint}"
    may = "password_env" in registry.kind(kind).settings
    assert ("password_env=NAME" in str(typed.value.hint)) == may


@pytest.mark.parametrize(
    "host",
    ["h_1.example-x.org.", "bücher.example", "::1", "[::1]", "fe80::1%lo", "127.0.0.1"],
)
def test_a_host_that_may_be_one_is_taken(host: str) -> None:
    registry.check_settings("x", "redis", {"host": host})


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_the_list_of_stores_shows_none(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """As the settings in force show none: also one that is known from elsewhere."""
    monkeypatch.setenv("OWN", MARKER)
    path = config.config_path()
    path.parent.mkdir(parents=True)
    path.write_text(
        f'[stores.y]\nkind = "redis"\npath = "/{MARKER}"\npassword_env = "OWN"\n'
    )
    assert cli._run(["stores", *words]) == 0
    shown = capsys.readouterr().out
    assert f"/{secrets.HIDDEN}" in shown
    assert MARKER not in shown


@pytest.mark.parametrize(
    "store",
    [
        f"redis://127.0.0.1:1?password_env={MARKER}",
        f"redis://127.0.0.1:1?password_env={MARKER}%21x",
        f"redis://u%3A{MARKER}%40h",
        f"redis-tcp:password_env={MARKER}",
        f"redis-tcp:port=:{MARKER}@h",
        f"redis-tcp::{MARKER}@h",
        f"redis-tcp:host=:{MARKER}@127.0.0.1,port=1",
    ],
)
def test_one_in_a_wrong_place_is_not_repeated(
    capsys: pytest.CaptureFixture[str], store: str
) -> None:
    assert cli._run(["run", "fans", "--store", store]) == 2
    said = "".join(capsys.readouterr())
    assert "must be" in said or "is not setting=value" in said
    assert MARKER not in said


def test_one_in_place_of_the_variables_name_is_not_repeated() -> None:
    path = config.config_path()
    path.parent.mkdir(parents=True)
    for table in (
        f'kind = "redis"\npassword_env = "{MARKER}"',
        f'\nurl = "redis://h?password_env={MARKER}"',
        f'\nkind = "redis://u:x@{MARKER}@h"',
    ):
        path.write_text(f"[stores.y]\n{table}\n")
        with pytest.raises(ConfigError) as caught:
            config.store_profiles()
        assert f"{path}:3: " in caught.value.message
        assert MARKER not in f"{caught.value.message} {caught.value.hint}"
