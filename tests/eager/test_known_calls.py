"""Calls that are known take a short way: they give what the long one gives, whatever has changed between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

TIMES = 4  # The first call is resolved, the others are known; gradients are recorded from the third on.


def test_a_shape_in_a_list_or_an_array_that_changes_between_calls() -> None:
    x = tf.range(6)
    for shape in ([2, 3], np.array([2, 3])):
        for rows in (2, 3, 2, 6):
            shape[0], shape[1] = rows, 6 // rows
            assert tf.reshape(x, shape).shape == [rows, 6 // rows]


def test_numbers_are_told_apart_by_type_and_bits() -> None:
    x, whole = tf.constant([2.0]), tf.constant([2])
    for _ in range(TIMES):
        assert (x + 1).numpy()[0] == 3.0
        assert (x + 1.0).numpy()[0] == 3.0
        assert (x * np.float32(2)).numpy()[0] == 4.0
        assert (whole + 1).dtype == tf.int32
        assert np.signbit((x * -0.0).numpy()[0])
        assert not np.signbit((x * 0.0).numpy()[0])
        with pytest.raises(TypeError):
            whole + 1.5


def test_operands_of_other_ranks() -> None:
    for _ in range(TIMES):
        assert tf.matmul(tf.ones([2, 3]), tf.ones([3, 4])).shape == [2, 4]
        assert tf.matmul(tf.ones([5, 2, 3]), tf.ones([5, 3, 4])).shape == [5, 2, 4]
        assert tf.matmul(tf.ones([3, 2]), tf.ones([3, 4]), transpose_a=True).shape == [2, 4]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Matrix size-incompatible"):
            tf.matmul(tf.ones([2, 3]), tf.ones([2, 3]))


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 1), (1, 1)), ((2, 3), (3, 0))])
def test_products_of_matrices_of_any_size(shapes: Any) -> None:
    a, b = (np.ones(shape, np.float32) for shape in shapes)
    for _ in range(TIMES):
        np.testing.assert_array_equal(tf.matmul(tf.constant(a), tf.constant(b)), a @ b)


def test_indices() -> None:
    array = np.arange(12).reshape(3, 4)
    x = tf.constant(array)
    flat = tf.range(3)
    for _ in range(TIMES):
        for index in (0, -1, slice(1, None), (slice(None), 2), (Ellipsis, slice(None, None, 2)), (None, 1), (1, 1)):
            np.testing.assert_array_equal(x[index], array[index])
        assert flat[1].numpy() == 1
        assert x[tf.constant(1)].shape == [4]
        with pytest.raises(tf.errors.InvalidArgumentError):
            x[3]
        with pytest.raises(TypeError):
            x["a"]


def test_variables_are_read_anew() -> None:
    v = tf.Variable([1.0, 2.0])
    x = tf.constant([10.0, 10.0])
    for i in range(TIMES):
        assert (x * v).numpy().tolist() == [10.0 + 10 * i, 20.0 + 10 * i]
        assert tf.concat([x, v], 0).shape == [4]
        assert v[0].numpy() == 1.0 + i
        v.assign_add([1.0, 1.0])


def test_a_slice_of_a_variable_can_be_assigned_to() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    for i in range(TIMES):
        v[1:].assign([float(i), 0.0])
        assert v.numpy().tolist() == [1.0, float(i), 0.0]


def test_lists_of_tensors() -> None:
    a, b = tf.constant([1.0]), tf.constant([2.0])
    for _ in range(TIMES):
        assert tf.concat([a, b], 0).numpy().tolist() == [1.0, 2.0]
        assert tf.concat([a, b, a], 0).shape == [3]
        assert tf.stack([a, b], 1).shape == [1, 2]
        assert [part.numpy().tolist() for part in tf.split(tf.concat([a, b], 0), 2)] == [[1.0], [2.0]]
        assert tf.unique(tf.constant([1, 1, 2])).y.numpy().tolist() == [1, 2]
        with pytest.raises(TypeError):
            tf.concat([a, tf.constant([1])], 0)


def test_the_same_call_in_graphs_and_functions_builds_them() -> None:
    x = tf.constant([1.0, 2.0])
    function = tf.function(lambda t: tf.tanh(t + t)[0])
    for _ in range(TIMES):
        at_once = tf.tanh(x + x)[0]
        assert function(x).numpy() == at_once.numpy()
        with tf.Graph().as_default() as graph:
            y = tf.tanh(x + x)[0]
            assert y.graph is graph
            with pytest.raises(AttributeError):
                at_once.graph  # noqa: B018


def test_the_same_call_within_scopes() -> None:
    x = tf.constant([1.0, 2.0])
    for _ in range(TIMES):
        expected = tf.exp(x).numpy()
        with tf.device("/cpu:0"):
            np.testing.assert_array_equal(tf.exp(x), expected)
        with tf.name_scope("outer"), tf.control_dependencies([x]):
            np.testing.assert_array_equal(tf.exp(x), expected)


def test_errors_stay_those_of_the_first_call() -> None:
    texts = set()
    for _ in range(TIMES):
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            tf.constant([1.0, 2.0]) + tf.constant([1.0, 2.0, 3.0])
        texts.add(str(raised.value))
    assert len(texts) == 1


def test_random_ops_go_on_in_their_stream() -> None:
    tf.set_random_seed(7)
    first = [tf.random.uniform([2], seed=1).numpy().tolist() for _ in range(TIMES)]
    assert len({tuple(each) for each in first}) == TIMES
    tf.set_random_seed(7)
    assert [tf.random.uniform([2], seed=1).numpy().tolist() for _ in range(TIMES)] == first
