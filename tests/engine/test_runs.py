"""Real runs, from plan to snapshot, and whatever may happen to them on the way."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import orjson
import psutil
import pytest
import redis

import kvtui
from kvtui import config
from kvtui.engine import launcher
from kvtui.jobs.fans.archive import Archive
from kvtui.jobs.fans.profiles import open_profiles
from kvtui.runs import history, snapshot
from kvtui.runs.history import RunDirectory
from kvtui.runs.plan import RunPlan, StorePlan, WorkloadPlan
from kvtui.runs.state import RunState, TrialState
from kvtui.stores import registry
from kvtui.stores.servers import PrivateServer, private_server
from kvtui.stores.servers import base as servers
from tests.conftest import require_server
from tests.jobs.fans.people import NASTY, counted
from tests.waiting import until

ROOT = Path(kvtui.__file__).parents[1]
REAL = Path(os.environ.get("KVTUI_REAL_DATA", ROOT.parent / "shared" / "data"))
MSWEB = REAL / "msweb" / "anonymous-msweb.data.gz"
TRUTH = REAL.parent / "truth" / "truth-msweb.json"

ONE, TWO_TIMES_FOUR, FIFTY = (1, 1), (2, 8), (1, 50)
"""Workers and clients."""
WORKER = "kvtui.engine.worker"


class World:
    """Where a test's runs happen, and what of them is still there."""

    def __init__(self, state: Path, temporary: Path) -> None:
        self.state = state
        self.temporary = temporary
        self.runs = config.runs_directory()

    def start(self, plan: RunPlan) -> RunDirectory:
        """Start a run in the background, as the command line does."""
        return launcher.start(plan, self.runs)

    def processes(self) -> list[psutil.Process]:
        """Every living process of these runs: runners, workers and servers."""
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            # A server may write its title over its environment, but not over the
            # folder that it works in.
            told = process.environ().get("XDG_STATE_HOME") == str(self.state)
            return bool(told or process.cwd().startswith(str(self.state)))
        except psutil.Error:
            return False

    def workers(self) -> list[psutil.Process]:
        """The living workers."""
        return [each for each in self.processes() if WORKER in words(each)]

    def servers(self) -> list[psutil.Process]:
        """The living private servers."""
        return [each for each in self.processes() if "redis" in each.name()]

    def nothing_left(self, *, leftovers: bool = False) -> None:
        """No process, no private folder, no socket."""
        until(lambda: not self.processes(), f"all is gone: {self.processes()}", 30)
        if not leftovers:
            for run in history.all_runs(self.runs):
                kept = {"plan.json", "journal.jsonl", "snapshot.json", "runner.log"}
                others = [name for name in os.listdir(run.path) if name not in kept]
                assert all(name.startswith("records-") for name in others), others
                assert not [name for name in others if "partial" in name]
            assert os.listdir(self.temporary) == []

    def kill_all(self) -> None:
        """However a test ended."""
        for process in self.processes():
            with contextlib.suppress(psutil.Error):
                process.kill()


