"""The fan-page job end to end in one process, against the naive count."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from kvtui.engine import calls
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.errors import OperationFailed, UsageError
from kvtui.jobs import registry
from kvtui.jobs.fans import parameters, workload
from kvtui.jobs.fans.workload import FansWorkload
from kvtui.stores.null import NullStore
from kvtui.stores.operations import key
from kvtui.stores.ram import RamStore
from kvtui.stores.store import Store
from tests.engine.sums import Sums, sums
from tests.jobs.fans.people import NASTY, compiled, counted

MODES = list(parameters.MODES)


def crowd(number: int, pages: int, seed: int = 1) -> list[list[str]]:
    """People with some pages that many have, and names that bite."""
    draw = random.Random(seed)
    table = [f"http://ex.test/{n}" for n in range(pages)] + NASTY
    people = []
    for _ in range(number):
        length = min(len(table), 1 + int(draw.expovariate(1 / 7)))
        weights = [1 / (1 + rank) for rank in range(len(table))]
        chosen = dict.fromkeys(draw.choices(table, weights, k=length))
        people.append(["hot", *chosen])
    return people


PEOPLE = crowd(150, 60)
UPDATES = sum(len(set(pages)) for pages in PEOPLE)


class Job:
    """The job on one store, as a worker with ``clients`` clients does it."""

    def __init__(
        self,
        directory: Path,
        store: Store,
        mode: str,
        clients: int,
        people: list[list[str]] = PEOPLE,
        **given: Any,
    ) -> None:
        self.dataset = compiled(people, directory)
        self.people = people
        self.store = store
        self.clients = clients
        self.workload = FansWorkload(
            {"data": "x", "mode": mode, **given}, directory / "prepared"
        )
        self.workload.load(range(clients), clients, keeps=store.info().keeps)
        self.sums = Sums()
        self.figures: dict[str, int] = {}
        self.kept: dict[str, bytes] = {}

    def run(self, mine: Iterable[int] | None = None) -> dict[str, int]:
        """The measure phase; the clients' figures."""
        chosen = list(range(self.clients) if mine is None else mine)
        recorder = Recorder(len(chosen))
        self.figures = calls.run(
            [self.workload.client(index) for index in chosen],
            [self.store] * len(chosen),
            recorder,
            Control(),
        )
        self.sums = sums(recorder)
        return self.figures

    def verify(self) -> Any:
        """Read everything back; what was found."""

        def keep(number: int, record: bytes) -> None:
            page = self.dataset.page(number).decode()
            assert page not in self.kept
            self.kept[page] = record

        for clients in self.workload.verifiers(keep):
            assert len(clients) <= self.clients
            calls.run(
                clients, [self.store] * len(clients), Recorder(len(clients)), Control()
            )
        return self.workload.findings

    def page(self, name: str) -> bytes:
        """The key of a page."""
        return key("fans", name.encode())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("clients", [1, 3, 8])
def test_the_result_is_the_naive_count(tmp_path: Path, mode: str, clients: int) -> None:
    """034: exact, at any level of parallelism."""
    job = Job(tmp_path, RamStore({}), mode, clients)
    assert job.workload.progress() == (0, UPDATES)
    job.run()
    assert job.workload.progress() == (UPDATES, UPDATES)
    found = job.verify()
    answer = counted(PEOPLE)
    assert (found.checked, found.expected, found.wrong) == (
        len(answer),
        len(answer),
        0,
    )
    assert found.first_wrong == ""
    assert found.stored_bytes == sum(len(raw) for raw in job.kept.values())
    assert {page: orjson.loads(raw) for page, raw in job.kept.items()} == answer
    if mode == "record":
        assert job.sums.attempted == 2 * UPDATES
        assert job.sums.miss == len(answer)
    elif mode == "native":
        assert job.sums.attempted == job.sums.ok == UPDATES


@pytest.mark.parametrize("clients", [1, 3, 8])
@pytest.mark.parametrize("room", [1, 2_000, 20_000, 10**9])
def test_a_small_cache_changes_the_operations_and_not_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clients: int, room: int
) -> None:
    job = Job(tmp_path, RamStore({}), "cached", clients)
    changed = parameters.FansParameters("x", mode="cached", cache_mb=room / 1e6)
    monkeypatch.setattr(job.workload, "parameters", changed)
    figures = job.run()
    assert job.verify().wrong == 0
    answer = counted(PEOPLE)
    assert {page: orjson.loads(raw) for page, raw in job.kept.items()} == answer
    assert figures["cache lookups"] == UPDATES
    assert figures["saved operations"] == 2 * UPDATES - job.sums.attempted
    hits, gets = figures["cache hits"], UPDATES - figures["cache hits"]
    # Every record that left the cache was written, and read again if wanted.
    assert job.sums.attempted == 2 * gets
    if room == 10**9:
        assert gets == len(answer)
    if room == 1:
        assert hits < UPDATES / 2


