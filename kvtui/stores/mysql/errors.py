"""What MySQL's error numbers mean to kvtui; and PyMySQL's exceptions as ours.

Numbers: MySQL's error message reference, server errors 1000-1999 and client errors
2000-2999; 1927 and 4031 are what MariaDB and MySQL send before they close.
"""

from __future__ import annotations

from typing import Final

import pymysql

from kvtui.errors import OperationFailed, StoreError, StoreUnavailable

TRY_AGAIN: Final = frozenset({1205, 1213})
"""Lock wait timeout and deadlock: the whole statement was undone."""

NO_TABLE: Final = frozenset({1049, 1146})
"""No such database, no such table."""

_TOO_LARGE: Final = frozenset({1105, 1118, 1153, 1301, 1406})
_NO_SPACE: Final = frozenset({1021, 1114})
_CLOSING: Final = frozenset(
    {1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 4031}
    | {2006, 2013, 2055}
)
_TOO_MANY: Final = frozenset({1040, 1203, 1226})
_LOGIN: Final = frozenset({1044, 1045, 1142, 1227, 1251, 1524, 1698, 1820, 1862})


def server_error(where: str, number: int, text: str) -> OperationFailed:
    """An error packet as a failed operation."""
    shown = f"mysql at {where}: {text} ({number})"
    if number in _CLOSING:
        return OperationFailed("disconnected", shown, broken=True)
    if number == 1105 and "max_allowed_packet" not in text:
        return OperationFailed("server-error", shown)  # "unknown error"
    if number in _TOO_LARGE:
        return OperationFailed("too-large", shown)
    if number in _NO_SPACE or "No space left" in text:
        return OperationFailed(
            "no-space", shown, hint="the disk of the server's data is full"
        )
    if number in TRY_AGAIN:
        return OperationFailed(
            "server-error", shown, hint="other clients change the same rows"
        )
    if number in NO_TABLE:
        return OperationFailed(
            "server-error", shown, hint="somebody removed kvtui's tables meanwhile"
        )
    return OperationFailed("server-error", shown)


def failed(where: str, error: Exception) -> StoreError:
    """Whatever PyMySQL raised during an operation."""
    if isinstance(error, StoreError):
        return error
    number, text = _number_and_text(error)
    if _is_timeout(error):
        return OperationFailed(
            "timeout", f"mysql at {where}: no answer in time", broken=True
        )
    if isinstance(error, OSError) or type(error) is pymysql.err.InterfaceError:
        return OperationFailed("disconnected", f"mysql at {where}: {text}", broken=True)
    if isinstance(error, pymysql.err.MySQLError) and number:
        return server_error(where, number, text)
    # PyMySQL stumbles over what is not the protocol in many ways: too short a
    # packet, a wrong sequence, a length that is none.
    return OperationFailed(
        "protocol",
        f"mysql at {where} does not answer like one: {text:.80}",
        broken=True,
    )


def unavailable(where: str, error: Exception) -> StoreError:
    """Whatever went wrong while connecting."""
    if isinstance(error, StoreUnavailable) or not isinstance(error, Exception):
        return error
    number, text = _number_and_text(error)
    if isinstance(error, OperationFailed):
        text = error.message.removeprefix(f"mysql at {where}: ")
    hint = "is the server running, and is this its address?"
    if _is_timeout(error):
        text = "no answer in time"
        hint = "the server did not answer in time; it may be recovering or frozen, or"
        hint += " is no MySQL"
    elif number in _TOO_MANY:
        hint = "raise the server's max_connections, or use fewer --clients"
    elif number in _LOGIN:
        hint = (
            "name who may connect: username=NAME with password_env=NAME or"
            " password_file=FILE; and grant it its schema"
        )
    elif "cryptography" in text:
        text = "its way to log in needs TLS, a unix socket or the Python package"
        text += " cryptography"
        hint = "use path=SOCKET, or tls=true with client=driver; or: pip install"
        hint += " cryptography"
    elif "max_prepared_stmt_count" in text:
        hint = "raise the server's max_prepared_stmt_count, or use fewer --clients"
    elif "CERTIFICATE" in text.upper():
        hint = "SSL_CERT_FILE=FILE names the authority that signed its certificate"
    return StoreUnavailable(f"mysql at {where}: {text}", hint=hint)


def _number_and_text(error: Exception) -> tuple[int, str]:
    arguments = error.args
    if (
        isinstance(error, pymysql.err.MySQLError)
        and len(arguments) > 1
        and isinstance(arguments[0], int)
    ):
        # PyMySQL reads the number with a sign.
        return arguments[0] & 0xFFFF, str(arguments[1]) or type(error).__name__
    return 0, str(error) or type(error).__name__


def _is_timeout(error: BaseException | None) -> bool:
    """PyMySQL tells a timeout as a lost connection; its cause tells it apart."""
    for _ in range(3):
        if error is None:
            return False
        # The latter: the kernel gave up sending.
        if isinstance(error, TimeoutError | BlockingIOError):
            return True
        error = error.__context__
    return False
