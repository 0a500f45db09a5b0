"""What can be run, and how what cannot is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvtui.errors import UsageError
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from tests import journals


def changed(**fields: Any) -> RunPlan:
    """A good plan with something else in it."""
    return msgspec.structs.replace(journals.plan("ram", "null"), **fields)


def test_a_good_plan_is_good() -> None:
    journals.plan("ram").check()
    changed(clients=10_000, workers=256, repeat=1000, seed=0).check()
    changed(seed=2**63 - 1).check()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"clients": 0}, "clients"),
        ({"clients": -1}, "clients"),
        ({"clients": 10_001}, "clients"),
        ({"clients": 2**32}, "clients"),
        ({"clients": 10**9}, "clients"),
        ({"workers": 0}, "workers"),
        ({"workers": -5}, "workers"),
        ({"workers": 257}, "workers"),
        ({"repeat": 0}, "repeat"),
        ({"repeat": -2}, "repeat"),
        ({"repeat": 10**9}, "repeat"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"stores": ()}, "store"),
        ({"stores": (StorePlan("a", "ram"), StorePlan("a", "null"))}, "a"),
    ],
)
def test_nonsense_is_refused_with_the_field_and_a_reason(
    fields: dict[str, Any], named: str
) -> None:
    """065: nothing wraps, nothing is quietly made good."""
    with pytest.raises(UsageError) as caught:
        changed(**fields).check()
    assert named in caught.value.message


@pytest.mark.parametrize(
    ("name", "value"),
    [("clients", "many"), ("clients", 1.5), ("workers", None), ("seed", [])],
)
def test_a_plan_of_the_wrong_kind_is_not_read(name: str, value: Any) -> None:
    given = msgspec.to_builtins(journals.plan("ram")) | {name: value}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(given, RunPlan)


def test_trials_are_numbered_in_order() -> None:
    plan = changed(repeat=3)
    found = [(number, store.name, turn) for number, store, turn in plan.trials()]
    assert found == [
        (0, "ram", 1),
        (1, "null", 1),
        (2, "ram", 2),
        (3, "null", 2),
        (4, "ram", 3),
        (5, "null", 3),
    ]


def test_a_plan_survives_being_written_down() -> None:
    plan = RunPlan(
        WorkloadPlan("fans", {"data": "/x", "first": 5}),
        (StorePlan("a:port=1", "redis", {"port": 1, "tls": False}, True),),
        seed=7,
        clear=True,
    )
    assert msgspec.json.decode(msgspec.json.encode(plan), type=RunPlan) == plan
