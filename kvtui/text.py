"""From data to something safe and aligned to show.

Everything that comes from outside (page names, server errors, file names) goes
through :func:`visible` or :func:`plain` once, at the border, before a widget, a
report or a log sees it: control characters, terminal escapes, bidirectional
overrides and lone surrogates become visible escapes, so that nothing in the data
can move the cursor, colour a screen or reorder a line. Widths are counted in
terminal cells, never in characters.
"""

from __future__ import annotations

import math
import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.content import Content

NOTHING: Final = "–"
"""Shown where nothing was measured. Never 0."""

_SHORT_ESCAPES: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\x1b": "\\e"}
# Cc control, Cf format (bidi overrides, zero width space and joiners), Cs lone
# surrogates, Co private use, Zl and Zp line and paragraph separators.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def visible(text: str | bytes, limit: int = 4096) -> str:
    """``text`` with every character that does not print made a visible escape.

    Bytes are read as UTF-8; a byte that is not becomes ``\\xNN``. More than
    ``limit`` characters are cut with an ellipsis, before any layout sees them.
    Joiners inside emoji are escaped too: they draw at different widths in
    different terminals, and an aligned column matters more than a family.
    """
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode("utf-8", "backslashreplace")
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_character, text))


def _visible_character(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    short = _SHORT_ESCAPES.get(character)
    if short:
        return short
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def plain(text: str | bytes, width: int | None = None) -> Content:
    """``text`` as a :class:`textual.content.Content`: shown letter for letter.

    With ``width`` it is also cut to that many cells. This is the only way for
    text from outside to reach a widget.
    """
    from textual.content import Content

    shown = visible(text)
    return Content(shown if width is None else cut(shown, width))


def cells(text: str) -> int:
    """How many terminal cells ``text`` takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """``text`` in at most ``width`` cells, ending in ``ellipsis`` where cut.

    A wide character is never halved: the result may be a cell short.
    """
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 0:
        return ""
    kept = ""
    for character in text:
        # Measured together: some characters widen the one before them.
        if cells(kept + character) > room:
            break
        kept += character
    return kept + ellipsis


def fit(text: str, width: int, *, right: bool = False) -> str:
    """``text`` cut or padded to exactly ``width`` cells."""
    shown = cut(text, width)
    padding = " " * (width - cells(shown))
    return padding + shown if right else shown + padding


def count(number: float | None) -> str:
    """A whole number with thousands separators: ``79,587``."""
    return NOTHING if _missing(number) else f"{number:,.0f}"


def rate(per_second: float | None) -> str:
    """Operations a second in four significant places: ``48.1 k``."""
    if per_second is None or _missing(per_second):
        return NOTHING
    for limit, divisor, unit in ((1e4, 1, ""), (1e7, 1e3, " k"), (1e10, 1e6, " M")):
        if per_second < limit:
            value = per_second / divisor
            places = 0 if value >= 1000 or not unit else 1
            if not unit and value < 100:
                places = 1
            return f"{value:,.{places}f}{unit}"
    return f"{per_second / 1e9:,.1f} G"


def duration(nanoseconds: float | None) -> str:
    """A latency in the unit that suits it: ``310 ns``, ``82 µs``, ``1.2 ms``."""
    if nanoseconds is None or _missing(nanoseconds):
        return NOTHING
    for limit, divisor, unit in ((1e3, 1, "ns"), (1e6, 1e3, "µs"), (1e9, 1e6, "ms")):
        if nanoseconds < limit * 0.9995:
            return f"{_three_places(nanoseconds / divisor)} {unit}"
    return f"{_three_places(nanoseconds / 1e9)} s"


def seconds(length_s: float | None) -> str:
    """A length of time for people: ``0.83 s``, ``12.4 s``, ``3 min 05 s``."""
    if length_s is None or _missing(length_s):
        return NOTHING
    if length_s < 10:
        return f"{length_s:.2f} s"
    if length_s < 99.95:
        return f"{length_s:.1f} s"
    whole = round(length_s)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def size(length_bytes: float | None) -> str:
    """An amount of data in decimal units: ``1.69 GB``."""
    if length_bytes is None or _missing(length_bytes):
        return NOTHING
    if length_bytes < 1000:
        return f"{length_bytes:.0f} B"
    for limit, divisor, unit in ((1e6, 1e3, "kB"), (1e9, 1e6, "MB"), (1e12, 1e9, "GB")):
        if length_bytes < limit * 0.9995:
            return f"{_three_places(length_bytes / divisor)} {unit}"
    return f"{_three_places(length_bytes / 1e12)} TB"


def percent(share: float | None, places: int = 0) -> str:
    """A share of one as a percentage: ``62 %``."""
    if share is None or _missing(share):
        return NOTHING
    return f"{100 * share:.{places}f} %"


def times(ratio: float | None) -> str:
    """How many times: ``1.75×``."""
    if ratio is None or _missing(ratio):
        return NOTHING
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:,.0f}×"


def _three_places(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def _missing(number: float | None) -> bool:
    return number is None or not math.isfinite(number)


class Glyphs(NamedTuple):
    """The characters that charts and bars are drawn with."""

    spark: str
    """From nothing to full, at least two characters."""
    bar: str
    """Parts of a cell from nothing to full, for a horizontal bar."""
    yes: str
    no: str
    here: str
    ellipsis: str
    braille: bool
    """Whether charts may be drawn with braille dots."""


UNICODE: Final = Glyphs(" ▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█", "✓", "✗", "▸", "…", True)
ASCII: Final = Glyphs(" .:-=+*#%@", " #", "y", "x", ">", "...", False)


def glyphs(
    environment: Mapping[str, str] | None = None, encoding: str | None = None
) -> Glyphs:
    """The set that this terminal can show.

    ``KVTUI_ASCII=1`` asks for ASCII, ``KVTUI_ASCII=0`` for the full set.
    Otherwise ASCII is chosen when the output encoding or the locale is not UTF-8,
    and on the Linux console and the vt terminals, whose fonts lack most block and
    all braille characters.
    """
    environment = os.environ if environment is None else environment
    asked = environment.get("KVTUI_ASCII", "")
    if asked:
        return UNICODE if asked == "0" else ASCII
    if encoding is None:
        encoding = getattr(sys.__stdout__, "encoding", None) or "ascii"
    terminal = environment.get("TERM", "")
    if (
        encoding.lower().replace("-", "") != "utf8"
        or not _locale_is_utf8(environment)
        or terminal == "linux"
        or terminal.startswith("vt")
    ):
        return ASCII
    return UNICODE


def _locale_is_utf8(environment: Mapping[str, str]) -> bool:
    language = environment.get("LANG", "")
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or language
    if (
        not environment.get("LC_ALL")
        and environment.get("LC_CTYPE") == "C.UTF-8"
        and language in ("", "C", "POSIX")
    ):
        # Python sets LC_CTYPE so by itself where the person set no locale at all
        # (PEP 538); it says nothing about the terminal.
        return False
    return "utf8" in locale.lower().replace("-", "")


def spark(values: list[float | None], glyph_set: Glyphs, top: float | None) -> str:
    """One character a value, from 0 to ``top`` (the largest value by default).

    A value that was not measured (None) or is not finite is a blank; the scale
    always starts at 0, so a steady rate is a full line and not a floor.
    """
    known = [value for value in values if value is not None and math.isfinite(value)]
    highest = top if top is not None else max(known, default=0.0)
    steps = len(glyph_set.spark) - 1
    drawn: list[str] = []
    for value in values:
        if value is None or not math.isfinite(value):
            drawn.append(" ")
        elif highest <= 0 or value <= 0:
            drawn.append(glyph_set.spark[1])
        else:
            level = math.ceil(min(1.0, value / highest) * steps)
            drawn.append(glyph_set.spark[max(1, level)])
    return "".join(drawn)


def bar(share: float | None, width: int, glyph_set: Glyphs) -> str:
    """A horizontal bar of ``width`` cells, ``share`` (0 to 1) of it filled."""
    if share is None or not math.isfinite(share):
        return " " * width
    parts = len(glyph_set.bar) - 1
    filled = round(max(0.0, min(1.0, share)) * width * parts)
    whole, part = divmod(filled, parts)
    drawn = glyph_set.bar[-1] * whole
    if part:
        drawn += glyph_set.bar[part]
    return drawn.ljust(width)
