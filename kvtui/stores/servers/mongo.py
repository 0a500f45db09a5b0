"""A private mongod, or a server that stands in for it.

MongoDB comes with few distributions. Where there is no mongod, SecantusDB's server
(``secantusd-py``) speaks its protocol; what was measured then says so.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from kvtui.stores.servers.base import LINE_LIMIT, PrivateServer, free_port


class MongoServer(PrivateServer):
    """mongod or secantusd-py, with its files in the run's folder."""

    kind: ClassVar[str] = "mongo"
    default_transport: ClassVar[str] = "tcp"

    def _choose_address(self) -> None:
        super()._choose_address()
        if self.path is not None:
            # mongod names its socket after its port, and listens on both.
            self.port = free_port()
            self.path = self.socket_path(f"mongodb-{self.port}.sock")

    def prepare(self, program: str) -> None:
        """A folder for its data; for the stand-in, an empty file of settings."""
        (self.directory / "data").mkdir(mode=0o700, exist_ok=True)
        if _is_stand_in(program):
            (self.directory / "secantusd.toml").touch(mode=0o600)

    def command(self, program: str) -> list[str]:
        """A port on 127.0.0.1; with a socket of mode 700 where that is asked for."""
        data, port = str(self.directory / "data"), str(self.port)
        if _is_stand_in(program):
            return [
                program,
                # Else it reads what it finds in the home folder and in /etc.
                "--config",
                str(self.directory / "secantusd.toml"),
                "--host",
                "127.0.0.1",
                "--port",
                port,
                "--storage-path",
                data,
                "--standalone",
                "--log-level",
                "WARNING",
            ]
        words = [program, "--dbpath", data, "--port", port, "--bind_ip", "127.0.0.1"]
        if self.path is None:
            words.append("--nounixsocket")
        else:
            words += ["--unixSocketPrefix", str(self.path.parent)]
            words += ["--filePermissions", "0700"]
        # Its diagnostic data collection writes to the measured disk every second.
        quiet = ["--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false"]
        return words + quiet

    def last_lines(self, number: int = 3) -> str:
        """The end of its log: of a traceback its last line, of mongod's JSON the
        words."""
        try:
            text = self.log.read_bytes()[-20_000:].decode("utf-8", "replace")
        except OSError:
            return "no log"
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        if any(line.startswith("Traceback (most recent call last)") for line in lines):
            number = 1
        shown = [_words(line)[-LINE_LIMIT:] for line in lines[-number:]]
        return " / ".join(shown) or "it printed nothing"


def _is_stand_in(program: str) -> bool:
    return "secantus" in Path(program).name


def _words(line: str) -> str:
    """mongod writes one JSON object a line: ``msg``, and the cause in ``attr``."""
    try:
        entry = json.loads(line)
        cause = entry.get("attr", {}).get("error", "")
        return f"{entry['msg']}: {cause}" if cause else str(entry["msg"])
    except (ValueError, KeyError, AttributeError):
        return line
