"""Calls of tf.function, control flow, TensorArrays, data and Python functions where ops run at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def test_a_function_is_traced_once_for_each_kind_of_arguments() -> None:
    traces = []

    @tf.function
    def double(x: Any) -> Any:
        traces.append(x)
        return x * 2.0

    assert double(tf.constant([1.0, 2.0])).numpy().tolist() == [2.0, 4.0]
    assert double(tf.constant([3.0, 4.0])).numpy().tolist() == [6.0, 8.0]
    assert len(traces) == 1
    assert double(tf.constant([3.0])).numpy().tolist() == [6.0]
    assert len(traces) == 2
    assert all(isinstance(each.graph, tf.Graph) for each in traces)


def test_a_function_captures_values_and_variables() -> None:
    scale, v = tf.constant(3.0), tf.Variable(1.0)

    @tf.function
    def step(x: Any) -> Any:
        v.assign_add(x)
        return v * scale

    assert step(tf.constant(1.0)).numpy() == 6.0
    assert step(tf.constant(2.0)).numpy() == 12.0
    assert v.numpy() == 4.0


def test_a_function_creates_its_variables_when_it_is_traced() -> None:
    made: list[Any] = []

    @tf.function
    def count(x: Any) -> Any:
        if not made:
            made.append(tf.Variable(10.0))
        return made[0].assign_add(x)

    assert count(tf.constant(1.0)).numpy() == 11.0
    assert count(tf.constant(1.0)).numpy() == 12.0
    assert made[0].numpy() == 12.0


def test_gradients_through_functions() -> None:
    v = tf.Variable(2.0)

    @tf.function
    def f(x: Any) -> Any:
        return tf.reduce_sum(tf.exp(x) * v)

    x = tf.constant([0.0, 1.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    by_x, by_v = tape.gradient(y, [x, v])
    np.testing.assert_allclose(by_x.numpy(), 2.0 * np.exp([0.0, 1.0]), rtol=1e-6)
    assert by_v.numpy() == pytest.approx(1.0 + np.e)


def test_second_derivatives_through_functions() -> None:
    @tf.function
    def cube(x: Any) -> Any:
        return x * x * x

    x = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = cube(x)
        first = inner.gradient(y, x)
    assert (first.numpy(), outer.gradient(first, x).numpy()) == (12.0, 12.0)


def test_random_numbers_of_a_function_are_the_same_in_its_gradient() -> None:
    @tf.function
    def noisy(x: Any) -> Any:
        noise = tf.random_uniform([100])
        return tf.reduce_sum(noise * x), noise

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, noise = noisy(x)
    assert tape.gradient(y, x).numpy() == pytest.approx(noise.numpy().sum(), rel=1e-5)


def test_loops_and_branches_in_functions() -> None:
    @tf.function
    def power(x: Any, n: Any) -> Any:
        return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [0, tf.ones_like(x)])[1]

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = power(x, tf.constant(4))
    assert (y.numpy(), tape.gradient(y, x).numpy()) == (81.0, 108.0)

    @tf.function
    def absolute(x: Any) -> Any:
        return tf.cond(x > 0.0, lambda: x, lambda: -x)

    assert absolute(tf.constant(-2.0)).numpy() == 2.0


def test_numpy_inside_of_a_function_is_refused() -> None:
    @tf.function
    def wrong(x: Any) -> Any:
        return x.numpy()

    with pytest.raises(AttributeError, match="numpy"):
        wrong(tf.constant(1.0))


def test_errors_of_a_function_name_the_op() -> None:
    @tf.function
    def product(a: Any, b: Any) -> Any:
        return tf.reshape(a, b)

    with pytest.raises(tf.errors.InvalidArgumentError, match="reshape"):
        product(tf.ones([4]), tf.constant([3]))


def test_python_decides_in_eager_control_flow() -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    assert tf.cond(x[0] > 0.0, lambda: 1, lambda: 2) == 1
    assert tf.case([(x[0] > 5.0, lambda: 1.0), (x[0] > 0.0, lambda: 2.0)], default=lambda: 3.0) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of the conditions"):
        tf.case([(x[0] > 5.0, lambda: 1.0)])
    i, total = tf.while_loop(lambda i, s: i < 10, lambda i, s: (i + 1, s + i), [0, 0])
    assert (int(i), int(total)) == (10, 45)
    assert int(tf.while_loop(lambda i: True, lambda i: (i + 1,), [0], maximum_iterations=3)) == 3
    assert tf.map_fn(lambda e: e * e, x).numpy().tolist() == [1.0, 4.0, 9.0]
    assert tf.scan(lambda a, e: a + e, x).numpy().tolist() == [1.0, 3.0, 6.0]
    assert tf.foldl(lambda a, e: a + e, x).numpy() == 6.0


def test_tensor_arrays() -> None:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)
    for i in range(3):
        array = array.write(i, float(i))
    assert array.stack().numpy().tolist() == [0.0, 1.0, 2.0]
    assert int(array.size()) == 3
    fixed = tf.TensorArray(tf.int32, size=1)
    with pytest.raises(tf.errors.OutOfRangeError, match="not resizeable"):
        fixed.write(5, 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="dtype"):
        fixed.write(0, 1.5)
    read = tf.TensorArray(tf.int32, size=1).write(0, 1)
    assert read.read(0).numpy() == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="cleared"):
        read.read(0)
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.TensorArray(tf.float32, 2).unstack(x).read(1) * 3.0
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 3.0]


def test_datasets_are_python_iterators() -> None:
    data = tf.data.Dataset.from_tensor_slices({"x": [1.0, 2.0, 3.0]}).map(lambda e: {"x": e["x"] * 2.0}).batch(2)
    assert [e["x"].numpy().tolist() for e in data] == [[2.0, 4.0], [6.0]]
    assert [e["x"].numpy().tolist() for e in data] == [[2.0, 4.0], [6.0]]
    v = tf.Variable(10.0)
    assert [float(e) for e in tf.data.Dataset.range(3).map(lambda e: tf.cast(e, tf.float32) + v)] == [10.0, 11.0, 12.0]
    iterator = tf.data.make_one_shot_iterator(tf.data.Dataset.range(2))
    assert [int(iterator.get_next()), int(iterator.get_next())] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError):
        iterator.get_next()
    with pytest.raises(RuntimeError, match="not supported when eager execution is enabled"):
        tf.data.make_initializable_iterator(data)


def test_generators_and_shuffles() -> None:
    def numbers() -> Any:
        yield from range(5)

    data = tf.data.Dataset.from_generator(numbers, tf.int64, []).shuffle(5, seed=1)
    assert sorted(int(e) for e in data) == [0, 1, 2, 3, 4]


def test_python_functions() -> None:
    x = tf.constant([1.0, 2.0])
    assert tf.py_func(lambda a: a * 2.0, [x], tf.float32).numpy().tolist() == [2.0, 4.0]
    assert tf.py_function(lambda a: a * 2.0, [x], tf.float32).numpy().tolist() == [2.0, 4.0]


def test_tables_sparse_values_and_strings() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    assert table.lookup(tf.constant(["b", "c"])).numpy().tolist() == [2, -1]
    sparse = tf.SparseTensor([[0, 1]], [2.0], [2, 2])
    assert tf.sparse_tensor_to_dense(sparse).numpy().tolist() == [[0.0, 2.0], [0.0, 0.0]]
    assert tf.string_split(["a b"]).values.numpy().tolist() == [b"a", b"b"]
    assert tf.ragged.constant([[1, 2], [3]]).row_splits.numpy().tolist() == [0, 2, 3]


def test_recurrent_networks_and_losses() -> None:
    output, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), tf.ones([2, 5, 3]), dtype=tf.float32)
    assert output.shape.as_list() == [2, 5, 4]
    assert tf.losses.mean_squared_error([1.0, 2.0], [2.0, 3.0]).numpy() == 1.0


def test_functions_with_ops_of_one_name_keep_their_own_state() -> None:
    def made(size: int) -> Any:
        @tf.function
        def f(x: Any) -> Any:
            rows = tf.TensorArray(tf.float32, size=1).write(0, x).stack()
            return rows, tf.py_func(lambda a: a + np.float32(size), [x], tf.float32)

        return f

    for size in (1, 2, 3):
        rows, shifted = made(size)(tf.ones([size]))
        assert rows.shape == [1, size]
        assert shifted.numpy().tolist() == [1.0 + size] * size


def test_loops_over_datasets_in_functions() -> None:
    outside = tf.data.Dataset.range(6).map(lambda x: x * 2)

    @tf.function
    def total(dataset: Any, most: Any) -> Any:
        found = tf.constant(0, tf.int64)
        for x in dataset:
            if x > most:
                break
            found += x
        for x in outside:
            found += x
        return found

    most = tf.constant(3, tf.int64)
    assert total(tf.data.Dataset.range(10), most).numpy() == 6 + 30
    assert total(outside, most).numpy() == 2 + 30


def test_a_function_that_makes_variables_in_each_call_is_refused() -> None:
    @tf.function
    def wrong(x: Any) -> Any:
        return tf.Variable(1.0) * x

    with pytest.raises(ValueError, match="not only in its first call"):
        wrong(tf.constant(1.0))

    made: list[Any] = []

    @tf.function
    def late(x: Any) -> Any:
        if len(made) < 2:
            made.append(tf.Variable(x.shape.as_list()[0] if x.shape.ndims else 0))
        return x

    with pytest.raises(ValueError, match="not only in its first call"):
        late(tf.constant(1.0))


def test_initial_values_of_variables_that_a_function_computes() -> None:
    outside = tf.constant(3.0)
    made: list[Any] = []

    @tf.function
    def scaled(x: Any) -> Any:
        if not made:
            made.append(tf.Variable(tf.ones([2]) * 5.0 + outside))
        return made[0] * x

    assert scaled(tf.constant(2.0)).numpy().tolist() == [16.0, 16.0]
    assert made[0].numpy().tolist() == [8.0, 8.0]

    @tf.function
    def wrong(x: Any) -> Any:
        return tf.Variable(x * 2.0)

    with pytest.raises(ValueError, match="must not depend on arguments"):
        wrong(tf.constant(2.0))


def test_tensors_of_a_body_are_of_no_use_outside() -> None:
    kept: list[Any] = []

    @tf.function
    def f(x: Any) -> Any:
        kept.append(x * 2.0)
        return x

    f(tf.constant(1.0))
    with pytest.raises(TypeError, match="of the body of function"):
        kept[0] + 1.0


def test_ragged_arguments_and_results() -> None:
    @tf.function
    def f(rows: Any) -> Any:
        return tf.reduce_sum(rows, 1), rows * 2.0

    sums, doubled = f(tf.ragged.constant([[1.0, 2.0], [3.0]]))
    assert sums.numpy().tolist() == [3.0, 3.0]
    assert doubled.flat_values.numpy().tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("rows", [1, 3])
def test_jacobians_of_tensors_whose_shape_the_graph_does_not_know(rows: int) -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def both(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x * x
        return tape.jacobian(y, x), tape.batch_jacobian(y, x)

    x = np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)
    full, by_example = both(tf.constant(x))
    slopes = 3.0 * x * x
    np.testing.assert_allclose(full, np.diag(slopes.ravel()).reshape(rows, 2, rows, 2))
    np.testing.assert_allclose(by_example, [np.diag(row) for row in slopes])


def test_ragged_values_are_looked_at() -> None:
    rows = tf.ragged.constant([[1, 2], [3]])
    assert rows.to_list() == [[1, 2], [3]]
    assert [row.numpy().tolist() for row in rows] == [[1, 2], [3]]
    assert [row.tolist() for row in rows.numpy()] == [[1, 2], [3]]
    assert tf.ragged.constant([[1, 2], [3, 4]]).numpy().tolist() == [[1, 2], [3, 4]]
    nested = tf.ragged.constant([[[1.0], [2.0, 3.0]], []])
    assert nested.to_list() == [[[1.0], [2.0, 3.0]], []]
    assert [len(row) for row in nested.numpy()] == [2, 0]
    with tf.Graph().as_default():
        rows = tf.ragged.constant([[1]])
        with pytest.raises(ValueError, match="run it in a session"):
            rows.to_list()
        with pytest.raises(TypeError, match="not iterable"):
            rows.numpy()