def test_the_cache_keeps_its_bound(tmp_path: Path) -> None:
    """What it estimates to hold goes beyond the bound by one record at most."""
    job = Job(tmp_path, RamStore({}), "cached", 1)
    room = 30_000
    job.workload.parameters = parameters.FansParameters(
        "x", mode="cached", cache_mb=room / 1e6
    )
    client: Any = job.workload.client(0)
    reply: Any = None
    highest = largest = 0
    try:
        while True:
            operation = client.send(reply)
            cache = client.gi_frame.f_locals["cache"]
            held = [
                workload._RECORD_BYTES + workload._ENTRY_BYTES * len(each["pages"])
                for each in cache.values()
            ]
            highest = max(highest, sum(held))
            largest = max(largest, *held, 0)
            if type(operation).__name__ == "Get":
                reply = job.store.get(operation.key)
            else:
                reply = job.store.put(operation.key, operation.value)
    except StopIteration:
        pass
    assert room / 2 < highest <= room + largest


@pytest.mark.parametrize("mode", MODES)
def test_more_clients_than_pages(tmp_path: Path, mode: str) -> None:
    """064."""
    job = Job(tmp_path, RamStore({}), mode, 50, [["x", "y"], ["y"]])
    job.run()
    found = job.verify()
    assert (found.checked, found.expected, found.wrong) == (2, 2, 0)


@pytest.mark.parametrize("mode", MODES)
def test_people_without_pages_are_no_trouble(tmp_path: Path, mode: str) -> None:
    """106."""
    people: list[list[str]] = [[], ["x"], [], ["x", "y"]]
    job = Job(tmp_path, RamStore({}), mode, 2, people)
    job.run()
    assert job.verify().wrong == 0
    assert orjson.loads(job.kept["x"]) == {"page": "x", "fans": 2, "pages": {"y": 1}}


@pytest.mark.parametrize("mode", MODES)
def test_shares_of_several_workers_make_the_whole(tmp_path: Path, mode: str) -> None:
    """Each worker loads and verifies its own clients' pages only."""
    store, clients, shares = RamStore({}), 8, [(0, 2, 4, 6), (1, 3, 5, 7)]
    checked = expected = total = 0
    kept: dict[str, bytes] = {}
    for number, mine in enumerate(shares):
        job = Job(tmp_path / str(number), store, mode, clients)
        job.workload = FansWorkload(
            {"data": "x", "mode": mode}, tmp_path / str(number) / "prepared"
        )
        job.workload.load(mine, clients, keeps=True)
        job.run(mine)
        total += job.workload.progress()[1]
        found = job.verify()
        assert found.wrong == 0
        checked += found.checked
        expected += found.expected
        assert not kept.keys() & job.kept.keys()
        kept |= job.kept
    answer = counted(PEOPLE)
    assert checked == expected == len(answer)
    assert total == UPDATES
    assert {page: orjson.loads(raw) for page, raw in kept.items()} == answer


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_lost_on_a_store_that_keeps_nothing(
    tmp_path: Path, mode: str
) -> None:
    """On null every get is a miss, which is no loss there."""
    job = Job(tmp_path, NullStore({}), mode, 3)
    figures = job.run()
    assert "records lost" not in figures
    assert job.workload.progress() == (UPDATES, UPDATES)
    if mode == "record":
        assert job.sums.attempted == 2 * UPDATES


Spoil = Callable[[Job, str], None]


def another_count(job: Job, page: str) -> None:
    """One shared count is one too many."""
    record = orjson.loads(job.store.get(job.page(page)) or b"")
    other = next(iter(record["pages"]))
    record["pages"][other] += 1
    job.store.put(job.page(page), orjson.dumps(record))


def another_number_of_fans(job: Job, page: str) -> None:
    """The fans are one too few."""
    record = orjson.loads(job.store.get(job.page(page)) or b"")
    record["fans"] -= 1
    job.store.put(job.page(page), orjson.dumps(record))


