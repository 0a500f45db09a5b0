"""Settings and paths.

``$XDG_CONFIG_HOME/kvtui/config.toml`` names further stores and says what a run
begins with; ``kvtui config --example`` prints one. It is read, never written.
Passwords stand in the environment or in a file of their own, never here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs

from kvtui import secrets
from kvtui.errors import ConfigError, UsageError
from kvtui.runs.plan import StorePlan
from kvtui.stores import registry
from kvtui.stores.registry import StoreProfile
from kvtui.stores.settings import may_be_shown, nearest, typed

if TYPE_CHECKING:
    from kvtui.defaults import Effective
    from kvtui.located import Located

NO_PASSWORD = "name where it is kept: password_env=NAME or password_file=FILE"


def state_directory() -> Path:
    """Where kvtui keeps its runs and what the screens remember."""
    return Path(platformdirs.user_state_dir("kvtui"))


def runs_directory() -> Path:
    """``$XDG_STATE_HOME/kvtui/runs``."""
    return state_directory() / "runs"


def servers_directory() -> Path:
    """Where the servers are that ``kvtui servers up`` has started."""
    return state_directory() / "servers"


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


def settings_file(path: Path | None = None) -> Located | None:
    """The settings file, checked but for its stores; None where there is none.

    ConfigError names the file, the line and the nearest key that is known.
    """
    path = path or config_path()
    if not os.path.lexists(path):
        return None  # Most have none: nothing that reads TOML is loaded for them.
    from kvtui import defaults, located

    document = located.load(path)
    defaults.check(document)
    return document


def effective(
    flags: Mapping[str, Any] | None = None, path: Path | None = None
) -> dict[str, Effective]:
    """What a run begins with: every option with its value and who said so."""
    from kvtui import defaults, located

    document = settings_file(path) or located.Located(path or config_path(), "", {})
    return defaults.in_force(document, flags)


def apply_ui() -> None:
    """Hand the file's ``[ui]`` to what draws; what is wrong with it is said later."""
    try:
        document = settings_file()
    except ConfigError:
        return
    if document is not None:
        from kvtui import defaults

        defaults.apply_to_screens(document)


def store_profiles(path: Path | None = None) -> dict[str, StoreProfile]:
    """Every store by name: the built-in ones, then those of the settings file."""
    profiles = {profile.name: profile for profile in registry.BUILT_IN}
    document = settings_file(path)
    if document is None:
        return profiles
    for name, table in document.values.get("stores", {}).items():
        if name in profiles:
            raise document.error(
                f"[stores.{name}] has the name of a store of kvtui's own",
                *("stores", name),
                hint="give it another name",
            )
        profiles[name] = _profile(document, name, table)
    return profiles


def _profile(document: Located, name: str, table: Any) -> StoreProfile:
    key = ("stores", name)
    if not isinstance(table, dict):
        raise document.error(f"{name} must be a table, as in [stores.{name}]", *key)
    if not name or any(letter in name for letter in ":,") or not name.isprintable():
        raise document.error(
            f"a store cannot be called {name!r}", *key, hint="letters, digits and -"
        )
    for word in ("password", "passwd"):
        if word in table:
            raise document.error(
                f"[stores.{name}] holds a password",
                *(*key, word),
                hint=NO_PASSWORD,
            )
    settings = dict(table)
    kind, url = settings.pop("kind", None), settings.pop("url", None)
    if kind is not None and not isinstance(kind, str):
        raise document.error(
            f"[stores.{name}] kind must be a text",
            *(*key, "kind"),
            hint=f"kinds are {', '.join(registry.KINDS)}",
        )
    try:
        if url is not None:
            kind = _take_url(url, kind, settings)
    except UsageError as error:
        raise document.error(error.message, *key, "url", hint=error.hint) from None
    if kind is None:
        raise document.error(
            f'[stores.{name}] needs a kind = "…" or a url = "…"',
            *key,
            hint=f"kinds are {', '.join(registry.KINDS)}",
        )
    try:
        registry.check_settings(name, kind, settings)
    except UsageError as error:
        wrong = _key_meant(table, error)
        raise document.error(
            f"[stores.{name}] {error.message.removeprefix(f'store {name}: ')}",
            *(*key, wrong),
            hint=error.hint,
        ) from None
    secrets.learn_settings(settings)
    return StoreProfile(name, kind, settings)


def _take_url(url: Any, kind: Any, settings: dict[str, Any]) -> str:
    """Spread a URL over the settings beside it; the kind that it says."""
    from kvtui import urls

    if not isinstance(url, str):
        raise UsageError('url must be a text, as in "redis://127.0.0.1:6379/0"')
    address = urls.parse(url, settings)
    if kind not in (None, address.kind):
        raise UsageError(f"its URL is that of a {address.kind}, not of a {kind}")
    for name, value in address.settings.items():
        if settings.setdefault(name, value) != value:
            raise UsageError(f"{name} stands in the URL and beside it")
    return address.kind


def _key_meant(table: dict[str, Any], error: UsageError) -> str:
    """Which of the keys an error names; where it names none, what says it all."""
    words = error.message.replace("'", " ").split()
    whole = "url" if "url" in table else "kind"
    return next((word for word in words if word in table), whole)


def store_plan(text: str, profiles: dict[str, StoreProfile]) -> StorePlan:
    """The store meant by ``NAME``, ``NAME:setting=value,setting=value`` or a URL.

    Naming a host, port or path makes it somebody's server instead of a private
    one. UsageError for an unknown name or setting.
    """
    from kvtui import urls

    if urls.is_url(text):
        address = urls.parse(text)
        registry.check_settings(urls.short(text), address.kind, address.settings)
        secrets.learn_settings(address.settings)
        return StorePlan(text, address.kind, address.settings)
    name, _, words = text.partition(":")
    profile = profiles.get(name)
    if profile is None:
        raise UsageError(f"there is no store {name!r}", hint=nearest(name, profiles))
    settings = dict(profile.settings)
    for word in filter(None, words.split(",")):
        key, equals, value = word.partition("=")
        if key == "password":
            secrets.learn_typed(word)
            raise UsageError(
                f"store {name}: a password on the command line can be seen by all",
                hint=NO_PASSWORD,
            )
        if not equals:
            shown = repr(word) if may_be_shown("", word) else "what follows it"
            raise UsageError(
                f"store {name}: {shown} is not setting=value",
                hint=f"as in {name}:timeout_s=3",
            )
        settings[key] = typed(key, value)
    registry.check_settings(name, profile.kind, settings)
    secrets.learn_settings(settings)
    elsewhere = any(settings.get(key) for key in ("host", "port", "path"))
    label = name if not words else f"{name}:{words}"
    return StorePlan(
        label, profile.kind, settings, private=profile.private and not elsewhere
    )
