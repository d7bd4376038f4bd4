"""Traces of steps: the very step that runs, attributed to the nodes of the program."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.queues.waiting import after_waits

import thalweg as tf
from thalweg.functions.graph_function import trace
from thalweg.graph.apply import apply
from thalweg.runtime.trace import RECORD, shares, traced_nodes

FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as sess:
        yield sess


def traced(session: Any, fetches: Any, feeds: Any = None, options: Any = FULL) -> Any:
    metadata = tf.RunMetadata()
    session.run(fetches, feeds, options, metadata)
    return metadata


def stats_of(metadata: Any, device: int = 0) -> list[Any]:
    return list(metadata.step_stats.dev_stats[device].node_stats)


def layer(x: Any) -> Any:
    w, b = tf.Variable(tf.ones([x.shape[1], 8]), name="w"), tf.Variable(tf.ones([8]), name="b")
    return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w, name="product"), b, name="sum"), name="clipped")


def test_a_traced_step_is_the_step_that_runs_and_is_compiled_once(session: Any) -> None:
    x = tf.placeholder(tf.float32, [4, 16])
    y = layer(x)
    session.run(tf.global_variables_initializer())
    feeds = {x: np.ones((4, 16), np.float32)}
    plain = session.run(y, feeds)
    steps = len(session._steps)
    metadata = tf.RunMetadata()
    np.testing.assert_array_equal(session.run(y, feeds, FULL, metadata), plain)
    assert len(session._steps) == steps
    assert sum(" in _FusedMatMul clipped" in node.timeline_label for node in stats_of(metadata)) == 3


def test_the_members_of_a_fused_node_divide_its_time_without_gaps(session: Any) -> None:
    x = tf.placeholder(tf.float32, [4, 16])
    y = layer(x)
    session.run(tf.global_variables_initializer())
    feeds = {x: np.ones((4, 16), np.float32)}
    fused = [n for n in stats_of(traced(session, y, feeds)) if n.node_name in ("product", "sum", "clipped")]
    assert [n.node_name for n in fused] == ["product", "sum", "clipped"]
    for before, after in itertools.pairwise(fused):
        assert after.all_start_nanos == before.all_start_nanos + before.all_end_rel_nanos
        assert before.node_name in after.timeline_label.partition("(")[2]
    assert all(n.all_end_rel_micros >= 1 for n in fused)
    # Only the last one has an output.
    assert [len(n.output) for n in fused] == [0, 0, 1]
    assert [d.size for d in fused[2].output[0].tensor_description.shape.dim] == [4, 8]


def test_shares_go_by_arithmetic_and_add_up_to_one(session: Any) -> None:
    x = tf.placeholder(tf.float32, [4, 16])
    y = layer(x)
    session.run(tf.global_variables_initializer())
    step = session._run_traced(y, {x: np.ones((4, 16), np.float32)})[1]
    nodes = traced_nodes(step.compiled)
    (fused,) = [node for node in nodes if node.op == "_FusedMatMul"]
    found = shares(fused, nodes, step.installed.planned)
    assert [(share.node, share.op) for share in found] == [
        ("product", "MatMul"),
        ("sum", "BiasAdd"),
        ("clipped", "Relu"),
    ]
    assert [share.share for share in found] == pytest.approx([32 / 34, 1 / 34, 1 / 34])


def test_shares_within_functions_go_by_arithmetic_too(session: Any) -> None:
    @tf.experimental.Defun(tf.float32, func_name="Layer", noinline=True)
    def product(x: Any) -> Any:
        x.set_shape([4, 16])
        return tf.nn.relu(tf.matmul(x, tf.ones([16, 8]) * tf.reduce_sum(x), name="product"), name="clipped")

    y = product(tf.placeholder_with_default(np.ones((4, 16), np.float32), [4, 16]), name="call")
    session.run(y)
    step = session._run_traced(y, None)[1]
    nodes = traced_nodes(step.compiled)
    (fused,) = [node for node in nodes if node.op == "_FusedMatMul"]
    assert [(share.node, share.share) for share in shares(fused, nodes, step.installed.planned)] == [
        ("call/product", pytest.approx(32 / 33)),
        ("call/clipped", pytest.approx(1 / 33)),
    ]


def test_layouts_do_not_change_the_names(session: Any) -> None:
    images = tf.placeholder(tf.float32, [1, 3, 8, 8])
    filters = tf.constant(np.ones((3, 3, 3, 4), np.float32))
    y = tf.nn.relu(tf.nn.conv2d(images, filters, [1, 1, 1, 1], "SAME", data_format="NCHW", name="conv"), name="out")
    names = [n.node_name for n in stats_of(traced(session, y, {images: np.ones((1, 3, 8, 8))}))]
    assert {"conv", "out"} <= set(names)
    assert not any(name.endswith("/nhwc") for name in names)


def test_the_nodes_of_a_lowered_loop_are_recorded_for_each_iteration(session: Any) -> None:
    _, y = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, tf.tanh(y, name="squashed")), [0, 3.0], name="loop")
    metadata = traced(session, y)
    counts = Counter(n.node_name for n in stats_of(metadata))
    assert counts["loop/squashed"] == 5
    assert counts["loop/Less"] == 6
    _, _, recorded = session._run_traced(y, None)
    records = np.frombuffer(recorded.records(0), RECORD)
    inner = records[records["parent"] >= 0]
    around = records[inner["parent"]]
    assert len(inner) >= 5 * 2 + 6
    assert (inner["start"] >= around["start"]).all()
    assert (inner["end"] <= around["end"]).all()


def test_a_loop_with_frames_is_recorded_too(session: Any) -> None:
    queue = tf.FIFOQueue(10, tf.float32, [[]])
    session.run(queue.enqueue_many([np.arange(10.0)]))
    _, y = tf.while_loop(
        lambda i, y: i < 4, lambda i, y: (i + 1, y + queue.dequeue(name="next")), [0, 0.0], name="loop"
    )
    counts = Counter(n.node_name for n in stats_of(traced(session, y)))
    assert counts["loop/next"] == 4


def test_nodes_of_functions_are_named_after_the_call(session: Any) -> None:
    from thalweg.functions import defun as function

    @function.Defun(tf.float32, func_name="Body", noinline=True)
    def body(x: Any) -> Any:
        return tf.tanh(x, name="inner") * 2.0

    y = body(body(tf.constant([1.0, 2.0]), name="first"), name="second")
    names = [n.node_name for n in stats_of(traced(session, y))]
    assert {"first", "second"} <= set(names)
    assert {"first/inner", "second/inner"} <= set(names)


def test_labels_within_functions_say_what_nodes_read(session: Any) -> None:
    @tf.experimental.Defun(tf.float32, func_name="Chain", noinline=True)
    def chain(x: Any) -> Any:
        return tf.reduce_sum(tf.reduce_max(x + x, axis=0, name="most"), axis=0, name="all")

    labels = {n.node_name: n.timeline_label for n in stats_of(traced(session, chain(tf.ones([2, 2]), name="call")))}
    assert labels["call/all"] == "call/all = Sum(call/most)"
    assert labels["call/most"].startswith("call/most = Max(call/add")


def test_nodes_of_a_call_that_waits_are_recorded_within_the_call(session: Any) -> None:
    queue = tf.FIFOQueue(10, tf.float32, [[]])
    session.run(queue.enqueue_many([np.arange(4.0)]))

    @tf.experimental.Defun(tf.float32, func_name="Inner", noinline=True)
    def inner(x: Any) -> Any:
        return tf.tanh(x + queue.dequeue(), name="squashed")

    @tf.experimental.Defun(tf.float32, func_name="Outer", noinline=True)
    def outer(x: Any) -> Any:
        return tf.abs(inner(x, name="within"), name="positive")

    y = outer(outer(tf.constant(1.0), name="first"), name="second")
    nodes = {n.node_name: n for n in stats_of(traced(session, y))}
    assert {f"{call}/{n}" for call in ("first", "second") for n in ("within", "within/squashed", "positive")} <= set(
        nodes
    )
    for name, node in nodes.items():
        around = nodes.get(name.rpartition("/")[0])
        if around is not None:
            assert around.all_start_nanos <= node.all_start_nanos
            end = node.all_start_nanos + node.all_end_rel_nanos
            assert end <= around.all_start_nanos + around.all_end_rel_nanos
    assert nodes["first"].op_end_rel_nanos == 0
    assert nodes["first/within/squashed"].op_end_rel_nanos > 0
    assert [d.slot for d in nodes["first/positive"].output] == [0]


def test_a_loop_of_calls_that_wait_has_a_record_for_each_of_them(session: Any) -> None:
    queue = tf.FIFOQueue(10, tf.float32, [[]])
    session.run(queue.enqueue_many([np.ones(8)]))
    specs = [tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.resource)]
    cond = trace(lambda x, _: tf.less(x, 4.0, name="more"), specs)
    body = trace(
        lambda x, q: (tf.add(x, apply("QueueDequeueV2", q, component_types=[tf.float32])[0], name="sum"), q), specs
    )
    total = apply("While", [0.0, queue.queue_ref], cond=cond, body=body, name="loop")[0]
    counts = Counter(n.node_name for n in stats_of(traced(session, total)))
    assert counts["loop/sum"] == 4
    assert counts["loop/more"] == 5


def test_a_call_that_waits_and_fails_can_be_traced_again(session: Any) -> None:
    queue = tf.FIFOQueue(10, tf.float32, [[]])

    @tf.experimental.Defun(tf.float32, func_name="Checked", noinline=True)
    def checked(x: Any) -> Any:
        return tf.check_numerics(x / queue.dequeue(), "bad", name="guard")

    y = checked(tf.constant(1.0), name="call")
    session.run(queue.enqueue_many([[0.0, 2.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="guard"):
        traced(session, y)
    assert "call/guard" in [n.node_name for n in stats_of(traced(session, y))]


def test_functions_of_datasets_are_named_after_the_node_that_asks(session: Any) -> None:
    dataset = tf.data.Dataset.range(10).map(lambda x: tf.negative(x, name="turned"))
    element = tf.data.make_one_shot_iterator(dataset).get_next(name="next")
    counts = Counter(n.node_name for n in stats_of(traced(session, element)))
    assert counts["next"] == 1
    assert counts["next/turned"] == 1


def test_a_function_of_a_dataset_that_waits_is_recorded(session: Any) -> None:
    queue = tf.FIFOQueue(10, tf.int64, [[]])
    session.run(queue.enqueue_many([np.arange(5)]))
    dataset = tf.data.Dataset.range(5).map(lambda x: tf.add(x, queue.dequeue(), name="sum"))
    iterator = tf.data.make_initializable_iterator(dataset)
    element = iterator.get_next(name="next")
    session.run(iterator.initializer)
    metadata = tf.RunMetadata()
    assert session.run(element, None, FULL, metadata) == 0
    assert "next/sum" in [n.node_name for n in stats_of(metadata)]


def test_devices_have_stats_of_their_own_and_transfers(tmp_path: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/cpu:0"):
        a = tf.exp(x, name="a")
    with tf.device("/cpu:1"):
        b = tf.multiply(a, 2.0, name="b")
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        metadata = traced(sess, b, {x: [1.0, 2.0]})
    names = {stats.device[-5:]: {n.node_name for n in stats.node_stats} for stats in metadata.step_stats.dev_stats}
    assert "a" in names["CPU:0"]
    assert "b" in names["CPU:1"]
    (send,) = [n for n in stats_of(metadata, 0) if "_Send" in n.timeline_label]
    (receive,) = [n for n in stats_of(metadata, 1) if "_Recv" in n.timeline_label]
    assert send.timeline_label == f"{send.node_name} = _Send(a)"
    assert receive.timeline_label == f"{receive.node_name} = _Recv({send.node_name})"


def test_waiting_is_no_work(session: Any) -> None:
    queue = tf.FIFOQueue(1, tf.float32)
    value, add = queue.dequeue(name="wanted"), queue.enqueue(1.0)
    feeder = after_waits(1, lambda: (time.sleep(0.02), session.run(add)))
    (node,) = [n for n in stats_of(traced(session, value)) if n.node_name == "wanted"]
    feeder.result()
    assert node.all_end_rel_nanos > 10_000_000
    assert node.op_end_rel_nanos == 0


def test_memory_of_a_node_is_what_it_allocates(session: Any) -> None:
    x = tf.placeholder(tf.float32, [256, 256])
    y = tf.matmul(x, x, name="y")
    z = tf.reduce_sum(tf.matmul(y, y, name="z"))
    session.run(z, {x: np.ones((256, 256))})
    nodes = {n.node_name: n for n in stats_of(traced(session, z, {x: np.ones((256, 256))}))}
    size = 4 * 256 * 256
    assert nodes["y"].memory[0].total_bytes >= size
    assert nodes["y"].memory[0].allocator_bytes_in_use >= size
    assert nodes["z"].memory[0].allocator_bytes_in_use >= nodes["y"].memory[0].allocator_bytes_in_use


@pytest.mark.parametrize("level", ["SOFTWARE_TRACE", "HARDWARE_TRACE", "FULL_TRACE"])
def test_every_level_traces(session: Any, level: str) -> None:
    options = tf.RunOptions(trace_level=getattr(tf.RunOptions, level))
    assert stats_of(traced(session, tf.random_uniform([2]), options=options))


def test_a_run_metadata_holds_the_last_step_only(session: Any) -> None:
    metadata = tf.RunMetadata()
    a, b = (tf.tanh(tf.random_uniform([2]), name=name) for name in "ab")
    for fetch in (a, b):
        session.run(fetch, None, FULL, metadata)
    names = {n.node_name for stats in metadata.step_stats.dev_stats for n in stats.node_stats}
    assert "b" in names
    assert "a" not in names


def test_a_step_that_fails_leaves_the_next_trace_intact(session: Any) -> None:
    x = tf.placeholder(tf.int32, [])
    y = tf.gather(tf.random_uniform([3]), x)
    with pytest.raises(tf.errors.InvalidArgumentError):
        session.run(y, {x: 5}, FULL, tf.RunMetadata())
    assert "GatherV2" in {n.timeline_label.split(" = ")[1].split("(")[0] for n in stats_of(traced(session, y, {x: 1}))}


def test_threads_may_trace_one_step_at_the_same_time(session: Any) -> None:
    x = tf.placeholder(tf.float32, [8])
    y = tf.reduce_sum(tf.tanh(x) + tf.exp(x))
    counts: list[int] = []

    def work() -> None:
        for _ in range(20):
            counts.append(len(stats_of(traced(session, y, {x: np.ones(8)}))))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(counts) == 80
    assert len(set(counts)) == 1


def test_sampled_steps_measure_each_node(session: Any) -> None:
    x = tf.placeholder(tf.float32, [64, 64])
    y = tf.matmul(x, x, name="y")
    feeds = {x: np.ones((64, 64), np.float32)}
    compiled = session._resolve(y, feeds)[3].compiled
    assert compiled.sampled() == {}
    compiled.sample(3)
    for _ in range(7):
        session.run(y, feeds)
    names = [node.name for node in traced_nodes(compiled)]
    times = {names[number]: found for number, found in compiled.sampled().items()}
    runs, total, least, steps, median = times["y"]
    assert steps == 3
    assert least <= median <= total
    assert runs == 3  # the first, the fourth and the seventh
    assert 0 < least <= total / 3
    compiled.sample(0)
    session.run(y, feeds)
    assert compiled.sampled()[names.index("y")][0] == 3


def test_the_graphs_of_the_devices_are_there_on_request() -> None:
    x = tf.placeholder(tf.float32, [4, 16], name="x")
    with tf.device("/cpu:0"):
        w = tf.get_variable("weights", [16, 8], use_resource=True)
        y = tf.nn.relu(tf.matmul(x, w), name="y")
    with tf.device("/cpu:1"):
        z = tf.reduce_sum(y, name="z")
    options = tf.RunOptions(output_partition_graphs=True)
    metadata, without = tf.RunMetadata(), tf.RunMetadata()
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(z, {x: np.ones((4, 16))}, options, metadata)
        sess.run(z, {x: np.ones((4, 16))}, FULL, without)
    first, second = metadata.partition_graphs
    ops = {node.name: node.op for node in first.node}
    assert ops["y"] == "_FusedMatMul"
    assert "_Send" in ops.values()
    nodes = {node.name: node for node in second.node}
    assert nodes["z"].device.endswith("CPU:1")
    (received,) = [node for node in second.node if node.op == "_Recv"]
    assert received.name in nodes["z"].input
    assert not without.partition_graphs


def test_a_feed_has_a_record_without_a_duration(session: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    y = tf.reduce_sum(x, name="y")
    nodes = {n.node_name: n for n in stats_of(traced(session, y, {x: np.ones((2, 3))}))}
    assert [d.size for d in nodes["x"].output[0].tensor_description.shape.dim] == [2, 3]
    assert nodes["x"].all_end_rel_nanos == nodes["x"].all_end_rel_micros == 0
    assert nodes["y"].timeline_label == "y = Sum(x)"
