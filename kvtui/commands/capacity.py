"""``kvtui capacity``: how many cores a load needs, from a trial or typed-in figures."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, NamedTuple

import click
import msgspec

from kvtui import config, sizing
from kvtui.commands import console
from kvtui.commands.options import typed
from kvtui.errors import UsageError
from kvtui.jobs import capacity as reckoning
from kvtui.jobs import loads, published
from kvtui.jobs.capacity import Answer, Measured
from kvtui.runs import history
from kvtui.tables import ascii_letters, paragraph
from kvtui.text import cells, fit, visible

LABEL: Final = 12
VALUE: Final = 15
"""Cells of a step's name and of its value."""


class Source(NamedTuple):
    """Where the measured point is from, in words."""

    measured: Measured
    said: str
    run: str | None = None
    store: str | None = None
    paper: bool = False


@click.command()
@click.option(
    "--target",
    metavar="LOAD",
    help="The load to carry, as 260e9/month, 9M/day or '2 million gets a second'.",
)
@click.option(
    "--peak",
    metavar="FACTOR",
    help="How many times the load its busiest moment brings.  [default: 1]",
)
@click.option(
    "--headroom",
    metavar="SHARE",
    help="Share of the capacity that is kept free, as 30%.  [default: 0%]",
)
@click.option("--run", "run_name", metavar="RUN", help="The run.  [default: newest]")
@click.option(
    "--store",
    metavar="NAME",
    help="The store of that run.  [default: the best ranked, or the only one]",
)
@click.option("--measured", metavar="LOAD", help="A rate typed in, as 15960/s.")
@click.option(
    "--busy-cores", metavar="N", help="Cores that the server used at that rate."
)
@click.option("--busy", metavar="SHARE", help="The same as a share, as 34%, with --of.")
@click.option("--of", metavar="N", help="Of how many cores that share is.")
@click.option(
    "--cores-per-machine", metavar="N", help="Cores of one machine, to count machines."
)
@click.option("--paper", is_flag=True, help="The published figures of 2011.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON.")
def capacity(
    target: str | None,
    peak: str | None,
    headroom: str | None,
    run_name: str | None,
    store: str | None,
    measured: str | None,
    busy_cores: str | None,
    busy: str | None,
    of: str | None,
    cores_per_machine: str | None,
    paper: bool,
    as_json: bool,
) -> int:
    """How many cores and machines a load needs.

    From what a store did a second in a trial and how many cores were busy with it,
    or from such figures typed in. Exit code 1 where the trial cannot be reckoned
    with: nothing was answered, or nobody saw the server's CPU.

    \b
    kvtui capacity --target "2M gets/s" --store redis-unix --peak 3 --headroom 30%
    kvtui capacity --target 260e9/month --measured 15960/s --busy 34% --of 24
    kvtui capacity --paper
    """
    given = (run_name, store, measured, busy_cores, busy, of)
    if paper and any(each is not None for each in given):
        raise UsageError(
            "--paper brings its own measured figures",
            hint="leave --run, --store, --measured and --busy out",
        )
    preset = published.PAPER
    if target is None:
        if not paper:
            raise UsageError(
                "which load should be carried?", hint="--target 100k/s; 9M/day"
            )
        target = preset.target
    if paper and cores_per_machine is None:
        cores_per_machine = preset.cores_per_machine
    wanted = _option("--target", loads.load, target)
    times = Fraction(1) if peak is None else _option("--peak", loads.factor, peak)
    free = Fraction(0)
    if headroom is not None:
        free = _option("--headroom", loads.share, headroom)
    cores = None
    if cores_per_machine is not None:
        cores = _option("--cores-per-machine", loads.cores, cores_per_machine)
    used = _busy(busy_cores, busy, of)
    source = _source(run_name, store, measured, used, paper)
    found = reckoning.answer(
        wanted, source.measured, peak=times, headroom=free, cores_per_machine=cores
    )
    if as_json:
        asked = {
            "target": wanted.text,
            "target_per_s": float(wanted.per_second),
            "peak": float(times),
            "headroom": float(free),
        }
        _print_json(asked, source, found)
    else:
        _print(source, found)
    return 0


