#!/usr/bin/env -S python3 -IS
"""A stand-in for ttserver, where there is no real one.

It takes ttserver 1.1.41's options, speaks its binary protocol (kvtui's own notes on
it, in ``kvtui/stores/tokyo/protocol.py``) over a dict, and ends at SIGTERM with
status 0, its socket gone. It calls itself a stand-in in its version, so that every
output that names the server says so. By hand::

    KVTUI_TTSERVER=tests/stores/ttserver.py kvtui run fans --store tokyo-unix

A database file is its own format, written when it ends; a file is locked, and a
second server waits for it, as Tokyo Cabinet's do. Only the standard library.
"""

from __future__ import annotations

import fcntl
import math
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

VERSION = "1.1.41 stand-in in Python"
ARGUMENT_LIMIT = 256 << 20
ARGUMENTS_LIMIT = 1 << 20
READ_BYTES = 1 << 18
MOST_UNSENT_BYTES = 1 << 16
FILE_MARK = b"kvtui's stand-in for Tokyo Cabinet\n"
TYPES = {"*": "on-memory hash", "+": "on-memory tree"}
ENDINGS = {".tch": "hash", ".tcb": "B+ tree"}
WITHOUT_VALUE = ("-le", "-ld", "-li", "-kl", "-uas", "-rcc")
WITH_VALUE = ("-host", "-port", "-thnum", "-tout", "-pid", "-log", "-sid", "-mask")

DONE, FAILED = b"\0", b"\1"
INTEGER = struct.Struct(">I")
PAIR = struct.Struct(">II")
WHOLE = struct.Struct("=i")
DOUBLE = struct.Struct("=d")
PARTS = struct.Struct(">qq")


class HangUp(Exception):
    """The real one closes the connection here, without a reply."""


class Incomplete(Exception):
    """The rest of the request has not come yet."""


class Request:
    """Takes a request's fields off the front of what has come."""

    def __init__(self, data: bytearray, at: int) -> None:
        self.data = data
        self.at = at

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.data):
            raise Incomplete
        taken = bytes(memoryview(self.data)[self.at : end])
        self.at = end
        return taken

    def number(self) -> int:
        return int(INTEGER.unpack(self.take(4))[0])

    def length(self) -> int:
        length = self.number()
        if length > ARGUMENT_LIMIT:
            raise HangUp
        return length

    def argument(self) -> bytes:
        return self.take(self.length())

    def pair(self) -> tuple[bytes, bytes]:
        first, second = self.length(), self.length()
        return self.take(first), self.take(second)

    def arguments(self) -> list[bytes]:
        count = self.number()
        if count > ARGUMENTS_LIMIT:
            raise HangUp
        return self.listed(count)

    def listed(self, count: int) -> list[bytes]:
        return [self.argument() for _ in range(count)]


