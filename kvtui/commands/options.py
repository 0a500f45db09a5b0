"""Option types and choices that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvtui.defaults import number
from kvtui.errors import DataError, UsageError

__all__ = ["Count", "existing_file", "file_to_write", "number", "settings", "typed"]


class Count(click.ParamType[int]):
    """A whole number, as ``10000``, ``10_000``, ``10,000`` or ``10k``."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        found = number(str(value))
        if found is None or found != int(found):
            self.fail(f"{value!r} is not a whole number such as 10000 or 10k")
        return int(found)


def typed(word: str) -> str:
    """A word of the command line in UTF-8, also where the locale is not."""
    return word.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def settings(words: tuple[str, ...]) -> dict[str, Any]:
    """``--set key=value`` words; numbers may have units."""
    found: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key:
            raise UsageError(
                f"--set {word}: this is not key=value", hint="as in --set mode=cached"
            )
        if key in found:
            raise UsageError(f"--set {key} is given twice")
        as_number = number(value)
        found[key] = value if as_number is None else as_number
    return found


def existing_file(path: str | Path, what: str) -> Path:
    """An absolute path to a file that can be read; DataError otherwise."""
    found = Path(path).expanduser().absolute()
    if found.exists() and not found.is_file():
        raise DataError(f"{what} {path} is not a file")
    try:
        with found.open("rb"):
            return found
    except OSError as error:
        raise DataError(
            f"{what} {path} cannot be read: {error.strerror}",
            hint="is this the path, from the folder you are in?",
        ) from None


def file_to_write(path: str | Path) -> Path:
    """An absolute path in a folder that is there; UsageError otherwise."""
    found = Path(path).expanduser().resolve()
    if found.is_dir():
        raise UsageError(f"{path} is a folder, not a file")
    if found.exists() and not found.is_file():
        raise UsageError(
            f"{path} is not a file", hint="a device or a pipe is not replaced by one"
        )
    if not found.parent.is_dir():
        raise UsageError(
            f"{path} cannot be written: there is no folder {found.parent}",
            hint=f"mkdir -p {found.parent}",
        )
    return found
