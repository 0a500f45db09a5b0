"""The command line as a person or a script meets it: real runs in small."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import msgspec
import pytest

from kvtui import cli, config
from kvtui.commands import console, crash, group, options
from kvtui.commands.about import schema_document
from kvtui.commands.records import escaped
from kvtui.errors import UsageError
from kvtui.runs import history, snapshot
from kvtui.runs.events import Iostat, System, Vmstat
from kvtui.runs.journal import JournalWriter
from tests import journals
from tests.conftest import require_server
from tests.terminal import Terminal, environment
from tests.waiting import until

ROOT = Path(__file__).parents[1]
REAL = Path(os.environ.get("KVTUI_REAL_DATA", ROOT.parent / "shared" / "data"))
TRUTH = REAL.parent / "truth"
MSWEB = REAL / "msweb" / "anonymous-msweb.data.gz"

PROFILES = """\
http://a.test/michael\thttp://b.test/packers\tcaf\u00e9
http://a.test/michael\tcafe\u0301\thttp://b.test/packers
http://a.test/michael\thttp://c.test/x\\y
http://c.test/michael\tback\\slash
"""
NAMES = """\
http://a.test/michael\tMichael
http://c.test/michael\tMichael
http://b.test/packers\tGreen Bay Packers
"""


class Kvtui:
    """kvtui with a state folder of its own."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.runs = state / "kvtui" / "runs"

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.state, **more)

    def start(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "kvtui", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**more),
        )

    def __call__(self, *words: str, code: int = 0, **more: str) -> tuple[str, str]:
        """Standard output and error of a command that ends with ``code``."""
        process = self.start(*words, **more)
        out, err = (data.decode("utf-8", "replace") for data in process.communicate())
        assert process.returncode == code, (process.returncode, out, err)
        assert "Traceback" not in err
        return out, err

    def newest(self) -> history.RunDirectory:
        return history.find(self.runs, None)

    def ended(self, run: history.RunDirectory) -> None:
        """Wait until the run's runner is gone; say how far it came otherwise."""
        try:
            until(lambda: not run.goes_on, "the run has ended")
        except AssertionError as error:
            told = _bytes(run.journal)[-2000:] + _bytes(run.log)[-2000:]
            raise AssertionError(told.decode()) from error

    def goes_on(self) -> history.RunDirectory | None:
        """The run whose measuring has begun."""
        for run in history.all_runs(self.runs):
            if b'"phase":"measure"' in _bytes(run.journal):
                return run
        return None


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.fixture
def kvtui(tmp_path: Path) -> Iterator[Kvtui]:
    made = Kvtui(tmp_path / "state")
    yield made
    for run in history.all_runs(made.runs):
        if run.goes_on:
            history.stop(run)
            made.ended(run)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Kvtui:
    """One finished run on ram and leveldb that the tests only read."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "profiles.tsv").write_text(PROFILES, "utf-8")
    (folder / "names.tsv").write_text(NAMES, "utf-8")
    made = Kvtui(folder / "state")
    words = ["--data", f"{folder}/profiles.tsv", "--names", f"{folder}/names.tsv"]
    made("run", "fans", "--store", "ram", "--store", "leveldb", *words)
    return made


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """A small profile file."""
    path = tmp_path / "profiles.tsv"
    path.write_text(PROFILES, "utf-8")
    return path


# How it starts and what it says without doing anything.


def test_the_version_loads_what_words_need_and_no_more():
    """How long that takes is measured by ``bench/startup.py``."""
    code = (
        "import sys; before = set(sys.modules); sys.argv = ['kvtui', '--version']\n"
        "from kvtui.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT)
    assert done.stdout.startswith(b"kvtui 0.")
    loaded = done.stderr.decode().split()
    foreign = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert foreign == {"kvtui", "click"}
    assert {name for name in loaded if name.partition(".")[0] == "kvtui"} == {
        "kvtui",
        "kvtui.cli",
        "kvtui.commands",
        "kvtui.commands.console",
        "kvtui.commands.group",
        "kvtui.errors",
        "kvtui.secrets",
        "kvtui.text",
    }


@pytest.mark.parametrize("command", ["", *group.COMMANDS, "run fans", "data make"])
def test_every_command_has_help_with_examples(command, monkeypatch, capsys):
    assert cli._run([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: kvtui {command}".rstrip())
    if command not in ("run", "data", "paths"):
        assert f"\n  kvtui {command}".rstrip() in shown


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("blah", 2, "there is no command 'blah'"),
        ("quary", 2, "did you mean query"),
        ("run fans", 2, "no store was chosen"),
        ("run fans --store rma", 2, "did you mean ram?"),
        ("run fans --store ram --store ram", 2, "named twice"),
        ("run fans --store ram --set mode=x", 2, "mode 'x' is not one of"),
        ("run fans --store ram --set mode", 2, "not key=value"),
        ("run fans --store ram --set data=x", 2, "--data"),
        ("run fans --store ram --set cash_mb=3", 2, "no parameter 'cash_mb'"),
        ("run fans --store ram --clients 0", 2, "clients must be from 1"),
        ("run fans --store ram --first 1x", 2, "not a whole number"),
        ("run fans --store ram --data /nowhere", 4, "No such file"),
        ("run fans --store ram --names /nowhere", 4, "No such file"),
        ("run fans --store ram --save /nowhere/x", 2, "no folder /nowhere"),
        ("run fans --store ram --storr x", 2, "no such option"),
        ("run fans --store redis-tcp:port=1", 3, "127.0.0.1:1"),
        ("run fans --store redis-tcp:password=x", 2, "password_env"),
        ("query x", 1, "no run has left a copy"),
        ("query x --run nosuch", 1, "there is no run nosuch"),
        ("records --items - --pairs -", 2, "cannot both"),
        ("attach", 1, "there is no run yet"),
        ("stop", 1, "no run goes on"),
        ("data info /nowhere", 4, "No such file"),
        ("data make /nowhere/x", 2, "no folder"),
        ("data make x --taste 3", 2, "taste"),
        ("fananalyze", 2, "-f"),
        ("fananalyze -q x -s nosuch", 2, "there is no store 'nosuch'"),
        ("fananalyze -q x -s redis -p 1", 3, "refused"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(words, code, said, capsys):
    assert cli._run(words.split()) == code
    out, err = capsys.readouterr()
    assert err.startswith("kvtui: ")
    assert said in err
    assert out == ""


def test_without_a_terminal_it_says_so(kvtui):
    out, err = kvtui(code=2)
    assert out == ""
    assert "needs a terminal" in err
    assert "kvtui run fans" in err
    assert "\x1b" not in err


def test_a_store_that_is_not_there_names_the_command_that_brings_it(
    monkeypatch, capsys
):
    from kvtui.stores import registry

    monkeypatch.setattr(registry, "find_program", lambda names: None)
    assert cli._run(["run", "fans", "--store", "redis-unix"]) == 3
    assert "apt install redis-server" in capsys.readouterr().err
    assert cli._run(["stores"]) == 0
    assert "apt install redis-server" in capsys.readouterr().out


def test_an_unexpected_end_leaves_a_report_without_secrets(monkeypatch, capsys):
    monkeypatch.setenv("STORE_PASSWORD", "S3cr3t-marker")
    told = "redis://u:0ther-s3cret@h/0 S3cr3t-marker"

    def fail() -> None:
        in_a_variable = "v4riable"
        raise RuntimeError(told if in_a_variable else "")

    monkeypatch.setattr(config, "store_profiles", fail)
    assert cli._run(["stores"]) == cli.CRASHED
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    (report,) = config.state_directory().glob("crash-*.log")
    assert str(report) in err
    assert report.stat().st_mode & 0o777 == 0o600
    written = report.read_text()
    assert "RuntimeError" in written
    for secret in ("S3cr3t-marker", "0ther-s3cret"):
        assert secret not in written + err
    assert "v4riable" not in written.replace('in_a_variable = "v4riable"', "")


def test_secrets_are_taken_out():
    assert crash.without_secrets("x redis://u:pw@h y") == "x redis://u:•••@h y"


# Output and its reader.


@pytest.mark.parametrize("words", [["--help"], ["records", "--pairs", "-"], ["schema"]])
def test_a_reader_that_leaves_is_no_error(finished, words):
    process = finished.start(*words)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert "BrokenPipe" not in err


def test_a_full_disk_under_the_output_is_said(finished):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "kvtui", "runs"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=finished.environment(),
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"kvtui: the output cannot be written")
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    "more",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_no_locale_is_an_error(finished, more):
    out, _ = finished("query", "caf\u00e9", **more)
    assert out
    finished("runs", **more)
    finished("stores", **more)


def test_a_terminal_without_utf8_gets_ascii(finished):
    terminal = Terminal(
        [sys.executable, "-m", "kvtui", "query", "http://a.test/michael"],
        finished.environment(LC_ALL="C"),
    )
    try:
        assert terminal.ended() == 0
        assert bytes(terminal.written).isascii()
        assert b"caf\\xe9" in terminal.written
    finally:
        terminal.close()


def test_letters_that_steer_a_terminal_are_escaped_in_json():
    assert console._HIDDEN_IN_JSON.sub("#", "a\x9b\u202e\u200bb") == "a###b"
    assert json.loads('"' + "".join(map(console._json_escape, "é😀x")) + '"') == "é😀x"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10", 10),
        ("10k", 10_000),
        ("10_000", 10_000),
        ("10,000", 10_000),
        ("1.5M", 1_500_000),
        ("9223372036854775807", 2**63 - 1),
        ("x", None),
        ("", None),
        ("k", None),
        ("nan", None),
        ("1e400", None),
    ],
)
def test_numbers_may_have_units(text, value):
    assert options.number(text) == value


def test_settings_are_key_and_value():
    assert options.settings(("mode=cached", "cache-mb=1.5")) == {
        "mode": "cached",
        "cache_mb": 1.5,
    }
    with pytest.raises(UsageError, match="twice"):
        options.settings(("mode=a", "mode=b"))


# Runs.


def test_a_run_prints_its_plan_and_its_ranking(kvtui, tmp_path):
    profiles = tmp_path / "profiles.tsv"
    profiles.write_text(PROFILES, "utf-8")
    saved = tmp_path / "saved.json"
    out, err = kvtui(
        "run", "fans", "--store", "null", "--store", "ram", "--data", str(profiles),
        "--clients", "2", "--repeat", "2", "--save", str(saved),
    )  # fmt: skip
    assert "2 clients in 2 workers, 2 times each" in err
    assert "[2/4] ram #1: 0." in err
    assert "\x1b" not in out + err
    assert "\r" not in out + err
    lines = out.splitlines()
    assert lines[0].split()[:2] == ["rank", "store"]
    assert lines[1].split()[:3] == ["1", "ram", "calls"]
    assert lines[2].split()[:2] == ["–", "null"]
    assert "all 7" in lines[1]
    assert "durability: memory" in out
    assert snapshot.read(saved).run == kvtui.newest().name
    document = json.loads(saved.read_text())
    jsonschema.validate(document, json.loads(schema_document()))


def test_a_run_as_json(kvtui, tmp_path):
    profiles = tmp_path / "profiles.jsonl"
    profiles.write_text('["a","b"]\n{broken\n["a"]\n')
    out, _ = kvtui(
        "run", "fans", "--store", "ram", "--data", str(profiles), "--json",
        "--set", "mode=cached",
    )  # fmt: skip
    made = json.loads(out)
    (row,) = made["ranking"]
    assert row["rank"] == 1
    assert row["records_checked"] == row["records_expected"] == 2
    assert row["attempted"] == row["ok"] + row["miss"] + row["failed"]
    assert row["figures"]["cache hits"] == 1
    assert made["bad_lines"] == 1
    assert made["first_bad_lines"][0][0] == 2
    assert Path(made["snapshot"]).is_file()


def test_a_failed_store_costs_no_other_its_place(kvtui, tmp_path):
    profiles = tmp_path / "profiles.tsv"
    profiles.write_text(PROFILES, "utf-8")
    out, _ = kvtui(
        "run", "fans", "--data", str(profiles), "--store", "ram",
        "--store", "redis-unix:program=false", code=1,
    )  # fmt: skip
    assert out.splitlines()[1].split()[:2] == ["1", "ram"]
    assert "no rank: redis-unix" in out
    assert "the private server ended with status 1" in out


@pytest.mark.parametrize(
    "store", ["leveldb:compression=zip", "wiredtiger:compression=lz5"]
)
def test_a_compression_that_there_is_not_is_refused_before_the_run(kvtui, store):
    _, err = kvtui("run", "fans", "--store", store, code=2)
    assert "compression must be snappy or none" in err
    assert not kvtui.runs.exists()


def test_ctrl_c_stops_in_order_and_still_ranks(kvtui):
    process = kvtui.start("run", "fans", "--store", "ram", "--clients", "1")
    until(kvtui.goes_on, "it measures")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert b"stopping the run in order" in err
    assert b"no rank: ram: stopped" in out
    run = kvtui.newest()
    kvtui.ended(run)
    assert run.state().outcome == "stopped"


def test_a_second_ctrl_c_leaves_at_once(kvtui):
    terminal = Terminal(
        [sys.executable, "-m", "kvtui", "run", "fans", "--store", "ram"],
        kvtui.environment(),
    )
    try:
        until(kvtui.goes_on, "it measures")
        terminal.send("\x03")
        terminal.shows("Ctrl-C again")
        terminal.send("\x03")
        assert terminal.ended() == 130
    finally:
        terminal.close()
    run = kvtui.newest()
    kvtui.ended(run)
    assert run.state().outcome == "stopped"


def test_a_lost_terminal_changes_nothing_and_stop_ends_the_run(kvtui):
    terminal = Terminal(
        [sys.executable, "-m", "kvtui", "run", "fans", "--store", "ram"],
        kvtui.environment(),
    )
    try:
        until(kvtui.goes_on, "it measures")
        terminal.hang_up()
        assert terminal.ended() == 128 + signal.SIGHUP
    finally:
        terminal.close()
    run = kvtui.newest()
    assert run.goes_on
    assert run.name in kvtui("runs")[0]
    assert json.loads(kvtui("runs", "--json")[0])[0]["state"] == "goes on"
    assert kvtui("stop")[0] == f"run {run.name}: stopped\n"
    assert not run.goes_on


def test_a_runner_that_dies_is_told(kvtui):
    process = kvtui.start("run", "fans", "--store", "ram")
    run = until(kvtui.goes_on, "it measures")
    started = run.state().started
    os.kill(started.process_id, signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == 1
    assert b"the runner of" in err
    assert b"runner.log" in err
    assert b"no rank: ram: interrupted" in out
    assert json.loads(kvtui("runs", "--json")[0])[0]["state"] == "interrupted"


def test_on_a_terminal_there_is_a_bar_and_every_line_fits(kvtui):
    data = str(config.sample_profiles()[0])
    terminal = Terminal(
        [
            sys.executable, "-m", "kvtui", "run", "fans", "--store", "null",
            "--store", "leveldb", "--first", "500", "--data", data,
        ],
        kvtui.environment(NO_COLOR="1"),
    )  # fmt: skip
    try:
        assert terminal.ended(40) == 0
        shown = bytes(terminal.written).decode()
    finally:
        terminal.close()
    assert "\x1b" not in shown
    assert "[2/2] leveldb measuring" in shown
    table = shown[shown.index("rank  store") :]
    assert max(map(len, table.splitlines()[:8])) <= 80


def test_damaged_runs_are_listed_as_such(kvtui):
    kvtui.runs.mkdir(parents=True)
    journals.write(kvtui.runs, "ram", "null", seconds=3)
    (kvtui.runs / "20200101T000000Z-fans").mkdir()
    broken = kvtui.runs / "20200102T000000Z-fans"
    broken.mkdir()
    (broken / "plan.json").write_text("{")
    odd = journals.write(kvtui.runs, "leveldb", seconds=3, finish=False)
    with odd.journal.open("ab") as file:
        file.write(b"\xff\xfe{half")
    states = {row["run"]: row for row in json.loads(kvtui("runs", "--json")[0])}
    assert states[broken.name]["state"] == "damaged"
    assert states["20200101T000000Z-fans"]["state"] == "damaged"
    assert states[odd.name]["state"] == "interrupted"
    assert sorted(row["state"] for row in states.values()) == [
        "damaged",
        "damaged",
        "done",
        "interrupted",
    ]
    out, _ = kvtui("runs")
    assert len(out.splitlines()) == 5


def test_a_run_is_shown_again(finished):
    """Its report, in words and as JSON, the newest's where none is named."""
    run = finished.newest()
    out, _ = finished("runs", "show")
    assert "verified" in out
    assert f"run {run.name}" in out
    named, _ = finished("runs", "show", run.name[:-3], "--json")
    assert json.loads(named)["run"] == run.name
    _, err = finished("runs", "show", "--json", "--vmstat", code=2)
    assert "--json prints the report" in err


