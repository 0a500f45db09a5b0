"""HTTP by TLS: whom it trusts, and that nobody waits for another one's handshake."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.http.store import HttpStore
from kvtui.stores.operations import Client, Get, Request
from kvtui.stores.programs import find_program
from kvtui.stores.servers import http as page_server
from tests.conftest import Servers
from tests.engine.sums import asking, sums
from tests.engine.test_wire_http import LOOPS, PAGE, driven
from tests.stores import certificates, pages
from tests.stores.certificates import SecurePages
from tests.stores.fakes import Conversation, Cut, Fake, closing
from tests.stores.pages import GOOD, LAST


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for 127.0.0.1 and nobody else."""
    return certificates.made(tmp_path_factory.mktemp("certificate"))


class Encrypted(page_server.PageServer):
    """nginx, by TLS alone."""

    certificate: Path

    def prepare(self, program: str) -> None:
        """The certificate lies where the server's user may read it."""
        super().prepare(program)
        for path in (self.certificate, self.certificate.with_suffix(".key")):
            self._write(self._home / path.name, path.read_bytes())

    def _nginx(self) -> str:
        name = self._home / self.certificate.name
        plain = f"listen 127.0.0.1:{self.port} backlog=4096;"
        assert plain in super()._nginx()
        return (
            super()
            ._nginx()
            .replace(
                plain,
                f"listen 127.0.0.1:{self.port} ssl backlog=4096;"
                f" ssl_protocols TLSv1.3; ssl_certificate {name};"
                f" ssl_certificate_key {name.with_suffix('.key')};",
            )
        )

    def connect_settings(self) -> dict[str, Any]:
        """Trusting what it shows."""
        by_tls = {"tls": True, "ca": str(self.certificate)}
        return super().connect_settings() | by_tls