def words(process: psutil.Process) -> list[str]:
    """A process's command line."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A state folder and a folder for temporary files of its own."""
    temporary = Path(tempfile.mkdtemp(prefix="kt-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    made = World(tmp_path / "state", temporary)
    try:
        yield made
    finally:
        made.kill_all()
        shutil.rmtree(temporary)


def ended(run: RunDirectory, limit_s: float = 120) -> RunState:
    """The run's state once its runner is gone."""

    def over() -> bool:
        return run.state().outcome is not None and not run.goes_on

    try:
        until(over, f"{run.name} has ended", limit_s)
    except AssertionError as error:
        raise AssertionError(f"{error}; its log: {run.log.read_text()}") from None
    return run.state()


def saved(run: RunDirectory) -> snapshot.Snapshot:
    """The run's snapshot, valid against the schema."""
    document = json.loads(run.snapshot.read_bytes())
    jsonschema.validate(document, snapshot.schema(), jsonschema.Draft202012Validator)
    return snapshot.read(run.snapshot)


def log_is_clean(run: RunDirectory) -> None:
    """No traceback in what runner and workers printed."""
    assert "Traceback" not in run.log.read_text()


MANY_STORES_S = 1200
"""How long a run over all stores may take where tests share two processors."""


def all_stores(
    *, drivers: bool = True, quick: dict[str, dict[str, Any]] | None = None
) -> tuple[StorePlan, ...]:
    """Every store of the table that can be had, and the drivers beside the wire;
    ``quick`` settings of a kind spare a test what it is not about."""
    stores = []
    for profile in registry.BUILT_IN:
        ready = registry.availability(profile).ready
        if not ready or registry.kind(profile.kind).read_only:
            continue
        for client in registry.kind(profile.kind).clients:
            settings: dict[str, Any] = dict(profile.settings)
            settings |= (quick or {}).get(profile.kind, {})
            name = profile.name
            if client != registry.kind(profile.kind).clients[0] and not drivers:
                continue
            if client != registry.kind(profile.kind).clients[0]:
                settings["client"] = client
                name = f"{name}:client={client}"
            stores.append(StorePlan(name, profile.kind, settings, profile.private))
    return tuple(stores)


REDIS = StorePlan("redis-unix", "redis", {"transport": "unix"}, True)
DRIVER = StorePlan("driver", "redis", {"transport": "unix", "client": "driver"}, True)
RAM = StorePlan("ram", "ram")
NULL = StorePlan("null", "null")


def plan(data: Path, *stores: StorePlan, mode: str = "record", **more: Any) -> RunPlan:
    """The fan-page job on those stores."""
    given = {"data": str(data), "mode": mode} | more.pop("given", {})
    return RunPlan(WorkloadPlan("fans", given), stores, **more)


def write_people(people: list[list[str]], path: Path) -> Path:
    """A profile file."""
    lines = [json.dumps({"pages": pages}) + "\n" for pages in people]
    path.write_text("".join(lines))
    return path


@pytest.fixture
def few(tmp_path: Path) -> tuple[Path, list[list[str]]]:
    """A small file with names that bite, and the people in it."""
    draw = random.Random(7)
    table = [f"http://ex.test/{number}" for number in range(30)] + NASTY
    people = [
        ["hot", *draw.sample(table, draw.randrange(1, 14))] for _ in range(120)
    ] + [["alone"]]
    return write_people(people, tmp_path / "few.jsonl"), people


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Enough updates that a run can be met in the middle; records stay small."""
    draw = random.Random(8)
    table = [f"http://ex.test/{number}" for number in range(300)]
    people = [
        ["hot", *draw.sample(table[n % 290 : n % 290 + 10], 5)] for n in range(6000)
    ]
    return write_people(people, tmp_path / "many.jsonl")


TIGHT_BYTES = 1_950_000
"""Room enough by the records alone, and too little with what a server adds."""


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """2.2 MB of records: more than the small limits of memory below can hold."""
    people = [[f"own {n}", "x" * 200 + str(n), f"shared {n % 10}"] for n in range(3000)]
    return write_people(people, tmp_path / "wide.jsonl")


def records(run: RunDirectory, trial: TrialState) -> dict[str, Any]:
    """What a trial's store held, by page."""
    archive = Archive(run.records(trial.number))
    try:
        return {page: orjson.loads(raw) for page, raw in archive.raw_records()}
    finally:
        archive.close()


def digests(held: dict[str, Any]) -> tuple[str, str]:
    """As the truth files have them: over items, and over pairs."""
    items, pairs = hashlib.sha256(), hashlib.sha256()
    numbered = sorted((int(page), record) for page, record in held.items())
    for page, record in numbered:
        items.update(b"%d\t%d\n" % (page, record["fans"]))
        others = sorted((int(name), count) for name, count in record["pages"].items())
        for other, count in others:
            if page < other:
                pairs.update(b"%d\t%d\t%d\n" % (page, other, count))
    return items.hexdigest(), pairs.hexdigest()


def good(run: RunDirectory, state: RunState, clients: int, workers: int) -> None:
    """Every trial done, added up, verified, ranked; and saved so."""
    assert state.outcome == "done"
    log_is_clean(run)
    document = saved(run)
    assert document.outcome == "done"
    for trial, kept in zip(state.trials, document.trials, strict=True):
        assert trial.outcome == "done", (trial.store, trial.reason)
        assert trial.measured is not None
        assert trial.seen is not None
        measured, answered = trial.measured, trial.ok + trial.miss
        assert measured.attempted == answered + trial.failed + measured.unfinished
        assert (trial.failed, measured.unfinished, measured.stopped) == (0, 0, False)
        assert trial.clients == kept.clients == clients
        shared = registry.kind(trial.store.partition("-")[0].partition(":")[0])
        alone = shared.shared_by_threads
        assert trial.workers == (1 if alone else workers)
        assert trial.done == trial.total > 0
        assert trial.elapsed_s is not None
        assert trial.throughput is not None
        assert kept.throughput_per_s == pytest.approx(answered / trial.elapsed_s)
        for label, totals in trial.operations.items():
            figures = kept.operations[label]
            assert figures.ok == totals.ok == figures.latency.count
            assert figures.miss == totals.miss == figures.miss_latency.count
        if not trial.keeps:
            assert trial.store == "null"
            assert not kept.ranked
            continue
        assert trial.verified is not None
        assert trial.verified.wrong == 0, trial.verified.first_wrong
        assert trial.verified.checked == trial.verified.expected
        assert trial.kept_everything
        assert kept.ranked
        assert kept.verified is True
        assert kept.records_file == run.records(trial.number).name


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("record", FIFTY),
        ("cached", TWO_TIMES_FOUR),
        ("native", TWO_TIMES_FOUR),
    ],
)
def test_every_store_holds_the_exact_answer(
    world: World,
    few: tuple[Path, list[list[str]]],
    mode: str,
    shape: tuple[int, int],
) -> None:
    """At every level of parallelism, in every mode."""
    data, people = few
    workers, clients = shape
    run = world.start(
        plan(data, *all_stores(), mode=mode, workers=workers, clients=clients)
    )
    state = ended(run, MANY_STORES_S)
    good(run, state, clients, workers)
    answer = counted(people)
    for trial in state.trials:
        if trial.keeps:
            assert records(run, trial) == answer, trial.store
    world.nothing_left()


