"""Steps over several devices: Send and Recv, control edges, conditionals and loops that span devices, errors."""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import Begun
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.passes.drop_identities import drop_identities
from thalweg.passes.partition import partition
from thalweg.passes.prune import prune
from thalweg.placement.placer import Placer


def config(count: int = 3) -> Any:
    return tf.ConfigProto(device_count={"CPU": count})


def on(index: int) -> Any:
    return tf.device(f"/cpu:{index}")


def parts(*fetches: Any, targets: Any = ()) -> dict[str, Counter[str]]:
    placer = Placer.from_config(config())
    graph = placer.place(prune([], list(fetches), list(targets)), tf.get_default_graph())
    return {
        device[-5:]: Counter(node.op for node in part.graph.nodes.values())
        for device, part in partition(graph).items()
    }  # fmt: skip


def both(fetches: Any, feeds: Any = None, count: int = 3) -> Any:
    """The value on several devices, after checking that one device gives the same bits."""
    soft = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(config=soft) as one, tf.Session(config=config(count)) as several:
        for sess in (one, several):
            sess.run(tf.global_variables_initializer())
        expected, actual = one.run(fetches, feeds), several.run(fetches, feeds)
    for want, got in zip(tf.nest.flatten(expected), tf.nest.flatten(actual), strict=True):
        np.testing.assert_array_equal(got, want)
    return actual


def optimized(*fetches: Any, count: int = 3) -> dict[str, tuple[str, str]]:
    """Ops and devices of the nodes that remain after the passes over the whole step."""
    placer = Placer.from_config(config(count))
    graph = drop_identities(placer.place(prune([], list(fetches), []), tf.get_default_graph()))
    return {name: (node.op, node.device[-5:]) for name, node in graph.nodes.items()}


def test_an_identity_that_was_put_on_another_device_is_a_station_of_its_value() -> None:
    x = tf.random_uniform([4])
    with on(1):
        there = tf.identity(x, name="there")
    with on(0):
        back = tf.identity(tf.identity(there, name="again") + 1.0, name="back")
    found = optimized(back)
    assert found["there"] == ("Identity", "CPU:1")
    assert "again" not in found
    assert "back" not in found
    assert both(tf.stack([x - x, there - there])).tolist() == np.zeros((2, 4)).tolist()
    assert optimized(there)["there"] == ("Identity", "CPU:1")


def test_a_station_stays_where_an_identity_without_a_device_reads_it() -> None:
    x = tf.random_uniform([4])
    with on(1):
        there = tf.stop_gradient(x, name="there")
    follower = tf.identity(there)
    with on(2):
        y = follower * 2.0
    assert optimized(y)["there"] == ("StopGradient", "CPU:1")


def test_an_identity_whose_readers_are_all_there_is_dropped() -> None:
    x = tf.random_uniform([4])
    with on(1):
        y = tf.identity(x, name="there") * 2.0
    assert "there" not in optimized(y)


def test_on_one_device_placed_identities_are_dropped() -> None:
    with on(0):
        y = tf.identity(tf.random_uniform([4]), name="there") * 2.0
    assert "there" not in optimized(y, count=1)
    assert "there" not in optimized(y)


def test_a_tensor_is_sent_once_to_each_device_that_reads_it() -> None:
    x = tf.random_uniform([4])
    with on(1):
        a = [x + 1.0, x * 2.0, x - 1.0]
    with on(2):
        b = tf.add_n([x, *a])
    found = parts(b)
    assert found["CPU:0"]["_Send"] == 2
    assert found["CPU:1"]["_Recv"] == 1
    assert found["CPU:1"]["_Send"] == 3
    assert found["CPU:2"]["_Recv"] == 4


def test_constants_and_feeds_are_copied_not_sent() -> None:
    x = tf.placeholder(tf.float32, [2])
    c = tf.constant([1.0, 2.0])
    with on(1):
        y = x + c
    with on(2):
        z = x * c
    graph = Placer.from_config(config()).place(prune([x], [y, z], []), tf.get_default_graph())
    cut = partition(graph)
    assert not any(node.op == "_Send" for part in cut.values() for node in part.graph.nodes.values())
    assert both([y, z], {x: [3.0, 4.0]})[1].tolist() == [3.0, 8.0]


def test_control_edges_are_kept_across_devices() -> None:
    v = tf.Variable(1.0, use_resource=True)
    with on(1):
        with tf.control_dependencies([v.assign(5.0).op]):
            gate = tf.constant(1.0)
    with tf.control_dependencies([gate.op]):
        read = v.read_value()
    assert both([read, gate]) == [5.0, 1.0]