def test_what_the_machine_did_stands_in_vmstats_own_layout(kvtui):
    """One row a second; a run without any says why there is none."""
    run = history.create(kvtui.runs, journals.plan("ram"))
    events = list(journals.events("ram", seconds=3))
    vmstat = Vmstat(**dict.fromkeys(Vmstat.__struct_fields__, 25))
    device = Iostat(**dict.fromkeys(Iostat.__struct_fields__, 1.0))
    with JournalWriter(run.journal) as writer:
        for event in events:
            rows = {"vmstat": vmstat, "iostat": {"vda": device}}
            if isinstance(event, System):
                writer.append(msgspec.structs.replace(event, **rows))
            else:
                writer.append(event)
    out, _ = kvtui("runs", "show", run.name, "--vmstat")
    heads, lines = out.splitlines()[:2], out.splitlines()[2:]
    assert heads[0].startswith("procs ---")
    assert {line.split()[12] for line in lines} == {"25"}
    assert len(lines) == sum(isinstance(event, System) for event in events)
    out, _ = kvtui("runs", "show", run.name, "--iostat")
    assert out.count("vda ") == out.count("Device ") == len(lines)


def test_a_run_without_the_machines_rows_says_so(kvtui):
    run = history.create(kvtui.runs, journals.plan("ram"))
    with JournalWriter(run.journal) as writer:
        for event in journals.events("ram", seconds=3):
            writer.append(event)
    _, err = kvtui("runs", "show", "--vmstat", code=1)
    assert "has no such rows" in err