needs_real_people = pytest.mark.skipif(
    not (MSWEB.is_file() and TRUTH.is_file()),
    reason=f"the data set msweb is not at {REAL} (KVTUI_REAL_DATA)",
)


@needs_real_people
@pytest.mark.parametrize(
    ("mode", "shape"),
    [("record", TWO_TIMES_FOUR), ("cached", ONE), ("native", FIFTY)],
)
def test_real_people_on_every_store_give_the_known_digests(
    world: World, mode: str, shape: tuple[int, int]
) -> None:
    workers, clients = shape
    # Whether a commit is flushed changes no count, and costs minutes.
    stores = all_stores(drivers=False, quick={"mysql": {"flush_at_commit": 0}})
    if mode != "cached":
        # mongod's stand-in takes minutes, more than all others together: see below.
        stores = tuple(store for store in stores if store.kind != "mongo")
    run = world.start(
        plan(
            MSWEB,
            *stores,
            mode=mode,
            workers=workers,
            clients=clients,
            given={"first": 10_000},
        )
    )
    state = ended(run, MANY_STORES_S)
    good(run, state, clients, workers)
    slices = json.loads(TRUTH.read_bytes())["slices"]
    truth = slices["first10000"]["digest"]
    for trial in state.trials:
        if trial.keeps:
            found = digests(records(run, trial))
            wanted = (truth["items_sha256"], truth["pairs_sha256"])
            assert found == wanted, trial.store
    world.nothing_left()


@needs_real_people
@pytest.mark.parametrize(
    ("mode", "shape"), [("record", TWO_TIMES_FOUR), ("native", FIFTY)]
)
def test_the_first_real_people_on_mongo_give_the_naive_answer(
    world: World, mode: str, shape: tuple[int, int]
) -> None:
    require_server("mongo")
    workers, clients = shape
    stores = [store for store in all_stores(drivers=False) if store.kind == "mongo"]
    asked = plan(
        MSWEB,
        *stores,
        mode=mode,
        workers=workers,
        clients=clients,
        given={"first": 1500},
    )
    run = world.start(asked)
    state = ended(run, MANY_STORES_S)
    good(run, state, clients, workers)
    answer = counted(list(open_profiles(MSWEB, first=1500)))
    assert records(run, state.trials[0]) == answer
    world.nothing_left()


