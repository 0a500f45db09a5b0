"""``kvtui run http``, from the command line to the snapshot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtui import config
from kvtui.runs import history, snapshot
from tests.stores import pages
from tests.stores.pages import GOOD, Pages
from tests.terminal import Terminal, environment

LIMITED = "ulimit -n 64; exec {python} -m kvtui run http"


ALONE = ("unshare", "--map-root-user", "--net")
SCARCE = """
import subprocess, sys
from pathlib import Path
from kvtui import config
from tests.stores import pages
from tests.waiting import until
net = Path("/proc/sys/net/ipv4")
(net / "tcp_tw_reuse").write_text("0")
(net / "ip_local_port_range").write_text("41000 41019")
def told():
    for journal in config.runs_directory().glob("*/journal.jsonl"):
        return b'"kind":"local ports"' in journal.read_bytes()
with pages.Pages(pages.saying(pages.GOOD), transport="tcp") as fake:
    store = f"http:host=127.0.0.1,port={fake.settings['port']},keep_alive=false"
    words = ["run", "http", "--store", store, "-n", "60", "--clients", "1", "--json"]
    done = subprocess.Popen([sys.executable, "-m", "kvtui", *words])
    until(told, "no port was left")
    (net / "ip_local_port_range").write_text("42000 60000")
    sys.exit(done.wait())
"""
"""A network with few local ports, until one too few was told."""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """``kvtui run`` with these words."""
    return subprocess.run(
        [sys.executable, "-m", "kvtui", "run", *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


def ranking(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """The rows of a ranking printed as JSON."""
    rows: list[dict[str, Any]] = json.loads(done.stdout)["ranking"]
    return rows


def where(fake: Pages) -> str:
    """The fake as a word of the command line."""
    return f"http://127.0.0.1:{fake.settings['port']}/page"


def test_a_page_is_asked_so_many_times_by_all_clients() -> None:
    done = run(
        *("http", "--store", "http", "--store", "http:keep_alive=false"),
        *("--store", "null", "-n", "1k", "--clients", "24", "--json"),
    )
    assert done.returncode == 0, done.stderr
    first, second, null = ranking(done)
    for row in (first, second):
        assert row["rank"] in (1, 2)
        assert (row["attempted"], row["ok"], row["failed"]) == (1000, 1000, 0)
        assert row["read_bytes"] == 1000 * 3985
        assert (row["records_checked"], row["records_wrong"]) == (1, 0)
        assert row["figures"] == {}
    assert {first["store"], second["store"]} == {"http", "http:keep_alive=false"}
    assert (null["rank"], null["miss"], null["keeps"]) == (None, 1000, False)
    (made,) = history.all_runs(config.runs_directory())
    document = snapshot.read(made.snapshot)
    assert document.plan.workload.name == "http"
    assert document.data == {}
    assert {trial.records_file for trial in document.trials[:2]} == {""}


def test_a_server_that_only_redirects_has_no_rank_and_is_told_in_words() -> None:
    """103: a published measurement counted a million error pages as answers."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    with Pages(pages.saying(moved), transport="tcp") as fake:
        done = run("http", "--store", where(fake), "-n", "50", "--json")
        assert done.returncode == 1, done.stderr
        (row,) = ranking(done)
        assert (row["rank"], row["attempted"], row["ok"]) == (None, 50, 0)
        assert row["operations"]["get"]["failed"] == {"status 302": 50}
        assert "/elsewhere" in row["faults"][0]["message"]
        assert set(fake.paths) == {b"/page"}


PAGE_403 = b"\r\n<html><h1>403 Forbidden</h1>\n" + b"x" * 4000
FORBIDDEN = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(PAGE_403) + PAGE_403
)


def test_a_run_of_error_pages_says_0_successful_before_anything_else() -> None:
    """103: the status of nearly all, and what its page says."""
    with Pages(pages.saying(FORBIDDEN), transport="tcp") as fake:
        done = run("http", "--store", where(fake), "-n", "60", "-c", "24")
    assert done.returncode == 1, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("0 successful requests of 60: http://127.0.0.1:")
    assert "60 times status 403" in first
    assert '"<html><h1>403 Forbidden</h1>"' in first


