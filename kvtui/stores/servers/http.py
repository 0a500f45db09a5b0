"""A private page server: nginx, else Apache, else kvtui's own; one page of 4 KB.

Each runs as one process in the foreground, so that it is our child, ends with us,
and its CPU time is the whole server's: nginx without a master process, Apache with
``-X``. Where kvtui runs as root the server does not: it runs as an unprivileged user
from its first moment, in a folder of its own that this user may read. (A server that
changed its user itself would lose its tie to this process: prctl(2),
PR_SET_PDEATHSIG.) Root of a user namespace that has nobody else stays who it is.
"""

from __future__ import annotations

import grp
import os
import pwd
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, ClassVar, Final

from kvtui.errors import StoreUnavailable
from kvtui.stores import registry
from kvtui.stores.programs import find_program
from kvtui.stores.servers.base import SOCKET_LINK, PrivateServer
from kvtui.stores.store import Settings, Store

PAGE: Final = "page.html"
PAGE_BYTES: Final = 3_985
"""As the page of a published measurement of 2011."""
_READY: Final = "ready-"
_USERS: Final = ("www-data", "http", "nginx", "apache", "nobody")
_CONNECTIONS: Final = 20_000
_MODULES: Final = (
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/lib/httpd/modules",
    "/usr/local/apache2/modules",
)

_START: Final = (
    "import ctypes, os, resource, signal, sys\n"
    "os.umask(0o077)\n"
    "user, group, parent = map(int, sys.argv[1:4])\n"
    "soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\n"
    "if user:\n"
    "    os.setgroups([]); os.setgid(group); os.setuid(user)\n"
    "    if sys.platform == 'linux' and parent:\n"
    "        ctypes.CDLL(None).prctl(1, signal.SIGKILL)\n"
    "        if os.getppid() != parent: sys.exit('its parent is gone')\n"
    "os.execv(sys.argv[4], sys.argv[4:])\n"
)
"""Keeps its files to itself, raises the limit of open files, lets go of root and ties
itself again."""


