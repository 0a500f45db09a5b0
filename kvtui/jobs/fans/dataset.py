"""A profile file, compiled once into a directory of arrays.

Several worker processes map the same files into memory and need no parsing. The
directory (mode 0700, files 0600) holds, all integers little-endian:

    offsets.i64        profiles + 1   where each profile begins in ``members``
    members.i32        memberships    page numbers, profile after profile
    fans.i32           pages          fans of each page
    ids.bin, ids.i64   pages + 1      page ids as UTF-8, end to end, and offsets
    names.bin, names.i64              readable names, the same way
    meta.json                         the rest; written last, so a directory
                                      without it is not a dataset
"""

from __future__ import annotations

import hashlib
import os
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt

from kvtui.errors import DataError
from kvtui.jobs.fans.names import readable_name
from kvtui.jobs.fans.profiles import BadLine, ProfileFile

__all__ = ["Dataset", "compile_profiles", "open_dataset", "readable_name"]

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_PROGRESS_PROFILES = 1000
_MAX_PAGES = 2**31 - 1


class _Meta(msgspec.Struct):
    version: int
    profiles: int
    pages: int
    memberships: int
    digest: str
    format: str
    compression: str | None
    encoding: str
    lines: int
    bad_lines: int
    first_bad: list[tuple[int, str]]
    source: str


class Dataset:
    """A compiled profile file, mapped read-only; see ``open_dataset``.

    profiles, pages, memberships   how many; memberships are distinct (profile,
                                   page) pairs
    offsets      int64 [profiles + 1]: profile i has
                 ``members[offsets[i]:offsets[i + 1]]``
    members      int32 [memberships]: page numbers, from 0, in order of the pages'
                 first appearance in the file
    fans         int32 [pages]: profiles that have the page
    digest       SHA-256, hex, over offsets, members and page ids: equal for equal
                 content, whatever the file's format, packing and names
    format, compression, encoding, lines, bad_lines, first_bad
                 as in ``ProfileFile``; source is the path of the file as given
    """

    def __init__(self, directory: Path, meta: _Meta) -> None:
        self.directory = directory
        self.profiles = meta.profiles
        self.pages = meta.pages
        self.memberships = meta.memberships
        self.digest = meta.digest
        self.format = meta.format
        self.compression = meta.compression
        self.encoding = meta.encoding
        self.lines = meta.lines
        self.bad_lines = meta.bad_lines
        self.first_bad = [BadLine(*bad) for bad in meta.first_bad]
        self.source = meta.source
        self.offsets: Int64s = _mapped(
            directory / "offsets.i64", "<i8", meta.profiles + 1
        )
        self.members: Int32s = _mapped(
            directory / "members.i32", "<i4", meta.memberships
        )
        self.fans: Int32s = _mapped(directory / "fans.i32", "<i4", meta.pages)
        self._ids = _Table(directory, "ids", meta.pages)
        self._names = _Table(directory, "names", meta.pages)

    def page(self, number: int) -> bytes:
        """The id of a page as UTF-8."""
        return self._ids[number]

    def name(self, number: int) -> str:
        """The readable name of a page; "" when there is none."""
        return self._names[number].decode()

    def page_table(self) -> list[bytes]:
        """All page ids as UTF-8, by page number."""
        return [self._ids[number] for number in range(self.pages)]


def open_dataset(directory: Path) -> Dataset:
    """The dataset in a directory. DataError when there is none, or a damaged one."""
    try:
        meta = msgspec.json.decode((directory / "meta.json").read_bytes(), type=_Meta)
        return Dataset(directory, meta)
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        raise DataError(
            f"{directory} is not a compiled profile file ({error})",
            hint="Start the run again; it compiles the profile file anew.",
        ) from error


