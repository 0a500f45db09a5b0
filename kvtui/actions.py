"""Everything a key can do: the one table behind bindings, footer, help and README.

Only keys that every terminal can send are used: letters, digits, arrows, Tab,
Enter, Esc and F-keys that have a letter as a twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

EVERYWHERE: Final = "everywhere"
SCREENS: Final = ("workbench", "live", "fans", "capacity", "help", "box")

_DIGITS: Final = tuple("123456789")


class Action(NamedTuple):
    """One thing a person can do on a screen."""

    id: str
    """Its method is ``action_<id>``."""
    keys: tuple[str, ...]
    """By Textual's names."""
    text: str
    """For the footer: one or two words."""
    help: str
    """For the help page: a sentence."""
    screens: tuple[str, ...] = (EVERYWHERE,)
    footer: bool = False
    passes_key: bool = False
    """Whether the method is told which of the keys it was."""
    first: bool = False
    """Whether it goes before what the focused part does with the key."""
    argument: str = ""
    """Handed to the method."""


ACTIONS: Final[tuple[Action, ...]] = (
    Action(
        "start",
        ("enter", "g"),
        "start",
        "start the run as planned and watch it",
        ("workbench",),
        footer=True,
    ),
    Action(
        "tick",
        ("space",),
        "tick",
        "tick the store, or take the next choice",
        ("workbench",),
        footer=True,
    ),
    Action(
        "store",
        _DIGITS,
        "store",
        "tick the store with that number",
        ("workbench",),
        footer=True,
        passes_key=True,
    ),
    Action("all", ("a",), "all", "tick every store, or none", ("workbench",)),
    Action("mode", ("m",), "mode", "take the next mode", ("workbench",), footer=True),
    Action(
        "driver",
        ("d",),
        "wire/driver",
        "ask the store through kvtui's own wire loop, or through the driver that an"
        " application would use",
        ("workbench",),
    ),
    Action(
        "store",
        _DIGITS,
        "store",
        "choose the store with that number",
        ("live", "fans", "capacity"),
        footer=True,
        passes_key=True,
    ),
    Action(
        "previous_store",
        ("left_square_bracket",),
        "",
        "the store before",
        ("workbench", "live", "fans", "capacity"),
    ),
    Action(
        "next_store",
        ("right_square_bracket",),
        "",
        "the store after",
        ("workbench", "live", "fans", "capacity"),
    ),
    Action(
        "operation",
        ("o",),
        "get/put",
        "show the latencies of the next kind of operation",
        ("live",),
        footer=True,
    ),
    Action("stop", ("x",), "stop", "stop the run; asks once", ("live",), footer=True),
    Action(
        "open",
        ("enter",),
        "fan pages",
        "the fan pages as the chosen store holds them",
        ("live",),
    ),
    Action(
        "filter", ("slash",), "filter", "filter as you type", ("fans",), footer=True
    ),
    Action(
        "open",
        ("enter",),
        "open",
        "open the page under the cursor",
        ("fans",),
        footer=True,
    ),
    Action(
        "paper",
        ("p", "f6"),
        "paper",
        "type in the published figures of 2011; again: back to one's own",
        ("capacity",),
        footer=True,
    ),
    Action(
        "right",
        ("space",),
        "choice",
        "take the next choice",
        ("capacity",),
        footer=True,
    ),
    Action("down", ("enter",), "", "to the next field", ("capacity",)),
    Action(
        "save",
        ("s",),
        "save",
        "save the run's snapshot and say where",
        ("workbench", "live", "fans", "capacity"),
    ),
    Action("up", ("up", "k"), "", "one line up", first=False),
    Action("down", ("down", "j"), "", "one line down"),
    Action("page_up", ("pageup",), "", "one screenful up"),
    Action("page_down", ("pagedown",), "", "one screenful down"),
    Action("home", ("home",), "", "to the first line"),
    Action("end", ("end",), "", "to the last line"),
    Action("left", ("left",), "", "the choice before", ("workbench", "capacity")),
    Action("right", ("right",), "", "the choice after", ("workbench", "capacity")),
    Action(
        "next_part",
        ("tab",),
        "next",
        "to the next part of the screen",
        ("workbench", "live", "fans", "capacity"),
        footer=True,
    ),
    Action(
        "previous_part",
        ("shift+tab",),
        "",
        "to the part before",
        ("workbench", "live", "fans", "capacity"),
    ),
    Action(
        "show",
        ("w", "f2"),
        "Workbench",
        "choose stores and a workload",
        ("workbench", "live", "fans", "capacity"),
        argument="workbench",
    ),
    Action(
        "show",
        ("l", "f3"),
        "Live",
        "watch the run",
        ("workbench", "live", "fans", "capacity"),
        argument="live",
    ),
    Action(
        "show",
        ("f", "f4"),
        "Fan pages",
        "look into the records",
        ("workbench", "live", "fans", "capacity"),
        argument="fans",
    ),
    Action(
        "show",
        ("c", "f5"),
        "Capacity",
        "reckon how many cores a load needs",
        ("workbench", "live", "fans", "capacity"),
        argument="capacity",
    ),
    Action("back", ("escape",), "", "one level back", ("workbench",)),
    Action(
        "back",
        ("escape",),
        "back",
        "one level back",
        ("live", "fans", "capacity", "help", "box"),
        footer=True,
    ),
    Action(
        "help",
        ("question_mark", "f1"),
        "help",
        "this page",
        ("workbench", "live", "fans", "capacity"),
        footer=True,
    ),
    Action("suspend", ("ctrl+z",), "", "back to the shell; fg returns"),
    Action(
        "leave",
        ("q",),
        "leave",
        "leave; a run goes on by itself",
        ("workbench", "live", "fans", "capacity"),
        footer=True,
    ),
    Action("back", ("q", "enter"), "", "back to the screen", ("help", "box")),
    Action("interrupt", ("ctrl+c",), "", "leave; asks while a run goes on", first=True),
)

