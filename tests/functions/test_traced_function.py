"""tf.function in graphs: one trace for each kind of arguments, structures in and out, methods, signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.functions.calling import new_session, run


def test_a_call_adds_one_node_and_equal_calls_share_a_trace() -> None:
    traces = []

    @tf.function
    def double(x: Any) -> Any:
        traces.append(x)
        return x * 2.0

    one, two = double(tf.constant(1.0)), double(tf.constant(2.0))
    assert one.op.type == "PartitionedCall"
    assert one.op.get_attr("f") == two.op.get_attr("f")
    assert len(traces) == 1
    double(tf.constant([1.0]))
    double(tf.constant([1.0, 2.0]))
    assert len(traces) == 3
    assert run([one, two]) == [2.0, 4.0]


def test_other_values_of_plain_arguments_are_other_traces() -> None:
    @tf.function
    def power(x: Any, n: int = 2, negate: bool = False) -> Any:
        return tf.pow(x, n) * (-1.0 if negate else 1.0)

    x = tf.constant(3.0)
    assert run([power(x), power(x, 3), power(x, negate=True), power(n=1, x=x)]) == [9.0, 27.0, -9.0, 3.0]


def test_structures_go_in_and_come_out() -> None:
    @tf.function
    def swapped(pair: Any, *, scale: Any) -> Any:
        return {"b": pair["a"] * scale, "a": [pair["b"], None]}

    result = swapped({"a": tf.constant(1.0), "b": np.array([2.0], np.float32)}, scale=tf.constant(5.0))
    assert result["a"][1] is None
    assert run([result["b"], result["a"][0]]) == [5.0, [2.0]]


def test_a_sparse_tensor_is_a_result() -> None:
    @tf.function
    def sparse(x: Any) -> Any:
        return tf.SparseTensor([[1]], [x], [3])

    result = sparse(tf.constant(7.0))
    assert isinstance(result, tf.SparseTensor)
    assert run(tf.sparse.to_dense(result)).tolist() == [0.0, 7.0, 0.0]


def test_methods_have_traces_for_each_object_and_variables_train() -> None:
    class Scale(tf.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.factor = tf.Variable(factor)

        @tf.function
        def __call__(self, x: Any) -> Any:
            return x * self.factor

    two, three = Scale(2.0), Scale(3.0)
    x = tf.constant(10.0)
    results = [two(x), three(x)]
    grads = tf.gradients(results, [two.factor, three.factor])
    assert run([*results, *grads]) == [20.0, 30.0, 10.0, 10.0]


def test_effects_happen_in_order() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def update(x: Any) -> Any:
        v.assign_add(x)
        v.assign(v * 2.0)
        return v.read_value()

    assert run(update(tf.constant(3.0))) == 8.0


def test_an_input_signature_is_one_trace_for_all_that_fit_it() -> None:
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def total(x: Any) -> Any:
        traces.append(x.shape.as_list())
        return tf.reduce_sum(x)

    assert run([total([1.0, 2.0]), total(tf.constant([5.0]))]) == [3.0, 5.0]
    assert traces == [[None]]
    with pytest.raises(ValueError, match="incompatible with input_signature"):
        total(tf.constant(1.0))


def test_a_concrete_function_is_called_by_position_and_by_name() -> None:
    @tf.function
    def subtract(x: Any, y: Any) -> Any:
        return x - y

    spec = tf.TensorSpec([], tf.float32)
    concrete = subtract.get_concrete_function(spec, spec)
    assert concrete.argument_names == ["x", "y"]
    assert run([concrete(5.0, 2.0), concrete(y=5.0, x=2.0)]) == [3.0, -3.0]
    with pytest.raises(TypeError, match="takes 2 tensors, got 1"):
        concrete(1.0)
    with pytest.raises(TypeError, match="no arguments z"):
        concrete(1.0, 2.0, z=3.0)


def test_functions_call_functions_and_capture_what_is_around_them() -> None:
    c = tf.placeholder(tf.float32, [])

    @tf.function
    def inner(x: Any) -> Any:
        return x * c

    @tf.function
    def outer(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, inner(v)), (0, x))[1] + c

    y = outer(tf.constant(1.0))
    with new_session() as session:
        assert session.run([y, tf.gradients(y, c)[0]], {c: 2.0}) == [10.0, 13.0]


def test_each_graph_has_traces_of_its_own() -> None:
    @tf.function
    def double(x: Any) -> Any:
        return x * 2.0

    for _ in range(2):
        with tf.Graph().as_default(), new_session() as session:
            assert session.run(double(tf.constant(4.0))) == 8.0
