"""How steps with independent operations scale with threads: measured on the cores here, simulated for more.

    python bench/parallel_nodes.py [--rounds N] [--only sorts loops]

Each case is run with 1 and with 2 inter-op threads, in turn, each kernel on one core. The simulation takes the time of
each node from a traced step on one thread and plays what the executor does with n threads (decision 0028): one thread
at a time holds the step's state and runs light nodes; heavy ones are computed apart. Its prediction for 2 threads is
printed beside the measurement.
"""

from __future__ import annotations

import argparse
import heapq
import os
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import thalweg as tf

HEAVY, PASSING = 15.0, 4.0  # microseconds, as in core/executor/pace.cc
SIMULATED = (1, 2, 4, 8, 16, 32, 64)


class Node(NamedTuple):
    """A node of an installed step: its time in microseconds, and the nodes that it reads or waits for."""

    name: str
    time: float
    inputs: list[str]


def sorts() -> Any:
    """Sixteen sorts of 50,000 floats."""
    x = tf.random_uniform([16, 50000], seed=1)
    return tf.add_n([tf.reduce_max(tf.sort(x[i])) for i in range(16)])


def decompositions() -> Any:
    """Eight singular value decompositions, and products of what they give."""
    x = tf.random_uniform([8, 96, 96], seed=2)
    parts = [tf.svd(x[i]) for i in range(8)]
    return tf.add_n([tf.reduce_sum(tf.matmul(u, v)) for _, u, v in parts])


def branches() -> Any:
    """Modules of four branches of small convolutions."""
    x = tf.random_uniform([1, 17, 17, 64], seed=3)
    for module in range(6):
        outputs = []
        for branch, size in enumerate((1, 3, 5, 3)):
            kernel = tf.random_normal([size, size, 64, 16], stddev=0.1, seed=10 * module + branch)
            outputs.append(tf.nn.relu(tf.nn.conv2d(x, tf.Variable(kernel), [1, 1, 1, 1], "SAME")))
        x = tf.concat(outputs, 3)
    return tf.reduce_mean(x)


def strings() -> Any:
    """Regular expressions over eight lists of texts."""
    numbers = tf.as_string(tf.random_uniform([4000], maxval=10**9, dtype=tf.int64, seed=4))
    texts = tf.strings.join(["sample", numbers, "of a text with", numbers, "words"], separator=" ")
    replaced = [tf.strings.regex_replace(texts, f"[{i}-9]+", "#") for i in range(8)]
    return tf.add_n([tf.reduce_sum(tf.strings.length(each)) for each in replaced])


CASES: dict[str, Callable[[], Any]] = {
    "sorts": sorts,
    "decompositions": decompositions,
    "branches": branches,
    "strings": strings,
}


def session(threads: int) -> Any:
    config = tf.ConfigProto(
        inter_op_parallelism_threads=threads, intra_op_parallelism_threads=1, use_per_session_threads=True
    )
    return tf.Session(config=config)


def traced(run: Any, fetch: Any) -> list[Node]:
    """The nodes of the step that runs, in the order in which one thread runs them."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=True)
    times: dict[str, float] = {}
    for _ in range(3):
        run.run(fetch, options=options, run_metadata=metadata)
        for device in metadata.step_stats.dev_stats:
            for each in device.node_stats:
                taken = each.all_end_rel_micros
                times[each.node_name] = min(taken, times.get(each.node_name, taken))
    installed = {node.name: node for graph in metadata.partition_graphs for node in graph.node}
    # The time of operations that were fused belongs to the node that computes them.
    total = dict.fromkeys(installed, 0.0)
    for name, taken in times.items():
        total[_installed_at(name, installed)] += taken
    return [
        Node(name, total[name], [source.lstrip("^").split(":")[0] for source in node.input])
        for name, node in installed.items()
    ]


def _installed_at(name: str, installed: dict[str, Any]) -> str:
    """The installed node that computes an operation: itself, or the first of its readers that is installed."""
    while name not in installed:
        readers = tf.get_default_graph().get_operation_by_name(name).outputs[0].consumers()
        name = readers[0].name
    return name


def simulate(nodes: list[Node], threads: int) -> float:
    """Microseconds that the step takes with so many threads."""
    position = {node.name: i for i, node in enumerate(nodes)}
    readers: list[list[int]] = [[] for _ in nodes]
    waiting = [0] * len(nodes)
    for i, node in enumerate(nodes):
        for source in set(node.inputs):
            readers[position[source]].append(i)
            waiting[i] += 1
    ready = [i for i, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    computing: list[tuple[float, int]] = []  # heavy nodes: when they end
    now = 0.0
    while ready or computing:
        # The holder's thread counts: it runs light nodes, and computes a heavy one itself when no thread is free.
        while computing and (computing[0][0] <= now or not ready or len(computing) >= threads):
            end, node = heapq.heappop(computing)
            now = max(now, end)
            _completed(node, readers, waiting, ready)
        if not ready:
            continue
        node = heapq.heappop(ready)
        taken = nodes[node].time
        if taken < HEAVY or threads == 1:
            now += taken
            _completed(node, readers, waiting, ready)
        else:
            now += PASSING
            heapq.heappush(computing, (now + taken, node))
    return now


def _completed(node: int, readers: list[list[int]], waiting: list[int], ready: list[int]) -> None:
    for reader in readers[node]:
        waiting[reader] -= 1
        if waiting[reader] == 0:
            heapq.heappush(ready, reader)


def measure(name: str, rounds: int) -> None:
    """Prints one row of the table."""
    tf.reset_default_graph()
    fetch = CASES[name]()
    sessions = [session(1), session(2)]
    for each in sessions:
        each.run(tf.global_variables_initializer())
        for _ in range(12):  # The executor measures the first steps, and tries a team.
            each.run(fetch)
    results = [each.run(fetch) for each in sessions]
    samples: list[list[float]] = [[], []]
    for _ in range(rounds):
        for each, taken in zip(sessions, samples, strict=True):
            begin = time.perf_counter()
            each.run(fetch)
            taken.append(1e6 * (time.perf_counter() - begin))
    one, two = (statistics.median(taken) for taken in samples)
    nodes = traced(sessions[0], fetch)
    predicted = {threads: simulate(nodes, threads) for threads in SIMULATED}
    if not np.array_equal(*results):
        print(f"{name}: results differ between one and two threads: {results}")
    speedups = "  ".join(f"{threads}: {predicted[1] / predicted[threads]:.2f}" for threads in SIMULATED[2:])
    print(
        f"{name:15} {one:9.0f} us {two:9.0f} us   measured {one / two:.2f}   "
        f"simulated {predicted[1] / predicted[2]:.2f}   | {speedups}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", nargs="*", choices=sorted(CASES))
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores; one thread, two threads, speed-ups; simulated speed-ups for 4 to 64 threads")
    for name in options.only or CASES:
        measure(name, options.rounds)


if __name__ == "__main__":
    main()