class Capped(dict[bytes, bytes]):
    """So many records; the oldest go (``capnum`` of an on-memory hash)."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: bytes, value: bytes) -> None:
        super().__setitem__(key, value)
        while len(self) > self.most:
            del self[next(iter(self))]

    def update(self, pairs: Any) -> None:
        """Each by itself."""
        for key, value in pairs:
            self[key] = value


class Database:
    """The records, and the file that keeps them from one start to the next."""

    def __init__(self, words: str) -> None:
        self.path, *options = words.split("#")
        self.type = TYPES.get(self.path) or ENDINGS.get(Path(self.path).suffix, "")
        caps = [each for each in options if each.startswith("cap")]
        most = "".join(caps).removeprefix("capnum=")
        refused = caps and not (self.path == "*" and most.isdecimal())
        if not self.type or refused:
            raise SystemExit(f"the stand-in cannot serve {words!r}")
        self.ordered = self.type.endswith("tree")
        self.records: dict[bytes, bytes] = Capped(int(most)) if caps else {}
        self.left: list[bytes] = []
        self.file: BinaryIO | None = None
        if self.path not in TYPES:
            self.file = os.fdopen(os.open(self.path, os.O_RDWR | os.O_CREAT), "r+b")
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.load(self.file.read())

    def load(self, data: bytes) -> None:
        if data and not data.startswith(FILE_MARK):
            raise SystemExit(f"{self.path} is not a file of the stand-in")
        at = len(FILE_MARK)
        while at < len(data):
            key_length, value_length = PAIR.unpack_from(data, at)
            middle = at + 8 + key_length
            at = middle + value_length
            self.records[data[middle - key_length : middle]] = data[middle:at]

    def save(self) -> None:
        if self.file is None:
            return
        self.file.seek(0)
        self.file.truncate()
        self.file.write(FILE_MARK)
        for key, value in self.records.items():
            self.file.write(PAIR.pack(len(key), len(value)) + key + value)
        self.file.close()

    def in_order(self) -> Iterable[bytes]:
        return sorted(self.records) if self.ordered else self.records

    def size(self) -> int:
        return sum(len(key) + len(value) for key, value in self.records.items())


class Commands:
    """What each command does: takes its fields, gives the reply's bytes."""

    def __init__(self, database: Database, mask: set[str]) -> None:
        self.database = database
        self.records = database.records
        self.mask = mask
        self.started = time.time()
        names = (
            "put:10 putkeep:11 putcat:12 putshl:13 putnr:18 out:20 get:30 mget:31"
            " vsiz:38 iterinit:50 iternext:51 fwmkeys:58 addint:60 adddouble:61"
            " ext:68 sync:70 optimize:71 vanish:72 copy:73 restore:74 setmst:78"
            " rnum:80 size:81 stat:88 misc:90 repl:a0"
        )
        self.counted: dict[str, int] = {}
        self.table: dict[int, tuple[str, Callable[[Request], bytes]]] = {}
        for each in names.split():
            name, code = each.split(":")
            self.counted[name] = 0
            self.table[int(code, 16)] = (name, getattr(self, name, self.missing))
        self.counted |= {"put_miss": 0, "out_miss": 0, "get_miss": 0}

    def answer(self, request: Request) -> bytes:
        magic, code = request.take(2)
        if magic != 0xC8 or code not in self.table:
            raise HangUp
        name, command = self.table[code]
        self.counted[name] += 1
        try:
            return command(request)
        except Incomplete:
            self.counted[name] -= 1
            raise

    def missing(self, request: Request) -> bytes:
        raise HangUp

    def store(self, key: bytes, value: bytes, name: str = "put") -> bytes:
        if name in self.mask:
            self.counted["put_miss"] += 1
            return FAILED
        self.records[key] = value
        return DONE

    def put(self, request: Request) -> bytes:
        return self.store(*request.pair())

    def putkeep(self, request: Request) -> bytes:
        key, value = request.pair()
        if key in self.records:
            self.counted["put_miss"] += 1
            return FAILED
        return self.store(key, value, "putkeep")

    def putcat(self, request: Request) -> bytes:
        key, value = request.pair()
        return self.store(key, self.records.get(key, b"") + value, "putcat")

    def putshl(self, request: Request) -> bytes:
        key_length, value_length = request.length(), request.length()
        width = request.number()
        key, value = request.take(key_length), request.take(value_length)
        old = self.records.get(key)
        if old is not None:  # A new record is not cut.
            value = old + value
            value = value[max(0, len(value) - width) :]
        return self.store(key, value, "putshl")

    def putnr(self, request: Request) -> bytes:
        self.store(*request.pair(), "putnr")
        return b""

    def out(self, request: Request) -> bytes:
        if self.records.pop(request.argument(), None) is not None:
            return DONE
        self.counted["out_miss"] += 1
        return FAILED

    def get(self, request: Request) -> bytes:
        value = self.records.get(request.argument())
        if value is None or "get" in self.mask:
            self.counted["get_miss"] += 1
            return FAILED
        return b"\0%b%b" % (INTEGER.pack(len(value)), value)

    def mget(self, request: Request) -> bytes:
        keys = request.arguments()
        found = [key for key in keys if key in self.records]
        words = [DONE, INTEGER.pack(len(found))]
        for key in found:
            value = self.records[key]
            words += (PAIR.pack(len(key), len(value)), key, value)
        return b"".join(words)

    def vsiz(self, request: Request) -> bytes:
        value = self.records.get(request.argument())
        return FAILED if value is None else DONE + INTEGER.pack(len(value))

    def iterinit(self, request: Request) -> bytes:
        self.database.left = list(self.database.in_order())[::-1]
        return DONE

    def iternext(self, request: Request) -> bytes:
        left = self.database.left
        if not left:
            return FAILED
        return DONE + INTEGER.pack(len(left[-1])) + left.pop()

    def fwmkeys(self, request: Request) -> bytes:
        length, most = request.length(), request.number()
        start = request.take(length)
        found = [key for key in self.database.in_order() if key.startswith(start)]
        return listed(DONE, found if most >= 1 << 31 else found[:most])

    def addint(self, request: Request) -> bytes:
        length, amount = request.length(), request.number()
        key = request.take(length)
        old = self.records.get(key, bytes(4))
        if len(old) != 4:
            return FAILED
        # Sums wrap at 32 bits, as a C int does.
        total = (WHOLE.unpack(old)[0] + amount + 2**31) % 2**32 - 2**31
        self.records[key] = WHOLE.pack(total)
        if total == -(2**31):
            return FAILED  # It stands for a failure inside the real one.
        return DONE + struct.pack(">i", total)

    def adddouble(self, request: Request) -> bytes:
        length = request.length()
        whole, fraction = PARTS.unpack(request.take(16))
        key = request.take(length)
        old = self.records.get(key, bytes(8))
        if len(old) != 8 or "adddouble" in self.mask:
            return FAILED
        # The real one computes with doubles too, and rounds beyond 2^53.
        total = DOUBLE.unpack(old)[0] + (whole + fraction / 1e12)
        self.records[key] = DOUBLE.pack(total)
        return FAILED if math.isnan(total) else DONE + parts(total)

    def ext(self, request: Request) -> bytes:
        name_length, _ = request.length(), request.number()
        key_length, value_length = request.length(), request.length()
        request.take(name_length + key_length + value_length)
        return FAILED  # There is no Lua.

    def sync(self, request: Request) -> bytes:
        return DONE

    def optimize(self, request: Request) -> bytes:
        request.argument()
        return DONE

    def vanish(self, request: Request) -> bytes:
        self.records.clear()
        return DONE

    def rnum(self, request: Request) -> bytes:
        return DONE + struct.pack(">Q", len(self.records))

    def size(self, request: Request) -> bytes:
        return DONE + struct.pack(">Q", self.database.size())

    def stat(self, request: Request) -> bytes:
        now = time.time()
        used = os.times()
        fields: dict[str, Any] = {
            "version": VERSION,
            "libver": 324,
            "protver": "0.91",
            "os": os.uname().sysname,
            "time": f"{now:.6f}",
            "pid": os.getpid(),
            "sid": 0,
            "type": self.database.type,
            "path": self.database.path,
            "rnum": len(self.records),
            "size": self.database.size(),
            "bigend": int(sys.byteorder == "big"),
            "loadavg": f"{os.getloadavg()[0]:.6f}",
            "ru_user": f"{used.user:.6f}",
            "ru_sys": f"{used.system:.6f}",
            "ru_real": f"{now - self.started:.6f}",
        }
        fields |= {f"cnt_{name}": count for name, count in self.counted.items()}
        text = "".join(f"{name}\t{value}\n" for name, value in fields.items()).encode()
        return DONE + INTEGER.pack(len(text)) + text

    def misc(self, request: Request) -> bytes:
        name_length, _, count = request.number(), request.number(), request.number()
        if count > ARGUMENTS_LIMIT or name_length >= 1024:
            raise HangUp
        name, words = request.take(name_length), request.listed(count)
        if name in (b"put", b"putlist") and len(words) >= 2:
            self.records.update(zip(words[::2], words[1::2], strict=False))
            return listed(DONE, [])
        if name == b"getlist":
            found = [key for key in words if key in self.records]
            return listed(DONE, [x for key in found for x in (key, self.records[key])])
        if name == b"get" and words and words[0] in self.records:
            return listed(DONE, [self.records[words[0]]])
        if name == b"outlist":
            for key in words:
                self.records.pop(key, None)
            return listed(DONE, [])
        if name == b"sync":
            return listed(DONE, [])
        return listed(FAILED, [])


