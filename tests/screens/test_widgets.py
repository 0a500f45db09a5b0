"""Lines, the editor and the chart, without a screen."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.screens.widgets import chart
from kvtui.screens.widgets.editor import LIMIT, LineEditor
from kvtui.screens.widgets.lines import fitted, length, paragraph, strip, wrap
from kvtui.text import ASCII, UNICODE, cells, visible
from tests.journals import HOSTILE


@given(st.text(max_size=200), st.integers(1, 60))
def test_wrapping_keeps_to_the_width_and_loses_no_letter(text: str, width: int) -> None:
    shown = visible(text)
    lines = wrap(shown, max(2, width))
    assert all(cells(line) <= max(2, width) for line in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())


def test_wrapping_keeps_a_number_and_its_unit_together() -> None:
    assert wrap("p99 40.2 ms max 1.2 s", 9) == ["p99", "40.2 ms", "max 1.2 s"]
    assert wrap("writes 0 B/s, read", 9) == ["writes", "0 B/s,", "read"]
    assert wrap("a ms b % c", 4) == ["a ms", "b %", "c"]


def test_wrapping_says_when_it_cuts() -> None:
    assert wrap("one two three four", 9, most=2) == ["one two", "three …"]
    assert wrap("short", 9, most=2) == ["short"]
    assert wrap("x" * 40, 10, most=2)[-1].endswith("…")


def test_a_paragraph_is_indented() -> None:
    assert paragraph("aaaa bbbb cccc", 12) == [
        [("aaaa bbbb", "")],
        [("  cccc", "")],
    ]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("width", [1, 7, 20, 80])
def test_a_strip_is_exactly_as_wide_and_prints(
    text: str, ascii_only: bool, width: int
) -> None:
    made = strip([(text, ""), ("|", "bold")], width, ascii_only=ascii_only)
    assert made.cell_length == width
    assert made.text.isprintable()
    assert made.text.isascii() or not ascii_only


def test_a_strip_shows_markup_letter_for_letter() -> None:
    assert strip([("[b]x[/]", "")], 8, ascii_only=False).text == "[b]x[/] "


@given(st.lists(st.tuples(st.text(max_size=20), st.just("")), max_size=5))
def test_fitting_a_line(line: list[tuple[str, str]]) -> None:
    shown = [(visible(text), style) for text, style in line]
    assert length(fitted(shown, 24)) == 24


def typed(editor: LineEditor, *keys: str) -> str:
    for key in keys:
        editor.key(key, key if len(key) == 1 else None)
    return editor.text


def test_editing() -> None:
    editor = LineEditor()
    assert typed(editor, *"kv store") == "kv store"
    assert typed(editor, "home", "x", "end", "backspace") == "xkv stor"
    assert typed(editor, "left", "left", "delete", "right", "e") == "xkv stre"
    assert typed(editor, "ctrl+u") == ""
    assert not editor.key("f1", None)
    assert not editor.key("escape", "\x1b")


def test_a_selected_text_is_replaced() -> None:
    for keys, left in (
        ("x", "x"),
        (("backspace",), ""),
        (("delete",), ""),
        (("left", "x"), "olxd"),
        (("home", "x"), "xold"),
        (("end", "x", "y"), "oldxy"),
        (("x", "backspace", "y"), "y"),
    ):
        editor = LineEditor("old")
        editor.select()
        assert editor.view(9, active=True) == [("old", "cursor")]
        assert typed(editor, *keys) == left
    editor = LineEditor("old")
    editor.select()
    editor.insert("new\nnewer")
    assert editor.text == "new"
    editor = LineEditor()
    editor.select()
    assert typed(editor, "a", "b") == "ab"


def test_digits_leave_letters_to_be_commands() -> None:
    editor = LineEditor("8", digits=True)
    assert not editor.key("q", "q")
    assert not editor.key("x", "²")
    assert editor.key("1", "1")
    editor.insert("a2b\n3")
    assert editor.text == "812"


def test_a_pasted_novel_is_cut() -> None:
    editor = LineEditor()
    editor.insert("x" * 5000)
    editor.insert("y")
    assert editor.text == "x" * LIMIT


@pytest.mark.parametrize("text", HOSTILE)
def test_the_caret_can_always_be_seen(text: str) -> None:
    editor = LineEditor()
    editor.insert(text)
    for caret in range(0, len(editor.text) + 1, max(1, len(editor.text) // 5)):
        editor.caret = caret
        line = editor.view(12, active=True)
        assert length(line) <= 12
        assert any(style == "cursor" for _, style in line)


def test_a_chart_of_braille() -> None:
    assert chart.draw([0, 4], 2, 1, UNICODE, 4) == ["⣀⠏"]
    assert chart.draw([1, 1, 1, 1], 2, 1, UNICODE, 1) == ["⠉⠉"]
    assert chart.draw([], 2, 1, UNICODE, 1) == ["  "]
    assert chart.draw([1], 0, 1, UNICODE, 1) == []


def test_a_chart_of_ascii() -> None:
    assert chart.draw([0, 2, 2, 0], 4, 3, ASCII, 2) == [" ** ", " * *", "*  *"]


def test_one_quiet_second_among_thousands_is_seen() -> None:
    values: list[float | None] = [1.0] * 5000
    values[2500] = 0.0
    lines = chart.draw(values, 40, 4, UNICODE, 1)
    assert lines[-1].strip()


def test_what_was_not_measured_is_a_gap() -> None:
    assert chart.draw([1, None, math.nan, 1], 4, 1, ASCII, 1) == ["*  *"]


@given(st.floats(1e-3, 1e15))
def test_the_top_of_an_axis_is_round_and_near(highest: float) -> None:
    top = chart.nice_top(highest)
    assert highest <= top * (1 + 1e-6) <= highest * 2.01
    assert chart.nice_top(top) == pytest.approx(top)


def test_the_top_of_nothing() -> None:
    assert chart.nice_top(0) == chart.nice_top(math.nan) == 1
