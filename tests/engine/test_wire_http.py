"""The loops over HTTP: connections that end, and connections for one request."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from kvtui.engine import calls, wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed
from kvtui.stores.http.store import HttpStore
from kvtui.stores.operations import Client, Get, Request, Response
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import Wire
from tests.conftest import Servers
from tests.engine.sums import Sums, asking, sums
from tests.stores import pages
from tests.stores.fakes import Conversation, Cut
from tests.stores.pages import GOOD, LAST, Pages

PAGE = Get(b"")
LOOPS = ("wire", "calls")


def driven(
    loop: str,
    settings: dict[str, Any],
    clients: Sequence[Client],
    timeout_s: float = 30,
) -> Sums:
    """All that was counted, proven to add up."""
    recorder = Recorder(len(clients), stages=loop == "wire")
    if loop == "wire":
        store = HttpStore(settings)
        made = [store.wire() for _ in clients]
        wire.run(clients, made, store.wire, recorder, Control(), timeout_s, store.begin)
    else:
        stores = [HttpStore({**settings, "timeout_s": timeout_s}) for _ in clients]
        for each in stores:
            each.open()
        calls.run(clients, stores, recorder, Control())
        for each in stores:
            each.close()
    return sums(recorder)


@pytest.fixture
def server(servers: Servers) -> PrivateServer:
    """The private page server on a loopback port."""
    return servers.get("http", "tcp")


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_real_servers_pages_add_up(
    server: PrivateServer, loop: str, kept: bool
) -> None:
    settings = server.connect_settings() | {"keep_alive": kept}
    found = driven(loop, settings, [asking([PAGE] * 40) for _ in range(10)])
    assert (found.attempted, found.ok, found.failed) == (400, 400, {})
    assert found.read_bytes == 400 * 3985
    assert found.reconnects == 0
    if loop == "wire":
        assert (found.answered, found.connects) == (400, 0 if kept else 400)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("last", [GOOD, LAST], ids=["in silence", "announced"])
@pytest.mark.parametrize("transport", ["unix", "tcp"])
def test_a_connection_closed_between_requests_is_replaced_in_silence(
    loop: str, last: bytes, transport: str
) -> None:
    """100: after five requests, announced or not; counted, and no failure."""
    with Pages(pages.closing_after(5, last), transport=transport) as fake:
        found = driven(loop, fake.settings, [asking([PAGE] * 23) for _ in range(3)])
        assert (found.attempted, found.ok, found.failed) == (69, 69, {})
        assert found.reconnects == 12
        assert fake.connections == 15
        assert fake.requests == 69


@pytest.mark.parametrize("loop", LOOPS)
def test_an_idle_connection_that_was_closed_is_replaced(loop: str) -> None:
    """100: the server closed while the client computed."""
    with Pages(pages.closing_after(1)) as fake:

        def thinking() -> Client:
            for number in range(4):
                # The client computes until the server has closed for certain.
                while fake.connections == number and number and fake._open:
                    os.sched_yield()
                yield PAGE
            return None

        found = driven(loop, fake.settings, [thinking()])
        assert (found.ok, found.failed, found.reconnects) == (4, {}, 3)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_request_that_was_cut_has_failed_and_is_not_asked_again(loop: str) -> None:
    """100, 101: after its first byte a reply is a failure when it ends early."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        if number == 3:
            conversation.send(GOOD[:-2])
            raise Cut
        conversation.send(GOOD)

    with Pages(answer) as fake:
        replies: list[Any] = []
        found = driven(loop, fake.settings, [asking([PAGE] * 8, replies)])
        assert (found.ok, found.failed) == (6, {"truncated": 2})
        assert fake.requests == 8
        assert [getattr(each, "kind", each) for each in replies][:4] == [
            b"hello",
            b"hello",
            "truncated",
            b"hello",
        ]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_server_that_never_replies_is_asked_once_for_each_request(
    loop: str, kept: bool
) -> None:
    """101: no secret second try on a connection that has served nothing."""

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        raise Cut

    with Pages(answer) as fake:
        settings = fake.settings | {"keep_alive": kept}
        found = driven(loop, settings, [asking([PAGE] * 4)])
        assert (found.ok, found.failed) == (0, {"no reply": 4})
        assert fake.requests == 4


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", [True, False])
def test_a_body_that_ends_with_its_connection_is_whole(loop: str, kept: bool) -> None:
    """101."""
    answer = pages.saying(b"HTTP/1.1 200 OK\r\n\r\nto the end", then_close=True)
    with Pages(answer) as fake:
        replies: list[Any] = []
        settings = fake.settings | {"keep_alive": kept}
        found = driven(loop, settings, [asking([PAGE] * 3, replies)])
        assert replies == [b"to the end"] * 3
        assert (found.ok, found.failed) == (3, {})


