"""Cases met in public that every networked store must stand, each way it is driven.

What is particular to one store stands with that store.
"""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from kvtui.errors import KvtuiError, OperationFailed, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.operations import Add, Counts, Get, key
from kvtui.stores.programs import find_program
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import base as server_module
from kvtui.stores.store import ADD
from tests.conftest import Servers, require_server
from tests.stores.proxy import Fault, Proxy, Then
from tests.stores.talking import WITH_SERVER, Calls, OnTheWire, Way

SERVED = list({way.profile.name: way.profile for way in WITH_SERVER}.values())
WRITABLE = [way for way in WITH_SERVER if not registry.kind(way.profile.kind).read_only]
"""Reading a page again over a new connection, once the old one was closed between
two requests, is HTTP's own way; tests/stores has what must hold for it."""
ENDS: dict[Then, str] = {"silence": "timeout", "close": "disconnected"}

NAME = b"zwqlx"
"""Nothing else in any protocol is written so."""


def server_of(way: Way, servers: Servers) -> PrivateServer:
    """A running server for that way."""
    transport = str(way.profile.settings.get("transport", "unix"))
    return servers.get(way.profile.kind, transport)


def talker(way: Way, settings: dict[str, Any]) -> Calls:
    """That store under those settings, not yet connected."""
    shape = OnTheWire if way.client == "wire" else Calls
    adapter = registry.adapter(way.profile.kind)
    return shape(adapter(settings | {"client": way.client}))


@pytest.mark.parametrize("way", WRITABLE, ids=str)
@pytest.mark.parametrize("then", ENDS)
def test_an_operation_whose_reply_is_lost_was_sent_once(
    way: Way, servers: Servers, then: Then
) -> None:
    """022: one failed operation, and no hidden second try, on no other connection."""
    with Proxy(server_of(way, servers).connect_settings()) as proxy:
        client = talker(way, proxy.settings | {"timeout_s": 0.5})
        client.open()
        try:
            client.ask(Get(key("test", b"first")))  # What is done once is done.
            proxy.handshake_replies = 0
            proxy.heard = []
            proxy.arm(Fault(then))
            with pytest.raises(OperationFailed) as caught:
                client.ask(Get(key("test", NAME)))
        finally:
            client.close()
        assert (caught.value.kind, caught.value.broken) == (ENDS[then], True)
        assert proxy.struck == 1
        asked = b"".join(proxy.heard)
        # As it is, or in hexadecimal digits.
        assert asked.count(NAME) + asked.count(NAME.hex().encode()) == 1


@pytest.mark.parametrize("way", WRITABLE, ids=str)
@pytest.mark.parametrize("then", ENDS)
def test_an_addition_whose_reply_is_lost_is_never_made_twice(
    way: Way, servers: Servers, then: Then
) -> None:
    """022: the counter is looked at afterwards."""
    if ADD not in registry.adapter(way.profile.kind).capabilities:
        pytest.skip(f"{way.profile.kind} has no add of its own")
    server = server_of(way, servers)
    where = key("test", b"counter")
    plain = talker(way, server.connect_settings())
    plain.open()
    try:
        with Proxy(server.connect_settings()) as proxy:
            client = talker(way, proxy.settings | {"timeout_s": 0.5})
            client.open()
            try:
                client.ask(Add(where, ((b"n", 100),)))
                proxy.handshake_replies = 0
                proxy.arm(Fault(then))
                with pytest.raises(OperationFailed) as caught:
                    client.ask(Add(where, ((b"n", 1),)))
            finally:
                client.close()
            assert caught.value.kind == ENDS[then]
        # Its reply has reached the proxy, so the server had made it: once, unless
        # it takes several round trips and ended before the last.
        assert plain.ask(Counts(where)) in ({b"n": 100}, {b"n": 101})
    finally:
        plain.store.open()
        plain.store.wipe("test")
        plain.store.close()
        plain.close()


def test_a_server_that_accepts_and_never_answers_is_said_soon(
    servers: Servers,
) -> None:
    """029: three seconds for a connection, however patient its replies may be; all
    at once, so that the test takes no longer than one of them."""

    def meet(way: Way) -> tuple[Way, float, KvtuiError | None, str]:
        with Proxy(found[str(way)].connect_settings()) as proxy:
            proxy.hold()
            settings = proxy.settings | {"timeout_s": 60}
            place = registry.place(settings)
            client = talker(way, settings)
            began = time.monotonic()
            try:
                client.open()
            except StoreUnavailable as error:
                return way, time.monotonic() - began, error, place
            finally:
                client.close()
            return way, time.monotonic() - began, None, place

    found: dict[str, PrivateServer] = {}
    for way in WITH_SERVER:
        of_kind = registry.kind(way.profile.kind)
        # HTTP has no greeting: a page is asked for by the first operation only.
        if find_program(of_kind.servers) and not of_kind.read_only:
            found[str(way)] = server_of(way, servers)
    if not found:
        pytest.skip("no server program is installed")
    here = [way for way in WITH_SERVER if str(way) in found]
    with ThreadPoolExecutor(len(here)) as pool:
        for way, took_s, error, place in pool.map(meet, here):
            assert error is not None, way
            assert place in error.message, way
            assert error.hint, way
            assert took_s < 15, way


@pytest.mark.parametrize("profile", SERVED, ids=lambda profile: profile.name)
def test_a_server_that_is_up_but_not_ready_is_waited_for(
    profile: registry.StoreProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """046: it accepts connections and answers nothing yet; ready only after a real
    write and read."""
    require_server(profile.kind)
    monkeypatch.setattr(server_module, "_PROBE_TIMEOUT_S", 0.2)
    server = private_server(profile.kind, tmp_path, profile.settings)
    looks: list[str] = []
    look = server._try

    def freezing() -> None:
        assert server.process_id is not None
        if len(looks) == 3:
            os.kill(server.process_id, signal.SIGCONT)
        try:
            look()
        except KvtuiError as error:
            if looks:
                looks.append(error.message)
            raise
        if not looks:
            os.kill(server.process_id, signal.SIGSTOP)
            looks.append("it was up")
            raise StoreUnavailable("from now on it is frozen")

    monkeypatch.setattr(server, "_try", freezing)
    try:
        server.start()
        assert len(looks) >= 3
        assert server.death() is None
    finally:
        server.stop()


@pytest.mark.parametrize("profile", SERVED, ids=lambda profile: profile.name)
def test_a_server_that_never_gets_ready_is_given_up_and_ended(
    profile: registry.StoreProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """046: with a limit, and its last lines."""
    require_server(profile.kind)
    monkeypatch.setattr(server_module, "_PROBE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(server_module, "READY_LIMIT_S", 0.5)
    server = private_server(profile.kind, tmp_path, profile.settings)
    server._choose_address()
    with Proxy(server.connect_settings()) as proxy:
        proxy.hold()
        monkeypatch.setattr(server, "_choose_address", lambda: None)
        monkeypatch.setattr(server, "connect_settings", lambda: proxy.settings)
        with pytest.raises(StoreUnavailable) as caught:
            server.start()
    assert "was not ready within" in caught.value.message
    assert server.process_id is not None
    assert not psutil.pid_exists(server.process_id)
