"""A number of requests for one page or several, shared out evenly over the clients.

Every reply's body is compared with the first one of its page, byte by byte: with a
page of 4 KB that costs less than a tenth of a microsecond, in the client's own time,
and no digest is as sure. Verifying reads each page once more, unless that would
change something on the server.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Final

from kvtui.errors import DataError, OperationFailed
from kvtui.jobs.http import headers, parameters
from kvtui.jobs.workload import Findings, Keep, Keeper, Prepared, Workload
from kvtui.stores.operations import Client, Get, Request, Response

PAGE: Final = b""
"""The key of the page that the store itself names."""
CHANGED: Final = "bodies changed"
"""The figure that says how many replies had another body than the first."""
FOLLOWED: Final = "redirects followed"
SHOWN_PAGES: Final = 50
"""Pages whose replies are figures of their own."""
BODY_FILE: Final = "body"
_DRAWN: Final = 1024
"""Pages drawn at once: a draw by itself costs several times as much."""


class HttpWorkload(Workload):
    """Ask for a page, so many times."""

    name: ClassVar[str] = "http"
    namespace: ClassVar[str] = "http"
    writes: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"http", "null"})
    stages: ClassVar[bool] = True

    def __init__(self, given: dict[str, Any], directory: Path) -> None:
        self.parameters = parameters.check(given)
        self._directory = directory
        self._pages = self.parameters.pages
        self._asks: list[Get | Request] = []
        self._shares: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._bodies: list[bytes | None] = [None] * max(1, len(self._pages))
        """Of each page, the first that came to this worker."""
        self._changed: dict[int, dict[int, int]] = {}
        """By client and page."""
        self._findings = Findings()

    @classmethod
    def check(cls, given: dict[str, Any]) -> None:
        """Raise UsageError for parameters that make no sense."""
        parameters.check(given)

    @classmethod
    def prepare(
        cls, given: dict[str, Any], directory: Path, progress: Callable[[int], None]
    ) -> Prepared:
        """Keep a copy of the body, so that every trial sends the same."""
        asked = parameters.check(given)
        headers.resolved(asked.fields)  # Also so that this process can hide them.
        if not asked.body:
            return Prepared({})
        path = Path(asked.body)
        try:
            size = path.stat().st_size
            if size > parameters.BODY_LIMIT_BYTES:
                limit = parameters.BODY_LIMIT_BYTES
                raise DataError(f"{path} has {size:,} bytes; a body may have {limit:,}")
            directory.mkdir(exist_ok=True)
            shutil.copyfile(path, directory / BODY_FILE)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}") from None
        size = (directory / BODY_FILE).stat().st_size
        return Prepared({"source": asked.body, "body bytes": size})

    @property
    def needs(self) -> frozenset[str]:
        """Nothing special; :attr:`kinds` says of whom."""
        return frozenset()

    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Each client's share of the requests; the first ones ask once more than the
        others where they do not come out even."""
        each, more = divmod(self.parameters.requests, clients)
        self._shares = {index: each + (index < more) for index in mine}
        self._done = dict.fromkeys(mine, 0)
        self._changed = {index: {} for index in mine}
        self._asks = self._made()

    def _made(self) -> list[Get | Request]:
        """What is asked for each page."""
        asked = self.parameters
        fields = headers.resolved(asked.fields)
        paths = [page.path.encode() for page in self._pages] or [PAGE]
        if asked.verb == "GET" and not (fields or asked.body or asked.follow):
            return [Get(path) for path in paths]
        body = (self._directory / BODY_FILE).read_bytes() if asked.body else None
        return [Request(path, asked.verb, fields, body, asked.follow) for path in paths]

    def client(self, index: int) -> Client:
        """Asks its share; a reply is compared once its time has been taken."""
        if len(self._asks) == 1 and isinstance(self._asks[0], Get):
            return self._plain(index, self._asks[0])
        return self._any(index)

    def _plain(self, index: int, ask: Get) -> Client:
        """The usual client, with nothing that it does not need."""
        done, bodies, changed = self._done, self._bodies, 0
        for number in range(1, self._shares[index] + 1):
            try:
                body = yield ask
                if body != bodies[0]:
                    if bodies[0] is None:
                        bodies[0] = body
                    else:
                        changed += 1
                        self._changed[index][0] = changed
            except OperationFailed:
                pass
            done[index] = number
        return {CHANGED: changed} if changed else {}

    def _any(self, index: int) -> Client:
        asks, bodies, changed = self._asks, self._bodies, self._changed[index]
        replies: dict[int, int] = {}
        hops = 0
        order = islice(self.order(index), self._shares[index])
        for number, page in enumerate(order, 1):
            try:
                reply = yield asks[page]
                body = reply
                if type(reply) is Response:
                    body = reply.body
                    hops += reply.hops
                replies[page] = replies.get(page, 0) + 1
                if body != bodies[page]:
                    if bodies[page] is None:
                        bodies[page] = body
                    else:
                        changed[page] = changed.get(page, 0) + 1
            except OperationFailed:
                pass
            self._done[index] = number
        return self._figures(replies, sum(changed.values()), hops)

    def order(self, index: int) -> Iterator[int]:
        """The pages that a client asks for, by number, without end. Its own sequence,
        and the same for the same seed, whatever the replies are."""
        if len(self._pages) < 2:
            while True:
                yield 0
        dice = Random(f"{self.parameters.seed}:{index}")
        weights = list(accumulate(page.weight for page in self._pages))
        numbers = range(len(weights))
        while True:
            yield from dice.choices(numbers, cum_weights=weights, k=_DRAWN)

    def _figures(
        self, replies: dict[int, int], changed: int, hops: int
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        if len(self._pages) > 1:
            for number, page in enumerate(self._pages[:SHOWN_PAGES]):
                found[f"replies of {page.path}"] = replies.pop(number, 0)
            others = len(self._pages) - SHOWN_PAGES
            if others > 0:
                found[f"replies of {others:,} other pages"] = sum(replies.values())
        if self.parameters.follow:
            found[FOLLOWED] = hops
        if changed:
            found[CHANGED] = changed
        return found

    def progress(self) -> tuple[int, int]:
        """Requests done and to do."""
        return sum(self._done.values()), sum(self._shares.values())

    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """One worker reads the pages once more; each reads those that it saw change."""
        if self.parameters.verb not in parameters.SAFE:
            return
        changed: dict[int, int] = {}
        for each in self._changed.values():
            for page, number in each.items():
                changed[page] = changed.get(page, 0) + number
        again = set(changed) if self.parameters.compares else set()
        if 0 in self._shares:
            again = set(range(len(self._asks)))
        self._findings.expected = len(again)
        if again:
            yield [self._verify(sorted(again), changed)]

    def _verify(self, again: list[int], changed: dict[int, int]) -> Client:
        found = self._findings
        for page in again:
            problem = ""
            try:
                reply = yield self._asks[page]
                body = reply.body if type(reply) is Response else reply
                found.stored_bytes += len(body or b"")
                if body is None:
                    problem = "there is no page any more"
                elif self.parameters.compares:
                    problem = self._difference(body, page, changed.get(page, 0))
            except OperationFailed as error:
                problem = error.message
            found.checked += 1
            if problem:
                found.wrong += 1
                name = self._pages[page].path if self._pages else ""
                found.first_wrong = (
                    found.first_wrong or f"the page{f' {name}' * bool(name)}: {problem}"
                )
        return None

    def _difference(self, body: bytes, page: int, changed: int) -> str:
        hint = "; --set changing=true where the page is meant to change"
        if changed:
            total = sum(self._done.values())
            of_all = f" of {total:,}" if len(self._asks) == 1 else ""
            return f"{changed:,}{of_all} replies differ from the first one{hint}"
        first = self._bodies[page]
        if first is not None and body != first:
            return (
                f"{len(body):,} bytes when read once more, {len(first):,} in the"
                f" first reply, and not the same{hint}"
            )
        return ""

    @property
    def findings(self) -> Findings:
        """What verifying has found so far."""
        return self._findings

    def keeper(self, path: Path, facts: dict[str, str]) -> Keeper | None:
        """A page is nobody's record; no copy is kept."""
        return None
