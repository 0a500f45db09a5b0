"""The table of actions: every key means one thing, and something answers."""

from collections import Counter
from pathlib import Path

import pytest

from kvtui import actions
from kvtui.screens.base import Page
from kvtui.screens.capacity import CapacityPage
from kvtui.screens.fans import FansPage
from kvtui.screens.help import ABOUT, BoxPage, HelpPage
from kvtui.screens.live import LivePage
from kvtui.screens.workbench import WorkbenchPage

PAGES: list[type[Page]] = [
    *(WorkbenchPage, LivePage, FansPage, CapacityPage),
    *(HelpPage, BoxPage),
]


def test_every_screen_is_a_page() -> None:
    assert tuple(page.NAME for page in PAGES) == actions.SCREENS
    assert set(ABOUT) <= set(actions.SCREENS)


@pytest.mark.parametrize("screen", actions.SCREENS)
def test_no_two_actions_of_a_screen_share_a_key(screen: str) -> None:
    keys = Counter(key for key, _, _ in actions.calls(screen))
    assert [key for key, number in keys.items() if number > 1] == []


@pytest.mark.parametrize("page", PAGES)
def test_every_action_has_a_method(page: type[Page]) -> None:
    for _, _, action in actions.calls(page.NAME):
        assert callable(getattr(page, f"action_{action.id}", None)), action.id


@pytest.mark.parametrize("screen", actions.SCREENS)
def test_only_keys_that_every_terminal_sends(screen: str) -> None:
    named = {
        "enter", "space", "escape", "tab", "shift+tab", "up", "down", "left", "right",
        "home", "end", "pageup", "pagedown", "slash", "question_mark",
        "left_square_bracket", "right_square_bracket", "ctrl+c", "ctrl+z",
    }  # fmt: skip
    for key, _, _ in actions.calls(screen):
        function_key = key[0] == "f" and key[1:] in {str(n) for n in range(1, 13)}
        assert key in named or (len(key) == 1 and key.isalnum()) or function_key


@pytest.mark.parametrize("screen", actions.SCREENS)
def test_every_action_is_explained(screen: str) -> None:
    for action in actions.of_screen(screen):
        assert action.help
        assert actions.key_names(action)
        assert not action.footer or action.text


def test_names_of_keys() -> None:
    assert actions.key_name("escape") == "Esc"
    assert actions.key_name("f1") == "F1"
    assert actions.key_name("f") == "f"
    assert actions.key_name("ctrl+z") == "Ctrl+Z"
    assert actions.key_name("") == ""


def test_function_keys_have_a_letter_or_sign_as_a_twin() -> None:
    for action in actions.ACTIONS:
        if any(key[0] == "f" and key[1:].isdigit() for key in action.keys):
            assert len(action.keys) > 1


def test_modes_can_be_reached_while_typing() -> None:
    typing = {
        action.argument or action.id: actions.key_while_typing(action)
        for action in actions.of_screen("fans")
    }
    assert typing["workbench"] == "f2"
    assert typing["help"] == "f1"
    assert typing["filter"] == ""


def test_the_readme_has_the_table_of_keys():
    readme = Path(__file__).parent.parent / "README.md"
    assert actions.markdown() in readme.read_text("utf-8")
