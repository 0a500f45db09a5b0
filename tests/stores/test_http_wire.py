"""The parser of HTTP responses: any split, every way to end, and nothing believed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvtui import secrets
from kvtui.errors import OperationFailed
from kvtui.stores.http.parser import HEAD_LIMIT, Memory, ResponseParser
from kvtui.stores.http.requests import target
from kvtui.stores.http.wire import HttpWire
from kvtui.stores.operations import Delete, Get, Put, Request
from kvtui.stores.store import PENDING, NewConnection


def fed(
    data: bytes, cuts: list[int], *, ends: bool = False
) -> tuple[ResponseParser, Any]:
    """The body that comes of these pieces."""
    parser = ResponseParser()
    parser.expect()
    return parser, given_pieces(parser, data, cuts, ends=ends)


def given_pieces(
    parser: ResponseParser, data: bytes, cuts: list[int], *, ends: bool = False
) -> Any:
    """The body, once a parser has been fed these pieces."""
    places = sorted({min(each, len(data)) for each in cuts} | {0, len(data)})
    reply: Any = PENDING
    for start, end in pairwise(places):
        assert reply is PENDING, "a reply before its end"
        reply = parser.feed(data[start:end])
    return parser.end() if ends else reply


def reply_or_failure(data: bytes, cuts: list[int]) -> Any:
    """What comes of these pieces, whatever it is."""
    try:
        return fed(data, cuts)[1]
    except OperationFailed as error:
        return error


def chunked(body: bytes, sizes: list[int], extension: bytes, trailers: bytes) -> bytes:
    """A body in chunks."""
    parts, start = [], 0
    for size in sizes:
        piece = body[start : start + size]
        if piece:
            parts.append(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece))
        start += size
    if body[start:]:
        parts.append(b"%X\r\n%b\r\n" % (len(body[start:]), body[start:]))
    return b"".join([*parts, b"0%b\r\n%b\r\n" % (extension, trailers)])


BODIES = st.binary(max_size=300) | st.sampled_from(
    [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"0\r\n\r\n", b"\n\n\n"]
)


@st.composite
def responses(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """A response, its body, and whether the connection's end is its end."""
    body = draw(BODIES)
    line_end = draw(st.sampled_from([b"\r\n", b"\n"]))
    before = draw(
        st.sampled_from(
            [
                b"",
                b"HTTP/1.1 100 Continue\r\n\r\n",
                b"HTTP/1.1 103 E\r\nLink: x\r\n\r\n",
            ]
        )
    )
    lines = [
        draw(st.sampled_from([b"HTTP/1.1 200 OK", b"HTTP/1.1 206", b"HTTP/1.1 203 "])),
        draw(st.sampled_from([b"Server: x", b"X:", b"A: b\r\n\tc: folded"])),
    ]
    framing = draw(st.sampled_from(["length", "chunked", "end"]))
    if framing == "length":
        lines.append(b"content-LENGTH: \t%d " % len(body))
        sent = body
    elif framing == "chunked":
        lines.append(b"Transfer-Encoding: Chunked")
        sent = chunked(
            body,
            draw(st.lists(st.integers(1, 80), max_size=5)),
            draw(st.sampled_from([b"", b";a=b", b' ; q="x"'])),
            draw(st.sampled_from([b"", b"Checksum: 1\r\n", b"A: 1\r\nB: 2\r\n"])),
        )
    else:
        sent = body
    head = line_end.join([*lines, b"", b""])
    return before + head + sent, body, framing == "end"


@given(responses(), st.lists(st.integers(0, 700), max_size=12))
def test_any_split_of_a_response_gives_the_same_body(
    response: tuple[bytes, bytes, bool], cuts: list[int]
) -> None:
    data, body, ends = response
    parser, whole = fed(data, cuts, ends=ends)
    assert whole == body
    single, byte_by_byte = fed(data, list(range(len(data))), ends=ends)
    assert byte_by_byte == body
    assert parser.head == single.head


