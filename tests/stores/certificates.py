"""Certificates for servers that tests start."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.stores.fakes import Conversation
from tests.stores.pages import Answering, Pages


def made(directory: Path, names: str = "IP:127.0.0.1") -> Path:
    """A certificate that signs itself, for these names; its key lies beside it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: apt install openssl")
    certificate = directory / "here.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=kvtui", "-addext", f"subjectAltName={names}"),
            *("-keyout", str(certificate.with_suffix(".key"))),
            *("-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate


class SecurePages(Pages):
    """The same by TLS; it notes the name that each client asks for."""

    def __init__(self, answer: Answering, certificate: Path) -> None:
        super().__init__(answer, transport="tcp")
        self.names: list[str | None] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self._context.sni_callback = self._note

    def _note(self, _: object, name: str | None, __: object) -> None:
        self.names.append(name)

    def _talk(self, conversation: Conversation) -> None:
        plain = conversation.socket
        try:
            secure = self._context.wrap_socket(plain, server_side=True)
        except OSError:
            conversation.close()
            return
        conversation._file.close()
        conversation.socket = secure
        conversation._file = secure.makefile("rb")
        super()._talk(conversation)


def goodbye(conversation: Conversation) -> None:
    """TLS's own word that nothing follows."""
    secure = conversation.socket
    assert isinstance(secure, ssl.SSLSocket)
    secure.setblocking(False)
    try:
        secure.unwrap()
    except (ssl.SSLWantReadError, OSError):
        return