def parts(number: float) -> bytes:
    """A double as a reply holds it: its whole part, and what is left in 1e-12."""
    if math.isinf(number):
        return PARTS.pack(2**63 - 1 if number > 0 else -(2**63), 0)
    whole = math.trunc(number)
    left = int((number - whole) * 1e12)
    # What C makes of a double that is too large for it, on x86.
    return PARTS.pack(whole if -(2**63) <= whole < 2**63 else -(2**63), left)


def listed(code: bytes, words: list[bytes]) -> bytes:
    """Elements as a reply holds them."""
    made = [code, INTEGER.pack(len(words))]
    for each in words:
        made += (INTEGER.pack(len(each)), each)
    return b"".join(made)


class Connection:
    """One client: what has come and is not yet a request, what is not yet sent."""

    def __init__(self, made: socket.socket, commands: Commands) -> None:
        made.setblocking(False)
        self.socket = made
        self.commands = commands
        self.come = bytearray()
        self.unsent = b""

    def read(self) -> None:
        """Take what is there, and answer it. Raises HangUp at the end."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise HangUp
        self.come += data
        self.go_on()

    def go_on(self) -> None:
        """Answer until the requests end, or the client takes no more replies."""
        at, replies, waiting = 0, [], 0
        hang_up = False
        try:
            while at < len(self.come) and waiting < MOST_UNSENT_BYTES:
                request = Request(self.come, at)
                replies.append(self.commands.answer(request))
                waiting += len(replies[-1])
                at = request.at
        except Incomplete:
            pass
        except HangUp:
            hang_up = True
        more = waiting >= MOST_UNSENT_BYTES
        del self.come[:at]
        self.send(b"".join(replies))
        if hang_up:
            raise HangUp
        if more and not self.unsent:
            self.go_on()

    def send(self, data: bytes) -> None:
        """As much as the client takes now; the rest is kept."""
        try:
            sent = self.socket.send(data) if data else 0
        except BlockingIOError:
            sent = 0
        self.unsent = data[sent:]

    def write(self) -> None:
        """The client takes replies again."""
        self.send(self.unsent)
        if not self.unsent:
            self.go_on()


def serve(listener: socket.socket, commands: Commands) -> None:
    """Until SIGTERM or SIGINT."""
    ending, wake = socket.socketpair()
    ending.setblocking(False)
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: None)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    poller.register(ending, select.EPOLLIN)
    connections: dict[int, Connection] = {}
    while True:
        for file, _ in poller.poll():
            if file == ending.fileno():
                return
            if file == listener.fileno():
                made, _ = listener.accept()
                if made.family != socket.AF_UNIX:
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connections[made.fileno()] = Connection(made, commands)
                poller.register(made, select.EPOLLIN)
                continue
            connection = connections[file]
            waited = bool(connection.unsent)
            try:
                connection.write() if waited else connection.read()
            except BlockingIOError:
                continue
            except (HangUp, OSError):
                poller.unregister(file)
                connections.pop(file).socket.close()
                continue
            if bool(connection.unsent) != waited:
                # The real one does not read on while a reply cannot be sent.
                poller.modify(file, select.EPOLLIN if waited else select.EPOLLOUT)


def log(level: str, text: str) -> None:
    """A line as ttserver writes it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stdout.write(f"{stamp}\t{level}\t{text}\n")
    sys.stdout.flush()


