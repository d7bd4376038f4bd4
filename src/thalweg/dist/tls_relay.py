"""TLSRelay: makes encrypted connections for the core, which reads and writes one end of a local socket pair.

One thread for each connection carries bytes between the other end of the pair and the network. It alone uses the
connection's TLS state, which is not made for two threads; both directions go on independently, and what waits in one of
them is bounded, so that a peer that does not read slows down only those who write to it.
"""

from __future__ import annotations

import selectors
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Callable
from typing import TypeVar

from thalweg import errors
from thalweg.dist.tls import TLSContexts, TLSOptions
from thalweg.platform import logging

_T = TypeVar("_T")

_PIECE = 1 << 18
_MOST_WAITING = 1 << 20
_BUFFER = 4 << 20
# Sent by the side that was called, once it has accepted the caller's certificate: in TLS 1.3 the caller's own handshake
# is over before.
_ADMITTED = b"\x01"


class TLSRelay:
    """The encrypted connections of one task or client. Thread-safe."""

    def __init__(self, options: TLSOptions) -> None:
        """Reads the files.

        Raises:
            ValueError: If they cannot be used.
        """
        self._contexts = TLSContexts(options)
        self._lock = threading.Lock()
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def encrypt(self, descriptor: int, host: str, seconds: float) -> int:
        """Makes an encrypted connection of a TCP socket, as the core's NetworkTask asks for it.

        Args:
            descriptor: The socket; it stays open.
            host: The host that was connected to; empty: the other side has called.
            seconds: How long this may take.

        Returns:
            The descriptor of one end of a socket pair.

        Raises:
            errors.UnauthenticatedError: If a side does not accept the other's certificate.
            errors.UnavailableError: If the connection fails.
            errors.DeadlineExceededError: If it takes too long.
        """
        network = socket.socket(fileno=socket.dup(descriptor))
        address = "?"
        try:
            address = _address(network)
            if host:
                name = self._contexts.options.name or host
                link = _Link(network, self._contexts.caller, name, time.monotonic() + seconds)
            else:
                link = _Link(network, self._contexts.server, None, time.monotonic() + seconds)
            link.shake_hands()
        except OSError as e:
            network.close()
            raise self._contexts.refusal(e, address, host) from None
        except BaseException:
            network.close()
            raise
        ours, cores = socket.socketpair()
        for each in (ours, cores):
            each.setblocking(False)
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                each.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        thread = threading.Thread(target=link.carry, args=(ours, address), name="thalweg-tls", daemon=True)
        with self._lock:
            self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError as e:
            for each in (network, ours, cores):
                each.close()
            raise errors.ResourceExhaustedError(None, None, f"No thread for a TLS connection: {e}") from None
        return cores.detach()

    def join(self, seconds: float = 5.0) -> None:
        """Waits for the threads of connections that the core has closed."""
        until = time.monotonic() + seconds
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


