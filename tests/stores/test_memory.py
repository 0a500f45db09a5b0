"""What an embedded store is given of this machine's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvtui.stores import memory, registry
from kvtui.stores.leveldb import LevelDbStore

PARTS = {"write_buffer_mb": 64.0, "cache_mb": 128.0}


@pytest.fixture(autouse=True)
def eight_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with that much free."""
    monkeypatch.setattr(memory, "free_bytes", lambda: 8_000_000_000)


def test_sizes_in_megabytes_are_taken_as_they_stand() -> None:
    assert memory.shared_out({}, PARTS) == (
        {"write_buffer_mb": 64_000_000, "cache_mb": 128_000_000},
        "",
    )
    found, less = memory.shared_out({"cache_mb": 99_999}, PARTS)
    assert (found["cache_mb"], less) == (99_999_000_000, "")


def test_memory_keeps_the_proportion() -> None:
    found, less = memory.shared_out({"memory": "300MB"}, PARTS)
    assert found == {"write_buffer_mb": 100_000_000, "cache_mb": 200_000_000}
    assert less == ""


def test_what_does_not_fit_is_cut_down_and_told() -> None:
    found, less = memory.shared_out({"memory": "16GB"}, {"cache_mb": 1})
    assert found == {"cache_mb": 4_000_000_000}
    assert "16,000 MB asked for" in less


def test_the_papers_figures_are_its_own_and_scale(tmp_path: Path) -> None:
    """500 MB and 1,500 MB of 2**20 bytes each; the default stays as it is."""
    profiles = {profile.name: profile for profile in registry.BUILT_IN}
    paper = profiles["leveldb-paper"].settings | {"directory": str(tmp_path)}
    assert LevelDbStore(paper)._sizes == {
        "write_buffer_mb": 500 * 2**20,
        "cache_mb": 1500 * 2**20,
    }
    scaled = LevelDbStore(paper | {"memory": "400MB"})
    assert scaled._sizes == {"write_buffer_mb": 100_000_000, "cache_mb": 300_000_000}
    assert scaled.info().memory_limit == "write buffer 100 MB, cache 300 MB"
    plain = LevelDbStore({"directory": str(tmp_path)})
    assert plain.info().memory_limit == "write buffer 64 MB, cache 128 MB"
    cut = LevelDbStore(paper | {"memory": "100GB"}).info().memory_limit
    assert cut.startswith("write buffer 1,000 MB, cache 3,000 MB (100,000 MB asked")


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory.max": "700", "memory.current": "600"}, 100),
        ({"memory.max": "600", "memory.current": "700"}, 0),
        ({"memory.max": "max\n", "memory.current": "600"}, None),
        (
            {
                "memory/memory.limit_in_bytes": "9",
                "memory/memory.usage_in_bytes": "4",
            },
            5,
        ),
        ({}, None),
    ],
)
def test_a_control_groups_limit_counts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    left: int | None,
) -> None:
    monkeypatch.undo()  # free_bytes itself
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    found = memory.free_bytes()
    assert found == left if left is not None else found > 1_000_000