def measuring(run: RunDirectory, trial: int = 0) -> Callable[[], bool]:
    """Whether that trial is in its measure phase."""

    def check() -> bool:
        found = run.state().trial(trial)
        assert found is None or found.outcome is None, found.reason
        return found is not None and found.phase == "measure"

    return check


def test_repeats_are_trials_of_their_own(
    world: World, few: tuple[Path, list[list[str]]]
) -> None:
    run = world.start(plan(few[0], NULL, RAM, repeat=2, clients=3))
    state = ended(run)
    good(run, state, 3, 1)
    found = [(trial.number, trial.store, trial.repeat) for trial in state.trials]
    assert found == [(0, "null", 1), (1, "ram", 1), (2, "null", 2), (3, "ram", 2)]
    world.nothing_left()


def test_fewer_clients_than_workers_are_not_idle_workers(
    world: World, few: tuple[Path, list[list[str]]]
) -> None:
    """064."""
    require_server("redis")
    run = world.start(plan(few[0], REDIS, workers=8, clients=2))
    state = ended(run)
    good(run, state, 2, 2)
    assert "2 workers" in state.trials[0].note
    world.nothing_left()


def test_data_that_cannot_be_read_ends_the_run_with_its_reason(
    world: World, tmp_path: Path
) -> None:
    run = world.start(plan(tmp_path / "missing.tsv", RAM))
    state = ended(run)
    assert state.outcome == "failed"
    assert "missing.tsv" in state.reason
    assert saved(run).outcome == "failed"
    world.nothing_left()