def options(words: list[str]) -> tuple[dict[str, str], str]:
    """The options, and the database."""
    found: dict[str, str] = {}
    database = "*"
    left = iter(words)
    for word in left:
        if word in WITH_VALUE:
            found[word] = next(left)
        elif not word.startswith("-"):
            database = word
        elif word not in WITHOUT_VALUE:
            raise SystemExit(f"the stand-in has no {word}")
    return found, database


def main(words: list[str]) -> int:
    """ttserver's own way: 0 after a signal, 1 when it could not start."""
    if "--version" in words:
        sys.stdout.write(f"Tokyo Tyrant version {VERSION}\n")
        return 0
    found, name = options(words)
    host, port = found.get("-host", ""), int(found.get("-port", "1978"))
    database = Database(name)
    listener = socket.socket(socket.AF_INET if port else socket.AF_UNIX)
    try:
        if port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port) if port else host)
        listener.listen(1024)
    except OSError:
        log("ERROR", "ttopenservsock failed" if port else "ttopenservsockunix failed")
        return 1
    if "-pid" in found:
        Path(found["-pid"]).write_text(f"{os.getpid()}\n")
    mask = set(found.get("-mask", "").split(","))
    if "-le" not in words:
        log("SYSTEM", f"service started: {os.getpid()}")
    try:
        serve(listener, Commands(database, mask))
    finally:
        if not port:
            os.unlink(host)
        database.save()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
