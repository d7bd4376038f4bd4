"""Sums of products of transposed matrices become one product."""

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.join_products import join_products
from thalweg.passes.prune import prune

RANDOM = np.random.default_rng(0)


def ops_after(fetches: list[Any], feeds: list[Any]) -> list[str]:
    return [node.op for node in join_products(prune(feeds, fetches, [])).nodes.values()]


def pairs(count: int, inner: int = 2, rows: int = 16, columns: int = 12) -> tuple[list[Any], list[Any], dict[Any, Any]]:
    a = [tf.placeholder(tf.float32, [inner, rows]) for _ in range(count)]
    b = [tf.placeholder(tf.float32, [inner, columns]) for _ in range(count)]
    return a, b, {t: RANDOM.standard_normal(t.shape.as_list()).astype(np.float32) for t in a + b}


def test_a_sum_of_products_is_one_product() -> None:
    a, b, feeds = pairs(5)
    total = tf.add_n([tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)])
    ops = ops_after([total], a + b)
    assert ops.count("MatMul") == 1
    assert "AddN" not in ops
    with tf.Session() as sess:
        result = sess.run(total, feeds)
    np.testing.assert_allclose(result, sum(feeds[x].T @ feeds[y] for x, y in zip(a, b, strict=True)), atol=1e-5)


def test_products_with_other_readers_stay() -> None:
    a, b, _ = pairs(3)
    products = [tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)]
    total = tf.add_n(products)
    assert "AddN" in ops_after([total, products[1]], a + b)
    with tf.control_dependencies([products[0]]):
        after = tf.no_op()
    graph = join_products(prune(a + b, [total], [after]))
    assert "AddN" in [node.op for node in graph.nodes.values()]


def test_the_gradient_of_weights_used_many_times_is_one_product() -> None:
    x = tf.placeholder(tf.float32, [2, 16])
    weights = tf.Variable(RANDOM.standard_normal((16, 16)).astype(np.float32))
    h = x
    for _ in range(4):
        h = tf.tanh(tf.matmul(h, weights))
    (grad,) = tf.gradients(h, [weights])
    assert ops_after([grad], [x]).count("AddN") == 0
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(h))
    value = RANDOM.standard_normal((2, 16)).astype(np.float32)
    results = []
    for remapping in (False, True):
        config = tf.ConfigProto()
        rewrite = config.graph_options.rewrite_options
        rewrite.remapping = rewrite.ON if remapping else rewrite.OFF
        with tf.Session(config=config) as sess:
            sess.run(weights.initializer)
            results.append([sess.run(grad, {x: value}), sess.run(step, {x: value}), sess.run(weights)])
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("twice", [0, 1])
def test_a_product_counted_twice_stays(twice: int) -> None:
    a, b, feeds = pairs(2)
    products = [tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)]
    total = tf.add_n([*products, products[twice]])
    assert "AddN" in ops_after([total], a + b)
    with tf.Session() as sess:
        values, result = sess.run([products, total], feeds)
    np.testing.assert_allclose(result, values[0] + values[1] + values[twice], atol=1e-5)


def test_small_results_stay() -> None:
    a, b, _ = pairs(3, inner=40)
    total = tf.add_n([tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)])
    assert "AddN" in ops_after([total], a + b)


def test_sums_in_loops_stay() -> None:
    a, b, feeds = pairs(3)

    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.add_n([tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)])

    _, total = tf.while_loop(lambda i, total: i < 3, body, (0, tf.zeros([16, 12])))
    assert "AddN" in ops_after([total], a + b)
    with tf.Session() as sess:
        result = sess.run(total, feeds)
    expected = 3 * sum(feeds[x].T @ feeds[y] for x, y in zip(a, b, strict=True))
    np.testing.assert_allclose(result, expected, atol=1e-4)


def test_other_terms_of_a_sum_are_added_to_the_joined_products() -> None:
    a, b, feeds = pairs(5)
    products = [tf.matmul(x, y, transpose_a=True) for x, y in zip(a, b, strict=True)]
    other = tf.placeholder(tf.float32, [16, 12])
    feeds[other] = RANDOM.standard_normal([16, 12]).astype(np.float32)
    total = tf.add_n([products[0], other, *products[1:], products[4] * 1.0])
    ops = ops_after([total, products[3]], [*a, *b, other])
    assert ops.count("MatMul") == 1 + 2  # The fourth is fetched, the fifth has two readers.
    assert ops.count("AddN") == 1
    with tf.Session() as sess:
        result = sess.run([total, products[3]], feeds)[0]
    expected = [feeds[x].T @ feeds[y] for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(result, sum(expected) + expected[4] + feeds[other], atol=1e-5)


def test_products_on_the_device_of_a_sum_become_one() -> None:
    a, b, feeds = pairs(5)
    with tf.device("/cpu:1"):
        far = tf.matmul(a[0], b[0], transpose_a=True)
    with tf.device("/cpu:0"):
        near = [tf.matmul(x, y, transpose_a=True) for x, y in zip(a[1:], b[1:], strict=True)]
        total = tf.add_n([near[0], far, *near[1:]])
    metadata = tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        options = tf.RunOptions(output_partition_graphs=True)
        result = sess.run(total, feeds, options=options, run_metadata=metadata)
    ops = [[node.op for node in graph.node] for graph in metadata.partition_graphs]
    assert sorted(each.count("MatMul") for each in ops) == [1, 1]
    np.testing.assert_allclose(result, sum(feeds[x].T @ feeds[y] for x, y in zip(a, b, strict=True)), atol=1e-5)
