"""kvtui on a terminal of its own: coming, going, and being left alone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvtui.errors import UsageError
from kvtui.runs import history
from kvtui.screens import terminal as terminals
from tests import terminal
from tests.journals import Runner
from tests.terminal import PLAY, Terminal, environment

ALTERNATE = b"\x1b[?1049h"
RESTORED = (b"\x1b[?1049l", b"\x1b[?25h", b"\x1b[?1003l", b"\x1b[?2004l")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory of its own."""
    return tmp_path / "state"


@pytest.fixture
def runs(state: Path) -> Path:
    """Where its runs are."""
    return state / "kvtui" / "runs"


@pytest.fixture
def shown(state: Path) -> Iterator[Terminal]:
    """kvtui with its first frame drawn."""
    played = terminal.play(state)
    try:
        played.shows("kvtui run fans")
        yield played
    finally:
        played.close()


def restored(played: Terminal) -> bool:
    """Whether everything was put back as it was."""
    written = bytes(played.written)
    left = written.rindex(RESTORED[0])
    assert all(code in written[written.index(ALTERNATE) :] for code in RESTORED)
    assert ALTERNATE not in written[left:]
    slave = played._slave
    assert slave is not None
    return termios.tcgetattr(slave)[:4] == played.attributes[:4]


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_leaving(shown: Terminal, key: str) -> None:
    shown.send(key)
    assert shown.ended() == 0
    assert restored(shown)
    assert b"left with 0" in shown.written


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(shown: Terminal, number: int) -> None:
    shown.process.send_signal(number)
    assert shown.ended() == 128 + number
    assert restored(shown)


def test_an_interrupt_from_outside(shown: Terminal) -> None:
    shown.process.send_signal(signal.SIGINT)
    assert shown.ended() in (0, 130)
    assert restored(shown)


def test_a_dropped_line_ends_it(shown: Terminal) -> None:
    shown.hang_up()
    shown.ended(8)


def test_a_lost_terminal_ends_it_even_without_a_signal(state: Path) -> None:
    ignore = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    arguments = [sys.executable, "-c", ignore + PLAY]
    played = Terminal(arguments, environment(state))
    try:
        played.shows("kvtui run fans")
        process = psutil.Process(played.process.pid)
        before = sum(process.cpu_times()[:2])
        played.hang_up()
        deadline = time.monotonic() + 10
        after = before
        while played.process.poll() is None and time.monotonic() < deadline:
            try:
                after = sum(process.cpu_times()[:2])
            except psutil.NoSuchProcess:
                break
            time.sleep(0.05)
        played.ended(1)
        assert after - before < 4
    finally:
        played.close()


def test_a_terminal_that_takes_nothing_more_does_not_hold_it(state: Path) -> None:
    arguments = [sys.executable, "-c", PLAY]
    played = Terminal(arguments, environment(state), (200, 60))
    try:
        played.shows("kvtui run fans")
        # Nobody reads on. Help and back, until the line is full.
        for _ in range(300):
            played.send("?\r")
        time.sleep(1)
        played.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 10
        while played.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert played.process.poll() is not None
    finally:
        played.close()


def test_suspended_and_back(shown: Terminal) -> None:
    process = psutil.Process(shown.process.pid)
    time.sleep(1)  # the stores have been looked for: nothing is left to draw
    shown.read()
    shown.send("\x1a")
    deadline = time.monotonic() + 10
    while process.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline
        shown.read()
    shown.read()
    at = len(shown.written)
    assert RESTORED[0] in shown.written
    shown.process.send_signal(signal.SIGCONT)
    shown.until(lambda written: b"Stores" in written[at:] and b"Plan" in written[at:])
    shown.send("q")
    assert shown.ended() == 0


@pytest.fixture
def people(tmp_path: Path, state: Path) -> Path:
    """A profile file, chosen in the form together with the ram store."""
    path = tmp_path / "people.tsv"
    mj, gbp = "http://x/mj", "http://x/gbp"
    lines = [f"{mj}\t{gbp}\n"] * 22 + [f"{mj}\thttp://x/other\n"] * 384
    path.write_text("".join(lines))
    wishes = {"stores": ["ram"], "data": str(path), "clients": "2"}
    (state / "kvtui").mkdir(parents=True)
    memory = {"version": 1, "wishes": wishes}
    (state / "kvtui" / "ui.json").write_text(json.dumps(memory))
    return path


def test_from_start_to_the_fan_pages(state: Path, people: Path) -> None:
    played = terminal.play(state, (120, 40))
    try:
        played.shows("--store ram --data")
        played.send("\r")
        played.shows("run fans done", 60)
        played.send("f")
        played.shows("3 of 3 pages")
        played.send("mj\r")
        played.shows("406 fans of 406")
        row = re.compile(rb"gbp +22 +5\.4 % +100\.0 % +22 +1\.00\xc3\x97")
        played.until(lambda written: row.search(written) is not None)
        played.send("q")
        assert played.ended() == 0
        assert b"Traceback" not in played.written
    finally:
        played.close()


def test_a_killed_screen_changes_nothing_for_the_run(
    state: Path, runs: Path, people: Path
) -> None:
    played = terminal.play(state)
    try:
        played.shows("kvtui run fans")
        played.send("\r")
        played.shows("The run is starting")
        played.process.send_signal(signal.SIGKILL)
        assert played.ended() == -signal.SIGKILL
        deadline = time.monotonic() + 60
        found = history.all_runs(runs)
        while not found or found[0].state().outcome is None:
            assert time.monotonic() < deadline
            time.sleep(0.1)
            found = history.all_runs(runs)
        (run,) = found
        assert run.state().outcome == "done"
    finally:
        played.close()


