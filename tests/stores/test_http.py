"""HTTP as a store that is only read, and the servers that kvtui starts for it."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvtui import urls
from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.http import store as adapter
from kvtui.stores.http.store import HttpStore
from kvtui.stores.operations import Get, Request, Response
from kvtui.stores.programs import find_program
from kvtui.stores.registry import StoreProfile
from kvtui.stores.servers import http as page_server
from kvtui.stores.servers import private_server
from kvtui.stores.servers.base import SOCKET_LINK
from tests.alone import MOUNTS, require_mounts
from tests.conftest import Servers
from tests.stores import pages
from tests.stores.pages import GOOD, Pages
from tests.waiting import until

SERVERS = ("nginx", "apache2", "own")


def has_ipv6() -> bool:
    """Whether this machine can listen on ::1."""
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="there is no IPv6 here")


def opened(settings: dict[str, Any]) -> HttpStore:
    """The store, connected."""
    store = HttpStore(settings)
    store.open()
    return store


@needs_ipv6
@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_ipv6_address_has_brackets_where_they_belong(host: str) -> None:
    """104: plain for connecting; in brackets in the Host field and where shown."""
    with Pages(pages.saying(GOOD), transport="tcp", host="::1") as fake:
        port = fake.settings["port"]
        store = opened({"host": host, "port": port})
        assert store.info().address == f"[::1]:{port}"
        store.close()
        assert fake.hosts == [b"[::1]:%d" % port]


def test_the_zone_of_an_address_is_nobody_elses_business() -> None:
    """104: fe80::1%lo is for connecting; a server is told no zone."""
    store = HttpStore({"host": "fe80::1%lo", "port": 80})
    assert store._host_field() == b"[fe80::1]"
    with pytest.raises(StoreUnavailable) as caught:
        store.open()
    assert "[fe80::1%lo]:80" in caught.value.message


@pytest.mark.parametrize("host", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_localhost_is_found_where_it_listens(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """104: with only IPv4 or only IPv6 listening; the one really used is shown."""

    def both(name: str, port: int, **_: Any) -> list[Any]:
        assert name == "localhost"
        return [
            (socket.AF_INET6, 1, 6, "", ("::1", port, 0, 0)),
            (socket.AF_INET, 1, 6, "", ("127.0.0.1", port)),
        ]

    with Pages(pages.saying(GOOD), transport="tcp", host=host) as fake:
        monkeypatch.setattr(socket, "getaddrinfo", both)
        port = fake.settings["port"]
        store = opened({"host": "localhost", "port": port})
        shown = f"[{host}]" if ":" in host else host
        assert store.info().address == f"{shown}:{port}"
        first, spoken = store.wire()
        made, _ = store.begin(spoken)  # which asks nobody for the address again
        assert made.getpeername()[0] == host
        first.close()
        made.close()
        store.close()
        assert fake.hosts == [b"localhost:%d" % port]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"host": "example.test"}, b"example.test"),
        ({"host": "example.test", "port": 80}, b"example.test"),
        ({"host": "example.test", "port": 8080}, b"example.test:8080"),
        ({"host": "bücher.test"}, b"xn--bcher-kva.test"),
        ({"path": "/run/page.sock"}, b"localhost"),
    ],
)
def test_the_host_field(settings: dict[str, Any], field: bytes) -> None:
    assert HttpStore(settings)._host_field() == field


def test_a_page_named_by_url_is_asked_of_the_right_place() -> None:
    """104: http://[::1]:8080/ has a port, and a host without brackets."""
    address = urls.parse("http://[::1]:8080/a/b.html?c=d")
    assert address.kind == "http"
    store = HttpStore(address.settings)
    assert (store._host, store._port) == ("::1", 8080)
    request = store._protocol().encode(Get(b""))
    assert request.startswith(b"GET /a/b.html?c=d HTTP/1.1\r\nHost: [::1]:8080\r\n")


def test_a_server_without_a_name_and_one_that_closes_are_told() -> None:
    with Pages(pages.closing_after(1, pages.LAST)) as fake:
        store = opened(fake.settings)
        info = store.info()
        assert info.version == "HTTP server"
        assert info.details["server keeps alive"] == "no"
        assert store.get(b"") == b"hello"
        assert store.reconnects == 1
        store.close()


