"""The wire loop over TLS: a record at a time, never blocked, never lost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kvtui.engine import wire
from kvtui.engine.control import Control
from kvtui.engine.recorder import Recorder
from kvtui.stores.operations import Client, Get, Put, key
from kvtui.stores.redis import RedisStore
from kvtui.stores.servers.redis import RedisServer
from tests.conftest import require_server
from tests.stores import certificates
from tests.stores.proxy import Proxy


class Encrypted(RedisServer):
    """Listens by TLS alone."""

    certificate: ClassVar[Path]

    def command(self, program: str) -> list[str]:
        """The usual command, its port spoken to by TLS."""
        words = super().command(program)
        words[words.index("--port")] = "--tls-port"
        return [
            *words,
            *("--port", "0", "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(self.certificate)),
            *("--tls-key-file", str(self.certificate.with_suffix(".key"))),
        ]

    def connect_settings(self) -> dict[str, Any]:
        """By the address that the certificate has."""
        return {"host": "127.0.0.1", "port": self.port, "tls": True}


@pytest.fixture
def settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    """A private server that speaks TLS, with a certificate that is trusted here."""
    require_server("redis")
    certificate = certificates.made(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    Encrypted.certificate = certificate
    server = Encrypted(tmp_path / "server", {"transport": "tcp"})
    server.start()
    yield server.connect_settings()
    server.stop()


SIZES = (0, 1, 100, 16_383, 16_384, 16_385, 400_000)
"""Around what a TLS record holds."""


def puts_and_gets(index: int, wrong: list[str]) -> Client:
    """Values of all sizes around a TLS record's, read back at once."""
    dice = random.Random(index)
    for turn in range(40):
        where = key("test", b"%d-%d" % (index, turn))
        value = dice.randbytes(
            dice.choice([0, 1, 100, 16_383, 16_384, 16_385, 400_000])
        )
        yield Put(where, value)
        if (yield Get(where)) != value:
            wrong.append(f"client {index}, turn {turn}")
    return {"done": 1}


@pytest.mark.parametrize("piece_bytes", [0, 1000])
def test_values_come_back_by_tls(settings: dict[str, Any], piece_bytes: int) -> None:
    """In whole records, and in pieces of which a read alone gives nothing."""
    wrong: list[str] = []
    with Proxy(settings, piece_bytes=piece_bytes) as proxy:
        store = RedisStore(settings | proxy.settings)
        recorder = Recorder(6)
        figures = wire.run(
            [puts_and_gets(index, wrong) for index in range(6)],
            [store.wire() for _ in range(6)],
            store.wire,
            recorder,
            Control(),
            timeout_s=30,
        )
    assert (figures, wrong) == ({"done": 6}, [])
    taken = recorder.take().operations
    assert (taken["get"].ok, taken["put"].ok) == (240, 240)
    assert (recorder.attempted, recorder.finished) == (480, 480)
    assert recorder.reconnects == 0
