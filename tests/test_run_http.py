"""``kvtui run http``, from the command line to the snapshot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtui import config
from kvtui.runs import history, snapshot
from tests.conftest import Servers
from tests.stores import certificates, pages
from tests.stores.certificates import SecurePages
from tests.stores.fakes import Conversation
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


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """``kvtui run`` with these words, and with these variables beside the others."""
    return subprocess.run(
        [sys.executable, "-m", "kvtui", "run", *words],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
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
        (("http", "--store", "http", "--set", "body=x"), "--body"),
        (("http", "--store", "http", "-X", "GE T"), "no method"),
        (("http", "--store", "http", "-X", "CONNECT"), "tunnel"),
        (("http", "--store", "http", "-H", "Accept"), "Name: value"),
        (("http", "--store", "http", "-H", "A: b\r\nC: d"), "line's end"),
        (("http", "--store", "http", "-H", "A: b\nC: d"), "line's end"),
        (("http", "--store", "http", "-H", "A b: c"), "Name: value"),
        (("http", "--store", "http", "-H", "content-length: 5"), "counts the body"),
        (("http", "--store", "http", "-H", "Connection: close"), "keep_alive"),
        (("http", "--store", "http", "-H", "Host: a/b"), "no host"),
        (("http", "--store", "http", "-H", "X: env:KVTUI_HAS_NONE"), "KVTUI_HAS_NONE"),
        (("http", "--store", "http", "-H", "X: file:/not/there"), "/not/there"),
        (("http", "--store", "http", "-T", "a/b"), "no body"),
        (("http", "--store", "http", "--url", "http://x/y"), "--store"),
        (("http", "--store", "http", "--url", "page"), "is no page"),
        (("http", "--store", "http", "--url", "/a 0"), "is no page"),
        (("http", "--store", "http", "--url", "/a#b"), "no request can"),
        (("http", "--store", "http", "--url", "/a", "--url", "/a 2"), "twice"),
        (("http", "--store", "http", "--timeout", "soon"), "250ms"),
        (("http", "--store", "http", "--timeout", "0"), "--timeout must be"),
        (("http", "--store", "http", "--no-verify"), "by TLS"),
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


TOKEN = "xyzzy-4711-plugh"
COOKIE = "sid-0815-frotz"


def test_a_request_has_method_headers_and_body_and_its_secrets_stay_inside(
    tmp_path: Path,
) -> None:
    """They reach the server, and no plan, journal, log, snapshot or error text, not
    even where the server says them."""
    body, cookie = tmp_path / "order.json", tmp_path / "cookie"
    body.write_bytes(b'{"amount": 3}\r\n')
    cookie.write_text(f"{COOKIE}\n")
    page = f"you said {TOKEN} and {COOKIE}".encode()
    refusal = b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%b" % (len(page), page)
    with Pages(pages.saying(refusal), transport="tcp") as fake:
        done = run(
            *("http", "--store", where(fake), "-n", "20", "-c", "2"),
            *("--body", str(body), "-T", "application/json", "--url", "/order?x=1"),
            *("-H", "Authorization: Bearer env:ORDER_TOKEN"),
            *("-H", f"Cookie: sid=file:{cookie}", "-H", "Host: shop.test"),
            ORDER_TOKEN=TOKEN,
        )
        assert done.returncode == 1, done.stderr
        assert "401" in done.stdout
        measured = [
            (line, fields, sent)
            for line, fields, sent in zip(
                fake.lines, fake.fields, fake.bodies, strict=True
            )
            if line.startswith(b"POST /order?x=1 ")
        ]
    assert len(measured) == 20
    for _, fields, sent in measured:
        assert sent == body.read_bytes()
        assert fields.count(b"Host: shop.test\r\n") == 1
        assert len([each for each in fields if each.startswith(b"Host:")]) == 1
        assert b"Authorization: Bearer %b\r\n" % TOKEN.encode() in fields
        assert b"Cookie: sid=%b\r\n" % COOKIE.encode() in fields
        assert b"Content-Type: application/json\r\n" in fields
        assert b"Content-Length: 15\r\n" in fields
    (made,) = history.all_runs(config.runs_directory())
    told = done.stdout + done.stderr
    for path in made.path.rglob("*"):
        if path.is_file():
            told += path.read_text("utf-8", "replace")
    assert "you said" in told
    assert TOKEN not in told
    assert COOKIE not in told
    document = snapshot.read(made.snapshot)
    asked = document.plan.workload.parameters
    assert asked["headers"][0] == "Authorization: Bearer env:ORDER_TOKEN"
    assert document.data == {"source": str(body), "body bytes": 15}
    assert "15 body bytes" in told


@pytest.mark.parametrize(
    "header",
    [
        f"Authorization: Bearer {TOKEN}",
        f"cookie: sid={TOKEN}",
        f"X-Api-Key:{TOKEN}",
        f"X-Auth-Token: {TOKEN} env:HOME",
    ],
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(header: str) -> None:
    done = run("http", "--store", "http", "-n", "5", "-H", header)
    assert done.returncode == 2
    assert "seen by all" in done.stderr
    assert "env:NAME" in done.stderr
    assert TOKEN not in done.stdout + done.stderr
    assert not list(history.all_runs(config.runs_directory()))


def test_several_pages_are_asked_for_by_weight_in_the_order_of_the_seed(
    tmp_path: Path,
) -> None:
    """Each is compared with its own first body; its replies are a figure."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(path), path)
        )

    listed = tmp_path / "urls.txt"
    listed.write_text("# the shop\n/a 3\n\n/bb?x=1\n")
    orders: list[list[bytes]] = []
    for seed in ("7", "7", "8"):
        with Pages(answer, transport="tcp") as fake:
            done = run(
                *("http", "--store", where(fake), "-n", "400", "-c", "1"),
                *("--urls", str(listed), "--url", "/c/", "--seed", seed, "--json"),
            )
            assert done.returncode == 0, done.stderr
            (row,) = ranking(done)
            order = [each for each in fake.paths if each != b"/page"]
            assert order[400:] == [b"/c/", b"/a", b"/bb?x=1"]
            orders.append(order[:400])
            counts = [order[:400].count(each) for each in (b"/a", b"/bb?x=1", b"/c/")]
            assert row["figures"] == {
                "replies of /a": counts[0],
                "replies of /bb?x=1": counts[1],
                "replies of /c/": counts[2],
            }
            # 240 of 400 are expected of the first; 5 standard deviations are 49.
            assert abs(counts[0] - 240) < 49
            assert (row["records_checked"], row["records_wrong"]) == (3, 0)
            assert row["rank"] == 1
    assert orders[0] == orders[1] != orders[2]


