"""A peer that has proved the key sends steps that contradict themselves, and tensors that no step expects."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import thalweg as tf
from tests.dist import hostile
from tests.dist.hostile import Caller, call_frame, frame
from tests.dist.processes import Processes
from tests.fuzz import hostile_steps
from thalweg.dist.messages import messages
from thalweg.passes.options import PassOptions
from thalweg.placement.place import Device
from thalweg.placement.placer import Placer
from thalweg.planning.plan_step import Planner
from thalweg.planning.planned_step_bytes import to_bytes
from thalweg.runtime.install import evaluate, local_kernels, supports

pytestmark = pytest.mark.processes
_KEY = b"the key of this test"
_HERE = "/job:worker/replica:0/task:0/device:CPU:0"
_ELSEWHERE = "/job:ps/replica:0/task:0/device:CPU:0"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Processes]:
    with Processes(environment={"THALWEG_CLUSTER_KEY": _KEY.decode()}, worker=1) as processes:
        yield processes


@pytest.fixture
def caller(cluster: Processes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    """A connection of a process that knows the key; at the end the task still serves an honest client."""
    monkeypatch.setenv("THALWEG_CLUSTER_KEY", _KEY.decode())
    with Caller(cluster.jobs["worker"][0]) as found:
        assert found.shake_hands(_KEY)
        yield found
    x = tf.placeholder(tf.float32, [])
    with tf.Session(cluster.target("worker")) as session:
        assert session.run(x * 2.0, {x: 4.0}) == 8.0


def call(caller: Caller, method: str, request: Any, answer: str) -> Any:
    """The answer to a call; None if it is an error."""
    caller.send(call_frame(7, method.encode(), request.SerializeToString()))
    kind, flags, number, body = caller.read_frame()
    assert (kind, number) == (hostile.ANSWER, 7)
    return None if flags else messages()[answer].FromString(body)


@pytest.mark.parametrize("field", ["graph", "config"])
def test_a_session_of_bytes_that_cannot_be_read_is_an_invalid_argument(caller: Caller, field: str) -> None:
    request = messages()["CreateRequest"](**{field: b"\xff\xff"})
    caller.send(call_frame(7, b"create_session", request.SerializeToString()))
    _, flags, _, body = caller.read_frame()
    assert flags == 1 and body[0] == tf.errors.INVALID_ARGUMENT
    assert b"cannot be read" in body


def register(caller: Caller, data: bytes) -> int | None:
    """The number of a registered step; None if it is refused."""
    request = messages()["RegisterRequest"](session="a session", step=data)
    registered = call(caller, "register", request, "Registered")
    return None if registered is None else int(registered.number)


def test_steps_with_any_content_are_refused_or_run(caller: Caller) -> None:
    known = {
        name: text_format.MessageToString(step).replace(hostile_steps.DEVICES[0], _HERE)
        for name, step in hostile_steps.programs(1).items()
        if name not in ("_queues",)  # It may wait for ever.
    }
    refused = ended = 0
    for seed in range(150):
        rng = random.Random(seed)
        step = hostile_steps.empty_step()
        text_format.Parse(known[rng.choice(sorted(known))], step)
        number = register(caller, hostile_steps.mutated(step, rng).SerializeToString())
        if number is None:
            refused += 1
            continue
        caller.send(frame(hostile.RUN, step=seed + 1, number=number))
        caller.send(frame(hostile.CANCEL, step=seed + 1, body=struct.pack("<B", 1) + hostile.text(b"enough") * 3))
        kind, _, _, _ = caller.read_frame()
        assert kind == hostile.DONE
        ended += 1
    assert min(refused, ended) > 20


def receiving_step(incarnation: int, sender: int) -> tuple[bytes, int]:
    """A step that receives a float32 from a task that is not there; and the key of that tensor."""
    devices = [Device(_HERE, "CPU", incarnation=incarnation), Device(_ELSEWHERE, "CPU", incarnation=sender)]
    planner = Planner(Placer(devices, soft=True), PassOptions(), evaluate, local_kernels, supports)
    with tf.Graph().as_default() as graph:
        with tf.device(_ELSEWHERE):
            x = tf.random_uniform([1000])
        with tf.device(_HERE):
            y = tf.tanh(x)
        step = planner.plan(graph, [], [y], [])
    transfer = step.transfers[0]
    hashed = 0xCBF29CE484222325
    for byte in f"{_ELSEWHERE};{sender:016x};{_HERE};{transfer.tensor}".encode():
        hashed = (hashed ^ byte) * 0x100000001B3 % (1 << 64)
    return to_bytes(step.restricted([_HERE])), hashed


def tensor(step: int, key: int, dtype: tf.DType, count: int, elements: bytes) -> bytes:
    """A frame with one vector."""
    descriptor = struct.pack("<BBBBq", dtype.as_datatype_enum, 1, 0, 0, count)
    return frame(hostile.TENSOR, step, key, descriptor + bytes(16), 1, elements)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("dtype", [tf.float32, tf.uint8, tf.float64, tf.bool])
def test_a_tensor_of_another_type_than_the_step_expects_is_an_error(
    caller: Caller, dtype: tf.DType, early: bool
) -> None:
    status = call(caller, "status", messages()["Empty"](), "Status")
    data, key = receiving_step(status.device[0].incarnation, 99)
    number = register(caller, data)
    assert number is not None
    step = 1000 + 2 * dtype.as_datatype_enum + early
    values = np.ones(1000, dtype.as_numpy_dtype)
    frames = [frame(hostile.RUN, step=step, number=number), tensor(step, key, dtype, 1000, values.tobytes())]
    for each in reversed(frames) if early else frames:
        caller.send(each)
    kind, flags, _, body = caller.read_frame()
    assert (kind, flags) == (hostile.DONE, int(dtype is not tf.float32))
    if dtype is not tf.float32:
        assert f"arrived as {dtype.name}, expected float32".encode() in body
