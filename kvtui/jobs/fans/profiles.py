"""Profile files: whose pages go together, in the formats people have them in.

``formats`` describes the formats, ``detect`` how one is recognised by content,
``compressed`` what may be packed, ``grouping`` the memory bound of pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kvtui.errors import DataError, UsageError
from kvtui.jobs.fans import formats
from kvtui.jobs.fans.compressed import Damaged, compression_of, lines
from kvtui.jobs.fans.detect import layout_of
from kvtui.jobs.fans.grouping import grouped
from kvtui.jobs.fans.names import read_names

__all__ = ["BadLine", "ProfileFile", "open_profiles", "read_names"]

ENCODINGS = ("utf-8", "latin-1")

BAD_LINES_KEPT = 20

_SAMPLE_LINES = 1000
_SAMPLE_BYTES = 2**18


class BadLine(NamedTuple):
    """A line that was left out, and why."""

    number: int
    """Counted from 1; of a row that crosses lines, the first."""
    reason: str


class ProfileFile:
    """A profile file, read anew at each iteration; see ``open_profiles``.

    Iterating gives each profile as the list of its distinct page ids, in order
    of first appearance, byte for byte as written (no Unicode normalisation). An
    empty list is a profile without a page. ``names``, ``lines``, ``bad_lines`` and
    ``first_bad`` belong to the latest iteration and are complete at its end;
    lines = used + blank or head lines + bad lines.

    Memory: one line for ``tabs`` and ``jsonl``; see ``grouping`` for the others.
    """

    def __init__(
        self,
        path: Path,
        compression: str | None,
        layout: formats.Layout,
        encoding: str,
        first: int | None,
    ) -> None:
        self.path = path
        self.compression = compression
        self.layout = layout
        self.format = formats.FORMATS[layout.key]
        self.encoding = encoding
        self.first = first
        self._start_afresh()

    def _start_afresh(self) -> None:
        self.names: dict[str, str] = {}
        self.bad_lines = 0
        self.first_bad: list[BadLine] = []
        self.lines = 0

    def __iter__(self) -> Iterator[list[str]]:
        self._start_afresh()
        count = 0
        try:
            for profile in islice(self._profiles(), self.first):
                count += 1
                yield profile
        except Damaged as damage:
            read = count if damage.profiles is None else damage.profiles
            plural = "" if read == 1 else "s"
            raise DataError(
                f"{damage.message}, after {read:,} profile{plural}", hint=damage.hint
            ) from damage

    def _profiles(self) -> Iterator[list[str]]:
        numbered = self._numbered()
        key = self.layout.key
        if key == "tabs":
            return formats.tab_profiles(numbered)
        if key == "jsonl":
            return formats.json_profiles(numbered, self._bad)
        if key == "dst":
            runs = formats.dst_runs(numbered, self._bad, self.names)
        else:
            runs = formats.row_runs(numbered, self.layout, self._bad)
        return grouped(runs, self.first)

    def _numbered(self) -> Iterator[tuple[int, str]]:
        encoding = self.encoding
        for number, line in enumerate(lines(self.path), 1):
            self.lines = number
            if line is None:
                self._bad(number, "longer than 16 MiB")
                continue
            try:
                text = line.decode(encoding)
            except UnicodeDecodeError as error:
                byte = line[error.start]
                self._bad(number, f"not UTF-8: byte 0x{byte:02X} at {error.start + 1}")
                continue
            yield number, text

    def _bad(self, number: int, reason: str) -> None:
        self.bad_lines += 1
        if len(self.first_bad) < BAD_LINES_KEPT:
            self.first_bad.append(BadLine(number, reason))


def open_profiles(
    path: Path | str,
    *,
    first: int | None = None,
    format: str | None = None,
    encoding: str = "utf-8",
) -> ProfileFile:
    """A profile file, its packing and format recognised by content.

    ``first`` takes only the first so many people in file order, with all of
    their rows. ``format`` overrides the recognition: a key of
    ``formats.FORMATS``. A line that is not in ``encoding`` ("utf-8", or "latin-1",
    in which every line is valid) is a bad line, in every format.

    Raises DataError when the file is missing, empty, unreadable or not text that
    kvtui reads, and UsageError for an argument out of range.
    """
    if first is not None and first < 1:
        raise UsageError(
            f"the first {first:,} profiles make no work", hint="Take at least 1."
        )
    encoding = {"utf8": "utf-8", "latin1": "latin-1"}.get(encoding, encoding)
    if encoding not in ENCODINGS:
        raise UsageError(
            f"{encoding!r} is not an encoding that kvtui reads",
            hint="Choose one of: " + ", ".join(ENCODINGS),
        )
    path = Path(path)
    compression = compression_of(path)
    try:
        sample = _sample(path, encoding)
    except Damaged as damage:
        if damage.profiles is not None:
            raise
        raise DataError(f"{damage.message}, after 0 profiles", hint=damage.hint) from (
            damage
        )
    layout = layout_of(sample, format)
    return ProfileFile(path, compression, layout, encoding, first)


def _sample(path: Path, encoding: str) -> list[str]:
    """The first lines, without those that are not in the encoding."""
    sample: list[str] = []
    room = _SAMPLE_BYTES
    seen = False
    for line in islice(lines(path), _SAMPLE_LINES):
        seen = True
        if line is None:
            continue
        room -= len(line)
        try:
            sample.append(line.decode(encoding))
        except UnicodeDecodeError:
            continue
        if room < 0:
            break
    if not seen:
        raise DataError(
            f"{path} is empty once unpacked", hint="Is the download complete?"
        )
    return sample
