"""Loads as people write them: ``260e9/month``, ``9M/day``, ``2 million gets a second``.

Everything is read into exact fractions, so that no rounding of ours decides whether
one core more is needed. A month is 30 days and a year 365: what turns 260e9 a month
into 100,309 a second.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from kvtui.errors import UsageError
from kvtui.text import visible

EXAMPLES: Final = "as in 100k/s, 9M/day or 260e9/month"
LARGEST: Final = Fraction(10**18)
"""Operations a second; more is a slip of the finger."""
LONGEST: Final = 80
"""Characters of a load, a factor or a share."""
MOST_DIGITS: Final = 30
"""Of a number's exponent or digits: what it comes to must stay small to compute."""


class Period(NamedTuple):
    """A length of time that loads are counted in."""

    name: str
    length_s: Fraction
    said: str
    """How long it is taken to be; empty where nobody asks."""


_DAY_S: Final = 86_400
_PERIODS: Final = (
    (Period("ms", Fraction(1, 1000), ""), "ms millisecond milliseconds"),
    (Period("s", Fraction(1), ""), "s sec secs second seconds"),
    (Period("min", Fraction(60), ""), "min mins minute minutes"),
    (Period("hour", Fraction(3600), ""), "h hr hrs hour hours"),
    (Period("day", Fraction(_DAY_S), ""), "day d days"),
    (Period("week", Fraction(7 * _DAY_S), ""), "week w wk weeks"),
    (Period("month", Fraction(30 * _DAY_S), "30 days"), "month mo mon months"),
    (Period("year", Fraction(365 * _DAY_S), "365 days"), "year y yr yrs years"),
)
_BY_WORD: Final[Mapping[str, Period]] = {
    word: period for period, words in _PERIODS for word in words.split()
}
_WHOLE_WORDS: Final[Mapping[str, Period]] = {
    **{f"{word}ps": _BY_WORD["s"] for word in ("r", "q", "t", "op", "io", "i/o")},
    "hz": _BY_WORD["s"],
    "rpm": _BY_WORD["min"],
    "hourly": _BY_WORD["hour"],
    "daily": _BY_WORD["day"],
    "weekly": _BY_WORD["week"],
    "monthly": _BY_WORD["month"],
    "yearly": _BY_WORD["year"],
    "annually": _BY_WORD["year"],
}
"""Words that say by themselves in what a load is counted."""
_SEPARATORS: Final = frozenset({"/", "per", "a", "an", "each", "every"})
_MULTIPLIERS: Final[Mapping[str, int]] = {
    **dict.fromkeys(("k", "K", "thousand", "thousands"), 10**3),
    **dict.fromkeys(("m", "M", "mn", "million", "millions"), 10**6),
    **dict.fromkeys(("g", "G", "B", "bn", "billion", "billions"), 10**9),
    **dict.fromkeys(("T", "tn", "trillion", "trillions"), 10**12),
}
_SINGULARS: Final = (
    "op", "operation", "get", "put", "set", "add", "scan", "delete", "req", "request",
    "hit", "read", "write", "page", "message", "call", "transaction", "user", "event",
)  # fmt: skip
_NOUNS: Final = frozenset(
    [*_SINGULARS, *(f"{word}s" for word in _SINGULARS), "query", "queries"]
)
"""What loads often count; any other word does as well, behind a blank."""
_NUMBER: Final = re.compile(
    r"([+-]?(?:[0-9][0-9_, ]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)(.*)"
)
_PLAIN: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:[eE](?P<power>[+-]?[0-9]+))?"
)
_GROUPED: Final = re.compile(r"[0-9]{1,3}([, ])[0-9]{3}(?:\1[0-9]{3})*")
_UNDERSCORED: Final = re.compile(r"[0-9](?:_?[0-9])*")


class Load(NamedTuple):
    """A load, exactly."""

    text: str
    """As it was written."""
    amount: Fraction
    """For one period."""
    period: Period
    noun: str
    """What is counted, as it was written (``gets``); empty where it was not said."""

    @property
    def per_second(self) -> Fraction:
        """Operations a second."""
        return self.amount / self.period.length_s


def load(text: str) -> Load:
    """A number, a period and whatever is counted, in ASCII.

    UsageError says what is wrong with it, and names the nearest form that is taken.
    """
    text = _checked(text, "a load", load)
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise _wrong(text, "a load begins with a number", EXAMPLES)
    amount = _number(found[1].strip(), text)
    words = _words(found[2], text)
    amount *= _multiplier(words, not found[1].endswith(" "), text)
    period, noun = _period(words, text)
    if amount <= 0:
        raise _wrong(text, "a load must be more than nothing", EXAMPLES)
    read = Load(text, amount, period, noun)
    if read.per_second > LARGEST:
        raise _wrong(text, "that is more than 1e18 a second", EXAMPLES)
    return read


