"""Settings and paths.

``$XDG_CONFIG_HOME/kvtui/config.toml`` names further stores::

    [stores.staging]
    kind = "redis"
    host = "127.0.0.1"
    port = 6379
    password_env = "STAGING_PASSWORD"

It is read, never written. Passwords stand in the environment or in a file of
their own, never here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import platformdirs

from kvtui.errors import ConfigError, UsageError
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from kvtui.stores.settings import nearest


def state_directory() -> Path:
    """Where kvtui keeps its runs and what the screens remember."""
    return Path(platformdirs.user_state_dir("kvtui"))


def runs_directory() -> Path:
    """``$XDG_STATE_HOME/kvtui/runs``."""
    return state_directory() / "runs"


def config_path() -> Path:
    """``$XDG_CONFIG_HOME/kvtui/config.toml``."""
    return Path(platformdirs.user_config_dir("kvtui")) / "config.toml"


def sample_profiles() -> tuple[Path, Path]:
    """The sample data that kvtui brings: profiles and names.

    Beside the package in a checkout, inside it when installed from a wheel.
    """
    package = Path(__file__).parent
    for folder in (package / "data", package.parent / "data"):
        profiles = folder / "fans.tsv.gz"
        if profiles.is_file():
            return profiles, folder / "names.tsv.gz"
    raise ConfigError(
        "the sample profiles are not installed",
        hint="kvtui data make profiles.tsv.gz, then --data profiles.tsv.gz",
    )


def store_profiles(path: Path | None = None) -> dict[str, StoreProfile]:
    """Every store by name: the built-in ones, then those of the settings file."""
    path = path or config_path()
    profiles = {profile.name: profile for profile in registry.BUILT_IN}
    for name, table in _tables(path).items():
        if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
            raise ConfigError(f'{path}: [stores.{name}] needs a kind = "…"')
        if name in profiles:
            raise ConfigError(
                f"{path}: [stores.{name}] has the name of a store of kvtui's own",
                hint="give it another name",
            )
        settings = {key: value for key, value in table.items() if key != "kind"}
        if "password" in settings:
            raise ConfigError(
                f"{path}: [stores.{name}] holds a password",
                hint="put it into a file or the environment, and name that with"
                " password_file or password_env",
            )
        try:
            registry.check_settings(name, table["kind"], settings)
        except UsageError as error:
            raise ConfigError(f"{path}: {error.message}", hint=error.hint) from None
        profiles[name] = StoreProfile(name, table["kind"], settings)
    return profiles


def _tables(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    import tomllib  # only where there is something to parse

    try:
        document = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error
    stores = document.get("stores", {})
    if not isinstance(stores, dict):
        raise ConfigError(f"{path}: stores must be tables, as in [stores.mine]")
    return stores


def store_plan(text: str, profiles: dict[str, StoreProfile]) -> StorePlan:
    """The store meant by ``NAME`` or ``NAME:setting=value,setting=value``.

    Naming a host, port or path makes it somebody's server instead of a private
    one. UsageError for an unknown name or setting.
    """
    name, _, words = text.partition(":")
    profile = profiles.get(name)
    if profile is None:
        raise UsageError(f"there is no store {name!r}", hint=nearest(name, profiles))
    settings = dict(profile.settings)
    for word in filter(None, words.split(",")):
        key, equals, value = word.partition("=")
        if not equals:
            raise UsageError(f"store {text}: {word!r} is not setting=value")
        if key == "password":
            raise UsageError(
                f"store {name}: a password on the command line can be seen by all",
                hint="name where it is kept: password_env=NAME or password_file=FILE",
            )
        settings[key] = _value(value)
    registry.check_settings(name, profile.kind, settings)
    elsewhere = any(settings.get(key) for key in ("host", "port", "path"))
    label = name if not words else f"{name}:{words}"
    return StorePlan(
        label, profile.kind, settings, private=profile.private and not elsewhere
    )


def _value(text: str) -> str | int | float | bool:
    if text in ("true", "yes", "on"):
        return True
    if text in ("false", "no", "off"):
        return False
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
