"""A graph of 20,000 operations: the time to build it, and the time of its first run in a new session."""

import time

import numpy as np

from case import Case, session

ORDER = 5
OPERATIONS = 20_000
FED = (np.float32(1.5), np.float32(0.999), np.float32(0.001))


def build(tf, operations):
    """A chain in name scopes, with every tenth link joined to an older one; returns graph, placeholders and result."""
    graph = tf.Graph()
    with graph.as_default():
        x, a, b = (tf.placeholder(tf.float32, []) for _ in range(3))
        h = older = x
        for block in range(operations // 100):
            with tf.name_scope(f"block{block}"):
                for i in range(100):
                    if i % 10 == 9:
                        h, older = tf.maximum(h, older), h
                    else:
                        h = tf.multiply(h, a) if i % 2 else tf.add(h, b)
    return graph, (x, a, b), h


def operations(setting):
    return OPERATIONS // 10 if setting.quick else OPERATIONS


def build_time(tf, setting):
    def step():
        start = time.perf_counter()
        build(tf, operations(setting))
        return time.perf_counter() - start

    return step


def first_run_time(tf, setting):
    def step():
        graph, placeholders, h = build(tf, operations(setting))
        start = time.perf_counter()
        with session(tf, setting, graph) as sess:
            sess.run(h, dict(zip(placeholders, FED, strict=True)))
            return time.perf_counter() - start

    return step


CASES = {
    "graph_build": Case("build a graph of 20,000 ops", build_time, targets={"tensorflow": 1}, self_measured=True),
    "graph_first_run": Case(
        "its first run: session, pruning, compiling, running",
        first_run_time,
        targets={"tensorflow": 1},
        self_measured=True,
    ),
}
