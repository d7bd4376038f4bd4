"""Defun: names, types, captured inputs, overloads, copies of the surrounding graph, and refused arguments."""

from __future__ import annotations

from typing import Any

import pytest

import thalweg as tf
from tests.functions.calling import run
from thalweg.python.framework import function


def test_a_call_is_a_node_named_like_the_function() -> None:
    @function.Defun(tf.float32, tf.float32, func_name="Foo")
    def foo(x: Any, y: Any) -> Any:
        return x + y, x * y

    total, product = foo(2.0, 3.0)
    assert (total.op.type, total.op.name, product.name) == ("Foo", "Foo", "Foo:1")
    assert foo(1.0, 1.0)[0].op.name == "Foo_1"
    assert foo(1.0, 1.0, name="named")[0].op.name == "named"
    assert run([total, product]) == [5.0, 6.0]


def test_without_a_name_equal_bodies_have_equal_names() -> None:
    def body(x: Any) -> Any:
        return x + 1.0

    one, two = function.Defun(tf.float32)(body), function.Defun(tf.float32)(body)
    other = function.Defun(tf.int32)(lambda x: x + 1)
    assert one.name == two.name != other.name
    assert one.name.startswith("body_")
    assert run([one(1.0), two(2.0), other(3)]) == [2.0, 3.0, 4]


def test_a_function_lists_its_arguments_and_captures() -> None:
    c = tf.constant(3.0)
    v = tf.Variable(1.0)

    @function.Defun(tf.float32)
    def foo(x: Any) -> Any:
        return x * c + v

    assert foo.declared_input_types == (tf.float32,)
    assert foo.captured_inputs == [c, v.handle]
    assert foo.stateful_ops == [("add/ReadVariableOp", "ReadVariableOp")]
    assert foo.grad_func_name is None
    assert foo.python_grad_func is None
    assert [arg.name for arg in foo.definition.signature.input_arg] == ["x", "const", "variable"]
    assert run(foo(2.0)) == 7.0


def test_a_function_without_results_is_an_operation() -> None:
    v = tf.Variable(1.0)

    @function.Defun(tf.float32)
    def update(x: Any) -> None:
        v.assign_add(x)

    op = update(5.0)
    assert isinstance(op, tf.Operation)
    with tf.control_dependencies([op]):
        after = v.read_value()
    assert run(after) == 6.0


def test_a_function_of_nothing() -> None:
    assert run(function.Defun()(lambda: tf.constant(4.0))()) == 4.0


def test_a_function_of_any_number_of_arguments() -> None:
    add = function.Defun(*[tf.float32] * 3)(lambda *xs: tf.add_n(xs))
    assert run(add(1.0, 2.0, 3.0)) == 6.0


def test_without_types_there_is_a_function_for_each_combination() -> None:
    @function.Defun()
    def double(x: Any) -> Any:
        return x + x

    results = [double(tf.constant(2)), double(tf.constant(2.5)), double(tf.constant(3))]
    assert len({result.op.type for result in results}) == 2
    assert run(results) == [4, 5.0, 6]


def test_shape_func_gives_static_shapes() -> None:
    foo = function.Defun(tf.float32, shape_func=lambda op: [op.inputs[0].shape])(lambda x: tf.tanh(x))
    assert foo(tf.zeros([2, 3])).shape.as_list() == [2, 3]


def test_variables_of_a_body_are_shared_by_name() -> None:
    @function.Defun(tf.float32)
    def foo(x: Any) -> Any:
        return x * tf.get_variable("w", initializer=2.0)

    with tf.variable_scope("layer"):
        y = foo(3.0)
    with tf.variable_scope("layer", reuse=True):
        w = tf.get_variable("w")
    assert tf.global_variables() == [w]
    assert w.name == "layer/w:0"
    assert run(y) == 6.0


def test_capture_by_value_copies_what_is_around() -> None:
    c = tf.constant(2.0) * 3.0
    foo = function.Defun(tf.float32, capture_by_value=True)(lambda x: x + c)
    assert foo.captured_inputs == []
    assert run(foo(1.0)) == 7.0
    p, v = tf.placeholder(tf.float32), tf.Variable(1.0)
    for captured, match in ((p, "placeholder"), (v, "stateful")):
        with pytest.raises(ValueError, match=f"Cannot capture a {match}"):
            _use(captured)


def _use(captured: Any) -> None:
    def body(x: Any) -> Any:
        return x + captured

    assert function.Defun(tf.float32, capture_by_value=True)(body).name


def test_what_is_not_a_function_of_positional_arguments_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a callable"):
        function.Defun(tf.float32)(3)
    with pytest.raises(ValueError, match="not supported"):
        function.Defun(tf.float32)(lambda x=1: x)
    with pytest.raises(ValueError, match="not supported"):
        function.Defun(tf.float32)(lambda **kwargs: kwargs)
    with pytest.raises(ValueError, match="takes 2 to 2"):
        function.Defun(tf.float32)(lambda x, y: x)


def test_wrong_calls_are_refused() -> None:
    foo = function.Defun(tf.float32, func_name="Foo")(lambda x: x)
    with pytest.raises(ValueError, match="Expected 1 arguments to 'Foo', got 2"):
        foo(1.0, 2.0)
    with pytest.raises(ValueError, match="float32"):
        foo(tf.constant(1))
    with pytest.raises(ValueError, match="can not return None"):
        function.Defun(tf.float32)(lambda x: [x, None])(1.0)
    with pytest.raises(ValueError, match="1 out_names for 2 results"):
        function.Defun(tf.float32, out_names=["a"])(lambda x: (x, x))(1.0)
    with pytest.raises(ValueError, match="op with the same name"):
        function.Defun(tf.float32, func_name="MatMul")(lambda x: x)(1.0)


def test_captured_tensors_do_not_go_into_another_graph() -> None:
    c = tf.constant(2.0)
    foo = function.Defun(tf.float32, func_name="Foo")(lambda x: x * c)
    foo(1.0)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="another graph"):
        foo(1.0)


def test_a_function_without_captures_serves_several_graphs() -> None:
    inner = function.Defun(tf.float32, func_name="Inner")(lambda x: x * 2.0)
    outer = function.Defun(tf.float32, func_name="Outer")(lambda x: inner(x) + 1.0)
    for _ in range(2):
        with tf.Graph().as_default() as graph:
            result = outer(3.0)
            assert run(result) == 7.0
            names = {f.signature.name for f in graph.as_graph_def().library.function}
            assert names == {"Inner", "Outer"}
