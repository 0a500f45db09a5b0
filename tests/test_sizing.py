"""From a trial to the measured point: whose CPU time counts, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest
from msgspec import structs

from kvtui import sizing
from kvtui.errors import RunError
from kvtui.jobs import loads
from kvtui.jobs.capacity import Measured, answer
from kvtui.runs.events import (
    AnyEvent,
    Interval,
    OperationInterval,
    PhaseStarted,
    RunStarted,
    StoreSeen,
    System,
    TrialFinished,
    TrialOutcome,
    TrialStarted,
    Verified,
)
from kvtui.runs.events import (
    Measured as TrialMeasured,
)
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import RunState

SECONDS = 4


def trial(
    number: int,
    store: str,
    *,
    repeat: int = 1,
    address: str = "unix:/run/redis.sock",
    keeps: bool = True,
    gets: OperationInterval | None = None,
    puts: int = 250,
    worker: float = 0.3,
    server: float | None = 0.5,
    machine: float | None = 0.6,
    outcome: TrialOutcome | None = "done",
    reason: str = "",
    length_s: float = 1.0,
) -> list[AnyEvent]:
    """A trial of 750 gets and 250 puts a second, on two CPUs."""
    at_s = 100.0 * number
    gets = OperationInterval(750) if gets is None else gets
    operations = {"get": gets, "put": OperationInterval(puts)}
    events: list[AnyEvent] = [
        TrialStarted(at_s, number, store, repeat, 8, 1),
        StoreSeen(at_s, number, "7", address, "memory", "wire", keeps),
        PhaseStarted(at_s, number, "measure"),
    ]
    for index in range(SECONDS):
        events.append(
            Interval(
                at_s + index + 1,
                number,
                "measure",
                index,
                index * length_s,
                length_s,
                operations,
                1,
                1,
                worker_cpu_s=(worker * length_s,),
                server_cpu_s=None if server is None else server * length_s,
            )
        )
        if machine is not None:
            events.append(System(at_s + index + 1, machine, 2.0))
    total = SECONDS * (gets.ok + gets.miss + sum(gets.failed.values()) + puts)
    if outcome is not None:
        events += [
            TrialMeasured(
                at_s + 5, number, SECONDS * length_s, total, 0, 0.0, 1.0, 3.0
            ),
            Verified(at_s + 6, number, 10, 10, 0),
            TrialFinished(at_s + 7, number, outcome, reason),
        ]
    return events


def folded(*trials: list[AnyEvent], kinds: dict[str, str] | None = None) -> RunState:
    """A run of these trials."""
    events = [event for each in trials for event in each]
    names = dict.fromkeys(e.store for e in events if isinstance(e, TrialStarted))
    known = kinds or {}
    stores = tuple(StorePlan(name, known.get(name, "redis")) for name in names)
    plan = RunPlan(WorkloadPlan("fans"), stores)
    state = RunState()
    state.apply(RunStarted(0.0, "r", "2026-01-02T03:04:05Z", 1, plan, "0"))
    for event in events:
        state.apply(event)
    return state


def measured(state: RunState, store: str | None = None) -> Measured:
    """The point of that store, or of the one that is meant."""
    return sizing.measured(
        state, sizing.find_trial(state, store or sizing.best_store(state))
    )


def about(point: Measured) -> dict[str, str]:
    """The caveats by what they are about."""
    return {caveat.about: caveat.text for caveat in point.caveats}


def test_a_servers_own_cpu_time_is_counted_and_not_the_generators() -> None:
    point = measured(folded(trial(0, "redis-unix")))
    assert point.per_second == 1000
    assert point.busy_cores == Fraction(1, 2)
    assert "the server's own CPU time: 2.00 s in 4.00 s" in point.busy_words
    assert point.mix == {"get": Fraction(3, 4), "put": Fraction(1, 4)}
    assert "get 75 %, put 25 %" in point.rate_words
    # 2 million gets at this mix are 2,666,667 operations, at 2,000 a core.
    assert answer(loads.load("2M gets/s"), point).cores == 1334
    told = about(point)
    assert "8 clients" in told["closed loop"]
    assert told["bound by"].startswith("wake-up")
    assert "60 % of this machine's 2 CPUs" in told["utilisation"]
    assert "Other programs took 0.4" in told["utilisation"]
    assert "latency" in told
    assert "no rank" not in told


def test_a_server_here_whose_cpu_is_not_seen_is_the_machine_without_workers() -> None:
    point = measured(folded(trial(0, "web", server=None, address="127.0.0.1:80")))
    assert point.busy_cores == Fraction(9, 10)  # 2 × 0.6 − 0.3
    assert "the whole machine's 1.2 minus the workers' 0.3" in point.busy_words
    assert "whole machine" in about(point)


@pytest.mark.parametrize("address", ["10.0.0.3:6379", "db.example:3306", ""])
def test_a_server_elsewhere_is_refused_until_its_cores_are_typed_in(
    address: str,
) -> None:
    state = folded(trial(0, "far", server=None, address=address))
    with pytest.raises(RunError, match="was not seen from here") as caught:
        measured(state)
    assert "--busy-cores 4" in (caught.value.hint or "")
    found = sizing.find_trial(state, "far")
    point = sizing.measured(state, found, busy=loads.busy("4"))
    assert point.per_second == 1000
    assert point.busy_cores == 4
    assert point.busy_words == "typed in: 4"


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("/tmp/x.sock", True),
        ("unix:/tmp/x.sock", True),
        ("127.0.0.1:6379", True),
        ("[::1]:6379", True),
        ("[::ffff:127.0.0.1]:6379", True),
        ("localhost:6379", True),
        ("10.1.2.3:6379", False),
        ("[2001:db8::1]:6379", False),
        ("127.example.org:80", False),
        ("", False),
    ],
)
def test_which_addresses_are_here(address: str, here: bool) -> None:
    assert sizing.is_here(address) is here


def test_an_embedded_store_is_its_worker() -> None:
    state = folded(
        trial(0, "level", server=None, address="embedded, store-0"),
        kinds={"level": "leveldb"},
    )
    point = measured(state)
    assert point.busy_cores == Fraction(3, 10)
    assert "the worker's CPU time, in which the store lives" in point.busy_words
    assert (
        "25 % of the clients' time was the workload's own" in about(point)["embedded"]
    )


def test_failures_are_not_throughput() -> None:
    gets = OperationInterval(500, 0, {"timeout": 250})
    point = measured(folded(trial(0, "redis-unix", gets=gets)))
    assert point.per_second == 750
    told = about(point)
    assert "1,000 operations failed" in told["failures"]
    assert "1,000 operations failed" in told["no rank"]


def test_cpu_time_and_answers_are_of_the_same_seconds() -> None:
    """The intervals may be longer than first request to last reply, and a server's
    CPU time may be known of some only: an answer costs what it cost."""
    events = trial(0, "redis-unix")
    for at, event in enumerate(events):
        if isinstance(event, TrialMeasured):
            events[at] = structs.replace(event, elapsed_s=3.2)
        if isinstance(event, Interval) and event.index == 1:
            events[at] = structs.replace(event, server_cpu_s=None)
    point = measured(folded(events))
    assert point.per_second == 1250
    # 1.5 s for 3,000 answers.
    assert point.per_second / point.busy_cores == 2000
    assert "1.50 s for 3,000 answers" in point.busy_words


def test_misses_are_told() -> None:
    gets = OperationInterval(500, 250)
    assert (
        "25.0 % of the answers"
        in about(measured(folded(trial(0, "redis-unix", gets=gets))))["misses"]
    )


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (
            trial(
                0, "s", gets=OperationInterval(0, 0, {"status 302": 250_000}), puts=0
            ),
            r"all 1,000,000 operations failed \(status 302\)",
        ),
        (
            trial(
                0, "s", gets=OperationInterval(0), puts=0, outcome="failed", reason="x"
            ),
            "nothing was answered: x",
        ),
        (trial(0, "s", gets=OperationInterval(0), puts=0), "it did nothing"),
        (
            trial(0, "s", gets=OperationInterval(0), puts=0, outcome=None),
            "nothing was answered yet",
        ),
        (trial(0, "s", keeps=False), "it keeps nothing"),
        (trial(0, "s", server=0.0), "no CPU time that could be told"),
        (trial(0, "s", server=None, machine=0.1), "none is left for its server"),
        (trial(0, "s", server=None, machine=None), "nor the machine's was seen"),
    ],
)
def test_trials_that_cannot_be_reckoned_with(events: list[AnyEvent], why: str) -> None:
    state = folded(events)
    with pytest.raises(RunError, match=why):
        measured(state)


def test_the_best_ranked_store_is_meant() -> None:
    slow = trial(0, "slow", length_s=2.0)
    fast = trial(1, "fast")
    failing = trial(2, "failing", gets=OperationInterval(10**6, 0, {"timeout": 1}))
    null = trial(3, "null", keeps=False)
    assert sizing.best_store(folded(slow, fast, failing, null)) == "fast"
    assert sizing.best_store(folded(failing)) == "failing"
    assert sizing.best_store(folded(null, failing)) == "failing"
    with pytest.raises(RunError, match="has not begun"):
        sizing.best_store(RunState())


def test_of_several_repeats_the_middle_one_stands_for_the_store() -> None:
    state = folded(
        trial(0, "s", repeat=1, puts=450),
        trial(1, "s", repeat=2, puts=50),
        trial(2, "s", repeat=3, puts=250),
        trial(3, "s", repeat=4, outcome=None),
    )
    assert sizing.find_trial(state, "s").repeat == 3


def test_an_unknown_store_is_answered_with_those_there_are() -> None:
    state = folded(trial(0, "redis-unix"), trial(1, "ram"))
    with pytest.raises(RunError, match="has no store redis") as caught:
        sizing.find_trial(state, "redis")
    assert caught.value.hint == "it has: redis-unix, ram"


def test_a_trial_that_goes_on_or_was_short_is_told() -> None:
    assert "not finished" in about(measured(folded(trial(0, "s", outcome=None))))
    assert "short" in about(measured(folded(trial(0, "s", length_s=0.25))))