# What a run has left.


def test_a_page_by_its_id(finished):
    out, err = finished("query", "http://a.test/michael")
    assert out.startswith("Michael: 3 fans of 4 people\n")
    assert "copy of leveldb" in err
    rows = [line.split() for line in out.splitlines()]
    # Two of three fans; all of the Packers' two; 2 * 4 / (3 * 2).
    assert ["2", "66.7", "%", "100.0", "%", "1.33"] in [row[:6] for row in rows]
    assert "http://c.test/michael" in err


def test_a_page_by_its_name_and_as_json(finished):
    out, _ = finished("query", "Green Bay Packers", "--json", "--store", "ram")
    record = json.loads(out)
    assert record["page"] == "http://b.test/packers"
    assert record["fans"] == 2
    assert record["pages"]["http://a.test/michael"] == 2


def test_several_pages_of_a_name_are_listed(finished):
    out, err = finished("query", "Michael")
    assert "http://a.test/michael" in out
    assert "http://c.test/michael" in out
    assert "ask by id" in err
    finished("query", "Michael", "--json", code=1)


def test_look_alikes_are_pointed_out(finished):
    out, err = finished("query", "caf\u00e9")
    assert "1 fan of 4" in out.splitlines()[0]
    assert "'cafe\\u0301'" in err
    _, err = finished("query", "CAFE\u0301", code=1)
    assert "'caf\\xe9'" in err