def test_a_list_of_pages_with_a_mistake_is_told_with_its_line(tmp_path: Path) -> None:
    listed = tmp_path / "urls.txt"
    listed.write_text("/a 3\nhttp://other/b\n")
    done = run("http", "--store", "http", "-n", "5", "--urls", str(listed))
    assert done.returncode == 4
    assert f"{listed}, line 2" in done.stderr


def test_redirects_are_followed_when_asked_for_and_counted() -> None:
    """103: one operation each; and told to be one until then."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"
    answers = {b"/page": moved, b"/b": GOOD}
    with Pages(pages.by_path(answers), transport="tcp") as fake:
        done = run("http", "--store", where(fake), "-n", "30", "--follow", "--json")
        assert done.returncode == 0, done.stderr
        (row,) = ranking(done)
        assert (row["attempted"], row["ok"], row["rank"]) == (30, 30, 1)
        assert row["figures"] == {"redirects followed": 30}
        assert row["read_bytes"] == 150
        done = run("http", "--store", where(fake), "-n", "30")
        assert done.returncode == 1
        assert "--follow" in done.stdout + done.stderr or "302" in done.stdout


def test_what_changes_something_is_not_asked_again_to_verify_it() -> None:
    answer = pages.saying(b"HTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\n1")
    with Pages(answer, transport="tcp") as fake:
        done = run(
            *("http", "--store", where(fake), "--store", "null", "-n", "30"),
            *("-X", "post", "-c", "3", "--json"),
        )
        assert done.returncode == 0, done.stderr
        row, null = ranking(done)
        assert sum(line.startswith(b"POST") for line in fake.lines) == 30
    assert set(row["operations"]) == {"post"}
    assert (row["rank"], row["records_expected"]) == (1, 0)
    assert null["miss"] == 30
    (made,) = history.all_runs(config.runs_directory())
    assert snapshot.read(made.snapshot).trials[0].verified is None


def test_a_real_servers_missing_page_may_be_what_is_measured() -> None:
    """Whatever counts as an answer, the private server is one that serves."""
    words = ("http", "--store", "http", "-n", "100", "--url", "/none")
    done = run(*words, "--ok", "404", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = ranking(done)
    assert (row["ok"], row["rank"]) == (100, 1)
    done = run(*words, "--json")
    assert done.returncode == 1
    (row,) = ranking(done)
    assert row["operations"]["get"]["failed"] == {"status 404": 100}


def test_heads_of_a_real_servers_page_have_no_body() -> None:
    done = run("http", "--store", "http", "-n", "200", "-X", "HEAD", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = ranking(done)
    assert (row["ok"], row["read_bytes"], row["rank"]) == (200, 0, 1)
    assert set(row["operations"]) == {"head"}


def test_a_reply_that_takes_too_long_is_a_timeout() -> None:
    waits: list[int] = []

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        waits.append(number)
        if len(waits) == 10:
            conversation.wait()
        conversation.send(GOOD)

    with Pages(answer, transport="tcp") as fake:
        done = run(
            *("http", "--store", where(fake), "-n", "30", "-c", "1"),
            *("--timeout", "300ms", "--json"),
        )
        assert done.returncode == 1, done.stderr
        (row,) = ranking(done)
        assert row["operations"]["get"]["failed"] == {"timeout": 1}
        assert (row["attempted"], row["ok"]) == (30, 29)
        assert "0.3 s" in row["faults"][0]["message"]


def test_each_request_has_a_connection_of_its_own_when_that_is_said() -> None:
    with Pages(pages.closing_after(1, pages.LAST), transport="tcp") as fake:
        done = run(
            *("http", "--store", where(fake), "-n", "30", "-c", "2"),
            *("--no-keep-alive", "--json"),
        )
        assert done.returncode == 0, done.stderr
        (row,) = ranking(done)
        assert (row["ok"], row["rank"]) == (30, 1)
        assert fake.connections > 30


@pytest.mark.parametrize("kept", ["--keep-alive", "--no-keep-alive"])
def test_a_page_by_tls_with_its_authority_or_unchecked(
    tmp_path: Path, kept: str
) -> None:
    certificate = certificates.made(tmp_path)
    last = GOOD if kept == "--keep-alive" else pages.LAST
    with SecurePages(pages.saying(last), certificate) as fake:
        store = f"https://127.0.0.1:{fake.settings['port']}/page"
        words = ("http", "--store", store, "-n", "40", "-c", "4", kept, "--json")
        done = run(*words)
        assert done.returncode == 3
        assert "certificate is not trusted" in done.stderr
        assert "ca=FILE" in done.stderr
        done = run(*words, "--ca", str(certificate))
        assert done.returncode == 0, done.stderr
        (row,) = ranking(done)
        assert (row["ok"], row["rank"]) == (40, 1)
        assert "not checked" not in done.stderr
        done = run(*words, "--no-verify")
        assert done.returncode == 0, done.stderr
        assert "certificate is not checked" in done.stderr
    newest, *_ = sorted(
        history.all_runs(config.runs_directory()), key=lambda each: each.name
    )[::-1]
    (trial,) = snapshot.read(newest.snapshot).trials
    assert trial.details["certificate"] == "not checked (verify=false)"
    assert trial.details["tls"].startswith("TLSv1.")


def fields(text: str) -> dict[str, str]:
    """The fields of a report in ab's terms, the later of two with one name."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if value}


