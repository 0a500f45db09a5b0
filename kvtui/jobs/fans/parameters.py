"""The parameters of the fan-page job; imports nothing heavy, for forms and CLI."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

import msgspec

from kvtui.errors import UsageError

Mode = Literal["record", "cached", "native"]

MODES: Final[dict[str, str]] = {
    "record": "one get and one put of the page's whole record for each of its fans",
    "cached": "the same through a bounded write-back cache, flushed at the end",
    "native": "the store's own way to add to counters, where it has one",
}


class FansParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the fan-page job is asked to do."""

    data: str
    """Path of the profile file."""
    names: str | None = None
    """Path of a file of readable names."""
    first: int | None = None
    """Only that many people, in file order."""
    mode: Mode = "record"
    cache_mb: float = 512
    """Bound of the cache of mode ``cached``, over all clients, in millions of
    bytes as the job estimates them."""
    verify_mb: float = 256
    """Bound of what verifying holds in memory at once, over all workers."""
    encoding: str = "utf-8"
    format: str | None = None


def check(parameters: dict[str, Any]) -> FansParameters:
    """The parameters, typed; UsageError names the one that is off."""
    mode = parameters.get("mode", "record")
    if mode not in get_args(Mode):
        raise UsageError(
            f"mode {mode!r} is not one of {', '.join(MODES)}",
            hint="; ".join(f"{name}: {text}" for name, text in MODES.items()),
        )
    unknown = sorted(set(parameters) - set(FansParameters.__struct_fields__))
    if unknown:
        raise UsageError(
            f"the fan-page job has no parameter {unknown[0]!r}",
            hint=f"it has {', '.join(FansParameters.__struct_fields__)}",
        )
    try:
        typed = msgspec.convert(parameters, FansParameters, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"fans: {error}") from None
    if typed.first is not None and typed.first < 1:
        raise UsageError(f"first must be at least 1, not {typed.first}")
    for name, least in (("cache_mb", 1), ("verify_mb", 16)):
        if not least <= getattr(typed, name) <= 1_000_000:
            raise UsageError(f"{name} must be from {least} to 1,000,000")
    return typed
