"""Fusion: which operations become one node, and that results stay those of the separate ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.passes.fuse_contractions import fuse_contractions
from thalweg.passes.fuse_elementwise import fuse_elementwise
from thalweg.passes.fusion import Fusion, fusions
from thalweg.passes.prune import prune

RANDOM = np.random.default_rng(0)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def ops_after(fetches: Sequence[Any], feeds: Sequence[Any] = ()) -> list[str]:
    """The op types of a step after fusion."""
    graph = fuse_contractions(prune(list(feeds), list(fetches), []))
    return [node.op for node in fuse_elementwise(graph, core.operands_of_rows).nodes.values()]


def session(fused: bool) -> tf.Session:
    config = tf.ConfigProto()
    rewrite = config.graph_options.rewrite_options
    rewrite.remapping = rewrite.ON if fused else rewrite.OFF
    return tf.Session(config=config)


def run_both(fetches: Any, feeds: Any = None) -> tuple[Any, Any]:
    with session(True) as fast, session(False) as slow:
        for each in (fast, slow):
            each.run(tf.global_variables_initializer())
        return fast.run(fetches, feeds), slow.run(fetches, feeds)


@pytest.mark.parametrize("size", [0, 1, 7, 1023, 1024, 1025, 100_000])
def test_a_chain_is_one_node_and_equal_bit_for_bit(size: int) -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.sqrt(tf.abs(x * 0.7 + -0.3)) * x - tf.tanh(x)
    assert ops_after([y], [x]).count("_FusedElementwise") == 1
    assert "Tanh" not in ops_after([y], [x])
    fused, separate = run_both(y, {x: array(size)})
    np.testing.assert_array_equal(fused, separate)


def test_values_with_other_readers_stay_visible() -> None:
    x = tf.placeholder(tf.float32, [4])
    middle = tf.exp(x)
    y = tf.negative(middle) + 1.0
    assert "Exp" in ops_after([y, middle], [x])
    fused, separate = run_both([y, middle], {x: array(4)})
    for a, b in zip(fused, separate, strict=True):
        np.testing.assert_array_equal(a, b)


def test_nodes_that_are_waited_for_are_not_fused_away() -> None:
    x = tf.placeholder(tf.float32, [4])
    first = tf.exp(x)
    second = tf.negative(first)
    with tf.control_dependencies([first]):
        third = tf.abs(second)
    assert "Exp" in ops_after([third], [x])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (3, 4)),
        ((3, 4), ()),
        ((), (3, 4)),
        ((3, 4), (4,)),
        ((3, 1), (1, 4)),
        ((1,), (1, 1)),
        ((), ()),
        ((0,), ()),
    ],
)
def test_shapes_that_are_known_only_at_run_time(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    y = tf.square(a + b) * a - tf.exp(b)
    fused, separate = run_both(y, {a: array(*left), b: array(*right)})
    assert np.shape(fused) == np.shape(separate)
    np.testing.assert_array_equal(fused, separate)


def test_shapes_that_do_not_fit_name_the_operation() -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    y = tf.exp(tf.add(tf.square(a), b, name="sum_of_both"))
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3\].*\[4\]|3.*4"):
        sess.run(y, {a: array(3), b: array(4)})


def test_a_value_read_twice_by_one_operation() -> None:
    x = tf.placeholder(tf.float32, [5])
    y = tf.exp(x)
    z = tf.multiply(y, y) + y
    assert ops_after([z], [x]).count("_FusedElementwise") == 1
    fused, separate = run_both(z, {x: array(5)})
    np.testing.assert_array_equal(fused, separate)


def test_long_chains_are_cut_into_groups() -> None:
    x = tf.placeholder(tf.float32, [])
    y = x
    for i in range(100):
        y = y * 1.01 if i % 2 else y + 0.5
    assert 2 <= ops_after([y], [x]).count("_FusedElementwise") <= 5
    fused, separate = run_both(y, {x: 0.25})
    assert fused == separate


def test_integers_and_wider_floats_are_left_alone() -> None:
    for dtype in (tf.int32, tf.float64):
        x = tf.placeholder(dtype, [3])
        assert "_FusedElementwise" not in ops_after([(x + x) * x], [x])


def test_a_fed_value_inside_a_chain() -> None:
    x = tf.placeholder(tf.float32, [3])
    middle = tf.exp(x)
    y = tf.square(middle) + 1.0
    with tf.Session() as sess:
        np.testing.assert_allclose(sess.run(y, {middle: [1.0, 2.0, 3.0]}), [2.0, 5.0, 10.0])


def test_fusion_inside_a_loop() -> None:
    x = tf.placeholder(tf.float32, [3])
    _, y = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y * 2.0) + y), (0, x))
    fused, separate = run_both(y, {x: array(3)})
    np.testing.assert_array_equal(fused, separate)


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.leaky_relu, tf.tanh, tf.sigmoid])
@pytest.mark.parametrize("bias", ["bias_add", "add", "none"])
def test_products_with_bias_and_activation(activation: Any, bias: str) -> None:
    x = tf.placeholder(tf.float32, [None, 7])
    w, b = tf.constant(array(7, 5)), tf.constant(array(5))
    y = tf.matmul(x, w)
    if bias != "none":
        y = tf.nn.bias_add(y, b) if bias == "bias_add" else y + b
    y = activation(y)
    assert "_FusedMatMul" in ops_after([y], [x])
    fused, separate = run_both(y, {x: array(6, 7)})
    np.testing.assert_allclose(fused, separate, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("sizes", [(5, 3, 4), (33, 300, 70), (16, 1100, 17), (4, 0, 3), (0, 2, 3), (1, 7, 1)])
def test_products_added_to_a_matrix(transpose_a: bool, transpose_b: bool, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    a = tf.placeholder(tf.float32, [inner, rows] if transpose_a else [rows, inner])
    b = tf.placeholder(tf.float32, [columns, inner] if transpose_b else [inner, columns])
    c = tf.placeholder(tf.float32, [rows, columns])
    product = tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    fetches = [tf.abs(c) + product, tf.nn.relu(product + c)]
    y = tf.abs(c) + product
    assert "_FusedMatMul" in ops_after([y], [a, b, c])
    feeds = {t: array(*t.shape.as_list()) for t in (a, b, c)}
    for fetch in (y, tf.nn.relu(c + product), fetches):
        for fused, separate in zip(*run_both(fetch, feeds), strict=True):
            np.testing.assert_allclose(fused, separate, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(tf.Session().run(c + product, feeds) - feeds[c],
                               tf.Session().run(product, feeds), rtol=1e-4, atol=1e-4)  # fmt: skip


def test_a_matrix_with_other_readers_is_not_overwritten_by_a_sum() -> None:
    x = tf.placeholder(tf.float32, [3, 3])
    y = tf.tanh(x)
    fetches = [y + tf.matmul(x, y), y * 2.0, y + tf.matmul(y, y)]
    for fused, separate in zip(*run_both(fetches, {x: array(3, 3)}), strict=True):
        np.testing.assert_allclose(fused, separate, rtol=1e-6, atol=1e-6)


def test_a_product_accumulated_in_a_loop() -> None:
    x = tf.placeholder(tf.float32, [4, 4])
    _, total = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y + tf.matmul(x, x, True)), (0, tf.zeros([4, 4])))
    value = array(4, 4)
    fused, separate = run_both(total, {x: value})
    np.testing.assert_allclose(fused, 5 * value.T @ value, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fused, separate, rtol=1e-5, atol=1e-5)


def test_a_product_whose_sum_is_fetched_keeps_it() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    total = tf.nn.bias_add(tf.matmul(x, tf.constant(array(3, 4))), tf.constant(array(4)))
    y = tf.nn.relu(total)
    assert ops_after([y, total], [x]).count("_FusedMatMul") == 1
    assert "Relu" in ops_after([y, total], [x])


def test_a_bias_that_does_not_fit_is_refused() -> None:
    x, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    y = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, tf.constant(array(3, 4))), b))
    with tf.Session() as sess, pytest.raises(tf.errors.InvalidArgumentError, match="4"):
        sess.run(y, {x: array(2, 3), b: array(5)})


def convolved(x: Any, channels: int, **kwargs: Any) -> Any:
    filters = tf.constant(array(3, 3, x.shape[-1].value, channels) * 0.2)
    return tf.nn.conv2d(x, filters, strides=[1, 1, 1, 1], padding="SAME", **kwargs)


def test_convolution_with_bias_sum_and_activation() -> None:
    x = tf.placeholder(tf.float32, [2, 8, 8, 16])
    other = tf.placeholder(tf.float32, [2, 8, 8, 24])
    y = tf.nn.relu(tf.nn.bias_add(convolved(x, 24), tf.constant(array(24))) + other)
    assert ops_after([y], [x, other])[-1] == "_FusedConv2D"
    fused, separate = run_both(y, {x: array(2, 8, 8, 16), other: array(2, 8, 8, 24)})
    np.testing.assert_allclose(fused, separate, rtol=1e-4, atol=1e-4)


def test_convolution_with_fixed_normalization() -> None:
    x = tf.placeholder(tf.float32, [2, 6, 6, 3])
    statistics = [tf.constant(np.abs(array(8)) + 0.5) for _ in range(4)]
    y = tf.nn.relu(tf.nn.fused_batch_norm(convolved(x, 8), *statistics, is_training=False)[0])
    assert "_FusedConv2D" in ops_after([y], [x])
    fused, separate = run_both(y, {x: array(2, 6, 6, 3)})
    np.testing.assert_allclose(fused, separate, rtol=1e-4, atol=1e-5)


def test_training_steps_are_the_same_fused_and_not() -> None:
    tf.set_random_seed(3)
    x, labels = tf.placeholder(tf.float32, [4, 8, 8, 3]), tf.placeholder(tf.int32, [4])
    h = tf.layers.conv2d(x, 16, 3, activation=tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(seed=1))
    h = tf.layers.conv2d(h, 16, 3, activation=tf.nn.relu, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    logits = tf.layers.dense(tf.layers.flatten(h), 10, kernel_initializer=tf.glorot_uniform_initializer(seed=3))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    images, classes = array(4, 8, 8, 3), np.array([1, 2, 3, 4])
    losses: dict[bool, list[float]] = {}
    for fused in (True, False):
        with session(fused) as sess:
            sess.run(tf.global_variables_initializer())
            losses[fused] = [sess.run([loss, step], {x: images, labels: classes})[0] for _ in range(5)]
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-4)
    assert losses[True][-1] < losses[True][0]


def test_groups_to_be_fused_are_found_on_any_devices() -> None:
    x = tf.placeholder(tf.float32, [8, 4])
    with tf.device("/cpu:1"):
        product = tf.matmul(x, tf.constant(array(4, 4)), name="product")
    relu = tf.nn.relu(tf.nn.bias_add(product, tf.constant(array(4)), name="bias"), name="relu")
    parts = [tf.matmul(x, x * float(k), transpose_a=True, name=f"part{k}") for k in range(1, 4)]
    large = [tf.matmul(p, p, transpose_a=True) for p in (tf.placeholder(tf.float32, [1, 64]) for _ in range(3))]
    total = tf.add_n(large, name="total")
    feeds = [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "Placeholder"]
    found = fusions(prune(feeds, [relu, tf.add_n(parts), total], []), core.operands_of_rows)
    assert Fusion(["product", "bias", "relu"], False) in found
    assert Fusion([*(each.op.name for each in large), "total"], True) in found
    assert not any("part1" in fusion.nodes for fusion in found)  # Joining them would not pay.


def test_nodes_with_different_requested_devices_stay_apart() -> None:
    made = []
    for k in range(5):
        with tf.device(f"/cpu:{k % 2}"):
            made.append(tf.matmul(tf.placeholder(tf.float32, [1, 64]), tf.ones([1, 64]), transpose_a=True))
    with tf.device("/cpu:0"):
        total = tf.add_n(made, name="total")
    feeds = [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "Placeholder"]
    (found,) = fusions(prune(feeds, [total], []), core.operands_of_rows)
    assert found.outside_inputs == {made[1].op.name, made[3].op.name}
    assert found.together(dict.fromkeys(found.nodes, "/cpu:0")) == [*(made[k].op.name for k in (0, 2, 4)), "total"]


def test_the_products_on_the_device_of_their_sum_become_one() -> None:
    fusion = Fusion(["a", "b", "c", "d", "sum"], True)
    here = dict.fromkeys(fusion.nodes, "/cpu:0")
    assert fusion.together(here) == fusion.nodes
    assert fusion.together({**here, "b": "/cpu:1"}) == ["a", "c", "d", "sum"]
    assert fusion.together({**here, "b": "/cpu:1", "c": "/cpu:1"}) == []  # Two are too few.
    assert fusion._replace(is_sum=False).together({**here, "b": "/cpu:1"}) == []
    assert fusion._replace(outside_inputs=frozenset("b")).together(here) == ["a", "c", "d", "sum"]
    # It reads the result of those three, reads the fourth, and writes; a sum of all four would read four.
    assert fusion.left_to_add(["a", "c", "d", "sum"]) == 3 / 5


def test_a_product_does_not_wait_for_what_it_is_added_to_if_that_comes_from_another_device() -> None:
    x = tf.random_uniform([64, 64], seed=1)
    with tf.device("/cpu:0"):
        here = tf.matmul(x, x, name="here")
    with tf.device("/cpu:1"):
        there = tf.matmul(x, x, transpose_a=True, name="there")
    with tf.device("/cpu:0"):
        total = tf.add(here, there, name="total")
    assert fusions(prune([], [total], []), core.operands_of_rows) == []
    metadata = tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        result = sess.run(
            [total, here * 1.0, there * 1.0],
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
            run_metadata=metadata,
        )
        np.testing.assert_allclose(result[0], result[1] + result[2], rtol=1e-5)
        sess.run(total, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    ops = [node.op for graph in metadata.partition_graphs for node in graph.node]
    assert "_FusedMatMul" not in ops
    assert ops.count("MatMul") == 2


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6], ids=["relu", "relu6"])
@pytest.mark.parametrize(
    ("size", "inputs", "outputs", "filter_size", "stride"),
    [(9, 8, 16, 5, 1), (14, 16, 16, 1, 1), (14, 8, 16, 3, 2), (23, 3, 16, 11, 4), (9, 4, 4, 3, 1)],
)
def test_activations_in_convolutions_keep_nan(
    activation: Any, size: int, inputs: int, outputs: int, filter_size: int, stride: int
) -> None:
    x = tf.placeholder(tf.float32, [None, size, size, inputs])
    sums = tf.nn.conv2d(x, array(filter_size, filter_size, inputs, outputs), [1, stride, stride, 1], "SAME")
    y = activation(tf.nn.bias_add(sums, array(outputs)))
    assert "_FusedConv2D" in ops_after([y], [x])
    image = array(2, size, size, inputs)
    whole, _ = run_both(y, {x: image})
    assert np.isfinite(whole).all()
    assert not np.signbit(whole).any(), "no zero is a negative one"
    image[0, 4, 4, 0], image[1, 4, 4, 1] = np.nan, -np.inf
    fused, separate = run_both(y, {x: image})
    assert np.isnan(separate[0]).any()
    np.testing.assert_allclose(fused, separate, rtol=1e-4, atol=1e-4)  # NaN where NaN is.
    again, _ = run_both(y, {x: np.nan_to_num(image, neginf=0.0)})
    assert np.isfinite(again).all()


@pytest.mark.parametrize("channels", [10, 16])
@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6])
def test_a_suspicion_of_nan_does_not_change_bits(activation: Any, channels: int) -> None:
    """Padding beside the last channels may be NaN for the processor; then the convolution is computed again."""
    x = tf.placeholder(tf.float32, [2, 8, 8, 3])
    filters, bias = tf.constant(array(5, 5, 3, channels)), tf.constant(array(channels))
    y = activation(tf.nn.bias_add(tf.nn.conv2d(x, filters, 1, "SAME"), bias))
    image, damaged = array(2, 8, 8, 3), np.full([2, 8, 8, 3], np.nan, np.float32)
    found = []
    try:
        with session(True) as sess:
            for threads in (1, 1, 2, 4, 8, 1):
                core.set_intra_op_threads(threads)
                found.append(sess.run(y, {x: image}))
                sess.run(y, {x: damaged})
    finally:
        core.set_intra_op_threads(0)
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.nn.relu6], ids=["relu", "relu6"])
def test_activations_after_a_sum_with_a_convolution_keep_nan(activation: Any) -> None:
    x = tf.placeholder(tf.float32, [2, 14, 14, 16])
    added = tf.placeholder(tf.float32, [2, 14, 14, 32])
    y = activation(tf.nn.conv2d(x, array(1, 1, 16, 32), [1, 1, 1, 1], "SAME") + added)
    assert "_FusedConv2D" in ops_after([y], [x, added])
    values = {x: array(2, 14, 14, 16), added: array(2, 14, 14, 32)}
    fused, separate = run_both(y, values)
    np.testing.assert_allclose(fused, separate, rtol=1e-4, atol=1e-5)
    assert not np.signbit(fused).any(), "no zero is a negative one"
    values[x][0, 4, 4, 0] = values[added][1, 2, 3, 4] = np.nan
    fused, separate = run_both(y, values)
    assert np.isnan(fused).sum() == 33
    np.testing.assert_allclose(fused, separate, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("through_node", [False, True])
@pytest.mark.parametrize("output", [1, 2, 3, 4])
def test_a_normalization_whose_statistics_are_used_is_not_fused(output: int, through_node: bool) -> None:
    x = tf.placeholder(tf.float32, [None, 5, 5, 4])
    statistics = [tf.constant(array(4)) for _ in range(3)]
    convolved = tf.nn.conv2d(x, tf.constant(array(3, 3, 4, 4)), [1, 1, 1, 1], "SAME")
    outputs = tf.raw_ops.FusedBatchNormV3(
        x=convolved, scale=statistics[0], offset=statistics[1], mean=statistics[2], variance=tf.ones([4]),
        is_training=False,
    )  # fmt: skip
    used = tf.identity(outputs[output]) if through_node else outputs[output]
    fused, separate = run_both([used, outputs[0]], {x: array(2, 5, 5, 4)})
    np.testing.assert_array_equal(fused[0], separate[0])
    np.testing.assert_allclose(fused[1], separate[1], rtol=1e-4, atol=1e-4)
    assert run_both(used, {x: array(2, 5, 5, 4)})[0].shape == (4,)
