"""The HTTP workload: shares that come out even, and bodies that are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from kvtui import secrets
from kvtui.errors import ConfigError, DataError, OperationFailed, UsageError
from kvtui.jobs.http import headers, parameters
from kvtui.jobs.http.workload import CHANGED, FOLLOWED, HttpWorkload
from kvtui.stores.operations import Client, Get, Request, Response


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


PAGES = ["/a 3", "/b", "/c?x=1 6"]


def asked_of(workload: HttpWorkload, index: int, replies: dict[bytes, Any]) -> Any:
    """What a client asks, in order, and its figures; each page has its reply."""
    return played(workload.client(index), replies)


def played(client: Client, replies: dict[bytes, Any]) -> Any:
    """The same for a client that is there."""
    asked: list[Any] = []
    try:
        operation = next(client)
        while True:
            asked.append(operation)
            reply = replies[operation.key]
            reply = reply.pop(0) if isinstance(reply, list) else reply
            if isinstance(reply, Exception):
                operation = client.throw(reply)
            else:
                operation = client.send(reply)
    except StopIteration as ended:
        return asked, ended.value


def test_each_client_has_its_own_sequence_and_the_seed_decides_it() -> None:
    """Whoever hosts it, however many others there are, and whatever the replies."""

    def order(index: int, mine: list[int], seed: int) -> list[int]:
        workload = opened(mine, 8, requests=8, urls=PAGES, seed=seed)
        return list(islice(workload.order(index), 3000))

    first = order(2, [0, 2, 4], 1)
    assert first == order(2, [2], 1)
    assert first != order(4, [0, 2, 4], 1)
    assert first != order(2, [2], 2)
    counts = Counter(first)
    for page, weight in enumerate((3, 1, 6)):
        # Five standard deviations of a binomial draw.
        expected, share = 3000 * weight / 10, weight / 10
        assert abs(counts[page] - expected) < 5 * (expected * (1 - share)) ** 0.5


def test_each_page_is_compared_with_its_own_first_body_and_counted() -> None:
    workload = opened([0], 1, requests=40, urls=PAGES)
    busy = OperationFailed("status 503", "busy")
    replies = {b"/a": b"a", b"/b": [b"b"] + [b"other"] * 39, b"/c?x=1": b"c"}
    asked, figures = asked_of(workload, 0, replies)
    assert len(asked) == 40
    assert {type(each) for each in asked} == {Get}
    counts = Counter(each.key for each in asked)
    assert figures == {
        "replies of /a": counts[b"/a"],
        "replies of /b": counts[b"/b"],
        "replies of /c?x=1": counts[b"/c?x=1"],
        CHANGED: counts[b"/b"] - 1,
    }
    for (client,) in workload.verifiers(lambda number, record: None):
        played(client, {b"/a": b"a", b"/b": b"x", b"/c?x=1": b"x"})
    found = workload.findings
    assert (found.checked, found.expected, found.wrong) == (3, 3, 2)
    assert f"the page /b: {counts[b'/b'] - 1} replies differ" in found.first_wrong
    workload = opened([0], 1, requests=40, urls=PAGES)
    _, figures = asked_of(workload, 0, dict.fromkeys((b"/a", b"/b", b"/c?x=1"), busy))
    assert set(figures.values()) == {0}
    assert workload.progress() == (40, 40)


def test_many_pages_have_figures_for_the_first_of_them() -> None:
    workload = opened([0], 1, requests=5, urls=[f"/{n}" for n in range(120)])
    asked, figures = asked_of(workload, 0, {b"/%d" % n: b"" for n in range(120)})
    assert len(figures) == 51
    assert sum(figures.values()) == 5 == len(asked)
    assert "replies of 70 other pages" in figures


def test_redirects_are_a_figure_of_those_who_follow_them() -> None:
    workload = opened([0], 1, requests=6, follow=True)
    asked, figures = asked_of(workload, 0, {b"": Response(200, b"page", 2)})
    assert asked == [Request(b"", "GET", follow=True)] * 6
    assert figures == {FOLLOWED: 12}
    for (client,) in workload.verifiers(lambda number, record: None):
        played(client, {b"": Response(200, b"page", 2)})
    assert (workload.findings.checked, workload.findings.wrong) == (1, 0)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "PURGE"])
def test_what_changes_something_is_not_verified_by_doing_it_again(method: str) -> None:
    workload = opened([0], 1, requests=4, method=method)
    replies = [Response(200, b"1"), Response(200, b"2")] * 2
    assert asked_of(workload, 0, {b"": replies})[1] == {CHANGED: 2}
    assert not list(workload.verifiers(lambda number, record: None))
    assert workload.findings.expected == 0


def test_a_body_is_what_it_was_when_the_run_began(tmp_path: Path) -> None:
    body = tmp_path / "body"
    body.write_bytes(b"first\r\n")
    given = {"requests": 1, "body": str(body), "headers": ["X-A: b"]}
    prepared = HttpWorkload.prepare(given, tmp_path / "prepared", lambda _: None)
    assert prepared.facts == {"source": str(body), "body bytes": 7}
    body.write_bytes(b"second")
    made = HttpWorkload(given, tmp_path / "prepared")
    made.load([0], 1, keeps=True)
    fields = (("X-A", "b"), ("Content-Type", parameters.CONTENT_TYPE))
    assert made._asks == [Request(b"", "POST", fields, b"first\r\n")]
    body.unlink()
    with pytest.raises(DataError, match=r"body cannot be read"):
        HttpWorkload.prepare(given, tmp_path / "other", lambda _: None)


def test_a_secret_is_found_where_it_is_kept_and_hidden_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVTUI_TEST_TOKEN", "grue-in-the-dark")
    kept = tmp_path / "cookie"
    kept.write_text("twisty-little-passage\n")
    words = [
        "Authorization: Bearer env:KVTUI_TEST_TOKEN",
        f"Cookie: sid=file:{kept}",
        "X-Plain: a: b",
        "X-Empty:",
    ]
    fields = headers.parsed(words)
    assert [each.secret for each in fields] == [True, True, False, False]
    assert headers.resolved(fields) == (
        ("Authorization", "Bearer grue-in-the-dark"),
        ("Cookie", "sid=twisty-little-passage"),
        ("X-Plain", "a: b"),
        ("X-Empty", ""),
    )
    told = secrets.hidden("grue-in-the-dark and twisty-little-passage")
    assert told == f"{secrets.HIDDEN} and {secrets.HIDDEN}"
    secrets.forget()
    # What it holds must not become a second header, or a second request.
    kept.write_text("a\r\nHost: evil\r\n\r\nGET / HTTP/1.1")
    with pytest.raises(UsageError, match="line's end") as caught:
        headers.resolved(fields)
    assert "evil" not in caught.value.message
    kept.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        headers.resolved(fields)
    secrets.forget()


@pytest.mark.parametrize(
    "given",
    [
        {"method": "get"},
        {"method": "CONNECT"},
        {"method": "HEAD", "body": "/x"},
        {"content_type": "a/b"},
        {"content_type": "a\r\nb: c", "body": "/x"},
        {"content_type": "a/b", "body": "/x", "headers": ["content-type: c/d"]},
        {"urls": ["/a", "/a 2"]},
        {"urls": [f"/{n}" for n in range(10_001)]},
        {"urls": ["a"]},
        {"urls": ["/a b"]},
        {"urls": ["/a 0"]},
        {"urls": ["/\u00e9"]},
        {"headers": ["Host: a", "host: b"]},
        {"headers": ["Authorization: secret"]},
        {"headers": ["Authorization: env:not-a-name"]},
        {"headers": ["\r\nA: b"]},
        {"headers": ["A: b\0"]},
    ],
)
def test_requests_that_make_no_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        parameters.check(given)
    secrets.forget()
