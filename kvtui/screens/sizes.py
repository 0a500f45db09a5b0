"""The capacity form's fields, and the answer that they come to. No widget is here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, Final, NamedTuple

from kvtui import sizing
from kvtui.errors import KvtuiError, RunError, UsageError
from kvtui.jobs import capacity, loads, published
from kvtui.jobs.capacity import Answer, Measured
from kvtui.runs.state import RunState
from kvtui.screens.session import Sizes

LABELS: Final = {
    "target": "load",
    "peak": "peak factor",
    "headroom": "headroom",
    "cores": "cores/machine",
    "figures": "figures",
    "run": "run",
    "store": "store",
    "measured": "measured",
    "busy": "busy cores",
}
HINTS: Final = {
    "target": "as 9M/day, 100k/s, 2M gets/s",
    "peak": "times the load, as 3",
    "headroom": "of all is kept free, as 30%",
    "cores": "as 8; empty counts cores only",
    "measured": "a second, as 15960/s",
    "busy": "as 4, or 34% of 24",
}
WHEN_EMPTY: Final = {"peak": "1", "headroom": "0%", "cores": "–"}
"""What a field that may be empty stands for then."""
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "target": loads.load,
    "peak": loads.factor,
    "headroom": loads.share,
    "cores": loads.cores,
    "measured": loads.load,
    "busy": loads.busy,
}
"""What reads a field that is typed."""


class Found(NamedTuple):
    """What the fields come to: an answer, or why there is none yet."""

    answer: Answer | None
    problem: str = ""
    notes: tuple[str, ...] = ()


def shown_fields(sizes: Sizes) -> list[str]:
    """The fields that matter now."""
    rest = ("run", "store") if sizes.figures == "trial" else ("measured", "busy")
    return ["target", "peak", "headroom", "cores", "figures", *rest]


def fault(sizes: Sizes, name: str) -> str:
    """What is wrong with what was typed into a field; empty where it is right, or
    still empty."""
    text = getattr(sizes, name, "")
    if name not in READERS or not text.strip():
        return ""
    try:
        READERS[name](text)
    except UsageError as error:
        return _short(error, text)
    return ""


def _short(error: UsageError, text: str) -> str:
    """The error without the text that stands beside it."""
    said = error.message.removeprefix(f"{text.strip()}: ")
    return f"{said}; {error.hint}" if error.hint else said


def _read(sizes: Sizes, name: str) -> Any:
    """A field's value; None where it may be empty and is. KvtuiError otherwise."""
    text = getattr(sizes, name)
    if not text.strip() and name in WHEN_EMPTY:
        return None
    try:
        return READERS[name](text)
    except UsageError as error:
        if not text.strip():
            raise UsageError(f"{LABELS[name]}: type it in, {HINTS[name]}") from None
        raise UsageError(f"{LABELS[name]}: {_short(error, text)}") from None


def find(sizes: Sizes, state: RunState | None, store: str, *, why: str) -> Found:
    """The answer for these fields.

    ``state`` is the chosen run's, None where there is none, and ``why`` says why not;
    an empty ``store`` is the best ranked.
    """
    try:
        target = _read(sizes, "target")
        peak = _read(sizes, "peak") or Fraction(1)
        headroom = _read(sizes, "headroom") or Fraction(0)
        cores = _read(sizes, "cores")
        answer = capacity.answer(
            target,
            _measured(sizes, state, store, why),
            peak=peak,
            headroom=headroom,
            cores_per_machine=cores,
        )
    except RunError as error:
        return Found(None, error.message)
    except KvtuiError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Found(None, f"{error.message}{hint}")
    notes = tuple(published.notes()) if is_paper(sizes) else ()
    return Found(answer, "", notes)


def _measured(sizes: Sizes, state: RunState | None, store: str, why: str) -> Measured:
    if is_paper(sizes):
        return published.measured()
    if sizes.figures == "typed":
        return capacity.typed(_read(sizes, "measured"), _read(sizes, "busy"))
    if state is None:
        raise RunError(why)
    try:
        trial = sizing.find_trial(state, store or sizing.best_store(state))
        return sizing.measured(state, trial)
    except RunError as error:
        # Its hint is for the command line.
        said = "Choose another store or run, or figures typed in."
        raise RunError(f"{error.message}. {said}") from None


def paper(sizes: Sizes) -> None:
    """Type the published figures in."""
    for name, text in _paper_fields():
        setattr(sizes, name, text)


def is_paper(sizes: Sizes) -> bool:
    """Whether the measured figures are the published ones, whatever the load."""
    fields = dict(_paper_fields())
    return all(
        getattr(sizes, name) == fields[name] for name in ("figures", "measured", "busy")
    )


def _paper_fields() -> Iterator[tuple[str, str]]:
    preset = published.PAPER
    yield "target", preset.target
    yield "peak", preset.peak
    yield "headroom", preset.headroom
    yield "cores", preset.cores_per_machine
    yield "figures", "typed"
    yield "measured", preset.measured
    yield "busy", preset.busy
