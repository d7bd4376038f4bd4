"""Garbage, half-open, slow, replayed and mutated connections: they cost the sender its connection and nothing else."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import thalweg as tf
from tests.dist import hostile
from tests.dist.hostile import Caller, call_frame, frame, hello, mutated, proof, proto_text, tensor_frame, text
from tests.dist.processes import Processes

_KEY = b"the key of this test"


class Victim:
    """A task in a process of its own, with a session that is in use all the time."""

    def __init__(self, cluster: Processes, run: Callable[[], None]) -> None:
        """Takes the cluster, and a function that uses the session."""
        self.cluster = cluster
        self.address = cluster.jobs["worker"][0]
        self.check = run
        self._process = Path(f"/proc/{cluster.pid('worker')}")

    def call(self) -> Caller:
        """A connection that has said nothing."""
        return Caller(self.address)

    def admitted(self) -> Caller:
        """A connection of a process that has proved the key."""
        caller = self.call()
        assert caller.shake_hands(_KEY)
        return caller

    def memory(self) -> int:
        """Resident bytes."""
        status = (self._process / "status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def num_files(self) -> int:
        """Open descriptors."""
        return len(list((self._process / "fd").iterdir()))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with Processes(environment={"THALWEG_CLUSTER_KEY": _KEY.decode()}, worker=1) as processes:
        yield processes


@pytest.fixture
def victim(cluster: Processes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Victim]:
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", _KEY.decode())
    x = tf.placeholder(tf.float32, [])
    y = x * 2.0
    with tf.Session(cluster.target("worker")) as sess:
        values = iter(range(1, 1 << 30))

        def run() -> None:
            value = float(next(values))
            assert sess.run(y, {x: value}) == 2.0 * value

        run()
        yield Victim(cluster, run)
        run()


def test_connections_that_begin_without_a_handshake_are_closed(victim: Victim) -> None:
    for data in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        bytes(1000),
        b"\xff" * 1000,
        hostile.MAGIC + b"\xff\xff\xff\xff",
        hostile.MAGIC + text(b"too short to be a hello"),
        hostile.MAGIC + text(hello() + b"more"),
    ):
        with victim.call() as caller:
            caller.send(data)
            assert caller.is_hung_up()
        victim.check()


def test_a_process_without_the_key_is_refused(victim: Victim) -> None:
    for key in (b"", b"another key", _KEY[:-1]):
        with victim.call() as caller:
            assert not caller.shake_hands(key)
            assert caller.is_hung_up()
    victim.check()


def test_a_replayed_handshake_is_refused(victim: Victim) -> None:
    own = hello(noise=b"recorded earlier")
    with victim.call() as caller:
        theirs, _ = caller.say_hello(own)
        recorded = proof(_KEY, b"caller", own, theirs)
        caller.send(text(recorded))
        assert caller.read(4) == bytes(4)
    with victim.call() as caller:
        _, shown = caller.say_hello(own)
        caller.send(text(recorded))
        assert caller.read(4) != bytes(4)
        assert caller.is_hung_up()
    with victim.call() as caller:  # What the server has shown itself is worth nothing, either.
        _, shown = caller.say_hello(own)
        caller.send(text(shown))
        assert caller.read(4) != bytes(4)
        assert caller.is_hung_up()


def test_silent_and_half_open_connections_do_not_keep_peers_out(victim: Victim) -> None:
    files = victim.num_files()
    callers = [victim.call() for _ in range(300)]
    try:
        for i, caller in enumerate(callers):
            caller.send((hostile.MAGIC + text(hello()))[: i % 40])
        victim.check()
        with victim.admitted() as honest:
            honest.send(call_frame(7, b"status", b""))
            assert honest.read_frame()[:3] == (hostile.ANSWER, 0, 7)
        assert victim.num_files() < files + 150
        assert all(caller.is_hung_up() for caller in callers[:200])
    finally:
        for caller in callers:
            caller.socket.close()


_ERROR = struct.pack("<B", 10) + text(b"why") + text(b"") + text(b"")
_FRAMES = (
    frame(hostile.HEARTBEAT),
    frame(hostile.GIVE_BACK, number=3),
    frame(hostile.CANCEL, step=5, body=_ERROR),
    frame(hostile.DONE, step=5, body=text(b"")),
    frame(hostile.RUN, step=5, number=77),
    frame(hostile.ANSWER, number=9, body=b"an answer"),
    tensor_frame(5, 6, 100),
    tensor_frame(5, 6, 100, 7, 8),
    call_frame(1, b"status", b""),
    call_frame(2, b"create_session", b"\x0a\x03abc"),
    call_frame(3, b"no such method", b"payload"),
)


def test_mutated_frames_cost_the_sender_its_connection_at_most(victim: Victim) -> None:
    memory, files = 0, 0
    for seed in range(400):
        choice = random.Random(seed)
        with victim.admitted() as caller:
            data = b"".join(choice.choices(_FRAMES, k=choice.randint(1, 5)))
            data = mutated(data, choice)
            cut = choice.randrange(len(data)) if data else 0
            caller.send(data[:cut])
            caller.send(data[cut:])
        if seed % 50 == 49:
            victim.check()
        if seed == 99:
            memory, files = victim.memory(), victim.num_files()
    victim.check()
    assert victim.memory() < memory + (64 << 20)
    assert victim.num_files() < files + 50


@pytest.mark.parametrize("vectors", [0, 2, 5])
def test_a_message_whose_tensors_have_no_keys_ends_the_connection(victim: Victim, vectors: int) -> None:
    with victim.admitted() as caller:
        caller.send(tensor_frame(5, 6, 100, vectors=vectors))
        assert caller.is_hung_up()
    victim.check()


def test_lies_about_sizes_take_no_memory(victim: Victim) -> None:
    memory = victim.memory()
    descriptor = struct.pack("<BBBBq", 4, 1, 0, 0, 1 << 37)
    strings = struct.pack("<BBBBq", 7, 1, 1, 0, 1 << 40)
    for lie in (
        struct.pack("<IBBHQQQ", 0x7FFFFFFF, hostile.CALL, 0, 0, 0, 0, 0) + bytes(1000),
        struct.pack("<IBBHQQQ", len(descriptor), hostile.TENSOR, 0, 1, 1 << 37, 0, 0) + descriptor,
        struct.pack("<IBBHQQQ", len(strings), hostile.TENSOR, 0, 1, 0, 0, 0) + strings,
        struct.pack("<IBBHQQQ", 0, hostile.RUN, 0, 0xFFFF, 0, 0, 0),
    ):
        callers = [victim.admitted() for _ in range(10)]
        for caller in callers:
            caller.send(lie)
        victim.check()
        for caller in callers:
            caller.socket.close()
    assert victim.memory() < memory + (64 << 20)


def test_calls_with_any_bytes_are_answered_with_an_error(victim: Victim) -> None:
    choice = random.Random(7)
    methods = [
        b"status", b"register", b"deregister", b"close_worker_session", b"memory", b"create_session",
        b"extend_session", b"make_step", b"release_step", b"list_devices", b"close_session", b"\xff\xfe", b"",
    ]  # fmt: skip
    with victim.admitted() as caller:
        failed = 0
        for number in range(200):
            payload = choice.randbytes(choice.randrange(60))
            if choice.random() < 0.5:  # A message with two fields of bytes.
                fields = [choice.randbytes(choice.randrange(20)) for _ in range(2)]
                payload = b"".join(bytes([8 * (i + 1) + 2, len(each)]) + each for i, each in enumerate(fields))
            caller.send(call_frame(number, choice.choice(methods), payload))
            kind, flags, answered, _ = caller.read_frame()
            assert (kind, answered) == (hostile.ANSWER, number)
            failed += flags
        assert failed > 100
    victim.check()


def test_steps_of_another_client_cannot_be_started_or_ended_by_guessing(victim: Victim) -> None:
    with victim.admitted() as caller:
        for number in (0, 1, 2**64 - 1):
            caller.send(frame(hostile.RUN, step=1, number=number))
            kind, flags, _, body = caller.read_frame()
            assert (kind, flags) == (hostile.DONE, 1)
            assert b"has no such step" in body
        caller.send(call_frame(1, b"close_session", b"\x0a\x10" + b"0" * 16))
        assert caller.read_frame()[1] == 1
    victim.check()


def test_tensors_that_no_step_waits_for_are_dropped_with_their_sender(victim: Victim) -> None:
    with victim.admitted() as caller:
        for step in range(50):
            caller.send(tensor_frame(1 << 40 | step, 1, 1 << 20))
        victim.check()
    memory = victim.memory()
    for _ in range(5):
        with victim.admitted() as caller:
            for step in range(50):
                caller.send(tensor_frame(1 << 40 | step, 1, 1 << 20))
            caller.send(call_frame(1, b"status", b""))
            assert caller.read_frame()[0] == hostile.ANSWER
    assert victim.memory() < memory + (100 << 20)


def test_calls_that_wait_for_ever_do_not_keep_others_from_being_answered(victim: Victim) -> None:
    # Members of groups that never become complete, from more connections than it takes for all threads of calls.
    callers = [victim.call() for _ in range(6)]
    try:
        for i, caller in enumerate(callers):
            task = f"/job:ps/replica:0/task:{i}".encode()
            assert caller.shake_hands(_KEY, task=task, incarnation=7)
            member = proto_text(1, task) + proto_text(2, b"device:CPU:0") + b"\x18\x07"
            for group in range(1, 101):
                joining = b"\x08" + bytes([group]) + b"\x10\x10" + proto_text(3, member)
                caller.send(call_frame(group, b"join_group", joining))
        for caller in callers:
            caller.send(call_frame(1000, b"status", b""))
            assert caller.read_frame()[:3] == (hostile.ANSWER, 0, 1000)
        victim.check()
        with tf.Session(victim.cluster.target("worker")) as sess:  # A new session makes calls that take their time.
            assert sess.run(tf.constant(1.0) + 2.0) == 3.0
    finally:
        for caller in callers:
            caller.socket.close()


def test_calls_beyond_the_limit_are_answered_with_an_error(victim: Victim) -> None:
    task = b"/job:ps/replica:0/task:50"
    with victim.call() as caller:
        assert caller.shake_hands(_KEY, task=task, incarnation=7)
        joining = b"\x08\x65\x10\x02" + proto_text(3, proto_text(1, task) + b"\x18\x07")
        for number in range(1, 1003):
            caller.send(call_frame(number, b"join_group", joining))
        for number in (1001, 1002):
            kind, flags, answered, body = caller.read_frame()
            assert (kind, flags, answered) == (hostile.ANSWER, 1, number)
            assert b"has 1000 calls" in body and body[0] == tf.errors.RESOURCE_EXHAUSTED
    victim.check()


@pytest.mark.parametrize(
    ("host", "key", "warns"), [("0.0.0.0", "", True), ("0.0.0.0", "secret", False), ("localhost", "", False)]
)
def test_a_server_that_is_open_to_everybody_warns(
    host: str, key: str, warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def warning(message: str, *args: Any) -> None:
        said.append(message % args)

    monkeypatch.setattr("thalweg.dist.server.logging.warning", warning)
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", key)
    server = tf.train.Server({"local": [f"{host}:0"]})
    server.stop()
    assert [("is open to whoever reaches" in each and "THALWEG_CLUSTER_KEY" in each) for each in said] == [True] * warns


def test_a_server_tells_how_a_limit_is_named() -> None:
    from thalweg.dist.task_server import TaskServer

    cluster = tf.train.ClusterSpec({"local": ["localhost:0"]})
    TaskServer(cluster, "local", 0, limits={"calls": 5, "early_bytes": 1 << 20}).close()
    with pytest.raises(tf.errors.InvalidArgumentError, match="no limit 'speed'"):
        TaskServer(cluster, "local", 0, limits={"speed": 5})
