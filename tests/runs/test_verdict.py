"""What bounded a trial: a table of cases."""

from __future__ import annotations

import pytest

from kvtui.runs.events import (
    AnyEvent,
    Interval,
    Measured,
    OperationInterval,
    PhaseStarted,
    RunStarted,
    StoreSeen,
    System,
    TrialFinished,
    TrialStarted,
)
from kvtui.runs.state import RunState
from kvtui.runs.verdict import verdict
from tests import journals

SECONDS = 4


def trial(
    number: int,
    *,
    workers: tuple[float, ...],
    server: float | None,
    work: float = 0.3,
    ok: int = 1000,
    keeps: bool = True,
    disk: float = 0.0,
    length_s: float = 1.0,
) -> list[AnyEvent]:
    """A measured trial: shares of a core, and the clients' share of own work."""
    at_s = 10.0 * number
    events: list[AnyEvent] = [
        TrialStarted(at_s, number, f"s{number}", 1, 1, len(workers)),
        StoreSeen(at_s, number, "", "", "", "", keeps),
        PhaseStarted(at_s, number, "measure"),
    ]
    for index in range(SECONDS):
        events += [
            Interval(
                at_s + index,
                number,
                "measure",
                index,
                index * length_s,
                length_s,
                {"get": OperationInterval(ok)},
                1,
                1,
                worker_cpu_s=tuple(share * length_s for share in workers),
                server_cpu_s=None if server is None else server * length_s,
            ),
            System(at_s + index, 0.5, 2.0, disks={"vda": (0.0, 0.0, disk)}),
        ]
    elapsed_s = SECONDS * length_s
    attempted = SECONDS * ok
    events += [
        Measured(
            at_s + 5, number, elapsed_s, attempted, 0, 0.0, work * 4, (1 - work) * 4
        ),
        TrialFinished(at_s + 6, number, "done"),
    ]
    return events


def judged(*trials: list[AnyEvent]) -> str | None:
    """The word on the last of these trials."""
    state = RunState()
    state.apply(RunStarted(0.0, "r", "", 1, journals.plan("ram"), ""))
    for events in trials:
        for event in events:
            state.apply(event)
    found = verdict(state, state.trials[-1])
    if found is None:
        return None
    assert found.reason
    return found.word


NULL = trial(0, workers=(1.0,), server=None, ok=10_000, keeps=False)


@pytest.mark.parametrize(
    ("word", "events"),
    [
        ("server", trial(1, workers=(0.5,), server=0.97)),
        ("server", trial(1, workers=(0.95,), server=0.97)),
        ("client", trial(1, workers=(0.95,), server=0.5)),
        # The busiest of several workers decides, not their mean.
        ("client", trial(1, workers=(0.1, 0.95), server=0.5)),
        ("wake-up", trial(1, workers=(0.4,), server=0.3)),
        ("unclear", trial(1, workers=(0.8,), server=0.3)),
        ("unclear", trial(1, workers=(0.4,), server=0.8)),
        ("disk", trial(1, workers=(0.2,), server=0.2, disk=0.97)),
        # An embedded store: its work is the worker's.
        ("server", trial(1, workers=(1.0,), server=None, work=0.2)),
        ("client", trial(1, workers=(1.0,), server=None, work=0.8)),
        ("disk", trial(1, workers=(0.5,), server=None, disk=0.95)),
        ("unclear", trial(1, workers=(0.5,), server=None)),
        # Too short to say.
        ("unclear", trial(1, workers=(1.0,), server=1.0, length_s=0.1)),
        ("client", trial(1, workers=(1.0,), server=None, keeps=False)),
    ],
)
def test_the_verdict_is_the_expected_one(word: str, events: list[AnyEvent]) -> None:
    assert judged(events) == word


def test_more_than_half_of_what_null_reaches_is_the_client() -> None:
    """077."""
    near = trial(1, workers=(0.6,), server=0.5, ok=6000)
    far = trial(1, workers=(0.6,), server=0.5, ok=4000)
    assert judged(NULL, near) == "client"
    assert judged(NULL, far) == "wake-up"
    assert judged(near) == "wake-up"  # without null nobody can tell


def test_there_is_no_verdict_before_it_was_measured() -> None:
    events = trial(1, workers=(0.5,), server=0.5)
    assert judged(events[:3]) is None
    assert judged([each for each in events if not isinstance(each, Measured)]) is None
    assert judged([each for each in events if not isinstance(each, Interval)]) is None


def test_quiet_trials_do_not_divide_by_zero() -> None:
    nothing = trial(1, workers=(), server=None, ok=0)
    assert judged(nothing) == "unclear"
    empty_null = trial(0, workers=(0.1,), server=None, ok=0, keeps=False)
    assert judged(empty_null, trial(1, workers=(0.1,), server=0.1)) is not None
