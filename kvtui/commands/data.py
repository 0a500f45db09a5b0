"""``kvtui data``: make profile files, and say what one holds."""

from __future__ import annotations

import sys
from typing import Any

import click
import msgspec

from kvtui import config
from kvtui.commands import console
from kvtui.commands.options import Count, existing_file, file_to_write, number
from kvtui.errors import UsageError
from kvtui.tables import Column, ascii_letters, table
from kvtui.text import NOTHING, count, percent, visible


@click.group()
def data() -> None:
    """Make and describe profile files."""


class _Share(click.ParamType[float]):
    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found = number(str(value))
        if found is None:
            self.fail(f"{value!r} is not a number")
        return float(found)


_SHAPE = (
    ("mean-length", "Mean pages a profile."),
    ("dispersion", "The smaller, the longer the longest profiles."),
    ("flatness", "The larger, the flatter the head of the popularity."),
    ("taste", "Share of pages from a profile's taste groups, 0 to 1."),
    ("series", "Share of places that hold a series of pages, 0 to 1."),
)
_SIZES = (
    ("profiles", "How many people."),
    ("seed", "Equal seeds and options give equal bytes."),
    ("pool", "Pages that can occur, for each profile."),
    ("groups", "Taste groups."),
    ("groups-each", "Taste groups of a profile."),
)


def _shaped(command: click.Command) -> click.Command:
    from kvtui.jobs.fans.synthetic import SyntheticParameters

    defaults = SyntheticParameters()
    for options, kind in ((_SHAPE, _Share()), (_SIZES, Count())):
        for name, text in options:
            default = getattr(defaults, name.replace("-", "_"))
            command.params.append(
                click.Option(
                    [f"--{name}"],
                    type=kind,
                    metavar="N",
                    help=f"{text}  [default: {default:,}]",
                )
            )
    return command


@click.command()
@click.argument("out", default="fans.tsv.gz")
@click.option("--names", metavar="FILE", help="Write the pages' readable names here.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
def make(out: str, names: str | None, force: bool, **shape: float | int | None) -> None:
    """Write invented profiles to OUT (fans.tsv.gz), one a line, packed for .gz.

    Equal options give equal bytes. 406 of 10,000 people are fans of Michael
    Jackson, and 22 of these of the Green Bay Packers, as in the published job;
    other numbers of people scale this.

    \b
    kvtui data make
    kvtui data make big.tsv.gz --profiles 1M --seed 7
    """
    from kvtui.jobs.fans import synthetic

    given = {name: value for name, value in shape.items() if value is not None}
    parameters = synthetic.SyntheticParameters(**given).checked()  # type: ignore[arg-type]
    profiles_path = file_to_write(out)
    names_path = None if names is None else file_to_write(names)
    for path in filter(None, (profiles_path, names_path)):
        if path.exists() and not force:
            raise UsageError(f"{path} is already there", hint="--force replaces it")
    shown = console.is_terminal(sys.stderr)

    def progress(done: int) -> None:
        if shown:
            share = percent(done / parameters.profiles)
            sys.stderr.write(f"\r{count(done)} profiles, {share} ")
            sys.stderr.flush()

    synthetic.make_profiles(parameters, profiles_path, names_path, progress)
    if shown:
        console.say()
    console.say(
        f"kvtui: {parameters.profiles:,} invented profiles,"
        f" seed {parameters.seed}, in {visible(str(profiles_path))}"
    )


data.add_command(_shaped(make))


@data.command()
@click.argument("file", required=False)
@click.option("--first", type=Count(), metavar="N", help="Only the first N people.")
@click.option("--names", metavar="FILE", help="Readable names of the pages.")
@click.option("--encoding", metavar="NAME", default="utf-8", show_default=True)
@click.option("--format", metavar="NAME", help="Where the file does not tell.")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def info(
    file: str | None,
    first: int | None,
    names: str | None,
    encoding: str,
    format: str | None,
    as_json: bool,
) -> None:
    """Say what the profile FILE holds; kvtui's sample by default.

    The format is recognised by content: one profile a line with tabs, JSON Lines,
    person and page in two columns, DST; plain, gzip or zip.

    \b
    kvtui data info
    kvtui data info to_read.csv.zip --first 10k --json
    """
    from kvtui.jobs.fans.profiles import open_profiles, read_names
    from kvtui.jobs.fans.summary import DataSummary, summarise

    if file is None:
        sample, sample_names = config.sample_profiles()
        file = str(sample)
        names = names or (str(sample_names) if sample_names.is_file() else None)
    path = existing_file(file, "the profile file")
    titles = None
    if names is not None:
        titles = read_names(existing_file(names, "the file of names"))
    source = open_profiles(path, first=first, format=format, encoding=encoding)
    summary: DataSummary = summarise(source, names=titles)
    if as_json:
        console.out_json(msgspec.json.format(msgspec.json.encode(summary), indent=1))
        return
    _print(summary)


def _print(summary: Any) -> None:
    letters = ascii_letters if console.ascii_only() else str

    def real(value: float | None) -> str:
        return NOTHING if value is None else f"{value:,.2f}".removesuffix(".00")

    ones = summary.pages_with_one_fan / summary.pages if summary.pages else None
    facts = [
        ("file", visible(summary.path)),
        ("format", f"{summary.format}, {summary.encoding}{_packed(summary)}"),
        ("lines", f"{count(summary.lines)}, of which bad {count(summary.bad_lines)}"),
        (
            "profiles",
            f"{count(summary.profiles)}, {count(summary.empty_profiles)} empty",
        ),
        ("memberships", f"{count(summary.memberships)} different (profile, page)"),
        (
            "pages",
            (
                f"{count(summary.pages)}; {count(summary.pages_with_one_fan)}"
                f" ({percent(ones, 1)}) with one fan"
            ),
        ),
        ("fans a page", f"mean {real(summary.mean_fans)}"),
        (
            "pages a profile",
            (
                f"mean {real(summary.mean_length)},"
                f" median {real(summary.median_length)},"
                f" p90 {real(summary.p90_length)},"
                f" most {count(summary.max_length)}"
            ),
        ),
    ]
    for name, value in facts:
        console.out(letters(f"{name:17}{value}"))
    if summary.top:
        console.out()
        cells = [
            [count(page.fans), letters(visible(page.name)), letters(visible(page.page))]
            for page in summary.top
        ]
        columns = [Column("fans", True), Column("name", False, True), Column("page")]
        if not any(page.name for page in summary.top):
            columns, cells = [columns[0], columns[2]], [[c[0], c[2]] for c in cells]
        columns[-1] = columns[-1]._replace(gives_way=True)
        for line in table(columns, cells, console.width()):
            console.out(line)
    if summary.bad_lines:
        console.out()
        told = len(summary.first_bad)
        first = f", the first {told}" if told < summary.bad_lines else ""
        console.out(f"{summary.bad_lines:,} bad lines{first}:")
        for bad in summary.first_bad:
            console.out(letters(f"  line {bad.number:,}: {visible(bad.reason)}"))


def _packed(summary: Any) -> str:
    return f", {summary.compression}" if summary.compression else ""
