"""Stores named by URL, as in ``redis://127.0.0.1:6379/1?client=driver``.

The parts of a URL become settings of a kind, percent-decoded exactly once. The
reading is our own: what urllib says of a password with ``#`` or ``[`` in it is about
a port that is no number, and shows it. A password is refused here as everywhere on a
command line, and nothing that is said about a URL ever repeats what it holds.

========================================  ===========================================
``redis://HOST:PORT/DATABASE``            also ``valkey://``; ``rediss://`` by TLS
``redis:///PATH``, ``redis+unix:///PATH``  its unix socket; so ``unix:///PATH``
``memcached://HOST:PORT``                 ``memcached:///PATH`` by unix socket
``mongodb://HOST:PORT/SCHEMA``            ``mongodb://%2FPATH/SCHEMA`` by unix socket
``mysql://HOST:PORT/SCHEMA``              ``mysql:///SCHEMA?socket=PATH``; ``mariadb://``
``tokyo://HOST:PORT``                     ``tokyo:///PATH`` by unix socket
``http://HOST:PORT/PAGE``                 the whole address of a page; ``https://``
``leveldb:///FOLDER``                     and ``wiredtiger:///FOLDER``
========================================  ===========================================

A server's host or socket is always said; a port that is not is the usual one. What
follows ``?`` are settings of the kind, except for HTTP, where it belongs to the
page.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final, NamedTuple, NoReturn

from msgspec import Struct

from kvtui import secrets
from kvtui.errors import UsageError
from kvtui.stores import registry
from kvtui.stores.settings import nearest, typed

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})")
_ALIASES: Final = {"db": "database", "socket": "path", "unix_socket": "path"}
"""Query words that drivers use for what is a setting here."""
_PASSWORDS: Final = frozenset({"password", "passwd", "pass", "pwd"})
ENCODE: Final = (
    "encode special characters: # as %23, / as %2F, ? as %3F, @ as %40, [ as %5B,"
    " % as %25, : as %3A, a blank as %20"
)
_NO_PASSWORD: Final = (
    "name where it is kept instead: ?password_env=NAME or ?password_file=FILE"
    " (taken literally, nothing in it needs encoding); and change it, it has been seen"
)


class Scheme(Struct, frozen=True):
    """What a scheme stands for."""

    kind: str
    tls: bool = False
    unix: bool = False
    """Whether the path is that of its unix socket."""
    path: str = ""
    """The setting that the path is; empty: it may be that of a socket only."""
    whole: bool = False
    """Whether path and query are one thing, the page."""


SCHEMES: Final = {
    "redis": Scheme("redis", path="database"),
    "rediss": Scheme("redis", tls=True, path="database"),
    "redis+unix": Scheme("redis", unix=True),
    "valkey": Scheme("redis", path="database"),
    "valkeys": Scheme("redis", tls=True, path="database"),
    "valkey+unix": Scheme("redis", unix=True),
    "unix": Scheme("redis", unix=True),
    "memcached": Scheme("memcached"),
    "memcached+unix": Scheme("memcached", unix=True),
    "mongodb": Scheme("mongo", path="schema"),
    "mongodb+unix": Scheme("mongo", unix=True),
    "mysql": Scheme("mysql", path="schema"),
    "mysql+unix": Scheme("mysql", unix=True),
    "mariadb": Scheme("mysql", path="schema"),
    "tokyo": Scheme("tokyo"),
    "tokyo+unix": Scheme("tokyo", unix=True),
    "http": Scheme("http", path="page", whole=True),
    "https": Scheme("http", tls=True, path="page", whole=True),
    "leveldb": Scheme("leveldb", path="directory"),
    "wiredtiger": Scheme("wiredtiger", path="directory"),
}


class Address(NamedTuple):
    """A URL as a kind of store with settings."""

    kind: str
    settings: dict[str, Any]


def is_url(text: str) -> bool:
    """Whether a store is named by URL."""
    return _SCHEME.match(text) is not None


def short(url: str) -> str:
    """A URL in an error text: without what its settings are, and without a host or
    path that is encoded and so may hold anything."""
    place = url.partition("?")[0]
    return place if "%" not in place else f"{place.partition(':')[0]}://…"


def parse(url: str, beside: Container[str] = ()) -> Address:
    """The store that a URL means. ``beside``: the settings that stand beside it, which
    may say what it leaves out.

    UsageError says what is wrong with it and never repeats it.
    """
    secrets.learn_typed(url)
    found = _SCHEME.match(url)
    if found is None:
        raise UsageError("this is no URL", hint="as in redis://127.0.0.1:6379/0")
    name = found[1].lower()
    scheme = SCHEMES.get(name)
    if scheme is None:
        if name == "mongodb+srv":
            raise UsageError(
                "mongodb+srv:// names several servers, and a store is one",
                hint="name it: mongodb://HOST:PORT",
            )
        raise UsageError(
            f"there is no store with URLs {name}://", hint=nearest(name, SCHEMES)
        )
    rest = url[found.end() :]
    if secrets.password_in(rest):
        raise UsageError(
            f"the {name}:// URL holds a password, which can be seen by all",
            hint=_NO_PASSWORD,
        )
    reader = _Reader(name, scheme)
    address = reader.read(rest)
    reader.check_place(beside)
    return address


class _Reader:
    def __init__(self, name: str, scheme: Scheme) -> None:
        self._name, self._scheme = name, scheme
        self._settings: dict[str, Any] = {}

    def read(self, rest: str) -> Address:
        end = re.search(r"[/?#]", rest)
        cut = end.start() if end else len(rest)
        authority, rest = rest[:cut], rest[cut:]
        if self._scheme.tls:
            self._settings["tls"] = True
        self._read_authority(authority)
        if self._scheme.whole:
            self._read_page(rest)
        else:
            if "#" in rest:
                self._fail("there is a # in it", ENCODE)
            path, _, query = rest.partition("?")
            self._read_path(self._decoded(path, "path"))
            self._read_query(query)
        return Address(self._scheme.kind, self._settings)

    def check_place(self, beside: Container[str]) -> None:
        """Refuse a URL that says nowhere which server it means: a host that was
        forgotten is not this machine."""
        port = registry.kind(self._scheme.kind).port
        places = ("host", "path")
        if not port or any(each in self._settings or each in beside for each in places):
            return
        self._fail("it names no host", f"as in {self._name}://127.0.0.1:{port}")

    def _fail(self, problem: str, hint: str) -> NoReturn:
        raise UsageError(f"the {self._name}:// URL is off: {problem}", hint=hint)

    def _set(self, name: str, value: Any) -> None:
        if self._settings.setdefault(name, value) != value:
            self._fail(f"it says {name} twice", "say it once")

    def _decoded(self, text: str, what: str) -> str:
        raw = text.encode("utf-8", "surrogateescape")
        if raw.count(b"%") != len(_ESCAPE.findall(raw)):
            self._fail(
                f"a % in its {what} stands before no two hexadecimal digits", ENCODE
            )
        plain = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw)
        try:
            decoded = plain.decode()
        except UnicodeDecodeError:
            self._fail(f"its {what} is not UTF-8", "encode é as %C3%A9")
        if not decoded.isprintable():
            self._fail(f"its {what} holds what does not print", "is it whole?")
        return decoded

    def _read_authority(self, authority: str) -> None:
        userinfo, at, place = authority.rpartition("@")
        if at and userinfo.rstrip(":"):
            self._set("username", self._decoded(userinfo.rstrip(":"), "user name"))
        if not place:
            return
        if "," in place:
            self._fail("it names several servers", "a store is one server")
        if place.startswith("["):
            host, bracket, port = place[1:].partition("]")
            if not bracket or (port and not port.startswith(":")):
                self._fail(
                    "an IPv6 address stands in brackets", "as in redis://[::1]:6379"
                )
            # A zone as in fe80::1%25lo; the % is often forgotten to be encoded.
            host, port = host.replace("%25", "%"), port[1:]
        else:
            host, _, port = place.partition(":")
            if ":" in port:
                self._fail(
                    "there are several colons where host and port should be",
                    f"IPv6 in brackets, as in redis://[::1]:6379; {ENCODE}",
                )
            host = self._decoded(host, "host")
        if port and not (port.isascii() and port.isdigit() and len(port) < 6):
            self._fail("what follows the host's colon is no port number", ENCODE)
        if host.startswith("/"):
            if port:
                self._fail("a unix socket has no port", "leave it out")
            self._set("path", host)
            return
        if self._scheme.unix or "directory" in self._scheme.path:
            self._fail(
                "it names a host where a path is wanted",
                f"three slashes: {self._name}:///PATH",
            )
        if host:
            self._set("host", host)
        if port:
            self._set("port", int(port))

    def _read_page(self, rest: str) -> None:
        page, mark, _ = rest.partition("#")
        if mark:
            self._fail(
                "what follows a # never reaches a server", "leave it out, or say %23"
            )
        # As it goes into the request: nothing of it is decoded.
        if any(not "!" <= letter <= "~" for letter in page):
            self._fail("a page is ASCII without blanks", "encode the rest: é as %C3%A9")
        self._set("page", page if page.startswith("/") else f"/{page}")

    def _read_path(self, path: str) -> None:
        name = self._scheme.path
        placed = "host" in self._settings or "path" in self._settings
        if self._scheme.unix or (not name and path.strip("/") and not placed):
            if path in ("", "/"):
                self._fail("it names no socket", f"{self._name}:///PATH")
            self._set("path", path)
        elif name == "directory":
            if path in ("", "/"):
                self._fail("it names no folder", f"{self._name}:///FOLDER")
            self._set("directory", path)
        elif name == "database" and path.strip("/") and not placed:
            if path[1:].isdecimal():
                self._set("database", int(path[1:]))
            else:
                self._set("path", path)
        elif name and path.strip("/"):
            word = path.removeprefix("/")
            if name == "database" and not (word.isascii() and word.isdigit()):
                self._fail("its path is no number of a database", "as in …:6379/1")
            if "/" in word:
                self._fail(f"its {name} holds a /", ENCODE)
            self._set(name, int(word) if name == "database" else word)
        elif path.strip("/"):
            self._fail("a path makes no sense after its host", "leave it out")

    def _read_query(self, query: str) -> None:
        known = registry.kind(self._scheme.kind).settings
        for word in filter(None, query.split("&")):
            name, equals, value = word.partition("=")
            name = self._decoded(name, "query")
            if name.lower() in _PASSWORDS:
                raise UsageError(
                    f"the {self._name}:// URL holds a password, which can be seen by"
                    " all",
                    hint=_NO_PASSWORD,
                )
            name = _ALIASES.get(name, name)
            if name not in known:
                self._fail(f"there is no setting {name!r}", nearest(name, known))
            if not equals:
                self._fail(f"{name} has no value", f"?{name}=…")
            self._set(name, typed(name, self._decoded(value, name)))