def compile_profiles(
    source: ProfileFile,
    directory: Path,
    names: Mapping[str, str] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Dataset:
    """Compiles a profile file into a new or empty directory.

    A page's name is the one in ``names``, else the one in the file itself, else
    ``readable_name``. ``progress`` is called with the number of profiles read so
    far, about every thousand and at the end. In RAM: one dictionary of the
    distinct page ids, one integer a profile, and what reading needs.

    Raises DataError when the file cannot be read to its end or holds no profile,
    or when the disk fails; then nothing is left in the directory.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise DataError(f"{directory} is not empty")
        directory.chmod(0o700)
    except OSError as error:
        raise _disk_error(source, directory, error) from error
    try:
        meta = _write(source, directory, names or {}, progress)
        with _create(directory / "meta.json") as stream:
            stream.write(msgspec.json.encode(meta))
        return Dataset(directory, meta)
    except BaseException as error:
        for path in directory.iterdir():
            path.unlink()
        if isinstance(error, OSError):
            raise _disk_error(source, directory, error) from error
        raise


def _disk_error(source: ProfileFile, directory: Path, error: OSError) -> DataError:
    return DataError(
        f"{source.path} cannot be compiled into {directory}: {error.strerror or error}",
        hint="Free some space on that disk, or choose another directory.",
    )


def _write(
    source: ProfileFile,
    directory: Path,
    names: Mapping[str, str],
    progress: Callable[[int], None] | None,
) -> _Meta:
    numbers: dict[str, int] = {}
    offsets = array("q", [0])
    fans = array("i")
    pending = array("i")
    with _create(directory / "members.i32") as stream:
        for profile in source:
            for page in profile:
                number = numbers.get(page)
                if number is None:
                    number = numbers[page] = len(fans)
                    fans.append(0)
                fans[number] += 1
                pending.append(number)
            offsets.append(offsets[-1] + len(profile))
            if len(offsets) % _PROGRESS_PROFILES == 1:
                _append(stream, pending)
                if len(fans) > _MAX_PAGES:
                    raise DataError(f"{source.path} has over {_MAX_PAGES:,} pages")
                if progress:
                    progress(len(offsets) - 1)
        _append(stream, pending)
    profiles = len(offsets) - 1
    if progress and profiles % _PROGRESS_PROFILES:
        progress(profiles)
    if not profiles:
        first = source.first_bad[0] if source.first_bad else None
        raise DataError(
            f"{source.path} holds no profile; all {source.bad_lines:,} lines are bad"
            if first
            else f"{source.path} holds no profile",
            hint=f"It was read as {source.format}. "
            + (f"Line {first.number:,}: {first.reason}." if first else ""),
        )
    for name, values in (("offsets.i64", offsets), ("fans.i32", fans)):
        with _create(directory / name) as stream:
            _append(stream, values)
    _write_table(directory, "ids", numbers)
    _write_table(
        directory,
        "names",
        (
            names.get(page) or source.names.get(page) or readable_name(page)
            for page in numbers
        ),
    )
    return _Meta(
        version=1,
        profiles=profiles,
        pages=len(numbers),
        memberships=(directory / "members.i32").stat().st_size // 4,
        digest=_digest(directory),
        format=source.format,
        compression=source.compression,
        encoding=source.encoding,
        lines=source.lines,
        bad_lines=source.bad_lines,
        first_bad=[(bad.number, bad.reason) for bad in source.first_bad],
        source=str(source.path),
    )


class _Table:
    """Strings end to end in one mapped file, and where each begins."""

    def __init__(self, directory: Path, name: str, count: int) -> None:
        self._offsets = _mapped(directory / f"{name}.i64", "<i8", count + 1)
        size = int(self._offsets[-1])
        self._text = _mapped(directory / f"{name}.bin", "u1", size).data

    def __getitem__(self, number: int) -> bytes:
        if number < 0:
            raise IndexError(number)
        return bytes(self._text[self._offsets[number] : self._offsets[number + 1]])


def _write_table(directory: Path, name: str, texts: Iterable[str]) -> None:
    offsets = array("q", [0])
    with _create(directory / f"{name}.bin") as stream:
        for text in texts:
            # A name may come from elsewhere and hold half a surrogate pair.
            offsets.append(offsets[-1] + stream.write(text.encode(errors="replace")))
    with _create(directory / f"{name}.i64") as stream:
        _append(stream, offsets)


def _digest(directory: Path) -> str:
    digest = hashlib.sha256()
    for name in ("offsets.i64", "members.i32", "ids.i64", "ids.bin"):
        with open(directory / name, "rb") as stream:
            digest.update(f"{name} {(directory / name).stat().st_size}\n".encode())
            while chunk := stream.read(2**20):
                digest.update(chunk)
    return digest.hexdigest()


def _create(path: Path) -> IO[bytes]:
    # Never through a link, and never readable by others, not even for a moment.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    return os.fdopen(os.open(path, flags, 0o600), "wb", buffering=2**20)


def _append(stream: IO[bytes], values: array[int]) -> None:
    if sys.byteorder == "big":
        values.byteswap()
    stream.write(values.tobytes())
    del values[:]


def _mapped(path: Path, kind: str, count: int) -> npt.NDArray[Any]:
    size = count * np.dtype(kind).itemsize
    if path.stat().st_size != size:
        raise DataError(f"{path} has {path.stat().st_size:,} bytes, not {size:,}")
    if not count:  # an empty file cannot be mapped
        return np.empty(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r", shape=(count,))
