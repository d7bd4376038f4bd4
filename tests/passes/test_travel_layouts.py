"""Layouts: programs in NCHW run in NHWC inside, with transpositions at the ends only, and give the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.passes.fold_constants import fold_constants
from thalweg.passes.prune import prune
from thalweg.passes.travel_layouts import travel_layouts
from thalweg.runtime.install import evaluate

RANDOM = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ops_after(fetches: list[Any], feeds: list[Any]) -> list[str]:
    graph = fold_constants(prune(feeds, fetches, []), evaluate)
    return [node.op for node in travel_layouts(graph, core.operands_of_rows).nodes.values()]


def run_both(fetches: Any, feeds: Any) -> tuple[Any, Any]:
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.layout_optimizer = config.graph_options.rewrite_options.OFF
    with tf.Session() as turned, tf.Session(config=config) as plain:
        for session in (turned, plain):
            session.run(tf.global_variables_initializer())
        return turned.run(fetches, feeds), plain.run(fetches, feeds)


def network(x: Any) -> Any:
    """Two blocks with every kind of operation that has a layout, and some that have none."""
    for i, channels in enumerate((8, 16)):
        filters = tf.get_variable(f"w{i}", initializer=array(3, 3, x.shape[1].value, channels) * 0.2)
        bias = tf.get_variable(f"b{i}", initializer=array(channels))
        x = tf.nn.conv2d(x, filters, strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")
        x = tf.nn.relu(tf.nn.bias_add(x, bias, data_format="NCHW"))
        x = tf.nn.fused_batch_norm(x, tf.ones([channels]), tf.zeros([channels]), data_format="NCHW")[0]
        x = tf.tanh(x * 0.5 + x)
        pool = tf.nn.max_pool if i else tf.nn.avg_pool
        x = pool(x, [1, 1, 3, 2], [1, 1, 2, 1], "VALID", data_format="NCHW")
    return x


def test_a_chain_is_transposed_at_its_ends_only() -> None:
    x = tf.placeholder(tf.float32, [2, 3, 12, 12])
    y = tf.reduce_sum(network(x), [2, 3])
    assert ops_after([y], [x]).count("Transpose") == 2


@pytest.mark.parametrize("batch", [0, 2])
def test_forward_and_gradients_are_the_same(batch: int) -> None:
    x = tf.placeholder(tf.float32, [batch, 3, 12, 14])
    y = network(x)
    loss = tf.reduce_sum(tf.square(y))
    results = [y, loss, *tf.gradients(loss, [x, *tf.trainable_variables()])]
    turned, plain = run_both(results, {x: array(batch, 3, 12, 14)})
    for got, want in zip(turned, plain, strict=True):
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(want).max(initial=0))))


def test_explicit_paddings_strides_and_dilations_are_turned() -> None:
    x = tf.placeholder(tf.float32, [2, 3, 11, 13])
    pads = [[0, 0], [0, 0], [2, 1], [0, 3]]
    y = tf.nn.conv2d(
        x, array(3, 2, 3, 4), strides=[1, 1, 2, 1], padding=pads, data_format="NCHW", dilations=[1, 1, 1, 2]
    )
    turned, plain = run_both(y, {x: array(2, 3, 11, 13)})
    assert turned.shape == plain.shape
    np.testing.assert_allclose(turned, plain, rtol=1e-4, atol=1e-5)


def test_values_inside_a_chain_can_be_fetched_and_fed() -> None:
    x = tf.placeholder(tf.float32, [1, 3, 6, 6])
    first = tf.nn.conv2d(x, array(1, 1, 3, 4), strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW")
    middle = tf.nn.relu(first)
    last = tf.nn.max_pool(middle, [1, 1, 2, 2], [1, 1, 2, 2], "SAME", data_format="NCHW")
    turned, plain = run_both([middle, last], {x: array(1, 3, 6, 6)})
    for got, want in zip(turned, plain, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    fed = array(1, 4, 6, 6)
    turned, plain = run_both(last, {middle: fed})
    np.testing.assert_array_equal(turned, plain)


def test_a_sum_of_an_image_with_something_else_stays_as_written() -> None:
    x, row = tf.placeholder(tf.float32, [1, 3, 4, 5]), tf.placeholder(tf.float32, [5])
    y = tf.nn.conv2d(x, array(1, 1, 3, 2), strides=[1, 1, 1, 1], padding="SAME", data_format="NCHW") + row
    turned, plain = run_both(y, {x: array(1, 3, 4, 5), row: array(5)})
    np.testing.assert_allclose(turned, plain, rtol=1e-5, atol=1e-6)


def test_errors_name_the_node_of_the_program() -> None:
    x, bias = tf.placeholder(tf.float32, [None, 3, 4, 4]), tf.placeholder(tf.float32)
    y = tf.nn.bias_add(x, bias, data_format="NCHW", name="my_bias")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="my_bias"):
        session.run(y, {x: array(1, 3, 4, 4), bias: array(7)})