@given(
    st.lists(BODIES, min_size=1, max_size=6),
    st.lists(st.integers(0, 500), max_size=6),
)
def test_a_connection_serves_one_response_after_the_other(
    bodies: list[bytes], cuts: list[int]
) -> None:
    """Also where a head equals the one before, and where it does not."""
    parser = ResponseParser()
    for body in bodies:
        parser.expect()
        data = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        assert given_pieces(parser, data, cuts) == body
        assert parser.reusable


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_garbage_is_refused_or_waited_for_and_nothing_else(
    data: bytes, cuts: list[int]
) -> None:
    reply = reply_or_failure(data, cuts)
    if isinstance(reply, OperationFailed):
        assert (reply.kind, reply.broken) == ("protocol", True)
    else:
        assert reply is PENDING
        assert data[:7] == b"HTTP/1."[: len(data)]


@given(st.binary(max_size=100), st.integers(0, 60))
def test_a_damaged_response_never_hangs_and_never_breaks(
    noise: bytes, place: int
) -> None:
    good = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer: x\r\n\r\nhello"
    data = good[:place] + noise + good[place:]
    reply = reply_or_failure(data, [1, 20, 40])
    if isinstance(reply, OperationFailed):
        assert (reply.kind, reply.broken) == ("protocol", True)
    else:
        assert reply is PENDING or type(reply) is bytes


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5_0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: first\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1  200 OK\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"<html>",
        b"-ERR unknown command\r\n",
    ],
)
def test_what_is_unclear_is_refused(head: bytes) -> None:
    with pytest.raises(OperationFailed) as caught:
        fed(head, list(range(len(head))))
    assert (caught.value.kind, caught.value.broken) == ("protocol", True)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000,
        b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 5_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
        + b"A: b\r\n" * 20_000,
    ],
)
def test_a_head_that_never_ends_is_refused(data: bytes) -> None:
    parser = ResponseParser()
    parser.expect()
    with pytest.raises(OperationFailed) as caught:
        given_pieces(parser, data, list(range(0, len(data), 1000)))
    assert caught.value.kind == "protocol"
    assert len(parser._data) <= HEAD_LIMIT + 1000


@pytest.mark.parametrize(
    "chunks",
    [b"5\r\nhelloX\r\n0\r\n\r\n", b"-5\r\nhello", b"\r\n", b"g\r\n", b"5 5\r\nhello"],
)
def test_chunks_that_are_none_are_refused(chunks: bytes) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks
    with pytest.raises(OperationFailed) as caught:
        fed(data, list(range(len(data))))
    assert caught.value.kind == "protocol"


def test_a_large_body_is_put_together_without_copying_it_over_and_over() -> None:
    body = bytes(range(256)) * 40_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    _, whole = fed(head + body, list(range(0, len(body), 1000)))
    assert whole == body
    in_chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(
        body, [4096] * 2500, b"", b""
    )
    _, whole = fed(in_chunks, list(range(0, len(in_chunks), 1000)))
    assert whole == body


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello", "truncated"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "truncated",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
            "truncated",
        ),
        (b"HTTP/1.1 200 O", "truncated"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", "truncated"),
        (b"", "no reply"),
    ],
)
def test_a_reply_that_was_cut_is_no_reply(data: bytes, kind: str) -> None:
    """101: whatever came before the end is not taken for the whole."""
    parser = ResponseParser()
    parser.expect()
    if data:
        assert parser.feed(data) is PENDING
    with pytest.raises(OperationFailed) as caught:
        parser.end()
    assert (caught.value.kind, caught.value.broken) == (kind, True)


def test_a_body_without_a_length_goes_to_the_end_of_the_connection() -> None:
    """101: that is how it is announced."""
    parser, body = fed(b"HTTP/1.1 200 OK\r\n\r\nhello", [3, 20], ends=True)
    assert body == b"hello"
    assert not parser.reusable


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nconnection: a, Close\r\n\r\n",
            False,
        ),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n",
            True,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", True),
    ],
)
def test_whether_a_connection_may_be_used_again(head: bytes, reusable: bool) -> None:
    """100: never after a close that was announced."""
    parser, body = fed(head, [])
    assert body == b""
    assert parser.reusable is reusable


