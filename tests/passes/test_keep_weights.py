"""Weights that are packed once: marked in steps that change nothing, and never out of date."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.fuse_contractions import fuse_contractions
from thalweg.passes.keep_weights import keep_weights
from thalweg.passes.prune import prune

RANDOM = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def marked(fetches: list[Any], targets: list[Any] = []) -> set[str]:  # noqa: B006 (not changed)
    nodes = keep_weights(fuse_contractions(prune([], fetches, targets))).nodes.values()
    return {node.op for node in nodes if node.attrs.get("_keep_weights")}


def test_inference_is_marked_and_training_is_not() -> None:
    x = tf.constant(array(4, 8))
    w = tf.Variable(array(8, 3))
    y = tf.matmul(x, w)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y))
    assert marked([y]) == {"MatMul"}
    assert marked([y], [step]) == set()


def test_weights_that_were_computed_are_not_marked() -> None:
    w = tf.Variable(array(8, 3))
    assert marked([tf.matmul(tf.constant(array(4, 8)), w * 2.0)]) == set()


def network(kind: str) -> tuple[Any, Any, list[Any]]:
    """A placeholder, an output and variables; large enough that packing pays."""
    if kind == "matmul":
        x = tf.placeholder(tf.float32, [None, 64])
        variables = [tf.Variable(array(64, 96)), tf.Variable(array(96))]
        return x, tf.nn.relu(tf.nn.bias_add(tf.matmul(x, variables[0]), variables[1])), variables
    if kind == "transposed":
        x = tf.placeholder(tf.float32, [None, 64])
        variables = [tf.Variable(array(96, 64))]
        return x, tf.matmul(x, variables[0], transpose_b=True), variables
    x = tf.placeholder(tf.float32, [None, 12, 12, 32])
    size = 3 if kind in ("winograd", "normalized") else 5
    variables = [tf.Variable(array(size, size, 32, 48) * 0.1)]
    y = tf.nn.conv2d(x, variables[0], strides=[1, 1, 1, 1], padding="SAME")
    if kind == "normalized":
        variables += [tf.Variable(np.abs(array(48)) + 0.5) for _ in range(4)]
        y = tf.nn.fused_batch_norm(y, *variables[1:], is_training=False)[0]
    return x, tf.nn.relu(y), variables


@pytest.mark.parametrize("kind", ["matmul", "transposed", "winograd", "direct", "normalized"])
def test_updates_are_seen(kind: str) -> None:
    x, y, variables = network(kind)
    config = tf.ConfigProto()
    config.graph_options.optimizer_options.opt_level = -1
    updates = [v.assign_add(tf.ones_like(v) * 0.1) for v in variables]
    scatter = tf.scatter_update(variables[0], [0], tf.zeros([1, *variables[0].shape.as_list()[1:]]))
    replaced = variables[0].assign(array(*variables[0].shape.as_list()))
    with tf.Session() as kept, tf.Session(config=config) as plain:
        for session in (kept, plain):
            session.run(tf.global_variables_initializer())
        for change in [*updates, scatter, replaced, None]:
            for batch in (4, 7):
                feeds = {x: array(batch, *x.shape.as_list()[1:])}
                got, again, want = kept.run(y, feeds), kept.run(y, feeds), plain.run(y, feeds)
                np.testing.assert_array_equal(got, again)
                np.testing.assert_allclose(got, want, rtol=1e-3, atol=3e-5 * np.abs(want).max())
            for session in (kept, plain) if change is not None else ():
                session.run(change)
