"""Steps of a peer that contradict themselves or each other are refused, with the reason, before a kernel runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf
from tests.planning.test_planned_step import CPU, on, pair, plan
from tests.planning.test_planned_step_bytes import node_of
from thalweg._native import core
from thalweg.planning import planned_step_bytes
from thalweg.planning.planned_step_bytes import from_bytes
from thalweg.runtime.install import install


def message(*fetches: Any, feeds: Any = ()) -> Any:
    return planned_step_bytes._to_proto(plan(*fetches, feeds=feeds))


def loop_step() -> Any:
    x, b = pair()
    with on(1):
        c = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.tanh(a)), (0, b))[1]
    return message(c, feeds=[x])


def arg(step: Any) -> Any:
    return node_of(step, "_Arg")


def remove(step: Any, op: str, name: str) -> None:
    del node_of(step, op).attr[name]


def second_arg(step: Any) -> None:
    graph = next(part.step_graph.graph for part in step.part if any(n.op == "_Arg" for n in part.step_graph.graph.node))
    graph.node.add().CopyFrom(arg(step))
    graph.node[-1].name = "another"


def say(step: Any, op: str, name: str, field: str, value: Any) -> None:
    setattr(node_of(step, op).attr[name], field, value)


def members(step: Any) -> None:
    node_of(step, "Tanh").attr["_members"].list.s.append(b"one")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: arg(d).input.append("^while/Merge"), "waits for|_arg"),
        (lambda d: setattr(d, "num_fetches", 2**31 - 1), "fetches"),
        (second_arg, "the same as another"),
        (lambda d: say(d, "_Arg", "index", "i", -1), "feed -1 of 1"),
        (lambda d: remove(d, "_Send", "tensor_name"), "tensor_name"),
        (lambda d: say(d, "_Recv", "tensor_type", "type", 2), "another element type"),
        (lambda d: say(d, "_Send", "recv_device", "i", 7), "recv_device"),
        (lambda d: remove(d, "Enter", "frame_name"), "lacks the attribute 'frame_name'"),
        (lambda d: say(d, "Enter", "frame_name", "i", 7), "7 for 'frame_name', which is string"),
        (lambda d: say(d, "Sum", "keep_dims", "s", b"yes"), "b'yes' for 'keep_dims'"),
        (lambda d: node_of(d, "Tanh").input.append("^b"), "waits for 'b'"),
        (lambda d: node_of(d, "Switch").input.append("^while/Exit_1"), "comes after it"),
        (members, "stands for"),
    ],
)  # fmt: skip
def test_a_graph_that_passes_and_core_could_not_rely_on_is_refused(change: Callable[[Any], None], reason: str) -> None:
    step = loop_step()
    from_bytes(step.SerializeToString())
    change(step)
    with pytest.raises(ValueError, match=reason):
        from_bytes(step.SerializeToString())


def test_the_ends_of_a_transfer_have_one_type() -> None:
    with on(0):
        a, c = tf.random_uniform([4], name="a"), tf.random_uniform([4], dtype=tf.float64, name="c")
    with on(1):
        step = message(tf.tanh(a, name="b"), tf.tanh(c))
    sends = [n for part in step.part for n in part.step_graph.graph.node if n.op == "_Send"]
    names = [bytes(send.attr["tensor_name"].s) for send in sends]
    for send, name in zip(sends, reversed(names), strict=True):
        send.attr["tensor_name"].s = name
    with pytest.raises(tf.errors.InvalidArgumentError, match="another element type"):
        install(core.Session([CPU(0), CPU(1)]), from_bytes(step.SerializeToString()))


@pytest.mark.parametrize("op", ["_Recv", "_Send"])
def test_only_floats_travel_in_16_bits(op: str) -> None:
    with on(0):
        a = tf.random_uniform([4], maxval=9, dtype=tf.int32)
    with on(1):
        step = message(tf.bitwise.invert(a))
    say(step, op, "_compress", "b", True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="only float32 is compressed"):
        install(core.Session([CPU(0), CPU(1)]), from_bytes(step.SerializeToString()))


def test_a_stateful_kernel_serves_nodes_of_its_own_types_only() -> None:
    session = core.Session([CPU(0), CPU(1)])
    for dtype, kernel_fits in ((tf.float32, True), (tf.float64, False), (tf.float32, True)):
        with tf.Graph().as_default():
            step = plan(tf.random_uniform([4], dtype=dtype, name="random"))
        if kernel_fits:
            assert install(session, step).compiled.run([])[0].shape == (4,)
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="node of that name in an earlier step"):
                install(session, step)


def test_a_node_outside_of_a_loop_that_waits_for_its_inside_is_refused_by_the_core() -> None:
    step = loop_step()
    graph = next(part.step_graph for part in step.part if part.device == CPU(1))
    exits = [f"^{node.name}" for node in graph.graph.node if node.op == "Exit"]
    for name, controls in (("inside", [f"^{node_of(step, 'LoopCond').name}"]), ("outside", ["^inside", *exits])):
        node = graph.graph.node.add(name=name, op="NoOp", input=controls, device=CPU(1))
        node.attr["_input_types"].list.SetInParent()
        node.attr["_output_types"].list.SetInParent()
        graph.target.append(name)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"outside.*different loops"):
        install(core.Session([CPU(0), CPU(1)]), from_bytes(step.SerializeToString()))
