"""WiredTiger's library: loading it, its words, and what it says on standard error.

Names of settings are those of WiredTiger 11's own configuration reference.
"""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores import folders
from kvtui.stores.programs import WIREDTIGER_INSTALL

SESSIONS: Final = 4096
"""``session_max``: one a client thread, and a few of its own."""
LOGS: Final = {
    "written": "log=(enabled=true,file_max=100MB),"
    "transaction_sync=(enabled=true,method=none)",
    "buffered": "log=(enabled=true,file_max=100MB),transaction_sync=(enabled=false)",
    "none": "log=(enabled=false)",
    "fsync": "log=(enabled=true,file_max=100MB),"
    "transaction_sync=(enabled=true,method=fsync)",
}
CHECKPOINT: Final = "checkpoint=(wait=60,log_size=2GB)"
CHECKPOINT_WORDS: Final = "each minute or 2 GB of log"
"""Without checkpoints the log grows for as long as the store is open. Every minute
or two gigabytes is what MongoDB asks of WiredTiger."""
DURABILITY: Final = {
    "written": "OS cache (log written at each commit, sync off)",
    "buffered": "memory (log buffered: a kill loses the last writes, sync off)",
    "none": "memory (no log: a kill loses all since the last checkpoint)",
    "fsync": "fsync at each commit",
}
"""What a killed process keeps; with ``buffered`` 19,997 of 20,000 puts were seen."""

LEAST_CHUNK_BYTES: Final = 512 << 10
MOST_CHUNK_BYTES: Final = 500 << 20
"""Limits of an LSM tree's chunks, from its configuration reference."""

_NOISE: Final = re.compile(r"\[\d+:\d+\]\[\d+:0x[0-9a-f]+\]")
"""How its messages begin: ``[seconds:microseconds][process:thread]``."""
_KEPT_LINES: Final = 20


def load() -> Any:
    """The module. StoreUnavailable, with what brings it, where it does not load."""
    try:
        return importlib.import_module("wiredtiger")
    except ImportError as error:
        raise StoreUnavailable(
            f"wiredtiger: its Python module does not load: {error}",
            hint=WIREDTIGER_INSTALL,
        ) from None


def table_options(layout: str, compression: str, page_kb: float, cache: int) -> str:
    """A table's configuration: any bytes as keys and values.

    An LSM tree gets chunks of a tenth of the cache, 200 MB of 2 GB as in the
    comparison of 2012. That comparison's Bloom filters had pages of 10 MB: 11 takes
    the setting, and ends in a panic when the first chunk is full, as such a table's
    pages have a limit of 128 KB now. So they keep the library's own size.
    """
    options = ["key_format=u", "value_format=u"]
    if page_kb:
        size = int(page_kb * 1024)
        options.append(f"internal_page_max={size},leaf_page_max={size}")
    if layout == "lsm":
        chunk = min(max(cache // 10, LEAST_CHUNK_BYTES), MOST_CHUNK_BYTES)
        options.append(f"type=lsm,lsm=(chunk_size={chunk})")
    options.append(f"block_compressor={compression}")
    return ",".join(options)


def holds_one(directory: Path) -> bool:
    """Whether there is a WiredTiger database: what its own start looks for."""
    return all((directory / name).is_file() for name in ("WiredTiger", "WiredTiger.wt"))


class TableFacts(Struct, frozen=True):
    """What a table is, from the library's own description of it."""

    formats: tuple[str, str]
    compression: str
    layout: str


def facts_of(session: Any, table: str) -> TableFacts | None:
    """Of a table; None where there is none of that name."""
    cursor = session.open_cursor("metadata:create", None, None)
    try:
        cursor.set_key(table)
        if cursor.search() != 0:
            return None
        text = str(cursor.get_value())
    finally:
        cursor.close()
    return TableFacts(
        (_word(text, "key_format"), _word(text, "value_format")),
        _word(text, "block_compressor") or "none",
        "lsm" if _word(text, "type") == "lsm" else "btree",
    )


def _word(options: str, name: str) -> str:
    found = re.search(rf"(?:^|,){name}=([^,()]*)", options)
    return found[1] if found else ""


def is_diagnostic(module: Any) -> bool:
    """Whether it was built with its own checks, which make updates slow. Bindings
    that cannot tell are older than the question."""
    asked = getattr(module, "diagnostic_build", None)
    return bool(asked()) if asked is not None else False


class Noise:
    """Stands in for standard error: keeps what WiredTiger prints, passes the rest on.

    The bindings print every error there, which under a screen would be seen.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=_KEPT_LINES)
        self._users = 0
        self._real: Any = None
        self._changing = threading.Lock()

    def begin(self) -> None:
        """From now on, until each begin has had its end."""
        with self._changing:
            self._users += 1
            if sys.stderr is not self:
                self._real, sys.stderr = sys.stderr, self

    def end(self) -> None:
        """Standard error is itself again, unless somebody has changed it since."""
        with self._changing:
            self._users -= 1
            if self._users == 0 and sys.stderr is self:
                sys.stderr = self._real

    def write(self, text: str) -> int:
        """Keep it or pass it on."""
        if _NOISE.match(text):
            self._lines.append((threading.get_ident(), text.strip()))
        elif self._real is not None:
            self._real.write(text)
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def take(self, *, anybodys: bool = False) -> str:
        """The last message of this thread's calls, or of any thread's, without its
        stamp; empty when there is none. It is told once."""
        mine = threading.get_ident()
        for entry in reversed(list(self._lines)):
            # That it gives up is what the error says already; why is in another line.
            if (anybodys or entry[0] == mine) and "WT_PANIC" not in entry[1]:
                self._lines.remove(entry)
                return entry[1].rsplit("]: ", 1)[-1].strip()
        return ""

    def mentions(self, words: str) -> bool:
        """Whether any message has these words."""
        return any(words in line for _, line in list(self._lines))


noise: Final = Noise()


def unavailable(directory: object, error: Exception) -> StoreUnavailable:
    """An open that failed, in words."""
    text, said = str(error), noise.take()
    hint = "is the folder yours to write in, and is there room on its disk?"
    if "resource busy" in text:
        text, said = "another process has it open", ""
        hint = "end that process, or name another directory"
    elif isinstance(error, OSError):
        text = error.strerror or text
    what = f"{text}: {said}" if said and said not in text else text
    return StoreUnavailable(
        f"wiredtiger: {directory} cannot be opened: {what}", hint=hint
    )


def is_panic(error: Exception) -> bool:
    """Whether the library has given up, for the rest of this process."""
    return "WT_PANIC" in str(error)


def failed(directory: object, error: Exception) -> OperationFailed:
    """An exception of the bindings as one failed operation.

    After a panic the connection is of no use; a full disk usually ends in one.
    """
    panic = is_panic(error)
    said = noise.take(anybodys=panic)
    text = f"wiredtiger at {directory}: {error}"
    if said and said not in text:
        text += f": {said}"
    full = "No space left on device"
    if full in text or (panic and noise.mentions(full)):
        return OperationFailed(
            "no-space", text, hint=folders.FREE_SOME_SPACE, broken=True
        )
    return OperationFailed("server-error", text, broken=panic)
