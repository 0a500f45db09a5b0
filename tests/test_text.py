"""From data to something safe and aligned to show."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvtui import text
from kvtui.text import ASCII, UNICODE, cells
from tests.journals import HOSTILE

NASTY = [*HOSTILE, "\u2028\u2029", "\ud800", "\ue000", "\x00", "\x85", "\xad", "﷽", "ห้"]

texts = st.text(max_size=60) | st.sampled_from(NASTY)


@given(texts | st.binary(max_size=60))
def test_nothing_that_moves_a_cursor_survives(given_text: str | bytes) -> None:
    """118."""
    shown = text.visible(given_text)
    for character in shown:
        category = unicodedata.category(character)
        assert category not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"), ascii(shown)
    shown.encode()


@pytest.mark.parametrize(
    ("given_text", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[2J", "\\e[2J"),
        ("\x1b]52;c;eA==\x07", "\\e]52;c;eA==\\x07"),
        ("a\tb\nc\rd", "a\\tb\\nc\\rd"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\U000e0041"),
        (b"caf\xe9", "caf\\xe9"),
        ("café".encode(), "café"),
        ("[/] [b]bold[/b]", "[/] [b]bold[/b]"),
        ("日本語", "日本語"),
        ("", ""),
    ],
)
def test_hidden_characters_become_visible(given_text: str | bytes, shown: str) -> None:
    assert text.visible(given_text) == shown


def test_very_long_text_is_cut_before_any_layout_sees_it() -> None:
    assert text.visible("x" * 10**7) == "x" * 4095 + "…"
    assert text.visible(b"x" * 10**7) == "x" * 4095 + "…"
    assert text.visible("é" * 50, limit=10) == "é" * 9 + "…"
    assert text.visible("é".encode() * 10, limit=10) == "é" * 10


@given(texts, st.integers(0, 40), st.booleans())
@example("日本語ページ", 20, False)
@example("日本語ページ", 7, True)
@example("e\u0301" * 30, 20, False)
def test_fit_is_exactly_as_wide_as_asked(
    given_text: str, width: int, right: bool
) -> None:
    """119: columns stay aligned, by cells and not by characters."""
    shown = text.visible(given_text)
    assert cells(text.fit(shown, width, right=right)) == width


@given(texts, st.integers(0, 40))
@example("❤\ufe0f❤\ufe0f❤\ufe0f❤\ufe0f", 3)
@example("1\ufe0f\u20e3" * 9, 5)
def test_cut_is_never_wider_than_asked(given_text: str, width: int) -> None:
    shown = text.visible(given_text)
    found = text.cut(shown, width)
    assert cells(found) <= width
    if cells(shown) <= width:
        assert found == shown


def test_a_wide_character_is_never_halved() -> None:
    assert text.cut("日本語ページ", 6) == "日本…"
    assert text.cut("日本語ページ", 5) == "日本…"
    assert text.cut("日本語ページ", 4) == "日…"
    assert text.fit("日本語ページ", 6) == "日本… "
    assert text.fit("ab", 5) == "ab   "
    assert text.fit("ab", 5, right=True) == "   ab"
    assert text.cut("abcdef", 4, "...") == "a..."
    assert text.cut("abcdef", 2, "...") == ""


@pytest.mark.parametrize(
    ("nanoseconds", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (0, "0.00 ns"),
        (1, "1.00 ns"),
        (310, "310 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (1000, "1.00 µs"),
        (82_000, "82.0 µs"),
        (1_234_000, "1.23 ms"),
        (999_950_000, "1.00 s"),
        (2_000_000_000, "2.00 s"),
        (3_600_000_000_000, "3,600 s"),
    ],
)
def test_durations(nanoseconds: float | None, shown: str) -> None:
    assert text.duration(nanoseconds) == shown


@pytest.mark.parametrize(
    ("length_s", "shown"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.834, "0.83 s"),
        (12.44, "12.4 s"),
        (99.94, "99.9 s"),
        (99.96, "1 min 40 s"),
        (185, "3 min 05 s"),
        (3599.6, "1 h 00 min"),
        (7260, "2 h 01 min"),
    ],
)
def test_seconds(length_s: float | None, shown: str) -> None:
    assert text.seconds(length_s) == shown


@pytest.mark.parametrize(
    ("per_second", "shown"),
    [
        (None, "–"),
        (float("inf"), "–"),
        (0, "0.0"),
        (0.25, "0.2"),
        (99.9, "99.9"),
        (4321, "4,321"),
        (48_100, "48.1 k"),
        (1_234_567, "1,235 k"),
        (12_345_678, "12.3 M"),
        (2e10, "20.0 G"),
    ],
)
def test_rates(per_second: float | None, shown: str) -> None:
    assert text.rate(per_second) == shown


@pytest.mark.parametrize(
    ("length_bytes", "shown"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (4096, "4.10 kB"),
        (999_950, "1.00 MB"),
        (1_690_000_000, "1.69 GB"),
        (2e12, "2.00 TB"),
    ],
)
def test_sizes_are_decimal(length_bytes: float | None, shown: str) -> None:
    """086: one unit, and the right letters."""
    assert text.size(length_bytes) == shown


@pytest.mark.parametrize(
    "show", [text.count, text.rate, text.duration, text.seconds, text.size, text.times]
)
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), -float("inf")])
def test_what_was_not_measured_is_a_dash(show: object, value: float | None) -> None:
    assert callable(show)
    assert show(value) == text.NOTHING
    assert text.percent(value) == text.NOTHING


values = st.lists(
    st.none()
    | st.floats(0, 1e12)
    | st.sampled_from([float("nan"), float("inf"), -1.0, 0.0]),
    max_size=40,
)


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@given(given_values=values, top=st.none() | st.floats(0, 1e12))
def test_a_spark_has_one_character_a_value(
    glyphs: text.Glyphs, given_values: list[float | None], top: float | None
) -> None:
    drawn = text.spark(given_values, glyphs, top)
    assert len(drawn) == cells(drawn) == len(given_values)
    assert set(drawn) <= set(glyphs.spark)


def test_a_spark_starts_at_zero_and_shows_what_is_missing() -> None:
    assert text.spark([5.0, 5.0, 5.0], UNICODE, None) == "███"
    assert text.spark([0.0, None, 8.0, 4.0], UNICODE, None) == "▁ █▄"
    assert text.spark([0.0, 0.0], UNICODE, None) == "▁▁"
    assert text.spark([], UNICODE, None) == ""
    assert text.spark([20.0], UNICODE, 10.0) == "█"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@given(share=st.none() | st.floats(), width=st.integers(0, 50))
def test_a_bar_is_exactly_as_wide_as_asked(
    glyphs: text.Glyphs, share: float | None, width: int
) -> None:
    """095: nothing overflows, whatever the share."""
    assert cells(text.bar(share, width, glyphs)) == width


def test_bars() -> None:
    assert text.bar(0.5, 4, UNICODE) == "██  "
    assert text.bar(0.0, 4, UNICODE) == "    "
    assert text.bar(1.0, 4, UNICODE) == "████"
    assert text.bar(7.0, 4, ASCII) == "####"
    assert text.bar(None, 4, ASCII) == "    "


@pytest.mark.parametrize(
    ("environment", "encoding", "unicode"),
    [
        ({"LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LC_ALL": "C.UTF-8"}, "utf-8", True),
        ({"LANG": "C"}, "utf-8", False),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({}, "utf-8", False),
        # Python's own coercion says nothing about the terminal.
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", False),
        ({"LANG": "en_US.UTF-8"}, "latin-1", False),
        ({"LANG": "en_US.UTF-8", "TERM": "linux"}, "utf-8", False),
        ({"LANG": "C", "KVTUI_ASCII": "0"}, "ascii", True),
        ({"LANG": "en_US.UTF-8", "KVTUI_ASCII": "1"}, "utf-8", False),
    ],
)
def test_which_glyphs_a_terminal_gets(
    environment: dict[str, str], encoding: str, unicode: bool
) -> None:
    """125."""
    assert text.glyphs(environment, encoding) is (UNICODE if unicode else ASCII)
