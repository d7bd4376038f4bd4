"""Sparse values end to end: feeding, fetching, placeholders, serialization, functions composed from several ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

INDICES = [[0, 1], [1, 0], [1, 2]]
VALUES = [1.0, 2.0, 3.0]
SHAPE = [2, 3]


def _sparse() -> Any:
    return tf.SparseTensor(INDICES, VALUES, SHAPE)


def _run(fetch: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetch, feeds)


def _assert_value(value: Any, indices: Any, values: Any, shape: Any) -> None:
    assert isinstance(value, tf.SparseTensorValue)
    assert np.asarray(value.indices).tolist() == indices
    assert np.asarray(value.values).tolist() == values
    assert np.asarray(value.dense_shape).tolist() == shape


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


def test_a_sparse_placeholder_is_fed_a_value_or_its_parts_and_keeps_its_static_shape() -> None:
    x = tf.sparse_placeholder(tf.float32, shape=[None, 3], name="x")
    assert x.shape.as_list() == [None, 3]
    assert [t.op.name for t in (x.indices, x.values, x.dense_shape)] == ["x/indices", "x/values", "x/shape"]
    value = tf.SparseTensorValue(np.array(INDICES), np.array(VALUES, np.float32), np.array(SHAPE))
    _assert_value(_run(x, {x: value}), INDICES, VALUES, SHAPE)
    _assert_value(_run(x, {x: (INDICES, VALUES, SHAPE)}), INDICES, VALUES, SHAPE)
    dense = tf.sparse_tensor_to_dense(x)
    assert _run(dense, {x: value}).tolist() == [[0, 1, 0], [2, 0, 3]]
    assert tf.sparse_placeholder(tf.int64).shape.ndims is None


def test_dense_and_back() -> None:
    dense = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
    _assert_value(_run(tf.sparse.from_dense(dense)), INDICES, VALUES, SHAPE)
    _assert_value(_run(tf.sparse.from_dense([[b"", b"a"]])), [[0, 1]], [b"a"], [1, 2])


def test_retain_keeps_what_is_marked() -> None:
    kept = tf.sparse_retain(_sparse(), [True, False, True])
    _assert_value(_run(kept), [[0, 1], [1, 2]], [1.0, 3.0], SHAPE)
    with pytest.raises(ValueError, match="does not fit"):
        tf.sparse_retain(_sparse(), [True])


def test_mask_drops_rows_of_indexed_slices() -> None:
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), tf.constant([4, 5, 6]), tf.constant([9, 1]))
    masked = _run(tf.sparse_mask(rows, [5]))
    assert masked.indices.tolist() == [4, 6]
    assert masked.values.tolist() == [[1.0], [3.0]]


def test_ids_become_an_indicator_and_repeated_ids_are_allowed() -> None:
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([2, 2, 0], tf.int64), [2, 2])
    assert _run(tf.sparse_to_indicator(ids, 3)).tolist() == [[False, False, True], [True, False, False]]
    outside = tf.SparseTensor([[0, 0]], tf.constant([7], tf.int64), [1, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        _run(tf.sparse_to_indicator(outside, 3))


def test_merge_puts_values_at_ids() -> None:
    ids = _sparse().with_values(tf.constant([1, 2, 0], tf.int64))
    merged = tf.sparse_merge(ids, _sparse(), 4)
    _assert_value(_run(merged), [[0, 1], [1, 0], [1, 2]], [1.0, 3.0, 2.0], [2, 4])


def test_reset_shape_shrinks_to_fit_or_grows() -> None:
    x = tf.SparseTensor([[0, 0], [1, 1]], [1.0, 2.0], [5, 5])
    _assert_value(_run(tf.sparse_reset_shape(x)), [[0, 0], [1, 1]], [1.0, 2.0], [2, 2])
    _assert_value(_run(tf.sparse_reset_shape(x, [6, 7])), [[0, 0], [1, 1]], [1.0, 2.0], [6, 7])
    with pytest.raises(ValueError, match="smaller"):
        tf.sparse_reset_shape(x, [4, 7])
    empty = tf.SparseTensor(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), [5, 5])
    assert _run(tf.sparse_reset_shape(empty)).dense_shape.tolist() == [0, 0]


def test_expand_dims_and_eye() -> None:
    _assert_value(_run(tf.sparse.expand_dims(_sparse())), [[*i, 0] for i in INDICES], VALUES, [2, 3, 1])
    _assert_value(_run(tf.sparse.expand_dims(_sparse(), 1)), [[i, 0, j] for i, j in INDICES], VALUES, [2, 1, 3])
    _assert_value(_run(tf.sparse.eye(2, 3)), [[0, 0], [1, 1]], [1.0, 1.0], [2, 3])


# As TensorFlow writes them.
INDICES_PROTO = b'\x08\t\x12\x08\x12\x02\x08\x03\x12\x02\x08\x02"0' + np.array(INDICES, np.int64).tobytes()
VALUES_PROTO = b'\x08\x01\x12\x04\x12\x02\x08\x03"\x0c' + np.array(VALUES, np.float32).tobytes()
SHAPE_PROTO = b'\x08\t\x12\x04\x12\x02\x08\x02"\x10' + np.array(SHAPE, np.int64).tobytes()


def test_serialized_values_have_tensorflows_bytes_and_come_back() -> None:
    serialized = tf.serialize_sparse(_sparse())
    assert _run(serialized).tolist() == [INDICES_PROTO, VALUES_PROTO, SHAPE_PROTO]
    _assert_value(_run(tf.deserialize_sparse(serialized, tf.float32, rank=2)), INDICES, VALUES, SHAPE)
    stacked = tf.deserialize_sparse(tf.stack([serialized, serialized]), tf.float32)
    assert _run(stacked).dense_shape.tolist() == [2, 2, 3]


def test_rows_are_serialized_one_by_one_and_stacked_again() -> None:
    many = tf.serialize_many_sparse(_sparse())
    rows = _run(many)
    assert rows.shape == (2, 3)
    assert rows[0, 1] == b'\x08\x01\x12\x04\x12\x02\x08\x01"\x04\x00\x00\x80?'
    _assert_value(_run(tf.deserialize_many_sparse(many, tf.float32, rank=1)), INDICES, VALUES, SHAPE)
    words = tf.SparseTensor(INDICES, [b"a", b"", b"c"], SHAPE)
    back = tf.deserialize_many_sparse(tf.serialize_many_sparse(words), tf.string)
    _assert_value(_run(back), INDICES, [b"a", b"", b"c"], SHAPE)


@pytest.mark.parametrize(
    "parts",
    [
        [b"\xff\xff", VALUES_PROTO, SHAPE_PROTO],
        [VALUES_PROTO, VALUES_PROTO, SHAPE_PROTO],
        [INDICES_PROTO, INDICES_PROTO, SHAPE_PROTO],
        [INDICES_PROTO, VALUES_PROTO, INDICES_PROTO],
        [INDICES_PROTO, VALUES_PROTO, b'\x08\t\x12\x04\x12\x02\x08\x02"\x10' + np.array([1, 1]).tobytes()],
        [INDICES_PROTO[:-8], VALUES_PROTO, SHAPE_PROTO],
        [b"", b"", b""],
    ],
)
def test_damaged_strings_are_refused(parts: list[bytes]) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(tf.deserialize_sparse(parts, tf.float32))
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(tf.deserialize_many_sparse([parts], tf.float32))


def test_nothing_cannot_be_deserialized() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="rank"):
        _run(tf.deserialize_many_sparse(np.zeros((0, 3), object), tf.float32))


def test_dense_values_are_not_accepted_as_sparse_ones() -> None:
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.sparse_reorder([1.0])
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.sparse_add([1.0], [2.0])


def test_a_nan_or_infinite_range_never_ends_the_process() -> None:
    x = tf.constant([1.0, float("nan"), float("inf"), -float("inf")])
    out = _run(tf.fake_quant_with_min_max_vars(x, float("nan"), 1.0))
    assert out.shape == (4,)
    quantized = tf.quantize(x, -1.0, 1.0, tf.quint8)
    assert _run(tf.bitcast(quantized.output, tf.uint8)).tolist() == [255, 0, 255, 0]


def test_the_gradient_of_rounding_passes_straight_through() -> None:
    x = tf.constant([0.1, 5.0])
    rounded = tf.quantization.quantize_and_dequantize(x, -1.0, 1.0, range_given=True)
    assert _run(tf.gradients(rounded, x)[0]).tolist() == [1.0, 1.0]
    low, high = tf.constant(-1.0), tf.constant(2.0)
    fake = tf.fake_quant_with_min_max_vars(x, low, high)
    assert [g.tolist() for g in _run(tf.gradients(fake, [x, low, high]))] == [[1.0, 0.0], 0.0, 1.0]


@pytest.mark.parametrize(
    ("dtype", "quotient"), [(tf.int32, tf.float64), (tf.int8, tf.float32), (tf.float32, tf.float32)]
)
def test_sparse_integers_are_divided_as_python_divides(dtype: tf.DType, quotient: tf.DType) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sparse = tf.SparseTensor([[0, 0], [1, 1]], tf.constant([7, -7], dtype), [2, 2])
        for dense in (2, tf.constant([[2, 2], [2, 2]], dtype)):
            result = sparse / dense
            assert result.dtype is quotient
            np.testing.assert_array_equal(session.run(result.values), [3.5, -3.5])


def test_rows_out_of_order_are_serialized_in_theirs() -> None:
    x = tf.SparseTensor([[2, 1], [0, 3], [2, 0], [0, 0]], [1.0, 2.0, 3.0, 4.0], [3, 4])
    rows = tf.deserialize_many_sparse(tf.serialize_many_sparse(x), tf.float32)
    with tf.Session() as session:
        found = session.run(rows)
    np.testing.assert_array_equal(found.indices, [[0, 3], [0, 0], [2, 1], [2, 0]])
    np.testing.assert_array_equal(found.values, [2, 4, 1, 3])


def test_sets_of_indices_out_of_order() -> None:
    a = tf.SparseTensor([[1, 0], [0, 1], [1, 1], [0, 0]], [5, 7, 4, 7], [3, 2])
    union = tf.sets.union(a, tf.constant([[1, 7], [4, 4], [0, 0]]), validate_indices=False)
    with tf.Session() as session:
        found, sizes = session.run([union, tf.sets.size(a, validate_indices=False)])
    np.testing.assert_array_equal(found.indices, [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]])
    np.testing.assert_array_equal(found.values, [1, 7, 4, 5, 0])
    np.testing.assert_array_equal(sizes, [1, 2, 0])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="not in row-major order"):
        session.run(tf.sets.size(a))
