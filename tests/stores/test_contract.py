"""What every store must do, whichever way it is driven.

One suite over every store of the registry's table and each of its clients, so
that a later store is held to it by being in the table.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.operations import (
    KEY_LIMIT_BYTES,
    Add,
    Counts,
    Delete,
    Get,
    Operation,
    Put,
    Scan,
    key,
    prefix,
)
from kvtui.stores.servers import base as server_module
from kvtui.stores.servers import private_server
from kvtui.stores.store import ADD, SCAN
from tests.conftest import Servers, require_server
from tests.stores.talking import (
    KEEPING,
    WAYS,
    WITH_SERVER,
    WRITABLE,
    Calls,
    OnTheWire,
    Subject,
    Way,
    offering,
    opened,
)

NAMES = [
    b"a",
    b"a\0b",
    b"a\0",
    b"\0",
    b"a b",
    b"a\tb",
    b"a\nb",
    b"a\r\nb",
    b"a\x01",
    b"\x01",
    b"\x7f",
    b"\x1b[2J",
    b"ab",
    b"ab ",
    b" ab",
    b"",
    b" ",
    b"#",
    b"#a",
    b"100%",
    b"50%s",
    b"a%(b)s",
    b"it's",
    b"back\\slash",
    b"x; drop",
    b'q"uote',
    b"*",
    b"[a-z]",
    b"?",
    "Éclair".encode(),
    b"Eclair",
    b"eclair",
    b"ECLAIR",
    "caf\u00e9".encode(),
    "cafe\u0301".encode(),
    "日本語ページ".encode(),
    b"\xff\xfe not UTF-8",
    b"https://ex.test/" + b"p" * 300 + b"1",
    b"https://ex.test/" + b"p" * 300 + b"2",
    b"https://ex.test/" + b"p" * 2084 + b"1",
    b"https://ex.test/" + b"p" * 2084 + b"2",
    b"y" * 2900,
    b"z" * (KEY_LIMIT_BYTES - len(prefix("test")) - 1) + b"1",
    b"z" * (KEY_LIMIT_BYTES - len(prefix("test")) - 1) + b"2",
    b"z" * (KEY_LIMIT_BYTES - len(prefix("test"))) + b"1",
    b"z" * (KEY_LIMIT_BYTES - len(prefix("test"))) + b"2",
]


def fixture(ways: list[Way]) -> Any:
    """A fixture of each of these stores, each way; empty before and after."""

    @pytest.fixture(params=ways, ids=str)
    def made(
        request: pytest.FixtureRequest, servers: Servers, tmp_path: Path
    ) -> Iterator[Subject]:
        with opened(request.param, servers, tmp_path) as subject:
            yield subject

    return made


subject = fixture(WAYS)
writable = fixture(WRITABLE)
keeping = fixture(KEEPING)
adding = fixture(offering(ADD))
scanning = fixture(offering(SCAN))
dropping = fixture([way for way in WRITABLE if way not in KEEPING])
closable = fixture([way for way in KEEPING if way.profile.kind != "ram"])


VALUES = {
    "empty": b"",
    "one byte": b"\0",
    "digit": b"5",
    "non-ASCII": "é 日本語".encode(),
    "JSON": b'{"page":"x","fans":1,"pages":{}}',
    "line ends": b"a\r\n$3\r\nEND\r\n\0",
    "binary 4096": random.Random(1).randbytes(4096),
    "1 MB": random.Random(2).randbytes(1_000_000),
    "10 MB": random.Random(3).randbytes(10_000_000),
}


@pytest.mark.parametrize("name", VALUES)
def test_comes_back_as_it_went_in(keeping: Subject, name: str) -> None:
    """019: bytes in, the same bytes out."""
    client, where = keeping.talk(), key("test", name.encode())
    assert client.ask(Put(where, VALUES[name])) is None
    got = client.ask(Get(where))
    assert type(got) is bytes
    assert got == VALUES[name]


def test_a_missing_key_is_a_miss(writable: Subject) -> None:
    client = writable.talk()
    assert client.ask(Get(key("test", b"missing"))) is None
    assert client.ask(Delete(key("test", b"missing"))) is False


def test_an_empty_value_is_not_a_miss(keeping: Subject) -> None:
    client = keeping.talk()
    client.ask(Put(key("test", b"empty"), b""))
    assert client.ask(Get(key("test", b"empty"))) == b""
    assert client.ask(Delete(key("test", b"empty"))) is True


def test_a_put_replaces_and_may_repeat(keeping: Subject) -> None:
    """028: writing what is already there is a success."""
    client, where = keeping.talk(), key("test", b"again")
    for value in (b"long" * 100, b"short", b"short"):
        assert client.ask(Put(where, value)) is None
        assert client.ask(Get(where)) == value


def test_deleting_tells_whether_it_was_there(keeping: Subject) -> None:
    client, where = keeping.talk(), key("test", b"gone")
    client.ask(Put(where, b"x"))
    assert client.ask(Delete(where)) is True
    assert client.ask(Delete(where)) is False
    assert client.ask(Get(where)) is None


def test_every_name_has_a_key_of_its_own(keeping: Subject) -> None:
    """001, 002, 004, 005, 007, 008, 010, 026: no two names meet."""
    client = keeping.talk()
    for number, name in enumerate(NAMES):
        client.ask(Put(key("test", name), b"%d" % number))
    found = [client.ask(Get(key("test", name))) for name in NAMES]
    assert found == [b"%d" % number for number in range(len(NAMES))]
    assert keeping.admin.count("test") == len(NAMES)


def test_null_keeps_nothing(dropping: Subject) -> None:
    client, where = dropping.talk(), key("test", b"x")
    client.ask(Put(where, b"x"))
    assert client.ask(Get(where)) is None
    client.ask(Add(where, ((b"x", 1),)))
    assert client.ask(Counts(where)) is None
    assert client.ask(Scan(where, 10)) == []
    assert dropping.admin.count("test") == 0
    assert dropping.admin.wipe("test") == 0
    assert dropping.admin.info().keeps is False


def test_counters_are_exact(adding: Subject) -> None:
    client, where = adding.talk(), key("test", b"counters")
    assert client.ask(Counts(where)) is None
    names = [*NAMES, b"x" * 70_000]
    assert client.ask(Add(where, tuple((name, 1) for name in names))) is None
    client.ask(Add(where, ((b"a", 2), (b"", 40), (b"a", 3))))
    client.ask(Add(where, ((b"large", 2**62), (b"less", -5))))
    wanted = dict.fromkeys(names, 1)
    wanted |= {b"a": 6, b"": 41, b"large": 2**62, b"less": -5}
    assert client.ask(Counts(where)) == wanted


def test_counters_of_near_keys_stay_apart(adding: Subject) -> None:
    """A counter's name must not run into its record's key."""
    client = adding.talk()
    pairs = [(b"ab", b"c"), (b"a", b"bc"), (b"abc", b""), (b"a", b"b"), (b"A", b"bc")]
    for number, (name, counter) in enumerate(pairs, 1):
        client.ask(Add(key("test", name), ((counter, number),)))
    assert client.ask(Counts(key("test", b"a"))) == {b"bc": 2, b"b": 4}
    assert client.ask(Counts(key("test", b"ab"))) == {b"c": 1}
    assert client.ask(Counts(key("test", b"abc"))) == {b"": 3}
    assert adding.admin.count("test") == 4
    assert client.ask(Delete(key("test", b"a"))) is True
    assert client.ask(Delete(key("test", b"a"))) is False
    assert client.ask(Counts(key("test", b"a"))) is None
    assert client.ask(Counts(key("test", b"ab"))) == {b"c": 1}


def test_concurrent_adds_lose_nothing(adding: Subject) -> None:
    where = key("test", b"hot")
    clients = [adding.talk() for _ in range(8)]

    def work(client: Calls) -> None:
        for _ in range(100):
            client.ask(Add(where, ((b"", 1), (b"a", 2), (b"b", 3))))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, clients))
    assert clients[0].ask(Counts(where)) == {b"": 800, b"a": 1600, b"b": 2400}


def test_scan_goes_in_key_order(scanning: Subject) -> None:
    client = scanning.talk()
    keys = [key("test", b"%05d" % number) for number in range(200)]
    for each in random.Random(4).sample(keys, len(keys)):
        client.ask(Put(each, each[::-1]))
    # Counters are not values.
    if ADD in scanning.capabilities:
        client.ask(Add(key("test", b"00100x"), ((b"x", 1),)))
    found = client.ask(Scan(keys[50], 100))
    assert found == [(each, each[::-1]) for each in keys[50:150]]
    assert client.ask(Scan(keys[50] + b"\0", 1)) == [(keys[51], keys[51][::-1])]
    assert client.ask(Scan(keys[199], 10)) == [(keys[199], keys[199][::-1])]
    assert client.ask(Scan(keys[199] + b"\0", 10)) == []
    assert client.ask(Scan(keys[0], 0)) == []


def test_what_a_store_does_not_offer_is_a_failed_operation(subject: Subject) -> None:
    client, where = subject.talk(), key("test", b"x")
    missing: dict[str, list[Operation]] = {
        ADD: [Add(where, ((b"x", 1),)), Counts(where)],
        SCAN: [Scan(where, 1)],
    }
    if subject.way not in WRITABLE:
        missing["writing"] = [Put(where, b"x"), Delete(where)]
    for capability, operations in missing.items():
        if capability in subject.capabilities:
            continue
        for operation in operations:
            with pytest.raises(OperationFailed) as caught:
                client.ask(operation)
            assert caught.value.kind == "unsupported"
            assert not caught.value.broken
    if subject.way in WRITABLE:
        assert client.ask(Get(where)) is None


def test_twenty_clients_never_see_each_others_values(keeping: Subject) -> None:
    """031: every connection gets its own answers."""
    clients = [keeping.talk() for _ in range(20)]

    def work(number: int) -> list[str]:
        wrong: list[str] = []
        client, mine = clients[number], b"client %d " % number
        for turn in range(150):
            where = key("test", mine + b"%d" % (turn % 5))
            value = mine + b"%d" % turn * (turn + 1)
            client.ask(Put(where, value))
            if (got := client.ask(Get(where))) != value:
                wrong.append(f"{where!r}: {got!r:.80}")
        return wrong

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(work, range(20)))
    assert found == [[]] * 20


def test_one_client_sees_what_another_wrote(keeping: Subject) -> None:
    """025: no old snapshot, nothing held back."""
    first, second = keeping.talk(), keeping.talk()
    where = key("test", b"seen")
    for turn in range(3):
        first.ask(Put(where, b"%d" % turn))
        assert second.ask(Get(where)) == b"%d" % turn
    if first.store is not keeping.admin:
        first.close()
    assert keeping.talk().ask(Get(where)) == b"2"


def test_wipe_leaves_what_is_not_ours(keeping: Subject) -> None:
    """056: only the namespace asked for, however strangers' keys look."""
    client = keeping.talk()
    strangers = [
        b"kvtui:testing:x",
        b"kvtui:tes",
        b"kvtui:test",
        b"xkvtui:test:y",
        b"KVTUI:TEST:z",
        b"kvtui:test2:x",
        b"test:x",
        b"kvtui:*:x",
        key("fans", b"other job"),
    ]
    try:
        for each in strangers:
            client.ask(Put(each, b"stranger"))
        for number in range(2500):
            client.ask(Put(key("test", b"%d" % number), b"ours"))
        ours = 2500
        if ADD in keeping.capabilities:
            client.ask(Add(key("test", b"counters"), ((b"a", 1), (b"b", 1))))
            client.ask(Add(b"kvtui:testing:counters", ((b"a", 1),)))
            ours += 1
        assert keeping.admin.count("test") == ours
        assert keeping.admin.wipe("test") == ours
        assert keeping.admin.count("test") == 0
        assert keeping.admin.wipe("test") == 0
        assert [client.ask(Get(each)) for each in strangers] == [
            b"stranger" for _ in strangers
        ]
        if ADD in keeping.capabilities:
            assert client.ask(Counts(b"kvtui:testing:counters")) == {b"a": 1}
            assert client.ask(Counts(key("test", b"counters"))) is None
    finally:
        for each in [*strangers, b"kvtui:testing:counters"]:
            client.ask(Delete(each))


