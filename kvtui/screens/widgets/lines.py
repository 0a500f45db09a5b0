"""Lines of styled text, and the one place where they become what is drawn."""

from __future__ import annotations

from typing import Final, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from kvtui.text import cells, cut, visible

Part: TypeAlias = tuple[str, str]
"""Text and the name of its style."""
Line: TypeAlias = list[Part]

# The terminal's own sixteen colours on its own background: readable on light and
# dark, few bytes, and never the only sign of anything.
STYLES: Final = {
    "": Style.null(),
    "dim": Style(dim=True),
    "bold": Style(bold=True),
    "title": Style(bold=True, color="blue"),
    "key": Style(bold=True),
    "good": Style(color="green"),
    "bad": Style(bold=True, color="red"),
    "warn": Style(color="yellow"),
    "chart": Style(color="cyan"),
    "here": Style(reverse=True),
    "cursor": Style(reverse=True),
}

_ASCII: Final = str.maketrans(
    {
        "·": "-",
        "…": "~",
        "×": "x",
        "÷": "/",
        "µ": "u",
        "–": "-",
        "─": "-",
        "│": "|",
        "●": "*",
        "▸": ">",
        "›": ">",
        "✓": "y",
        "✗": "x",
        "≤": "<",
    }
)


def strip(line: Line, width: int, *, ascii_only: bool, style: str = "") -> Strip:
    """``line`` in exactly ``width`` cells, over a style for the whole of it.

    Text that would not print is made visible here whatever happened before: no
    control character passes.
    """
    base = STYLES[style]
    segments = [
        Segment(_printable(text, ascii_only), base + STYLES[name])
        for text, name in line
        if text
    ]
    return Strip(segments).adjust_cell_length(width, base)


def _printable(text: str, ascii_only: bool) -> str:
    if not text.isprintable():
        text = visible(text)
    if not ascii_only or text.isascii():
        return text
    text = text.translate(_ASCII)
    return "".join(
        character if character.isascii() else "?" * cells(character)
        for character in text
    )


def length(line: Line) -> int:
    """How many cells a line takes."""
    return sum(cells(text) for text, _ in line)


def fitted(line: Line, width: int) -> Line:
    """``line`` cut or padded to exactly ``width`` cells."""
    fitted_line: Line = []
    room = width
    for text, style in line:
        if room <= 0:
            break
        shown = cut(text, room)
        fitted_line.append((shown, style))
        room -= cells(shown)
        if shown != text:
            break
    if room > 0:
        fitted_line.append((" " * room, ""))
    return fitted_line


_UNITS: Final = frozenset(["ns", "µs", "ms", "s", "%", "k", "M"]) | {
    f"{size}B{per}" for size in ("", "k", "M", "G", "T") for per in ("", "/s")
}


def _words(text: str) -> list[str]:
    """The words of a text; a number and its unit are one."""
    words: list[str] = []
    for word in text.split(" "):
        if words and word.rstrip(",;:.") in _UNITS and words[-1][-1:].isdigit():
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words


def wrap(text: str, width: int, *, most: int | None = None) -> list[str]:
    """``text`` broken into lines of at most ``width`` cells, at spaces if it can.

    With ``most`` there are never more lines; the last one then says that it is
    cut.
    """
    if width < 1:
        return []
    lines: list[str] = []
    line = ""
    for word in _words(text):
        joined = f"{line} {word}" if line else word
        if cells(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        while cells(word) > width:
            head = cut(word, width, "")
            if not head:
                break
            lines.append(head)
            word = word[len(head) :]
        line = word
    lines.append(line)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], cut(f"{lines[most - 1]} …", width)]
        if not lines[-1].endswith("…"):
            lines[-1] = cut(lines[-1] + " " * width, width)
    return lines


def paragraph(text: str, width: int, style: str = "", indent: int = 2) -> list[Line]:
    """``text`` wrapped, with the lines after the first indented."""
    first, *rest = wrap(text, max(8, width - indent))
    return [[(first, style)], *([(" " * indent + each, style)] for each in rest)]
