"""Array functions that are compositions, choose between ops, or have deprecated spellings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def run(tensor: Any, feeds: Any = None) -> Any:
    with tf.Session(graph=tf.nest.flatten(tensor)[0].graph) as session:
        return session.run(tensor, feeds)


@pytest.fixture(autouse=True)
def _graph() -> Any:
    with tf.Graph().as_default():
        yield


def test_shapes_that_are_known_become_constants() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    assert [t.op.type for t in (tf.shape(x), tf.size(x), tf.rank(x), tf.zeros_like(x))] == ["Const"] * 4
    y = tf.placeholder(tf.float32)
    assert [t.op.type for t in (tf.shape(y), tf.size(y), tf.rank(y), tf.zeros_like(y))] == [
        "Shape",
        "Size",
        "Rank",
        "ZerosLike",
    ]


def test_shape_of_a_sparse_tensor() -> None:
    sparse = tf.SparseTensor([[0, 1]], [1.0], [3, 4])
    assert run(tf.shape(sparse)).tolist() == [3, 4]
    assert run([tf.size(sparse), tf.rank(sparse)]) == [12, 2]


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.bool, tf.complex64, tf.bfloat16], ids=lambda d: d.name)
def test_zeros_and_ones_of_any_kind_of_shape(dtype: Any) -> None:
    n = tf.placeholder(tf.int32, [])
    for shape in (
        [2, 3],
        (2, 3),
        tf.TensorShape([2, 3]),
        tf.constant([2, 3]),
        np.array([2, 3]),
        [2, n],
        [tf.Dimension(2), 3],
    ):
        zeros, ones = run([tf.zeros(shape, dtype), tf.ones(shape, dtype)], {n: 3})
        assert zeros.shape == ones.shape == (2, 3)
        assert not zeros.any() and (ones == 1).all()
    assert tf.zeros([2, n]).shape.as_list() == [2, None]
    assert run(tf.zeros([], dtype)).shape == ()
    assert run(tf.zeros([2000, 2], dtype)).shape == (2000, 2)


def test_zeros_of_strings_are_empty() -> None:
    assert run(tf.zeros([2], tf.string)).tolist() == [b"", b""]


def test_likeness_with_another_type() -> None:
    x = tf.placeholder(tf.float32)
    zeros, ones = run([tf.zeros_like(x, tf.int32), tf.ones_like(x, dtype=tf.bool)], {x: np.ones([2, 2])})
    assert zeros.dtype == np.int32 and ones.dtype == np.bool_ and ones.all() and not zeros.any()


def test_stack_of_python_values_is_a_constant() -> None:
    assert tf.stack([1, 2]).op.type == "Const"
    assert run(tf.stack([[1, 2], [3, 4]], axis=1)).tolist() == [[1, 3], [2, 4]]
    assert run(tf.stack([tf.constant(1.0), 2.0])).tolist() == [1.0, 2.0]


def test_deprecated_spellings_still_work() -> None:
    x = tf.constant([[1.0, 2.0]])
    assert run(tf.pack([x, x])).shape == (2, 1, 2)
    assert len(tf.unpack(x)) == 1
    assert run(tf.expand_dims(x, dim=0)).shape == (1, 1, 2)
    assert run(tf.squeeze(x, squeeze_dims=[0])).shape == (2,)
    assert run(tf.reverse_sequence(x, [2], seq_dim=1, batch_dim=0)).tolist() == [[2.0, 1.0]]
    with pytest.raises(ValueError, match="both"):
        tf.expand_dims(x, 0, dim=0)


def test_concat_of_one_tensor_and_the_order_of_arguments_before_1_0() -> None:
    x = tf.constant([1, 2])
    assert run(tf.concat([x], 0)).tolist() == [1, 2]
    assert run(tf.concat(x, 0)).tolist() == [1, 2]
    with pytest.raises(ValueError, match="first"):
        tf.concat(0, [x, x])


def test_split_needs_to_know_the_number_of_parts() -> None:
    sizes = tf.placeholder(tf.int32, [None])
    with pytest.raises(ValueError, match="num"):
        tf.split(tf.zeros([4]), sizes)
    parts = run(tf.split(tf.range(4), sizes, num=2), {sizes: [1, 3]})
    assert [part.tolist() for part in parts] == [[0], [1, 2, 3]]
    with pytest.raises(ValueError, match="num"):
        tf.unstack(tf.placeholder(tf.float32))


def test_parallel_stack() -> None:
    assert run(tf.parallel_stack([tf.constant([1, 2]), tf.constant([3, 4])])).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match="known shape"):
        tf.parallel_stack([tf.placeholder(tf.float32)])


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid_equals_numpy(indexing: str) -> None:
    vectors = [np.arange(3.0), np.arange(2.0), np.arange(4.0)]
    for n in (1, 2, 3):
        for got, want in zip(
            run(tf.meshgrid(*vectors[:n], indexing=indexing)), np.meshgrid(*vectors[:n], indexing=indexing), strict=True
        ):
            np.testing.assert_array_equal(got, want)
    assert [t.shape.as_list() for t in tf.meshgrid([1, 2], [3])] == [[1, 2], [1, 2]]
    with pytest.raises(ValueError, match="indexing"):
        tf.meshgrid([1], indexing="yx")
    with pytest.raises(TypeError, match="sparse"):
        tf.meshgrid([1], sparse=True)


def test_sequence_mask() -> None:
    assert run(tf.sequence_mask([1, 0, 2])).tolist() == [[True, False], [False, False], [True, True]]
    assert run(tf.sequence_mask([[1], [3]], 2, tf.float32)).tolist() == [[[1, 0]], [[1, 1]]]
    lengths = tf.placeholder(tf.int64, [None])
    mask = tf.sequence_mask(lengths, maxlen=4)
    assert mask.shape.as_list() == [None, 4]
    assert run(mask, {lengths: [4]}).tolist() == [[True] * 4]
    with pytest.raises(ValueError, match="scalar"):
        tf.sequence_mask([1], maxlen=[2])


@pytest.mark.parametrize(("repeats", "axis"), [(2, None), (3, 1), ([1, 2], 0), ([2, 0, 1], -1), ([2], 0)])
def test_repeat_and_its_gradient_equal_numpy(repeats: Any, axis: int | None) -> None:
    array = np.arange(6.0).reshape(2, 3)
    x = tf.placeholder(tf.float64, [2, 3])
    result = tf.repeat(x, repeats, axis)
    value, grad = run([result, tf.gradients(result, x)[0]], {x: array})
    expected = np.repeat(array, repeats, axis)
    np.testing.assert_array_equal(value, expected)
    assert result.shape.as_list() == list(expected.shape)
    np.testing.assert_array_equal(grad.sum(), expected.size)


def test_required_space_to_batch_paddings_known_and_at_run_time() -> None:
    static = tf.required_space_to_batch_paddings([4, 5], [2, 3], [[1, 0], [0, 0]])
    size = tf.placeholder(tf.int32, [2])
    dynamic = tf.required_space_to_batch_paddings(size, [2, 3], [[1, 0], [0, 0]])
    for pair in (run(static), run(dynamic, {size: [4, 5]})):
        assert pair[0].tolist() == [[1, 1], [0, 1]]
        assert pair[1].tolist() == [[0, 1], [0, 1]]


def test_space_to_batch_and_back() -> None:
    x = np.arange(32.0).reshape(2, 4, 4, 1)
    batched = tf.space_to_batch(x, [[0, 0], [0, 0]], 2)
    assert batched.shape.as_list() == [8, 2, 2, 1]
    np.testing.assert_array_equal(run(tf.batch_to_space(batched, [[0, 0], [0, 0]], 2)), x)


def test_pad_chooses_its_op() -> None:
    x, p = tf.zeros([2]), [[1, 1]]
    kinds = [
        tf.pad(x, p),
        tf.pad(x, p, constant_values=1.0),
        tf.pad(x, p, constant_values=tf.constant(0.0)),
        tf.pad(x, p, "reflect"),
    ]
    assert [t.op.type for t in kinds] == ["Pad", "PadV2", "PadV2", "MirrorPad"]
    with pytest.raises(ValueError, match="Unknown padding mode"):
        tf.pad(x, p, "mirror")


def test_one_hot_types() -> None:
    assert tf.one_hot([0], 2).dtype == tf.float32
    assert tf.one_hot([0], 2, on_value=True, off_value=False).dtype == tf.bool
    assert tf.one_hot([0], 2, on_value=5, dtype=tf.float64).dtype == tf.float64
    assert run(tf.one_hot([1], 2, 5)).tolist() == [[0, 5]]
    with pytest.raises(TypeError, match="does not match"):
        tf.one_hot([0], 2, on_value=tf.constant(1), dtype=tf.float32)
    with pytest.raises(TypeError, match="does not match"):
        tf.one_hot([0], 2, on_value=tf.constant(1), off_value=tf.constant(0.0))


def test_broadcast_shapes() -> None:
    assert tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3])).as_list() == [2, 3]
    with pytest.raises(ValueError, match="Incompatible"):
        tf.broadcast_static_shape(tf.TensorShape([2]), tf.TensorShape([3]))
    assert run(tf.broadcast_dynamic_shape([2, 1], [3])).tolist() == [2, 3]


def test_transpose_of_complex_matrices() -> None:
    x = np.array([[1 + 2j, 3j]])
    np.testing.assert_array_equal(run(tf.transpose(x, conjugate=True)), x.conj().T)
    np.testing.assert_array_equal(run(tf.matrix_transpose(x)), x.T)
    y = tf.placeholder(tf.float32)
    np.testing.assert_array_equal(run(tf.transpose(y), {y: np.eye(2, 3)}), np.eye(3, 2))
    np.testing.assert_array_equal(run(tf.matrix_transpose(y), {y: np.ones([2, 3, 4])}), np.ones([2, 4, 3]))
    with pytest.raises(ValueError, match="rank >= 2"):
        tf.matrix_transpose([1.0])


def test_batch_gather_and_batched_gather_nd_equal_numpy() -> None:
    params = np.arange(24.0).reshape(2, 3, 4)
    indices = np.array([[2, 0], [1, 1]])
    x = tf.placeholder(tf.float64, [None, 3, 4])
    rows = tf.batch_gather(x, indices)
    pairs = tf.gather_nd(x, indices[..., None], batch_dims=1)
    expected = np.stack([params[b, indices[b]] for b in range(2)])
    for value in run([rows, pairs], {x: params}):
        np.testing.assert_array_equal(value, expected)
    grad = run(tf.gradients(rows, x)[0], {x: params})
    np.testing.assert_array_equal(grad[:, :, 0], [[1, 0, 1], [0, 2, 0]])


def test_the_gradient_of_a_gather_is_sparse_and_becomes_dense_on_demand() -> None:
    x = tf.placeholder(tf.float64, [5, 3])
    grad = tf.gradients(tf.gather(x, [[1, 1], [4, 0]]) * 2.0, x)[0]
    assert isinstance(grad, tf.IndexedSlices)
    assert grad.shape.as_list() == [5, 3]
    dense = tf.convert_to_tensor(grad)
    assert dense.shape.as_list() == [5, 3]
    np.testing.assert_array_equal(run(dense, {x: np.zeros([5, 3])})[:, 0], [2, 4, 0, 0, 2])


def test_the_gradient_of_a_concat_of_unknown_shapes() -> None:
    x, y = tf.placeholder(tf.float64), tf.placeholder(tf.float64)
    joined = tf.concat([x, y], 1)
    weights = tf.placeholder(tf.float64)
    gx, gy = tf.gradients(joined * weights, [x, y])
    w = np.arange(10.0).reshape(2, 5)
    got = run([gx, gy], {x: np.zeros([2, 2]), y: np.zeros([2, 3]), weights: w})
    np.testing.assert_array_equal(got[0], w[:, :2])
    np.testing.assert_array_equal(got[1], w[:, 2:])


def test_rows_of_a_gradient_stay_rows_through_a_concat() -> None:
    a, b = tf.placeholder(tf.float64, [5, 2]), tf.placeholder(tf.float64, [5, 3])
    picked = tf.gather(tf.concat([a, b], 1), [1, 3])
    ga, gb = tf.gradients(picked, [a, b])
    assert isinstance(ga, tf.IndexedSlices) and isinstance(gb, tf.IndexedSlices)
    values = run([ga.values, gb.values, ga.indices], {a: np.zeros([5, 2]), b: np.zeros([5, 3])})
    assert [v.shape for v in values] == [(2, 2), (2, 3), (2,)]


@pytest.mark.parametrize("unknown", [False, True])
def test_gradients_of_tile_slice_and_pad_without_static_shapes(unknown: bool) -> None:
    shape = None if unknown else [2, 3]
    x = tf.placeholder(tf.float64, shape)
    m, begin, pads = tf.placeholder(tf.int32, [2]), tf.placeholder(tf.int32, [2]), tf.placeholder(tf.int32, [2, 2])
    outs = [tf.tile(x, m), tf.slice(x, begin, [1, -1]), tf.pad(x, pads), tf.fill(tf.shape(x), tf.reduce_sum(x))]
    grads = [tf.gradients(out, x)[0] for out in outs]
    feeds = {x: np.ones([2, 3]), m: [2, 3], begin: [1, 1], pads: [[1, 0], [0, 2]]}
    tiled, sliced, padded, filled = run(grads, feeds)
    np.testing.assert_array_equal(tiled, np.full([2, 3], 6.0))
    np.testing.assert_array_equal(sliced, [[0, 0, 0], [0, 1, 1]])
    np.testing.assert_array_equal(padded, np.ones([2, 3]))
    np.testing.assert_array_equal(filled, np.full([2, 3], 6.0))


def test_a_slice_shares_memory_and_still_is_never_overwritten() -> None:
    x = tf.placeholder(tf.float64, [4, 1000])
    first, rest = x[:2] * 2.0, x[2:]
    doubled = tf.tanh(x[1:3])
    parts = tf.unstack(x)
    sums = [tf.negative(part) for part in parts]
    array = np.arange(4000.0).reshape(4, 1000)
    a, b, c, d, e = run([first, rest, doubled, sums, parts], {x: array})
    np.testing.assert_array_equal(a, array[:2] * 2)
    np.testing.assert_array_equal(b, array[2:])
    np.testing.assert_allclose(c, np.tanh(array[1:3]))
    np.testing.assert_array_equal(d, -array)
    np.testing.assert_array_equal(e, array)
