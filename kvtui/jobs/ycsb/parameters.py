"""The parameters of the YCSB core workloads; imports nothing heavy, for forms and CLI.

The proportions, distributions and defaults are those of YCSB's core workload and of
its files workloada … workloadf; where kvtui differs, the field says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec

from kvtui.errors import UsageError

RECORDS: Final = 10_000
OPERATIONS: Final = 100_000
VALUE_BYTES: Final = 1000
"""YCSB's ten fields of 100 bytes, as one opaque value."""
HEADER_BYTES: Final = 24
"""What a value needs for its record, version and checksum."""

RECORDS_LIMIT: Final = 2**32
OPERATIONS_LIMIT: Final = 10**10
VALUE_LIMIT: Final = 64 * 2**20

Distribution = Literal[
    "uniform",
    "zipfian",
    "zipfian-plain",
    "latest",
    "hotspot",
    "exponential",
    "sequential",
]
DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "uniform": "every record as often as any other",
    "zipfian": "zipfian as in YCSB: scrambled, the hottest record drawn 3.8 % of the"
    " time at any number of records",
    "zipfian-plain": "zipfian, not scrambled: the first record is the hottest",
    "latest": "zipfian, counted back from the newest record",
    "hotspot": "most operations on a hot set, the lowest records",
    "exponential": "exponential, counted back from the newest record",
    "sequential": "one record after the other, and from the first again",
}


class Mix(NamedTuple):
    """Of all operations, the share of each kind; and how records are chosen."""

    read: float = 0.0
    update: float = 0.0
    insert: float = 0.0
    scan: float = 0.0
    rmw: float = 0.0
    """Read, then write: two operations of the store, one of the workload."""


class Preset(NamedTuple):
    """One of YCSB's workload files."""

    mix: Mix
    distribution: str


PRESETS: Final[Mapping[str, Preset]] = {
    "ycsb-a": Preset(Mix(read=0.5, update=0.5), "zipfian"),
    "ycsb-b": Preset(Mix(read=0.95, update=0.05), "zipfian"),
    "ycsb-c": Preset(Mix(read=1.0), "zipfian"),
    "ycsb-d": Preset(Mix(read=0.95, insert=0.05), "latest"),
    "ycsb-e": Preset(Mix(scan=0.95, insert=0.05), "zipfian"),
    "ycsb-f": Preset(Mix(read=0.5, rmw=0.5), "zipfian"),
}


class YcsbParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a YCSB workload is asked to do. None: as the workload's file has it."""

    records: int = RECORDS
    """Loaded before the clock runs."""
    operations: int = OPERATIONS
    """Over all clients; a read-modify-write is one."""
    value_bytes: int = VALUE_BYTES
    """Of every value, header included. An update writes the whole of it."""
    distribution: Distribution | None = None
    theta: float = 0.99
    """Skew of the zipfian distributions and of latest; below 1, as in YCSB."""
    read: float | None = None
    update: float | None = None
    insert: float | None = None
    scan: float | None = None
    rmw: float | None = None
    insert_order: Literal["hashed", "ordered"] = "hashed"
    """Whether a key's number is the record's own or a hash of it."""
    zero_padding: int = 1
    """Least digits of the number in a key."""
    scan_shortest: int = 1
    scan_longest: int = 100
    scan_lengths: Literal["uniform", "zipfian"] = "uniform"
    hot_records: float = 0.2
    """Of the records, the share that distribution ``hotspot`` calls hot."""
    hot_operations: float = 0.8
    """Of the operations, the share that goes to them."""
    exponential_percentile: float = 95
    exponential_fraction: float = 0.8571428571
    """That percentile of the operations falls into this share of the records, the
    newest ones. (YCSB's comment says 1/7; its number is 6/7.)"""
    compress_ratio: float = 1.0
    """What a compressor leaves of a value: 1 random throughout, 0.5 half zeros."""
    seed: int = 1
    """The run's; not said by ``--set``."""
    clients: int = 1
    """The run's, over all workers."""


HIDDEN: Final = ("seed", "clients")
"""Parameters that the run's own options say."""
PROPORTIONS: Final = Mix._fields
_LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "records": (1, RECORDS_LIMIT),
    "operations": (1, OPERATIONS_LIMIT),
    "value_bytes": (HEADER_BYTES, VALUE_LIMIT),
    "zero_padding": (1, 100),
    "scan_shortest": (1, 1_000_000),
    "scan_longest": (1, 1_000_000),
    "hot_records": (0, 1),
    "hot_operations": (0, 1),
    "compress_ratio": (0, 1),
    **dict.fromkeys(PROPORTIONS, (0, 1)),
}


def check(workload: str, parameters: dict[str, Any]) -> YcsbParameters:
    """The parameters, typed; UsageError names the one that is off."""
    unknown = sorted(set(parameters) - set(YcsbParameters.__struct_fields__))
    if unknown:
        known = [
            name for name in YcsbParameters.__struct_fields__ if name not in HIDDEN
        ]
        raise UsageError(
            f"{workload} has no parameter {unknown[0]!r}",
            hint=f"it has {', '.join(known)}",
        )
    distribution = parameters.get("distribution")
    if distribution is not None and distribution not in get_args(Distribution):
        raise UsageError(
            f"distribution {distribution!r} is not one of {', '.join(DISTRIBUTIONS)}"
        )
    try:
        typed = msgspec.convert(parameters, YcsbParameters, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{workload}: {error}") from None
    _check_limits(typed)
    shares = mix(workload, typed)
    if not abs(sum(shares) - 1) <= 1e-6:
        told = ", ".join(
            f"{name} {share:g}"
            for name, share in zip(PROPORTIONS, shares, strict=True)
            if share
        )
        raise UsageError(
            f"the proportions come to {sum(shares):g}, not to 1: {told}",
            hint="--set read=0.8 --set update=0.2",
        )
    return typed


def _check_limits(typed: YcsbParameters) -> None:
    for name, (least, most) in _LIMITS.items():
        value = getattr(typed, name)
        if value is not None and not least <= value <= most:
            raise UsageError(f"{name} must be from {least:,} to {most:,}, not {value}")
    if not 0 < typed.theta < 1:
        raise UsageError(
            f"theta must be above 0 and below 1, not {typed.theta:g}",
            hint="so it is in YCSB, whose 0.99 is the default",
        )
    if not 0 < typed.exponential_percentile < 100:
        raise UsageError("exponential_percentile must be above 0 and below 100")
    if not 0 < typed.exponential_fraction <= 1:
        raise UsageError("exponential_fraction must be above 0 and at most 1")
    if typed.scan_shortest > typed.scan_longest:
        raise UsageError(
            f"scan_shortest {typed.scan_shortest} is more than scan_longest"
            f" {typed.scan_longest}"
        )


def mix(workload: str, typed: YcsbParameters) -> Mix:
    """The shares in force: the workload file's, but for those that were given. Where
    any was given, those that were not are 0."""
    given = {name: getattr(typed, name) for name in PROPORTIONS}
    if all(value is None for value in given.values()):
        return PRESETS[workload].mix
    return Mix(**{name: value or 0.0 for name, value in given.items()})


def distribution(workload: str, typed: YcsbParameters) -> str:
    """The distribution in force."""
    return typed.distribution or PRESETS[workload].distribution
