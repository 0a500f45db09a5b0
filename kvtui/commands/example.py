"""A settings file to begin with: every section, every key, each with what it is for.

Everything in it is commented out but the section heads, so that it changes nothing.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from kvtui.defaults import OPTIONS, Option, variable
from kvtui.stores import registry
from kvtui.stores.settings import SETTINGS, Setting

_HEAD: Final = """\
# kvtui's settings. A flag beats the environment, that beats this file, and that beats
# the defaults. kvtui config prints what is in force, and who said so.
# Passwords stand in the environment or in a file of their own, never here.
"""
_TITLES: Final = {
    "run": "What a run begins with.",
    "workloads.fans": "The fan-page job. A relative path begins at this file's folder.",
    "workloads.http": "Getting pages.",
    "workloads.ycsb": "The YCSB core workloads, a to f.",
    "ui": "How kvtui draws.",
}
_SAMPLES: Final[dict[str, Any]] = {
    "workloads.fans.data": "profiles.tsv.gz",
    "workloads.fans.names": "names.tsv.gz",
    "workloads.fans.first": 1000,
    "workloads.fans.format": "tsv",
    "ui.ascii": False,
    "ui.color": True,
    "host": "127.0.0.1",
    "path": "/run/redis/redis-server.sock",
    "program": "/opt/redis/bin/redis-server",
    "schema": "kvtui",
    "username": "kvtui",
    "password_env": "STAGING_PASSWORD",
    "password_file": "/etc/kvtui/staging.password",
    "directory": "/var/tmp/kvtui-leveldb",
    "compression": "snappy",
    "page": "/index.html",
    "ca": "/etc/ssl/certs/lab.pem",
    "verify": True,
    "workloads.http.method": "HEAD",
    "workloads.http.body": "order.json",
    "workloads.http.content_type": "application/json",
    "ok": "2xx,304",
    "memory": "512MB",
    "item_limit": "8MB",
    "max_packet": "64MB",
    "client": "wire",
    "port": 6379,
    "database": 0,
    "timeout_s": 10,
}


def text() -> str:
    """The whole file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield from _HEAD.splitlines()
    for section, title in _TITLES.items():
        yield ""
        yield f"# {title}"
        yield f"[{section}]"
        for name, option in OPTIONS.items():
            if name.rpartition(".")[0] == section:
                yield from _option(name, option)
    yield ""
    yield "# Stores of yours, beside those that kvtui stores lists. A URL says it all …"
    yield "# [stores.staging]"
    yield '# url = "redis://127.0.0.1:6379/0?password_env=STAGING_PASSWORD"'
    yield ""
    yield "# … or a kind and its settings. All there are:"
    yield "# [stores.mine]"
    yield from _comment(f"kinds are {', '.join(registry.KINDS)}")
    yield '# kind = "redis"'
    for name, setting in SETTINGS.items():
        kinds = [kind for kind, of in registry.KINDS.items() if name in of.settings]
        yield from _comment(f"{setting.about} ({', '.join(kinds)})")
        yield f"# {name} = {_value(_sample(name, setting, None))}"


def _option(name: str, option: Option) -> Iterator[str]:
    by_itself = f"; otherwise {option.otherwise}" if option.otherwise else ""
    yield from _comment(f"{option.setting.about}{by_itself} ({variable(name)})")
    yield (
        f"# {name.rpartition('.')[2]} ="
        f" {_value(_sample(name, option.setting, option.default))}"
    )


def _comment(words: str) -> list[str]:
    return [f"## {line}" for line in textwrap.wrap(words, 82)]


def _sample(name: str, setting: Setting, default: Any) -> Any:
    if default is not None:
        return default
    if name in _SAMPLES:
        return _SAMPLES[name]
    if setting.choices:
        return setting.choices[0]
    if setting.type == "switch":
        return False
    if setting.type == "size":
        return "64MB"
    if setting.type in ("whole", "number"):
        return max(1, int(setting.least))
    return "…"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)