def test_a_store_that_cannot_be_had_costs_no_other_its_result(
    world: World, few: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    """131."""
    nobody = StorePlan("nobody", "redis", {"path": str(tmp_path / "nobody")})
    run = world.start(plan(few[0], NULL, nobody, RAM))
    state = ended(run)
    outcomes = [trial.outcome for trial in state.trials]
    assert (state.outcome, outcomes) == ("done", ["done", "failed", "done"])
    assert str(tmp_path / "nobody") in state.trials[1].reason
    assert saved(run).trials[1].throughput_per_s is None
    log_is_clean(run)
    world.nothing_left()


def test_the_snapshot_is_saved_where_it_was_asked_for(
    world: World, few: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    run = world.start(plan(few[0], RAM, save_to=str(tmp_path / "mine.json")))
    ended(run)
    assert (tmp_path / "mine.json").read_bytes() == run.snapshot.read_bytes()


def test_what_measured_nothing_has_no_time_and_no_rank(
    world: World, tmp_path: Path
) -> None:
    """Rule 6: people without any page leave nothing to ask of a store."""
    data = tmp_path / "blank.tsv"
    data.write_text("\n\n\n")
    run = world.start(plan(data, NULL, RAM))
    state = ended(run)
    for trial, kept in zip(state.trials, saved(run).trials, strict=True):
        assert trial.outcome == "done"
        assert (kept.elapsed_s, kept.throughput_per_s) == (None, None)
        assert kept.ranked is False
    world.nothing_left()


def test_a_folder_of_somebodys_is_checked_cleared_and_left_clean(
    world: World, few: tuple[Path, list[list[str]]], tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    store = StorePlan("mine", "leveldb", {"directory": str(folder)})
    run = world.start(plan(few[0], store, repeat=2))
    state = ended(run)
    assert all(trial.kept_everything for trial in state.trials)
    assert folder.is_dir()
    ended(world.start(plan(few[0], store, keep=True)))
    state = ended(world.start(plan(few[0], store)))
    assert "--overwrite" in state.trials[0].reason
    state = ended(world.start(plan(few[0], store, clear=True)))
    assert state.trials[0].kept_everything
    opened = registry.adapter("leveldb")(store.settings)
    opened.open()
    assert opened.count("fans") == 0
    opened.close()
    world.nothing_left()


def test_a_limit_of_open_files_is_a_clear_refusal(
    world: World, few: tuple[Path, list[list[str]]]
) -> None:
    """040: needs and has, before the clock runs."""
    require_server("redis")
    run = history.create(world.runs, plan(few[0], REDIS, NULL, clients=100))
    subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -n 64; exec "$0" -m kvtui.engine.runner "$1"',
            sys.executable,
            str(run.path),
        ],
        check=False,
        capture_output=True,
    )
    state = ended(run)
    assert state.trials[0].outcome == "failed"
    assert "64 are allowed" in state.trials[0].reason
    assert state.trials[0].measured is None
    assert saved(run).trials[0].attempted is None
    world.nothing_left()


def test_a_soft_limit_of_open_files_is_raised_for_workers_and_servers(
    world: World, tmp_path: Path
) -> None:
    """040: where the hard one allows it; whatever a server does about its own."""
    data = write_people([["hot", "a"], ["hot", "b"]] * 20, tmp_path / "pages.jsonl")
    stores: dict[str, StorePlan] = {}
    for store in all_stores(drivers=False):
        stores.setdefault(store.kind, store)
    run = history.create(world.runs, plan(data, *stores.values(), clients=100))
    subprocess.run(
        [
            "sh",
            "-c",
            'ulimit -Sn 64; exec "$0" -m kvtui.engine.runner "$1"',
            sys.executable,
            str(run.path),
        ],
        check=False,
        capture_output=True,
    )
    state = ended(run)
    for trial in state.trials:
        assert trial.outcome == "done", (trial.store, trial.reason)
        assert trial.kept_everything or not trial.keeps
    world.nothing_left()


# What may happen to the processes of a run.


def test_a_killed_runner_takes_everything_with_it(world: World, many: Path) -> None:
    """052: workers and servers go, the journal stays readable, and what a killed
    runner could not remove is removed by the next run."""
    require_server("redis")
    run = world.start(plan(many, NULL, DRIVER, workers=2, clients=2))
    until(measuring(run, 1), "the second trial is being measured")
    assert len(world.workers()) == 2
    assert len(world.servers()) == 1
    started = run.state().started
    assert started is not None
    os.kill(started.process_id, signal.SIGKILL)
    world.nothing_left(leftovers=True)
    # A process counts as dead a moment before the last of its threads has gone.
    until(lambda: not run.goes_on, "its lock is free")
    state = run.state()
    assert state.outcome is None  # what a list calls interrupted
    assert [trial.outcome for trial in state.trials] == ["done", None]
    assert saved(run).trials[0].throughput_per_s is not None
    assert run in history.all_runs(world.runs)
    assert list(history.going_on(world.runs)) == []
    launcher.tidy(world.runs)
    world.nothing_left()


def test_a_killed_worker_is_its_trials_end_and_no_others(
    world: World, many: Path
) -> None:
    require_server("redis")
    run = world.start(plan(many, NULL, DRIVER, RAM, workers=2, clients=2))
    until(measuring(run, 1), "the second trial is being measured")
    world.workers()[0].kill()
    state = ended(run)
    outcomes = [trial.outcome for trial in state.trials]
    assert (state.outcome, outcomes) == ("done", ["done", "failed", "done"])
    assert "of 2 was ended by SIGKILL" in state.trials[1].reason
    document = saved(run)
    assert [trial.outcome for trial in document.trials] == outcomes
    assert document.trials[0].throughput_per_s is not None
    assert document.trials[1].attempted is None
    assert document.trials[1].ranked is False
    assert document.trials[2].ranked is True
    log_is_clean(run)
    world.nothing_left()


def test_a_killed_private_server_is_named(world: World, many: Path) -> None:
    """047."""
    require_server("redis")
    run = world.start(plan(many, DRIVER, RAM, clients=2))
    until(measuring(run), "it is being measured")
    (server,) = world.servers()
    server.kill()
    state = ended(run)
    outcomes = [trial.outcome for trial in state.trials]
    assert outcomes == ["failed", "done"]
    assert "private redis server was ended by SIGKILL" in state.trials[0].reason
    assert saved(run).trials[0].ranked is False
    log_is_clean(run)
    world.nothing_left()


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_a_run_that_is_asked_to_stop_stops_and_says_so(
    world: World, many: Path, client: str
) -> None:
    require_server("redis")
    store = StorePlan("redis", "redis", {"transport": "tcp", "client": client}, True)
    run = world.start(plan(many, store, RAM, clients=2, repeat=50))
    until(measuring(run), "it is being measured")
    assert history.stop(run)
    state = ended(run)
    assert (state.outcome, state.reason) == ("stopped", "asked to stop")
    last = state.trials[-1]
    assert last.outcome == "stopped"
    assert last.verified is None
    if last.measured is not None:
        measured = last.measured
        finished = last.ok + last.miss + last.failed
        assert measured.attempted == finished + measured.unfinished
    assert saved(run).outcome == "stopped"
    log_is_clean(run)
    world.nothing_left()


def test_a_frozen_server_does_not_keep_a_run_from_stopping(
    world: World, many: Path
) -> None:
    """122: what it owes is unfinished."""
    require_server("redis")
    run = world.start(plan(many, DRIVER, clients=2))
    until(measuring(run), "it is being measured")
    (server,) = world.servers()
    server.suspend()
    try:
        history.stop(run)
        until(lambda: run.state().outcome, "it has stopped", 30)
    finally:
        with contextlib.suppress(psutil.Error):
            server.resume()
    state = ended(run)
    assert state.outcome == "stopped"
    measured = state.trials[0].measured
    if measured is not None:
        trial = state.trials[0]
        finished = trial.ok + trial.miss + trial.failed
        assert measured.attempted == finished + measured.unfinished
    world.nothing_left()


def test_a_run_outlives_whoever_started_it(
    world: World, few: tuple[Path, list[list[str]]]
) -> None:
    """121: killed, and its terminal with it."""
    code = (
        "import sys, time, msgspec; from pathlib import Path\n"
        "from kvtui.engine import launcher\n"
        "from kvtui.runs.plan import RunPlan\n"
        "plan = msgspec.json.decode(sys.argv[1], type=RunPlan)\n"
        "print(launcher.start(plan, Path(sys.argv[2])).path, flush=True)\n"
        "time.sleep(600)"
    )
    asked = msgspec.json.encode(plan(few[0], NULL, RAM, repeat=2))
    with subprocess.Popen(
        [sys.executable, "-c", code, asked, str(world.runs)],
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as starter:
        assert starter.stdout is not None
        run = RunDirectory(Path(starter.stdout.readline().decode().strip()))
        os.killpg(starter.pid, signal.SIGKILL)
    state = ended(run)
    assert state.outcome == "done"
    assert [trial.outcome for trial in state.trials] == ["done"] * 4
    world.nothing_left()


# Somebody's own server.


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateServer]:
    """A Redis that is not kvtui's, on a port that stays the same."""
    require_server("redis")
    port = servers.free_port()
    monkeypatch.setattr(servers, "free_port", lambda: port)
    with monkeypatch.context() as outside:
        outside.delenv("XDG_STATE_HOME")
        made = private_server("redis", tmp_path / "own", {"transport": "tcp"})
        made.start()
    yield made
    made.stop()


def configured(server: PrivateServer, **settings: Any) -> StorePlan:
    """It, as a settings file would name it."""
    return StorePlan("mine", "redis", server.connect_settings() | settings)


def stranger(server: PrivateServer, database: int = 0) -> Any:
    """A client of somebody else."""
    settings = server.connect_settings()
    return redis.Redis(
        host=settings["host"], port=settings["port"], db=database, socket_timeout=10
    )


def restart(server: PrivateServer, directory: Path) -> PrivateServer:
    """Killed, and started again on the same port, empty."""
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    until(server.death, "it has died")
    again = private_server("redis", directory, {"transport": "tcp"})
    again.start()
    return again


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_a_restarted_server_is_reconnected_to_and_its_loss_is_found(
    world: World, many: Path, own: PrivateServer, tmp_path: Path, client: str
) -> None:
    """047: never a lower total that looks complete."""
    store = configured(own, client=client)
    run = world.start(plan(many, store, RAM, clients=2, given={"first": 4000}))
    watching = stranger(own)
    until(lambda: watching.dbsize() > 5, "records are being written")
    watching.close()
    again = restart(own, tmp_path / "again")
    try:
        state = ended(run)
        trial = state.trials[0]
        assert state.trials[1].outcome == "done"
        assert not trial.kept_everything
        assert saved(run).trials[0].ranked is False
        if trial.outcome == "done":
            # It went on: every update has an outcome, and the loss is known.
            assert trial.measured is not None
            assert trial.failed >= 1
            assert trial.measured.figures["reconnects"] >= 1
            assert trial.measured.figures["records lost"] >= 1
            assert trial.verified is not None
            assert trial.verified.wrong >= 1
            assert trial.verified.checked == trial.verified.expected
            assert {fault.kind for fault in trial.faults} <= {
                "disconnected",
                "refused",
            }
        else:
            assert trial.outcome == "failed"
            assert trial.reason
        watching = stranger(again)
        assert watching.dbsize() == 0
        watching.close()
    finally:
        again.stop()
    log_is_clean(run)
    world.nothing_left()


def test_a_server_that_never_comes_back_ends_its_trial_and_no_other(
    world: World, many: Path, own: PrivateServer
) -> None:
    """047: after a limit, with a reason, and with every count that it has."""
    store = configured(own, client="driver")
    run = world.start(plan(many, store, RAM, clients=4, workers=2))
    watching = stranger(own)
    until(lambda: watching.dbsize() > 5, "records are being written")
    watching.close()
    assert own.process_id is not None
    os.kill(own.process_id, signal.SIGKILL)
    state = ended(run)
    trial, other = state.trials
    assert (trial.outcome, other.outcome) == ("failed", "done")
    assert "gone for" in trial.reason
    assert f"127.0.0.1:{own.connect_settings()['port']}" in trial.reason
    assert trial.measured is not None
    finished = trial.ok + trial.miss + trial.failed
    assert trial.measured.attempted == finished + trial.measured.unfinished
    kept = saved(run).trials[0]
    assert (kept.ranked, kept.attempted) == (False, trial.measured.attempted)
    assert kept.failed == trial.failed >= 1
    log_is_clean(run)
    world.nothing_left()


def test_nothing_is_left_on_somebodys_server_and_nothing_of_his_is_gone(
    world: World, few: tuple[Path, list[list[str]]], own: PrivateServer
) -> None:
    """056: ten keys in database 0, ten in database 3."""
    strangers = [stranger(own, database) for database in (0, 3)]
    for each in strangers:
        for number in range(10):
            each.set(f"key{number}", "value")
        each.set("kvtui:fansclub:x", "value")
        each.set("kvtui:fan", "value")
    stores = [
        configured(own),
        StorePlan("driver", "redis", {**configured(own).settings, "client": "driver"}),
    ]
    for mode in ("record", "native"):
        run = world.start(plan(few[0], *stores, mode=mode, clients=4))
        good_state = ended(run)
        assert [trial.verification for trial in good_state.trials] == [
            good_state.trials[0].verification
        ] * 2
        assert all(trial.kept_everything for trial in good_state.trials)
        assert [each.dbsize() for each in strangers] == [12, 12]
    assert own.death() is None
    for each in strangers:
        assert [each.get(f"key{number}") for number in range(10)] == [b"value"] * 10
        each.close()
    world.nothing_left()


def test_records_stay_where_they_were_asked_to(
    world: World, few: tuple[Path, list[list[str]]], own: PrivateServer
) -> None:
    run = world.start(plan(few[0], configured(own), keep=True, repeat=2))
    state = ended(run)
    assert all(trial.kept_everything for trial in state.trials)
    watching = stranger(own)
    marker = json.loads(watching.get("kvtui:run:fans"))
    assert (marker["run"], marker["kept"]) == (run.name, True)
    assert watching.dbsize() == len(counted(few[1])) + 1
    watching.close()


def test_leftovers_are_refused_or_cleared_and_nothing_else_is(
    world: World, few: tuple[Path, list[list[str]]], own: PrivateServer
) -> None:
    """020."""
    watching = stranger(own)
    watching.rpush("kvtui:fans:hot", "a list of an earlier run")
    watching.set("kvtui:other:x", "of another job")
    watching.set("mine", "value")
    run = world.start(plan(few[0], configured(own), RAM))
    state = ended(run)
    assert [trial.outcome for trial in state.trials] == ["failed", "done"]
    assert "still holds 1 key under" in state.trials[0].reason
    assert "--overwrite" in state.trials[0].reason
    assert watching.dbsize() == 3
    run = world.start(plan(few[0], configured(own), clear=True))
    state = ended(run)
    assert state.trials[0].kept_everything
    assert sorted(watching.keys()) == [b"kvtui:other:x", b"mine"]
    watching.close()
    world.nothing_left()


def test_two_runs_never_share_a_server(
    world: World,
    few: tuple[Path, list[list[str]]],
    many: Path,
    own: PrivateServer,
) -> None:
    """Both would write, and remove, the same keys."""
    first = world.start(plan(many, configured(own)))
    until(measuring(first), "the first run measures")
    second = ended(world.start(plan(few[0], configured(own), clear=True)))
    assert first.name in second.trials[0].reason
    history.stop(first)
    assert ended(first).outcome == "stopped"
    world.nothing_left()


@pytest.mark.parametrize("client", ["wire", "driver"])
def test_a_servers_limit_of_clients_is_a_clear_refusal(
    world: World, few: tuple[Path, list[list[str]]], own: PrivateServer, client: str
) -> None:
    """038: never 20 measured as 100."""
    watching = stranger(own)
    watching.config_set("maxclients", "20")
    run = world.start(plan(few[0], configured(own, client=client), clients=100))
    state = ended(run)
    (trial,) = state.trials
    assert trial.outcome == "failed"
    assert trial.measured is None
    assert "of 100 clients could connect" in trial.reason
    assert "max number of clients" in trial.reason
    assert "the server's maxclients is 20" in trial.reason
    assert watching.dbsize() == 0
    watching.close()
    world.nothing_left()


def test_a_server_that_evicts_loses_its_rank(
    world: World, wide: Path, own: PrivateServer
) -> None:
    """043: every write said OK, and the data is not there."""
    watching = stranger(own)
    used = int(watching.info("memory")["used_memory"])
    watching.config_set("maxmemory-policy", "allkeys-random")
    limit = max(used + 500_000, TIGHT_BYTES)
    watching.config_set("maxmemory", str(limit))
    run = world.start(plan(wide, configured(own), clients=4))
    state = ended(run)
    (trial,) = state.trials
    evicted = int(watching.info("stats")["evicted_keys"])
    assert evicted > 0
    assert not trial.kept_everything
    if trial.measured is not None and trial.outcome == "done":
        assert trial.measured.figures["evicted keys"] > 0
        assert any("data lost" in note.text for note in state.notes)
    assert saved(run).trials[0].ranked is False
    assert trial.seen is not None
    assert trial.seen.eviction == "allkeys-random"
    assert trial.seen.memory_limit == f"{limit:,} bytes"
    if trial.outcome == "done":
        assert trial.verified is not None
        assert trial.verified.wrong > 0
    watching.close()


def test_a_server_that_cannot_hold_the_records_is_not_measured(
    world: World, tmp_path: Path, own: PrivateServer
) -> None:
    """043, 044: said with numbers, before a figure of it could be believed."""
    people = [[f"own {n}", "x" * 200 + str(n), f"shared {n % 10}"] for n in range(9000)]
    wider = write_people(people, tmp_path / "wider.jsonl")
    watching = stranger(own)
    used = int(watching.info("memory")["used_memory"])
    watching.config_set("maxmemory-policy", "allkeys-lru")
    watching.config_set("maxmemory", str(used + 500_000))
    run = world.start(plan(wider, configured(own), RAM, clients=4))
    state = ended(run)
    assert [trial.outcome for trial in state.trials] == ["failed", "done"]
    assert "cannot hold this data set" in state.trials[0].reason
    assert "18,010 records" in state.trials[0].reason
    assert f"{(used + 500_000) / 1e6:,.1f} MB" in state.trials[0].reason
    assert state.trials[0].measured is None
    assert saved(run).trials[0].ranked is False
    watching.close()


def test_a_full_server_ends_its_trial_with_the_servers_words(
    world: World, wide: Path, own: PrivateServer
) -> None:
    watching = stranger(own)
    used = int(watching.info("memory")["used_memory"])
    watching.config_set("maxmemory-policy", "noeviction")
    watching.config_set("maxmemory", str(max(used + 500_000, TIGHT_BYTES)))
    run = world.start(plan(wide, configured(own), RAM, clients=4))
    state = ended(run)
    assert [trial.outcome for trial in state.trials] == ["failed", "done"]
    assert "OOM" in state.trials[0].reason
    assert state.trials[0].measured is not None
    measured, trial = state.trials[0].measured, state.trials[0]
    finished = trial.ok + trial.miss + trial.failed
    assert measured.attempted == finished + measured.unfinished
    assert watching.dbsize() == 0
    watching.close()
    world.nothing_left()