def _checked(text: str, what: str, again: object) -> str:
    """The text without blanks around it; UsageError for what is not ASCII."""
    text = text.strip()
    if not text:
        raise UsageError(f"{what} is missing", hint=EXAMPLES)
    if len(text) > LONGEST:
        raise UsageError(f"{visible(text, 40)} is too long for {what}", hint=EXAMPLES)
    odd = next((each for each in text if not " " <= each <= "~"), "")
    if odd:
        likely = _in_ascii(text)
        hint = EXAMPLES
        if likely and callable(again):
            try:
                again(likely)
            except UsageError:
                pass
            else:
                hint = f"did you mean {likely}?"
        raise _wrong(text, f"U+{ord(odd):04X} in it is not ASCII", hint)
    return text


def _in_ascii(text: str) -> str:
    """The same in ASCII, as for digits of other scripts; empty where there is none."""
    likely = "".join(
        str(unicodedata.decimal(each, "")) or ("x" if each == "×" else each)
        for each in unicodedata.normalize("NFKC", text)
    )
    return likely if likely.isascii() and likely.isprintable() else ""


def _wrong(text: str, why: str, hint: str) -> UsageError:
    return UsageError(f"{visible(text, LONGEST)}: {why}", hint=hint)


def _number(digits: str, text: str) -> Fraction:
    """A number with thousands separators or without, exactly."""
    whole = re.split(r"[.eE]", digits.lstrip("+-"))[0]
    if "," in digits or " " in digits:
        if not _GROUPED.fullmatch(whole):
            likely = digits.replace(",", ".", 1).replace(" ", "")
            hint = f"did you mean {text.replace(digits, likely, 1)}?"
            if likely.count(".") != 1 or "," in likely:
                hint = EXAMPLES
            raise _wrong(text, "separators stand between groups of three digits", hint)
        digits = digits.replace(",", "").replace(" ", "")
    if "_" in digits and not _UNDERSCORED.fullmatch(whole):
        raise _wrong(text, "underscores stand between digits", EXAMPLES)
    found = _PLAIN.fullmatch(digits.replace("_", ""))
    if found is None or not (found["whole"] or found["part"]):
        raise _wrong(text, "its number cannot be read", EXAMPLES)
    power = int((found["power"] or "0")[:8])
    if abs(power) > MOST_DIGITS or len(found["whole"]) > MOST_DIGITS:
        raise _wrong(text, f"numbers have at most {MOST_DIGITS} digits", EXAMPLES)
    part = found["part"] or ""
    value = Fraction(int((found["whole"] or "0") + part), 10 ** len(part))
    value *= Fraction(10) ** power
    return -value if found["sign"] == "-" else value


def _words(rest: str, text: str) -> list[str]:
    rest = re.sub(r"\bi/o\b", "io", rest, flags=re.IGNORECASE)
    words = re.findall(r"[A-Za-z]+|/|[^A-Za-z/\s]+", rest)
    for word in words:
        if not word.isalpha() and word != "/":
            raise _wrong(text, f"{word} after its number means nothing", EXAMPLES)
    return words


def _multiplier(words: list[str], glued: bool, text: str) -> int:
    """Takes the words away that it reads.

    ``kgets`` is a thousand gets. A word that stands at the number itself and is not
    known is refused: taking ``5Mxyz/s`` for 5 would be wrong by a million.
    """
    if not words:
        return 1
    first = words[0]
    for word in (first, first.lower()):
        # A single letter may mean something else in the other case.
        if word in _MULTIPLIERS and (word == first or len(word) > 1):
            del words[0]
            return _MULTIPLIERS[word]
    known = {*_WHOLE_WORDS, *_NOUNS}
    if first.lower() in known:
        return 1
    if first[:1] in _MULTIPLIERS and first[1:].lower() in known:
        words[0] = first[1:]
        return _MULTIPLIERS[first[:1]]
    if glued and first != "/" and first.lower() not in {*_SEPARATORS, *_BY_WORD}:
        start = text[: text.index(first)]
        likely = f"{start} {first}"
        if first[:1] in _MULTIPLIERS:
            likely = f"{start}{first[:1]} {first[1:]}"
        rest = text[text.index(first) + len(first) :]
        raise _wrong(text, f"what is {first}?", f"did you mean {likely}{rest}?")
    return 1


