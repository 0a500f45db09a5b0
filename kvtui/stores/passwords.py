"""Where a store's password comes from: the environment, or a file."""

from __future__ import annotations

import os
from pathlib import Path

from kvtui.errors import ConfigError
from kvtui.secrets import learn_settings
from kvtui.stores.store import Settings


def password(kind: str, settings: Settings) -> str | None:
    """What ``password_env`` or ``password_file`` names, taken literally; None
    without either. ConfigError, without any secret, where it is not there. From now
    on no text of this process shows it."""
    learn_settings(settings)
    name = settings.get("password_env")
    if name:
        found = os.environ.get(str(name))
        if found is None:
            raise ConfigError(f"the environment has no {name}, which {kind} needs")
        return found
    file = settings.get("password_file")
    if file:
        try:
            return Path(str(file)).read_text("utf-8").rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"{file} is not a password in UTF-8") from None
    return None