def test_the_reply_to_a_head_request_has_no_body() -> None:
    parser = ResponseParser()
    parser.expect(no_body=True)
    assert parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n") == b""
    parser.expect()
    assert parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx") == b"x"


GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


def asked(**options: Any) -> HttpWire:
    """A wire that has sent its first request."""
    wire = HttpWire(b"/p", b"h", "there:80", **options)
    wire.encode(Get(b""))
    return wire


def test_a_request_names_path_and_host() -> None:
    wire = HttpWire(b"/p", b"[::1]:8080", "there:80")
    request = wire.encode(Get(b""))
    assert request.startswith(b"GET /p HTTP/1.1\r\nHost: [::1]:8080\r\n")
    assert request.endswith(b"\r\n\r\n")
    assert b"Connection" not in request
    wire = HttpWire(b"/p", b"h", "there:80", kept=False)
    assert b"\r\nConnection: close\r\n" in wire.encode(Get(b"/other?a=b"))


@given(st.binary(max_size=60))
def test_no_key_can_smuggle_a_second_line_into_a_request(key: bytes) -> None:
    path = target(key, b"/page")
    assert path.startswith(b"/")
    assert all(0x21 <= byte <= 0x7E for byte in path)
    assert b"#" not in path


@pytest.mark.parametrize("status", [b"302 Found", b"404 Not Found", b"500 Oops"])
def test_what_is_no_2xx_is_a_failed_operation(status: bytes) -> None:
    """103: a redirect is counted as what it is, and not followed."""
    wire = asked()
    reply = b"HTTP/1.1 %b\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nno" % status
    with pytest.raises(OperationFailed) as caught:
        wire.feed(reply)
    assert caught.value.kind == f"status {status[:3].decode()}"
    assert not caught.value.broken
    assert "there:80" in caught.value.message
    assert ("/b" in caught.value.message) is status.startswith(b"302")
    wire.encode(Get(b""))  # the connection goes on
    assert wire.feed(GOOD) == b"hello"


def test_half_a_secret_that_a_server_repeats_is_not_shown_either() -> None:
    """Texts are cut where they are long, and secrets are taken out before."""
    secrets.learn("open-sesame-forty-thieves")
    page = b"x" * 60 + b"open-sesame-forty-thieves"
    place = b"/" + b"y" * 190 + b"open-sesame-forty-thieves"
    reply = b"HTTP/1.1 302 %b\r\nLocation: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        page,
        place,
        len(page),
        page,
    )
    for asked, replies in ((Get(b""), 1), (Request(b"/a", "GET", follow=True), 2)):
        wire = HttpWire(b"/p", b"h", "there:80")
        wire.encode(asked)
        if replies == 2:
            assert wire.feed(reply) is PENDING  # And there again: a loop.
        with pytest.raises(OperationFailed) as caught:
            wire.feed(reply)
        assert "open-s" not in caught.value.message
        assert secrets.HIDDEN in caught.value.message
    secrets.forget()


def test_bytes_after_a_reply_are_refused() -> None:
    wire = asked()
    with pytest.raises(OperationFailed) as caught:
        wire.feed(GOOD + GOOD)
    assert (caught.value.kind, caught.value.broken) == ("protocol", True)


def test_writing_is_not_offered() -> None:
    for operation in (Put(b"/x", b"y"), Delete(b"/x")):
        with pytest.raises(OperationFailed) as caught:
            asked().encode(operation)
        assert caught.value.kind == "unsupported"


