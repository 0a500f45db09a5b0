"""Every error that kvtui raises on purpose.

    KvtuiError                  exit 1   what went wrong, and what to do next
    ├── UsageError              exit 2   the words of the command or form are off
    │   └── ConfigError         exit 2   a settings file holds something unusable
    ├── DataError               exit 4   an input file cannot be used
    ├── RunError                exit 1   a run cannot be started, found or followed
    ├── SnapshotError           exit 1   a snapshot cannot be written or read
    └── StoreError              exit 3   a store refused, vanished or broke its word
        ├── StoreUnavailable    exit 3   it cannot be had at all: not installed,
        │                                not started, no connection
        └── OperationFailed     exit 3   one operation failed; ``kind`` says how

Messages are for people: they name the store, file or line. ``hint`` says what
to do next. Neither ever holds a password: every secret that is known is taken out
here, whatever a driver wrote into its own text.
"""

from __future__ import annotations

from typing import ClassVar

from kvtui.secrets import hidden


class KvtuiError(Exception):
    """What went wrong, with what to do next."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = hidden(message)
        self.hint = None if hint is None else hidden(hint)
        super().__init__(self.message)


class UsageError(KvtuiError):
    """The words of a command, a form or a plan are off."""

    exit_code = 2


class ConfigError(UsageError):
    """A settings file holds something unusable; names file and key."""


class DataError(KvtuiError):
    """An input file cannot be used; names the file, and the line where known."""

    exit_code = 4


class RunError(KvtuiError):
    """A run cannot be started, found or followed."""


class SnapshotError(KvtuiError):
    """A snapshot cannot be written or read."""


class StoreError(KvtuiError):
    """A store refused, vanished or broke its word."""

    exit_code = 3


class StoreUnavailable(StoreError):
    """The store cannot be had: not installed, not started, no connection.

    ``loading`` says that it is there and only not ready yet: waiting helps.
    """

    def __init__(
        self, message: str, *, hint: str | None = None, loading: bool = False
    ) -> None:
        super().__init__(message, hint=hint)
        self.loading = loading


class OperationFailed(StoreError):
    """One operation failed.

    ``kind`` is one of ``timeout``, ``refused``, ``disconnected``,
    ``server-error``, ``protocol``, ``too-large``, ``no-space``, ``unsupported``;
    ``no reply`` and ``truncated`` where a connection was closed before and within
    a reply; ``local ports`` where this machine has none left; ``status 302`` for what
    HTTP calls no success; ``certificate`` and ``tls`` where no trust or no TLS came
    about; and ``redirect elsewhere``, ``redirect loop`` and ``too many redirects``
    where they were to be followed. ``broken`` says that the connection is of no
    further use.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        hint: str | None = None,
        broken: bool = False,
    ) -> None:
        super().__init__(message, hint=hint)
        self.kind = kind
        self.broken = broken
        self.reply_bytes = 0
        """Of the reply that said no, without what frames it."""
