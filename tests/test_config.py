"""The settings file, the environment, the flags, and who wins."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvtui import cli, config, defaults, located
from kvtui.commands import example
from kvtui.errors import ConfigError, UsageError
from kvtui.stores import registry
from kvtui.stores.settings import SETTINGS


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("KVTUI_") or name == "NO_COLOR":
            monkeypatch.delenv(name)


def write(text: str) -> Path:
    path = config.config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def value(name: str, **flags: Any) -> tuple[Any, str, str]:
    found = config.effective({f"run.{k}": v for k, v in flags.items()})[name]
    return found.value, found.source, found.where


def test_a_flag_beats_the_environment_beats_the_file_beats_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert value("run.clients") == (8, "default", "")
    path = write("[run]\n# so many\nclients = 20\n")
    assert value("run.clients") == (20, "file", f"{path}:3")
    monkeypatch.setenv("KVTUI_CLIENTS", "1_000")
    assert value("run.clients") == (1000, "environment", "KVTUI_CLIENTS")
    assert value("run.clients", clients=3) == (3, "flag", "--clients")
    assert value("run.clients", clients=None)[0] == 1000
    monkeypatch.setenv("KVTUI_CLIENTS", "")
    assert value("run.clients")[1] == "file"


def test_a_path_in_the_file_begins_at_its_folder() -> None:
    path = write('[workloads.fans]\ndata = "a.tsv"\nnames = "/x/n.tsv"\n')
    assert value("workloads.fans.data")[0] == str(path.parent / "a.tsv")
    assert value("workloads.fans.names")[0] == "/x/n.tsv"


def test_every_option_has_a_variable_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {defaults.variable(name): name for name in defaults.OPTIONS}
    assert len(names) == len(defaults.OPTIONS)
    for variable, name in names.items():
        setting = defaults.OPTIONS[name].setting
        text = {"whole": "117", "number": "117.5", "switch": "1"}.get(setting.type, "x")
        monkeypatch.setenv(variable, setting.choices[-1] if setting.choices else text)
    for name, each in config.effective().items():
        assert (each.source, each.where) == ("environment", defaults.variable(name))
    assert value("run.seed")[0] == 117
    assert value("ui.color")[0] is False


@pytest.mark.parametrize(
    ("variable", "text"),
    [("KVTUI_CLIENTS", "0"), ("KVTUI_CLIENTS", "x"), ("KVTUI_FANS_MODE", "x")],
)
def test_a_variable_that_is_off_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(UsageError, match=f"{variable} must be"):
        config.effective()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[rum]\n", 1, "did you mean run?"),
        ("\n[run]\n\nclient = 3\n", 4, "did you mean clients?"),
        ("[run]\nclients = 0\n", 2, "clients must be"),
        ('[run]\nclients = "8"\n', 2, "clients must be"),
        ("run = 3\n", 1, "as in [run]"),
        ("[ui]\ncolour = true\n", 2, "did you mean color?"),
        ("[ui]\nascii = 1\n", 2, "must be true or false"),
        ("[workloads.fan]\n", 1, "did you mean fans?"),
        ("[workloads]\nfans.mode = 'x'\n", 2, "mode must be"),
        ("workloads.fans = 3\n", 1, "must be a table"),
        ("[stores]\nx = 3\n", 2, "must be a table"),
        ("[stores.x]\n", 1, "needs a kind"),
        ("[stores.x]\nport = 1\nkind = 3\n", 3, "kind must be a text"),
        ("[stores.x]\nkind = 3\nurl = 'redis://h'\n", 2, "kind must be a text"),
        ("[stores.x]\nkind = 'redis'\n\nhots = 'h'\n", 4, "did you mean host?"),
        ("[stores.x]\nkind = 'redis'\nport = 99999\n", 3, "port must be"),
        ("[stores.x]\nkind = 'rediss'\n", 2, "did you mean redis?"),
        ("[stores]\nx = {kind = 'redis', prot = 1}\n", 2, "did you mean port?"),
        ("[stores.ram]\nkind = 'redis'\n", 1, "of kvtui's own"),
        ("[stores.'a:b']\nkind = 'redis'\n", 1, "cannot be called"),
        ("[stores.x]\nport = 1\nurl = 'redis://h:2'\n", 3, "beside it"),
        ("[stores.x]\nkind = 'mysql'\nurl = 'redis://h'\n", 3, "not of a mysql"),
        ("[stores.x]\nurl = 'redis://h:x'\n", 2, "encode special"),
        ("[stores.x]\nurl = 3\n", 2, "must be a text"),
        ("[stores.x]\nkind = 'redis'\nclient = 'wir'\n", 3, "client must be"),
        ("[stores.x]\nkind = 'leveldb'\ncompression = 'zlib'\n", 3, "snappy or none"),
        ("[stores.x]\nkind = 'wiredtiger'\ncompression = 'lz5'\n", 3, "lz4 or zstd"),
        ("a = 1\n[run\n", 2, "not TOML"),
        ("a = [\n1,\n", 3, "not TOML"),
        ("[run]\nclients = 1\nclients = 2\n", 3, "not TOML"),
        ("[run]\nclients = many\n", 2, "quotes"),
    ],
)
def test_what_is_off_is_named_with_file_line_and_the_nearest(
    text: str, line: int, said: str
) -> None:
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        config.store_profiles()
    assert f"{path}:{line}: " in caught.value.message
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_what_is_no_text_and_what_is_too_much_is_said() -> None:
    write("").write_bytes(b"# a\n\xff")
    with pytest.raises(ConfigError, match=r":2: this is not UTF-8") as caught:
        config.store_profiles()
    assert "iconv -f LATIN1" in str(caught.value.hint)
    write("").write_bytes("[run]\n".encode("utf-16"))
    with pytest.raises(ConfigError, match=r":1: this is not UTF-8") as caught:
        config.store_profiles()
    assert "iconv -f UTF-16" in str(caught.value.hint)
    write("# x\n" * 100_000)
    with pytest.raises(ConfigError, match="too large"):
        config.store_profiles()
    path = write("")
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="cannot be read: it is a folder") as caught:
        config.store_profiles()
    assert "kvtui config --example" in str(caught.value.hint)


def test_a_pipe_is_not_waited_for() -> None:
    path = write("")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ConfigError, match="no regular file") as caught:
        config.store_profiles()
    assert caught.value.hint


def test_a_link_that_leads_nowhere_is_said() -> None:
    path = write("")
    path.unlink()
    path.symlink_to("away.toml")
    with pytest.raises(ConfigError, match=r"is a link to away\.toml") as caught:
        config.store_profiles()
    assert caught.value.hint
    path.with_name("away.toml").write_text("[run]\nclients = 3\n")
    assert value("run.clients")[0] == 3


def test_a_store_by_url_with_settings_beside_it() -> None:
    write("[stores.x]\nurl = 'redis://h:1/2'\nclient = 'driver'\n")
    profile = config.store_profiles()["x"]
    assert profile.kind == "redis"
    assert profile.settings == {
        "host": "h",
        "port": 1,
        "database": 2,
        "client": "driver",
    }
    assert not profile.private


TRICKY = '''\
top = 1
"quoted key" = """
[no.table]
no = 1
"""

  [ a . "b.c" ]   # blanks
x = [
  1, # ]
  "]",
]
y.z = 3
inline = { p = 1, q = { r = "[x]" } }
[[many]]
k = \'\'\'
k = 2\'\'\'
[[many]]
k = 3
[a]
later = 1979-05-27
'''
LINES = {
    ("top",): 1,
    ("quoted key",): 2,
    ("a",): 7,
    ("a", "b.c"): 7,
    ("a", "b.c", "x"): 8,
    ("a", "b.c", "y", "z"): 12,
    ("a", "b.c", "inline", "q", "r"): 13,
    ("many",): 14,
    ("many", "k"): 15,
    ("a", "later"): 20,
}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_every_key_has_its_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "t.toml"
    path.write_bytes(TRICKY.replace("\n", ending).encode())
    document = located.load(path)
    assert {key: document.line(*key) for key in LINES} == LINES
    assert document.line("a", "b.c", "nothing") == 7
    assert document.line("nothing") == 1
    assert ("no",) not in document._lines


STATEMENTS = st.sampled_from(
    ["", "# [c]", "  # x = 1", "{0} = 1", '{0} = "#"', "{0} = [\n1,\n\n2]",
     '{0} = """\n{0} = 2\n[{0}]\n"""', "[{0}]", "[t.{0}]", "{0} = {{ a = 1 }}"]
)  # fmt: skip


@given(st.lists(STATEMENTS, max_size=12))
@settings(max_examples=150, deadline=None)
def test_lines_are_right_whatever_is_around_them(statements: list[str]) -> None:
    lines: list[str] = []
    wanted: dict[str, int] = {}
    for number, statement in enumerate(statements):
        if "{0}" in statement:
            wanted[f"k{number}"] = len(lines) + 1
        lines += statement.format(f"k{number}").split("\n")
    found = dict(located._lines("\n".join(lines)))
    for name, line in wanted.items():
        assert [at for key, at in found.items() if key[-1] == name] == [line]


def test_the_example_is_valid_and_complete() -> None:
    text = example.text()
    path = write(text)
    for name in defaults.OPTIONS:
        assert f"\n[{name.rpartition('.')[0]}]\n" in text
    assert set(config.store_profiles()) == {each.name for each in registry.BUILT_IN}
    before = {name: each.value for name, each in config.effective().items()}
    assert all(each.source == "default" for each in config.effective().values())
    # With every value taken out of its comment it still parses, and fits.
    path.write_text(re.sub(r"(?m)^# (?=\w+ = )", "", text.split("\n# Stores")[0]))
    document = config.settings_file()
    assert document is not None
    assert {name.split(".")[0] for name in before} | {"workloads"} >= set(
        document.values
    )
    assert all(each.source == "file" for each in config.effective().values())
    for name in SETTINGS:
        assert f"\n# {name} = " in text
    for line in text.splitlines():
        assert len(line) <= 88, line
    mine = text.split("# [stores.mine]\n")[1]
    for line in re.findall(r"(?m)^# (\w+ = .*)$", mine):
        name = line.split(" ")[0]
        if name == "kind":
            continue
        kind = next(k for k, v in registry.KINDS.items() if name in v.settings)
        path.write_text(f'[stores.mine]\nkind = "{kind}"\n{line}\n')
        if name == "client":
            path.write_text(f'[stores.mine]\nkind = "redis"\n{line}\n')
        config.store_profiles()


def test_the_command_shows_who_said_what(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("[run]\nclients = 20\n[stores.x]\nurl = 'redis://h:1'\n")
    monkeypatch.setenv("KVTUI_FANS_MODE", "native")
    monkeypatch.setenv("KVTUI_CLENTS", "3")
    assert cli._run(["config", "--seed", "7", "--set", "cache_mb=64"]) == 0
    out, err = capsys.readouterr()
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert f"file, {path}:2" in rows["run.clients"]
    assert "environment, KVTUI_FANS_MODE" in rows["workloads.fans.mode"]
    assert "flag, --seed" in rows["run.seed"]
    assert "64" in rows["workloads.fans.cache_mb"]
    assert "default" in rows["run.repeat"]
    assert "redis at h:1" in rows["stores.x"]
    assert "KVTUI_CLENTS means nothing here (did you mean KVTUI_CLIENTS" in err
    assert cli._run(["config", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["settings"]["run.clients"] == {
        "value": 20,
        "source": "file",
        "where": f"{path}:2",
        "variable": "KVTUI_CLIENTS",
    }
    assert made["stores"][0]["where"] == f"{path}:3"
    assert cli._run(["config", "--set", "cash=3"]) == 2
    assert "cache_mb" in capsys.readouterr().err
    assert cli._run(["config", "--example"]) == 0
    assert capsys.readouterr().out == example.text()


def test_the_screens_hear_of_the_files_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTUI_ASCII", "")
    monkeypatch.setenv("NO_COLOR", "")
    write("[ui]\nascii = true\ncolor = false\n")
    config.apply_ui()
    assert (os.environ["KVTUI_ASCII"], os.environ["NO_COLOR"]) == ("1", "1")
    monkeypatch.setenv("KVTUI_ASCII", "0")
    config.apply_ui()
    assert os.environ["KVTUI_ASCII"] == "0"
    write("[ui\n")
    config.apply_ui()  # said by the screen itself
