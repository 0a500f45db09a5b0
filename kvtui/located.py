"""TOML with the line of every key.

The standard library's parser keeps no lines. It is used here as it is, one statement
at a time: a statement ends with the first line up to which it parses, because no
beginning of a longer one is TOML by itself (a bracket or a quote is still open). So
every line is found by the parser that reads the values, and by no second one.
"""

from __future__ import annotations

import codecs
import os
import stat
import tomllib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from kvtui.errors import ConfigError

LIMIT_BYTES: Final = 250_000
"""A settings file is written by hand; what is larger is something else."""

Key = tuple[str, ...]


class Located:
    """A TOML document and where its keys stand."""

    def __init__(self, path: Path, text: str, values: dict[str, Any]) -> None:
        self.path = path
        self.values = values
        self._text = text

    @cached_property
    def _lines(self) -> dict[Key, int]:
        # Only an error and a list of settings ask for them.
        return dict(_lines(self._text))

    def line(self, *key: str) -> int:
        """The line of a key, or of the nearest table around it; 1 for neither."""
        while key and key not in self._lines:
            key = key[:-1]
        return self._lines.get(key, 1)

    def place(self, *key: str) -> str:
        """``FILE:LINE`` of a key."""
        return f"{self.path}:{self.line(*key)}"

    def error(self, problem: str, *key: str, hint: str | None = None) -> ConfigError:
        """What is wrong with a key, with its file and line."""
        return ConfigError(f"{self.place(*key)}: {problem}", hint=hint)


def load(path: Path) -> Located:
    """Read a file; one that is not there is empty. ConfigError for what is no TOML,
    no regular file, or a link that leads nowhere."""
    try:
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _no_file(path)
            raw = file.read(LIMIT_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(
                f"{path} is a link to {os.readlink(path)}, which is not there",
                hint="make that file, or remove the link",
            ) from None
        return Located(path, "", {})
    except IsADirectoryError:
        raise _no_file(path) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    if len(raw) > LIMIT_BYTES:
        raise ConfigError(f"{path} is too large for a settings file")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        was = "UTF-16" if raw[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else ""
        raise ConfigError(
            f"{path}:{line}: this is not UTF-8",
            hint=f"save it as UTF-8, or: iconv -f {was or 'LATIN1'} -t UTF-8 FILE",
        ) from None
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _no_toml(path, text, error) from None
    return Located(path, text, values)


def _at_once(path: str, flags: int) -> int:
    """Opening a pipe would wait for somebody who writes into it."""
    return os.open(path, flags | os.O_NONBLOCK)


def _no_file(path: Path) -> ConfigError:
    what = "a folder" if path.is_dir() else "no regular file"
    return ConfigError(
        f"{path} cannot be read: it is {what}",
        hint="move it away; kvtui config --example prints what may stand there",
    )


def _no_toml(path: Path, text: str, error: Exception) -> ConfigError:
    """The parser says ``… (at line 3, column 5)`` or ``… (at end of document)``."""
    problem, _, where = str(error).rpartition(" (at ")
    number = where.removeprefix("line ").partition(",")[0]
    line = number if number.isdecimal() else str(text.count("\n") + 1)
    hint = 'texts stand in quotes, as in host = "127.0.0.1"'
    return ConfigError(f"{path}:{line}: not TOML: {problem or error}", hint=hint)


def _lines(text: str) -> Iterator[tuple[Key, int]]:
    """Keys and the line that each first stands on, of a text that is TOML."""
    seen: set[Key] = set()
    table: Key = ()
    statement, start = "", 1
    for number, line in enumerate(text.split("\n"), 1):
        if not statement:
            start = number
        statement += line + "\n"
        try:
            parsed = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # It goes on in the next line.
        if statement.lstrip().startswith("["):
            table = _deepest(parsed)
            keys = [table[:length] for length in range(1, len(table) + 1)]
        else:
            keys = [table + key for key in _keys(parsed)]
        for key in keys:
            if key not in seen:
                seen.add(key)
                yield key, start
        statement = ""


def _deepest(parsed: dict[str, Any]) -> Key:
    """The key of the one table that a header makes."""
    key: Key = ()
    inside: Any = parsed
    while inside:
        if isinstance(inside, list):
            inside = inside[0]
            continue
        ((name, inside),) = inside.items()
        key += (name,)
    return key


def _keys(parsed: dict[str, Any]) -> Iterator[Key]:
    """Every key of a statement, those of inline tables too."""
    for name, value in parsed.items():
        yield (name,)
        if isinstance(value, dict):
            yield from ((name, *rest) for rest in _keys(value))