@pytest.mark.parametrize("kept", [True, False])
def test_a_report_in_the_terms_of_apachebench(
    kept: bool, tmp_path: Path, servers: Servers
) -> None:
    """Beside ab's own, where its package is here: the counts are the same."""
    file = tmp_path / "times.csv"
    there = servers.get("http", "tcp").connect_settings()
    url = f"http://{there['host']}:{there['port']}{there['page']}"
    done = run(
        *("http", "--store", url, "-n", "300", "-c", "3", "--workers", "2"),
        *("--report", "ab", "-e", str(file)),
        *([] if kept else ["--no-keep-alive"]),
    )
    assert done.returncode == 0, done.stderr
    theirs = {}
    if ab := shutil.which("ab"):
        words = [ab, "-q", "-n300", "-c3", *(["-k"] if kept else []), url]
        told = subprocess.run(words, capture_output=True, text=True, check=True)
        theirs = fields(told.stdout)
    ours = fields(done.stdout)
    assert ours["Complete requests"] == "300"
    assert ours["of them successful"].split()[0] == "300"
    assert ours["Failed requests"] == "0"
    assert ours["HTML transferred"] == f"{300 * 3985} bytes"
    assert int(ours["Total transferred"].split()[0]) > 300 * 3985
    assert ("Keep-Alive requests" in ours) == kept
    for name in (
        *("Document Path", "Document Length", "Server Hostname", "Server Port"),
        *("Concurrency Level", "Complete requests", "Failed requests"),
        "HTML transferred",
    ):
        assert ours[name] == theirs.get(name, ours[name]), name
    connect = ours["Connect"].split()
    assert float(connect[-1]) == 0.0 if kept else float(connect[-1]) > 0.0
    total = [float(each) for each in ours["Total"].split()]
    lines = file.read_text("utf-8").splitlines()
    assert lines[0] == "Percentage served,Time in ms"
    times = [float(line.split(",")[1]) for line in lines[1:]]
    assert len(times) == 101
    assert times == sorted(times)
    assert (times[0], times[100]) == (total[0], total[-1])
    assert file.stat().st_mode & 0o777 == 0o600
    (made,) = history.all_runs(config.runs_directory())
    again = subprocess.run(
        [sys.executable, "-m", "kvtui", "runs", "show", made.name, "--ab"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert fields(again.stdout)["Total"] == ours["Total"]
    printed = subprocess.run(
        [sys.executable, "-m", "kvtui", "runs", "show", made.name, "--percentages"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == file.read_text("utf-8")


def test_apachebenchs_terms_do_not_hide_that_every_reply_was_an_error() -> None:
    """ab calls such requests complete and not failed; so does its report here, and it
    says in the next line that none was successful."""
    with Pages(pages.saying(FORBIDDEN), transport="tcp") as fake:
        done = run("http", "--store", where(fake), "-n", "20", "--report", "ab")
    assert done.returncode == 1, done.stderr
    ours = fields(done.stdout)
    assert ours["Complete requests"] == ours["Non-2xx responses"] == "20"
    assert ours["of them successful"].split()[0] == "0"
    assert ours["successful a second"].split()[0] == "0.00"
    assert ours["Failed requests"] == "0"
    assert ours["HTML transferred"] == f"{20 * len(PAGE_403)} bytes"
    assert float(ours["Total"].split()[-1]) > 0
    assert "0 successful requests of 20" in done.stdout + done.stderr
