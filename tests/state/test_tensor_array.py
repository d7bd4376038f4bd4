"""TensorArrays and stacks: the rules of writing and reading, gradients, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import thalweg as tf
from thalweg.graph.apply import apply


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


def run(fetch, feed=None):
    with tf.Session() as sess:
        return sess.run(fetch, feed)


def array(**kwargs):
    options = {"size": 2, "infer_shape": False, **kwargs}
    return tf.TensorArray(options.pop("dtype", tf.float32), **options)


def test_write_read_stack():
    ta = array(infer_shape=True, clear_after_read=False).write(0, [1.0, 2.0]).write(1, [3.0, 4.0])
    one, all_, some, size = run([ta.read(1), ta.stack(), ta.gather([1, 1]), ta.size()])
    assert one.tolist() == [3.0, 4.0]
    assert all_.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert some.tolist() == [[3.0, 4.0], [3.0, 4.0]]
    assert size == 2
    assert ta.read(0).shape.as_list() == [2]
    assert ta.stack().shape.as_list() == [2, 2]


def test_unstack_scatter_split_concat():
    assert run(array(size=3).unstack([[1.0], [2.0], [3.0]]).stack()).tolist() == [[1.0], [2.0], [3.0]]
    assert run(array().scatter([1, 0], [1.0, 2.0]).stack()).tolist() == [2.0, 1.0]
    ta = array().split([1.0, 2.0, 3.0], [1, 2])
    assert run(ta.read(1)).tolist() == [2.0, 3.0]
    assert run(array().split([1.0, 2.0, 3.0], [1, 2]).concat()).tolist() == [1.0, 2.0, 3.0]


def test_a_dynamic_array_grows():
    ta = array(size=0, dynamic_size=True).write(4, 1.0)
    assert run(ta.size()) == 5
    assert run(array(size=0, dynamic_size=True).split([1.0, 2.0], [1, 1]).size()) == 2


def test_strings_and_handles_can_be_elements():
    ta = array(dtype=tf.string).write(0, "a" * 50).write(1, "b")
    assert run(ta.stack()).tolist() == [b"a" * 50, b"b"]
    v = tf.Variable(3.0)
    handles = array(dtype=tf.resource).write(0, v.handle)
    value = tf.raw_ops.ReadVariableOp(resource=handles.read(0), dtype=tf.float32)
    with tf.Session() as sess:
        sess.run(v.initializer)
        assert sess.run(value) == 3.0


@pytest.mark.parametrize(
    ("build", "match"),
    [
        (lambda: array().read(0), "element shape is not fully defined"),
        (lambda: array().read(2), "index 2 but array size is: 2"),
        (lambda: array().read(-1), "index -1"),
        (lambda: array().write(5, 1.0).flow, "not resizeable and size is: 2"),
        (lambda: array().write(-1, 1.0).flow, "index -1"),
        (lambda: array(dynamic_size=True).write(-1, 1.0).flow, "index -1"),
        (lambda: array(dynamic_size=True).write(2**31 - 1, 1.0).flow, "beyond"),
        (lambda: array().write(0, 1.0).write(0, 2.0).flow, "already been written"),
        (lambda: array().write(0, [1.0]).write(1, [1.0, 2.0]).stack(), "inconsistent shapes"),
        (lambda: array().write(0, [1.0]).write(1, [[1.0, 2.0]]).concat(), "inconsistent shapes"),
        (lambda: array().write(0, 1.0).write(1, 1.0).concat(), "scalar"),
        (lambda: array(size=tf.constant(-1)).flow, "negative"),
        (lambda: array(element_shape=[2]).write(0, [1.0]).flow, "element shape"),
        (lambda: array().gather([5]), "index 5"),
        (lambda: array().split([1.0, 2.0, 3.0], [1, 1]).flow, "lengths"),
        (lambda: array().split([1.0, 2.0, 3.0], [1, 1, 1]).flow, "not equal to the size"),
        (lambda: array().split([1.0, 2.0, 3.0], [4, -1]).flow, "lengths"),
        (lambda: array().split([1.0, 2.0, 3.0], [-1, 4]).flow, "lengths"),
        (lambda: array().split([1.0, 2.0, 3.0], [2**62, 2**62]).flow, "lengths"),
        (lambda: array().unstack([1.0, 2.0, 3.0]).flow, "index 2"),
        (lambda: array().scatter([0, 0], [1.0, 2.0]).flow, "already been written"),
        (lambda: array(size=0).stack(), "size zero"),
    ],
)
def test_bad_use_is_refused(build, match):
    with pytest.raises(
        (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.ResourceExhaustedError)
    ) as e:
        run(build())
    assert match in str(e.value)


@pytest.mark.parametrize("size", [-1, np.int32(-3)])
def test_a_negative_size_is_refused_when_the_array_is_made(size):
    with pytest.raises(ValueError, match=f"must not be negative, got {size}"):
        array(size=size)


def test_unwritten_elements_of_known_shape_are_zeros():
    assert run(array(element_shape=[2]).read(0)).tolist() == [0.0, 0.0]
    assert run(array(size=0, element_shape=[3]).stack()).shape == (0, 3)
    assert run(array(size=0, element_shape=[2, 3]).concat()).shape == (0, 3)


def test_an_element_is_read_once_unless_kept():
    ta = array().write(0, 1.0)
    first = ta.read(0)
    with tf.control_dependencies([first]):
        second = ta.read(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="clear_after_read"):
        run(second)
    ta = array().write(0, 1.0)
    with tf.control_dependencies([ta.read(0)]):
        after = ta.write(0, 2.0).flow
    with pytest.raises(tf.errors.InvalidArgumentError, match="already been read"):
        run(after)


def test_a_closed_array_cannot_be_used():
    ta = array().write(0, 1.0)
    with tf.control_dependencies([ta.close()]):
        value = ta.read(0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="closed"):
        run(value)


def test_wrong_types_are_refused():
    with pytest.raises(TypeError, match="int32"):
        array().write(0, tf.constant(1))
    read = apply("TensorArrayReadV3", array().write(0, 1.0).handle, 0, 0.0, dtype=tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"float32.*int32"):
        run(read)
    v = tf.Variable(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a variable"):
        run(apply("TensorArraySizeV3", v.handle, 0.0))


def test_inferred_shapes_must_agree():
    with pytest.raises(ValueError, match="Inconsistent shapes"):
        array(infer_shape=True).write(0, [1.0]).write(1, [1.0, 2.0])


def test_construction_arguments_are_checked():
    with pytest.raises(ValueError, match="Size"):
        tf.TensorArray(tf.float32)
    with pytest.raises(ValueError, match="size"):
        tf.TensorArray(tf.float32, size=1, handle=array().handle)


def gradient(build, x):
    out = build()
    return run(tf.gradients(out, x)[0])


def test_gradients_of_every_op():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    w = tf.constant([[1.0, 10.0], [100.0, 1000.0]])
    expected = [[1.0, 10.0], [100.0, 1000.0]]
    assert gradient(lambda: array().unstack(x).stack() * w, x).tolist() == expected
    assert gradient(lambda: array().unstack(x).read(1) * tf.constant([5.0, 6.0]), x).tolist() == [[0, 0], [5, 6]]
    assert gradient(lambda: array().split(x, [1, 1]).concat() * w, x).tolist() == expected
    y = tf.constant([1.0, 2.0])
    assert gradient(lambda: array().write(0, y).write(1, y * 3.0).stack() * w, y).tolist() == [301.0, 3010.0]


def test_gradients_add_up_over_several_reads():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    ta = array(clear_after_read=False).unstack(x)
    total = ta.read(0) * 2.0 + ta.read(0) * 3.0 + ta.read(1)
    assert run(tf.gradients(total, x)[0]).tolist() == [[5.0, 5.0], [1.0, 1.0]]


def test_second_derivatives():
    x = tf.constant([1.0, 2.0])
    ta = array(clear_after_read=False).unstack(x)
    y = tf.square(ta.stack()) * ta.read(0)
    first = tf.gradients(y, x)[0]
    second = tf.gradients(first, x)[0]
    xs = np.array([1.0, 2.0])
    # y = sum(x_i^2 x_0): first = [3 x0^2 + x1^2, 2 x0 x1]; the sum of both, derived again.
    np.testing.assert_allclose(run(first), [3 * xs[0] ** 2 + xs[1] ** 2, 2 * xs[0] * xs[1]])
    np.testing.assert_allclose(run(second), [6 * xs[0] + 2 * xs[1], 2 * xs[1] + 2 * xs[0]])


def test_stack_is_last_in_first_out():
    handle = apply("StackV2", -1, elem_type=tf.float32)
    a = apply("StackPushV2", handle, 1.0)
    with tf.control_dependencies([a]):
        b = apply("StackPushV2", handle, [2.0])
    with tf.control_dependencies([b]):
        first = apply("StackPopV2", handle, elem_type=tf.float32)
    with tf.control_dependencies([first]):
        second = apply("StackPopV2", handle, elem_type=tf.float32)
    with tf.control_dependencies([second]):
        third = apply("StackPopV2", handle, elem_type=tf.float32)
        wrong = apply("StackPopV2", handle, elem_type=tf.int32)
        with tf.control_dependencies([apply("StackCloseV2", handle)]):
            closed = apply("StackPushV2", handle, 1.0)
    assert run([first, second])[0].tolist() == [2.0]
    for bad, match in ((third, "empty"), (wrong, "int32"), (closed, "closed")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            run(bad)
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_size"):
        run(apply("StackPushV2", apply("StackV2", 0, elem_type=tf.float32), 1.0))


def test_loops_carry_arrays_and_are_differentiable():
    x = tf.placeholder(tf.float32, [5])
    source = tf.TensorArray(tf.float32, 5).unstack(x)

    def body(i, total, out):
        value = source.read(i)
        total = total + value
        return i + 1, total, out.write(i, tf.square(value) * total)

    _, _, out = tf.while_loop(lambda i, *_: i < 5, body, [0, 0.0, tf.TensorArray(tf.float32, 5)])
    y = out.stack()
    (grad,) = tf.gradients(y, x)
    xs = np.array([1.0, 2.0, -1.0, 0.5, 3.0])
    totals = np.cumsum(xs)
    want = 2 * xs * totals + np.array([np.sum(xs[i:] ** 2) for i in range(5)])
    value, gradient_value = run([y, grad], {x: xs})
    np.testing.assert_allclose(value, xs**2 * totals, 1e-5)
    np.testing.assert_allclose(gradient_value, want, 1e-5)


def test_nested_loops_with_arrays():
    outer = tf.TensorArray(tf.float32, 3, element_shape=[])

    def body(i, out):
        inner = tf.TensorArray(tf.float32, 4)
        _, inner = tf.while_loop(
            lambda j, _: j < 4, lambda j, a: (j + 1, a.write(j, tf.cast(i * j, tf.float32))), [0, inner]
        )
        return i + 1, out.write(i, tf.reduce_sum(inner.stack()))

    _, outer = tf.while_loop(lambda i, _: i < 3, body, [0, outer])
    assert run(outer.stack()).tolist() == [0.0, 6.0, 12.0]


def test_arrays_in_a_branch():
    p = tf.placeholder(tf.bool, [])
    ta = array(element_shape=[])
    value = tf.cond(p, lambda: ta.write(0, 5.0).read(0), lambda: tf.constant(-1.0))
    assert run(value, {p: True}) == 5.0
    assert run(value, {p: False}) == -1.0


def test_gradient_of_split_leaves_out_elements_that_were_added_later():
    x = tf.constant([1.0, 2.0, 3.0])
    grown = array(size=3, dynamic_size=True).split(x, [1, 2, 0]).write(3, [4.0]).concat()
    weights = tf.constant([1.0, 2.0, 3.0, 4.0])
    first = tf.gradients(grown * grown * weights, x)[0]
    second = tf.gradients(first, x)[0]
    values = run([first, second])
    assert values[0].tolist() == [2.0, 8.0, 18.0]
    assert values[1].tolist() == [2.0, 4.0, 6.0]