def test_leaving_a_run_says_that_it_goes_on(state: Path, runs: Path) -> None:
    runner = Runner(runs, "null", "ram")
    runner.until(4)
    played = terminal.play(state)
    try:
        played.shows("A run goes on")
        began = time.monotonic()
        played.send("q")
        assert played.ended() == 0
        assert time.monotonic() - began < 3
        said = f"run {runner.run.name} goes on: kvtui attach shows it"
        assert said.encode() in played.written
        assert runner.run.goes_on
    finally:
        runner.vanish()
        played.close()


CRASH = """
from kvtui.screens.workbench import StoreList
def row(self, index, width):
    password = "hunter2"
    raise RuntimeError("[/] came to nothing")
StoreList.row = row
"""


def test_an_unexpected_end_leaves_a_report(state: Path) -> None:
    played = Terminal([sys.executable, "-c", CRASH + PLAY], environment(state))
    try:
        assert played.ended(20) == 70
        (report,) = (state / "kvtui").glob("crash-*.log")
        text = report.read_text()
        assert "RuntimeError: [/] came to nothing" in text
        assert "hunter2" not in text.replace('password = "hunter2"', "")
        assert report.stat().st_mode & 0o777 == 0o600
        said = bytes(played.written).rpartition(RESTORED[0])[2]
        assert b"came to an unexpected end" in said
        assert str(report).encode() in said.replace(b"\r\n", b"")
        assert b"Traceback" not in said
    finally:
        played.close()


NOISE = """
import ctypes, os, sys, warnings
from kvtui.screens.workbench import StoreList
kept = StoreList.row
def row(self, index, width):
    warnings.warn("stray warning", stacklevel=1)
    print("stray print")
    os.write(2, b"stray from C\\n")
    os.write(1, b"stray from C\\n")
    return kept(self, index, width)
StoreList.row = row
"""


def test_nothing_draws_over_the_screen(state: Path) -> None:
    arguments = [sys.executable, "-c", NOISE + PLAY]
    played = Terminal(arguments, environment(state))
    try:
        played.shows("kvtui run fans")
        played.send("q")
        assert played.ended() == 0
        assert b"stray" not in played.written
        log = (state / "kvtui" / "ui.log").read_text()
        assert "stray from C" in log
        assert "stray warning" in log
    finally:
        played.close()


def test_without_colour_there_is_none(state: Path, runs: Path) -> None:
    runner = Runner(runs, "null", "redis-tcp", "ram", seconds=4)
    runner.until(8)
    played = terminal.play(state, NO_COLOR="1")
    try:
        played.shows("A run goes on")
        played.send("l")
        played.shows("redis-tcp")
        played.send("?")
        played.shows("Help: live")
        played.send("q")
        played.read()
        codes = set(re.findall(rb"\x1b\[([0-9;]*)m", bytes(played.written)))
        parts = {part for code in codes for part in code.split(b";")}
        assert parts <= {b"", b"0", b"1", b"2", b"7", b"39", b"49"}, codes
    finally:
        runner.vanish()
        played.close()


def test_a_terminal_without_utf8_gets_ascii(state: Path) -> None:
    played = terminal.play(state, LC_ALL="C")
    try:
        played.shows("kvtui run fans")
        assert bytes(played.written).isascii()
        played.send("q")
        played.ended()
    finally:
        played.close()


def test_few_bytes_a_second(state: Path, runs: Path) -> None:
    runner = Runner(runs, "null", "ram", "leveldb", "redis-unix", seconds=14)
    runner.until(30)
    played = terminal.play(state, (120, 40))
    try:
        played.shows("A run goes on")
        played.send("l")
        played.shows("leveldb")
        # Six seconds of the run, as they come.
        began = time.monotonic()
        number = 0
        for second in range(6):
            runner.until(31 + second)
            while time.monotonic() < began + second + 1:
                number += played.read(0.02)
        assert 100 < number / 6 < 32 * 1024
        memory = psutil.Process(played.process.pid).memory_info().rss
        assert memory < 150_000_000
    finally:
        runner.vanish()
        played.close()


@pytest.mark.parametrize(
    "environ", [{"TERM": "dumb"}, {"TERM": ""}, {"TERM": "xterm"}], ids=str
)
def test_no_terminal_no_screen(state: Path, environ: dict[str, str]) -> None:
    refused = (
        "import sys\n"
        "from kvtui.app import run_app\n"
        "from kvtui.errors import UsageError\n"
        "try:\n    run_app()\n"
        "except UsageError as error:\n"
        "    sys.exit(f'{error.message} / {error.hint}')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", refused],
        env=environment(state, **environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith(b"kvtui needs a terminal")
    assert b"kvtui run fans --store ram" in done.stderr
    assert b"\x1b" not in done.stderr


def test_what_a_terminal_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {0, 2}
    monkeypatch.setattr("os.isatty", lambda number: number in there)
    terminals.require({"TERM": "xterm"})
    there.remove(2)
    with pytest.raises(UsageError, match="error output"):
        terminals.require({"TERM": "xterm"})
    there.remove(0)
    with pytest.raises(UsageError, match="input"):
        terminals.require({"TERM": "xterm"})


def test_the_first_screen_loads_little(state: Path) -> None:
    code = (
        "import sys\n"
        "import kvtui.app\n"
        "heavy = {'numpy', 'redis', 'pymongo', 'pymysql', 'plyvel', 'psutil',"
        " 'kvtui.engine.runner', 'kvtui.engine.worker', 'kvtui.screens.fans',"
        " 'kvtui.screens.live', 'sqlite3'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(state),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == b"[]\n"
