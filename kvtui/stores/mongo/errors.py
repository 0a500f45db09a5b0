"""pymongo's exceptions as kvtui's own."""

from __future__ import annotations

import re
from typing import Final

from bson.errors import BSONError
from pymongo import errors

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable
from kvtui.stores.mongo import records

_BESIDES: Final = re.compile(
    r" \(configured timeouts: [^)]*\)|, Timeout: .*|, full error: .*", re.DOTALL
)
"""What pymongo adds to the cause: its own settings and its view of the servers."""


def failed(where: str, error: Exception) -> StoreError:
    """A driver's exception as one failed operation."""
    text = f"mongo at {where}: {words(where, error)}"
    if isinstance(error, errors.NetworkTimeout):
        return OperationFailed("timeout", text, broken=True)
    if isinstance(error, errors.NotPrimaryError):
        # pymongo lets go of its connection.
        return OperationFailed("server-error", text, broken=True)
    if isinstance(error, errors.ConnectionFailure | OSError):
        kind = "disconnected"
        if "refused" in text:
            kind = "refused"
        elif "timed out" in text:
            kind = "timeout"
        return OperationFailed(kind, text, broken=True)
    if isinstance(error, errors.DocumentTooLarge):
        return OperationFailed("too-large", text)
    if isinstance(error, errors.OperationFailure):
        return records.refusal(where, error.code, words(where, error))
    if isinstance(error, OverflowError):
        return OperationFailed("server-error", text)
    if isinstance(error, errors.InvalidOperation):
        return OperationFailed("disconnected", text, broken=True)
    # Bytes that are no answer end in exceptions of many classes.
    return OperationFailed("protocol", text, broken=True)


def unavailable(where: str, error: Exception) -> StoreUnavailable:
    """Why there is no connection, and what would help."""
    text = words(where, error)
    hint = "is the server running, and is this its address?"
    code = getattr(error, "code", None)
    if isinstance(error, errors.OperationFailure) and code in records.NO_LOGIN:
        hint = records.LOGIN_HINT
    elif "timed out" in text:
        hint = "the server did not answer in time; it may be loading or frozen, or is"
        hint += " no MongoDB"
    elif "SSL" in text and "CERTIFICATE" not in text.upper():
        hint = "does it speak TLS? without it, leave tls out"
    elif isinstance(
        error, errors.ConfigurationError | errors.ProtocolError | BSONError
    ):
        hint = "is this a MongoDB server of a version that pymongo knows?"
    return StoreUnavailable(f"mongo at {where}: {text}", hint=hint)


def words(where: str, error: Exception) -> str:
    """What an exception says, without what pymongo adds to it."""
    text = _BESIDES.sub("", str(error)).strip().removeprefix(f"{where}: ")
    if text == "No servers found yet":
        return "connected, but hello timed out"
    return text or type(error).__name__