def an_extra_page(job: Job, page: str) -> None:
    """A page that nobody shares."""
    record = orjson.loads(job.store.get(job.page(page)) or b"")
    record["pages"]["http://ex.test/extra"] = 1
    job.store.put(job.page(page), orjson.dumps(record))


def a_page_less(job: Job, page: str) -> None:
    """One shared page is missing."""
    record = orjson.loads(job.store.get(job.page(page)) or b"")
    del record["pages"][next(iter(record["pages"]))]
    job.store.put(job.page(page), orjson.dumps(record))


def no_record(job: Job, page: str) -> None:
    """The store has lost it."""
    assert job.store.delete(job.page(page))


def half_a_record(job: Job, page: str) -> None:
    """017: cut off."""
    raw = job.store.get(job.page(page)) or b""
    job.store.put(job.page(page), raw[: len(raw) // 2])


def another_record(job: Job, page: str) -> None:
    """Another page's record stands there."""
    raw = job.store.get(job.page("http://ex.test/1"))
    job.store.put(job.page(page), raw or b"")


def one_bit(job: Job, page: str) -> None:
    """A single digit has changed."""
    raw = job.store.get(job.page(page)) or b""
    at = raw.rindex(b":") + 1
    job.store.put(job.page(page), raw[:at] + b"7" + raw[at:])


SPOILS = [
    (another_count, "shared fans with"),
    (another_number_of_fans, "fans is"),
    (an_extra_page, "extra"),
    (a_page_less, "shared fans with"),
    (no_record, "no record"),
    (half_a_record, "not JSON"),
    (another_record, "not the record of this page"),
    (one_bit, "shared fans with"),
]


@pytest.mark.parametrize(
    ("spoil", "words"), SPOILS, ids=[spoil.__name__ for spoil, _ in SPOILS]
)
@pytest.mark.parametrize("mode", ["record", "cached"])
@pytest.mark.parametrize("clients", [1, 8])
def test_one_spoilt_record_is_found_and_named(
    tmp_path: Path, spoil: Spoil, words: str, mode: str, clients: int
) -> None:
    job = Job(tmp_path, RamStore({}), mode, clients)
    job.run()
    spoil(job, "http://ex.test/3")
    found = job.verify()
    assert found.checked == found.expected
    assert found.wrong == 1
    assert found.first_wrong.startswith("http://ex.test/3: ")
    assert words in found.first_wrong


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (((b"http://ex.test/0", 1),), "shared fans with 'http://ex.test/0'"),
        (((b"http://ex.test/3", -1),), "fans is"),
        (((b"extra", 1),), "'extra'"),
        (((b"\xff", 1),), "utf-8"),
    ],
)
def test_a_spoilt_counter_is_found_and_named(
    tmp_path: Path, counts: tuple[tuple[bytes, int], ...], words: str
) -> None:
    job = Job(tmp_path, RamStore({}), "native", 3)
    job.run()
    job.store.add(job.page("http://ex.test/3"), counts)
    found = job.verify()
    assert found.wrong == 1
    assert found.first_wrong.startswith("http://ex.test/3: ")
    assert words in found.first_wrong
    job = Job(tmp_path / "again", RamStore({}), "native", 3)
    job.run()
    job.store.delete(job.page("hot"))
    assert job.verify().first_wrong == "hot: the store has no record"


def test_every_spoilt_record_is_counted(tmp_path: Path) -> None:
    job = Job(tmp_path, RamStore({}), "record", 3)
    job.run()
    for number in range(5):
        job.store.delete(job.page(f"http://ex.test/{number}"))
    found = job.verify()
    assert found.wrong == 5
    assert found.checked == len(counted(PEOPLE))


def test_verifying_in_small_slices_checks_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, RamStore({}), "record", 2)
    job.run()
    changed = parameters.FansParameters("x", verify_mb=0.002)
    monkeypatch.setattr(job.workload, "parameters", changed)
    found = job.verify()
    assert (found.checked, found.wrong) == (len(counted(PEOPLE)), 0)


class Forgetful(RamStore):
    """Loses one record after some puts, in silence."""

    def __init__(self, where: bytes, after: int) -> None:
        super().__init__({})
        self.left = after
        self.where = where
        real = self.put

        def put(where: bytes, value: bytes) -> None:
            real(where, value)
            if where == self.where:
                self.left -= 1
                if self.left == 0:
                    self.delete(where)

        self.__dict__["put"] = put