def test_variables_live_on_their_devices_and_train_there() -> None:
    with on(1):
        w = tf.Variable(np.full([3, 2], 0.5, np.float32), use_resource=True)
    with on(2):
        b = tf.Variable(np.zeros(2, np.float32), use_resource=True)
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w) + b))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.control_dependencies([step]):
        after = [w.read_value(), b.read_value()]
    both([loss, *after])


@pytest.mark.parametrize("value", [1.0, -1.0])
def test_conditionals_span_devices(value: float) -> None:
    p = tf.placeholder(tf.float32, [])

    def branch(device: int, sign: float) -> Any:
        def build() -> Any:
            with on(device):
                inner = p * sign
            with on(0):
                return inner + 1.0

        return build

    with on(1):
        y = tf.cond(p > 0, branch(2, 2.0), branch(1, 3.0))
    with on(2):
        z = y * y
    assert both([y, z], {p: value})[0] == (value * (2.0 if value > 0 else 3.0) + 1.0)


@pytest.mark.parametrize("trips", [0, 1, 7])
def test_loops_span_devices(trips: int) -> None:
    n = tf.placeholder(tf.int32, [])
    factor = tf.random_uniform([], 2.0, 2.0)

    def body(i: Any, x: Any) -> Any:
        with on(1):
            y = x * factor
        with on(2):
            y = y + tf.cast(i, tf.float32) + 1.0
        return i + 1, y

    i, x = tf.while_loop(lambda i, x: i < n, body, (0, tf.constant(1.0)))
    expected = 1.0
    for k in range(trips):
        expected = expected * 2.0 + k + 1.0
    assert both([i, x], {n: trips}) == [trips, expected]


def test_a_loop_whose_condition_is_elsewhere() -> None:
    def condition(i: Any, x: Any) -> Any:
        with on(2):
            return tf.reduce_sum(x) < 100.0

    with on(1):
        loop = tf.while_loop(condition, lambda i, x: (i + 1, x * 2.0), (0, tf.ones([3])))
    assert both(loop)[0] == 6


def test_nested_loops_and_conditionals_and_their_gradients() -> None:
    x = tf.constant(1.5)

    def inner(j: Any, y: Any) -> Any:
        with on(2):
            return j + 1, tf.cond(y < 10.0, lambda: y * 1.5, lambda: y * 0.5)

    def outer(i: Any, y: Any) -> Any:
        with on(1):
            y = y + 0.25
        return i + 1, tf.while_loop(lambda j, y: j < i, inner, (0, y))[1]

    y = tf.while_loop(lambda i, y: i < 4, outer, (0, x))[1]
    both([y, tf.gradients(y, x)[0]])


def test_a_loop_in_a_branch_that_is_not_taken() -> None:
    p = tf.placeholder(tf.bool, [])

    def loop() -> Any:
        def body(i: Any, x: Any) -> Any:
            with on(1):
                return i + 1, x * 2.0

        return tf.while_loop(lambda i, x: i < 3, body, (0, tf.constant(1.0)))[1]

    y = tf.cond(p, loop, lambda: tf.constant(-1.0))
    assert both(y, {p: True}) == 8.0
    assert both(y, {p: False}) == -1.0


def test_the_first_error_ends_all_devices_and_names_its_node() -> None:
    q = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
    with on(1):
        waiting = q.dequeue()
    with on(2):
        bad = tf.check_numerics(tf.log(tf.random_uniform([], -2.0, -1.0)), "broken", name="bad")
    with tf.Session(config=config()) as sess:
        with pytest.raises(tf.errors.InvalidArgumentError, match="broken") as raised:
            sess.run([waiting + 0.0, bad])
        assert raised.value.op.name == "bad"
        assert sess.run(tf.constant(1.0)) == 1.0


def test_timeout_and_close_end_a_step_on_all_devices() -> None:
    q = tf.FIFOQueue(1, [tf.float32], shapes=[[]])
    with on(1):
        y = q.dequeue() + 1.0
    with on(2):
        z = y * 2.0
    sess = tf.Session(config=config())
    with pytest.raises(tf.errors.DeadlineExceededError):
        sess.run(z, options=tf.RunOptions(timeout_in_ms=50))
    caught: list[Exception] = []
    begun = Begun()

    def run() -> None:
        try:
            sess.run([z, begun.zero])
        except Exception as e:
            caught.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    sess.close()
    thread.join(60)
    assert [type(e) for e in caught] == [tf.errors.CancelledError]


