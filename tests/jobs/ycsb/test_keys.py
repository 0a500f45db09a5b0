"""Key names, against the golden vectors of YCSB's own method."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvtui.jobs.ycsb.keys import Keys, fnv, unsigned
from kvtui.stores.operations import key

GOLDEN = [
    b"user6284781860667377211",
    b"user8517097267634966620",
    b"user1820151046732198393",
    b"user4052466453699787802",
    b"user3232700585171816769",
]


def slowly(number: int) -> int:
    """FNV-1a over eight octets, one after the other; then the absolute value."""
    hashed = 0xCBF29CE484222325
    for octet in number.to_bytes(8, "little"):
        hashed = ((hashed ^ octet) * 1099511628211) % 2**64
    return abs(hashed - 2**64 if hashed >= 2**63 else hashed)


def test_the_first_five_are_ycsbs() -> None:
    found = Keys("ycsb").names(np.arange(5)).tolist()
    assert found == [b"kvtui:ycsb:" + name for name in GOLDEN]


@given(st.lists(st.integers(0, 2**44), min_size=1, max_size=50))
def test_a_name_is_the_number_hashed_octet_by_octet(numbers: list[int]) -> None:
    found = Keys("ycsb").names(np.array(numbers)).tolist()
    assert found == [b"kvtui:ycsb:user%d" % slowly(number) for number in numbers]
    assert unsigned(fnv(np.array(numbers))).tolist() == list(map(slowly, numbers))


@given(st.lists(st.integers(0, 2**44), min_size=1, max_size=50), st.integers(1, 40))
def test_an_ordered_name_is_the_number_padded(numbers: list[int], padding: int) -> None:
    keys = Keys("ycsb", hashed=False, zero_padding=padding)
    found = keys.names(np.array(numbers)).tolist()
    assert found == [b"kvtui:ycsb:user%0*d" % (padding, each) for each in numbers]


def test_the_names_are_the_keys_that_every_store_may_have() -> None:
    found = Keys("ycsb", zero_padding=100).names(np.arange(1000)).tolist()
    assert len(set(found)) == 1000
    for name in found:
        assert name == key("ycsb", name.removeprefix(b"kvtui:ycsb:"))
