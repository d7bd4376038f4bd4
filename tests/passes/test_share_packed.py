"""Weights that products of several devices share: packed once, and handed over."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import thalweg as tf
from thalweg.passes.pack_weights import pack_weights
from thalweg.passes.partition import Partition, partition
from thalweg.passes.prune import prune
from thalweg.passes.share_packed import share_packed

FIRST = "/job:localhost/replica:0/task:0/device:CPU:0"
SECOND = "/job:localhost/replica:0/task:0/device:CPU:1"
OTHER_TASK = "/job:localhost/replica:0/task:1/device:CPU:0"
USES = 4


def array(*shape: int, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def products(devices: list[str], transposed: bool = False) -> list[tf.Tensor]:
    """On each device some products by the same weights, which are on the first."""
    with tf.device(devices[0]):
        weights = tf.placeholder(tf.float32, [64, 64]) * 2.0
    found = []
    for device in devices:
        with tf.device(device):
            found += [
                tf.matmul(tf.constant(array(8, 64, seed=i)), weights, transpose_b=transposed) for i in range(USES)
            ]
    return found


def parts_of(fetches: list[tf.Tensor], compressed: bool = False) -> dict[str, Partition]:
    graph = prune([], fetches, [])
    nodes = {name: node._replace(device=node.device or FIRST) for name, node in graph.nodes.items()}
    cut = partition(graph.with_nodes(nodes), compressed)
    return {device: part._replace(graph=pack_weights(part.graph)) for device, part in cut.items()}


def count(parts: dict[str, Partition], op: str) -> list[int]:
    return [Counter(node.op for node in part.graph.nodes.values())[op] for part in parts.values()]


def test_a_device_takes_what_the_sender_has_packed() -> None:
    before = parts_of(products([FIRST, SECOND]))
    after = share_packed(before)
    assert count(before, "_PackWeights") == [1, 1]
    assert count(after, "_PackWeights") == [1, 0]
    # The weights themselves are not sent any more.
    assert count(after, "_Send") == [1, 0]
    assert count(after, "_Recv") == [0, 1]
    (sent,) = [node for node in after[FIRST].graph.nodes.values() if node.op == "_Send"]
    assert after[FIRST].graph.nodes[sent.inputs[0][0]].op == "_PackWeights"
    assert sent.name in after[FIRST].graph.targets


def test_weights_with_other_readers_are_still_sent() -> None:
    fetches = products([FIRST, SECOND])
    with tf.device(SECOND):
        fetches.append(tf.reduce_sum(fetches[0].op.inputs[1]))
    after = share_packed(parts_of(fetches))
    assert count(after, "_PackWeights") == [1, 0]
    assert count(after, "_Recv") == [0, 2]


def test_weights_that_are_packed_in_different_ways_are_not_shared() -> None:
    with tf.device(FIRST):
        weights = tf.placeholder(tf.float32, [64, 64]) * 2.0
    fetches = []
    for device, transposed in ((FIRST, False), (SECOND, True)):
        with tf.device(device):
            fetches += [tf.matmul(tf.constant(array(8, 64)) + i, weights, transpose_b=transposed) for i in range(USES)]
    assert count(share_packed(parts_of(fetches)), "_PackWeights") == [1, 1]


def test_tasks_pack_for_themselves() -> None:
    parts = parts_of(products([FIRST, OTHER_TASK]))
    assert count(share_packed(parts), "_PackWeights") == [1, 1]


def test_compressed_weights_are_packed_where_they_arrive() -> None:
    parts = parts_of(products([FIRST, SECOND]), compressed=True)
    assert count(share_packed(parts), "_PackWeights") == [1, 1]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("live", [True, False])
def test_results_are_those_of_one_device(transposed: bool, live: bool) -> None:
    """In a conditional, too, where the packed weights may be dead."""
    results = []
    for devices in (["/cpu:0"], ["/cpu:0", "/cpu:1"]):
        with tf.Graph().as_default():
            variable = tf.Variable(array(64, 64), use_resource=True)
            chosen = tf.placeholder(tf.bool, [])
            weights = tf.cond(chosen, lambda v=variable: v * 2.0, lambda v=variable: v + 1.0)
            sums = []
            for i in range(2 * USES):
                with tf.device(devices[i // USES % len(devices)]):
                    sums.append(tf.matmul(tf.constant(array(8, 64, seed=i)), weights, transpose_b=transposed))
                    sums.append(tf.cond(chosen, lambda w=weights, i=i: tf.matmul(tf.constant(array(8, 64, seed=i)), w),
                                        lambda: tf.zeros([8, 64])))  # fmt: skip
            with tf.Session(config=tf.ConfigProto(device_count={"CPU": len(devices)})) as sess:
                sess.run(tf.global_variables_initializer())
                results.append(sess.run(sums, {chosen: live}))
                sess.run(variable.assign(array(64, 64, seed=9)))
                results[-1] += sess.run(sums, {chosen: live})
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
