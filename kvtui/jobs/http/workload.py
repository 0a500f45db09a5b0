"""A number of requests for one page, shared out evenly over the clients.

Every reply's body is compared with the first one, byte by byte: with a page of 4 KB
that costs less than a tenth of a microsecond, in the client's own time, and no digest
is as sure. Verifying reads the page once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from kvtui.errors import OperationFailed
from kvtui.jobs.http import parameters
from kvtui.jobs.workload import Findings, Keep, Keeper, Prepared, Workload
from kvtui.stores.operations import Client, Get

PAGE: Final = b""
"""The key of the page that the store itself names."""
CHANGED: Final = "bodies changed"
"""The figure that says how many replies had another body than the first."""


class HttpWorkload(Workload):
    """GET a page, so many times."""

    name: ClassVar[str] = "http"
    namespace: ClassVar[str] = "http"
    writes: ClassVar[bool] = False
    kinds: ClassVar[frozenset[str]] = frozenset({"http", "null"})
    stages: ClassVar[bool] = True

    def __init__(self, given: dict[str, Any], directory: Path) -> None:
        self.parameters = parameters.check(given)
        self._shares: dict[int, int] = {}
        self._done: dict[int, int] = {}
        self._body: bytes | None = None
        """The first that came to this worker."""
        self._changed: dict[int, int] = {}
        self._findings = Findings()

    @classmethod
    def check(cls, given: dict[str, Any]) -> None:
        """Raise UsageError for parameters that make no sense."""
        parameters.check(given)

    @classmethod
    def prepare(
        cls, given: dict[str, Any], directory: Path, progress: Callable[[int], None]
    ) -> Prepared:
        """There is no input to read."""
        return Prepared({})

    @property
    def needs(self) -> frozenset[str]:
        """A get is all; :attr:`kinds` says of whom."""
        return frozenset()

    def load(self, mine: Sequence[int], clients: int, *, keeps: bool) -> None:
        """Each client's share of the requests; the first ones ask once more than the
        others where they do not come out even."""
        each, more = divmod(self.parameters.requests, clients)
        self._shares = {index: each + (index < more) for index in mine}
        self._done = dict.fromkeys(mine, 0)
        self._changed = dict.fromkeys(mine, 0)

    def client(self, index: int) -> Client:
        """Asks its share; a reply is compared once its time has been taken."""
        ask, done, changed = Get(PAGE), self._done, self._changed
        for number in range(1, self._shares[index] + 1):
            try:
                body = yield ask
                if body != self._body:
                    if self._body is None:
                        self._body = body
                    else:
                        changed[index] += 1
            except OperationFailed:
                pass
            done[index] = number
        return {CHANGED: changed[index]} if changed[index] else {}

    def progress(self) -> tuple[int, int]:
        """Requests done and to do."""
        return sum(self._done.values()), sum(self._shares.values())

    def verifiers(self, keep: Keep) -> Iterator[list[Client]]:
        """One worker reads the page once more; so does each that saw it change."""
        changed = sum(self._changed.values())
        if 0 in self._shares or (changed and not self.parameters.changing):
            self._findings.expected = 1
            yield [self._verify(changed)]

    def _verify(self, changed: int) -> Client:
        found = self._findings
        problem = ""
        try:
            body = yield Get(PAGE)
            found.stored_bytes = len(body or b"")
            if body is None:
                problem = "there is no page any more"
            elif not self.parameters.changing:
                problem = self._difference(body, changed)
        except OperationFailed as error:
            problem = error.message
        found.checked = 1
        if problem:
            found.wrong, found.first_wrong = 1, f"the page: {problem}"
        return None

    def _difference(self, body: bytes, changed: int) -> str:
        hint = "; --set changing=true where the page is meant to change"
        if changed:
            total = sum(self._done.values())
            return f"{changed:,} of {total:,} replies differ from the first one{hint}"
        if self._body is not None and body != self._body:
            return (
                f"{len(body):,} bytes when read once more, {len(self._body):,} in the"
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
