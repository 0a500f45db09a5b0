"""What only an embedded store can do to its users."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.leveldb import LevelDbStore
from tests.alone import MOUNTS, on_a_small_disk, require_mounts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LevelDbStore]:
    """An open LevelDB."""
    made = LevelDbStore({"directory": str(tmp_path / "db")})
    made.open()
    yield made
    made.close()


OPEN_ELSEWHERE = (
    "import sys; from kvtui.stores.leveldb import LevelDbStore\n"
    "from kvtui.errors import StoreUnavailable\n"
    "store = LevelDbStore({'directory': sys.argv[1]})\n"
    "try: store.open()\n"
    "except StoreUnavailable as error: print('refused:', error.message)\n"
    "else: print('opened', store.get(b'k'))\n"
)


def elsewhere(directory: Path) -> str:
    """What another process says that opens it."""
    return subprocess.run(
        [sys.executable, "-c", OPEN_ELSEWHERE, str(directory)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def test_what_was_put_is_there_after_reopening(store: LevelDbStore) -> None:
    store.put(b"k", b"v")
    store.add(b"c", ((b"a", 2),))
    store.close()
    assert "opened b'v'" in elsewhere(store.directory)
    store.open()
    assert store.counts(b"c") == {b"a": 2}


@pytest.mark.parametrize("by", ["the same path", "another path", "a link"])
def test_a_second_handle_is_refused_and_the_first_keeps_its_lock(
    store: LevelDbStore, tmp_path: Path, by: str
) -> None:
    """058: refused by kvtui's own table, before the library gives the lock away."""
    path = store.directory
    if by == "another path":
        path = tmp_path / "." / "db" / ".." / "db"
    elif by == "a link":
        path = tmp_path / "link"
        path.symlink_to(store.directory)
    second = LevelDbStore({"directory": str(path)})
    with pytest.raises(StoreUnavailable) as caught:
        second.open()
    assert "already open" in caught.value.message
    second.close()
    assert elsewhere(store.directory).startswith("refused")
    store.put(b"k", b"still ours")
    store.close()
    assert "still ours" in elsewhere(store.directory)


def test_a_handle_is_of_no_use_after_a_fork(store: LevelDbStore) -> None:
    """032: refused, instead of writes that vanish."""
    store.put(b"k", b"parent")
    code = (
        "import os, sys\n"
        "from kvtui.errors import OperationFailed\n"
        "from kvtui.stores.leveldb import LevelDbStore\n"
        "store = LevelDbStore({'directory': sys.argv[1]}); store.open()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    try: store.put(b'k', b'child')\n"
        "    except OperationFailed as error: os._exit(7 if error.broken else 8)\n"
        "    os._exit(0)\n"
        "_, status = os.waitpid(child, 0)\n"
        "store.put(b'k', b'parent'); print(os.waitstatus_to_exitcode(status))\n"
        "store.close()\n"
    )
    store.close()
    said = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(store.directory)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.strip() == "7"
    store.open()
    assert store.get(b"k") == b"parent"


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for settings, word in (
        ({"directory": str(tmp_path / "file")}, "file"),
        ({"directory": str(tmp_path / "file" / "below")}, "below"),
        ({"directory": str(tmp_path / "x"), "compression": "zip"}, "compression"),
    ):
        store = LevelDbStore(settings)
        with pytest.raises(StoreUnavailable) as caught:
            store.open()
        assert word in caught.value.message
        store.close()
        with pytest.raises(OperationFailed):
            store.get(b"k")


def test_a_directory_that_failed_to_open_can_be_opened_later(tmp_path: Path) -> None:
    (tmp_path / "db").write_text("in the way")
    store = LevelDbStore({"directory": str(tmp_path / "db")})
    with pytest.raises(StoreUnavailable):
        store.open()
    os.unlink(tmp_path / "db")
    store.open()
    store.put(b"k", b"v")
    assert store.get(b"k") == b"v"
    store.close()


@pytest.mark.parametrize(("sync", "words"), [(True, "fsync"), (False, "OS cache")])
def test_the_durability_in_force_is_told(
    tmp_path: Path, sync: bool, words: str
) -> None:
    """049."""
    store = LevelDbStore({"directory": str(tmp_path), "sync": sync})
    assert words in store.info().durability


FILL = """
import os, sys
from kvtui.errors import KvtuiError
from kvtui.stores.leveldb import LevelDbStore
store = LevelDbStore({"directory": sys.argv[1], "compression": "none"})
store.open()
try:
    for n in range(100_000): store.put(b"%d" % n, os.urandom(20_000))
except KvtuiError as error: print(error.kind, error.broken, bool(error.hint))
store.close()
"""
FULL = """
mount -t tmpfs -o size=64m none "$1/state" && cd "$1/state" || exit 9
run() { "$PYTHON" -m kvtui run fans --data "$HERE/people.jsonl" --json "$@"; }
HERE=$1
run --first 5 --store ram >"$HERE/first.json" 2>&1
cp kvtui/runs/*/snapshot.json "$HERE/before.json"
run --store leveldb:compression=none --store ram >"$HERE/found.json" 2>"$HERE/said"
echo $?
cat kvtui/runs/*/snapshot.json >"$HERE/after.json"
find . -name 'store-*'
"""


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    """061: in a file system of 64 MB of its own."""
    assert on_a_small_disk(FILL, tmp_path) == "no-space True True"


def test_a_full_disk_costs_its_trial_and_nothing_else(tmp_path: Path) -> None:
    """061: in a file system of 64 MB of its own, with the runs' own files in it."""
    require_mounts()
    draw, state = random.Random(1), tmp_path / "state"
    state.mkdir()
    people = ([f"page {draw.randrange(900)}" for _ in range(40)] for _ in range(700))
    (tmp_path / "people.jsonl").write_text(
        "".join(json.dumps({"pages": pages}) + "\n" for pages in people)
    )
    done = subprocess.run(
        [*MOUNTS, "sh", "-c", FULL, "-", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_STATE_HOME": str(state), "PYTHON": sys.executable},
    )
    assert done.stdout.split() == ["1"], done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert any("MB are free for the run's files" in note for note in found["notes"])
    full, ram = sorted(found["ranking"], key=lambda row: str(row["store"]))
    assert full["rank"] is None
    assert full["reason"].startswith("failed: ")
    assert "No space left" in full["reason"]
    assert "free some space on the disk of this folder" in full["reason"]
    assert ram["rank"] == 1
    after = (tmp_path / "after.json").read_bytes()
    assert after.startswith((tmp_path / "before.json").read_bytes())
