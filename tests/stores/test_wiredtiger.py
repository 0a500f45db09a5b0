"""What only WiredTiger can do to its users."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.leveldb import LevelDbStore
from kvtui.stores.programs import WIREDTIGER_INSTALL
from kvtui.stores.settings import SETTINGS
from kvtui.stores.wiredtiger import connection as wiredtiger_connection
from kvtui.stores.wiredtiger.connection import COMPRESSORS, COUNTERS, VALUES
from kvtui.stores.wiredtiger.store import WiredTigerStore, _records
from tests.alone import on_a_small_disk
from tests.conftest import require_module
from tests.waiting import until


@pytest.fixture(autouse=True)
def needs_wiredtiger() -> None:
    """Skip all where the module is missing."""
    require_module("wiredtiger")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[WiredTigerStore]:
    """An open WiredTiger."""
    made = WiredTigerStore({"directory": str(tmp_path / "db")})
    made.open()
    yield made
    made.close()


def folder(store: WiredTigerStore) -> Path:
    """Where it lives."""
    return Path(store.settings["directory"])


def refused(settings: dict[str, Any]) -> StoreUnavailable:
    """What an open that must fail says; nothing is left open by it."""
    store = WiredTigerStore(settings)
    with pytest.raises(StoreUnavailable) as caught:
        store.open()
    with pytest.raises(OperationFailed):
        store.get(b"k")
    store.close()
    return caught.value


def child(code: str, *words: object, status: int = 0) -> str:
    """What a Python of its own prints; it must say nothing else."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, "")
    return done.stdout.strip()


START = (
    "import os, signal, sys\n"
    "from kvtui.errors import KvtuiError\n"
    "from kvtui.stores.wiredtiger.store import WiredTigerStore\n"
    "settings = {'directory': sys.argv[1]}\n"
)
OPEN_ELSEWHERE = START + (
    "store = WiredTigerStore(settings)\n"
    "try: store.open()\n"
    "except KvtuiError as error: print('refused:', error.message)\n"
    "else: print('opened', store.get(b'k'))\n"
)


def test_what_was_put_is_there_after_reopening(store: WiredTigerStore) -> None:
    store.put(b"k", b"v")
    store.add(b"c", ((b"a", 2),))
    store.close()
    assert "opened b'v'" in child(OPEN_ELSEWHERE, folder(store))
    store.open()
    assert store.counts(b"c") == {b"a": 2}


@pytest.mark.parametrize("by", ["the same path", "another path", "a link"])
def test_a_second_handle_is_refused_and_the_first_keeps_its_lock(
    store: WiredTigerStore, tmp_path: Path, by: str
) -> None:
    """058, 059: refused by kvtui's own table; by another process in plain words."""
    path = folder(store)
    if by == "another path":
        path = tmp_path / "." / "db" / ".." / "db"
    elif by == "a link":
        path = tmp_path / "link"
        path.symlink_to(folder(store))
    assert "already open" in refused({"directory": str(path)}).message
    # One table for all embedded stores: LevelDB's files would mix with these.
    with pytest.raises(StoreUnavailable):
        LevelDbStore({"directory": str(path)}).open()
    said = child(OPEN_ELSEWHERE, path)
    assert said.startswith("refused")
    assert said.endswith("another process has it open")
    store.put(b"k", b"still ours")
    store.close()
    assert "still ours" in child(OPEN_ELSEWHERE, path)


def test_a_handle_is_of_no_use_after_a_fork(tmp_path: Path) -> None:
    """032: refused, and the parent's connection is not closed by the child."""
    code = START + (
        "store = WiredTigerStore(settings); store.open(); store.put(b'k', b'parent')\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try: store.put(b'k', b'child')\n"
        "    except KvtuiError as error:\n"
        "        store.close(); os._exit(7 if error.broken else 8)\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(child, 0)\n"
        "store.put(b'm', b'parent'); print(os.waitstatus_to_exitcode(status))\n"
        "store.close(); store.open(); print(store.get(b'k'), store.get(b'm'))\n"
        "store.close()\n"
    )
    assert child(code, tmp_path / "db").split() == ["7", "b'parent'", "b'parent'"]


def test_a_missing_directory_is_made(tmp_path: Path) -> None:
    """059: WiredTiger itself speaks of corruption and salvage."""
    store = WiredTigerStore({"directory": str(tmp_path / "deep" / "er")})
    store.open()
    store.close()
    assert (tmp_path / "deep" / "er").stat().st_mode & 0o077 == 0


