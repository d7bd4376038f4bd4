"""TLS between tasks and clients: the files to use, and what is wrong when a handshake fails, in words."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from thalweg import errors
from thalweg.graph.definitions.op_registry import export

CERTIFICATE: Final = "THALWEG_TLS_CERTIFICATE"
KEY: Final = "THALWEG_TLS_KEY"
AUTHORITY: Final = "THALWEG_TLS_AUTHORITY"
NAME: Final = "THALWEG_TLS_NAME"

# The alert with which a task without TLS answers a caller that speaks TLS (core/net/handshake.cc).
_WITHOUT_TLS: Final = ("UNEXPECTED_MESSAGE", "WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


@export("distribute.TLSOptions")
class TLSOptions(NamedTuple):
    """How a process encrypts its TCP connections and proves who it is: paths of files, or the PEM texts themselves.

    Both sides of a connection show a certificate, and refuse the other's unless `authority` has signed it.

    Attributes:
        certificate: The certificate of this process (PEM), followed by those between it and the authority, if any.
        key: Its private key (PEM, not encrypted).
        authority: The certificates of the authorities that sign those of the cluster (PEM).
        name: The name that the certificates of tasks carry; empty: the host in their address.

    Example:
        >>> options = tf.distribute.TLSOptions("certs/node.pem", "certs/node.key", "certs/authority.pem")
        >>> options.authority
        'certs/authority.pem'
    """

    certificate: str
    key: str
    authority: str
    name: str = ""


_lock = threading.Lock()
_of_process: TLSOptions | None = None


@export("distribute.set_tls_options")
def set_tls_options(options: TLSOptions | None) -> None:
    """Has servers and sessions that this process makes from now on use TLS.

    Args:
        options: The files; None: those that the environment variables THALWEG_TLS_CERTIFICATE, THALWEG_TLS_KEY,
            THALWEG_TLS_AUTHORITY and THALWEG_TLS_NAME name, or no TLS if these are not set.

    Example:
        >>> tf.distribute.set_tls_options(tf.distribute.TLSOptions("node.pem", "node.key", "authority.pem"))
        >>> tf.distribute.set_tls_options(None)
    """
    global _of_process
    with _lock:
        _of_process = options


def tls_options() -> TLSOptions | None:
    """What `set_tls_options` has set, or the environment; None: connections are not encrypted.

    Raises:
        ValueError: If only some of the environment variables are set.
    """
    with _lock:
        if _of_process is not None:
            return _of_process
    found = {name: os.environ.get(name, "") for name in (CERTIFICATE, KEY, AUTHORITY)}
    if not any(found.values()):
        return None
    missing = [name for name, value in found.items() if not value]
    if missing:
        given = [name for name, value in found.items() if value]
        raise ValueError(f"TLS needs {', '.join(missing)}, too: only {', '.join(given)} is set.")
    return TLSOptions(found[CERTIFICATE], found[KEY], found[AUTHORITY], os.environ.get(NAME, ""))


def tls_environment(options: TLSOptions) -> dict[str, str]:
    """The environment variables that give another process these options."""
    return {CERTIFICATE: options.certificate, KEY: options.key, AUTHORITY: options.authority, NAME: options.name}


class TLSContexts:
    """The contexts of Python's ssl module for both sides. Thread-safe."""

    def __init__(self, options: TLSOptions) -> None:
        """Reads the files.

        Raises:
            ValueError: If a file cannot be read, or the key is not that of the certificate.
        """
        self.options = options
        self.caller = self._make(ssl.PROTOCOL_TLS_CLIENT)
        self.server = self._make(ssl.PROTOCOL_TLS_SERVER)

    def _make(self, protocol: ssl._SSLMethod) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        if protocol == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0  # Every connection is proved anew.
        options = self.options
        try:
            with _as_file(options.authority) as authority:
                context.load_verify_locations(authority)
        except (OSError, ssl.SSLError) as e:
            raise ValueError(f"The authority cannot be read from {shown(options.authority)}: {e}") from None
        try:
            with _as_file(options.certificate) as certificate, _as_file(options.key) as key:
                context.load_cert_chain(certificate, key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as e:
            raise ValueError(
                f"The certificate {shown(options.certificate)} and its key {shown(options.key)} cannot be used: {e}"
            ) from None
        return context

    def refusal(self, error: OSError, address: str, host: str) -> errors.OpError:
        """The error for a handshake that failed.

        Args:
            error: What the ssl module, or the socket, says.
            address: The other side.
            host: The host that was connected to; empty if the other side has called.
        """
        other = f"the task at {address}" if host else f"the caller at {address}"
        reason = getattr(error, "reason", None) or ""
        if not isinstance(error, ssl.SSLError):
            if isinstance(error, TimeoutError):
                return errors.DeadlineExceededError(None, None, f"TLS with {other}: it does not answer.")
            return errors.UnavailableError(None, None, f"TLS with {other}: the connection failed: {error}.")
        return errors.UnauthenticatedError(None, None, f"TLS with {other}: {self._words(error, reason, other, host)}")

    def _words(self, error: ssl.SSLError, reason: str, other: str, host: str) -> str:
        options = self.options
        authority = f"the authority in {shown(options.authority)}"
        own = f"the certificate {shown(options.certificate)} of this process"
        if isinstance(error, ssl.SSLCertVerificationError):
            if error.verify_code in (_HOSTNAME_MISMATCH, _ADDRESS_MISMATCH):
                return (
                    f"{other} has a valid certificate, but not for the name '{options.name or host}': {_plain(error)}."
                )
            if error.verify_code in (_EXPIRED, _NOT_YET):
                return f"the certificate of {other} is not valid at this time: {error.verify_message}."
            return f"the certificate of {other} is not signed by {authority}: {error.verify_message}."
        if "PEER_DID_NOT_RETURN_A_CERTIFICATE" in reason:
            return f"{other} shows no certificate; {authority} must have signed one for it."
        if "CERTIFICATE_EXPIRED" in reason:
            return f"{other} refuses {own}: it has expired."
        if "UNKNOWN_CA" in reason:
            return f"{other} refuses {own}: the authority of {other} has not signed it."
        if "CERTIFICATE_REQUIRED" in reason or "BAD_CERTIFICATE" in reason or "CERTIFICATE_UNKNOWN" in reason:
            return f"{other} refuses {own} ({_plain(error)})."
        if any(each in reason for each in _WITHOUT_TLS):
            return f"{other} does not speak TLS: it was started without certificates ({CERTIFICATE})."
        return f"{_plain(error)} ({other}, {own}, {authority})."


_EXPIRED, _NOT_YET, _HOSTNAME_MISMATCH, _ADDRESS_MISMATCH = 10, 9, 62, 64  # of OpenSSL (X509_V_ERR_…)


def _plain(error: ssl.SSLError) -> str:
    """The message without the place in OpenSSL's source."""
    message = getattr(error, "verify_message", "") or error.reason or str(error)
    return str(message).replace("_", " ").lower() if message == error.reason else str(message)


def _no_password() -> str:
    raise ValueError("the key is encrypted with a password, which nobody could enter here")


def shown(file: str) -> str:
    """The path of a file for messages; a PEM text is not shown."""
    return "(given as text)" if "-----BEGIN" in file else file


@contextmanager
def _as_file(file: str) -> Iterator[str]:
    """The path of a file, or of one in memory with a PEM text: the ssl module reads keys from files only."""
    if "-----BEGIN" not in file:
        with open(file, "rb"):  # For an error with the path in it.
            pass
        yield file
        return
    descriptor = os.memfd_create("thalweg-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "w", encoding="ascii") as text:
            text.write(file)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
