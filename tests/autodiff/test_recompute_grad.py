"""tf.recompute_grad: the same values and gradients, forward values computed again after the gradient has come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg._native import core
from thalweg.passes.common_subexpressions import merge_common_subexpressions
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.prune import prune

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def plain(f: Callable[..., Any]) -> Callable[..., Any]:
    return f


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(int(np.prod(shape))).standard_normal(shape).astype(np.float32)


def compare(build: Callable[[Wrap], Any], config: Any = None, runs: int = 1, rtol: float = 0.0) -> list[Any]:
    """Fetches what `build` makes with and without recomputation; unless `rtol` says otherwise, with the same bits."""
    results = []
    for wrap in (plain, tf.recompute_grad):
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            fetches = build(wrap)
            with tf.Session(config=config) as sess:
                sess.run(tf.global_variables_initializer())
                for number, variable in enumerate(tf.global_variables()):
                    value = array(number + 2, *(size or 1 for size in variable.shape.as_list()))[number]
                    variable.load(value * 0.3, sess)
                results.append([sess.run(fetches) for _ in range(runs)])
    for want, got in zip(*results, strict=True):
        for a, b in zip(tf.nest.flatten(want), tf.nest.flatten(got), strict=True):
            np.testing.assert_allclose(b, a, rtol=rtol)
    return results[1][-1]  # type: ignore[no-any-return]


def dense_block(x: Any, name: str, units: int = 8) -> Any:
    with tf.variable_scope(name):
        return tf.layers.dense(tf.layers.dense(x, units, tf.nn.tanh), units, tf.nn.tanh)


def chain(wrap: Wrap, x: Any, length: int = 3) -> Any:
    for k in range(length):
        x = wrap(lambda h, k=k: dense_block(h, f"block{k}"))(x)
    return x


def with_gradients(y: Any, x: Any) -> list[Any]:
    loss = tf.reduce_sum(y * y)
    return [loss, *tf.gradients(loss, [x, *tf.trainable_variables()])]


def test_gradients_of_arguments_and_variables_have_the_same_bits() -> None:
    def build(wrap: Wrap) -> Any:
        x = tf.constant(array(4, 8))
        return with_gradients(chain(wrap, x), x)

    assert len(compare(build)) == 2 + 12


def test_variables_and_collections_are_those_of_the_first_call() -> None:
    def build(wrap: Wrap) -> Any:
        def f(x: Any) -> Any:
            with tf.variable_scope("f", regularizer=lambda w: tf.nn.l2_loss(w)):
                y = tf.layers.dense(x, 3)
                return tf.layers.batch_normalization(y, training=True)

        x = tf.constant(array(4, 2))
        y = wrap(f)(x)
        found = with_gradients(y, x)
        assert [v.name for v in tf.trainable_variables()] == [
            "f/dense/kernel:0", "f/dense/bias:0", "f/batch_normalization/gamma:0", "f/batch_normalization/beta:0",
        ]  # fmt: skip
        assert len(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) == 2
        assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 6
        return found

    compare(build)


def test_training_changes_variables_only_after_they_were_read_again() -> None:
    def build(wrap: Wrap) -> Any:
        x = tf.constant(array(4, 8))
        loss = tf.reduce_sum(tf.square(chain(wrap, x)))
        step = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)
        with tf.control_dependencies([step]):
            return [loss, *(v.read_value() for v in tf.trainable_variables())]

    compare(build, runs=3)


def test_several_results_structures_and_keywords() -> None:
    def build(wrap: Wrap) -> Any:
        def f(x: Any, y: Any, scale: float = 1.0) -> Any:
            return {"sum": tf.tanh(x + y) * scale, "parts": [x * y, tf.cast(x, tf.int32)]}

        x, y = tf.constant(array(3)), tf.constant(array(3) + 1)
        found = wrap(f)(x, y, scale=2.0)
        return [found, tf.gradients(found["sum"] * found["parts"][0], [x, y]), tf.gradients(found["sum"], [x, y])]

    compare(build)


def test_sparse_gradients_stay_sparse() -> None:
    def build(wrap: Wrap) -> Any:
        table = tf.get_variable("table", [10, 3])
        y = wrap(lambda i: tf.tanh(tf.nn.embedding_lookup(table, i)))(tf.constant([1, 4, 1]))
        (grad,) = tf.gradients(y, [table])
        assert isinstance(grad, tf.IndexedSlices)
        return tf.convert_to_tensor(grad)

    compare(build)


def test_nested_and_second_derivatives() -> None:
    def build(wrap: Wrap) -> Any:
        inner = wrap(lambda h: tf.sin(h) * tf.exp(h))
        outer = wrap(lambda h: inner(tf.square(inner(h))))
        x = tf.constant([0.3, -0.2])
        (first,) = tf.gradients(outer(x), x)
        return [first, tf.gradients(first, x)[0]]

    compare(build, rtol=1e-6)  # Sums have another order.


def test_in_loops_and_with_loops_and_conditionals_inside() -> None:
    def build(wrap: Wrap) -> Any:
        w = tf.get_variable("w", [3, 3])

        def f(h: Any) -> Any:
            h = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), (0, h))[1]
            return tf.cond(tf.reduce_sum(h) > 0.0, lambda: tf.sin(h), lambda: h * 2.0)

        def body(i: Any, h: Any) -> Any:
            return i + 1, wrap(f)(tf.matmul(h, w))

        x = tf.constant(array(2, 3))
        y = tf.while_loop(lambda i, h: i < 4, body, (0, x))[1]
        return with_gradients(y, x)

    compare(build)


def test_across_devices() -> None:
    def build(wrap: Wrap) -> Any:
        x = tf.constant(array(4, 8))
        h = x
        for k in range(3):
            with tf.device(f"/cpu:{k}"):
                h = wrap(lambda h, k=k: dense_block(h, f"block{k}"))(h)
        found = with_gradients(h, x)
        if wrap is not plain:
            again = [
                op for op in tf.get_default_graph().get_operations() if "recomputed" in op.name and op.type == "MatMul"
            ]
            assert {op.device for op in again} >= {"/device:CPU:0", "/device:CPU:1", "/device:CPU:2"}
        return found

    compare(build, tf.ConfigProto(device_count={"CPU": 3}))


def test_in_graph_functions() -> None:
    def build(wrap: Wrap) -> Any:
        w = tf.get_variable("w", [3, 3])

        @tf.function
        def f(x: Any) -> Any:
            return wrap(lambda h: tf.tanh(tf.matmul(tf.tanh(tf.matmul(h, w)), w)))(x)

        x = tf.constant(array(2, 3))
        return with_gradients(f(x), x)

    compare(build)


def test_dropout_has_the_same_mask_when_it_is_computed_again() -> None:
    tf.set_random_seed(3)
    x = tf.ones([200])
    y = tf.recompute_grad(lambda h: tf.nn.dropout(h * 2.0, rate=0.5) + tf.random_normal([200]) * h)(x)
    z = tf.recompute_grad(lambda h: tf.recompute_grad(lambda g: tf.nn.dropout(g, rate=0.5))(h) * h)(x)
    grads = tf.gradients(y, x) + tf.gradients(z, x)
    masks = []
    with tf.Session() as sess:
        for _ in range(2):
            values = sess.run([y, z, *grads])
            np.testing.assert_allclose(values[2], values[0], rtol=1e-6)
            np.testing.assert_allclose(values[3], 2 * values[1], rtol=1e-6)
            masks.append(values[1])
    assert 50 < np.count_nonzero(masks[0]) < 150
    assert not np.array_equal(*masks)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: x * tf.random_gamma([], 2.0), "draws random numbers"),
        (lambda x: tf.while_loop(lambda i, h: i < 2, lambda i, h: (i + 1, h * tf.random_normal([])), (0, x))[1],
         "inside of its loop"),
        (lambda x: x * tf.FIFOQueue(1, [tf.float32], [[]]).dequeue(), "takes something away"),
        (lambda x: x * tf.get_variable("v", [], use_resource=True).assign_add(1.0), "changes a variable"),
        (lambda x: x * tf.Variable(1.0, use_resource=True), "made new variables"),
    ],
)  # fmt: skip
def test_functions_that_cannot_run_twice_are_refused(f: Any, message: str) -> None:
    x = tf.constant(1.0)
    y = tf.recompute_grad(f)(x)
    with pytest.raises(ValueError, match=message):
        tf.gradients(y, x)


def test_the_second_computation_survives_the_passes_and_waits_for_the_gradient() -> None:
    x = tf.placeholder(tf.float32, [3])
    y = tf.recompute_grad(lambda h: tf.exp(tf.sin(h)))(x)
    seed = tf.placeholder(tf.float32, [3])
    (grad,) = tf.gradients(tf.identity(y) * 3.0, x, seed)
    graph = merge_common_subexpressions(drop_identities(prune([x, seed], [y, grad], [])))
    sines = [node for node in graph.nodes.values() if node.op == "Sin"]
    assert len(sines) == 2
    assert sum(bool(_before(graph, node.name) & {"_arg/1"}) for node in sines) == 1


def _before(graph: Any, name: str) -> set[str]:
    seen: set[str] = set()
    stack = [name]
    while stack:
        node = graph.nodes[stack.pop()]
        if node.name not in seen:
            seen.add(node.name)
            stack.extend([*node.controls, *(source for source, _ in node.inputs)])
    return seen


def test_memory_of_a_deep_chain_falls_to_the_root_of_its_length() -> None:
    layers, piece, batch, width = 36, 6, 500, 32

    def build(wrap: Wrap) -> Any:
        weights = [tf.get_variable(f"w{k}", [width, width]) for k in range(layers)]

        def run(h: Any, first: int) -> Any:
            for k in range(first, first + piece):
                h = tf.tanh(tf.matmul(h, weights[k]))
            return h

        h = tf.random_uniform([batch, width], seed=1)
        for first in range(0, layers, piece):
            h = wrap(lambda h, first=first: run(h, first))(h)
        return tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.square(h)))

    peaks = []
    for wrap in (plain, tf.recompute_grad):
        with tf.Graph().as_default(), tf.Session() as sess:
            step = build(wrap)
            sess.run(tf.global_variables_initializer())
            sess.run(step)
            before = core.allocator_stats()["bytes_in_use"]
            core.reset_peak_bytes()
            sess.run(step)
            peaks.append((core.allocator_stats()["peak_bytes"] - before) / (batch * width * 4))
    assert peaks[0] >= layers
    assert peaks[1] <= 3 * np.sqrt(layers)


def test_variables_of_the_function_may_be_on_several_devices() -> None:
    def function(x: Any) -> Any:
        for i in (1, 2):
            with tf.device(f"/cpu:{i}"):
                w = tf.get_variable(f"w{i}", [4, 4], initializer=tf.constant_initializer(0.1 * i))
                x = tf.tanh(tf.matmul(x, w))
        return x

    results = []
    for wrapped in (function, tf.recompute_grad(function)):
        with tf.Graph().as_default():
            loss = tf.reduce_sum(tf.square(wrapped(tf.placeholder_with_default(np.ones([3, 4], np.float32), [3, 4]))))
            grads = tf.gradients(loss, tf.trainable_variables())
            step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
            with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as sess:
                sess.run(tf.global_variables_initializer())
                found = sess.run(grads)
                sess.run(step)
                results.append([*found, sess.run(loss)])
    for plain, recomputed in zip(*results, strict=True):
        np.testing.assert_array_equal(plain, recomputed)
