"""Ops on tensors of which little is known: unknown ranks, partly known sizes, and what static shapes still say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetch: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetch, feed)


def sizes(tensor: Any) -> Any:
    return tensor.get_shape().as_list()


def test_tile_keeps_the_sizes_whose_multiples_are_known() -> None:
    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float32, [2, 3])
    tiled = tf.tile(x, [n, 2])
    assert sizes(tiled) == [None, 6]
    assert sizes(tf.tile(tf.placeholder(tf.float32, [None, 3]), tf.stack([4, n]))) == [None, None]
    assert run(tiled, {x: np.ones([2, 3]), n: 4}).shape == (8, 6)


def test_sparse_sums_and_reshaped_values_have_static_shapes() -> None:
    def sparse() -> Any:
        return tf.SparseTensor(tf.placeholder(tf.int64, [None, 2]), tf.placeholder(tf.float32, [None]), [2, 6])

    assert sizes(tf.sparse_add(sparse(), sparse())) == [2, 6]
    assert sizes(tf.sparse_reshape(sparse(), [3, -1])) == [3, 4]
    assert sizes(tf.sparse_reshape(sparse(), [4, 3])) == [4, 3]
    assert sizes(tf.sparse_reshape(sparse(), tf.placeholder(tf.int64, [3]))) == [None, None, None]


@pytest.mark.parametrize("shards", [1, 2])
def test_safe_embedding_lookups_know_their_number_of_rows(shards: int) -> None:
    tables = [tf.Variable(tf.ones([5, 3])) for _ in range(shards)]
    for shape in ([7, 4], [7, 2, 4]):
        indices = tf.placeholder(tf.int64, [None, len(shape)])
        ids = tf.SparseTensor(indices, tf.placeholder(tf.int64, [None]), shape)
        assert sizes(tf.nn.safe_embedding_lookup_sparse(tables, ids, None)) == [*shape[:-1], 3]


def test_embeddings_of_arrays_and_lists() -> None:
    table = np.arange(6.0).reshape(3, 2)
    assert run(tf.nn.embedding_lookup([table, table + 10], [1, 4])).tolist() == [[10.0, 11.0], [4.0, 5.0]]
    assert run(tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1])).tolist() == [3.0]


@pytest.mark.parametrize("axes", [0, 1, 2, [[1], [0]], [[0, -1], [1, 0]]])
def test_tensordot_of_unknown_ranks(axes: Any) -> None:
    a, b = np.arange(6.0, dtype=np.float32).reshape(2, 3), np.arange(6.0, dtype=np.float32).reshape(3, 2)
    b = b.T.copy() if axes == 2 else b
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    result = tf.tensordot(x, y, axes)
    np.testing.assert_allclose(run(result, {x: a, y: b}), np.tensordot(a, b, axes))
    slope = run(tf.gradients(result, x)[0], {x: a, y: b})
    assert slope.shape == a.shape
    dynamic = tf.placeholder(tf.int32, np.shape(axes))
    np.testing.assert_allclose(run(tf.tensordot(x, y, dynamic), {x: a, y: b, dynamic: axes}), np.tensordot(a, b, axes))


def test_images_of_unknown_rank() -> None:
    image = tf.placeholder(tf.float32)
    value = np.random.default_rng(1).random([4, 5, 3], np.float32)
    gray = run(tf.image.rgb_to_grayscale(image), {image: value})
    np.testing.assert_allclose(gray[..., 0], value @ [0.2989, 0.587, 0.114], rtol=1e-5)
    for result, expected in (
        (tf.image.crop_to_bounding_box(image, 1, 0, 2, 2), value[1:3, :2]),
        (tf.image.pad_to_bounding_box(image, 1, 0, 6, 5), np.pad(value, [(1, 1), (0, 0), (0, 0)])),
        (tf.image.resize_image_with_crop_or_pad(image, 2, 5), value[1:3]),
    ):
        assert sizes(result) == [*expected.shape[:2], None]
        np.testing.assert_array_equal(run(result, {image: value}), expected)


def test_a_state_of_one_sequence_and_inputs_of_an_unknown_batch() -> None:
    cell = tf.nn.rnn_cell.LSTMCell(4)
    inputs = tf.placeholder(tf.float32, [None, 5, 3])
    outputs, state = tf.nn.dynamic_rnn(cell, inputs, initial_state=cell.zero_state(1, tf.float32))
    assert sizes(state.c) == [1, 4]
    assert run(outputs, {inputs: np.ones([1, 5, 3])}).shape == (1, 5, 4)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(outputs, {inputs: np.ones([2, 5, 3])})


def test_reductions_of_nothing_to_booleans() -> None:
    assert run([tf.reduce_all([]), tf.reduce_any([])]) == [True, False]


def test_sparse_values_in_other_forms() -> None:
    complex_values = tf.SparseTensor([[0]], tf.constant([3 + 4j], tf.complex64), [2])
    magnitude = run(abs(complex_values) if hasattr(complex_values, "__abs__") else tf.abs(complex_values))
    assert magnitude.values.tolist() == [5.0]
    ids = tf.SparseTensorValue(np.array([[0, 0], [1, 1]]), np.array([3, 4]), np.array([2, 2]))
    weights = tf.SparseTensorValue(ids.indices, np.array([1.0, 2.0], np.float32), ids.dense_shape)
    assert run(tf.sparse_merge(ids, weights, 10)).indices.tolist() == [[0, 3], [1, 4]]


def test_gradients_can_start_from_another_shape_than_that_of_y() -> None:
    x = tf.constant([1.0, 2.0])
    assert run(tf.gradients(tf.reduce_sum(x), x, grad_ys=[tf.constant([3.0])])[0]).tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="Incompatible shapes between op input"):
        tf.gradients(x * 2.0, x, grad_ys=[tf.constant(3.0)])