def test_info_is_true(subject: Subject) -> None:
    info = subject.admin.info()
    assert info.durability
    assert info.keeps is subject.keeps
    if subject.server is None:
        assert info.client == "calls"
        assert info.process_id is None
        return
    assert info.process_id == subject.server.process_id
    assert info.client.split(",")[0] == subject.way.client
    settings = subject.server.connect_settings()
    if "path" in settings:
        assert info.address == settings["path"]
    else:
        assert info.address == f"127.0.0.1:{settings['port']}"


def test_closing_twice_is_harmless(subject: Subject) -> None:
    made = subject.adapter(subject.settings | {"directory": "/nonexistent"})
    made.close()
    made.close()


def test_using_a_closed_store_is_a_failed_operation(closable: Subject) -> None:
    client = closable.talk()
    client.close()
    with pytest.raises(OperationFailed) as caught:
        client.ask(Get(b"x"))
    assert caught.value.kind == "disconnected"
    assert caught.value.broken
    client.open()
    client.ask(Put(key("test", b"x"), b"x"))
    assert client.ask(Get(key("test", b"x"))) == b"x"


@pytest.mark.parametrize(
    "way", [way for way in WITH_SERVER if way in WRITABLE], ids=str
)
def test_a_restarted_server_is_a_failure_and_then_a_fresh_connection(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_server(way.profile.kind)
    port = server_module.free_port()
    monkeypatch.setattr(server_module, "free_port", lambda: port)

    def start() -> server_module.PrivateServer:
        made = private_server(way.profile.kind, tmp_path, way.profile.settings)
        made.start()
        return made

    server = start()
    try:
        settings = server.connect_settings() | {"client": way.client}
        client = (OnTheWire if way.client == "wire" else Calls)(
            registry.adapter(way.profile.kind)(settings)
        )
        client.open()
        client.ask(Put(b"kvtui:test:x", b"before"))
        admin = registry.adapter(way.profile.kind)(settings)
        admin.open()
        kept: set[bytes | None] = {b"before"}
        if admin.info().durability.startswith("memory"):
            kept |= {None}  # some keep it when they are asked to stop
        admin.close()
        server.stop()
        with pytest.raises(OperationFailed) as caught:
            client.ask(Get(b"kvtui:test:x"))
        assert caught.value.broken
        assert caught.value.kind in ("disconnected", "refused")
        client.close()
        with pytest.raises(StoreUnavailable) as refused:
            client.open()
        assert refused.value.hint
        server = start()
        client.open()
        assert client.ask(Get(b"kvtui:test:x")) in kept
        client.ask(Put(b"kvtui:test:x", b"after"))
        assert client.ask(Get(b"kvtui:test:x")) == b"after"
        client.close()
    finally:
        server.stop()


@pytest.mark.parametrize("way", WITH_SERVER, ids=str)
def test_nobody_there_is_said_soon_and_plainly(way: Way, tmp_path: Path) -> None:
    """029: host, port and cause, within seconds."""
    settings: dict[str, Any] = {"path": str(tmp_path / "nobody")}
    place = str(tmp_path / "nobody")
    if way.profile.settings.get("transport") == "tcp":
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            settings = {"host": "127.0.0.1", "port": held.getsockname()[1]}
        place = f"127.0.0.1:{settings['port']}"
    client = (OnTheWire if way.client == "wire" else Calls)(
        registry.adapter(way.profile.kind)(settings)
    )
    with pytest.raises(StoreUnavailable) as caught:
        client.open()
    assert place in caught.value.message
    client.close()


def test_the_key_mapping_is_injective_and_legal() -> None:
    """Whatever the name: printable ASCII without blanks, 250 bytes at most."""
    keys = {key("fans", name) for name in NAMES}
    assert len(keys) == len(NAMES)
    for each in keys:
        assert each.startswith(b"kvtui:fans:")
        assert len(each) <= KEY_LIMIT_BYTES
        assert each.isascii()
        assert each.decode().isprintable()
        assert b" " not in each
    assert key("fans", b"http://ex.test/x") == b"kvtui:fans:http://ex.test/x"
    # A name that looks like another name's digest does not take its key.
    digest = key("fans", b"a b").removeprefix(b"kvtui:fans:")
    assert key("fans", digest) != key("fans", b"a b")
