"""Functions in the library of a GraphDef: out and in again, and FunctionDefs that do not describe a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensorboard.compat.proto.function_pb2 import FunctionDef

import thalweg as tf
from tests.functions.calling import FLOAT, call, new_session, run
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.python.framework import function


def again(graph_def: Any) -> Any:
    """Imports a GraphDef into a new graph, which becomes the default graph."""
    tf.reset_default_graph()
    tf.import_graph_def(graph_def, name="")
    return tf.get_default_graph()


def build() -> None:
    v = tf.Variable(10.0, name="v")
    c = tf.constant([1.0, 2.0], name="c")

    @function.Defun(tf.float32, tf.float32, func_name="Inner", out_names=["total", "parts"])
    def inner(x: Any, y: Any) -> Any:
        return tf.add_n([x, y, c]), tf.split(x, 2)[1]

    @function.Defun(tf.float32, func_name="Outer")
    def outer(x: Any) -> Any:
        total, part = inner(x, x * v)
        looped = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s + total), (0, total))[1]
        return looped, tf.cond(part[0] > 1.0, lambda: part * 2.0, lambda: part)

    outer([3.0, 4.0], name="calls")


def test_a_graph_with_functions_survives_export_and_import() -> None:
    build()
    before = tf.get_default_graph().as_graph_def()
    assert {f.signature.name for f in before.library.function} == {"Inner", "Outer"}
    values = run(["calls:0", "calls:1"])
    np.testing.assert_allclose(values[0], [136.0, 184.0])
    np.testing.assert_allclose(values[1], [8.0])
    graph = again(before)
    assert graph.as_graph_def() == before
    with new_session() as session:
        session.run("v/Assign")
        for mine, theirs in zip(session.run(["calls:0", "calls:1"]), values, strict=True):
            np.testing.assert_allclose(mine, theirs)


def test_a_function_def_says_what_tensorflow_s_says() -> None:
    @function.Defun(tf.float32, tf.int32, func_name="F", out_names=["out", "two"])
    def f(x: Any, axis: Any) -> Any:
        parts = tf.split(x, 2)
        with tf.control_dependencies([parts[0]]):
            return tf.reduce_sum(parts[1], axis), x

    definition = f.definition
    assert [(arg.name, arg.type) for arg in definition.signature.input_arg] == [("x", 1), ("axis", 3)]
    assert [(arg.name, arg.type) for arg in definition.signature.output_arg] == [("out", 1), ("two", 1)]
    nodes = {node.name: node for node in definition.node_def}
    assert list(nodes["split"].input) == ["split/split_dim:output:0", "x"]
    assert list(nodes["Sum"].input) == ["split:output:1", "axis"]
    assert dict(definition.ret) == {"out": "Sum:output:0", "two": "x"}
    assert not definition.signature.is_stateful


def test_an_imported_graph_with_functions_can_be_differentiated() -> None:
    @function.Defun(tf.float32, func_name="Squared")
    def square(x: Any) -> Any:
        return x * x

    x = tf.placeholder(tf.float32, [], name="x")
    tf.gradients(square(x, name="y"), x)
    again(tf.get_default_graph().as_graph_def())
    graph = tf.get_default_graph()
    (grad,) = tf.gradients(graph.get_tensor_by_name("y:0"), graph.get_tensor_by_name("x:0"))
    assert run([grad, "gradients/y_grad/SymbolicGradient:0"], {"x:0": 3.0}) == [6.0, 6.0]


def test_functional_ops_survive_export_and_import() -> None:
    specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)]
    cond = trace(lambda i, v: i < 3, specs)
    body = trace(lambda i, v: (i + 1, v * 2.0), specs)
    apply("StatelessWhile", [0, 5.0], cond=cond, body=body, name="loop")
    again(tf.get_default_graph().as_graph_def())
    assert run("loop:1") == 40.0


def test_a_function_under_a_prefix_is_the_same_function() -> None:
    build()
    graph_def = tf.get_default_graph().as_graph_def()
    tf.import_graph_def(graph_def, name="again")
    assert run("again/calls:1", {"again/calls:1": [1.0]}) == [1.0]


def test_a_different_function_of_the_same_name_is_refused() -> None:
    def graph_with(factor: float) -> Any:
        with tf.Graph().as_default() as graph:
            function.Defun(tf.float32, func_name="F")(lambda x: x * factor)(1.0)
        return graph.as_graph_def()

    tf.import_graph_def(graph_with(2.0))
    with pytest.raises(ValueError, match="different function with the same name"):
        tf.import_graph_def(graph_with(3.0), name="other")
    tf.import_graph_def(graph_with(2.0), name="third")


def polymorphic() -> Any:
    """A function of any type T and any number N of arguments, as TensorFlow's C++ library makes them."""
    definition = FunctionDef()
    signature = definition.signature
    signature.name = "Total"
    signature.attr.add(name="T", type="type")
    signature.attr.add(name="N", type="int")
    signature.input_arg.add(name="xs", type_attr="T", number_attr="N")
    signature.output_arg.add(name="y", type_attr="T")
    node = definition.node_def.add(name="sum", op="AddN", input=["xs"])
    node.attr["T"].placeholder = "T"
    node.attr["N"].placeholder = "N"
    definition.ret["y"] = "sum:sum:0"
    return definition