class PageServer(PrivateServer):
    """One page on a unix socket or a loopback port."""

    kind: ClassVar[str] = "http"
    default_transport: ClassVar[str] = "tcp"

    def __init__(self, directory: Path, settings: Settings) -> None:
        super().__init__(directory, settings)
        self._home = directory
        self._user: pwd.struct_passwd | None = None
        self._tied = True

    def connect_settings(self) -> dict[str, Any]:
        """Where the page is."""
        return {**super().connect_settings(), "page": f"/{PAGE}"}

    def start(self, *, tied: bool = True) -> dict[str, Any]:
        """Start it; see the base class."""
        if self.settings.get("page"):
            raise StoreUnavailable(
                "http: the private server has a page of its own",
                hint="page= is for a server of yours: name its host, port or path",
            )
        if self.settings.get("tls"):
            raise StoreUnavailable(
                "http: the private server does not speak TLS",
                hint="tls is for a server of yours: name its host, port or path",
            )
        self._tied = tied
        return super().start(tied=tied)

    def _program(self) -> str:
        kind = registry.kind(self.kind)
        if not self.settings.get("program") and find_program(kind.servers) is None:
            return sys.executable
        return super()._program()

    def _choose_address(self) -> None:
        if os.geteuid() == 0:
            self._user = _unprivileged()
        if self._user is not None and self._home == self.directory:
            # Nobody but root may look into the run's folder.
            self._home = Path(tempfile.mkdtemp(prefix="kvtui-"))
            self._give(self._home)
            link = self.directory / SOCKET_LINK
            link.unlink(missing_ok=True)
            link.symlink_to(self._home)
        super()._choose_address()

    def socket_path(self, name: str) -> Path:
        """In the folder that the server's user may write to."""
        if self._home == self.directory:
            return super().socket_path(name)
        return self._home / name

    def prepare(self, program: str) -> None:
        """The page, and the server's configuration."""
        pages = self._home / "pages"
        pages.mkdir(mode=0o700, exist_ok=True)
        self._give(pages)
        # Apache opens /dev/stderr anew, as the user that it runs as.
        self.log.touch(mode=0o600)
        self._give(self.log)
        self._write(pages / PAGE, page())
        name = Path(program).name
        if "nginx" in name:
            self._write(self._home / "server.conf", self._nginx().encode())
        elif program != sys.executable:
            self._write(self._home / "server.conf", self._apache(program).encode())

    def command(self, program: str) -> list[str]:
        """One process in the foreground."""
        config = str(self._home / "server.conf")
        if program == sys.executable:
            place = str(self.port) if self.path is None else str(self.path)
            words = [program, "-m", "kvtui.stores.servers.page"]
            words += [str(self._home / "pages"), place]
        elif "nginx" in Path(program).name:
            words = [program, "-p", str(self._home), "-c", config]
        else:
            words = [program, "-X", "-f", config]
        user = self._user if program != sys.executable else None
        ids = (user.pw_uid, user.pw_gid) if user else (0, 0)
        parent = os.getpid() if self._tied else 0
        start = [sys.executable, "-I", "-S", "-c", _START]
        return [*start, *map(str, (*ids, parent)), *words]

    def probe(self, store: Store) -> None:
        """A page with a name that nobody else can know must be there."""
        token = secrets.token_hex(16)
        path = self._home / "pages" / f"{_READY}{token}"
        self._write(path, token.encode())
        # Whatever is to count as an answer later, this one is to be a 200.
        asking = type(store)({**store.settings, "ok": "200"})
        try:
            asking.open()
            if asking.get(b"/" + path.name.encode()) != token.encode():
                raise StoreUnavailable("another server's page came")
        finally:
            asking.close()
            path.unlink()

    def stop(self) -> None:
        """Stop it, and remove its folder."""
        super().stop()
        if self._home != self.directory:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = self.directory

    def _write(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        path.chmod(0o600)
        self._give(path)

    def _give(self, path: Path) -> None:
        if self._user is None:
            return
        try:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)
        except OSError as error:
            raise StoreUnavailable(
                f"http: root may not give {path} to {self._user.pw_name}, as whom the"
                f" private server would run: {error.strerror}",
                hint="run kvtui as an ordinary user, or with the capabilities CHOWN,"
                " SETUID and SETGID",
            ) from None

    def _nginx(self) -> str:
        home = self._home
        listen = f"127.0.0.1:{self.port}" if self.path is None else f"unix:{self.path}"
        folders = "".join(
            f"  {name}_temp_path {home}/temp;\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = ""
        if os.geteuid() == 0 and self._user is None:
            # It would give its folders to an account that is not there.
            user = f"user {pwd.getpwuid(0).pw_name} {grp.getgrgid(0).gr_name};\n"
        return (
            f"{user}daemon off;\nmaster_process off;\npid {home}/server.pid;\n"
            "error_log stderr;\n"
            f"events {{ worker_connections {_CONNECTIONS}; }}\n"
            "http {\n  access_log off;\n  sendfile on;\n"
            # Each connection serves as long as the trial lasts.
            "  keepalive_requests 1000000000;\n  keepalive_timeout 1h;\n"
            f"{folders}"
            "  types { text/html html; }\n  default_type text/plain;\n"
            f"  server {{ listen {listen} backlog=4096; root {home}/pages; }}\n}}\n"
        )

    def _apache(self, program: str) -> str:
        home = self._home
        listen = f"Listen 127.0.0.1:{self.port}\n"
        if self.path is not None:
            raise StoreUnavailable(
                "http: Apache listens on no unix socket", hint="transport=tcp"
            )
        modules = next((each for each in _MODULES if Path(each).is_dir()), "modules")
        loads = "".join(
            f"<IfModule !{name}_module>\n"
            f"LoadModule {name}_module {modules}/mod_{name}.so\n</IfModule>\n"
            for name in ("mpm_event", "authz_core", "dir")
            if Path(f"{modules}/mod_{name}.so").exists()
        )
        return (
            f"{loads}ServerRoot {home}\nServerName localhost\n{listen}"
            f"PidFile {home}/server.pid\nErrorLog /dev/stderr\nDefaultRuntimeDir"
            f" {home}\nMutex posixsem\n"
            f"DocumentRoot {home}/pages\n<Directory />\n  Require all granted\n"
            "</Directory>\n"
            "KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 3600\n"
            "ServerLimit 1\nStartServers 1\nThreadLimit 64\nThreadsPerChild 64\n"
            "MinSpareThreads 1\nMaxSpareThreads 64\nMaxRequestWorkers 64\n"
            "AsyncRequestWorkerFactor 100\nListenBacklog 4096\n"
        )


def page() -> bytes:
    """The page that is served: HTML, exactly PAGE_BYTES long."""
    start = (
        b"<!DOCTYPE html>\n<title>kvtui</title>\n<p>A page to be measured.</p>\n<pre>"
    )
    end = b"</pre>\n"
    room = PAGE_BYTES - len(start) - len(end)
    line = b"The quick brown fox jumps over the lazy dog 0123456789.\n"
    return start + (line * (room // len(line) + 1))[:room] + end


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom root can become; None where there is nobody. In a user namespace that maps
    root alone (user_namespaces(7)) there is not, and root is no more than whoever made
    the namespace."""
    for name in _USERS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        mapped = _mapped(found.pw_uid, "uid_map") and _mapped(found.pw_gid, "gid_map")
        if found.pw_uid and mapped:
            return found
    return None


def _mapped(number: int, table: str) -> bool:
    """Whether this user namespace has that user or group."""
    try:
        lines = Path(f"/proc/self/{table}").read_text().splitlines()
    except OSError:
        return True  # No such thing here: everybody is.
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= number < first + count for first, _, count in ranges)