@pytest.mark.parametrize("loop", LOOPS)
def test_redirects_and_error_pages_are_counted_as_what_they_are(loop: str) -> None:
    """103: one request each, nothing is followed, nothing loops."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n"
    answers = {
        b"/a": moved % b"/b",
        b"/loop": moved % b"/loop",
        b"/relative": moved % b"../b",
        b"/away": moved % b"http://192.0.2.1/",
        b"/b": GOOD,
        b"/missing": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
        b"/busy": LAST.replace(b"200 OK", b"503 Busy"),
    }
    with Pages(pages.by_path(answers)) as fake:
        found = driven(loop, fake.settings, [asking([Get(each) for each in answers])])
        assert found.ok == 1
        assert found.failed == {"status 302": 4, "status 404": 1, "status 503": 1}
        assert fake.paths == list(answers)
        assert found.read_bytes == 5


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("closes", [True, False])
def test_a_redirect_that_is_followed_is_one_operation(
    loop: str, kept: bool, closes: bool
) -> None:
    """103: not counted twice; loops and other hosts are failures that have a name."""
    closing = b"Connection: close\r\n" if closes else b""
    moved = (
        b"HTTP/1.1 302 Found\r\nLocation: %b\r\n"
        + closing
        + b"Content-Length: 0\r\n\r\n"
    )
    answers = {
        b"/a": moved % b"/dir/b",
        b"/dir/b": moved % b"../c",
        b"/c": GOOD,
        b"/loop": moved % b"/loop",
        b"/away": moved % b"http://192.0.2.1/",
        b"/missing": b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone",
    }

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(answers[path])
        if (closes and b"302" in answers[path]) or not kept:
            raise Cut

    with Pages(answer, transport="tcp") as fake:
        asked = [
            Request(each, "GET", follow=True)
            for each in (b"/a", b"/loop", b"/c", b"/a", b"/away", b"/missing")
        ]
        replies: list[Any] = []
        settings = fake.settings | {"keep_alive": kept}
        found = driven(loop, settings, [asking(asked, replies)])
        assert (found.attempted, found.ok) == (6, 3)
        assert found.failed == {
            "redirect loop": 1,
            "redirect elsewhere": 1,
            "status 404": 1,
        }
        good = [each for each in replies if isinstance(each, Response)]
        assert [(each.status, each.body, each.hops) for each in good] == [
            (200, b"hello", 2),
            (200, b"hello", 0),
            (200, b"hello", 2),
        ]
        assert found.read_bytes == 15
        first = [b"/a", b"/dir/b", b"/c"]
        assert fake.paths == [*first, b"/loop", b"/c", *first, b"/away", b"/missing"]


def take_little(fake: Pages) -> None:
    """Let its sockets hold little, so that a large body cannot be sent whole before
    it is read. (A sender's own socket holds 4 MiB at most: tcp(7), tcp_wmem.)"""
    fake._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)


