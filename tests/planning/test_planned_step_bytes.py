"""Planned steps as bytes: the same step comes back, and invalid bytes are refused with a reason."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.devices.random_graphs import GraphMaker
from tests.planning.test_planned_step import CPU, on, pair, plan
from thalweg.graph.source_location import source_line
from thalweg.planning.planned_step import PlannedStep
from thalweg.planning.planned_step_bytes import describe, from_bytes, to_bytes


def comparable(step: PlannedStep) -> Any:
    """A step with arrays, sources and the order of attributes in a form that == compares."""

    def value(each: Any) -> Any:
        if isinstance(each, np.ndarray):
            return each.dtype.str, each.shape, each.tobytes() if not each.dtype.hasobject else each.tolist()
        return [value(item) for item in each] if isinstance(each, list) else each

    def graph(each: Any) -> Any:
        nodes = [
            node._replace(
                attrs={key: value(node.attrs[key]) for key in sorted(node.attrs)}, source=source_line(node.source) or ""
            )
            for node in each.nodes.values()
        ]
        return nodes, each.feeds, each.fetches, each.targets

    parts = {
        device: (graph(part.graph), part.feeds, part.fetches, dict(part.priorities), part.delays)
        for device, part in step.parts.items()
    }
    functions = {name: (graph(each.graph), each.output_dtypes) for name, each in step.functions.items()}
    flags = step.feeds, step.num_fetches, step.options, step.changes_resources, step.expected_seconds
    return parts, functions, flags


def check(step: PlannedStep) -> PlannedStep:
    data = to_bytes(step)
    read = from_bytes(data)
    assert comparable(read) == comparable(step)
    assert to_bytes(read) == data
    return read


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_come_back(seed: int) -> None:
    maker = GraphMaker(seed, 3)
    check(plan(*maker.fetches, count=3))


def test_functions_types_and_long_numbers_come_back() -> None:
    @tf.experimental.Defun(tf.float32, func_name="Inner", noinline=True)
    def inner(x: Any) -> Any:
        return tf.tanh(x)

    @tf.experimental.Defun(tf.float32, func_name="Outer", noinline=True)
    def outer(x: Any) -> Any:
        return inner(x) + 1.0

    x, b = pair()
    fetches = [
        outer(b),
        tf.as_string(b),
        tf.constant([b"\x00\xff", b"two"]),
        tf.constant(1.5, tf.bfloat16),
        tf.nn.fused_batch_norm(tf.reshape(x, [1, 4, 8, 1]), [1.0], [0.0], epsilon=0.00123456789)[0],
        tf.cast(b, tf.complex64),
    ]
    read = check(plan(*fetches, feeds=[x]))
    assert sorted(read.functions) == ["Inner", "Outer"]
    assert read.placed is None
    norm = next(n for part in read.parts.values() for n in part.graph.nodes.values() if n.op.startswith("FusedBatch"))
    assert norm.attrs["epsilon"] == 0.00123456789, "A float of 64 bits is not rounded."


def test_a_step_can_be_looked_at() -> None:
    x, b = pair()
    text = describe(plan(b, feeds=[x]))
    assert 'name: "a/_0/job_localhost_replica_0_task_0_device_CPU_1/_send"' in text
    assert "test_planned_step.py" in text, "the line that made a node"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.ClearField("part"), "has no parts"),
        (lambda d: setattr(d, "version", 99), "version 99"),
        (lambda d: d.part[0].step_graph.graph.node[0].ClearField("attr"), "which types"),
        (lambda d: d.part[0].step_graph.graph.node[-1].input.append("nowhere:3"), "types for"),
        (lambda d: d.part[0].step_graph.graph.node[-1].input.append("^nowhere"), "waits for 'nowhere'"),
        (lambda d: d.part[0].step_graph.graph.node.append(d.part[0].step_graph.graph.node[0]), "Two nodes"),
        (lambda d: d.part[0].feed_position.append(7), "feeds"),
        (lambda d: d.part[0].fetch_position.append(0), "fetches"),
        (lambda d: d.part[0].step_graph.target.append("nobody"), "target 'nobody'"),
        (lambda d: d.part[0].priority.update({"a": float("nan")}), "priority"),
        (lambda d: setattr(d.feed[0], "dtype", 9999), "9999"),
    ],
)  # fmt: skip
def test_a_step_that_contradicts_itself_is_refused(change: Any, message: str) -> None:
    from thalweg.planning import planned_step_bytes as module

    x, b = pair()
    proto = module._to_proto(plan(b, feeds=[x]))
    change(proto)
    with pytest.raises(ValueError, match=message):
        from_bytes(proto.SerializeToString())


def node_of(proto: Any, op: str) -> Any:
    return next(n for part in proto.part for n in part.step_graph.graph.node if n.op == op)


def retype(proto: Any, op: str, attr: str, dtype: tf.DType) -> None:
    """Gives an attribute of the node of that type, or all elements of it, another element type."""
    value = node_of(proto, op).attr[attr]
    if value.HasField("list"):
        value.list.type[:] = [dtype.as_datatype_enum] * len(value.list.type)
    else:
        value.type = dtype.as_datatype_enum


def retype_edge(proto: Any, source: str, reader: str, dtype: tf.DType) -> None:
    """Both ends of an edge agree on a type that is not that of the op's output."""
    retype(proto, source, "_output_types", dtype)
    retype(proto, reader, "_input_types", dtype)
    retype(proto, reader, "T", dtype)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: retype_edge(d, "Tanh", "_Send", tf.float64), r"op Tanh.*outputs of types \[float64\].*\[float32\]"),
        (lambda d: retype(d, "Tanh", "T", tf.float64), r"op Tanh.*inputs of types \[float32\].*\[float64\]"),
        (lambda d: retype(d, "Tanh", "T", tf.string), "op Tanh.*string"),
        (lambda d: node_of(d, "Tanh").attr.pop("T"), "op Tanh.*missing or invalid"),
        (lambda d: retype(d, "Sum", "Tidx", tf.int64), "op Sum.*inputs"),
        (lambda d: retype_edge(d, "_Arg", "Tanh", tf.float16), "_arg.*float16.*float32|float16.*float32"),
        (lambda d: setattr(node_of(d, "Tanh"), "op", "_FusedElementwise"), "cannot be part of a planned step"),
        (lambda d: setattr(node_of(d, "Tanh"), "op", "NoSuchOp"), "'NoSuchOp', which cannot be part"),
        (lambda d: setattr(d.part[0].step_graph.feed[0], "dtype", tf.int32.as_datatype_enum), "float32.*int32"),
    ],
)  # fmt: skip
def test_types_that_are_not_those_of_the_op_are_refused(change: Any, message: str) -> None:
    from thalweg.planning import planned_step_bytes as module

    x, b = pair()
    proto = module._to_proto(plan(b, feeds=[x]))
    change(proto)
    with pytest.raises(ValueError, match=message):
        from_bytes(proto.SerializeToString())


def test_damaged_bytes_are_refused_or_give_a_step() -> None:
    x, b = pair()
    with on(1):
        c = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a)), (0, b))[1]
    data = to_bytes(plan(c, feeds=[x]))
    numbers = random.Random(5)
    refused = 0
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(numbers.randint(1, 4)):
            damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
        if numbers.random() < 0.3:
            del damaged[numbers.randrange(len(damaged)) :]
        try:
            assert isinstance(from_bytes(bytes(damaged)), PlannedStep)
        except ValueError:
            refused += 1
    assert refused > 30
    for garbage in (b"", b"\x00", b"not a step" * 50):
        with pytest.raises(ValueError):
            from_bytes(garbage)


def test_the_order_of_the_parts_stays() -> None:
    x, b = pair()
    assert list(from_bytes(to_bytes(plan(b, feeds=[x]))).parts) == [CPU(0), CPU(1)]
