"""Whether a store can hold what will be put into it."""

from __future__ import annotations

import pytest

from kvtui.engine.fit import check_fit
from kvtui.engine.trial import TrialFailed
from kvtui.jobs.workload import Room
from kvtui.stores.store import StoreInfo

ROOM = Room(9_000, 100_000_000, 1_200_000, "http://ex.test/popular")


def info(**limits: int) -> StoreInfo:
    return StoreInfo("x 1", "here", "memory", "calls", **limits)  # type: ignore[arg-type]


def test_a_record_over_the_item_limit_is_named_with_both_numbers() -> None:
    """013: the page, its size and the limit."""
    with pytest.raises(TrialFailed) as caught:
        check_fit("memcached-tcp", ROOM, info(item_limit_bytes=1_048_576))
    for words in ("cannot hold", "ex.test/popular", "1,200,000", "1,048,576"):
        assert words in caught.value.message
    assert check_fit("x", ROOM, info(item_limit_bytes=1_200_000)) == ""


def test_more_than_the_memory_limit_is_refused_with_both_numbers() -> None:
    """044."""
    with pytest.raises(TrialFailed) as caught:
        check_fit("memcached-tcp", ROOM, info(memory_limit_bytes=64_000_000))
    for words in ("cannot hold", "9,000 records", "100.0 MB", "64.0 MB"):
        assert words in caught.value.message


def test_a_tight_fit_is_run_with_a_warning() -> None:
    assert "may run out" in check_fit("x", ROOM, info(memory_limit_bytes=110_000_000))
    assert check_fit("x", ROOM, info(memory_limit_bytes=200_000_000)) == ""


def test_what_is_in_use_already_counts() -> None:
    tight = info(memory_limit_bytes=200_000_000, memory_used_bytes=150_000_000)
    warning = check_fit("x", ROOM, tight)
    assert "150.0 MB are in use" in warning


def test_no_limit_no_word() -> None:
    assert check_fit("x", ROOM, info()) == ""