def test_a_polymorphic_function_is_used_with_several_types() -> None:
    graph_def = tf.GraphDef()
    graph_def.versions.producer = 27
    graph_def.library.function.append(polymorphic())
    for name, dtype, count in (("a", tf.float32, 2), ("b", tf.int32, 3)):
        node = graph_def.node.add(name=f"{name}_in", op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node = graph_def.node.add(name=name, op="Total", input=[f"{name}_in"] * count)
        node.attr["T"].type = dtype.as_datatype_enum
        node.attr["N"].i = count
    again(graph_def)
    assert run(["a:0", "b:0"], {"a_in:0": 1.5, "b_in:0": 2}) == [3.0, 6]


# FunctionDefs that do not describe a function.


def plain() -> Any:
    """Negation, and a node that calls it."""
    graph_def = tf.GraphDef()
    graph_def.versions.producer = 27
    definition = graph_def.library.function.add()
    definition.signature.name = "F"
    definition.signature.input_arg.add(name="x", type=1)
    definition.signature.output_arg.add(name="y", type=1)
    definition.node_def.add(name="n", op="Neg", input=["x"]).attr["T"].type = 1
    definition.ret["y"] = "n:y:0"
    graph_def.node.add(name="in", op="Placeholder").attr["dtype"].type = 1
    graph_def.node.add(name="call", op="F", input=["in"])
    return graph_def


def test_the_plain_function_is_right() -> None:
    again(plain())
    assert run("call:0", {"in:0": 4.0}) == -4.0


def _missing_input(f: Any) -> None:
    f.node_def[0].input[0] = "nowhere:y:0"


def _missing_output(f: Any) -> None:
    f.node_def[0].input[0] = "n:z:0"


def _number_too_large(f: Any) -> None:
    f.node_def[0].input[0] = "x:7"


def _cycle(f: Any) -> None:
    f.node_def[0].input[0] = "n:y:0"


def _wrong_result(f: Any) -> None:
    f.ret["y"] = "m:y:0"


def _no_result(f: Any) -> None:
    del f.ret["y"]


def _wrong_type(f: Any) -> None:
    f.signature.output_arg[0].type = 3


def _wrong_argument_type(f: Any) -> None:
    f.node_def[0].attr["T"].type = 3


def _wrong_arity(f: Any) -> None:
    f.node_def[0].input.append("x")


def _unknown_op(f: Any) -> None:
    f.node_def[0].op = "NoSuchOp"


def _unknown_attr(f: Any) -> None:
    f.node_def[0].attr["T"].placeholder = "Nobody"


def _two_of_a_name(f: Any) -> None:
    f.node_def.add().CopyFrom(f.node_def[0])


def _unknown_control(f: Any) -> None:
    f.node_def[0].input.append("^ghost")


def _unknown_control_result(f: Any) -> None:
    f.control_ret["c"] = "ghost"


def _no_type(f: Any) -> None:
    f.node_def[0].ClearField("attr")


HOSTILE = [
    _missing_input, _missing_output, _number_too_large, _cycle, _wrong_result, _no_result, _wrong_type,
    _wrong_argument_type, _wrong_arity, _unknown_op, _unknown_attr, _two_of_a_name, _unknown_control,
    _unknown_control_result, _no_type,
]  # fmt: skip


@pytest.mark.parametrize("damage", HOSTILE, ids=lambda f: f.__name__)
def test_a_damaged_function_is_refused_by_name(damage: Callable[[Any], None]) -> None:
    graph_def = plain()
    damage(graph_def.library.function[0])
    again(graph_def)
    with pytest.raises(tf.errors.OpError, match="'F'"):
        run("call:0", {"in:0": 4.0})


def test_damaged_signatures_are_refused_at_once() -> None:
    for damage in (
        lambda s: s.input_arg[0].ClearField("type"),
        lambda s: s.input_arg.add(name="x", type=1),
        lambda s: setattr(s.input_arg[0], "type_attr", "T"),
        lambda s: setattr(s, "name", "MatMul"),
        lambda s: setattr(s, "name", ""),
    ):
        graph_def = plain()
        damage(graph_def.library.function[0].signature)
        tf.reset_default_graph()
        with pytest.raises((ValueError, tf.errors.NotFoundError)):
            tf.import_graph_def(graph_def, name="")
        assert tf.get_default_graph().get_operations() == []
        assert tf.get_default_graph().as_graph_def().library.function == []


def test_a_call_with_other_arguments_than_the_function_s_is_refused() -> None:
    graph_def = plain()
    graph_def.node[1].input.append("in")
    with pytest.raises(ValueError, match="call"):
        again(graph_def)


def test_an_undefined_function_in_an_attribute_is_refused_when_it_is_run() -> None:
    p = tf.placeholder(tf.bool, [])
    result = apply("If", p, [1.0], then_branch="nowhere", else_branch="elsewhere", Tout=[tf.float32])
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        run(result, {p: True})


def test_functions_that_call_each_other_twice_do_not_grow_without_end() -> None:
    inner = trace(lambda x: x + 1.0, [FLOAT])
    for _ in range(30):
        last = inner
        inner = trace(lambda x, last=last: call(last, call(last, x)[0])[0], [FLOAT])
    with pytest.raises(tf.errors.DeadlineExceededError):
        with new_session() as session:
            session.run(call(inner, 0.0), options=tf.RunOptions(timeout_in_ms=200))