class _Link:
    """One connection: its socket, and its TLS state in memory. Used by one thread at a time."""

    def __init__(self, network: socket.socket, context: ssl.SSLContext, name: str | None, until: float) -> None:
        """Takes the name that the other side's certificate must have; None: the other side has called."""
        self._network = network
        self._until = until
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._is_caller = name is not None
        self._tls = context.wrap_bio(self._received, self._to_send, not self._is_caller, name)
        self._unsent = memoryview(b"")  # encrypted, for the network
        self._undelivered = bytearray()  # decrypted, for the core
        self._plain = bytearray(_PIECE)
        network.setblocking(False)

    def shake_hands(self) -> None:
        """Proves both sides to each other; OSError (ssl.SSLError among them) if that fails."""
        try:
            self._complete(self._tls.do_handshake)
            if self._is_caller:
                if self._complete(lambda: self._tls.read(1)) != _ADMITTED:
                    raise ConnectionError("the other side speaks another protocol")
            else:
                self._tls.write(_ADMITTED)
        except ssl.SSLError:
            self._try_to_flush()  # The alert that tells the other side why.
            raise
        self._flush()

    def _complete(self, step: Callable[[], _T]) -> _T:
        """Does a step of the handshake, with as many exchanges of bytes as it needs."""
        while True:
            try:
                return step()
            except ssl.SSLWantReadError:
                self._flush()
                self._wait(selectors.EVENT_READ)
                data = self._network.recv(_PIECE)
                if not data:
                    raise ConnectionError("the other side closed it during the handshake") from None
                self._received.write(data)

    def _wait(self, events: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._network, events)
            if not selector.select(max(0.0, self._until - time.monotonic())):
                raise TimeoutError

    def _flush(self) -> None:
        while self._to_send.pending or self._unsent:
            if not self._send():
                self._wait(selectors.EVENT_WRITE)

    def _try_to_flush(self) -> None:
        try:
            self._flush()
        except OSError:
            pass

    def _send(self) -> bool:
        """Sends what is encrypted, as far as the network takes it; false if some is left."""
        while self._unsent or self._to_send.pending:
            if not self._unsent:
                self._unsent = memoryview(self._to_send.read())
            try:
                self._unsent = self._unsent[self._network.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                return False
        return True

    def carry(self, core: socket.socket, address: str) -> None:
        """Carries bytes until a side closes the connection."""
        with self._network, core, selectors.DefaultSelector() as selector:
            selector.register(self._network, selectors.EVENT_READ)
            selector.register(core, selectors.EVENT_READ)
            try:
                is_open = self._decrypt(b"")  # What came together with the handshake's end.
                while is_open:
                    is_open = self._carry_some(selector, core)
                self._say_goodbye(core)
            except ssl.SSLError as e:
                logging.warning("The encrypted connection with %s ends: %s", address, e)
            except OSError:
                pass  # The core notices that its end is closed.

    def _carry_some(self, selector: selectors.BaseSelector, core: socket.socket) -> bool:
        """Waits for one event, and moves what can be moved; false when a side has closed the connection."""
        is_sent = self._send()
        is_delivered = self._deliver(core)
        reads = selectors.EVENT_READ
        _watch(selector, self._network, (0 if self._waits() else reads) | (0 if is_sent else selectors.EVENT_WRITE))
        _watch(selector, core, (reads if is_sent else 0) | (0 if is_delivered else selectors.EVENT_WRITE))
        for key, events in selector.select():
            if not events & reads:
                continue
            try:
                data = key.fileobj.recv(_PIECE)  # type: ignore[union-attr]
            except (BlockingIOError, InterruptedError):
                continue
            if not data:
                return False
            if key.fileobj is core:
                self._tls.write(data)  # Into memory: it takes everything.
            elif not self._decrypt(data):
                return False
        return True

    def _waits(self) -> bool:
        return len(self._undelivered) > _MOST_WAITING

    def _decrypt(self, data: bytes) -> bool:
        """Takes what the network has brought; false when the other side has said goodbye."""
        self._received.write(data)
        filled = 0
        try:
            while True:
                if len(self._plain) - filled < 1 << 14:
                    self._undelivered += memoryview(self._plain)[:filled]
                    filled = 0
                got = self._tls.read(len(self._plain) - filled, memoryview(self._plain)[filled:])
                if not got:
                    return False
                filled += int(got)
        except ssl.SSLWantReadError:
            return True
        except ssl.SSLZeroReturnError:
            return False
        finally:
            self._undelivered += memoryview(self._plain)[:filled]

    def _deliver(self, core: socket.socket) -> bool:
        """Gives the core what is decrypted, as far as the pair takes it; false if some is left."""
        sent = 0
        try:
            with memoryview(self._undelivered) as waiting:
                while sent < len(waiting):
                    sent += core.send(waiting[sent:])
        except (BlockingIOError, InterruptedError):
            return False
        finally:
            del self._undelivered[:sent]
        return True

    def _say_goodbye(self, core: socket.socket) -> None:
        """Delivers what came before the end, in both directions, and sends the end of the encrypted stream."""
        self._until = time.monotonic() + 1.0
        core.settimeout(1.0)
        try:
            core.sendall(self._undelivered)
        except OSError:
            pass  # The core has closed its end.
        try:
            self._tls.unwrap()
        except (ssl.SSLError, OSError):
            pass  # The other side need not answer.
        self._try_to_flush()
        try:
            self._network.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _watch(selector: selectors.BaseSelector, watched: socket.socket, events: int) -> None:
    """Changes the events that are waited for; none: the socket is left out."""
    is_registered = watched.fileno() in selector.get_map()
    if not events:
        if is_registered:
            selector.unregister(watched)
    elif not is_registered:
        selector.register(watched, events)
    elif selector.get_key(watched).events != events:
        selector.modify(watched, events)


def _address(network: socket.socket) -> str:
    host, port = network.getpeername()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
