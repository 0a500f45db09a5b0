"""The parameters of the HTTP workload; imports nothing heavy, for forms and CLI."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import msgspec

from kvtui.errors import UsageError
from kvtui.jobs.http.headers import Field, parsed

REQUESTS: Final = 10_000
REQUESTS_LIMIT: Final = 10**12
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Those that a form offers; any other may be said."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1), so that verifying may ask again."""
BODY_LIMIT_BYTES: Final = 256 * 2**20
PAGES_LIMIT: Final = 10_000
CONTENT_TYPE: Final = "application/octet-stream"
"""Of a body of which nothing is said."""

_METHOD: Final = re.compile(r"[A-Z][A-Z-]{0,19}")
_URL: Final = re.compile(r"(\S+)(?:[ \t]+([0-9]{1,9}))?")


class Page(NamedTuple):
    """One of several pages, and how often it is asked for beside the others."""

    path: str
    weight: int


class HttpParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the HTTP workload is asked to do."""

    requests: int = REQUESTS
    """Over all clients."""
    changing: bool = False
    """Whether a page may change from one reply to the next; otherwise a reply with
    another body than the first is wrong."""
    method: str = ""
    """Empty: GET, or POST where there is a body."""
    headers: tuple[str, ...] = ()
    """``Name: value`` each; secrets only by where they are kept."""
    body: str = ""
    """The file that is sent with every request; absolute."""
    content_type: str = ""
    urls: tuple[str, ...] = ()
    """``PATH`` or ``PATH WEIGHT`` each; none: the page that the store names."""
    follow: bool = False
    """Whether redirects on the same server are part of an operation."""
    seed: int = 1
    """Which page a client asks for next, where there are several."""

    @property
    def verb(self) -> str:
        """The method in force."""
        return self.method or ("POST" if self.body else "GET")

    @property
    def pages(self) -> tuple[Page, ...]:
        """The pages of :attr:`urls`."""
        return tuple(page(each) for each in self.urls)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The header fields that were asked for, with that of the body's type."""
        found = parsed(self.headers)
        if self.content_type:
            return (*found, Field("Content-Type", self.content_type))
        if self.body and not _has_type(found):
            return (*found, Field("Content-Type", CONTENT_TYPE))
        return found

    @property
    def compares(self) -> bool:
        """Whether a reply's body is to be the first one's."""
        return not self.changing and self.verb in SAFE


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
    if typed.method and not _METHOD.fullmatch(typed.method):
        raise UsageError(
            f"{typed.method!r:.40} is no method", hint=f"such as {', '.join(METHODS)}"
        )
    if typed.method == "CONNECT":
        raise UsageError("CONNECT makes a tunnel, and asks for no page")
    if typed.body and typed.verb in ("HEAD", "TRACE"):
        raise UsageError(f"a {typed.verb} has no body")
    if typed.content_type:
        parsed([f"Content-Type: {typed.content_type}"])
        if not typed.body:
            raise UsageError("there is a content type, and no body", hint="--body FILE")
        if _has_type(parsed(typed.headers)):
            raise UsageError("the body's type is given twice", hint="once will do")
    paths = [each.path for each in typed.pages]
    if len(paths) > PAGES_LIMIT:
        raise UsageError(f"there are more than {PAGES_LIMIT:,} pages")
    if len(set(paths)) < len(paths):
        twice = next(each for each in paths if paths.count(each) > 1)
        raise UsageError(
            f"the page {twice} is named twice", hint="a weight says it: '/page 2'"
        )
    _ = typed.fields
    return typed


def page(word: str) -> Page:
    """What ``PATH`` or ``PATH WEIGHT`` means; UsageError otherwise."""
    found = _URL.fullmatch(word.strip())
    path = found[1] if found else word
    if "://" in path.partition("?")[0]:
        raise UsageError(
            "a whole URL says a server, and that is the store",
            hint="--store http://HOST:PORT --url /PATH",
        )
    if found is None or not path.startswith("/") or (found[2] or "1").strip("0") == "":
        raise UsageError(
            f"{word!r:.80} is no page", hint="a path and perhaps a weight: '/a 3'"
        )
    if "#" in path or any(not "!" <= letter <= "~" for letter in path):
        raise UsageError(
            f"the page {path!r:.80} holds what no request can",
            hint="ASCII without blanks and #; encode the rest: é as %C3%A9",
        )
    return Page(path, int(found[2] or 1))


def _has_type(fields: tuple[Field, ...]) -> bool:
    return any(each.name.lower() == "content-type" for each in fields)