def _period(words: list[str], text: str) -> tuple[Period, str]:
    """What it is counted in, and what is counted."""
    if words and words[-1].lower() in _WHOLE_WORDS:
        return _WHOLE_WORDS[words[-1].lower()], " ".join(words[:-1])
    # The last one: "a" and "per" may stand twice, as in "a million a day".
    at = max(
        (i for i, word in enumerate(words) if word.lower() in _SEPARATORS), default=-1
    )
    if at < 0:
        if words and words[-1].lower() in _BY_WORD and len(words) == 1:
            likely = f"{text[: len(text) - len(words[-1])].strip()}/{words[-1]}"
        else:
            likely = f"{text}/s"
        raise _wrong(text, "it does not say per what", f"did you mean {likely}?")
    noun, after = words[:at], words[at + 1 :]
    if noun and noun[-1].lower() in _SEPARATORS:
        noun = noun[:-1]
    said = " ".join(after)
    period = _BY_WORD.get(said.lower())
    if period is not None:
        return period, " ".join(noun)
    if said.lower() == "m":
        why, hint = "m may be a minute or a month", "write /min or /month"
    elif not after:
        why, hint = "it does not say per what", f"did you mean {text.rstrip(' /')}/s?"
    else:
        near = difflib.get_close_matches(said.lower(), _BY_WORD, n=1, cutoff=0.5)
        start = text[: text.rindex(after[0])]
        hint = f"did you mean {start}{near[0]}?" if near else EXAMPLES
        why = f"{said} is no length of time"
    raise _wrong(text, why, hint)


# Factors, shares, cores.


def factor(text: str) -> Fraction:
    """A peak factor of at least 1: ``3``, ``2.5``, ``3x``; UsageError otherwise."""
    text = _checked(text, "a peak factor", factor)
    bare = text.lower().strip("x").strip()
    value = _bare(bare, text, "a peak factor is a number", "as in 3 or 2.5")
    if value < 1:
        raise _wrong(text, "a peak is at least 1 times the load", "1 means no peak")
    if value > 10**6:
        raise _wrong(text, "a peak of over a million times is none", "as in 3 or 2.5")
    return value


def share(text: str) -> Fraction:
    """A share of at least 0 and under 1: ``30%``, ``30 %``, ``0.3``; UsageError
    otherwise."""
    text = _checked(text, "a share", share)
    value = _share(text)
    if not 0 <= value < 1:
        hint = "as in 30% or 0.3"
        if "%" not in text and 1 <= value < 100:
            hint = f"did you mean {text}%?"
        raise _wrong(text, "the share kept free is from 0% to under 100%", hint)
    return value


def _share(text: str) -> Fraction:
    bare = text.removesuffix("%").strip()
    value = _bare(bare, text, "a share is a number", "as in 30% or 0.3")
    return value / 100 if text.endswith("%") else value


def _bare(digits: str, text: str, why: str, hint: str) -> Fraction:
    found = _NUMBER.fullmatch(digits)
    if found is None or found[2].strip():
        raise _wrong(text, why, hint)
    return _number(found[1].strip(), text)


class Busy(NamedTuple):
    """CPUs at work on the measured load."""

    cores: Fraction
    words: str
    """How it was said."""
    of: Fraction | None = None
    """Of how many, where that was said."""


_OF: Final = re.compile(r"(.*%)\s*of\s*([0-9_,. ]+?)\s*([A-Za-z ]*)", re.IGNORECASE)
_BUSY_HINT: Final = "as in 4 or 34% of 24"


def busy(text: str) -> Busy:
    """Busy cores: ``4``, or ``34% of 24``, as vmstat tells; UsageError otherwise."""
    text = _checked(text, "the number of busy cores", busy)
    found = _OF.fullmatch(text)
    if found is not None:
        part = _share(found[1].strip())
        of = _bare(found[2], text, "that is no number of cores", _BUSY_HINT)
        if not 0 < part <= 1:
            why = "the busy share is over 0% and at most 100%"
            raise _wrong(text, why, _BUSY_HINT)
        value = part * of
    else:
        if "%" in text:
            raise _wrong(text, "a share of how many cores?", _BUSY_HINT)
        bare = re.sub(r"\s*cores?$", "", text, flags=re.IGNORECASE)
        value = _bare(bare, text, "that is no number of cores", _BUSY_HINT)
        of = None
    if value <= 0:
        raise _wrong(text, "no core was busy, so none could be counted on", _BUSY_HINT)
    if value > 10**6:
        raise _wrong(text, "that is over a million cores", _BUSY_HINT)
    return Busy(value, text, of)


def cores(text: str) -> int:
    """Cores of one machine, a whole number from 1; UsageError otherwise."""
    text = _checked(text, "the number of cores a machine", cores)
    value = _bare(text, text, "a machine has a whole number of cores", "as in 2 or 64")
    if value.denominator != 1 or not 1 <= value <= 10**6:
        raise _wrong(text, "a machine has 1 core or more, and no half ones", "as in 2")
    return int(value)
