"""Capacity: how many cores and machines a load needs, with the arithmetic.

The way of a published measurement of 2011: what one busy core does at the measured
point, and how many such cores the load takes. Exact fractions from end to end: the
number of cores is rounded up once, from a value that no float has touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any, Final, NamedTuple

from kvtui.errors import UsageError
from kvtui.jobs.loads import Busy, Load


class Caveat(NamedTuple):
    """Something that bounds what the answer is worth."""

    about: str
    """In a word or two: ``closed loop``."""
    text: str


class Measured(NamedTuple):
    """The measured point that an answer begins with."""

    per_second: Fraction
    """Answered operations a second."""
    busy_cores: Fraction
    """Cores that were busy with answering them."""
    rate_words: str
    """Where the rate is from."""
    busy_words: str
    """Where the busy cores are from, and whose they are."""
    mix: Mapping[str, Fraction] = {}
    """Kind of operation to its share of all; empty where it is not known."""
    caveats: tuple[Caveat, ...] = ()


class Step(NamedTuple):
    """One line of the arithmetic."""

    what: str
    value: Fraction
    unit: str
    """``/s``, ``cores`` and so on."""
    words: str
    """How the value comes about."""

    @property
    def shown(self) -> str:
        """The value for people."""
        gap = "" if self.unit.startswith("/") or not self.unit else " "
        return f"{number(self.value)}{gap}{self.unit}"


class Answer(NamedTuple):
    """What a load needs, and how that was reckoned."""

    needed_per_s: Fraction
    """What the cores must be able to do: peak and headroom are in it."""
    per_core_per_s: Fraction
    cores_exact: Fraction
    cores: int
    """Rounded up."""
    cores_per_machine: int | None
    machines: int | None
    """Rounded up; None where the cores of a machine were not said."""
    steps: tuple[Step, ...]
    caveats: tuple[Caveat, ...]

    @property
    def sentence(self) -> str:
        """The answer in a line."""
        said = plural(self.cores, "core")
        if self.machines is not None:
            of = self.cores_per_machine or 0
            said += f", {plural(self.machines, 'machine')} of {of:,}"
        return said


def answer(
    target: Load,
    measured: Measured,
    *,
    peak: Fraction = Fraction(1),
    headroom: Fraction = Fraction(0),
    cores_per_machine: int | None = None,
) -> Answer:
    """How many cores and machines carry ``target``.

    ``peak`` is how many times the load its busiest moment brings, from 1;
    ``headroom`` the share of the capacity that is kept free, under 1. UsageError for
    what cannot be reckoned with: a rate or busy cores of nothing, and a kind of
    operation that was not measured.
    """
    _check(measured, peak, headroom, cores_per_machine)
    steps = list(_needed(target, measured, peak, headroom))
    needed = steps[-1].value
    per_core = measured.per_second / measured.busy_cores
    exact = needed / per_core
    whole = ceil(exact)
    steps += [
        Step("measured", measured.per_second, "/s", measured.rate_words),
        Step("busy", measured.busy_cores, "cores", measured.busy_words),
        Step(
            "one core",
            per_core,
            "/s",
            f"{number(measured.per_second)}/s ÷ {_cores(measured.busy_cores)}",
        ),
        Step("cores", Fraction(whole), "", _rounded(needed, per_core)),
    ]
    machines = None
    if cores_per_machine is not None:
        machines = -(-whole // cores_per_machine)
        words = f"{plural(whole, 'core')} ÷ {cores_per_machine:,} a machine"
        if whole % cores_per_machine:
            part = unrounded(Fraction(whole, cores_per_machine))
            words += f" = {part}, rounded up"
        steps.append(Step("machines", Fraction(machines), "", words))
    return Answer(
        needed,
        per_core,
        exact,
        whole,
        cores_per_machine,
        machines,
        tuple(steps),
        _caveats(target, measured, peak, headroom),
    )


def _check(
    measured: Measured,
    peak: Fraction,
    headroom: Fraction,
    cores_per_machine: int | None,
) -> None:
    if measured.per_second <= 0:
        raise UsageError(
            "nothing was answered a second, so there is nothing to reckon with",
            hint="measure first: kvtui run fans --store ram",
        )
    if measured.busy_cores <= 0:
        raise UsageError(
            "no core was busy, so none could be counted on",
            hint="say how many were: --busy-cores 4",
        )
    if peak < 1:
        raise UsageError(f"a peak is at least 1 times the load, not {number(peak)}")
    if not 0 <= headroom < 1:
        raise UsageError("the share kept free is from 0% to under 100%")
    if cores_per_machine is not None and cores_per_machine < 1:
        raise UsageError(f"a machine has 1 core or more, not {cores_per_machine}")


def _needed(
    target: Load, measured: Measured, peak: Fraction, headroom: Fraction
) -> list[Step]:
    """From the load as it was written to what the cores must be able to do."""
    period = target.period
    words = target.text
    if period.length_s != 1:
        said = f"{number(target.amount)} ÷ {number(period.length_s)} s"
        words += f" = {said}"
        words += f" ({period.said} a {period.name})" if period.said else ""
    value = target.per_second
    steps = [Step("load", value, "/s", words)]
    part = _share_of(target, measured.mix)
    if part is not None and part != 1:
        value /= part
        words = f"{target.noun} are {percent(part)} of the operations measured"
        steps.append(Step("all kinds", value, "/s", words))
    if peak != 1:
        before, value = value, value * peak
        words = f"{number(before)}/s × {number(peak)}"
        steps.append(Step("at its peak", value, "/s", words))
    if headroom:
        before, value = value, value / (1 - headroom)
        words = f"{number(before)}/s ÷ {percent(1 - headroom)}:"
        words += f" {percent(headroom)} is kept free"
        steps.append(Step("to provide", value, "/s", words))
    return steps


_KINDS: Final[Mapping[str, str]] = {
    **{kind: kind for kind in ("get", "put", "add", "scan", "delete", "counts")},
    "read": "get",
    "write": "put",
    "set": "put",
}
"""What people call the kinds of operation, in the singular."""
_ANY_KIND: Final = frozenset({"", "op", "ops", "operation", "operations"})


def _kind(noun: str) -> str | None:
    noun = noun.lower()
    return _KINDS.get(noun) or _KINDS.get(noun.removesuffix("s"))


def _share_of(target: Load, mix: Mapping[str, Fraction]) -> Fraction | None:
    """The share of what the load counts, where it names a kind of operation."""
    kind = _kind(target.noun)
    if kind is None or not mix:
        return None
    if not mix.get(kind):
        there = ", ".join(f"{label}s" for label, part in mix.items() if part)
        raise UsageError(
            f"{target.text}: no {kind} was answered in this trial",
            hint=f"it has {there}; or say a number of operations",
        )
    return mix[kind]


def _rounded(needed: Fraction, per_core: Fraction) -> str:
    exact = needed / per_core
    words = f"{number(needed)}/s ÷ {number(per_core)}/s"
    if exact.denominator == 1:
        return f"{words}, exactly"
    words += f" = {unrounded(exact)}, rounded up"
    below = int(exact)
    if below:
        words += f" ({below:,} would carry {number(below * per_core)}/s)"
    return words


def _caveats(
    target: Load, measured: Measured, peak: Fraction, headroom: Fraction
) -> tuple[Caveat, ...]:
    caveats = [*measured.caveats]
    noun = target.noun.lower()
    if measured.mix and noun not in _ANY_KIND and _kind(noun) is None:
        several = sum(1 for part in measured.mix.values() if part) > 1
        text = f"{target.noun} are taken as operations"
        text += ", of all kinds as they were measured" if several else ""
        caveats.insert(0, Caveat("what is counted", text))
    if peak == 1 and target.period.length_s > 60:
        caveats.append(
            Caveat(
                "no peak",
                f"the load is taken as even over the {target.period.name}; its"
                " busiest hour is not (a peak factor says so)",
            )
        )
    if not headroom:
        caveats.append(
            Caveat(
                "no headroom",
                "every core is reckoned with up to the last operation; with one"
                " machine out of service the rest cannot carry the load",
            )
        )
    caveats.append(
        Caveat(
            "linear scaling",
            "assumed: twice the cores do twice the work. Locks, memory, network and"
            " the spread of keys say no; a store that works in one thread needs a"
            " process a core",
        )
    )
    return tuple(caveats)


# Numbers for people, from exact ones.


def number(value: Fraction) -> str:
    """A value with thousands separators: whole from 1,000 on, else three to four
    digits."""
    if value.denominator == 1:
        return f"{int(value):,}"
    if value < 0:
        return f"-{number(-value)}"
    if value >= 1000:
        return f"{_half_up(value):,}"
    if value < Fraction(1, 1000):
        return f"{float(value):.3g}"
    places = 1 if value >= 10 else 2 if value >= 1 else 4
    return _decimal(value, places).rstrip("0").rstrip(".")


def unrounded(value: Fraction) -> str:
    """A value that is not whole, with as many places as it takes to see that."""
    for places in range(1, 10):
        shown = _decimal(value, places)
        if Fraction(shown.replace(",", "")).denominator != 1:
            return shown
    near = _half_up(value)
    return f"a trace {'over' if value > near else 'under'} {near:,}"


def percent(part: Fraction) -> str:
    """A share of one: ``34 %``."""
    return f"{number(part * 100)} %"


def plural(amount: int, noun: str) -> str:
    """``26 cores``, ``1 core``."""
    return f"{amount:,} {noun}{'s' if amount != 1 else ''}"


def _cores(value: Fraction) -> str:
    return f"{number(value)} core{'s' if value != 1 else ''}"


def _half_up(value: Fraction) -> int:
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def _decimal(value: Fraction, places: int) -> str:
    scaled = _half_up(value * 10**places)
    whole, part = divmod(scaled, 10**places)
    return f"{whole:,}.{part:0{places}d}"


# Figures that were typed in.


def typed(rate: Load, busy: Busy) -> Measured:
    """A measured point that somebody typed in."""
    words = "typed in"
    if rate.period.length_s != 1:
        words += f": {rate.text}"
    caveats = [
        Caveat(
            "typed in",
            "whether the loop was closed, what bounded it, and its latency are not"
            " known; the busy cores must be the server's, not the generator's",
        )
    ]
    if busy.of is None:
        return Measured(rate.per_second, busy.cores, words, "typed in", {}, (*caveats,))
    used = busy.cores / busy.of
    caveats += [
        Caveat(
            "utilisation",
            f"{percent(used)} of {number(busy.of)} at the measured point; a fuller"
            " machine was not measured",
        ),
        Caveat(
            "hardware threads",
            f"if the {number(busy.of)} are hardware threads, two share a core: the"
            " answer counts threads then, and so must the cores a machine",
        ),
    ]
    said = f"typed in: {busy.words}"
    return Measured(rate.per_second, busy.cores, words, said, {}, (*caveats,))


def document(found: Answer) -> dict[str, Any]:
    """An answer as JSON has it; rates are floats, counts whole."""
    return {
        "cores": found.cores,
        "cores_exact": float(found.cores_exact),
        "cores_per_machine": found.cores_per_machine,
        "machines": found.machines,
        "needed_per_s": float(found.needed_per_s),
        "per_core_per_s": float(found.per_core_per_s),
        "steps": [
            {
                "what": step.what,
                "value": float(step.value),
                "unit": step.unit,
                "words": step.words,
            }
            for step in found.steps
        ],
        "caveats": [{"about": each.about, "text": each.text} for each in found.caveats],
    }