def test_what_cannot_be_opened_is_said_and_nothing_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """059."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "WiredTiger.turtle").write_text("not its own words")
    fine = {"directory": str(tmp_path / "x")}
    for settings, word in (
        ({"directory": str(tmp_path / "file")}, "file"),
        ({"directory": str(tmp_path / "file" / "below")}, "below"),
        ({"directory": str(tmp_path / "odd")}, "odd"),
        (fine | {"compression": "zip"}, "compression"),
        (fine | {"sync": True, "log": "none"}, "sync"),
        (fine | {"layout": "lsm", "page_kb": 4096, "cache_mb": 50}, "too small"),
    ):
        assert word in refused(settings).message
    store = WiredTigerStore(fine)
    store.open()  # what failed has let go of it
    store.close()
    assert capsys.readouterr() == ("", "")


def test_a_failed_operation_prints_nothing_and_others_may_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """059: what the library says stands in the error instead."""
    store = WiredTigerStore({"directory": str(tmp_path / "db")})
    store.open()
    session = store._at.mine().session

    def wrong(hands: object) -> None:
        session.create("table:kvtui_odd", "block_compressor=bogus")

    with pytest.raises(OperationFailed) as caught:
        store._at.transaction(wrong)
    assert "unknown compressor 'bogus'" in caught.value.message
    assert "db" in caught.value.message
    assert not caught.value.broken
    sys.stderr.write("a word\n")
    store.close()
    sys.stderr.write("another\n")
    assert capsys.readouterr() == ("", "a word\nanother\n")


def test_without_the_module_the_command_that_brings_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wiredtiger", None)
    assert refused({"directory": str(tmp_path)}).hint == WIREDTIGER_INSTALL


@pytest.mark.parametrize("layout", ["btree", "lsm"])
@pytest.mark.parametrize("compression", COMPRESSORS)
def test_every_compressor_keeps_every_byte(
    tmp_path: Path, compression: str, layout: str
) -> None:
    """Written out by a checkpoint and read back by a second open."""
    settings = {"directory": str(tmp_path), "compression": compression}
    store = WiredTigerStore(settings | {"layout": layout})
    values = {b"%d" % n: b"%d" % n * 1000 + os.urandom(1000) for n in range(50)}
    for _ in range(2):
        store.open()
        info = store.info()
        assert (info.compression, info.details["layout"]) == (compression, layout)
        for key, value in values.items():
            assert store.get(key) in (None, value)
            store.put(key, value)
        store.close()
    store.open()
    assert {key: store.get(key) for key in values} == values
    store.close()


def test_the_settings_know_every_compressor() -> None:
    assert set(SETTINGS["compression"].choices) == set(COMPRESSORS)


def test_a_compressor_that_the_build_lacks_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiredtiger_connection, "COMPRESSORS", ("bogus", "none"))
    said = refused({"directory": str(tmp_path), "compression": "bogus"})
    assert "this build has no bogus" in said.message
    assert said.hint is not None
    assert WIREDTIGER_INSTALL in said.hint
    # Not asked for by anybody, it is done without.
    monkeypatch.setattr(wiredtiger_connection, "DEFAULT_COMPRESSION", "bogus")
    store = WiredTigerStore({"directory": str(tmp_path)})
    store.open()
    assert store.info().compression == "none"
    store.close()


def test_what_is_there_is_not_taken_for_something_else(tmp_path: Path) -> None:
    """Layout and compression are settled when a table is made."""
    settings = {"directory": str(tmp_path), "compression": "zlib"}
    store = WiredTigerStore(settings)
    store.open()
    store.close()
    for wrong, right in (
        ({"compression": "none"}, "compression=zlib"),
        ({"layout": "lsm"}, "layout=btree"),
    ):
        assert right in refused(settings | wrong).message
    store = WiredTigerStore({"directory": str(tmp_path)})
    store.open()
    assert store.info().compression == "zlib"
    store.close()


def test_a_table_of_that_name_that_is_not_kvtuis_is_refused(tmp_path: Path) -> None:
    """010: a string key ends at its first NUL."""
    import wiredtiger

    connection = wiredtiger.wiredtiger_open(str(tmp_path), "create")
    session = connection.open_session()
    session.create(VALUES, "key_format=S,value_format=S")
    connection.close()
    assert "not kvtui's" in refused({"directory": str(tmp_path)}).message


def test_an_empty_key_is_a_key(store: WiredTigerStore) -> None:
    """The library itself ends in a panic for one."""
    assert store.get(b"") is None
    store.put(b"", b"empty")
    store.add(b"", ((b"", 1),))
    assert store.get(b"") == b"empty"
    assert store.counts(b"") == {b"": 1}
    assert store.scan(b"", 5) == [(b"", b"empty")]
    assert store.delete(b"") is True


DURABLE = START + (
    "settings |= eval(sys.argv[2])\n"
    "store = WiredTigerStore(settings); store.open()\n"
    "for n in range(300): store.put(b'%d' % n, b'x' * 4000)\n"
    "store.add(b'c', ((b'a', 1),))\n"
    "print(store.info().durability, flush=True)\n"
    "os.kill(os.getpid(), signal.SIGKILL)\n"
)


@pytest.mark.parametrize(
    ("settings", "label", "keeps"),
    [
        ({}, "OS cache", True),
        ({"sync": True}, "fsync", True),
        ({"log": "buffered"}, "memory", None),
        ({"log": "none"}, "memory", False),
    ],
)
def test_a_kill_keeps_what_the_durability_says(
    tmp_path: Path, settings: dict[str, Any], label: str, keeps: bool | None
) -> None:
    """049: acknowledged, then killed; None: a part of it may be kept."""
    killed = child(DURABLE, tmp_path / "db", settings, status=-9)
    assert killed.startswith(label)
    store = WiredTigerStore(settings | {"directory": str(tmp_path / "db")})
    store.open()
    kept = sum(store.get(b"%d" % n) == b"x" * 4000 for n in range(300))
    counted = store.counts(b"c") == {b"a": 1}
    store.close()
    if keeps is None:
        assert killed.startswith("memory")
        assert kept <= 300
    else:
        assert (kept, counted) == ((300, True) if keeps else (0, False))


FILL = START + (
    "store = WiredTigerStore(settings | {'compression': 'none', 'cache_mb': 20})\n"
    "store.open()\n"
    "try:\n"
    "    for n in range(100_000): store.put(b'%d' % n, os.urandom(20_000))\n"
    "except KvtuiError as error: print(error.kind, error.broken, bool(error.hint))\n"
    "store.close()\n"
)


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """061: in a file system of 64 MB of its own."""
    assert on_a_small_disk(FILL, tmp_path) == "no-space True True"


def test_a_panic_is_the_end_for_this_process(tmp_path: Path) -> None:
    """Closing after one may hang, so nothing is closed; another process recovers."""
    code = START + (
        "store = WiredTigerStore(settings); store.open(); store.put(b'k', b'v')\n"
        "def panic(hands): hands.values.set_key(b''); hands.values.search()\n"
        "for ask in (lambda: store._at.transaction(panic), lambda: store.get(b'k'),\n"
        "            lambda: store.put(b'k', b'w')):\n"
        "    try: ask()\n"
        "    except KvtuiError as error: print(error.kind, error.broken)\n"
        "store.close()\n"
        "try: store.open()\n"
        "except KvtuiError as error: print(error.message); print(error.hint)\n"
        "store.close()\n"
    )
    said = child(code, tmp_path / "db").splitlines()
    assert said[:3] == ["server-error True"] * 3
    assert "this process cannot open" in said[3]
    assert "failed to set key" in said[3]
    assert said[4] == "a new process can"
    assert child(OPEN_ELSEWHERE, tmp_path / "db") == "opened b'v'"


def test_trees_of_several_chunks_and_their_filters_are_read_back(
    tmp_path: Path,
) -> None:
    """Filters are built once a chunk is full; pages too large for them are a panic."""
    profiles = {each.name: each for each in registry.BUILT_IN}
    settings = profiles["wiredtiger-paper"].settings
    store = WiredTigerStore(settings | {"directory": str(tmp_path), "memory": "30MB"})
    values = {b"%d" % number: os.urandom(2000) for number in range(8_000)}
    store.open()
    for key, value in values.items():
        store.put(key, value)
    until(lambda: list(tmp_path.glob("kvtui-*.bf")), "a filter is there", 30)
    assert {key: store.get(key) for key in values} == values
    assert store.get(b"none") is None
    store.close()
    store.open()
    assert {key: store.get(key) for key in values} == values
    store.close()


def test_a_conflict_is_tried_again_and_counted(store: WiredTigerStore) -> None:
    """037: another transaction has the row; the add waits for its end."""
    store.add(b"k", ((b"a", 1),))
    other = store._at._connection.open_session()
    cursor = other.open_cursor(COUNTERS, None, "overwrite=true")
    other.begin_transaction()
    cursor.set_key(b"\0\0\0\1ka")
    cursor.set_value(b"100")
    cursor.insert()
    adding = threading.Thread(target=store.add, args=(b"k", ((b"a", 1),)))
    adding.start()
    until(lambda: store._at.conflicts >= 1, "the add has met the other")
    other.commit_transaction()
    adding.join()
    assert store.counts(b"k") == {b"a": 101}
    assert store.retries >= 1


def test_conflicts_without_end_are_a_failure(
    store: WiredTigerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """037: bounded."""
    monkeypatch.setattr(wiredtiger_connection, "TRIES", 20)
    other = store._at._connection.open_session()
    cursor = other.open_cursor(COUNTERS, None, "overwrite=true")
    other.begin_transaction()
    cursor.set_key(b"\0\0\0\1ka")
    cursor.set_value(b"100")
    cursor.insert()
    with pytest.raises(OperationFailed) as caught:
        store.add(b"k", ((b"b", 1), (b"a", 1)))
    assert "20 times" in caught.value.message
    assert not caught.value.broken
    other.rollback_transaction()
    assert store.counts(b"k") is None  # b was rolled back with it
    assert store._at.conflicts == 20


def test_closing_waits_for_what_goes_on_in_other_threads(
    store: WiredTigerStore,
) -> None:
    """The library would end the process."""
    ended: list[str] = []
    begun = threading.Barrier(9)

    def work(number: int) -> None:
        begun.wait()
        try:
            while True:
                store.put(b"%d" % number, b"x" * 10_000)
                store.get(b"%d" % number)
        except OperationFailed as error:
            ended.append(error.kind)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    begun.wait()
    store.close()
    for thread in threads:
        thread.join()
    assert ended == ["disconnected"] * 8
    store.open()
    assert all(store.get(b"%d" % n) in (None, b"x" * 10_000) for n in range(8))


def test_the_sessions_of_threads_that_have_ended_are_used_again(
    store: WiredTigerStore,
) -> None:
    for number in range(50):
        thread = threading.Thread(target=store.put, args=(b"k", b"%d" % number))
        thread.start()
        thread.join()
    assert len(store._at._all) == 1
    assert store.get(b"k") == b"49"


def test_records_of_counters_are_found_whatever_their_names(
    store: WiredTigerStore,
) -> None:
    """Keys shorter than the namespace, and counters that look like keys."""
    ours = [b"kvtui:test:", b"kvtui:test:a", b"kvtui:test:\xff", b"kvtui:test:\xff\xff"]
    others = [
        b"",
        b"k",
        b"kvtui:",
        b"kvtui:tesu:a",
        b"kvtui:tes:aaaa",
        b"zzzzzzzzzzzzz",
    ]
    names = [b"", b"i:test:x", b"kvtui:test:x", b"\xff" * 5, b"z"]
    for record in ours + others:
        store.add(record, tuple((name, 1) for name in names))
    hands = store._at.mine()
    assert sorted(_records(hands.counters, b"kvtui:test:")) == sorted(ours)
    assert store.count("test") == len(ours)
    store.put(ours[0], b"a value and counters are one record")
    assert store.count("test") == len(ours)
    assert store.wipe("test") == len(ours)
    assert [store.counts(record) for record in ours] == [None] * len(ours)
    assert [len(store.counts(record) or ()) for record in others] == [5] * len(others)


def test_info_tells_the_build_and_the_cache(tmp_path: Path) -> None:
    """049."""
    store = WiredTigerStore(
        {"directory": str(tmp_path / "db"), "memory": "50MB", "log": "buffered"}
    )
    store.open()
    info = store.info()
    store.close()
    assert info.version.startswith("11.")
    assert info.details["build"] in ("release", "diagnostic")
    assert ("diagnostic" in info.version) == (info.details["build"] == "diagnostic")
    assert info.memory_limit == "cache 50 MB"
    assert info.memory_limit_bytes is None
    assert info.durability.startswith("memory")
    assert info.address == "embedded, db"