def test_a_page_that_is_not_there_and_the_nearest(finished):
    out, err = finished("query", "Green Bay Pa", code=1)
    assert out == ""
    assert "http://b.test/packers" in err
    assert finished("query", "zzz", "--json", code=1)[0] == "null\n"


def test_records_are_lines_in_order(finished, tmp_path):
    items, pairs = tmp_path / "items", tmp_path / "pairs"
    finished("records", "--items", str(items), "--pairs", str(pairs))
    lines = items.read_text("utf-8").split("\n")
    assert lines.pop() == ""
    assert lines == sorted(lines, key=str.encode)
    assert "back\\\\slash\t1" in lines
    assert "http://a.test/michael\thttp://b.test/packers\t2" in pairs.read_text("utf-8")
    one, two = (
        json.loads(finished("records", "--json", "--store", store)[0])
        for store in ("ram", "leveldb")
    )
    assert one == two
    for path, name in ((items, "items"), (pairs, "pairs")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert one[f"{name}_sha256"] == digest
    out, _ = finished("records", "--items", "-")
    assert out.encode() == items.read_bytes()


def test_an_id_takes_one_field():
    assert escaped("a\tb\nc\\d\re") == "a\\tb\\nc\\\\d\\re"
    assert escaped("caf\u00e9 \u202e") == "caf\u00e9 \u202e"


def test_pairs_that_disagree_are_told(finished, capsys, monkeypatch):
    from kvtui.commands import records

    class Archive:
        def raw_records(self):
            yield "a", b'{"page":"a","fans":1,"pages":{"b":2}}'
            yield "b", b'{"page":"b","fans":1,"pages":{"a":1}}'

    digests = records.write(Archive(), None, None)  # type: ignore[arg-type]
    assert (digests.items, digests.pairs) == (2, 1)
    assert "do not agree" in capsys.readouterr().err


@pytest.mark.skipif(not MSWEB.is_file(), reason=f"no {MSWEB}")
@pytest.mark.parametrize(
    ("stores", "words"),
    [
        (("ram", "leveldb"), ()),
        (("redis-unix",), ("--clients", "8", "--workers", "2")),
        (("redis-unix",), ("--set", "mode=native", "--clients", "2")),
    ],
)
def test_real_data_gives_the_known_digests(kvtui, stores, words):
    if any(store.startswith("redis") for store in stores):
        require_server("redis")
    chosen = [word for store in stores for word in ("--store", store)]
    kvtui(
        "run", "fans", *chosen, "--data", str(MSWEB), "--first", "10k",
        *(words or ("--set", "mode=cached")),
    )  # fmt: skip
    truth = json.loads((TRUTH / "truth-msweb.json").read_text())
    expected = truth["slices"]["first10000"]["digest"]
    for store in stores:
        found = json.loads(kvtui("records", "--json", "--store", store)[0])
        assert {name: found[name] for name in expected} == expected


def test_the_scripts_own_words(kvtui, redis_unix, tmp_path):
    profiles = tmp_path / "data.txt"
    profiles.write_text(PROFILES, "utf-8")
    socket = str(redis_unix.connect_settings()["path"])
    there = ("-s", "redis", "-h", socket)
    kvtui("fananalyze", "-f", str(profiles), *there, "-r", "--overwrite")
    out, _ = kvtui("fananalyze", "-q", "http://b.test/packers", *there)
    assert json.loads(out)["fans"] == 2
    assert kvtui("fananalyze", "-q", "nosuch", *there, code=1)[0] == "null\n"
    live = f"redis-unix:path={socket}"
    out, err = kvtui("query", "http://b.test/packers", "--store", live)
    assert "itself" in err
    assert "http://a.test/michael" in out
    _, err = kvtui("fananalyze", "-f", str(profiles), *there, code=2)
    assert "--overwrite" in err
    kvtui("fananalyze", "-f", str(profiles), *there, "--overwrite")
    # Without keep, the next run leaves nothing behind.
    kvtui("run", "fans", "--data", str(profiles), "--store", live, "--clear")
    kvtui("fananalyze", "-q", "http://b.test/packers", *there, code=1)


# Data and the rest.


def test_made_data_is_described(kvtui, tmp_path):
    one, two = tmp_path / "one.tsv", tmp_path / "two.tsv"
    names = tmp_path / "names.tsv"
    kvtui("data", "make", str(one), "--profiles", "1k", "--names", str(names))
    kvtui("data", "make", str(two), "--profiles", "1_000")
    assert one.read_bytes() == two.read_bytes()
    kvtui("data", "make", str(one), code=2)
    kvtui("data", "make", str(one), "--profiles", "10", "--force")
    out, _ = kvtui("data", "info", str(two), "--names", str(names))
    assert "1,000" in out
    made = json.loads(kvtui("data", "info", str(two), "--json", "--first", "100")[0])
    assert made["profiles"] == 100


def test_bad_lines_are_shown_with_number_and_reason(kvtui, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'["a"]\n' + b"{\n" * 25 + b'["b\x1b"]\n')
    out, _ = kvtui("data", "info", str(path))
    assert "25 bad lines, the first 20" in out or "26 bad lines, the first 20" in out
    assert "  line 2: " in out
    assert "\x1b" not in out


def test_the_published_schema_is_current():
    path = ROOT / "data" / "snapshot.schema.json"
    assert path.read_bytes() == schema_document(), "kvtui schema > " + str(path)
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_bytes()))


