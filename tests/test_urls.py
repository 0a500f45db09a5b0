"""Stores named by URL."""

from __future__ import annotations

import pytest

from kvtui import config, secrets, urls
from kvtui.errors import UsageError


@pytest.mark.parametrize(
    ("url", "kind", "settings"),
    [
        ("redis://h", "redis", {"host": "h"}),
        ("REDIS://h:1/2", "redis", {"host": "h", "port": 1, "database": 2}),
        ("rediss://u@h:1", "redis", {"username": "u", "host": "h", "tls": True}
         | {"port": 1}),
        ("valkey://[::1]:6379/0", "redis", {"host": "::1", "port": 6379}
         | {"database": 0}),
        ("redis://[fe80::1%25lo]:1", "redis", {"host": "fe80::1%lo", "port": 1}),
        ("redis://[fe80::1%lo]:1", "redis", {"host": "fe80::1%lo", "port": 1}),
        ("redis:///run/x.sock?db=1", "redis", {"path": "/run/x.sock", "database": 1}),
        ("redis+unix:///run/a@b.sock", "redis", {"path": "/run/a@b.sock"}),
        ("unix:///run/x.sock", "redis", {"path": "/run/x.sock"}),
        ("memcached:///run/m", "memcached", {"path": "/run/m"}),
        ("memcached://h:1?client=driver", "memcached", {"host": "h", "port": 1}
         | {"client": "driver"}),
        ("mongodb://%2Ftmp%2Fm.sock/kv", "mongo", {"path": "/tmp/m.sock"}
         | {"schema": "kv"}),
        ("mongodb://h:1/kv", "mongo", {"host": "h", "port": 1, "schema": "kv"}),
        ("mysql:///kv?socket=/run/m", "mysql", {"schema": "kv", "path": "/run/m"}),
        ("mysql+unix:///run/m?schema=kv", "mysql", {"schema": "kv", "path": "/run/m"}),
        ("mysql://u@h/2024", "mysql", {"schema": "2024", "host": "h"}
         | {"username": "u"}),
        ("tokyo://h:1", "tokyo", {"host": "h", "port": 1}),
        ("leveldb:///tmp/a%20b", "leveldb", {"directory": "/tmp/a b"}),
        ("http://[::1]:8080/a%20b?x=1", "http", {"host": "::1", "port": 8080}
         | {"page": "/a%20b?x=1"}),
        ("https://h", "http", {"host": "h", "tls": True, "page": "/"}),
        ("http://h:80/@somebody", "http", {"host": "h", "port": 80}
         | {"page": "/@somebody"}),
        ("redis://u%40x%2525@h", "redis", {"host": "h", "username": "u@x%25"}),
    ],
)  # fmt: skip
def test_its_parts_are_settings_decoded_once(
    url: str, kind: str, settings: dict[str, object]
) -> None:
    """104, 134."""
    assert urls.parse(url) == (kind, settings)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://h:abc/0", "encode special characters"),
        ("redis://h:99999x", "encode special characters"),
        ("redis://h#x", "encode special characters"),
        ("redis://h/%zz", "encode special characters"),
        ("redis://h/%ff", "not UTF-8"),
        ("redis://h/%00", "does not print"),
        ("redis://[::1", "brackets"),
        ("redis://::1:6379", "brackets"),
        ("redis://h/a/b", "no number of a database"),
        ("redis://h/1?db=2", "database twice"),
        ("redis://h?datbase=2", "did you mean database?"),
        ("redis://h?client", "no value"),
        ("redis://a,b", "several servers"),
        ("mongodb+srv://h", "several servers"),
        ("redsi://h", "did you mean redis"),
        ("leveldb://tmp/x", "leveldb:///PATH"),
        ("leveldb://", "names no folder"),
        ("memcached://h/x", "no sense"),
        ("http://h/#x", "never reaches a server"),
        ("http://h/ü", "ASCII"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(url: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        urls.parse(url)
    assert said in f"{caught.value.message} {caught.value.hint}"
    assert "nteger" not in caught.value.message


@pytest.mark.parametrize("rest", ["", "/", ":1", ":1/", "?timeout_s=3"])
@pytest.mark.parametrize(
    "scheme", sorted(n for n, s in urls.SCHEMES.items() if not s.unix)
)
def test_a_host_that_is_left_out_is_not_this_machine(scheme: str, rest: str) -> None:
    """``http:///x`` is a host that was forgotten."""
    with pytest.raises(UsageError, match=r"names no (host|folder)|a path is wanted"):
        urls.parse(f"{scheme}://{rest}")


@pytest.mark.parametrize(
    "url", ["http:///x", "mysql:///kv", "redis:///2", "redis://u@"]
)
def test_what_is_no_socket_names_no_server(url: str) -> None:
    with pytest.raises(UsageError, match="names no host") as caught:
        urls.parse(url)
    assert f"{url.partition(':')[0]}://127.0.0.1:" in str(caught.value.hint)
    assert urls.parse(url, {"host": "h"}).settings == urls.parse(url, {"path"}).settings


@pytest.mark.parametrize("port", [0, 65536, 99999])
def test_a_port_has_limits(port: int) -> None:
    with pytest.raises(UsageError, match="port must be"):
        config.store_plan(f"redis://h:{port}", {})


SECRETS = ["p#w", "p@w", "p/w", "p[w", "p%2Fw", "p:w", "p?w", "S3cr3t-marker", "p%23w"]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "url", ["redis://u:{}@h:1/0", "redis://:{}@h", "mongodb://u:{}@h/kv"]
)
def test_a_password_is_refused_and_not_repeated(url: str, secret: str) -> None:
    """133, 134: whatever it looks like, and nothing of it is shown."""
    with pytest.raises(UsageError) as caught:
        config.store_plan(url.format(secret), {})
    said = f"{caught.value.message} {caught.value.hint}"
    assert "password_env" in said
    assert secret not in said.replace("%2F", "").replace("%23", "")
    assert url.format(secret) not in said


@pytest.mark.parametrize("word", ["password", "passwd", "PASSWORD", "pwd"])
def test_a_password_in_the_query_is_refused_too(word: str) -> None:
    with pytest.raises(UsageError, match="holds a password") as caught:
        config.store_plan(f"redis://h?{word}=S3cr3t-marker", {})
    assert "S3cr3t" not in f"{caught.value.message} {caught.value.hint}"
    assert secrets.hidden("so S3cr3t-marker goes") == f"so {secrets.HIDDEN} goes"


def test_a_store_named_by_url_is_somebodys() -> None:
    plan = config.store_plan("redis://h:1/2?timeout_s=3", {})
    assert plan.name == "redis://h:1/2?timeout_s=3"
    assert not plan.private
    assert plan.settings == {"host": "h", "port": 1, "database": 2, "timeout_s": 3}