def test_a_close_between_two_requests_is_asked_again_and_within_one_is_not() -> None:
    """100."""
    for error in (None, ConnectionResetError(104, "reset")):
        wire = asked()
        assert wire.feed(GOOD) == b"hello"
        wire.encode(Get(b""))
        with pytest.raises(NewConnection) as anew:
            wire.closed(error)
        assert anew.value.counts
        wire = asked()
        assert wire.feed(GOOD) == b"hello"
        wire.encode(Get(b""))
        assert wire.feed(GOOD[:9]) is PENDING
        with pytest.raises(OperationFailed) as caught:
            wire.closed(error)
        assert caught.value.kind == "truncated"


def test_a_first_request_that_is_not_answered_has_failed() -> None:
    """101: an empty reply is no reply."""
    with pytest.raises(OperationFailed) as caught:
        asked().closed(None)
    assert caught.value.kind == "no reply"


@pytest.mark.parametrize("kept", [True, False])
def test_a_connection_that_may_serve_no_more_says_so(kept: bool) -> None:
    wire = asked(kept=kept)
    closing = GOOD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert wire.feed(closing) == b"hello"
    with pytest.raises(NewConnection) as anew:
        wire.encode(Get(b""))
    # Where each request was to have its own, that is no reconnect.
    assert anew.value.counts is kept


def test_a_head_that_repeats_is_compared_and_not_believed() -> None:
    """The fast way must see a body that is shorter, longer or in pieces."""
    wire = asked()
    assert wire.feed(GOOD) == b"hello"
    wire.encode(Get(b""))
    assert wire.feed(GOOD[:-1]) is PENDING
    assert wire.feed(b"!") == b"hell!"
    wire.encode(Get(b""))
    assert wire.feed(GOOD.replace(b"200", b"201")) == b"hello"
    wire.encode(Get(b""))
    with pytest.raises(OperationFailed, match="404"):
        wire.feed(GOOD.replace(b"200", b"404"))
    wire.encode(Get(b""))
    with pytest.raises(OperationFailed, match="404"):
        wire.feed(GOOD.replace(b"200", b"404"))


FINAL = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"


@given(
    st.sampled_from(["HEAD", "GET"]),
    st.sampled_from([200, 204, 304]),
    st.integers(0, 3),
    st.sampled_from(
        [b"Content-Length: 99\r\n", b"Transfer-Encoding: chunked\r\n", b""]
    ),
    st.lists(st.integers(0, 300), max_size=12),
)
def test_replies_without_a_body_end_with_their_head_in_any_split(
    method: str, status: int, interim: int, framing: bytes, cuts: list[int]
) -> None:
    """HEAD, 204 and 304, whatever length they announce, also after 1xx; and the next
    reply on the connection is not mistaken for their body."""
    if method == "GET" and status == 200:
        return
    parser = ResponseParser()
    head = b"HTTP/1.1 %d X\r\n%b\r\n" % (status, framing)
    data = b"HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\n" * interim + head
    for _ in range(2):
        parser.expect(no_body=method == "HEAD")
        assert given_pieces(parser, data, cuts) == b""
        assert parser.head is not None
        assert parser.head.status == status
        assert parser.reusable
    parser.expect()
    body = b"HTTP/1.1 200 OK\r\n\r\n"
    assert given_pieces(parser, FINAL % len(body) + body, cuts) == body


@given(responses(), st.integers(0, 700), st.lists(st.integers(0, 700), max_size=5))
def test_a_response_cut_anywhere_is_told_and_never_taken_for_whole(
    response: tuple[bytes, bytes, bool], length: int, cuts: list[int]
) -> None:
    """101: with 1xx before it, chunks and trailers, at every place."""
    data, body, ends = response
    data = data[: min(length, len(data) - 1)]
    parser = ResponseParser()
    parser.expect()
    assert given_pieces(parser, data, cuts) is PENDING
    head_is_whole = data.partition(b"\n\n")[1] or data.partition(b"\r\n\r\n")[1]
    if ends and parser.head is not None:
        # Only where the connection's end is the body's may it end anywhere.
        assert head_is_whole
        assert body.startswith(parser.end())
        return
    with pytest.raises(OperationFailed) as caught:
        parser.end()
    assert caught.value.kind == ("truncated" if data else "no reply")


