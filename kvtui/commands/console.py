"""Standard output for results, standard error for everything else.

Output never fails for a letter that the terminal cannot show, and a reader that
has gone away is nobody's error.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import re
import sys
from typing import Final, TextIO

from kvtui import text
from kvtui.errors import KvtuiError
from kvtui.secrets import hidden

PLAIN_WIDTH: Final = 80
"""Cells of a line where nobody says how wide the terminal is."""

_HIDDEN_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ue000-\uf8ff]"
)


def prepare() -> None:
    """Make standard output and error safe to write any text to."""
    codecs.register_error("kvtui", _likes)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by whoever started us
            # Stays open as long as the process.
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            setattr(sys, name, stream)
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):
                if _shows_ascii_only(stream):
                    stream.reconfigure(encoding="ascii", errors="kvtui")
                else:
                    stream.reconfigure(errors="kvtui")


def _likes(error: UnicodeError) -> tuple[str, int]:
    """What stands for letters that an encoding does not have."""
    from kvtui.tables import ascii_letters

    if not isinstance(error, UnicodeEncodeError):
        raise error
    return ascii_letters(error.object[error.start : error.end]), error.end


def _shows_ascii_only(stream: TextIO) -> bool:
    """Whether it is a terminal that is not known to read UTF-8."""
    if not is_terminal(stream):
        return False
    # The consoles whose font lacks our block characters have the letters.
    environment = {**os.environ, "TERM": ""}
    return text.glyphs(environment, stream.encoding) is text.ASCII


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is one."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def ascii_only() -> bool:
    """Whether results can hold nothing but ASCII, so that columns must too."""
    return (sys.stdout.encoding or "ascii").lower() in ("ascii", "us-ascii", "646")


def width() -> int | None:
    """Cells of a line of results; None where they go to no terminal."""
    if not is_terminal(sys.stdout):
        return None
    import shutil

    return max(20, shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns)


def out(line: str = "") -> None:
    """A line of results."""
    sys.stdout.write(line + "\n")


def alarm(line: str) -> None:
    """A line of results that nobody may miss: in red on a terminal with colours."""
    coloured = is_terminal(sys.stdout) and not os.environ.get("NO_COLOR")
    if coloured and os.environ.get("TERM", "dumb") != "dumb":
        line = f"\x1b[1;31m{line}\x1b[0m"
    out(line)


def out_bytes(data: bytes) -> None:
    """Results byte for byte, whatever the locale."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode())
    else:
        buffer.write(data)


def out_json(data: bytes) -> None:
    """A JSON document in UTF-8.

    On a terminal the characters that would steer it are written as JSON escapes;
    the document says the same.
    """
    if is_terminal(sys.stdout):
        shown = _HIDDEN_IN_JSON.sub(
            lambda found: f"\\u{ord(found[0]):04x}", _text(data)
        )
        if ascii_only():
            shown = "".join(map(_json_escape, shown))
        out(shown)
    else:
        out_bytes(data + b"\n")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _json_escape(character: str) -> str:
    if character.isascii():
        return character
    units = character.encode("utf-16-be")
    return "".join(
        f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2)
    )


def say(line: str = "") -> None:
    """A line for people, on standard error; lost where nobody is there. It holds no
    secret, whoever wrote its text."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(hidden(line) + "\n")
        sys.stderr.flush()


def complain(message: str, hint: str | None = None) -> None:
    """An error, and what to do next."""
    say(f"kvtui: {text.visible(message.removeprefix('kvtui '))}")
    for line in (hint or "").splitlines():
        say(f"  {text.visible(line)}")


def complain_of(error: KvtuiError) -> None:
    """An error of ours."""
    complain(error.message, error.hint)
