"""Reductions of fused chains: which are fused, and that they give the bits of the separate operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.passes.test_elementwise_code import assert_same_bits, values
from tests.passes.test_fusion import run_both

import thalweg as tf
from thalweg._native import core
from thalweg.passes.fusion import fuse
from thalweg.passes.prune import prune

REDUCTIONS = [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min, tf.reduce_prod]


def chain(x: Any) -> Any:
    return tf.tanh(x * 1.1 + 0.1) * tf.sigmoid(x) - 0.5 * x


def ops_after(fetches: list[Any], feeds: list[Any]) -> list[str]:
    """The op types of a step after fusion."""
    return [node.op for node in fuse(prune(feeds, fetches, []), core.operands_of_rows).nodes.values()]


def is_fused(result: Any, *feeds: Any) -> bool:
    ops = ops_after([result], list(feeds))
    return "_FusedElementwise" in ops and not {"Sum", "Mean", "Max", "Min", "Prod"} & set(ops)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape,axes", [
    ((5000,), None), ((70_001,), None), ((300_000,), None), ((3, 70_001), [1]), ((40, 33), [1]), ((700, 5), [-1]),
    ((9, 5000), [1]), ((4, 30, 50), [1, 2]), ((4, 30, 50), [0, 1, 2]), ((2, 3), None),
])  # fmt: skip
def test_rows_and_whole_arrays(reduction: Any, shape: tuple[int, ...], axes: Any) -> None:
    x = tf.placeholder(tf.float32, [None] * len(shape))
    array = values(np.random.default_rng(3), int(np.prod(shape))).reshape(shape)
    if reduction is not tf.reduce_max:
        array = np.nan_to_num(array, posinf=2.0, neginf=-2.0)
    for keep in (False, True):
        result = reduction(chain(x), axes, keepdims=keep)
        assert is_fused(result, x)
        assert_same_bits(*(np.asarray(r) for r in run_both(result, {x: array})))


def test_one_operation_and_its_reduction() -> None:
    x = tf.placeholder(tf.float32, [None, 2000])
    for result in (
        tf.reduce_sum(tf.square(x), 1),
        tf.reduce_mean(x * x),
        tf.reduce_max(tf.abs(x), 1),
        tf.reduce_sum(x * 0.5),
    ):
        assert is_fused(result, x)
        assert_same_bits(*run_both(result, {x: values(np.random.default_rng(1), 14_000).reshape(7, 2000)}))


def test_other_axes_readers_and_small_arrays_stay_apart() -> None:
    x, small = tf.placeholder(tf.float32, [None, 2000]), tf.placeholder(tf.float32, [3, 4])
    assert not is_fused(tf.reduce_sum(chain(x), 0), x)
    assert not is_fused(tf.reduce_sum(chain(small)), small)
    y = chain(x)
    assert "Sum" in ops_after([tf.reduce_sum(y), y], [x])
    axis = tf.placeholder(tf.int32, [])
    assert "Sum" in ops_after([tf.reduce_sum(y, axis)], [x, axis])


def test_shapes_that_turn_out_to_need_broadcasting() -> None:
    x, y = tf.placeholder(tf.float32, None), tf.placeholder(tf.float32, [None, None])
    result = tf.reduce_sum(tf.tanh(y) * y + y * 2.0, 1) + tf.reduce_sum(tf.sqrt(tf.abs(x)) * y, [0, 1])
    rng = np.random.default_rng(5)
    for shape in ((3, 1), (1, 900), (3, 900), ()):
        feeds = {x: rng.standard_normal(shape).astype(np.float32), y: rng.standard_normal((3, 900)).astype(np.float32)}
        assert_same_bits(*run_both(result, feeds))


def test_empty_arrays() -> None:
    x = tf.placeholder(tf.float32, [None, None])
    for shape in ((0, 5), (5, 0), (0, 0)):
        fused, separate = run_both(tf.reduce_sum(chain(x), 1), {x: np.zeros(shape, np.float32)})
        np.testing.assert_array_equal(fused, separate)


def test_an_axis_that_does_not_exist_is_an_error() -> None:
    x = tf.placeholder(tf.float32, None)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="reduction dimension"):
        session.run(tf.reduce_sum(chain(x), 3), {x: np.ones((2, 3), np.float32)})


def test_gradients_go_through() -> None:
    x = tf.placeholder(tf.float32, [3000])
    loss = tf.reduce_sum(chain(x))
    feeds = {x: np.linspace(-2, 2, 3000, dtype=np.float32)}
    assert_same_bits(*run_both(tf.gradients(loss, x)[0], feeds))