def test_a_failure_names_the_server() -> None:
    with Pages(pages.saying(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")) as fake:
        store = opened(fake.settings)
        with pytest.raises(OperationFailed) as caught:
            store.get(b"/x")
        assert str(fake.settings["path"]) in caught.value.message
        store.close()


def server(
    which: str, directory: Path, transport: str, monkeypatch: pytest.MonkeyPatch
) -> page_server.PageServer:
    """A private page server of that program."""
    settings: dict[str, Any] = {"transport": transport}
    if which == "own":
        monkeypatch.setattr(page_server, "find_program", lambda names: None)
    elif find_program([which]) is None:
        pytest.skip(f"{which} is not installed")
    else:
        settings["program"] = which
    made = private_server("http", directory, settings)
    assert isinstance(made, page_server.PageServer)
    return made


@pytest.mark.parametrize(
    ("which", "transport"),
    [
        (which, transport)
        for which in SERVERS
        for transport in ("tcp", "unix")
        if (which, transport) != ("apache2", "unix")  # It cannot.
    ],
)
def test_every_page_server_serves_the_page_as_one_process(
    which: str, transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = server(which, tmp_path, transport, monkeypatch)
    try:
        settings = made.start()
        assert len(page_server.page()) == page_server.PAGE_BYTES == 3985
        for kept in (True, False):
            store = opened(settings | {"keep_alive": kept})
            assert store.info().process_id == made.process_id
            assert [store.get(b"") for _ in range(3)] == [page_server.page()] * 3
            assert store.reconnects == 0
            head = store.request(Request(b"", "HEAD"))
            assert head == Response(200, b"")
            for asked in (
                Request(b"/not-there", "HEAD"),
                Request(b"/not-there", "GET"),
            ):
                with pytest.raises(OperationFailed) as caught:
                    store.request(asked)
                assert caught.value.kind == "status 404"
            with pytest.raises(OperationFailed) as caught:
                store.get(b"/not-there")
            assert caught.value.kind == "status 404"
            # A page is no place to put something; and none of it is left to read.
            with pytest.raises(OperationFailed, match=r"40[0-9]|501"):
                store.request(Request(b"/page.html", "PUT", body=b"x" * 10_000))
            assert store.get(b"") == page_server.page()
            store.close()
        home = made._home
        assert home.stat().st_mode & 0o077 == 0
        for path in home.rglob("*"):
            # A pid file is written for all to read, in a folder for nobody else.
            if not path.is_socket() and path.name != "server.pid":
                assert path.stat().st_mode & 0o077 == 0, path
        assert not [*home.rglob(f"{page_server._READY}*")]
    finally:
        made.stop()
    assert home == tmp_path or not home.exists()


@pytest.mark.parametrize("which", SERVERS)
def test_root_that_can_become_nobody_else_serves_as_itself(
    which: str, tmp_path: Path
) -> None:
    """As in a user namespace that maps root alone, whose root is whoever made it."""
    if which != "own" and find_program([which]) is None:
        pytest.skip(f"{which} is not installed")
    require_mounts()
    code = (
        "import sys; from pathlib import Path\n"
        "from kvtui.stores.servers import private_server\n"
        "settings = {'transport': 'tcp', 'program': sys.argv[2]}\n"
        "server = private_server('http', Path(sys.argv[1]), settings)\n"
        "print(server.start()['page']); server.stop()"
    )
    program = sys.executable if which == "own" else which
    done = subprocess.run(
        [*MOUNTS, sys.executable, "-c", code, str(tmp_path), program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"/{page_server.PAGE}\n", "")


def test_root_that_may_give_nothing_away_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container without the capability CHOWN."""

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(page_server, "_unprivileged", lambda: pwd.getpwnam("nobody"))
    monkeypatch.setattr(os, "chown", refuse)
    made = private_server("http", tmp_path, {"transport": "tcp"})
    with pytest.raises(StoreUnavailable) as caught:
        made.start()
    made.stop()
    assert "to nobody" in caught.value.message
    assert "Operation not permitted" in caught.value.message
    assert "ordinary user" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("which", SERVERS)
def test_a_page_server_dies_with_whoever_started_it(which: str, tmp_path: Path) -> None:
    """052: also when that one is killed, and the server had let go of root."""
    if which != "own" and find_program([which]) is None:
        pytest.skip(f"{which} is not installed")
    code = (
        "import sys, time; from pathlib import Path\n"
        "from kvtui.stores.servers import http, private_server\n"
        "settings = {'transport': 'tcp', 'program': sys.argv[2]}\n"
        "if sys.argv[2] == 'own':\n"
        "    http.find_program = lambda names: None; del settings['program']\n"
        "server = private_server('http', Path(sys.argv[1]), settings)\n"
        "server.start(); print(server.process_id, flush=True); time.sleep(600)"
    )
    words = [sys.executable, "-c", code, str(tmp_path), which]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        process_id = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    until(lambda: not Path(f"/proc/{process_id}").exists(), "the server is gone", 20)
    # What a killed run leaves elsewhere is found by this link, and cleared.
    home = tmp_path / SOCKET_LINK
    if home.is_symlink():
        shutil.rmtree(home.resolve())


def test_a_strangers_server_on_the_port_is_not_taken_for_ours(
    servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """055: even one with the same page, if its process cannot be seen."""
    stranger = servers.get("http", "tcp")
    monkeypatch.setattr(adapter, "only_listener", lambda connection: None)
    store = opened(stranger.connect_settings())
    made = page_server.PageServer(tmp_path, {})
    (tmp_path / "pages").mkdir()
    with pytest.raises((OperationFailed, StoreUnavailable)):
        made.probe(store)
    store.close()


def test_a_machine_without_any_server_has_kvtuis_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "find_program", lambda names: None)
    (profile,) = (each for each in registry.BUILT_IN if each.kind == "http")
    found = registry.availability(profile)
    assert (found.ready, found.text) == (
        True,
        "private server, kvtui's own page server",
    )
    named = StoreProfile("x", "http", {"program": "nginx"}, True)
    assert not registry.availability(named).ready


def test_a_private_server_has_its_own_page_only(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        private_server("http", tmp_path, {"page": "/x.html"}).start()
    assert caught.value.hint is not None
    assert "page=" in caught.value.hint
    with pytest.raises(StoreUnavailable, match="does not speak TLS"):
        private_server("http", tmp_path, {"tls": True}).start()
