"""Capacity: loads in people's words, exact rounding, the published figures."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui.errors import UsageError
from kvtui.jobs import capacity, loads, published
from kvtui.jobs.capacity import Answer, Measured, answer
from kvtui.text import visible

DAY_S = 86_400
SECONDS = {
    "s": 1,
    "second": 1,
    "min": 60,
    "minute": 60,
    "hour": 3600,
    "h": 3600,
    "day": DAY_S,
    "d": DAY_S,
    "week": 7 * DAY_S,
    "month": 30 * DAY_S,
    "mo": 30 * DAY_S,
    "year": 365 * DAY_S,
}


def point(rate: Fraction | int, busy: Fraction | int = 1, **mix: Fraction) -> Measured:
    """A measured point without words."""
    return Measured(Fraction(rate), Fraction(busy), "", "", mix)


@pytest.mark.parametrize(
    ("text", "per_second", "noun"),
    [
        ("260e9/month", Fraction(260 * 10**9, 30 * DAY_S), ""),
        ("2.6E+11 / month", Fraction(260 * 10**9, 30 * DAY_S), ""),
        ("260G/mo", Fraction(260 * 10**9, 30 * DAY_S), ""),
        (
            "260 billion page loads a month",
            Fraction(260 * 10**9, 30 * DAY_S),
            "page loads",
        ),
        ("9M/day", Fraction(9_000_000, DAY_S), ""),
        ("9m daily", Fraction(9_000_000, DAY_S), ""),
        ("9_000_000 per day", Fraction(9_000_000, DAY_S), ""),
        ("100k/s", Fraction(100_000), ""),
        ("100K per second", Fraction(100_000), ""),
        ("100 000/s", Fraction(100_000), ""),
        ("100,309/s", Fraction(100_309), ""),
        ("1,000.5/s", Fraction(2001, 2), ""),
        ("2 million gets a second", Fraction(2_000_000), "gets"),
        ("2 million gets every second", Fraction(2_000_000), "gets"),
        ("5krps", Fraction(5000), ""),
        ("100 kiops", Fraction(100_000), ""),
        ("5 Mops/s", Fraction(5_000_000), "ops"),
        ("100 kgets/s", Fraction(100_000), "gets"),
        ("600 rpm", Fraction(10), ""),
        ("5/ms", Fraction(5000), ""),
        ("1e-3/s", Fraction(1, 1000), ""),
        (".5/s", Fraction(1, 2), ""),
        ("7 widgets per week", Fraction(7, 7 * DAY_S), "widgets"),
        ("8.76M/year", Fraction(8_760_000, 365 * DAY_S), ""),
    ],
)
def test_loads_in_the_words_that_people_use(
    text: str, per_second: Fraction, noun: str
) -> None:
    read = loads.load(text)
    assert (read.per_second, read.noun) == (per_second, noun)


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "missing", "as in 100k/s"),
        ("100k", "per what", "did you mean 100k/s?"),
        ("100k/", "per what", "did you mean 100k/s?"),
        ("100k day", "per what", "did you mean 100k/day?"),
        ("9M/dya", "no length of time", "did you mean 9M/day?"),
        ("9M gets per secnd", "no length of time", "did you mean 9M gets per second?"),
        ("100k/m", "minute or a month", "/min or /month"),
        ("1,5M/day", "groups of three", "did you mean 1.5M/day?"),
        ("1,000,00/s", "groups of three", "as in"),
        ("1__0/s", "underscores", "as in"),
        ("1.5.5/s", "means nothing", "as in"),
        ("5Mwidgets/s", "Mwidgets", "did you mean 5M widgets/s?"),
        ("0/s", "more than nothing", "as in"),
        ("-5/s", "more than nothing", "as in"),
        ("nan/s", "begins with a number", "as in"),
        ("inf/s", "begins with a number", "as in"),
        ("1e999999999/s", "at most 30 digits", "as in"),
        ("9" * 40 + "/s", "at most 30 digits", "as in"),
        ("1e19/s", "more than 1e18", "as in"),
        ("x" * 200, "too long", "as in"),
        ("3×/s", "not ASCII", "as in"),
        ("\u0663/s", "U+0663", "did you mean 3/s?"),
        ("100\u00a0000/s", "U+00A0", "did you mean 100 000/s?"),
        ("5/s\x1b]0;x", "U+001B", "as in"),
    ],
)
def test_what_is_no_load_is_told_with_the_nearest_form(
    text: str, said: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        loads.load(text)
    assert said in caught.value.message
    assert hint in (caught.value.hint or "")
    assert visible(caught.value.message) == caught.value.message
    if "did you mean " in hint:
        loads.load(hint.removeprefix("did you mean ").removesuffix("?"))


@given(st.text(max_size=100))
def test_any_text_is_a_load_or_a_usage_error(text: str) -> None:
    for read in (loads.load, loads.factor, loads.share, loads.busy, loads.cores):
        try:
            read(text)
        except UsageError as error:
            assert visible(error.message) == error.message  # noqa: PT017


@given(
    st.from_regex(
        r"[0-9]{1,6}([.,][0-9]{1,3})?[kMG]? ?[a-z]{0,4}/[a-z]{1,6}", fullmatch=True
    )
)
def test_what_is_proposed_is_taken(text: str) -> None:
    try:
        loads.load(text)
    except UsageError as error:
        hint = error.hint or ""
        if hint.startswith("did you mean "):
            likely = hint.removeprefix("did you mean ").removesuffix("?")
            try:
                loads.load(likely)
            except UsageError as second:
                # A text with two faults is led to the second one.
                assert second.message != error.message  # noqa: PT017


@given(st.integers(1, 10**8), st.sampled_from(sorted(SECONDS)))
def test_units_agree_with_one_another(amount: int, unit: str) -> None:
    read = loads.load(f"{amount}/{unit}").per_second
    assert read == loads.load(f"{amount:,} per {unit}").per_second
    assert read == loads.load(f"{amount:_}/{unit}").per_second
    assert read * SECONDS[unit] == amount
    assert loads.load(f"{amount}k/{unit}").per_second == 1000 * read
    assert loads.load(f"{amount}e3/{unit}").per_second == 1000 * read
    assert loads.load(f"{amount}M/{unit}").per_second == 10**6 * read
    assert loads.load(f"{amount} billion a {unit}").per_second == 10**9 * read


@given(st.decimals(min_value="0.001", max_value=10**9, places=3))
def test_decimals_are_read_exactly(amount: object) -> None:
    assert loads.load(f"{amount}/s").per_second == Fraction(str(amount))


rates = st.fractions(min_value=Fraction(1, 100), max_value=10**9)
few = st.fractions(min_value=Fraction(1, 1000), max_value=10**4)
peaks = st.fractions(min_value=1, max_value=100)
shares = st.fractions(min_value=0, max_value=Fraction(99, 100))


def reckon(
    target: Fraction,
    rate: Fraction,
    busy: Fraction,
    peak: Fraction = Fraction(1),
    headroom: Fraction = Fraction(0),
    cores: int | None = None,
) -> Answer:
    """An answer for a load of ``target`` a second."""
    wanted = loads.load("1/s")._replace(amount=target)
    return answer(
        wanted,
        point(rate, busy),
        peak=peak,
        headroom=headroom,
        cores_per_machine=cores,
    )


@given(rates, rates, few, peaks, shares, st.integers(1, 512))
def test_never_too_few_and_never_a_whole_core_too_many(
    target: Fraction,
    rate: Fraction,
    busy: Fraction,
    peak: Fraction,
    headroom: Fraction,
    each: int,
) -> None:
    found = reckon(target, rate, busy, peak, headroom, each)
    one = rate / busy
    needed = target * peak / (1 - headroom)
    assert found.cores * one >= needed
    assert (found.cores - 1) * one < needed
    assert found.machines is not None
    assert found.machines * each >= found.cores > (found.machines - 1) * each
    # Every value that is shown is a part of the arithmetic.
    assert found.steps[-1].value == found.machines
    assert all(step.shown for step in found.steps)


@given(rates, rates, few, peaks, peaks, shares, shares)
def test_more_of_anything_never_needs_fewer(
    target: Fraction,
    rate: Fraction,
    busy: Fraction,
    peak: Fraction,
    other_peak: Fraction,
    headroom: Fraction,
    other_headroom: Fraction,
) -> None:
    low_peak, high_peak = sorted((peak, other_peak))
    low, high = sorted((headroom, other_headroom))
    least = reckon(target, rate, busy, low_peak, low).cores
    assert least <= reckon(target, rate, busy, high_peak, low).cores
    assert least <= reckon(target, rate, busy, low_peak, high).cores
    assert least <= reckon(2 * target, rate, busy, low_peak, low).cores
    assert least >= reckon(target, 2 * rate, busy, low_peak, low).cores


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_an_exact_number_of_cores_is_not_rounded_up(cores: int, one: int) -> None:
    found = reckon(Fraction(cores * one), Fraction(one), Fraction(1))
    assert found.cores == cores
    # 0.1 + 0.2 and its like: floats would make 25.000000000000004 of this.
    found = reckon(Fraction(cores * one, 10), Fraction(one, 10), Fraction(1))
    assert found.cores == cores


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6))
def test_what_is_rounded_up_is_seen_to_be_no_whole_number(value: Fraction) -> None:
    shown = capacity.unrounded(value)
    if value.denominator > 1:
        assert not shown.replace(",", "").isdigit()
        if "trace" not in shown:
            assert Fraction(shown.replace(",", "")).denominator > 1


def test_the_published_arithmetic() -> None:
    found = answer(
        loads.load(published.PAPER.target),
        published.measured(),
        cores_per_machine=loads.cores(published.PAPER.cores_per_machine),
    )
    shown = {step.what: step.shown for step in found.steps}
    assert shown == {
        "load": "100,309/s",
        "measured": "15,960/s",
        "busy": "4 cores",
        "one core": "3,990/s",
        "cores": "26",
        "machines": "13",
    }
    assert capacity.unrounded(found.cores_exact) == "25.1"
    assert found.sentence == "26 cores, 13 machines of 2"
    about = [caveat.about for caveat in found.caveats]
    assert {"closed loop", "utilisation", "latency", "linear scaling"} <= set(about)


def test_where_the_published_arithmetic_rounded() -> None:
    threads, too_few, errors = published.notes()
    assert "are 8.16" in threads
    assert "4.08 cores, taken as 4" in threads
    assert "3,912/s a core and 25.6, so 26 cores as well" in threads
    assert "99,750/s, 558.6/s too few" in too_few
    assert "The paper says 25 cores; it is 26, and 13 servers" in too_few
    assert "Non-2xx responses: 1000002" in errors


def test_a_kind_of_operation_counts_by_its_share_of_the_mix() -> None:
    mix = {"get": Fraction(4, 5), "put": Fraction(1, 5)}
    measured = point(1000, 1, **mix)
    assert answer(loads.load("2M gets/s"), measured).cores == 2500
    assert answer(loads.load("2M puts/s"), measured).cores == 10_000
    assert answer(loads.load("2M reads/s"), measured).cores == 2500
    assert answer(loads.load("2M sets/s"), measured).cores == 10_000
    assert answer(loads.load("2M/s"), measured).cores == 2000
    assert answer(loads.load("2M requests/s"), measured).cores == 2000
    odd = answer(loads.load("2M dels/s"), measured).caveats[0]
    assert odd.about == "what is counted"
    assert odd.text.startswith("dels are taken as operations, of all kinds")
    with pytest.raises(UsageError, match="no delete was answered"):
        answer(loads.load("2M deletes/s"), measured)


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (point(0), {}),
        (point(-1), {}),
        (point(1, 0), {}),
        (point(1, -1), {}),
        (point(1), {"peak": Fraction(1, 2)}),
        (point(1), {"headroom": Fraction(1)}),
        (point(1), {"headroom": Fraction(-1, 10)}),
        (point(1), {"cores_per_machine": 0}),
    ],
)
def test_nothing_and_less_are_refused(
    measured: Measured, words: dict[str, Fraction]
) -> None:
    with pytest.raises(UsageError):
        answer(loads.load("1/s"), measured, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (loads.factor, "3", 3),
        (loads.factor, "2.5x", Fraction(5, 2)),
        (loads.share, "30%", Fraction(3, 10)),
        (loads.share, "0.3", Fraction(3, 10)),
        (loads.share, "0", 0),
        (loads.cores, "64", 64),
    ],
)
def test_factors_shares_and_cores(read, text, value):
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "hint"),
    [
        (loads.factor, "0.5", "no peak"),
        (loads.factor, "many", "as in 3"),
        (loads.share, "30", "did you mean 30%?"),
        (loads.share, "100%", "as in 30%"),
        (loads.share, "-1%", "as in 30%"),
        (loads.busy, "34%", "34% of 24"),
        (loads.busy, "0", "34% of 24"),
        (loads.busy, "-2", "34% of 24"),
        (loads.busy, "120% of 2", "34% of 24"),
        (loads.cores, "2.5", "as in 2"),
        (loads.cores, "0", "as in 2"),
    ],
)
def test_what_is_none_of_them(read, text, hint):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert hint in (caught.value.hint or "")


def test_busy_cores_as_a_share() -> None:
    assert loads.busy("34% of 24").cores == Fraction(204, 25)
    assert loads.busy("34 % of 24 hardware threads").of == 24
    assert loads.busy("4 cores").cores == 4
    found = capacity.typed(loads.load("15960/s"), loads.busy("34% of 24"))
    assert [each.about for each in found.caveats] == [
        "typed in",
        "utilisation",
        "hardware threads",
    ]
