"""One WiredTiger connection of this process: opened, shared by threads, closed.

A session and its cursors belong to one thread at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import folders, open_paths
from kvtui.stores.memory import shared_out
from kvtui.stores.programs import WIREDTIGER_INSTALL
from kvtui.stores.store import Settings
from kvtui.stores.wiredtiger import library

VALUES: Final = "table:kvtui"
COUNTERS: Final = "table:kvtui_counters"
COMPRESSORS: Final = ("snappy", "zlib", "lz4", "zstd", "none")
DEFAULT_COMPRESSION: Final = "snappy"
"""As LevelDB's; ``none`` where the build has no Snappy."""
CACHE_MB: Final = 192
"""As much as LevelDB's write buffer and cache together."""
TRIES: Final = 10_000
"""Of a transaction whose rows others change at the same time; one of them wins each
time, so that a loser comes to its turn."""
CLOSE_LIMIT_S: Final = 10.0
LEAST_CACHE_BYTES: Final = 1 << 20
"""WiredTiger's own limit of cache_size."""
LEAST_LSM_CACHE_BYTES: Final = 10_000_000
"""An LSM tree asks for three chunks and room to merge: 7.5 MB with its smallest
chunks and its own pages of 128 KB (it says so where it gets less)."""
_T = TypeVar("_T")


class Hands:
    """One thread's session and cursors.

    Before an operation its thread sets ``busy`` and then looks at ``closed``; who
    closes sets ``closed`` and then looks at ``busy``. So one of the two sees the
    other, and nothing is closed under an operation. A lock would cost more than the
    rest of the adapter.
    """

    __slots__ = ("busy", "closed", "counters", "session", "thread", "values")

    def __init__(self, session: Any) -> None:
        self.session = session
        self.values = session.open_cursor(VALUES, None, "overwrite=true")
        self.counters = session.open_cursor(COUNTERS, None, "overwrite=true")
        self.thread = threading.current_thread()
        self.busy = False
        self.closed = False