def _option(name: str, read: Any, text: str) -> Any:
    """Read an option's word; the error names the option."""
    try:
        return read(typed(text))
    except UsageError as error:
        raise UsageError(f"{name} {error.message}", hint=error.hint) from None


def _busy(cores: str | None, share: str | None, of: str | None) -> loads.Busy | None:
    if cores is not None and share is not None:
        raise UsageError(
            "--busy-cores and --busy say the same", hint="--busy is a share: 34%"
        )
    if cores is not None:
        if of is not None:
            raise UsageError("--of belongs to --busy", hint="--busy 34% --of 24")
        return _read_busy("--busy-cores", cores)
    if share is None and of is None:
        return None
    if share is None or of is None:
        raise UsageError(
            "--busy and --of go together", hint="--busy 34% --of 24; or --busy-cores 4"
        )
    share = typed(share).strip()
    if not share.endswith("%"):
        raise UsageError(
            f"--busy {visible(share, 40)}: a share is told in per cent",
            hint=f"--busy {share[:40]}% --of {of[:40]}; or --busy-cores 4",
        )
    return _read_busy("--busy", f"{share} of {typed(of)}")


def _read_busy(name: str, text: str) -> loads.Busy:
    found: loads.Busy = _option(name, loads.busy, text)
    return found


def _source(
    run_name: str | None,
    store: str | None,
    measured: str | None,
    busy: loads.Busy | None,
    paper: bool,
) -> Source:
    if paper:
        return Source(published.measured(), "the published figures of 2011", paper=True)
    if measured is not None:
        if run_name is not None or store is not None:
            raise UsageError(
                "the rate is either typed in or a trial's",
                hint="leave --measured out, or --run and --store",
            )
        if busy is None:
            raise UsageError(
                "how many cores were busy at that rate?",
                hint="--busy-cores 4; or --busy 34% --of 24",
            )
        rate: loads.Load = _option("--measured", loads.load, measured)
        return Source(reckoning.typed(rate, busy), "figures typed in")
    run = history.find(config.runs_directory(), run_name)
    state = run.state()
    trial = sizing.find_trial(state, store or sizing.best_store(state))
    point = sizing.measured(state, trial, busy=busy)
    said = f"{visible(trial.store)} in run {visible(run.name)}"
    if state.plan is not None and state.plan.repeat > 1:
        said += f", repeat {trial.repeat} of {state.plan.repeat} (the middle one)"
    return Source(point, said, run.name, trial.store)


def _print(source: Source, found: Answer) -> None:
    letters = ascii_letters if console.ascii_only() else str
    width = console.width()

    def say(text: str, indent: str = "") -> None:
        for line in paragraph(letters(text), width, indent):
            console.out(line)

    say(f"{found.sentence}, from {source.said}")
    console.out()
    indent = " " * (LABEL + VALUE + 4)
    for step in found.steps:
        shown = fit(letters(step.shown), max(VALUE, cells(step.shown)), right=True)
        say(f"  {fit(step.what, LABEL)}{shown}  {visible(step.words)}", indent)
    console.out()
    for caveat in found.caveats:
        say(f"  {caveat.about}: {visible(caveat.text)}", "    ")
    if source.paper:
        console.out()
        for note in published.notes():
            say(f"  {note}", "    ")


def _print_json(asked: dict[str, Any], source: Source, found: Answer) -> None:
    point = source.measured
    document = {
        **asked,
        "source": source.said,
        "run": source.run,
        "store": source.store,
        "measured_per_s": float(point.per_second),
        "busy_cores": float(point.busy_cores),
        "busy": point.busy_words,
        **reckoning.document(found),
        "paper": published.notes() if source.paper else [],
    }
    console.out_json(msgspec.json.format(msgspec.json.encode(document), indent=1))
