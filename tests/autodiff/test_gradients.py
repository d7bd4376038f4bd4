"""tf.gradients on straight-line graphs: arguments, errors, overrides, and graphs of many ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def run(fetch: object, feeds: object = None) -> object:
    with tf.Session() as s:
        s.run(tf.global_variables_initializer())
        return s.run(fetch, feeds)


def test_derivatives_with_respect_to_inputs_and_intermediates() -> None:
    x = tf.constant(3.0)
    y = x * x
    z = y * y + x
    assert run(tf.gradients(z, [x, y])) == [4 * 27 + 1, 18.0]


def test_several_ys_are_summed_and_grad_ys_weigh_them() -> None:
    x = tf.constant(2.0)
    assert run(tf.gradients([x * x, 3.0 * x], x)) == [7.0]
    assert run(tf.gradients([x * x, 3.0 * x], x, grad_ys=[10.0, tf.constant(1.0)])) == [43.0]
    assert run(tf.gradients([x * x, 3.0 * x], x, grad_ys=[None, tf.constant(2.0)])) == [10.0]


def test_a_tensor_is_its_own_derivative() -> None:
    x = tf.constant([1.0, 2.0])
    np.testing.assert_array_equal(run(tf.gradients(x, x)[0]), [1.0, 1.0])


def test_stop_gradients_hold_tensors_constant() -> None:
    a = tf.constant(0.0)
    b = 2.0 * a
    assert run(tf.gradients(a + b, [a, b])) == [3.0, 1.0]
    assert run(tf.gradients(a + b, [a, b], stop_gradients=[a, b])) == [1.0, 1.0]


def test_unconnected_gradients_are_none_or_zeros() -> None:
    x, y = tf.ones([2, 3]), tf.constant(1.0)
    assert tf.gradients(y * 2.0, x) == [None]
    zeros = tf.gradients(y * 2.0, x, unconnected_gradients=tf.UnconnectedGradients.ZERO)[0]
    np.testing.assert_array_equal(run(zeros), np.zeros((2, 3)))
    assert tf.gradients(y * 2.0, x, unconnected_gradients="none") == [None]
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients"):
        tf.gradients(y, x, unconnected_gradients="nonsense")


def test_integers_cut_the_path() -> None:
    x = tf.constant(2.7)
    assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32) * 2.0, x) == [None]


def test_wrong_arguments_are_refused() -> None:
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="2 grad_ys for 1 ys"):
        tf.gradients(x * x, x, grad_ys=[x, x])
    with pytest.raises(TypeError, match="complex"):
        tf.gradients(tf.constant(1j) * tf.constant(2j), tf.constant(1j))
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="same graph"):
        tf.gradients(x * x, [x, other])


def test_an_op_without_gradient_is_named() -> None:
    x = tf.constant([1.0])
    with tf.get_default_graph().gradient_override_map({"Identity": "NobodyRegisteredThis"}):
        y = tf.identity(x)
    with pytest.raises(LookupError, match="NobodyRegisteredThis"):
        tf.gradients(y, x)


def test_gradient_override_map_and_register_gradient() -> None:
    @tf.RegisterGradient("TestTimesHundred")
    def _hundred(op: object, grad: tf.Tensor) -> tf.Tensor:
        return grad * 100.0

    x = tf.constant(1.0)
    with tf.get_default_graph().gradient_override_map({"Identity": "TestTimesHundred"}):
        y = tf.identity(x)
    assert run(tf.gradients(y * 2.0, x)) == [200.0]


def test_variables_and_aggregation() -> None:
    v = tf.Variable([1.0, 2.0])
    y = tf.reduce_sum(v * v) + tf.reduce_sum(v) + tf.reduce_sum(3.0 * v)
    for method in (None, tf.AggregationMethod.ADD_N, tf.AggregationMethod.EXPERIMENTAL_TREE):
        np.testing.assert_allclose(run(tf.gradients(y, v, aggregation_method=method)[0]), [6.0, 8.0])


def test_rows_gathered_twice_stay_slices() -> None:
    v = tf.Variable(np.ones((4, 2), np.float32))
    y = tf.reduce_sum(tf.gather(v, [0, 1])) + 2.0 * tf.reduce_sum(tf.gather(v, [1, 3]))
    (grad,) = tf.gradients(y, v)
    assert isinstance(grad, tf.IndexedSlices)
    np.testing.assert_allclose(run(tf.convert_to_tensor(grad))[:, 0], [1.0, 3.0, 0.0, 2.0])


def test_gate_and_colocate() -> None:
    x, y = tf.constant(2.0), tf.constant(3.0)
    assert run(tf.gradients(x * y, [x, y], gate_gradients=True, colocate_gradients_with_ops=True)) == [3.0, 2.0]


def test_a_chain_of_twenty_thousand_ops() -> None:
    x = tf.constant(1.0)
    y = x
    for _ in range(20000):
        y = -y
    assert run(tf.gradients(y, x)) == [1.0]


def test_diamonds_are_visited_once() -> None:
    x = tf.constant(1.0)
    y = x
    for _ in range(60):
        y = y + y
    before = len(tf.get_default_graph().get_operations())
    (grad,) = tf.gradients(y, x)
    assert len(tf.get_default_graph().get_operations()) - before < 500
    assert run(grad) == 2.0**60


def test_the_result_has_the_static_shape_of_x() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    assert tf.gradients(tf.reduce_sum(tf.tanh(x)), x)[0].shape.as_list() == [None, 3]


def test_hessians() -> None:
    x = tf.constant([1.0, 2.0])
    y = tf.constant([[3.0]])
    hx, hy = tf.hessians(tf.reduce_sum(x * x * x) * tf.reduce_sum(y * y), [x, y])
    assert hx.shape.as_list() == [2, 2] and hy.shape.as_list() == [1, 1, 1, 1]
    got_x, got_y = run([hx, hy])
    np.testing.assert_allclose(got_x, [[54.0, 0.0], [0.0, 108.0]])
    np.testing.assert_allclose(got_y, [[[[18.0]]]])


def test_hessians_by_variables() -> None:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    m = tf.get_variable("m", initializer=[[3.0, 1.0]])
    hv, hm = tf.hessians(tf.reduce_sum(v**3) * tf.reduce_sum(m[:, :1] ** 2), [v, m])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got_v, got_m = session.run([hv, hm])
    np.testing.assert_allclose(got_v, [[54.0, 0.0], [0.0, 108.0]])
    np.testing.assert_allclose(got_m.reshape(2, 2), [[18.0, 0.0], [0.0, 0.0]])


def test_hessians_by_a_variable_in_a_conditional() -> None:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    (h,) = tf.hessians(tf.reduce_sum(tf.cond(v[0] > 0.0, lambda: v**3, lambda: v**2)), v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_allclose(session.run(h), [[6.0, 0.0], [0.0, 12.0]])


def test_a_loop_that_could_not_be_built_does_not_disturb_later_gradients() -> None:
    v = tf.get_variable("v", initializer=[1.0, 2.0])
    with pytest.raises(ValueError):
        tf.while_loop(lambda i: i < 3, lambda i: tf.reshape(v, [7]), [0])
    (grad,) = tf.gradients(v * 3.0, v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(grad).tolist() == [3.0, 3.0]


def test_hessians_of_unknown_size() -> None:
    x = tf.placeholder(tf.float32, [None])
    (h,) = tf.hessians(tf.reduce_sum(x) * tf.reduce_sum(x * x), x)
    np.testing.assert_allclose(run(h, {x: [1.0, 2.0]}), [[10.0, 6.0], [6.0, 14.0]])


def test_custom_gradient() -> None:
    @tf.custom_gradient
    def clipped(x: tf.Tensor) -> object:
        return x * x, lambda dy: tf.minimum(dy * 2.0 * x, 1.0)

    x = tf.constant([0.25, 5.0])
    np.testing.assert_allclose(run(tf.gradients(clipped(x), x)[0]), [0.5, 1.0])


def test_custom_gradient_of_several_arguments_and_variables() -> None:
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scaled(x: tf.Tensor, y: tf.Tensor) -> object:
        def grad(da: tf.Tensor, db: tf.Tensor, variables: object = None) -> object:
            return [da * 10.0, db * 20.0], [tf.constant(7.0)]

        return (x * v, y * v), grad

    x, y = tf.constant(1.0), tf.constant(1.0)
    a, b = scaled(x, y)
    assert run(tf.gradients([a, b], [x, y, v])) == [10.0, 20.0, 7.0]
    with pytest.raises(TypeError, match="variables"):
        tf.custom_gradient(lambda x: (x * v, lambda dy: dy))(x)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_the_gradient_of_an_op_whose_inputs_depend_on_each_other_counts_each_path_once(factor: float) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([1.0, 2.0])
        product = tf.raw_ops.Einsum(inputs=[x, x if factor == 1.0 else factor * x], equation="i,i->")
        np.testing.assert_allclose(session.run(tf.gradients(product, x)[0]), [2.0 * factor, 4.0 * factor])


def test_gradients_that_are_on_one_device_are_added_there() -> None:
    with tf.Graph().as_default(), tf.device("/cpu:0"):
        with tf.device("/cpu:1"):
            table = tf.Variable(np.ones([3, 2], np.float32))
        loss = tf.reduce_sum(tf.gather(table, [0])) + tf.reduce_sum(tf.gather(table, [1]))
        (rows,) = tf.gradients(loss, [table], colocate_gradients_with_ops=True)
        assert rows.values.op.type == "ConcatV2"
        assert rows.values.device == rows.indices.device == table.device
        (rows,) = tf.gradients(loss, [table])
        assert rows.values.device == loss.device


def _first_and_second(function: Any, x: Any) -> tuple[Any, Any]:
    first = tf.gradients(function(x), x)[0]
    return first, tf.gradients(first, x)[0]


@pytest.mark.parametrize("function", [tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu, tf.nn.crelu])
def test_second_derivatives_of_piecewise_linear_functions_are_zeros(function: Any) -> None:
    with tf.Graph().as_default():
        _, second = _first_and_second(function, tf.constant([1.0, -2.0]))
        np.testing.assert_array_equal(run(second), [0.0, 0.0])
        w = tf.Variable([1.0, -2.0])
        x = tf.constant([3.0, 5.0])
        slope = tf.gradients(function(w * x), x)[0]
        # The slope is w * step(w x): its derivative by w has a part along the product, and none along the step.
        expected = run(tf.gradients(function(w * x), w)[0]) / run(x)
        np.testing.assert_allclose(run(tf.gradients(slope, w)[0]), expected)


def test_second_derivatives_of_max_pooling_are_zeros_through_branches_and_loops() -> None:
    with tf.Graph().as_default():
        x = tf.reshape(tf.range(16.0), [1, 4, 4, 1])

        def pool(value: Any) -> Any:
            return tf.nn.max_pool(value, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")

        for through in (
            pool,
            lambda v: pool(tf.cond(tf.constant(True), lambda: v * 2.0, lambda: v)),
            lambda v: pool(tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, y * 2.0), (0, v))[1]),
            lambda v: tf.nn.max_pool_with_argmax(v, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")[0],
        ):
            _, second = _first_and_second(through, x)
            np.testing.assert_array_equal(run(second), np.zeros([1, 4, 4, 1]))


def test_zero_gradients_cost_no_nodes_before_the_op_that_returns_them() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.ones([2, 3])
        w = tf.ones([3, 4])
        slope = tf.gradients(tf.nn.relu(tf.matmul(x, w)), w)[0]
        before = sum(op.type == "MatMul" for op in graph.get_operations())
        tf.gradients(slope, x)
        # Those of the slope, which is a product of x and relu's slope; none for the zeros behind the latter.
        assert sum(op.type == "MatMul" for op in graph.get_operations()) == before + 2


def test_the_slope_of_sigmoid_cross_entropy_at_zero_is_that_of_the_limit() -> None:
    with tf.Graph().as_default():
        x = tf.constant([0.0, 0.0, 2.0, -2.0, 200.0, -200.0])
        labels = tf.constant([0.0, 1.0, 0.5, 0.5, 1.0, 0.0])
        first, second = _first_and_second(lambda v: tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=v), x)
        sigmoid = 1 / (1 + np.exp(-run(x).astype(np.float64)))
        np.testing.assert_allclose(run(first), sigmoid - run(labels), atol=1e-6)
        np.testing.assert_allclose(run(second), sigmoid * (1 - sigmoid), atol=1e-6)


def test_sums_of_colocated_gradients_are_beside_the_first_of_them() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        double = tf.multiply(x, 2.0, name="double")
        (total,) = tf.gradients(double + tf.square(x), x, colocate_gradients_with_ops=True)
        assert total.op.type == "AddN"
        assert total.op.colocation_groups() == total.op.inputs[0].op.colocation_groups()
        np.testing.assert_array_equal(run(total), [4.0, 6.0])
