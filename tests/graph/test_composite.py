"""SparseTensor and IndexedSlices: their parts, and refused arguments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import thalweg as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[tf.Graph]:
    with tf.Graph().as_default() as graph:
        yield graph


def test_a_sparse_tensor_knows_its_shape_type_and_users() -> None:
    sparse = tf.SparseTensor([[0, 0], [1, 2]], [1.0, 2.0], [3, 4])
    assert (sparse.dtype, sparse.shape.as_list()) == (tf.float32, [3, 4])
    assert (sparse.indices.dtype, sparse.dense_shape.dtype) == (tf.int64, tf.int64)
    user = -sparse.values
    assert sparse.consumers() == [user.op]
    assert tf.SparseTensor.from_value(sparse) is sparse


def test_a_sparse_value_becomes_a_sparse_tensor() -> None:
    value = tf.SparseTensorValue([[0]], [5], [2])
    assert tf.SparseTensor.from_value(value).shape.as_list() == [2]
    with pytest.raises(TypeError, match="Neither a SparseTensor"):
        tf.SparseTensor.from_value([1])


@pytest.mark.parametrize(
    ("indices", "values", "shape"), [([[0, 0]], [1, 2], [3, 4]), ([[0, 0]], [1], [3]), ([0], [1], [3]), ([[0]], 1, [3])]
)
def test_parts_that_do_not_fit_are_refused(indices: list[int], values: list[int], shape: list[int]) -> None:
    with pytest.raises(ValueError):
        tf.SparseTensor(indices, values, shape)


def test_a_sparse_tensor_is_no_dense_one() -> None:
    sparse = tf.SparseTensor([[0]], [1.0], [2])
    with pytest.raises(TypeError, match="sparse_tensor_to_dense"):
        tf.convert_to_tensor(sparse)
    assert tf.convert_to_tensor_or_sparse_tensor(sparse) is sparse
    with pytest.raises(RuntimeError, match="Sparse dtype mismatch"):
        tf.convert_to_tensor_or_sparse_tensor(sparse, tf.int32)


def test_indexed_slices_stand_for_their_values() -> None:
    values, indices = tf.placeholder(tf.float32, [2, 3], name="v"), tf.constant([0, 4])
    slices = tf.IndexedSlices(values, indices, tf.constant([5, 3]))
    assert (slices.dtype, slices.name, slices.op, slices.shape.as_list()) == (tf.float32, "v:0", values.op, [5, 3])
    assert tf.convert_to_tensor_or_indexed_slices(slices) is slices
    assert isinstance(-slices, tf.IndexedSlices)
    with tf.control_dependencies([slices]):
        assert tf.no_op().control_inputs == [values.op]


def test_slices_of_unknown_size_do_not_become_dense() -> None:
    slices = tf.IndexedSlices(tf.placeholder(tf.float32, [2, 3]), tf.constant([0, 4]))
    with pytest.raises(ValueError, match="without dense_shape"):
        tf.convert_to_tensor(slices)
    with pytest.raises(ValueError, match="requested dtype int32"):
        tf.convert_to_tensor_or_indexed_slices(slices, tf.int32)
