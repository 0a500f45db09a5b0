"""The operations: as many as asked, the same for a seed, of records that exist."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import UsageError
from kvtui.jobs.ycsb import parameters, stream
from kvtui.jobs.ycsb.parameters import DISTRIBUTIONS, PRESETS, YcsbParameters
from kvtui.jobs.ycsb.stream import INSERT, SCAN, Stream


def asked(workload: str, **given: Any) -> YcsbParameters:
    """Checked parameters."""
    return parameters.check(workload, given)


def digest(workload: str, **given: Any) -> str:
    """Of all operations."""
    return stream.summary(workload, asked(workload, **given), lambda _: None).digest


@given(st.integers(1, 100_000), st.integers(1, 1000))
def test_shares_come_out_exactly(operations: int, clients: int) -> None:
    parts = [stream.share(operations, clients, client) for client in range(clients)]
    assert sum(parts) == operations
    assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("workload", PRESETS)
@pytest.mark.parametrize(("operations", "clients"), [(1, 100), (10_007, 3), (97, 8)])
def test_exactly_so_many_operations_are_drawn(
    workload: str, operations: int, clients: int
) -> None:
    given = asked(workload, records=50, operations=operations, clients=clients)
    found = stream.summary(workload, given, lambda _: None)
    assert sum(found.counts.values()) == operations
    drawn = [Stream(workload, given, client) for client in range(clients)]
    assert sum(len(part.kinds) for each in drawn for part in each) == operations


@pytest.mark.parametrize(
    ("workload", "shares"),
    [
        ("ycsb-a", {"reads": 0.5, "updates": 0.5}),
        ("ycsb-b", {"reads": 0.95, "updates": 0.05}),
        ("ycsb-c", {"reads": 1.0}),
        ("ycsb-d", {"reads": 0.95, "inserts": 0.05}),
        ("ycsb-e", {"scans": 0.95, "inserts": 0.05}),
        ("ycsb-f", {"reads": 0.5, "read-modify-writes": 0.5}),
    ],
)
def test_the_mix_is_the_files(workload: str, shares: dict[str, float]) -> None:
    given = asked(workload, operations=100_000, clients=4)
    counts = stream.summary(workload, given, lambda _: None).counts
    assert set(counts) == set(shares)
    for word, share in shares.items():
        assert counts[word] / 100_000 == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("workload", PRESETS)
def test_a_seed_says_it_all(workload: str) -> None:
    given = {"records": 500, "operations": 20_000, "clients": 5}
    once = digest(workload, **given)
    assert once == digest(workload, **given)
    for other in ({"seed": 2}, {"clients": 6}, {"value_bytes": 999}, {"records": 501}):
        assert digest(workload, **{**given, **other}) != once


@given(
    st.sampled_from(["ycsb-d", "ycsb-e", "ycsb-a"]),
    st.sampled_from(list(DISTRIBUTIONS)),
    st.integers(1, 7),
    st.integers(1, 300),
)
def test_only_what_is_there_is_asked_for(
    workload: str, distribution: str, clients: int, records: int
) -> None:
    """What was loaded, and what the client itself has inserted before; and an insert is
    of a record that nobody else inserts."""
    given = asked(
        workload,
        records=records,
        operations=9_000,
        clients=clients,
        distribution=distribution,
        **({"insert": 0.3, "read": 0.7} if workload == "ycsb-d" else {}),
    )
    inserted: set[int] = set()
    for client in range(clients):
        mine: set[int] = set()
        for draws in Stream(workload, given, client):
            for kind, record in zip(
                draws.kinds.tolist(), draws.records.tolist(), strict=True
            ):
                if kind == INSERT:
                    assert record >= records
                    assert record not in inserted | mine
                    mine.add(record)
                else:
                    assert record < records or record in mine
        inserted |= mine


def test_latest_follows_the_inserts() -> None:
    given = asked("ycsb-d", records=1000, operations=50_000)
    newest, hits, reads = 999, 0, 0
    for draws in Stream("ycsb-d", given, 0):
        for kind, record in zip(
            draws.kinds.tolist(), draws.records.tolist(), strict=True
        ):
            if kind == INSERT:
                assert record == newest + 1
                newest = record
            else:
                reads += 1
                hits += record == newest
    assert hits / reads == pytest.approx(0.105, abs=0.02)


@pytest.mark.parametrize("lengths", ["uniform", "zipfian"])
def test_scans_are_as_long_as_asked(lengths: str) -> None:
    given = asked(
        "ycsb-e", operations=20_000, scan_shortest=3, scan_longest=9,
        scan_lengths=lengths,
    )  # fmt: skip
    found = np.concatenate(
        [draws.lengths[draws.kinds == SCAN] for draws in Stream("ycsb-e", given, 0)]
    )
    counts = np.bincount(found, minlength=10)
    assert not counts[:3].any()
    assert len(counts) == 10
    if lengths == "uniform":
        assert counts[3:].min() > 0.9 * counts[3:].max()
    else:
        assert counts[3] > 2 * counts[5] > 2 * counts[9] > 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"records": 0}, "records must be from 1"),
        ({"operations": 0}, "operations must be from 1"),
        ({"operations": -1}, "operations must be from 1"),
        ({"value_bytes": -4}, "value_bytes must be from 24"),
        ({"value_bytes": 23}, "value_bytes must be from 24"),
        ({"theta": 1}, "theta must be above 0 and below 1"),
        ({"theta": 0}, "theta must be above 0 and below 1"),
        ({"theta": "x"}, "theta"),
        ({"theta": float("nan")}, "theta"),
        ({"read": 0.8}, "come to 0.8"),
        ({"read": 0.8, "update": 0.8}, "come to 1.6"),
        ({"read": -1, "update": 2}, "must be from 0 to 1"),
        ({"distribution": "gauss"}, "is not one of uniform"),
        ({"scan_shortest": 9, "scan_longest": 3}, "is more than scan_longest"),
        ({"compress_ratio": 1.5}, "compress_ratio must be from 0 to 1"),
        ({"exponential_percentile": 100}, "exponential_percentile"),
        ({"insert_order": "random"}, "insert_order"),
        ({"fieldcount": 10}, "has no parameter 'fieldcount'"),
    ],
)
def test_nonsense_is_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parameters.check("ycsb-a", given)


def test_given_proportions_take_the_place_of_the_files() -> None:
    given = asked("ycsb-a", read=0.8, update=0.2)
    assert parameters.mix("ycsb-a", given) == parameters.Mix(read=0.8, update=0.2)
