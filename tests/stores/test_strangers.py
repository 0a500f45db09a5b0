"""An address at which something else listens: the error says that this may be so."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from kvtui.errors import KvtuiError, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.servers import PrivateServer
from kvtui.stores.store import WireStore

NO_TLS = "redis:// in place of rediss://"
HTTP_SAYS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@contextlib.contextmanager
def stranger(answer: bytes | None) -> Iterator[dict[str, Any]]:
    """Somebody who answers whatever comes with the same; with ``b""`` by closing the
    connection, with None never."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    taken, _ = listener.accept()
                except OSError:
                    return
                with taken, contextlib.suppress(OSError):
                    taken.settimeout(10)
                    if taken.recv(1000):
                        taken.sendall(answer or b"")

        thread = Thread(target=serve, daemon=True)
        if answer is not None:
            thread.start()
        yield {"host": "127.0.0.1", "port": listener.getsockname()[1]}
        listener.shutdown(socket.SHUT_RDWR)
        if answer is not None:
            thread.join()


def by_the_wire(kind: str, settings: dict[str, Any]) -> None:
    store = registry.adapter(kind)(settings)
    assert isinstance(store, WireStore)
    made, _ = store.wire()
    made.close()


def by_itself(kind: str, settings: dict[str, Any]) -> None:
    store = registry.adapter(kind)(settings)
    try:
        store.open()
        store.info()
    finally:
        store.close()


WAYS = pytest.mark.parametrize("way", [by_the_wire, by_itself])
Way = Callable[[str, dict[str, Any]], None]


def refused(way: Way, kind: str, settings: dict[str, Any]) -> str:
    with pytest.raises(KvtuiError) as caught:
        way(kind, {**settings, "timeout_s": 0.3})
    assert caught.value.hint is not None
    return caught.value.hint


@WAYS
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("redis", "or is no Redis"),
        ("memcached", "or it is no memcached"),
        ("tokyo", "or it is no Tokyo Tyrant"),
        ("mongo", "or is no MongoDB"),
        ("mysql", "or is no MySQL"),
    ],
)
def test_one_that_says_nothing_may_be_another(way: Way, kind: str, said: str) -> None:
    with stranger(None) as settings:
        hint = refused(way, kind, settings)
    assert said in hint
    assert "frozen" in hint
    assert NO_TLS not in hint


@WAYS
@pytest.mark.parametrize("answer", [None, HTTP_SAYS, b"-ERR what?\r\n"])
def test_one_that_may_not_speak_tls(way: Way, answer: bytes | None) -> None:
    with stranger(answer) as settings:
        hint = refused(way, "redis", {**settings, "tls": True})
    assert NO_TLS in hint
    assert ("frozen" in hint) == (answer is None)


def test_another_that_may_not_speak_tls() -> None:
    with stranger(HTTP_SAYS) as settings:
        assert "speak TLS?" in refused(by_itself, "mongo", {**settings, "tls": True})


@WAYS
@pytest.mark.parametrize("answer", [HTTP_SAYS, b"ERROR\r\n"])
@pytest.mark.parametrize(
    ("kind", "said"), [("redis", "is it a Redis"), ("memcached", "is it a memcached")]
)
def test_one_that_speaks_another_language(
    way: Way, kind: str, said: str, answer: bytes
) -> None:
    with stranger(answer) as settings:
        assert said in refused(way, kind, settings)


@pytest.mark.parametrize("client", ["wire", "calls"])
@pytest.mark.parametrize("answer", [b"", b"ERROR\r\n", b"HTTP/1.1"])
def test_one_that_may_speak_no_http(client: str, answer: bytes) -> None:
    """Redis and memcached say nothing to a request, and close."""
    with stranger(answer) as settings:
        hint = refused(by_itself, "http", {**settings, "client": client})
    assert hint == "is it an HTTP server, at this address?"


@WAYS
def test_a_database_that_the_server_does_not_have(
    way: Way, redis_unix: PrivateServer
) -> None:
    settings = {**redis_unix.connect_settings(), "database": 99}
    with pytest.raises(StoreUnavailable, match="has no database 99") as caught:
        way("redis", settings)
    assert "databases in the server's configuration" in str(caught.value.hint)
