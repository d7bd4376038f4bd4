"""Winograd's algorithm: allowed by a pass, equal to the direct sum within the stated tolerance, and can be refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.choose_algorithms import choose_algorithms
from thalweg.passes.prune import prune

RANDOM = np.random.default_rng(0)


def session(any_algorithm: bool) -> tf.Session:
    config = tf.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.implementation_selector = rewrite.ON if any_algorithm else rewrite.OFF
    return tf.Session(config=config)


def run_both(fetches: Any, feeds: Any) -> tuple[list[np.ndarray], list[np.ndarray]]:
    with session(True) as fast, session(False) as direct:
        return fast.run(fetches, feeds), direct.run(fetches, feeds)


def test_convolutions_are_marked_and_nothing_else_is() -> None:
    x = tf.placeholder(tf.float32, [1, 8, 8, 16])
    y = tf.nn.relu(tf.nn.conv2d(x, tf.zeros([3, 3, 16, 16]), [1, 1, 1, 1], "SAME"))
    nodes = choose_algorithms(prune([x], [y], [])).nodes.values()
    assert {node.op for node in nodes if node.attrs.get("_any_sums")} == {"Conv2D"}


@pytest.mark.parametrize(
    ("shape", "channels", "padding"),
    [
        ((2, 12, 12, 32), 32, "SAME"),
        ((4, 13, 17, 64), 48, "VALID"),
        ((3, 9, 30, 40), 24, "SAME"),
        ((2, 20, 20, 200), 136, [[0, 0], [2, 1], [0, 2], [0, 0]]),
        ((4, 16, 16, 272), 32, "SAME"),
    ],
)
def test_all_three_passes_agree_with_the_direct_sum(shape: tuple[int, ...], channels: int, padding: Any) -> None:
    x, w = tf.placeholder(tf.float32, shape), tf.placeholder(tf.float32, (3, 3, shape[-1], channels))
    y = tf.nn.conv2d(x, w, strides=[1, 1, 1, 1], padding=padding)
    weights = tf.constant(RANDOM.standard_normal(y.shape.as_list()).astype(np.float32))
    results = [y, *tf.gradients(tf.reduce_sum(y * weights), [x, w])]
    feeds = {t: RANDOM.standard_normal(t.shape.as_list()).astype(np.float32) for t in (x, w)}
    fast, direct = run_both(results, feeds)
    assert not np.array_equal(fast[0], direct[0]), "the sizes are large enough for Winograd's algorithm"
    for got, want in zip(fast, direct, strict=True):
        assert np.abs(got - want).max() <= 3e-5 * np.abs(want).max()


@pytest.mark.parametrize(
    ("size", "strides", "dilations"),
    [(5, 1, 1), (3, 2, 1), (3, 1, 2), (1, 1, 1)],
    ids=["5x5", "stride", "dilated", "1x1"],
)
def test_other_convolutions_are_summed_directly(size: int, strides: int, dilations: int) -> None:
    x = tf.placeholder(tf.float32, [2, 16, 16, 32])
    w = tf.placeholder(tf.float32, [size, size, 32, 32])
    y = tf.nn.conv2d(x, w, strides=strides, padding="SAME", dilations=dilations)
    feeds = {t: RANDOM.standard_normal(t.shape.as_list()).astype(np.float32) for t in (x, w)}
    fast, direct = run_both(y, feeds)
    np.testing.assert_array_equal(fast, direct)


def test_not_a_number_reaches_the_outputs_that_see_it() -> None:
    x, w = np.ones((1, 16, 16, 32), np.float32), np.ones((3, 3, 32, 32), np.float32)
    x[0, 3, 3, 5] = np.nan
    with tf.Session() as sess:
        y = sess.run(tf.nn.relu(tf.nn.conv2d(tf.constant(x), tf.constant(w), [1, 1, 1, 1], "SAME")))
    assert np.isnan(y[0, 2:5, 2:5]).all()
    assert not np.isnan(y[0, 8:]).any()
