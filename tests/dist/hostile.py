"""A process that speaks the tasks' protocol by hand, honestly or not."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import random
import socket
import struct
from types import TracebackType

MAGIC = b"thalweg\x02"
CALL, ANSWER, RUN, DONE, CANCEL, TENSOR, GIVE_BACK, HEARTBEAT = range(1, 9)


def text(value: bytes) -> bytes:
    """A text with its length in front."""
    return struct.pack("<I", len(value)) + value


def hello(cluster: bytes = b"thalweg", task: bytes = b"", incarnation: int = 1, noise: bytes | None = None) -> bytes:
    """What a process says of itself, without shared memory."""
    return text(cluster) + text(task) + struct.pack("<QB", incarnation, 0) + (noise or os.urandom(16))


def proof(key: bytes, side: bytes, callers: bytes, servers: bytes) -> bytes:
    """The proof that a side knows the cluster's key."""
    return hmac.digest(key, text(side) + text(callers) + text(servers), hashlib.sha256)


def frame(
    kind: int, step: int = 0, number: int = 0, body: bytes = b"", tensors: int = 0, elements: bytes = b""
) -> bytes:
    """A frame; descriptors of tensors are the beginning of the body."""
    return struct.pack("<IBBHQQQ", len(body), kind, 0, tensors, len(elements), step, number) + body + elements


def tensor_frame(step: int, key: int, count: int, *more: int, vectors: int | None = None) -> bytes:
    """A frame with a vector of bytes for a Recv, and one for each further key; or as many vectors as are told."""
    number = 1 + len(more) if vectors is None else vectors
    descriptor = struct.pack("<BBBBq", 4, 1, 0, 0, count)  # uint8, rank 1, elements in the frame
    keys = struct.pack(f"<{len(more)}Q", *more)
    return frame(TENSOR, step, key, descriptor * number + bytes(16) + keys, number, bytes(count * number))


def call_frame(number: int, method: bytes, payload: bytes) -> bytes:
    """A frame that asks for a method."""
    return frame(CALL, 0, number, text(method) + payload)


def proto_text(number: int, value: bytes) -> bytes:
    """A field of a protobuf, with fewer than 128 bytes."""
    return bytes([number << 3 | 2, len(value)]) + value


class Caller:
    """A connection to a task; use it in a `with` block."""

    def __init__(self, address: str) -> None:
        """Connects by TCP, and says nothing yet."""
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def send(self, data: bytes) -> None:
        """Sends bytes, unless the other side has hung up."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        """Exactly so many bytes; fewer if the other side hangs up."""
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                more = b""
            if not more:
                return data
            data += more
        return data

    def read_text(self) -> bytes:
        """A text with its length in front."""
        size = self.read(4)
        return self.read(struct.unpack("<I", size)[0]) if len(size) == 4 else b""

    def say_hello(self, own: bytes) -> tuple[bytes, bytes]:
        """The first half of the handshake: the task's hello and proof."""
        self.send(MAGIC + text(own))
        return self.read_text(), self.read_text()

    def shake_hands(self, key: bytes, task: bytes = b"", incarnation: int = 1) -> bool:
        """The whole handshake: whether this process is admitted."""
        own = hello(task=task, incarnation=incarnation)
        theirs, _ = self.say_hello(own)
        self.send(text(proof(key, b"caller", own, theirs)))
        answer = self.read(4)
        return answer == bytes(4)

    def is_hung_up(self) -> bool:
        """Whether the task closes the connection; bytes that it sends before are dropped."""
        while data := self.read(1 << 16):
            if len(data) < 1 << 16:
                return True
        return True

    def read_frame(self) -> tuple[int, int, int, bytes]:
        """The kind, flags, number and body of the next frame that is no heartbeat."""
        while True:
            length, kind, flags, _, elements, _, number = struct.unpack("<IBBHQQQ", self.read(32))
            body = self.read(length)
            self.read(elements)
            if kind != HEARTBEAT:
                return kind, flags, number, body

    def __enter__(self) -> Caller:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.socket.close()


def mutated(data: bytes, choice: random.Random) -> bytes:
    """Bytes with some of them changed, removed or repeated."""
    changed = bytearray(data)
    for _ in range(choice.randint(1, 4)):
        at = choice.randrange(len(changed) or 1)
        match choice.randrange(4):
            case 0:
                changed[at : at + 1] = choice.randbytes(1)
            case 1:
                size = choice.choice([1, 2, 4, 8])
                changed[at : at + size] = choice.choice([b"\xff", b"\0", b"\x7f"]) * size
            case 2:
                del changed[at : at + choice.randint(1, 10)]
            case _:
                changed[at:at] = changed[: choice.randint(0, 40)]
    return bytes(changed)