class Connection:
    """WiredTiger on one directory, for the threads of one process.

    ``error`` and ``conflict`` are the bindings' exceptions, once it is open.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.directory = Path(str(settings["directory"]))
        sizes, self.less = shared_out(settings, {"cache_mb": CACHE_MB})
        self.cache_bytes = sizes["cache_mb"]
        self.sync = bool(settings.get("sync", False))
        self.log = str(settings.get("log", "written"))
        self.layout = str(settings.get("layout", "btree"))
        self.module: Any = None
        self.error: type[Exception] = OperationFailed
        self.conflict: type[Exception] = OperationFailed
        self.conflicts = 0
        self._connection: Any = None
        self._is_parents = False
        self._panic = ""
        self._real_path = ""
        self._here = threading.local()
        self._all: list[Hands] = []
        self._changing = threading.Lock()

    @property
    def commit(self) -> str:
        """What a commit does: a key of the library's LOGS and DURABILITY."""
        return "fsync" if self.sync else self.log

    def open(self) -> None:
        """Open, creating the directory and the tables.

        Raises StoreUnavailable; then nothing is left open.
        """
        self._check()
        if self._panic:
            raise StoreUnavailable(
                f"wiredtiger: this process cannot open {self.directory} again:"
                f" {self._panic}",
                hint="a new process can",
            )
        module = library.load()
        folders.check("wiredtiger", self.directory, library.holds_one)
        real_path = open_paths.claim("wiredtiger", self.directory, self._forked)
        library.noise.begin()
        connection = None
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            connection = module.wiredtiger_open(str(self.directory), self.options())
            session = connection.open_session()
            for table in (VALUES, COUNTERS):
                self._have(module, session, table)
            session.close()
        except (module.WiredTigerError, OSError) as error:
            problem = library.unavailable(self.directory, error)
            self._let_go(connection, module, real_path)
            raise problem from error
        except StoreUnavailable:
            self._let_go(connection, module, real_path)
            raise
        self.module, self._connection = module, connection
        self.error = module.WiredTigerError
        self.conflict = module.WiredTigerRollbackError
        self._real_path, self._is_parents = real_path, False

    def _check(self) -> None:
        compression = str(self.settings.get("compression", "none"))
        if compression not in COMPRESSORS:
            raise StoreUnavailable(
                f"wiredtiger: compression must be {', '.join(COMPRESSORS[:-1])} or"
                f" none, not {compression}"
            )
        least = LEAST_LSM_CACHE_BYTES if self.layout == "lsm" else LEAST_CACHE_BYTES
        if self.cache_bytes < least:
            raise StoreUnavailable(
                f"wiredtiger: {self.layout} tables need a cache of {least:,} bytes at"
                f" least, and {self.cache_bytes:,} are given",
                hint="give it more: memory=64MB, or cache_mb=64",
            )
        if self.sync and self.log != "written":
            raise StoreUnavailable(
                f"wiredtiger: sync flushes the log, and log={self.log} was set",
                hint="leave one of the two out",
            )

    def options(self) -> str:
        """What the connection is opened with."""
        return (
            f"create,cache_size={self.cache_bytes},session_max={library.SESSIONS},"
            f"{library.LOGS[self.commit]},{library.CHECKPOINT}"
        )

    def _have(self, module: Any, session: Any, table: str) -> None:
        """Make it if it is missing. What is there must be as it was asked for: its
        layout and compression were settled when it was made."""
        asked = self.settings.get("compression")
        made = library.facts_of(session, table)
        if made is None:
            self._make(module, session, table, str(asked or DEFAULT_COMPRESSION))
            return
        if made.formats != ("u", "u"):
            raise StoreUnavailable(
                f"wiredtiger: {self.directory} has a {table} that is not kvtui's",
                hint="name another directory",
            )
        for name, is_so, wanted in (
            ("compression", made.compression, asked),
            ("layout", made.layout, self.settings.get("layout")),
        ):
            if wanted is not None and is_so != wanted:
                raise StoreUnavailable(
                    f"wiredtiger: what {self.directory} holds was made with"
                    f" {name}={is_so}, not {wanted}",
                    hint=f"set {name}={is_so}, or name another directory",
                )

    def _make(self, module: Any, session: Any, table: str, compression: str) -> None:
        page_kb = float(self.settings.get("page_kb", 0))
        options = library.table_options(
            self.layout, compression, page_kb, self.cache_bytes
        )
        try:
            session.create(table, options)
        except module.WiredTigerError as error:
            said = library.noise.take() or str(error)
        else:
            return
        if "unknown compressor" not in said:
            raise StoreUnavailable(
                f"wiredtiger: {self.layout} tables with a cache of"
                f" {self.cache_bytes / 1e6:,.6g} MB cannot be made: {said}"
            )
        if "compression" in self.settings:
            raise StoreUnavailable(
                f"wiredtiger: this build has no {compression}",
                hint=f"set compression=none, or build it anew: {WIREDTIGER_INSTALL}",
            )
        self._make(module, session, table, "none")

    def failed(self, error: Exception) -> OperationFailed:
        """An exception of the bindings as one failed operation."""
        problem = library.failed(self.directory, error)
        if library.is_panic(error) and not self._panic:
            self._panic = problem.message
        return problem

    def _let_go(self, connection: Any, module: Any, real_path: str) -> None:
        if connection is not None:
            try:
                connection.close()
            except module.WiredTigerError:
                library.noise.take()  # it is closed all the same
        library.noise.end()
        open_paths.release(real_path)

    def close(self) -> None:
        """Wait for operations that go on in other threads, then close.

        One that does not end keeps the connection open: closing it under an
        operation would end the process. So does a panic: closing would wait for
        threads of the library that have ended.
        """
        connection, self._connection = self._connection, None
        if connection is None:
            return
        with self._changing:
            everybodys, self._all = self._all, []
            self._here = threading.local()
        for hands in everybodys:
            hands.closed = True
        if self._panic:
            return
        limit = time.monotonic() + CLOSE_LIMIT_S
        while any(hands.busy for hands in everybodys):
            if time.monotonic() > limit:
                return
            time.sleep(0.001)
        self._let_go(connection, self.module, self._real_path)

    def _forked(self) -> None:
        """In a child: the connection is the parent's, and its threads are not here."""
        self._connection, self._is_parents = None, True
        self._here, self._changing = threading.local(), threading.Lock()

    def mine(self) -> Hands:
        """This thread's session; set ``busy`` and look at ``closed`` before use."""
        try:
            return self._here.hands  # type: ignore[no-any-return]
        except AttributeError:
            return self._new_hands()

    def _new_hands(self) -> Hands:
        """Those of a thread that has ended, or new ones."""
        with self._changing:
            if self._is_parents:
                # Threads do not come along with a fork, and both would write.
                raise OperationFailed(
                    "unsupported",
                    "wiredtiger was opened by another process",
                    broken=True,
                )
            if self._connection is None:
                raise not_open()
            for hands in self._all:
                if not hands.thread.is_alive():
                    hands.thread = threading.current_thread()
                    break
            else:
                try:
                    hands = Hands(self._connection.open_session())
                except self.error as error:
                    raise self.failed(error) from error
                self._all.append(hands)
            self._here.hands = hands
            return hands

    def transaction(self, work: Callable[[Hands], _T]) -> _T:
        """Do ``work`` in one transaction; all of it anew when another's came first."""
        hands = self.mine()
        hands.busy = True
        try:
            if hands.closed:
                raise not_open()
            for _ in range(TRIES):
                try:
                    return _once(hands, work)
                except self.conflict:
                    self.count_conflict()
                except self.error as error:
                    raise self.failed(error) from error
        finally:
            hands.busy = False
        raise self.given_up()

    def count_conflict(self) -> None:
        """One more try was needed."""
        with self._changing:
            self.conflicts += 1

    def given_up(self) -> OperationFailed:
        """The error for an operation that has lost too often."""
        return OperationFailed(
            "server-error",
            f"wiredtiger at {self.directory}: lost against others {TRIES:,} times",
        )


def _once(hands: Hands, work: Callable[[Hands], _T]) -> _T:
    hands.session.begin_transaction("isolation=snapshot")
    try:
        result = work(hands)
    except BaseException:
        hands.session.rollback_transaction()
        raise
    hands.session.commit_transaction()
    return result


def not_open() -> OperationFailed:
    """The error for using it before open or after close."""
    return OperationFailed("disconnected", "wiredtiger is not open", broken=True)
