"""Header fields as people write them: ``Name: value``.

A value may be kept elsewhere: ``Authorization: Bearer env:TOKEN`` takes it from the
environment, ``Cookie: file:cookie.txt`` from a file. Of a field that holds a secret by
its name nothing else is taken, so that no plan, journal or list of processes shows
it; what was found is hidden in every text from then on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from kvtui import secrets
from kvtui.errors import ConfigError, UsageError

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_KEPT: Final = re.compile(r"((?:[A-Za-z]{1,12} |[A-Za-z][\w.-]*=)?)(env|file):(\S.*)")
"""Perhaps a scheme or a cookie's name, and where the rest is kept."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET: Final = re.compile(
    r"auth|cookie|token|secret|passw|credential|session|signature|(api|access)[-_]?key",
    re.IGNORECASE,
)
_OURS: Final = {
    "content-length": "kvtui counts the body's bytes itself",
    "transfer-encoding": "a body goes with its length, not in chunks",
    "connection": "keep_alive of the store says whether connections are kept",
    "keep-alive": "keep_alive of the store says whether connections are kept",
    "proxy-connection": "keep_alive of the store says whether connections are kept",
    "upgrade": "kvtui speaks HTTP/1.1 alone",
    "expect": "a body goes with its request",
    "te": "trailers are read over",
    "trailer": "a body goes with its length, not in chunks",
}
_FILE_BYTES: Final = 65_536


class Field(NamedTuple):
    """One header field, its value perhaps kept elsewhere."""

    name: str
    before: str
    """What stands before the kept part, or the whole value."""
    kept: str = ""
    """``env`` or ``file``; empty: nowhere else."""
    where: str = ""

    @property
    def secret(self) -> bool:
        """Whether its value is not to be shown."""
        return bool(self.kept) or _SECRET.search(self.name) is not None


def parsed(words: Iterable[str]) -> tuple[Field, ...]:
    """The fields that these words mean; UsageError, which never repeats a value."""
    found = tuple(_parsed(word) for word in words)
    hosts = [each for each in found if each.name.lower() == "host"]
    if len(hosts) > 1:
        raise UsageError("the header Host is given twice", hint="a request has one")
    return found


def _parsed(word: str) -> Field:
    name, colon, value = word.partition(":")
    name, value = name.strip(" \t"), value.strip(" \t")
    if not colon or not _NAME.fullmatch(name):
        raise UsageError(
            "a header is no 'Name: value'", hint="as in -H 'Accept: text/html'"
        )
    if name.lower() in _OURS:
        raise UsageError(
            f"the header {name} is not for you to say", hint=_OURS[name.lower()]
        )
    kept = _KEPT.fullmatch(value)
    if kept is None and value and _SECRET.search(name):
        for part in {value, *value.split()}:
            secrets.learn(part)
        raise UsageError(
            f"the header {name} holds a secret, which can be seen by all",
            hint=f"name where it is kept: -H '{name}: env:NAME' or '{name}: file:FILE'"
            " (a scheme may stand before it); and change it, it has been seen",
        )
    if kept is not None and kept[2] == "env" and not _VARIABLE.fullmatch(kept[3]):
        raise UsageError(
            f"the header {name} names no environment variable after env:",
            hint=f"as in -H '{name}: env:TOKEN'",
        )
    _check_value(name, value)
    if name.lower() == "host" and (not value or re.search(r"[\s/@?#]", value)):
        raise UsageError("the header Host is no host", hint="as in -H 'Host: a.test'")
    return Field(name, *kept.groups()) if kept else Field(name, value)


def _check_value(name: str, value: str) -> None:
    """A line's end in a value would begin another header, or another request."""
    if any((letter < " " and letter != "\t") or letter == "\x7f" for letter in value):
        raise UsageError(
            f"the header {name} holds a line's end or another control character",
            hint="a value is one line",
        )


def resolved(fields: Iterable[Field]) -> tuple[tuple[str, str], ...]:
    """Names and values, with what is kept elsewhere. ConfigError where it is not
    there; from now on no text of this process shows it."""
    return tuple((each.name, _value(each)) for each in fields)


def _value(field: Field) -> str:
    if not field.kept:
        return field.before
    if field.kept == "env":
        found = os.environ.get(field.where)
        if found is None:
            raise ConfigError(
                f"the environment has no {field.where}, which the header {field.name}"
                " needs"
            )
    else:
        try:
            with Path(field.where).expanduser().open("rb") as opened:
                found = opened.read(_FILE_BYTES).decode()
        except OSError as error:
            raise ConfigError(
                f"{field.where}, which the header {field.name} needs, cannot be read:"
                f" {error.strerror}"
            ) from None
        except UnicodeDecodeError:
            raise ConfigError(f"{field.where} is no text in UTF-8") from None
    found = found.rstrip("\r\n")
    secrets.learn(found)
    _check_value(field.name, found)
    return field.before + found
