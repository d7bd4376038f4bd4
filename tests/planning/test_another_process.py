"""Planned steps run in other processes: parts as bytes, tensors over pipes, the bits of one process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.devices.random_graphs import GraphMaker, results
from tests.planning.peers import Peers

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def peers() -> Iterator[Peers]:
    found = Peers(2)
    yield found
    found.close()


def run_elsewhere(peers: Peers, fetches: list[Any], feeds: dict[Any, Any] | None = None, times: int = 1) -> list[Any]:
    """The results of a step of the default graph, run `times` times after its variables were initialized."""
    graph = tf.get_default_graph()
    feeds = feeds or {}
    if tf.global_variables():
        peers.run(peers.plan(graph, [], [tf.global_variables_initializer()], []))
    step = peers.plan(graph, fetches, [], list(feeds))
    return [value for _ in range(times) for value in peers.run(step, list(feeds.values()))]


def run_here(fetches: list[Any], feeds: dict[Any, Any] | None = None, times: int = 1) -> list[Any]:
    """The same on one device of this process, which does for all of them."""
    graph = tf.get_default_graph().as_graph_def()
    for node in (*graph.node, *(node for function in graph.library.function for node in function.node_def)):
        node.device = ""
    names = [fetch.name for fetch in fetches]
    initializers = [variable.initializer.name for variable in tf.global_variables()]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(graph, name="")
        if initializers:
            session.run(initializers)
        given = {key.name: value for key, value in (feeds or {}).items()}
        return [value for _ in range(times) for value in session.run(names, given)]


def check(elsewhere: list[Any], here: list[Any], what: str) -> None:
    for i, (got, want) in enumerate(zip(elsewhere, here, strict=True)):
        assert np.asarray(got).tobytes() == np.asarray(want).tobytes(), f"{what}: result {i}:\n{got}\n{want}"


# A loop over seeds, not a test for each: starting a test takes as long as a small graph does.
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_random_graphs_give_the_bits_of_one_process(peers: Peers, first: int) -> None:
    for seed in range(first, first + 20):
        per_process = 1 + seed % 2
        expected = results(seed, 1)
        peers.begin(per_process)
        with tf.Graph().as_default() as graph:
            spread = _Spread(seed, per_process)
            step = peers.plan(graph, spread.fetches, [], [])
            check(run_elsewhere(peers, spread.fetches, times=2), expected, f"seed {seed}")
        assert step.num_fetches == len(spread.fetches)


class _Spread(GraphMaker):
    """A random graph whose devices are those of two processes."""

    def __init__(self, seed: int, per_process: int) -> None:
        self._per_process = per_process
        super().__init__(seed, 2 * per_process)

    def _device(self) -> Any:
        wanted = int(self._random.integers(0, 24))
        number = wanted % self._count
        name = f"/job:worker/task:{number // self._per_process}/cpu:{number % self._per_process}"
        return tf.device(name if wanted < 16 else None)


def on(task: int) -> Any:
    return tf.device(f"/job:worker/task:{task}/cpu:0")


def test_feeds_go_to_every_process_that_reads_them(peers: Peers) -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.int32, [])
    with on(0):
        a = x * 2.0
    with on(1):
        b = tf.reduce_sum(x, 0) + tf.cast(y, tf.float32)
    with on(0):
        c = a + b
    feeds = {x: np.arange(6, dtype=np.float32).reshape(2, 3), y: np.int32(5)}
    peers.begin(1)
    check(run_elsewhere(peers, [c, b, a], feeds), run_here([c, b, a], feeds), "feeds")


def test_functions_loops_and_strings_cross(peers: Peers) -> None:
    @tf.experimental.Defun(tf.float32, func_name="Twice", noinline=True)
    def twice(x: Any) -> Any:
        return tf.tanh(x) * 2.0

    @tf.experimental.Defun(tf.float32, func_name="FourTimes", noinline=True)
    def four_times(x: Any) -> Any:
        return twice(twice(x))

    start = tf.random_uniform([4], seed=3) * 0.0 + 0.3
    with on(1):
        called = four_times(start)
    with on(0):
        words = tf.as_string(called, precision=3)
    with on(1):
        joined = tf.reduce_join(words, separator=",")
        _, looped = tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, twice(a) - 0.1), (0, called))
    with on(0):
        lengths = tf.data.Dataset.range(4).map(lambda n: n * 2).reduce(np.int64(0), lambda a, b: a + b)
    fetches = [called, joined, looped, lengths]
    peers.begin(1)
    elsewhere = run_elsewhere(peers, fetches)
    here = run_here(fetches)
    assert elsewhere[1] == here[1]
    check([each for i, each in enumerate(elsewhere) if i != 1], [each for i, each in enumerate(here) if i != 1], "all")


def test_training_over_two_processes_gives_the_bits_of_one(peers: Peers) -> None:
    with tf.variable_scope("net", use_resource=True):
        x = tf.placeholder(tf.float32, [16, 8])
        with on(0):
            w1 = tf.get_variable("w1", [8, 32], initializer=tf.random_normal_initializer(seed=1))
            hidden = tf.nn.relu(tf.matmul(x, w1))
        with on(1):
            w2 = tf.get_variable("w2", [32, 1], initializer=tf.random_normal_initializer(seed=2))
            loss = tf.reduce_mean(tf.square(tf.matmul(hidden, w2) - 1.0))
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
    with tf.control_dependencies([train]):
        fetch = tf.identity(loss)
    feeds = {x: np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)}
    peers.begin(1)
    elsewhere = run_elsewhere(peers, [fetch], feeds, times=5)
    check(elsewhere, run_here([fetch], feeds, times=5), "losses")
    assert elsewhere[-1] < elsewhere[0]


def test_a_step_that_was_planned_for_another_process_is_refused(peers: Peers) -> None:
    with on(0):
        a = tf.random_uniform([2], seed=1)
    with on(1):
        b = a + 1.0
    peers.begin(1)
    step = peers.plan(tf.get_default_graph(), [b], [], [])
    other = Peers(2)
    try:
        other.begin(1)
        with pytest.raises(AssertionError, match=r"(?s)AbortedError.*another incarnation"):
            other.run(step)
    finally:
        other.close()
