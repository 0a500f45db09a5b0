"""The parameters of the HTTP workload; imports nothing heavy, for forms and CLI."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kvtui.errors import UsageError

REQUESTS: Final = 10_000
REQUESTS_LIMIT: Final = 10**12


class HttpParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the HTTP workload is asked to do."""

    requests: int = REQUESTS
    """Over all clients."""
    changing: bool = False
    """Whether the page may change from one reply to the next; otherwise a reply with
    another body than the first is wrong."""


def check(parameters: dict[str, Any]) -> HttpParameters:
    """The parameters, typed; UsageError names the one that is off."""
    unknown = sorted(set(parameters) - set(HttpParameters.__struct_fields__))
    if unknown:
        raise UsageError(
            f"the http workload has no parameter {unknown[0]!r}",
            hint=f"it has {', '.join(HttpParameters.__struct_fields__)}",
        )
    try:
        typed = msgspec.convert(parameters, HttpParameters, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"http: {error}") from None
    if not 1 <= typed.requests <= REQUESTS_LIMIT:
        raise UsageError(f"requests must be from 1 to {REQUESTS_LIMIT:,}")
    return typed