_TEXT_KEYS: Final = frozenset(
    {
        "space",
        "slash",
        "question_mark",
        "left_square_bracket",
        "right_square_bracket",
    }
)
"""Long names of keys that are characters."""

_NAMES: Final = {
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "tab": "Tab",
    "shift+tab": "Shift+Tab",
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "up": "Up",
    "down": "Down",
    "left": "Left",
    "right": "Right",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "home": "Home",
    "end": "End",
}


def key_name(key: str) -> str:
    """A key as people write it: ``escape`` is Esc, ``f1`` is F1."""
    if not key or key in _NAMES:
        return _NAMES.get(key, "")
    if key.startswith("ctrl+"):
        return f"Ctrl+{key[5:].upper()}"
    return key.upper() if key[0] == "f" and key[1:].isdigit() else key


def key_names(action: Action) -> str:
    """All keys of an action as people write them: ``1-9``, ``? F1``."""
    if action.keys == _DIGITS:
        return "1-9"
    return " ".join(map(key_name, action.keys))


def of_screen(screen: str) -> Iterator[Action]:
    """The actions that a screen has, its own ones first."""
    for action in ACTIONS:
        if screen in action.screens:
            yield action
    for action in ACTIONS:
        if EVERYWHERE in action.screens:
            yield action


def in_footer(screen: str) -> Iterator[Action]:
    """The actions that the screen's footer names, in its order."""
    return (action for action in of_screen(screen) if action.footer)


def key_while_typing(action: Action) -> str:
    """The action's first key that is no text, by Textual's name; empty for none."""
    for key in action.keys:
        if len(key) > 1 and key not in _TEXT_KEYS:
            return key
    return ""


def calls(screen: str) -> Iterator[tuple[str, str, Action]]:
    """Every (key, call, action) of a screen, as in ``("3", "store('3')", …)``."""
    for action in of_screen(screen):
        for key in action.keys:
            argument = key if action.passes_key else action.argument
            yield key, f"{action.id}({argument!r})" if argument else action.id, action


def markdown() -> str:
    """All actions as the README's table, one row for what has the same help."""
    rows: dict[tuple[str, str], str] = {}
    for action in ACTIONS:
        row = action.help, ", ".join(action.screens)
        keys = f"`{key_names(action).replace(' ', '`, `')}`"
        rows[row] = f"{rows[row]}, {keys}" if row in rows else keys
    lines = ["| keys | what they do | where |", "| --- | --- | --- |"]
    lines += [f"| {keys} | {text} | {where} |" for (text, where), keys in rows.items()]
    return "\n".join(lines)