@pytest.fixture(scope="module")
def settings(
    certificate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """A private nginx that speaks TLS."""
    if find_program(["nginx"]) is None:
        pytest.skip("nginx is not installed: apt install nginx")
    server = Encrypted(tmp_path_factory.mktemp("nginx"), {"program": "nginx"})
    server.certificate = certificate
    server.start()
    yield server.connect_settings()
    server.stop()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_real_servers_pages_add_up_by_tls(
    settings: dict[str, Any], loop: str, kept: bool
) -> None:
    """Also where each request makes its own connection, with a handshake each."""
    asked = settings | {"keep_alive": kept}
    replies: list[Any] = []
    clients = [asking([PAGE] * 20, replies) for _ in range(6)]
    found = driven(loop, asked, clients)
    assert (found.attempted, found.ok, found.failed) == (120, 120, {})
    assert set(replies) == {page_server.page()}
    assert found.reconnects == 0


def test_what_was_agreed_upon_is_told(settings: dict[str, Any]) -> None:
    for verify, said in ((True, "checked"), (False, "not checked (verify=false)")):
        store = HttpStore(settings | {"verify": verify})
        store.open()
        info = store.info()
        assert info.details["tls"] == "TLSv1.3"
        assert info.details["cipher"].startswith("TLS_")
        assert info.details["certificate"] == said
        assert "keep-alive, TLSv1.3" in info.client
        store.close()


def unavailable(settings: dict[str, Any]) -> StoreUnavailable:
    """Why it cannot be opened."""
    with pytest.raises(StoreUnavailable) as caught:
        HttpStore(settings).open()
    assert caught.value.hint
    return caught.value


def test_a_stranger_is_not_trusted_unless_that_is_said(
    settings: dict[str, Any],
) -> None:
    without = {name: each for name, each in settings.items() if name != "ca"}
    error = unavailable(without)
    assert "certificate is not trusted: self-signed" in error.message
    assert "ca=FILE" in str(error.hint)
    store = HttpStore(without | {"verify": False})
    store.open()
    assert store.get(b"") == page_server.page()
    store.close()


def test_a_name_that_is_not_on_the_certificate_is_refused(
    settings: dict[str, Any],
) -> None:
    error = unavailable(settings | {"host": "localhost"})
    assert "localhost" in error.message
    assert "mismatch" in error.message
    assert "host=" in str(error.hint)


def test_a_file_that_holds_no_certificate_is_named(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    empty = tmp_path / "empty.crt"
    empty.write_text("nothing")
    for path, said in (
        (empty, "holds no certificate"),
        (tmp_path / "none.crt", "cannot be read: No such file"),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            HttpStore(settings | {"ca": str(path)}).open()
        assert f"{path} {said}" in caught.value.message


def test_a_server_without_tls_is_told_from_one_with(
    servers: Servers, certificate: Path
) -> None:
    by_tls = {"tls": True, "ca": str(certificate)}
    error = unavailable(servers.get("http", "tcp").connect_settings() | by_tls)
    assert "no TLS could be agreed upon" in error.message
    assert "does it speak TLS" in str(error.hint)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        there = {"host": "127.0.0.1", "port": port, **by_tls, "timeout_s": 0.1}
        error = unavailable(there)
        assert "no connection in time" in error.message
        assert "does it speak TLS" in str(error.hint)


def test_a_server_that_hangs_up_on_tls_may_speak_none(certificate: Path) -> None:
    """In order, or by a reset, as one does that has not read all."""

    class HangsUp(Fake):
        resets = False

        def _talk(self, conversation: Conversation) -> None:
            conversation.socket.recv(1 if self.resets else 65_536)
            with contextlib.suppress(Cut):
                if self.resets:
                    conversation.reset()
            conversation.close()

    for resets in (False, True):
        with HangsUp(closing, transport="tcp") as fake:
            fake.resets = resets
            by_tls = {"tls": True, "ca": str(certificate)}
            error = unavailable(fake.settings | by_tls)
            assert "does it speak TLS" in str(error.hint)


def test_what_says_something_about_tls_needs_tls() -> None:
    for words in ({"verify": False}, {"ca": "/x.crt"}):
        assert "without TLS" in unavailable({"host": "127.0.0.1", **words}).message


def test_the_servers_name_is_said_before_the_certificate_is_shown(
    tmp_path: Path,
) -> None:
    named = certificates.made(tmp_path, "DNS:localhost")
    with SecurePages(pages.saying(GOOD), named) as fake:
        by_name = fake.settings | {"host": "localhost", "tls": True, "ca": str(named)}
        found = driven("wire", by_name, [asking([PAGE] * 3)])
        assert (found.ok, found.failed) == (3, {})
        assert fake.names == ["localhost"]
        assert set(fake.hosts) == {b"localhost:%d" % fake.settings["port"]}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_body_that_ends_with_its_connection_needs_tls_to_say_so(
    certificate: Path, loop: str, says_goodbye: bool
) -> None:
    """101: anybody in between can end a connection; RFC 9112, 9.8."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        if says_goodbye:
            certificates.goodbye(conversation)
        raise Cut

    with SecurePages(answer, certificate) as fake:
        settings = fake.settings | {"tls": True, "ca": str(certificate)}
        found = driven(loop, settings, [asking([PAGE] * 2)])
        right = (2, {}) if says_goodbye else (0, {"truncated": 2})
        assert (found.ok, found.failed) == right


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_closed_between_requests_is_replaced_in_silence(
    certificate: Path, loop: str
) -> None:
    """100."""
    with SecurePages(pages.closing_after(5), certificate) as fake:
        settings = fake.settings | {"tls": True, "ca": str(certificate)}
        found = driven(loop, settings, [asking([PAGE] * 12)])
        assert (found.ok, found.failed, found.reconnects) == (12, {}, 2)


@pytest.mark.parametrize("loop", LOOPS)
def test_large_bodies_go_and_come_whole(certificate: Path, loop: str) -> None:
    """More than sockets and TLS records hold, in both directions."""
    body = bytes(range(256)) * 8_000

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(conversation.body)
            + conversation.body
        )

    with SecurePages(answer, certificate) as fake:
        for kept in (True, False):
            settings = fake.settings | {"tls": True, "ca": str(certificate)}
            settings["keep_alive"] = kept
            replies: list[Any] = []
            asked = Request(b"/x", "POST", body=body)
            found = driven(loop, settings, [asking([asked] * 3, replies)])
            assert (found.ok, found.failed) == (3, {})
            assert found.read_bytes == found.written_bytes == 3 * len(body)
            assert all(each.body == body for each in replies)


def test_a_certificate_that_is_no_good_while_the_clock_runs_is_a_failed_operation(
    certificate: Path, tmp_path: Path
) -> None:
    other = certificates.made(tmp_path)
    with SecurePages(pages.saying(LAST, then_close=True), certificate) as fake:
        settings = fake.settings | {"tls": True, "keep_alive": False}
        store = HttpStore(settings | {"ca": str(certificate)})
        made = store.wire()
        doubting = HttpStore(settings | {"ca": str(other)})
        with pytest.raises(StoreUnavailable):
            doubting.open()
        trusting, store._context = store._context, doubting._context

        def connect() -> Any:
            store._context = trusting
            return store.wire()

        recorder = Recorder(1)
        replies: list[Any] = []
        wire.run(
            [asking([PAGE] * 3, replies)],
            [made],
            connect,
            recorder,
            Control(),
            30,
            store.begin,
        )
        found = sums(recorder)
        assert (found.ok, found.failed) == (2, {"certificate": 1})
        assert "not trusted" in replies[0].message


def test_a_handshake_that_never_ends_keeps_nobody_waiting_and_no_processor_busy(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "CONNECT_LIMIT_NS", 300_000_000)
    tried: list[int] = []
    send_rest = wire._Loop._send_rest

    def counted(loop: Any, connection: Any) -> None:
        tried.append(connection.index)
        send_rest(loop, connection)

    monkeypatch.setattr(wire._Loop, "_send_rest", counted)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        SecurePages(pages.saying(LAST, then_close=True), certificate) as fake,
    ):
        settings = fake.settings | {"tls": True, "ca": str(certificate)}
        store = HttpStore(settings | {"keep_alive": False})
        made = [store.wire(), store.wire()]
        good = store._place
        assert good is not None
        turn = iter([good._replace(address=silent.getsockname())])
        order: list[str] = []

        def begin(*old: Any) -> Any:
            store._place = next(turn, good)
            return store.begin(*old)

        def connect() -> Any:
            store._place = good
            return store.wire()

        def client(name: str, times: int) -> Client:
            for _ in range(times):
                try:
                    yield Get(b"")
                except OperationFailed as error:
                    order.append(f"{name} {error.kind}")
            order.append(f"{name} ended")
            return None

        recorder = Recorder(2)
        clients = [client("first", 2), client("second", 10)]
        wire.run(clients, made, connect, recorder, Control(), 30, begin)
        found = sums(recorder)
        assert (found.ok, found.failed) == (11, {"timeout": 1})
        assert order[:2] == ["second ended", "first timeout"]
        # Begin, connected, and a turn of the handshake or two each; no spinning.
        assert len(tried) < 12 * 8
        assert tried.count(0) < 2 * 8
