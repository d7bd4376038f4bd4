"""Indexing tensors as NumPy does: random expressions against NumPy, static shapes, gradients, masks, errors, names."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import thalweg as tf

_SHAPE = (4, 1, 5, 3)


def _random_entry(rng: random.Random, size: int) -> Any:
    kind = rng.random()
    if kind < 0.35:
        return rng.randrange(-size, size)
    bound = [None, *range(-size - 2, size + 3)]
    step = rng.choice([None, None, 1, 2, 3, -1, -2, -7, 9])
    return slice(rng.choice(bound), rng.choice(bound), step)


def _random_index(rng: random.Random) -> tuple[Any, ...]:
    """An index expression that NumPy accepts for an array of _SHAPE."""
    used = rng.randint(0, len(_SHAPE))
    split = rng.randint(0, used) if rng.random() < 0.4 else None
    entries: list[Any] = []
    for i in range(used):
        if i == split:
            entries.append(Ellipsis)
        axis = i if split is None or i < split else len(_SHAPE) - used + i
        entries.append(_random_entry(rng, _SHAPE[axis]))
    if split is not None and split == used:
        entries.append(Ellipsis)
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        entries.insert(rng.randint(0, len(entries)), None)
    return tuple(entries)


_RNG = random.Random(2016)
_EXPRESSIONS = [_random_index(_RNG) for _ in range(400)]


@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown"])
def test_random_index_expressions_equal_numpy(known: bool) -> None:
    array = np.arange(np.prod(_SHAPE), dtype=np.float32).reshape(_SHAPE)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, _SHAPE if known else None)
        parts = [x[index] for index in _EXPRESSIONS]
        values = session.run(parts, {x: array})
    for index, part, value in zip(_EXPRESSIONS, parts, values, strict=True):
        expected = array[index]
        np.testing.assert_array_equal(value, expected, err_msg=str(index))
        assert value.shape == expected.shape, index
        if known:
            assert part.shape.as_list() == list(expected.shape), index
        else:
            assert part.shape.is_compatible_with(expected.shape), index


def test_indices_that_are_tensors_equal_numpy() -> None:
    array = np.arange(np.prod(_SHAPE), dtype=np.int64).reshape(_SHAPE)
    rng = random.Random(7)

    def as_tensor(entry: Any) -> Any:
        def wrapped(n: int | None) -> Any:
            return n if n is None or rng.random() < 0.3 else tf.placeholder_with_default(np.int64(n), [])

        if isinstance(entry, slice):
            return slice(wrapped(entry.start), wrapped(entry.stop), wrapped(entry.step))
        return wrapped(entry) if isinstance(entry, int) else entry

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(array)
        parts = [x[tuple(as_tensor(entry) for entry in index)] for index in _EXPRESSIONS[:100]]
        values = session.run(parts)
    for index, part, value in zip(_EXPRESSIONS[:100], parts, values, strict=True):
        np.testing.assert_array_equal(value, array[index], err_msg=str(index))
        assert part.shape.ndims == array[index].ndim, index
        assert part.shape.is_compatible_with(array[index].shape), index


def test_the_gradient_of_an_index_expression_counts_what_was_taken() -> None:
    array = np.zeros(_SHAPE)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float64, _SHAPE)
        grads = [tf.gradients(x[index] * 3.0, x)[0] for index in _EXPRESSIONS[:60]]
        values = session.run(grads, {x: array})
    for index, value in zip(_EXPRESSIONS[:60], values, strict=True):
        expected = np.zeros(_SHAPE)
        expected[index] = 3.0
        np.testing.assert_array_equal(value, expected, err_msg=str(index))


def test_part_of_the_shape_is_known_although_a_bound_is_a_tensor() -> None:
    n = tf.placeholder(tf.int32, [])
    x = tf.zeros([7, 8, 9])
    assert x[:n, 2:, 0].shape.as_list() == [None, 6]
    assert x[n, ..., None].shape.as_list() == [8, 9, 1]
    assert tf.placeholder(tf.float32, [None, 4])[:, :2].shape.as_list() == [None, 2]
    assert tf.placeholder(tf.float32)[0].shape.ndims is None


def test_a_boolean_mask_as_index() -> None:
    array = np.arange(6.0).reshape(2, 3)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(array)
        np.testing.assert_array_equal(session.run(x[x > 2.0]), array[array > 2.0])
        np.testing.assert_array_equal(session.run(x[np.array([False, True])]), array[[False, True]])


@pytest.mark.parametrize("index", ["a", 1.5, [1.5], (0, 2.0), tf.float32, slice("a", None)], ids=str)
def test_other_kinds_of_index_are_refused(index: Any) -> None:
    with pytest.raises(TypeError, match="Only integers, slices"):
        tf.zeros([3, 3])[index]


def test_impossible_indices_are_refused_while_building() -> None:
    x = tf.zeros([3, 4])
    for index in [(3, 0), (0, -5), (0, 0, 0), (Ellipsis, Ellipsis)]:
        with pytest.raises(ValueError):
            x[index]
    with pytest.raises(ValueError, match="non-zero"):
        x[::0]


def test_an_index_out_of_range_is_refused_by_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, i = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
        part = x[i]
        with pytest.raises(tf.errors.InvalidArgumentError, match="slice index 3 of dimension 0 out of bounds"):
            session.run(part, {x: np.zeros(3), i: 3})


def test_nodes_are_named_as_in_tensorflow() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        assert x[0].name == "strided_slice:0"
        assert x[0, 1:].name == "strided_slice_1:0"
        names = [op.name for op in graph.get_operations()]
    assert names[1:5] == ["strided_slice/stack", "strided_slice/stack_1", "strided_slice/stack_2", "strided_slice"]


def test_tensors_cannot_be_assigned_to_by_slices() -> None:
    assert not hasattr(tf.zeros([3])[1:], "assign")


@pytest.mark.parametrize("axis", [0, 1, None])
def test_boolean_mask_and_its_gradient_equal_numpy(axis: int | None) -> None:
    rng = np.random.default_rng(3)
    array = rng.standard_normal((3, 4, 2))
    mask = rng.random((3, 4) if axis is None else array.shape[axis : axis + 1]) < 0.5
    with tf.Graph().as_default(), tf.Session() as session:
        x, m = tf.placeholder(tf.float64, [None, None, 2]), tf.placeholder(tf.bool, [None] * mask.ndim)
        kept = tf.boolean_mask(x, m, axis=axis)
        value, grad = session.run([kept, tf.gradients(kept * kept, x)[0]], {x: array, m: mask})
    index = (slice(None),) * (axis or 0) + (mask,)
    np.testing.assert_array_equal(value, array[index])
    expected = np.zeros_like(array)
    expected[index] = 2 * array[index]
    np.testing.assert_allclose(grad, expected)


def test_boolean_mask_refuses_scalars_unknown_ranks_and_other_shapes() -> None:
    with pytest.raises(ValueError, match="scalar"):
        tf.boolean_mask(tf.zeros([2]), True)
    with pytest.raises(ValueError, match="must be specified"):
        tf.boolean_mask(tf.zeros([2]), tf.placeholder(tf.bool))
    with pytest.raises(ValueError):
        tf.boolean_mask(tf.zeros([2]), [True, False, True])


def test_slices_of_variables_can_be_assigned_to() -> None:
    array = np.arange(20.0).reshape(4, 5)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(array)
        session.run(v.initializer)
        session.run(v[1:3, ::-2].assign(-np.ones([2, 3])))
        array[1:3, ::-2] = -1
        session.run(tf.strided_slice(v, [3], [4], var=v).assign([np.full(5, 7.0)]))
        array[3] = 7
        session.run(v[0, 1].assign(100.0))
        array[0, 1] = 100
        np.testing.assert_array_equal(session.run(v), array)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \[2,5\] to a slice of shape \[1,5\]"):
            session.run(v[3:].assign(np.ones([2, 5])).op)
        np.testing.assert_array_equal(session.run(v), array)


@pytest.mark.parametrize("index", [2**63, -(2**63) - 1, slice(0, 2**70)])
def test_an_index_beyond_64_bits_is_refused(index: Any) -> None:
    with pytest.raises(ValueError, match="out of the range of int64"):
        tf.ones([2, 2])[index]
