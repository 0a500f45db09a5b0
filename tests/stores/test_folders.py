"""Folders that embedded stores may be made in, and what they leave alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.leveldb import LARGEST_WRITE_BUFFER_BYTES, LevelDbStore
from kvtui.stores.store import Store
from tests.conftest import require_module

PRECIOUS = (
    "7101.log",
    "20240101.log",
    "3.sst",
    "17.ldb",
    "5.dbtmp",
    "LOG",
    "notes.txt",
    "MANIFEST-000001",
)
EMBEDDED = pytest.mark.parametrize("kind", ["leveldb", "wiredtiger"])


def store_in(kind: str, folder: Path, **settings: Any) -> Store:
    """A store of that kind there; skips where its module is not here."""
    require_module(kind)
    return registry.adapter(kind)({"directory": str(folder), **settings})


@EMBEDDED
@pytest.mark.parametrize("current", [None, b"", b"MANIFEST-000009\n", b"../x\n"])
def test_a_folder_with_other_things_is_refused_and_left_as_it_was(
    tmp_path: Path, kind: str, current: bytes | None
) -> None:
    """LevelDB would remove every file that has a name like its own."""
    for name in PRECIOUS:
        (tmp_path / name).write_text(f"precious {name}")
    if current is not None:
        (tmp_path / "CURRENT").write_bytes(current)
        (tmp_path / "WiredTiger").write_bytes(current)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    with pytest.raises(StoreUnavailable, match="holds other files") as caught:
        store_in(kind, tmp_path).open()
    assert "empty folder" in str(caught.value.hint)
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


@EMBEDDED
@pytest.mark.parametrize("under", ["", "deeper"])
def test_a_file_is_no_folder(tmp_path: Path, kind: str, under: str) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(StoreUnavailable, match="a file and no folder"):
        store_in(kind, path / under).open()
    assert path.read_text() == "precious"


@EMBEDDED
def test_an_empty_file_system_and_a_database_of_its_own_are_welcome(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "lost+found").mkdir()
    store = store_in(kind, tmp_path)
    for _ in range(2):
        store.open()
        store.put(b"k", b"v")
        store.close()
    store.open()
    assert store.get(b"k") == b"v"
    store.close()


@pytest.mark.parametrize("memory", ["10MB", "11MB", "64MB", "20GB"])
def test_an_lsm_tree_is_made_with_any_memory(tmp_path: Path, memory: str) -> None:
    """Its chunks stay within WiredTiger's limits, 512 KiB and 500 MiB."""
    store = store_in(
        "wiredtiger", tmp_path / "db", layout="lsm", page_kb=128, memory=memory
    )
    store.open()
    store.put(b"k", b"v")
    assert store.get(b"k") == b"v"
    store.close()


@pytest.mark.parametrize(
    ("layout", "memory"), [("lsm", "9MB"), ("lsm", "1MB"), ("btree", "1MB")]
)
def test_too_little_memory_is_refused_with_what_is_enough(
    tmp_path: Path, layout: str, memory: str
) -> None:
    store = store_in("wiredtiger", tmp_path / "db", layout=layout, memory=memory)
    with pytest.raises(StoreUnavailable, match="need a cache of") as caught:
        store.open()
    assert "memory=" in str(caught.value.hint)
    assert not (tmp_path / "db").exists()


def test_the_write_buffer_told_is_the_one_in_force(tmp_path: Path) -> None:
    """LevelDB takes no more than 1 GiB, whatever it is given."""
    store = LevelDbStore({"directory": str(tmp_path / "db"), "write_buffer_mb": 5000})
    assert store._sizes["write_buffer_mb"] == LARGEST_WRITE_BUFFER_BYTES
    assert "1,073.74 MB" in (store.info().memory_limit or "")


def test_what_the_write_buffer_may_not_take_goes_to_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvtui.stores.memory.free_bytes", lambda: 10**12)
    given = {"memory": "8GB", "write_buffer_mb": 500, "cache_mb": 1500}
    store = LevelDbStore({"directory": str(tmp_path / "db"), **given})
    assert store._sizes["write_buffer_mb"] == LARGEST_WRITE_BUFFER_BYTES
    assert sum(store._sizes.values()) == pytest.approx(8e9, abs=2)