def test_many_threads_run_overlapping_steps_over_devices() -> None:
    x = tf.placeholder(tf.float32, [])
    y = x
    for k in range(6):
        with on(k % 3):
            y = y * 2.0 + 1.0
    wrong: list[Any] = []
    with tf.Session(config=config()) as sess:

        def work(seed: int) -> None:
            for k in range(40):
                value = float(seed * 100 + k)
                if sess.run(y, {x: value}) != value * 64 + 63:
                    wrong.append(value)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_trace_has_the_nodes_of_each_device() -> None:
    a = tf.random_uniform([2])
    with on(1):
        b = tf.multiply(a, 2.0, name="b")
    metadata = tf.RunMetadata()
    with tf.Session(config=config()) as sess:
        sess.run(b, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    nodes = {
        stats.device[-5:]: {node.node_name for node in stats.node_stats} for stats in metadata.step_stats.dev_stats
    }
    assert "b" in nodes["CPU:1"]
    assert "b" not in nodes["CPU:0"]


def test_optimizers_train_variables_of_several_devices() -> None:
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(2, 3))
    for k, units in enumerate((4, 2)):
        with on(k + 1):
            w = tf.Variable(np.full([x.shape[1].value, units], 0.1 * (k + 1), np.float32), use_resource=True)
            x = tf.tanh(tf.matmul(x, w))
    step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(x), colocate_gradients_with_ops=True)
    with tf.control_dependencies([step]):
        after = [variable.read_value() for variable in tf.trainable_variables()]
    both(after)


def test_a_call_that_cannot_be_inlined_runs_on_the_device_of_its_node() -> None:
    def doubled(n: Any) -> Any:
        with on(2):
            return n * 2

    branches = [trace(f, [tf.TensorSpec([], tf.int32)], name=f.__name__) for f in (doubled, tf.identity)]
    n = tf.placeholder(tf.int32, [])
    with on(1):
        (y,) = apply("If", n > 1, [n], then_branch=branches[0], else_branch=branches[1], Tout=[tf.int32])
    metadata = tf.RunMetadata()
    with tf.Session(config=config()) as sess:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert sess.run(y, {n: 5}, options=options, run_metadata=metadata) == 10
    used = {stats.device[-5:] for stats in metadata.step_stats.dev_stats if stats.node_stats}
    assert "CPU:1" in used and "CPU:2" not in used


def test_gradients_of_loops_with_arrays_span_devices() -> None:
    x = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2) / 5)
    with on(1):
        rows = tf.TensorArray(tf.float32, 3).unstack(x)
        written = tf.TensorArray(tf.float32, 3)

    def body(i: Any, h: Any, written: Any) -> Any:
        with on(2):
            h = tf.tanh(h + rows.read(i))
        with on(0):
            return i + 1, h * 1.5, written.write(i, h)

    for swap in (False, True):
        with on(2):
            _, h, out = tf.while_loop(lambda i, *_: i < 3, body, (0, x[0], written), swap_memory=swap)
            y = tf.reduce_sum(out.stack() * h)
        both([y, *tf.gradients(y, x)])


@pytest.mark.parametrize("seed", range(4))
def test_a_device_function_may_scatter_the_nodes_of_loops(seed: int) -> None:
    def anywhere(op: Any) -> str:
        touches = any(tensor.dtype.base_dtype is tf.resource for tensor in op.inputs)
        return "" if touches else f"/cpu:{zlib.crc32(f'{op.name}{seed}'.encode()) % 4}"

    def build() -> list[Any]:
        x = tf.placeholder_with_default([[1.2, 0.5], [0.1, 2.0], [0.3, 0.7]], [3, 2])

        def outer(i: Any, a: Any) -> Any:
            def inner(j: Any, b: Any) -> Any:
                return j + 1, tf.cond(b > 1.0, lambda: b * 0.5, lambda: b + tf.sin(b))

            return i + 1, tf.while_loop(lambda j, b: j < i, inner, [0, a])[1]

        looped = tf.while_loop(lambda i, a: i < 4, outer, [0, tf.reduce_sum(x)])[1]
        scanned = tf.scan(lambda carried, row: carried * row + 1.0, x)
        return [looped, scanned, *tf.gradients([looped, scanned], x)]

    with tf.Session() as sess:
        expected = sess.run(build())
    with tf.device(anywhere):
        fetches = build()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 4})) as sess:
        for got, wanted in zip(sess.run(fetches), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)


def test_the_merge_of_a_conditional_does_not_stand_for_that_of_a_loop() -> None:
    def choose(op: Any) -> str:
        return "/cpu:1" if op.type == "LoopCond" or op.name.endswith("cond/Merge") else "/cpu:2"

    with tf.device(choose):
        end = tf.while_loop(lambda i: i < 9, lambda i: tf.cond(i > 3, lambda: i + 1, lambda: i + 2), [0])
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as sess:
        assert sess.run(end) == 9