def test_a_request_holds_what_was_asked_for_and_its_own_host() -> None:
    wire = HttpWire(b"/p", b"there.test:8080", "there:80")
    asked = Request(
        b"/a?b=c",
        "POST",
        (("Host", "other.test"), ("accept", "text/html"), ("X-A", "caf\u00e9")),
        b"a body\r\n\r\n",
    )
    assert wire.encode(asked) == (
        b"POST /a?b=c HTTP/1.1\r\nUser-Agent: kvtui\r\nHost: other.test\r\n"
        b"accept: text/html\r\nX-A: caf\xc3\xa9\r\nContent-Length: 10\r\n\r\n"
        b"a body\r\n\r\n"
    )
    assert wire.encode(Request(b"", "PUT")).endswith(b"\r\nContent-Length: 0\r\n\r\n")
    for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
        assert b"Content-Length" not in wire.encode(Request(b"", method))


def test_each_page_is_asked_for_and_compared_by_itself() -> None:
    """Pages in turn, of which each has its own remembered head."""
    wire = HttpWire(b"/p", b"h", "there:80", memory=Memory())
    for _ in range(3):
        for path, body in ((b"/a", b"hello"), (b"/b", b"a longer one"), (b"", b"x")):
            line = wire.encode(Get(path)).partition(b" HTTP")[0]
            assert line == b"GET " + (path or b"/p")
            assert wire.feed(FINAL % len(body) + body) == body
        asked = Request(b"/a", "HEAD")
        assert wire.encode(asked).startswith(b"HEAD /a ")
        answer = wire.feed(FINAL % 5)
        assert (answer.status, answer.body, answer.hops) == (200, b"", 0)


def test_what_may_have_been_carried_out_is_not_sent_twice() -> None:
    """RFC 9110, 9.2.2: a POST is not, what is asked again without harm is."""
    for method, again in (("POST", False), ("PATCH", False), ("PUT", True)):
        wire = HttpWire(b"/p", b"h", "there:80")
        asked = Request(b"/x", method, body=b"x")
        wire.encode(asked)
        assert wire.feed(GOOD).body == b"hello"
        wire.encode(asked)
        with pytest.raises(NewConnection if again else OperationFailed) as caught:
            wire.closed(None)
        if isinstance(caught.value, OperationFailed):
            assert caught.value.kind == "disconnected"
            assert "not sent twice" in caught.value.message


def moved(status: int, location: str, *, close: bool = False) -> bytes:
    """A redirect."""
    closing = b"Connection: close\r\n" * close
    return b"HTTP/1.1 %d X\r\nLocation: %b\r\n%bContent-Length: 4\r\n\r\nmove" % (
        status,
        location.encode(),
        closing,
    )


def following(asked: Request, *replies: bytes) -> tuple[list[bytes], Any]:
    """The first lines of what is asked in turn, and what comes of it in the end."""
    wire = HttpWire(b"/p", b"h:8080", "there:80")
    sent = [wire.encode(asked)]
    reply: Any = PENDING
    for each in replies:
        assert reply is PENDING
        try:
            reply = wire.feed(each)
        except OperationFailed as error:
            reply = error
        if reply is PENDING:
            sent.append(wire.more)
            wire.more = b""
    return [each.partition(b" HTTP")[0] for each in sent], reply


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/b", b"/b"),
        ("b?x=1", b"/dir/b?x=1"),
        ("../b", b"/b"),
        ("?x", b"/dir/a?x"),
        ("http://h:8080/b#part", b"/b"),
        ("//h:8080/b", b"/b"),
        ("HTTP://H:8080", b"/"),
        ("/caf\u00e9 b", b"/caf%C3%A9%20b"),
    ],
)
def test_a_redirect_is_followed_to_where_it_leads(location: str, path: bytes) -> None:
    """103: one operation, its hops counted."""
    asked = Request(b"/dir/a", "GET", follow=True)
    sent, answer = following(asked, moved(302, location), GOOD)
    assert sent == [b"GET /dir/a", b"GET " + path]
    assert (answer.status, answer.body, answer.hops) == (200, b"hello", 1)


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", b"GET", False),
        (302, "POST", b"GET", False),
        (303, "PUT", b"GET", False),
        (303, "HEAD", b"HEAD", False),
        (307, "POST", b"POST", True),
        (308, "PUT", b"PUT", True),
        (301, "PUT", b"PUT", True),
    ],
)
def test_a_redirect_keeps_the_method_or_makes_it_a_get(
    status: int, method: str, then: bytes, body: bool
) -> None:
    """RFC 9110, 15.4."""
    wire = HttpWire(b"/p", b"h", "there:80")
    fields = (("Content-Type", "a/b"), ("X-A", "b"))
    payload = None if method == "HEAD" else b"payload"
    wire.encode(Request(b"/a", method, fields, payload, follow=True))
    reply = moved(status, "/b")
    assert wire.feed(reply[:-4] if method == "HEAD" else reply) is PENDING
    assert wire.more.startswith(then + b" /b HTTP/1.1\r\n")
    assert b"X-A: b\r\n" in wire.more
    assert wire.more.endswith(b"payload") is body
    assert (b"Content-Type: a/b" in wire.more) is (then != b"GET")


