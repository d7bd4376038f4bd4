"""The cost model: estimates from shapes, measurements that replace them, files, and machines described in JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.node_work import work_of
from thalweg.passes.prune import prune
from thalweg.passes.step_graph import StepGraph
from thalweg.placement.costs import CostModel, Observation, estimate, folded
from thalweg.placement.machine import BUS, HAND_OVER, NETWORK, Machine, full_name


def step(*fetches: Any) -> StepGraph:
    placeholders = [op.outputs[0] for op in tf.get_default_graph().get_operations() if op.type == "Placeholder"]
    return prune(placeholders, list(fetches), [])


def work(tensor: Any) -> Any:
    graph = step(tensor)
    return work_of(graph, graph.nodes[tensor.op.name])


def test_products_and_convolutions_count_multiplications() -> None:
    a, b = tf.placeholder(tf.float32, [8, 16]), tf.placeholder(tf.float32, [16, 4])
    assert work(tf.matmul(a, b)).flops == 2 * 8 * 16 * 4
    assert work(tf.matmul(a, a, transpose_a=True)).flops == 2 * 16 * 8 * 16
    image, filters = tf.placeholder(tf.float32, [2, 10, 10, 3]), tf.placeholder(tf.float32, [3, 3, 3, 5])
    conv = tf.nn.conv2d(image, filters, strides=[1, 1, 1, 1], padding="SAME")
    multiplications = 2 * 2 * 10 * 10 * 5 * 3 * 3 * 3
    assert work(conv).flops == multiplications
    for gradient in tf.gradients(conv, [image, filters]):
        assert work(gradient).flops == multiplications
    pooled = tf.nn.max_pool(image, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    assert work(pooled).flops == 2 * 5 * 5 * 3 * 4


def test_forwarding_nodes_are_free_and_others_cost_a_pass_over_their_elements() -> None:
    x = tf.placeholder(tf.float32, [10, 20])
    assert work(tf.reshape(x, [200])) == (0, 0)
    assert work(x + 1.0) == (200, 4 * (200 + 1 + 200))
    assert work(tf.gather(tf.placeholder(tf.float32, [1000, 8]), [1, 2])).bytes == 2 * 4 + 4 + 2 * 64


def test_unknown_dimensions_are_guessed() -> None:
    x = tf.placeholder(tf.float32, [None, 20])
    assert work(x + x).flops == 32 * 20
    assert work(tf.placeholder(tf.float32) + 1.0).flops == 32


def test_updates_count_the_elements_of_the_variable() -> None:
    v = tf.Variable(tf.zeros([100]), use_resource=True)
    update = v.assign_add(tf.ones([100]), read_value=False)
    graph = prune([], [], [update])
    assert work_of(graph, graph.nodes[update.name]).flops == 100


def test_every_op_of_the_registry_can_be_estimated() -> None:
    from thalweg.graph.definitions.op_registry import all_ops
    from thalweg.graph.definitions.work import WorkContext

    for op in all_ops():
        if op.work is not None:
            shapes = [(4, 4, 4, 4)] * 4
            done = op.work(WorkContext({}, shapes, shapes, [1024] * 4, [1024] * 4))
            assert done.flops >= 0
            assert done.bytes >= 0, op.name


def test_constants_are_folded() -> None:
    x = tf.placeholder(tf.float32, [2])
    total = tf.constant([1.0, 2.0], name="c") * 2.0 + x
    assert folded(step(total)) == {"c", "mul/y", "mul"}


def test_a_measurement_replaces_the_estimate_and_corrects_its_kind() -> None:
    x = tf.placeholder(tf.float32, [64, 64])
    a, b = tf.matmul(x, x, name="a"), tf.matmul(x, x + 1.0, name="b")
    graph = step(a, b)
    costs = CostModel()
    guess = costs.seconds(graph, graph.nodes["b"], "CPU")
    assert guess == estimate(graph, graph.nodes["b"])
    costs.record(graph, [Observation("a", "MatMul", 10 * guess, 1, 5)], "CPU")
    assert costs.seconds(graph, graph.nodes["a"], "CPU") == pytest.approx(10 * guess)
    assert costs.seconds(graph, graph.nodes["b"], "CPU") == pytest.approx(10 * guess)
    assert costs.seconds(graph, graph.nodes["a"], "GPU") == guess


def test_small_nodes_tell_nothing_about_large_ones() -> None:
    sizes = {"tiny": 8, "small": 16, "middle": 512, "large": 700, "huge": 1700, "enormous": 8192}
    sums = [tf.add_n([tf.ones([n, n])] * 2, name=name) for name, n in sizes.items()]
    graph = step(*sums)
    guess = {name: estimate(graph, graph.nodes[name]) for name in sizes}
    costs = CostModel()

    def ratio(name: str) -> float:
        return costs.seconds(graph, graph.nodes[name], "CPU") / guess[name]

    costs.record(graph, [Observation("tiny", "AddN", 20 * guess["tiny"], 1, 1)], "CPU")
    assert ratio("small") == pytest.approx(20)
    assert ratio("huge") == 1
    costs.record(graph, [Observation("middle", "AddN", 0.5 * guess["middle"], 1, 1)], "CPU")
    assert ratio("small") == pytest.approx(20)
    assert ratio("large") == pytest.approx(0.5)
    assert ratio("huge") == pytest.approx(0.5)  # nothing better is known
    assert ratio("enormous") == 1  # the measured nodes were done in the cache


def test_the_time_of_a_fused_node_is_shared() -> None:
    x = tf.placeholder(tf.float32, [256, 256])
    product = tf.matmul(x, x, name="product")
    relu = tf.nn.relu(tf.nn.bias_add(product, tf.placeholder(tf.float32, [256]), name="bias"), name="relu")
    graph = step(relu)
    costs = CostModel()
    costs.record(graph, [Observation("relu", "_FusedMatMul", 1.0, 1, 1)], "CPU")
    times = {name: costs.seconds(graph, graph.nodes[name], "CPU") for name in ("product", "bias", "relu")}
    assert sum(times.values()) == pytest.approx(1.0)
    assert times["product"] > 5 * times["relu"] > 0


def test_helper_nodes_of_a_fused_node_count_with_it() -> None:
    x = tf.placeholder(tf.float32, [3, 4, 100])
    v = tf.Variable(np.zeros([100, 100], np.float32), use_resource=True)
    loss = tf.add_n([tf.reduce_sum(tf.square(tf.matmul(x[i], v))) for i in range(3)])
    graph = prune([x], [], [tf.train.GradientDescentOptimizer(0.1).minimize(loss)])
    total = next(name for name, node in graph.nodes.items() if node.op == "AddN" and name.startswith("gradients"))
    products = [name for name, _ in graph.nodes[total].inputs]
    update = next(name for name, node in graph.nodes.items() if node.op == "ResourceApplyGradientDescent")
    members = (*products, total, update)
    costs = CostModel()
    costs.record(
        graph,
        [
            Observation(f"{total}/_joined/a", "ConcatV2", 0.5, 1, 1),
            Observation(update, "_MatMulGradientDescent", 1.0, 1, 1, members),
        ],
        "CPU",
    )
    found = {name: costs.measurement(node, "CPU") for name, node in graph.nodes.items()}
    assert not any(found[name].alone for name in members)
    # Only these were measured: the cost of their inputs counts with them as well.
    assert sum(each.seconds for each in found.values() if each is not None) == pytest.approx(1.5)


def test_the_time_of_a_lowered_loop_belongs_to_its_body() -> None:
    x = tf.placeholder(tf.float32, [128, 128])
    loop = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, tf.matmul(a, a)), (0, x))[1]
    graph = step(tf.reduce_sum(loop))
    enter = next(name for name, node in graph.nodes.items() if node.op == "Enter")
    costs = CostModel()
    costs.record(graph, [Observation(f"{enter}/_loop", "_Loop", 2.0, 1, 1)], "CPU")
    product = next(node for node in graph.nodes.values() if node.op == "MatMul")
    assert costs.seconds(graph, product, "CPU") > 1.5
    assert costs.runs(product, "CPU", 1) == 1


def test_sessions_measure_their_steps(tmp_path: Path) -> None:
    path = str(tmp_path / "costs.json")
    x = tf.placeholder(tf.float32, [256, 256])
    y = tf.nn.relu(tf.matmul(x, x, name="product") + 1.0, name="end")
    config = tf.placement.configure(costs=path)
    with tf.Session(config=config) as sess:
        for _ in range(5):
            sess.run(y, {x: np.ones([256, 256], np.float32)})
        measured = tf.placement.cost_model(sess)
        graph = step(y)
        assert (
            measured.measurement(graph.nodes["product"], "CPU").samples == 2
        )  # the first step is not observed, nor the fourth
    again = CostModel.load(path)
    assert again.num_measured == measured.num_measured > 0
    assert again.seconds(graph, graph.nodes["product"], "CPU") == measured.seconds(graph, graph.nodes["product"], "CPU")
    with tf.Session(config=config) as sess:
        assert tf.placement.cost_model(sess).num_measured == again.num_measured


def test_build_cost_model_says_which_steps_are_observed() -> None:
    x = tf.placeholder(tf.float32, [4])
    y = tf.exp(x, name="y")
    config = tf.ConfigProto()
    config.graph_options.build_cost_model = 3
    config.graph_options.build_cost_model_after = 2
    with tf.Session(config=config) as sess:
        for runs, samples in ((4, None), (1, 1), (2, 1), (1, 2)):
            for _ in range(runs):
                sess.run(y, {x: np.ones(4)})
            graph = step(y)
            found = tf.placement.cost_model(sess).measurement(graph.nodes["y"], "CPU")
            assert (found.samples if found else None) == samples


def test_run_metadata_has_the_cost_graph() -> None:
    x = tf.placeholder(tf.float32, [16, 16], name="x")
    y = tf.reduce_sum(tf.matmul(x, x, name="product"), name="y")
    config = tf.ConfigProto()
    config.graph_options.build_cost_model = 1
    metadata = tf.RunMetadata()
    with tf.Session(config=config) as sess:
        sess.run(y, {x: np.ones([16, 16])}, run_metadata=metadata)
    nodes = {node.name: node for node in metadata.cost_graph.node}
    product = nodes["product"]
    assert product.compute_cost >= 1
    assert product.device.endswith("CPU:0")
    assert product.output_info[0].size == 16 * 16 * 4
    assert nodes["y"].is_final
    assert nodes["y"].input_info[0].preceding_node == product.id


def test_nothing_is_measured_unless_asked() -> None:
    with tf.Session() as sess:
        for _ in range(5):
            sess.run(tf.random_normal([3]))
        assert tf.placement.cost_model(sess).num_measured == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "format"),
        ('{"format": "something else"}', "format"),
        ('{"format": "thalweg cost model", "version": 99}', "99"),
        ('{"format": "thalweg cost model", "version": 2}', "damaged"),
        ('{"format": "thalweg cost model", "version": 2, "nodes": {"CPU": {"a": ["A", "x", 1, 1, 1, 1]}}}', "damaged"),
        ('{"format": "thalweg cost model", "version": 2, "nodes": {"CPU": {"a": ["A", -1, 1, 1, 1, 1]}}}', "damaged"),
        ('{"format": "thalweg cost model", "version": 2, "nodes": {"CPU": {"a": ["A", NaN, 1, 1, 1, 1]}}}', "damaged"),
        ('{"format": "thalweg cost model", "version": 2, "nodes": {"CPU": {"a": [1]}}}', "damaged"),
        ('{"format": "thalweg cost model", "version": 2, "nodes": [1]}', "damaged"),
    ],
)
def test_a_file_that_is_no_cost_model_is_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=words):
        CostModel.load(str(path))
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="JSON"):
        CostModel.load(str(path))


def test_machines_are_described_in_json(tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    described = {
        "devices": [
            {"name": "CPU:0", "count": 2},
            {"name": "/job:worker/task:1/device:GPU:0", "speed": 20, "memory": "2G"},
        ],
        "links": [{"from": "CPU", "to": "GPU", "latency": 1e-5, "bandwidth": 1e9}],
    }
    path.write_text(json.dumps(described))
    machine = Machine.load(str(path))
    first, second, third = machine.processors
    assert second.name == "/job:localhost/replica:0/task:0/device:CPU:1"
    assert third == ("/job:worker/replica:0/task:1/device:GPU:0", "GPU", 20.0, 2**31)
    assert machine.link(first, second) == HAND_OVER
    assert machine.link(third, first).seconds(1e9) == pytest.approx(1 + 1e-5)


def test_links_have_usual_values() -> None:
    names = ("CPU:0", "GPU:0", "/job:b/task:3/device:CPU:0")
    a, b, c = (Machine.from_description({"devices": [{"name": name}]}).processors[0] for name in names)
    machine = Machine([a, b, c])
    assert machine.link(a, b) == BUS
    assert machine.link(a, c) == NETWORK
    assert full_name("/cpu:1") == "/job:localhost/replica:0/task:0/device:CPU:1"


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ([], "expected"),
        ({"devices": []}, "at least one"),
        ({"devices": [{}]}, "name"),
        ({"devices": [{"name": "fast"}]}, "'fast' is not the name of a device"),
        ({"devices": [{"name": "CPU:*"}]}, "not the name"),
        ({"devices": [{"name": "CPU:0"}, {"name": "/cpu:0"}]}, "twice"),
        ({"devices": [{"name": "CPU:0", "speed": 0}]}, "speed"),
        ({"devices": [{"name": "CPU:0", "speed": "quick"}]}, "speed"),
        ({"devices": [{"name": "CPU:0", "memory": "much"}]}, "memory"),
        ({"devices": [{"name": "CPU:0", "memory": -1}]}, "memory"),
        ({"devices": [{"name": "CPU:0", "count": 10**9}]}, "count"),
        ({"devices": [{"name": "CPU:0", "colour": "red"}]}, "colour"),
        ({"devices": [{"name": "CPU:0"}], "links": [{"from": "CPU"}]}, "two devices"),
        ({"devices": [{"name": "CPU:0"}], "links": [{"from": "CPU", "to": "TPU"}]}, "'TPU'"),
        ({"devices": [{"name": "CPU:0"}], "links": [{"from": "CPU", "to": "CPU", "bandwidth": 0}]}, "bandwidth"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(described: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Machine.from_description(described)