@pytest.mark.parametrize("loop", LOOPS)
def test_an_answer_before_the_whole_body_was_sent_ends_its_connection(
    loop: str,
) -> None:
    """What is left of a body must not stand before the next request."""
    body = b"x" * 16_000_000

    def refused(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        if not fake.reads_bodies:
            conversation.wait()

    with Pages(refused, transport="tcp") as fake:
        # A blocking caller sends all before it listens.
        fake.reads_bodies = loop == "calls"
        take_little(fake)
        asked = [Request(b"/x", "PUT", body=body)] * 3
        found = driven(loop, fake.settings, [asking(asked)], timeout_s=10)
        assert (found.ok, found.failed) == (0, {"status 413": 3})
        assert fake.requests == 3
        assert fake.lines == [b"PUT /x HTTP/1.1\r\n"] * 3
        assert fake.connections == (3 if loop == "wire" else 1)


def test_a_redirect_before_the_whole_body_was_sent_is_followed_elsewhere() -> None:
    """The rest of the body must not stand before the next request."""
    body = b"x" * 16_000_000

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        if path == b"/x":
            fake.reads_bodies = True
            conversation.send(
                b"HTTP/1.1 307 Y\r\nLocation: /y\r\nContent-Length: 0\r\n\r\n"
            )
            conversation.wait()
        conversation.send(GOOD)

    with Pages(answer, transport="tcp") as fake:
        fake.reads_bodies = False
        take_little(fake)
        asked = Request(b"/x", "PUT", body=body, follow=True)
        replies: list[Any] = []
        found = driven("wire", fake.settings, [asking([asked], replies)])
        assert (found.ok, found.failed, found.reconnects) == (1, {}, 1)
        assert replies == [Response(200, b"hello", 1)]
        assert fake.lines == [b"PUT /x HTTP/1.1\r\n", b"PUT /y HTTP/1.1\r\n"]
        assert fake.bodies == [b"", body]


@pytest.mark.parametrize("loop", LOOPS)
def test_requests_of_all_kinds_are_counted_with_their_bytes(loop: str) -> None:
    """204 and HEAD have no body, whatever they announce."""
    answers = {
        b"/made": b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
        b"/gone": b"HTTP/1.1 204 No Content\r\n\r\n",
        b"/head": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
    }
    with Pages(pages.by_path(answers)) as fake:
        asked = [
            Request(b"/made", "POST", (("X-A", "b"),), b"12345"),
            Request(b"/gone", "DELETE"),
            Request(b"/head", "HEAD"),
        ]
        found = driven(loop, fake.settings, [asking(asked * 4) for _ in range(3)])
        assert (found.ok, found.failed, found.reconnects) == (36, {}, 0)
        assert (found.read_bytes, found.written_bytes) == (24, 60)
        assert fake.bodies.count(b"12345") == 12


def test_each_request_has_its_own_connection_without_keep_alive() -> None:
    with Pages(pages.saying(LAST, then_close=True), transport="tcp") as fake:
        settings = fake.settings | {"keep_alive": False}
        found = driven("wire", settings, [asking([PAGE] * 20) for _ in range(3)])
        assert (found.ok, found.failed, found.reconnects) == (60, {}, 0)
        # And one for each client beforehand, to see whether the server is there.
        assert (fake.requests, fake.connections) == (60, 63)


def test_replies_byte_by_byte_over_connections_of_their_own() -> None:
    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        conversation.in_pieces(LAST)
        raise Cut

    with Pages(answer, transport="tcp") as fake:
        settings = fake.settings | {"keep_alive": False}
        found = driven("wire", settings, [asking([PAGE] * 3) for _ in range(3)])
        assert (found.ok, found.failed) == (9, {})


class Without(HttpStore):
    """A store whose connections fail in a way of their own while the clock runs."""

    def __init__(self, settings: dict[str, Any], codes: list[int]) -> None:
        super().__init__(settings)
        self.codes = codes

    def begin(self, old: Wire) -> Any:
        if self.codes:
            code = self.codes.pop(0)
            raise self._failed(OSError(code, os.strerror(code)))
        return super().begin(old)


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (errno.EADDRNOTAVAIL, "local ports", "no local port left"),
        (errno.ECONNREFUSED, "refused", "refused"),
        (errno.EMFILE, "disconnected", "open files"),
    ],
)
def test_a_connection_that_cannot_be_made_is_a_failed_operation_of_its_kind(
    code: int, kind: str, said: str
) -> None:
    """041: too few local ports are this machine's failure, not the server's."""
    with Pages(pages.saying(LAST, then_close=True), transport="tcp") as fake:
        store = Without(fake.settings | {"keep_alive": False}, [code] * 3)
        replies: list[Any] = []
        recorder = Recorder(1)
        wire.run(
            [asking([PAGE] * 5, replies)],
            [store.wire()],
            store.wire,
            recorder,
            Control(),
            30,
            store.begin,
        )
        found = sums(recorder)
        assert (found.ok, found.failed) == (2, {kind: 3})
        assert said in replies[0].message
        assert (replies[0].hint is not None) is (kind == "local ports")


