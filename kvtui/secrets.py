"""Secrets that this process has come to know, and texts without them.

What is a password is learned where it is met: the value behind ``password_env`` or
``password_file`` when a store's settings are taken up, the part behind the colon in
an address that somebody typed. From then on :func:`hidden` takes it out of every
text on its way out: error texts, tracebacks, logs, events.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    import threading
    from types import TracebackType

HIDDEN: Final = "•••"
"""What stands where a secret stood."""
ANYWHERE: Final = 4
"""Characters from which on a secret is hidden also inside a word."""
ALONE: Final = 3
"""Characters of a secret that is hidden only where it stands alone: as a part of
words and numbers it says nothing, and hiding it there would spoil them."""

# Texts: they are compiled where there is something to look through.
_AUTHORITY: Final = r"[A-Za-z][A-Za-z0-9+.-]*://(\S*)"
_IN_ADDRESS: Final = r"(://[^\s/:@]*:)[^\s/@]+(@)"
_IN_WORDS: Final = r"(?i)\b(?:password|passwd|pwd|pass)=([^\s,&#]+)"
_SECRET_FILE_BYTES: Final = 65_536

_known: set[str] = set()


def learn(secret: str) -> None:
    """Hide this from now on, also as JSON and Python's repr write it."""
    if len(secret.strip()) < ALONE:
        return
    escaped = secret.encode("unicode_escape").decode()
    quoted = secret.replace("\\", "\\\\").replace('"', '\\"')
    _known.update({secret, repr(secret)[1:-1], escaped, quoted})


def learn_settings(settings: Mapping[str, Any]) -> None:
    """Learn the password that a store's settings name, where it is to be had."""
    name, file = settings.get("password_env"), settings.get("password_file")
    if isinstance(name, str):
        learn(os.environ.get(name, ""))
    if isinstance(file, str):
        try:
            with open(file, "rb") as opened:
                learn(opened.read(_SECRET_FILE_BYTES).decode().rstrip("\r\n"))
        except (OSError, ValueError):
            return  # The adapter says what is wrong with it.


def learn_typed(text: str) -> None:
    """Learn the passwords in what somebody typed: those of addresses
    (``x://user:password@host``), and what stands after ``password=``."""
    if "=" not in text and "://" not in text:
        return
    for found in re.finditer(_IN_WORDS, text):
        learn(found[1])
        learn(_decoded(found[1]))
    for found in re.finditer(_AUTHORITY, text):
        secret = password_in(found[1])
        if secret:
            learn(secret)
            learn(_decoded(secret))


def password_in(rest: str) -> str:
    """The password in what follows ``x://``; empty where there is none.

    One that was not encoded may hold ``/``, ``#`` or ``?``: then what looks like a
    port is no number, and an ``@`` comes later.
    """
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        # An @ that was not encoded either belongs to the password.
        userinfo = authority.rpartition("@")[0]
        return userinfo.partition(":")[2]
    _, colon, port = authority.rpartition(":")
    if colon and not port.isdecimal() and not port.endswith("]") and "@" in rest:
        return rest.rpartition("@")[0].partition(":")[2]
    return ""


def _decoded(secret: str) -> str:
    from urllib.parse import unquote

    return unquote(secret, errors="replace")


def hidden(text: str) -> str:
    """``text`` without any secret that is known."""
    for secret in sorted(_known, key=len, reverse=True):
        if len(secret) >= ANYWHERE:
            text = text.replace(secret, HIDDEN)
        elif secret in text:
            alone = rf"(?<![\w.]){re.escape(secret)}(?![\w.])"
            text = re.sub(alone, HIDDEN, text)
    if "://" in text:
        text = re.sub(_IN_ADDRESS, rf"\1{HIDDEN}\2", text)
    return text


def forget() -> None:
    """Know nothing again; for tests."""
    _known.clear()


def print_traceback(error: BaseException, file: TextIO | None = None) -> None:
    """An exception's traceback without secrets, on standard error."""
    print(traceback_text(error), end="", file=file or sys.stderr, flush=True)


def traceback_text(error: BaseException) -> str:
    """An exception's traceback without secrets; it holds no variables."""
    import traceback

    return hidden("".join(traceback.format_exception(error)))


def guard() -> None:
    """Print also those exceptions that nobody catches without secrets."""
    import threading

    def fell(
        _: type[BaseException], error: BaseException, __: TracebackType | None
    ) -> None:
        print_traceback(error)

    def fell_in_thread(seen: threading.ExceptHookArgs) -> None:
        if seen.exc_value is not None and seen.exc_type is not SystemExit:
            print_traceback(seen.exc_value)

    sys.excepthook = fell
    threading.excepthook = fell_in_thread
