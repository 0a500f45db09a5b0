"""Whether a store can hold what will be put into it."""

from __future__ import annotations

import msgspec
import pytest

from kvtui.engine.fit import check_fit, spare_others
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


def test_keys_of_others_are_spared_by_what_the_records_really_take() -> None:
    """Beside their bytes: keys, what a store keeps of each, and what lies idle."""
    room = Room(8_000, 10_000_000, 44_000, "http://ex.test/popular")
    used = 10_000_000
    enough = info(memory_limit_bytes=25_000_000, memory_used_bytes=used)
    spare_others("x", room, enough)
    tight = info(memory_limit_bytes=22_000_000, memory_used_bytes=used)
    with pytest.raises(TrialFailed) as caught:
        spare_others("x", room, tight)
    for words in ("about 14.6 MB", "22.0 MB", "10.0 MB are in use", "not kvtui's"):
        assert words in caught.value.message
    with pytest.raises(TrialFailed):
        spare_others("x", msgspec.structs.replace(room, counters=True), enough)
    with pytest.raises(TrialFailed):
        spare_others("x", room, msgspec.structs.replace(enough, memory_factor=2.4))
    spare_others("x", room, info())


def test_nothing_is_said_of_what_counters_fit_into() -> None:
    room = msgspec.structs.replace(ROOM, counters=True)
    assert check_fit("x", room, info(memory_limit_bytes=64_000_000)) == ""