def test_it_is_red_on_a_terminal_that_has_colours(tmp_path: Path) -> None:
    with Pages(pages.saying(FORBIDDEN), transport="tcp") as fake:
        words = ["run", "http", "--store", where(fake), "-n", "60"]
        for colourless in (False, True):
            more = {"NO_COLOR": "1"} if colourless else {}
            terminal = Terminal(
                [sys.executable, "-m", "kvtui", *words],
                environment(tmp_path, **more),
            )
            try:
                terminal.shows("0 successful requests of 60")
                assert terminal.ended() == 1
                red = b"\x1b[1;31m0 successful" in terminal.written
                assert red is not colourless
            finally:
                terminal.close()


def test_what_is_an_answer_can_be_said() -> None:
    """--ok for every server of the run, ok= for one; nonsense is refused."""
    with Pages(pages.saying(FORBIDDEN), transport="tcp") as fake:
        done = run(
            "http", "--store", where(fake), "-n", "60", "--ok", "2xx,403", "--json"
        )
        assert done.returncode == 0, done.stderr
        (row,) = ranking(done)
        assert (row["ok"], row["failed"], row["read_bytes"]) == (
            *(60, 0),
            60 * len(PAGE_403),
        )
        port = fake.settings["port"]
        store = f"http:host=127.0.0.1,port={port},page=/page,ok=4xx"
        done = run("http", "--store", store, "-n", "60", "--json")
        assert done.returncode == 0, done.stderr
    for wrong in ("2x", "600", "199", "2xx,", "ok"):
        done = run("http", "--store", "http", "-n", "60", "--ok", wrong)
        assert done.returncode == 2
        assert "statuses such as 2xx,304" in done.stderr


def test_failures_and_changed_bodies_are_counted_and_cost_the_rank() -> None:
    turn = iter(range(10**6))

    def answer(conversation: Any, path: bytes, number: int) -> None:
        nth = next(turn)
        if nth >= 20 and nth % 10 == 0:
            conversation.send(GOOD.replace(b"200", b"503"))
        else:
            conversation.send(GOOD.replace(b"hello", b"hEllo") if nth == 25 else GOOD)

    with Pages(answer, transport="tcp") as fake:
        done = run(
            *("http", "--store", where(fake), "-n", "100", "--json"),
            *("--clients", "3", "--workers", "1"),
        )
        assert done.returncode == 1, done.stderr
        (row,) = ranking(done)
        assert row["rank"] is None
        assert row["figures"]["bodies changed"] == 1
        assert row["attempted"] == 100 == row["ok"] + row["failed"]
        assert set(row["operations"]["get"]["failed"]) == {"status 503"}
        assert "1 of 100 replies differ" in row["reason"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("http", "--store", "ram"), "no store for http"),
        (("fans", "--store", "http", "--first", "5"), "can only be read"),
        (("http", "--store", "http", "--set", "requests=5"), "-n"),
        (("http", "--store", "http", "-n", "0"), "1"),
        (("http", "--store", "http", "--set", "body=x"), "body"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    words: tuple[str, ...], said: str
) -> None:
    done = run(*words)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert not list(history.all_runs(config.runs_directory()))


def test_too_few_open_files_are_told_before_the_clock_runs() -> None:
    """040: needs and has; and the run can still write its journal and snapshot."""
    script = LIMITED.format(python=sys.executable)
    words = "--store http -n 1000 --clients 100 --workers 1"
    done = subprocess.run(
        ["sh", "-c", f"{script} {words}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert "open files are needed, 64 are allowed" in said
    assert "ulimit -n" in said
    (made,) = history.all_runs(config.runs_directory())
    document = snapshot.read(made.snapshot)
    assert document.outcome == "failed"
    assert document.trials[0].attempted is None


def test_too_few_local_ports_are_this_machines_failures() -> None:
    """041: told as such, apart from the answers' latency; and on it goes with more."""
    alone = [*ALONE, "sh", "-c", 'ip link set lo up && exec "$@"', "-"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of its own can be made here, not even in a namespace")
    done = subprocess.run(
        [*alone, sys.executable, "-c", SCARCE],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    (row,) = ranking(done)
    get = row["operations"]["get"]
    assert set(get["failed"]) == {"local ports"}
    assert (row["attempted"], get["ok"]) == (60, 60 - sum(get["failed"].values()))
    assert get["ok"] > 20
    assert (row["rank"], row["records_wrong"]) == (None, 0)
    (fault,) = row["faults"]
    assert "no local port left" in fault["message"]
    assert "The server has no part in it" in fault["message"]
    (made,) = history.all_runs(config.runs_directory())
    kept = snapshot.read(made.snapshot).trials[0].operations["get"]
    assert kept.latency.count == get["ok"]
    assert kept.failed_latency.count == sum(get["failed"].values())