def test_a_record_lost_on_the_way_does_not_begin_again_at_one(tmp_path: Path) -> None:
    """014: later reads of it are a loss, not a new page."""
    job = Job(tmp_path, Forgetful(key("fans", b"hot"), 40), "record", 3)
    figures = job.run()
    assert figures["records lost"] == 1
    assert figures["updates skipped"] == len(PEOPLE) - 41
    assert job.workload.progress() == (UPDATES, UPDATES)
    found = job.verify()
    assert (found.wrong, found.first_wrong) == (1, "hot: the store has no record")


def test_a_record_evicted_from_cache_and_store_is_a_loss(tmp_path: Path) -> None:
    job = Job(tmp_path, Forgetful(key("fans", b"hot"), 20), "cached", 3)
    job.workload.parameters = parameters.FansParameters(
        "x", mode="cached", cache_mb=1e-6
    )
    assert job.run()["records lost"] == 1
    assert job.verify().wrong == 1


class Refusing(RamStore):
    """Refuses what concerns one record."""

    def __init__(self, where: bytes, *calls: str) -> None:
        super().__init__({})

        def refuse(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
            def call(asked: bytes, *more: Any) -> Any:
                if asked == where:
                    raise OperationFailed("server-error", "WRONGTYPE refused")
                return real(asked, *more)

            return call

        for name in calls:
            self.__dict__[name] = refuse(name, getattr(self, name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", ["get", "put", "add"])
def test_a_refused_record_is_lost_and_all_others_are_exact(
    tmp_path: Path, mode: str, call: str
) -> None:
    """020, 014: one failure, and the page is not begun anew."""
    job = Job(tmp_path, Refusing(key("fans", b"hot"), call), mode, 3)
    figures = job.run()
    assert job.workload.progress() == (UPDATES, UPDATES)
    touched = (call == "add") == (mode == "native")
    assert figures.get("records lost", 0) == (1 if touched else 0)
    assert (job.sums.failures > 0) is touched
    for name in ("get", "put", "add"):
        if name != call:
            continue
        # Verifying asks the same store.
        found = job.verify()
        assert found.wrong == (1 if touched else 0)
        if touched:
            assert found.first_wrong.startswith("hot: ")


@pytest.mark.parametrize("mode", ["record", "cached"])
@pytest.mark.parametrize(
    "junk", [b"", b"junk", b'{"page":"hot","fans":1,"pages":{"http://ex.test/0":"x"}}']
)
def test_a_damaged_record_is_lost_and_all_others_are_exact(
    tmp_path: Path, mode: str, junk: bytes
) -> None:
    store = RamStore({})
    store.put(key("fans", b"hot"), junk)
    job = Job(tmp_path, store, mode, 3)
    assert job.run()["records lost"] == 1
    found = job.verify()
    assert found.wrong == 1
    assert found.first_wrong.startswith("hot: ")


def test_the_parameters_are_checked() -> None:
    """065."""
    for given, word in (
        ({}, "data"),
        ({"data": "x", "mode": "fast"}, "mode"),
        ({"data": "x", "first": 0}, "first"),
        ({"data": "x", "first": -4}, "first"),
        ({"data": "x", "first": "many"}, "first"),
        ({"data": "x", "cache_mb": 0}, "cache_mb"),
        ({"data": "x", "cache_mb": -1}, "cache_mb"),
        ({"data": "x", "cache_mb": float("nan")}, "cache_mb"),
        ({"data": "x", "cache_mb": float("inf")}, "cache_mb"),
        ({"data": "x", "cache_mb": "big"}, "cache_mb"),
        ({"data": "x", "verify_mb": 1}, "verify_mb"),
        ({"data": "x", "verify_mb": 10**9}, "verify_mb"),
        ({"data": "x", "moed": "record"}, "moed"),
        ({"data": 5}, "data"),
    ):
        with pytest.raises(UsageError) as caught:
            FansWorkload.check(given)
        assert word in caught.value.message
    FansWorkload.check({"data": "x", "first": "10", "cache_mb": "1.5"})


def test_an_unknown_workload_is_said() -> None:
    with pytest.raises(UsageError) as caught:
        registry.workload_class("fan")
    assert "fans" in (caught.value.hint or "")


def test_what_a_store_must_offer_depends_on_the_mode(tmp_path: Path) -> None:
    for mode, needs in (("record", set()), ("cached", set()), ("native", {"add"})):
        made = Job(tmp_path / mode, RamStore({}), mode, 1, [["x"]])
        assert made.workload.needs == needs
