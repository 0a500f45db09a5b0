"""The HTTP workload: shares that come out even, and bodies that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvtui.errors import OperationFailed, UsageError
from kvtui.jobs.http import parameters
from kvtui.jobs.http.workload import CHANGED, HttpWorkload
from kvtui.stores.operations import Client, Get


def opened(mine: Sequence[int], clients: int, **given: Any) -> HttpWorkload:
    """A worker's share of the workload."""
    made = HttpWorkload(given, Path())
    made.load(mine, clients, keeps=True)
    return made


def fed(client: Client, replies: list[Any]) -> tuple[int, Any]:
    """How often it asked, and its figures, when it gets these replies in turn."""
    asked = 0
    try:
        operation = next(client)
        while True:
            assert operation == Get(b"")
            reply = replies[asked % len(replies)]
            asked += 1
            if isinstance(reply, Exception):
                operation = client.throw(reply)
            else:
                operation = client.send(reply)
    except StopIteration as ended:
        return asked, ended.value


@pytest.mark.parametrize(("requests", "clients"), [(10, 3), (2, 5), (1, 1), (100, 7)])
def test_the_requests_are_shared_out_to_the_last_one(
    requests: int, clients: int
) -> None:
    workers = [opened(range(n, clients, 2), clients, requests=requests) for n in (0, 1)]
    asked = [
        fed(worker.client(index), [b"page"])[0]
        for number, worker in enumerate(workers)
        for index in range(number, clients, 2)
    ]
    assert sum(asked) == requests
    assert max(asked) - min(asked) <= 1
    done = [worker.progress() for worker in workers]
    assert sum(each for each, _ in done) == sum(each for _, each in done) == requests


def verified(workload: HttpWorkload, body: Any) -> Any:
    """What verifying finds when the page is this."""
    for (client,) in workload.verifiers(lambda number, record: None):
        fed(client, [body])
    return workload.findings


def test_a_page_that_stays_is_verified_by_one_worker() -> None:
    first, second = opened([0], 2, requests=10), opened([1], 2, requests=10)
    for index, worker in enumerate((first, second)):
        assert fed(worker.client(index), [b"page"]) == (5, {})
    found = verified(first, b"page")
    assert (found.checked, found.expected, found.wrong) == (1, 1, 0)
    assert found.stored_bytes == 4
    found = verified(second, b"page")
    assert (found.checked, found.expected) == (0, 0)


@pytest.mark.parametrize("other", [b"pagE", b"page and more", b""])
def test_a_body_that_changes_is_counted_and_said(other: bytes) -> None:
    """Also where only a worker that would not verify has seen it."""
    worker = opened([1], 2, requests=8)
    assert fed(worker.client(1), [b"page", other])[1] == {CHANGED: 2}
    found = verified(worker, b"page")
    assert (found.checked, found.expected, found.wrong) == (1, 1, 1)
    assert "2 of 4 replies" in found.first_wrong


def test_a_page_that_is_another_one_afterwards_is_wrong() -> None:
    worker = opened([0], 1, requests=3)
    fed(worker.client(0), [b"page"])
    found = verified(worker, b"error")
    assert found.wrong == 1
    assert "5 bytes when read once more, 4" in found.first_wrong


def test_a_page_may_be_meant_to_change() -> None:
    worker = opened([0], 1, requests=4, changing=True)
    assert fed(worker.client(0), [b"a", b"b"])[1] == {CHANGED: 2}
    found = verified(worker, b"c")
    assert (found.checked, found.expected, found.wrong) == (1, 1, 0)


def test_failures_are_gone_past_and_the_share_is_still_asked() -> None:
    worker = opened([0], 1, requests=6)
    failure = OperationFailed("status 503", "busy")
    assert fed(worker.client(0), [failure, b"page"]) == (6, {})
    assert worker.progress() == (6, 6)
    found = verified(worker, failure)
    assert (found.checked, found.wrong) == (1, 1)
    assert "busy" in found.first_wrong


@pytest.mark.parametrize(
    "given", [{"requests": 0}, {"requests": "many"}, {"request": 5}, {"changing": 7}]
)
def test_parameters_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        parameters.check(given)