def test_paths_and_stores_as_json(kvtui):
    paths = json.loads(kvtui("paths", "--json")[0])
    assert paths["runs"] == str(kvtui.runs)
    stores = json.loads(kvtui("stores", "--json")[0])
    assert {"null", "ram", "leveldb"} <= {
        store["store"] for store in stores if store["ready"]
    }
    assert msgspec.json.decode(kvtui("schema")[0])["title"] == "kvtui snapshot"


def test_save_follows_links_and_replaces_only_files(kvtui: Kvtui, profiles: Path):
    folder = profiles.parent
    pipe, target, link = folder / "pipe", folder / "kept.json", folder / "link.json"
    os.mkfifo(pipe)
    link.symlink_to(target)
    words = ("run", "fans", "--store", "null", "--data", str(profiles))
    _, err = kvtui(*words, "--save", str(pipe), code=2)
    assert "is not a file" in err
    assert pipe.is_fifo()
    kvtui(*words, "--save", str(link))
    assert link.is_symlink()
    assert json.loads(target.read_bytes())["outcome"] == "done"


def test_a_pipe_is_no_profile_file(kvtui: Kvtui, tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    _, err = kvtui("data", "info", str(tmp_path / "pipe"), code=4)
    assert "is not a file" in err


@pytest.mark.parametrize(
    "setting",
    ["port=99999", "port=-1", "port=abc", "timeout_s=nan", "timeout_s=0", "host=5"],
)
def test_settings_of_stores_have_limits(kvtui: Kvtui, profiles: Path, setting: str):
    words = ("run", "fans", "--data", str(profiles))
    _, err = kvtui(*words, "--store", f"redis-tcp:{setting}", code=2)
    assert setting.split("=")[0] in err
    assert "must be" in err


def test_the_names_of_the_controls_cannot_be_taken(kvtui: Kvtui):
    folder = kvtui.state.parent / "config" / "kvtui"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('[stores.ram]\nkind = "redis"\nport = 1\n')
    _, err = kvtui("stores", code=2, XDG_CONFIG_HOME=str(folder.parent))
    assert "stores.ram" in err


def test_a_list_does_not_overwrite_the_other(kvtui: Kvtui, tmp_path: Path):
    out = str(tmp_path / "out.tsv")
    kvtui("records", "--items", out, "--pairs", out, code=2)


@pytest.mark.parametrize("words", [("query", ""), ("query", "x", "--top", "0")])
def test_a_query_for_nothing_is_refused(kvtui: Kvtui, words: tuple[str, ...]):
    kvtui(*words, code=2)