def test_a_refusal_that_comes_while_others_wait_is_told_as_one() -> None:
    """The system tells of it only when the connection is looked at again."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        nobody = held.getsockname()
        with Pages(pages.saying(GOOD), transport="tcp") as fake:
            store = HttpStore(fake.settings | {"keep_alive": False})
            made = store.wire()
            place = store._place
            assert place is not None
            store._place = place._replace(address=nobody)

            def client() -> Client:
                with pytest.raises(OperationFailed) as caught:
                    yield PAGE
                assert caught.value.kind == "refused"
                assert "refused" in caught.value.message
                store._place = place
                assert (yield PAGE) == b"hello"
                return None

            recorder = Recorder(1)

            def connect() -> Any:
                store._place = place
                return store.wire()

            wire.run([client()], [made], connect, recorder, Control(), 30, store.begin)
            found = sums(recorder)
            assert (found.ok, found.failed) == (1, {"refused": 1})


def test_a_connection_that_is_never_accepted_times_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest of the loop goes on meanwhile; the kernel's queue is full."""
    monkeypatch.setattr(wire, "CONNECT_LIMIT_NS", 200_000_000)
    with socket.socket() as full, Pages(pages.saying(GOOD), transport="tcp") as fake:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(8)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(full.getsockname())
        store = HttpStore(fake.settings | {"keep_alive": False})
        made = [store.wire(), store.wire()]
        good = store._place
        assert good is not None
        turn = iter([good._replace(address=full.getsockname())])

        def begin(old: Wire) -> Any:
            store._place = next(turn, good)
            return store.begin(old)

        def connect() -> Any:
            store._place = good
            return store.wire()

        recorder = Recorder(2)
        clients = [asking([PAGE] * 2), asking([PAGE] * 50)]
        wire.run(clients, made, connect, recorder, Control(), 30, begin)
        found = sums(recorder)
        assert (found.ok, found.failed) == (51, {"timeout": 1})
        for each in waiting:
            each.close()


def test_the_stages_of_an_operation_are_not_those_of_one_that_failed_before() -> None:
    """The second request makes its own connection, gets half a reply and times out; of
    the third nothing began before it was asked."""
    asked = 0

    def answer(conversation: Conversation, path: bytes, number: int) -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            conversation.send(GOOD[:-2])
            conversation.wait()
        conversation.send(GOOD)
        if asked == 1:
            raise Cut

    with Pages(answer) as fake:
        found = driven("wire", fake.settings, [asking([PAGE] * 4)], timeout_s=0.5)
        assert (found.ok, found.failed) == (3, {"timeout": 1})
        # Two over connections that stood, and one more: reconnecting is nobody's time.
        assert (found.answered, found.connects) == (3, 0)