@pytest.mark.parametrize(
    ("locations", "kind", "said"),
    [
        (["http://other:8080/b"], "redirect elsewhere", "http://other:8080/b"),
        (["https://h:8080/b"], "redirect elsewhere", "another server"),
        (["http://h/b"], "redirect elsewhere", "another server"),
        (["http://[::1/b"], "redirect elsewhere", "another server"),
        (["mailto:x@y"], "redirect elsewhere", "mailto"),
        (["/a"], "redirect loop", "/a redirects to /a"),
        (["/b", "/c", "/b"], "redirect loop", "/c redirects to /b"),
        ([""], "status 302", "does not say where"),
        ([f"/{n}" for n in range(11)], "too many redirects", "more than 10"),
    ],
)
def test_a_redirect_that_leads_nowhere_is_a_failed_operation(
    locations: list[str], kind: str, said: str
) -> None:
    """103: and the connection serves on."""
    asked = Request(b"/a", "GET", follow=True)
    sent, failure = following(asked, *(moved(302, each) for each in locations))
    assert isinstance(failure, OperationFailed)
    assert (failure.kind, failure.broken) == (kind, False)
    assert said in failure.message
    assert "there:80" in failure.message
    assert len(sent) == len(locations)


def test_ten_redirects_are_followed_and_the_next_operation_begins_anew() -> None:
    wire = HttpWire(b"/p", b"h", "there:80")
    asked = Request(b"/a", "GET", follow=True)
    for _ in range(2):
        assert wire.encode(asked).startswith(b"GET /a ")
        for number in range(10):
            assert wire.feed(moved(307, f"/{number}")) is PENDING
            assert wire.more.startswith(b"GET /%d " % number)
        answer = wire.feed(GOOD)
        assert (answer.hops, answer.body) == (10, b"hello")


def test_a_redirect_whose_connection_closes_goes_on_over_another() -> None:
    wire = HttpWire(b"/p", b"h", "there:80")
    asked = Request(b"/a", "GET", follow=True)
    wire.encode(asked)
    with pytest.raises(NewConnection):
        wire.feed(moved(302, "/b", close=True))
    other = HttpWire(b"/p", b"h", "there:80")
    other.take_over(wire)
    assert other.encode(asked).startswith(b"GET /b ")
    assert other.feed(GOOD).hops == 1
    assert other.encode(asked).startswith(b"GET /a ")


def test_what_counts_as_an_answer_is_not_followed() -> None:
    wire = HttpWire(b"/p", b"h", "there:80", answers=frozenset({302}))
    wire.encode(Request(b"/a", "GET", follow=True))
    answer = wire.feed(moved(302, "/b"))
    assert (answer.status, answer.body, answer.hops) == (302, b"move", 0)
