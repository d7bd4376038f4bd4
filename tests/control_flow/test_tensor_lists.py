"""Lists of tensors are values: in loops, branches, functions and other lists, shared or not; their sums and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

raw = tf.raw_ops
SCALAR = np.zeros([0], np.int32)  # The shape of a scalar.


def empty(dtype: Any = tf.float32, shape: Any = -1) -> Any:
    return raw.EmptyTensorList(element_shape=shape, max_num_elements=-1, element_dtype=dtype)


def reserve(count: int, dtype: Any = tf.float32, shape: Any = -1) -> Any:
    return raw.TensorListReserve(element_shape=shape, num_elements=count, element_dtype=dtype)


def push(tensors: Any, *items: Any) -> Any:
    for item in items:
        tensors = raw.TensorListPushBack(input_handle=tensors, tensor=tf.convert_to_tensor(item))
    return tensors


def pop(tensors: Any, dtype: Any = tf.float32) -> Any:
    return raw.TensorListPopBack(input_handle=tensors, element_shape=-1, element_dtype=dtype)


def put(tensors: Any, index: Any, item: Any) -> Any:
    return raw.TensorListSetItem(input_handle=tensors, index=index, item=tf.convert_to_tensor(item))


def get(tensors: Any, index: Any, dtype: Any = tf.float32, shape: Any = -1) -> Any:
    return raw.TensorListGetItem(input_handle=tensors, index=index, element_shape=shape, element_dtype=dtype)


def stack(tensors: Any, dtype: Any = tf.float32, shape: Any = -1) -> Any:
    return raw.TensorListStack(input_handle=tensors, element_shape=shape, element_dtype=dtype)


def length(tensors: Any) -> Any:
    return raw.TensorListLength(input_handle=tensors)


def run(*outputs: Any, feeds: Any = None) -> Any:
    with tf.Session() as sess:
        values = sess.run(list(outputs), feeds)
    return values[0] if len(values) == 1 else values


def test_changing_a_shared_list_leaves_the_other_readers_alone() -> None:
    first = push(empty(), 1.0, 2.0)
    longer, changed, shorter = push(first, 3.0), put(first, 0, 9.0), pop(first)[0]
    assert [v.tolist() for v in run(*(stack(each) for each in (first, longer, changed, shorter)))] == [
        [1.0, 2.0], [1.0, 2.0, 3.0], [9.0, 2.0], [1.0]
    ]  # fmt: skip


def test_a_list_that_outlives_its_step_is_not_changed_by_later_ones() -> None:
    with tf.Session() as sess:
        handle = sess.run(push(empty(), 1.0))
        given = tf.placeholder(tf.variant, [])
        longer = stack(push(given, 2.0))
        for _ in range(2):
            assert sess.run(longer, {given: handle}).tolist() == [1.0, 2.0]


def test_a_fed_array_may_change_after_it_was_pushed() -> None:
    x = tf.placeholder(tf.float32, [100])
    given = tf.placeholder(tf.variant, [])
    array = np.ones(100, np.float32)
    with tf.Session() as sess:
        handle = sess.run(push(empty(), x), {x: array})
        array[:] = 5
        assert sess.run(stack(given), {given: handle}).tolist() == [[1.0] * 100]


@pytest.mark.parametrize("parallel_iterations", [1, 10])
def test_a_loop_pushes_and_another_pops(parallel_iterations: int) -> None:
    n = 300
    x = tf.placeholder(tf.float32, [])
    options = {"parallel_iterations": parallel_iterations}
    _, pushed = tf.while_loop(
        lambda i, _: i < n,
        lambda i, tensors: (i + 1, push(tensors, tf.cast(i, tf.float32) * x)), (0, empty()), **options,
    )  # fmt: skip

    def consume(i: Any, tensors: Any, total: Any) -> Any:
        rest, item = pop(tensors)
        return i + 1, rest, total * 0.5 + tf.reshape(item, [])

    _, rest, total = tf.while_loop(lambda i, *_: i < n, consume, (0, pushed, 0.0), **options)
    items, left, total_value = run(stack(pushed), length(rest), total, feeds={x: 2.0})
    np.testing.assert_allclose(items, 2.0 * np.arange(n))
    assert left == 0
    expected = 0.0
    for item in items[::-1]:
        expected = expected * 0.5 + item
    assert total_value == pytest.approx(expected, rel=1e-5)


def test_gradients_pass_through_lists_in_a_row_of_operations() -> None:
    x = tf.placeholder(tf.float64, [3])
    tensors = push(empty(tf.float64), x, x * x)
    tensors = put(tensors, 0, tf.sin(x))
    rest, last = pop(push(tensors, x * 3.0), tf.float64)
    y = tf.reduce_sum(stack(rest, tf.float64) * 2.0) + tf.reduce_sum(last * get(rest, 1, tf.float64))
    value = np.array([0.3, -1.0, 2.0])
    np.testing.assert_allclose(
        run(tf.gradients(y, x)[0], feeds={x: value}), 2 * np.cos(value) + 4 * value + 9 * value**2
    )


def _pushed_in_a_loop(x: Any) -> Any:
    _, tensors = tf.while_loop(
        lambda i, _: i < 5, lambda i, tensors: (i + 1, push(tensors, x[i] * x[0])), (0, empty(tf.float64))
    )
    return stack(tensors, tf.float64)


def _set_in_a_loop(x: Any) -> Any:
    _, tensors = tf.while_loop(
        lambda i, _: i < 5, lambda i, tensors: (i + 1, put(tensors, i, x[i] * x[0])),
        (0, reserve(5, tf.float64, SCALAR)),
    )  # fmt: skip
    return stack(tensors, tf.float64)


def _popped_in_a_loop(x: Any) -> Any:
    def body(i: Any, tensors: Any, total: Any) -> Any:
        rest, item = pop(tensors, tf.float64)
        return i + 1, rest, total * (0.5 + tf.reshape(item, []))

    tensors = raw.TensorListFromTensor(tensor=x, element_shape=SCALAR)
    return tf.while_loop(lambda i, *_: i < 5, body, (0, tensors, np.float64(1.0)))[2]


def _read_in_a_loop(x: Any) -> Any:
    tensors = raw.TensorListFromTensor(tensor=x, element_shape=SCALAR)
    return tf.while_loop(
        lambda i, _: i < 5,
        lambda i, total: (i + 1, total * 0.5 + get(tensors, i, tf.float64, SCALAR)), (0, np.float64(0.0)),
    )[1]  # fmt: skip


def _made_in_a_branch(x: Any) -> Any:
    tensors = raw.TensorListFromTensor(tensor=x, element_shape=SCALAR)
    return stack(tf.cond(x[0] > 0, lambda: push(tensors, x[0] * x[1]), lambda: tensors), tf.float64)


@pytest.mark.parametrize(
    "function", [_pushed_in_a_loop, _set_in_a_loop, _popped_in_a_loop, _read_in_a_loop, _made_in_a_branch]
)
def test_gradients_pass_through_lists_in_control_flow(function: Any) -> None:
    x = tf.placeholder(tf.float64, [5])
    y = tf.reduce_sum(function(x))
    grad = tf.gradients(y, x)[0]
    value, step = np.array([1.0, -0.4, 0.3, 2.0, 0.7]), 1e-6
    with tf.Session() as sess:
        found = sess.run(grad, {x: value})
        differences = [
            (sess.run(y, {x: value + step * unit}) - sess.run(y, {x: value - step * unit})) / (2 * step)
            for unit in np.eye(5)
        ]
    np.testing.assert_allclose(found, differences, rtol=1e-6)


def test_both_branches_of_a_conditional_make_lists() -> None:
    choice = tf.placeholder(tf.bool, [])
    tensors = push(empty(), 1.0)
    chosen = tf.cond(choice, lambda: push(tensors, 2.0), lambda: put(tensors, 0, 7.0))
    after = stack(chosen)
    with tf.Session() as sess:
        assert sess.run([after, stack(tensors)], {choice: True})[0].tolist() == [1.0, 2.0]
        assert sess.run(after, {choice: False}).tolist() == [7.0]


def test_functions_take_and_return_lists() -> None:
    @tf.function
    def extended(tensors: Any, x: Any) -> Any:
        return push(tensors, x, x + 1.0)

    tensors = extended(extended(empty(), tf.constant(1.0)), tf.constant(5.0))
    assert run(stack(tensors)).tolist() == [1.0, 2.0, 5.0, 6.0]


def test_lists_hold_lists() -> None:
    inner = push(empty(), 1.0, 2.0)
    outer = push(empty(tf.variant, SCALAR), inner, push(inner, 3.0))
    rest, last = pop(outer, tf.variant)
    assert [v.tolist() for v in run(stack(push(last, 4.0)), stack(get(rest, 0, tf.variant)), length(rest))] == [
        [1.0, 2.0, 3.0, 4.0], [1.0, 2.0], 1
    ]  # fmt: skip
    doubled = tf.raw_ops.AddN(inputs=[outer, outer])
    assert run(stack(get(doubled, 1, tf.variant))).tolist() == [2.0, 4.0, 6.0]
    assert run(stack(get(raw.ZerosLike(x=outer), 1, tf.variant))).tolist() == [0.0] * 3
    assert run(length(stack(outer, tf.variant)[1])) == 3


def test_lists_nested_too_deeply_are_refused() -> None:
    _, tensors = tf.while_loop(
        lambda i, _: i < 1000000, lambda i, tensors: (i + 1, push(empty(tf.variant), tensors)), (0, empty(tf.variant))
    )
    with pytest.raises(tf.errors.ResourceExhaustedError, match="nested"):
        run(length(tensors))


def test_sums_of_lists_add_elements_and_take_unset_ones_for_zeros() -> None:
    a, b = put(reserve(3), 0, [1.0, 2.0]), put(put(reserve(3), 0, [10.0, 20.0]), 1, [5.0, 6.0])
    total = raw.AddN(inputs=[a, b, a])
    assert run(stack(total)).tolist() == [[12.0, 24.0], [5.0, 6.0], [0.0, 0.0]]
    assert run(stack(a), stack(b))[0].tolist() == [[1.0, 2.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("other", "match"),
    [
        (lambda: push(empty(), 1.0), "different lengths"),
        (lambda: push(empty(tf.int32), 1, 2), "different dtypes"),
        (lambda: push(empty(), [1.0], [2.0]), "incompatible element shapes"),
        (lambda: push(empty(shape=[1]), [1.0], [2.0]), "Incompatible ranks"),
    ],
)
def test_lists_that_do_not_fit_are_not_added(other: Any, match: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        run(length(raw.AddN(inputs=[push(empty(shape=SCALAR if "rank" in match else -1), 1.0, 2.0), other()])))


def test_other_variants_are_no_lists() -> None:
    dataset = tf.data.Dataset.range(3)._variant_tensor
    lists = tf.stack([empty(), empty()])
    for bad, match in ((dataset, "is not a list"), (lists, "must be a scalar")):
        for used in (push(bad, 1.0), pop(bad)[0], get(bad, 0), put(bad, 0, 1.0), stack(bad), length(bad)):
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                run(used.op)
    for used in (raw.AddN(inputs=[dataset, dataset]), raw.AddN(inputs=[empty(), dataset]), raw.ZerosLike(x=dataset)):
        with pytest.raises(tf.errors.InternalError, match="a dataset"):
            run(used.op)
    for used in (raw.AddN(inputs=[lists, lists]), raw.ZerosLike(x=lists)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not scalars"):
            run(used.op)


@pytest.mark.parametrize(
    "use", [pop, lambda t, dtype: get(t, 0, dtype), stack, lambda t, dtype: push(t, tf.constant(1, dtype))]
)
def test_elements_of_another_type_are_refused(use: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="op elements int32 but list elements float32"):
        used = use(push(empty(), 1.0), tf.int32)
        run((used[0] if isinstance(used, tuple) else used).op)


def test_a_large_length_alone_takes_no_memory() -> None:
    tensors = reserve(2**31 - 1)
    shortened = raw.TensorListResize(input_handle=put(tensors, 1, 2.0), size=3)
    assert run(stack(shortened)).tolist() == [0.0, 2.0, 0.0]
    zeros = raw.ZerosLike(x=raw.AddN(inputs=[tensors, tensors]))
    assert run(length(zeros)) == 2**31 - 1
    for beyond in (push(tensors, 1.0), put(tensors, 2**30, 1.0)):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="beyond"):
            run(length(beyond))


def test_unset_elements_need_a_shape_from_somewhere() -> None:
    for read in (pop(reserve(2))[1], get(reserve(2), 0), stack(reserve(2))):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"fully.defined"):
            run(read)
    assert run(get(put(reserve(2), 0, [1.0, 2.0]), 1)).tolist() == [0.0, 0.0]
    assert run(get(reserve(2, shape=[-1]), 1, shape=[2])).tolist() == [0.0, 0.0]
