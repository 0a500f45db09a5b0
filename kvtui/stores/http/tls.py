"""TLS for HTTP, by the ssl module: what is trusted, and what it came to.

A certificate is checked against the system's authorities (``SSL_CERT_FILE`` names
others, as everywhere), against those in ``ca`` alone, or, with ``verify`` off, not at
all. Sessions are not resumed: each connection has a whole handshake of its own.
"""

from __future__ import annotations

import ssl
from typing import Final

from kvtui.errors import OperationFailed, StoreUnavailable
from kvtui.stores.store import Settings

_UNKNOWN: Final = "ca=FILE names the authority that signed it; verify=false trusts all"
PLAIN: Final = "does it speak TLS, at this port? Without it: http:// or no tls"


def context(where: str, settings: Settings) -> ssl.SSLContext | None:
    """How to connect; None where there is no TLS. Raises StoreUnavailable."""
    ca = settings.get("ca")
    verify = bool(settings.get("verify", True))
    if not settings.get("tls"):
        if ca or not verify:
            raise StoreUnavailable(
                f"http at {where}: ca and verify say nothing without TLS",
                hint="https:// or tls=true, or leave them out",
            )
        return None
    try:
        made = ssl.create_default_context(cafile=str(ca) if ca else None)
    except ssl.SSLError:
        raise StoreUnavailable(
            f"http at {where}: {ca} holds no certificate", hint="it must be in PEM"
        ) from None
    except OSError as error:
        raise StoreUnavailable(
            f"http at {where}: {ca} cannot be read: {error.strerror}"
        ) from None
    made.set_alpn_protocols(["http/1.1"])
    if not verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    return made


def facts(made: ssl.SSLSocket) -> dict[str, str]:
    """What a connection's handshake came to."""
    cipher = made.cipher()
    checked = made.context.verify_mode == ssl.CERT_REQUIRED
    return {
        "tls": made.version() or "",
        "cipher": cipher[0] if cipher else "",
        "certificate": "checked" if checked else "not checked (verify=false)",
    }


def failure(error: ssl.SSLError) -> OperationFailed | None:
    """An error of TLS in words; None for an end that says nothing about TLS."""
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return None
    if isinstance(error, ssl.SSLCertVerificationError):
        said = error.verify_message.rstrip(".")
        # X509_V_ERR_HOSTNAME_MISMATCH and its like for addresses say which name.
        hint = _UNKNOWN
        if "mismatch" in said or "not valid for" in said:
            hint = "host= must be a name on the certificate; verify=false trusts all"
        elif "expired" in said or "not yet valid" in said:
            hint = "the server needs a new one; verify=false trusts all"
        return OperationFailed(
            "certificate",
            f"http: the server's certificate is not trusted: {said}",
            hint=hint,
            broken=True,
        )
    reason = (error.reason or str(error)).replace("_", " ").lower()
    plain = "wrong version" in reason or "http request" in reason
    return OperationFailed(
        "tls",
        f"http: no TLS could be agreed upon: {reason}",
        hint=PLAIN if plain or "record" in reason else None,
        broken=True,
    )
