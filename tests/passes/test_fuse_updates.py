"""Products that go straight into an update: which do, and that nothing but the time of a step changes."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.graph.apply import apply
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.fuse_updates import UPDATE, fuse_updates
from thalweg.passes.fusion import fuse, fusions
from thalweg.passes.inline_functions import inline_functions
from thalweg.passes.prune import prune

RATE = 0.3


def array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ops_after(targets: list[Any], feeds: list[Any], fetches: list[Any] | None = None) -> list[str]:
    return [node.op for node in fuse_updates(prune(feeds, fetches or [], targets)).nodes.values()]


def session(fused: bool, devices: int = 1) -> tf.Session:
    config = tf.ConfigProto(device_count={"CPU": devices}, allow_soft_placement=True)
    rewrite = config.graph_options.rewrite_options
    rewrite.remapping = rewrite.ON if fused else rewrite.OFF
    return tf.Session(config=config)


def two_layers(x: Any, sizes: tuple[int, int, int]) -> tuple[Any, list[Any]]:
    weights = [tf.Variable(array(n, m, seed=n), use_resource=True) for n, m in itertools.pairwise(sizes)]
    y = tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1])
    return tf.reduce_mean(tf.square(y)), weights


def trained(fused: bool, step: Any, weights: list[Any], feeds: Any, devices: int = 1) -> list[np.ndarray]:
    with session(fused, devices) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(step, feeds)
        return sess.run(weights)


# Too small to gain, in one block, with odd remainders, longer than is worth it, and no rows at all.
@pytest.mark.parametrize("batch", [1, 5, 32, 128, 129, 500, 0])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (70, 61, 33), (200, 96, 10)])
def test_an_optimizer_s_step_is_equal_bit_for_bit(batch: int, sizes: tuple[int, int, int]) -> None:
    x = tf.placeholder(tf.float32, [None, sizes[0]])
    loss, weights = two_layers(x, sizes)
    step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
    assert ops_after([step], [x]).count(UPDATE) == 2
    feeds = {x: array(batch, sizes[0], seed=7)}
    for fast, slow in zip(trained(True, step, weights, feeds), trained(False, step, weights, feeds), strict=True):
        np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), [(64, 40, 90), (90, 33, 30), (30, 32, 100), (600, 20, 17), (97, 128, 49)])
def test_every_transposition(transpose_a: bool, transpose_b: bool, m: int, k: int, n: int) -> None:
    a, b = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.float32, [None, None])
    start = array(m, n, seed=1)
    v = tf.Variable(start, use_resource=True)
    product = tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    step = tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=RATE, delta=product)
    assert UPDATE in ops_after([step], [a, b])
    x, y = array(m, k, seed=2), array(k, n, seed=3)
    feeds = {a: x.T if transpose_a else x, b: y.T if transpose_b else y}
    fast, slow = (trained(fused, step, [v], feeds)[0] for fused in (True, False))
    np.testing.assert_array_equal(fast, slow)
    np.testing.assert_allclose(fast, start - 3 * RATE * (x.astype(np.float64) @ y), rtol=1e-4, atol=1e-4)


def test_a_gradient_with_other_readers_stays_visible() -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    loss, weights = two_layers(x, (3, 4, 5))
    optimizer = tf.train.GradientDescentOptimizer(RATE)
    pairs = optimizer.compute_gradients(loss)
    step = optimizer.apply_gradients(pairs)
    first, second = (grad for grad, _ in pairs)
    assert ops_after([step], [x], [first]).count(UPDATE) == 1
    assert ops_after([step, tf.norm(second).op], [x]).count(UPDATE) == 1
    with tf.control_dependencies([first, second]):
        later = tf.no_op()
    assert UPDATE not in ops_after([step, later], [x])
    with session(True) as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(weights[0])
        _, gradient = sess.run([step, first], {x: array(4, 3)})
        np.testing.assert_allclose(sess.run(weights[0]), before - RATE * gradient, rtol=1e-6)


def test_a_node_that_changes_the_gradient_prevents_fusion() -> None:
    x = tf.placeholder(tf.float32, [4, 3])
    loss, _ = two_layers(x, (3, 4, 5))
    optimizer = tf.train.GradientDescentOptimizer(RATE)
    pairs = [(tf.clip_by_norm(grad, 1.0), v) for grad, v in optimizer.compute_gradients(loss)]
    assert UPDATE not in ops_after([optimizer.apply_gradients(pairs)], [x])
    momentum = tf.train.MomentumOptimizer(RATE, 0.9).minimize(loss)
    assert UPDATE not in ops_after([momentum], [x])


def test_a_product_does_not_wait_for_the_gradients_of_other_layers() -> None:
    x = tf.placeholder(tf.float32, [4, 8])
    weights = [tf.Variable(array(8, 8, seed=k), use_resource=True) for k in range(3)]

    def layers(h: Any) -> Any:
        for w in weights:
            h = tf.tanh(tf.matmul(h, w))
        return h

    for wrap, fused in ((lambda f: f, 3), (tf.recompute_grad, 0)):
        step = tf.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(wrap(layers)(x)), var_list=weights)
        graph = drop_identities(inline_functions(prune([x], [], [step]), tf.get_default_graph()._functions))
        assert [node.op for node in fuse_updates(graph).nodes.values()].count(UPDATE) == fused


def test_other_types_have_no_such_kernel() -> None:
    v = tf.Variable(np.ones([3, 4]), use_resource=True)
    loss = tf.reduce_sum(tf.matmul(np.ones([2, 3]), v))
    assert UPDATE not in ops_after([tf.train.GradientDescentOptimizer(RATE).minimize(loss)], [])


def test_a_variable_that_is_read_elsewhere_in_the_step_is_not_changed_under_the_reader() -> None:
    x = tf.placeholder(tf.float32, [32, 64])
    v = tf.Variable(array(64, 64), use_resource=True)
    before = v.read_value()
    loss = tf.reduce_sum(tf.square(tf.matmul(x, v)))
    step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
    with tf.control_dependencies([step]):
        late = tf.identity(before)
    with session(True) as sess:
        sess.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(sess.run(late, {x: array(32, 64)}), array(64, 64))
        assert not np.array_equal(sess.run(v), array(64, 64))


def test_a_product_with_the_variable_itself() -> None:
    start = array(64, 64)
    v = tf.Variable(start, use_resource=True)
    read = v.read_value()
    step = tf.raw_ops.ResourceApplyGradientDescent(var=v.handle, alpha=RATE, delta=tf.matmul(read, read))
    assert UPDATE in ops_after([step], [])
    fast, slow = (trained(fused, step, [v], None)[0] for fused in (True, False))
    np.testing.assert_array_equal(fast, slow)


def test_devices_keep_their_parts() -> None:
    x = tf.placeholder(tf.float32, [16, 40])
    with tf.device("/cpu:1"):
        loss, weights = two_layers(x, (40, 70, 30))
    step = tf.train.GradientDescentOptimizer(RATE).minimize(loss, colocate_gradients_with_ops=True)
    feeds = {x: array(16, 40)}
    for fast, slow in zip(trained(True, step, weights, feeds, 2), trained(False, step, weights, feeds), strict=True):
        np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize(
    ("a", "b", "message"),
    [
        ((2, 3), (4, 5), "incompatible"),
        ((2, 3), (3, 5), "shape"),
        ((3,), (3, 4), "not a matrix"),
        ((2, 3), (1, 3, 4), "not a matrix"),
        ((0, 3), (3, 4), "shape"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(a: tuple[int, ...], b: tuple[int, ...], message: str) -> None:
    v = tf.Variable(np.ones([2, 4], np.float32), use_resource=True)
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    step = apply(UPDATE, v.handle, RATE, x, y, name="step")
    with session(True) as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            sess.run(step, {x: np.ones(a), y: np.ones(b)})
        np.testing.assert_array_equal(sess.run(v), np.ones([2, 4]))


def test_a_variable_without_a_value_or_of_another_type_is_refused() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    v = tf.Variable(np.ones([3, 4], np.float32), use_resource=True)
    step = tf.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(tf.matmul(x, v)))
    other = tf.Variable(np.ones([2, 4]), use_resource=True)
    with session(True) as sess:
        with pytest.raises(tf.errors.FailedPreconditionError):
            sess.run(step, {x: np.ones([2, 3])})
        with pytest.raises(ValueError, match="wrong dtype"):
            apply(UPDATE, other.handle, RATE, np.ones([2, 3], np.float32), np.ones([3, 4], np.float32), name="step")


def test_placement_sees_sums_of_products_as_one_and_updates_apart() -> None:
    x = tf.placeholder(tf.float32, [3, 4, 100])
    v = tf.Variable(array(100, 100), use_resource=True)
    loss = tf.add_n([tf.reduce_sum(tf.square(tf.matmul(x[i], v))) for i in range(3)])
    step = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
    graph = prune([x], [], [step])
    groups = [{graph.nodes[name].op for name in fusion.nodes} for fusion in fusions(graph, core.operands_of_rows)]
    assert {"MatMul", "AddN"} in groups
    assert not any("ResourceApplyGradientDescent" in ops for ops in groups)
    made = [node.op for node in fuse(drop_identities(graph), core.operands_of_rows).nodes.values()]
    assert made.count(UPDATE) == 1
    assert "AddN" not in made
