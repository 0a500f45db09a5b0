"""Lines of an input file, unpacked on the way and never held all at once.

What a file is follows from its first bytes, not from its name: gzip (also
several members one after the other), a zip archive with exactly one member,
or plain. Memory is bounded by one chunk and one line.
"""

from __future__ import annotations

import gzip
import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kvtui.errors import DataError

MAX_LINE_BYTES = 16 * 2**20
"""A longer line is not kept; it is reported as a bad one."""

_CHUNK_BYTES = 2**18

_REFUSED = {
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
}

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"


class Damaged(DataError):
    """The packed data break off or contradict themselves.

    ``profiles`` is the number of profiles read until then, where known.
    """

    profiles: int | None = None


def compression_of(path: Path) -> str | None:
    """``"gzip"``, ``"zip"`` or None for a plain file, from its first bytes.

    Raises DataError when the file is missing, empty, no regular file, not
    readable, or packed in a way that kvtui does not read.
    """
    with _plain_words(path):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise DataError(
                f"{path} is a directory", hint="Name the file inside it."
            ) from None
        if not stat.S_ISREG(mode):
            raise DataError(
                f"{path} is not a regular file",
                hint="A profile file is read more than once; write it to a file first.",
            )
        with open(path, "rb") as stream:
            head = stream.read(8)
    if not head:
        raise DataError(f"{path} is empty", hint="Is the download complete?")
    for magic, (what, command) in _REFUSED.items():
        if head.startswith(magic):
            raise DataError(
                f"{path} is packed with {what}, which kvtui does not read",
                hint=f"Unpack it first: {command} {path.name}",
            )
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "zip"
    return None


def lines(path: Path) -> Iterator[bytes | None]:
    """Each line without its line end (LF or CR LF); None for one too long.

    A UTF-8 byte-order mark at the start is removed. Raises DataError as
    ``compression_of`` does and for UTF-16 or UTF-32 text, and ``Damaged`` when
    the packed data turn out to be damaged, after the lines before the damage.
    """
    compression = compression_of(path)
    with _opened(path, compression) as stream:
        first, skipping, rest = True, False, b""
        while True:
            with _plain_words(path):
                chunk = stream.read(_CHUNK_BYTES)
            if not chunk:
                break
            if first:
                first = False
                chunk = _without_mark(chunk, path)
            parts = chunk.split(b"\n")
            parts[0] = rest + parts[0]
            rest = parts.pop()
            for part in parts:
                if skipping or len(part) > MAX_LINE_BYTES:
                    skipping = False
                    yield None
                else:
                    yield part[:-1] if part.endswith(b"\r") else part
            if skipping or len(rest) > MAX_LINE_BYTES:
                skipping, rest = True, b""
        if skipping:
            yield None
        elif rest:
            yield rest[:-1] if rest.endswith(b"\r") else rest


def _without_mark(chunk: bytes, path: Path) -> bytes:
    """The first chunk without a UTF-8 mark; DataError for UTF-16 and UTF-32."""
    if chunk.startswith(_UTF8_MARK):
        return chunk[len(_UTF8_MARK) :]
    sample = chunk[:4096]
    # Text without a mark gives itself away: every other byte is NUL.
    halves = sample[0::2].count(0), sample[1::2].count(0)
    unmarked = len(sample) >= 8 and max(halves) > 0.4 * len(sample) / 2
    if chunk.startswith(_UTF16) or chunk.startswith(b"\0\0\xfe\xff") or unmarked:
        wide = chunk[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
        name = "UTF-32" if wide else "UTF-16"
        raise DataError(
            f"{path} is {name} text; kvtui reads UTF-8",
            hint=f"Convert it first: iconv -f {name} -t UTF-8 {path.name}",
        )
    if b"\r" in sample and b"\n" not in chunk:
        raise DataError(
            f"{path}: the lines end in a bare carriage return",
            hint=f"Convert it first: tr '\\r' '\\n' < {path.name}",
        )
    return chunk


@contextmanager
def _opened(path: Path, compression: str | None) -> Iterator[IO[bytes]]:
    if compression is None:
        with _plain_words(path):
            stream: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115
        with stream:
            yield stream
    elif compression == "gzip":
        with gzip.open(path, "rb") as packed:
            yield packed  # type: ignore[misc]  # a GzipFile reads bytes
    else:
        with _plain_words(path):
            archive = zipfile.ZipFile(path)
        with archive:
            member = _only_member(path, archive)
            with _plain_words(path):
                inner = archive.open(member)
            with inner:
                yield inner


def _only_member(path: Path, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    members = [
        member
        for member in archive.infolist()
        # macOS adds a shadow of each file.
        if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) == 1:
        return members[0]
    if not members:
        raise DataError(f"{path}: the zip archive holds no file")
    names = ", ".join(member.filename for member in members[:5])
    raise DataError(
        f"{path}: the zip archive holds {len(members):,} files ({names}"
        f"{', …' if len(members) > 5 else ''}); kvtui reads one with a single file",
        hint=f"Unpack the one you mean: unzip {path.name} {members[0].filename}",
    )


@contextmanager
def _plain_words(path: Path) -> Iterator[None]:
    """Turns whatever unpacking and reading raise into one DataError."""
    hint = "Fetch the file again; a part of it is never used as if it were whole."
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist", hint="Check the path.") from None
    except PermissionError:
        raise DataError(
            f"{path} may not be read", hint="Check the file's permissions."
        ) from None
    except EOFError:
        raise Damaged(f"{path}: the packed data end too early", hint=hint) from None
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise Damaged(
            f"{path}: the packed data are damaged ({error})", hint=hint
        ) from (error)
    except RuntimeError as error:  # zipfile: encrypted, or an unknown method
        raise DataError(
            f"{path}: the zip archive cannot be unpacked ({error})",
            hint="Unpack it first with a tool that can.",
        ) from error
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="Check the path and the disk.",
        ) from error
