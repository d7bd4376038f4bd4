"""What full tracing costs: steps with RunOptions.FULL_TRACE and a RunMetadata against the same steps without.

Traced and plain steps take turns, so that noise meets both alike; the result is how much the median of the traced ones
exceeds that of the plain ones.
"""

import statistics
import time

from case import Case, session
from cases.convnets import graph_step

ORDER = 11
NETWORK, BATCH = "googlenet", 8
SMALL_OPS = 2000


def slowdown(tf, run, rounds):
    """The ratio of medians minus one; `run` takes options and run_metadata."""
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    times = {False: [], True: []}
    for i in range(-1, rounds):
        for traced in (False, True) if i % 2 else (True, False):
            arguments = {"options": options, "run_metadata": tf.RunMetadata()} if traced else {}
            start = time.perf_counter()
            run(**arguments)
            if i >= 0:
                times[traced].append(time.perf_counter() - start)
    return max(statistics.median(times[True]) / statistics.median(times[False]) - 1, 1e-6)


def network(training):
    """Builder: a step of a convnet, as in cases/convnets.py."""

    def build(tf, setting):
        sess, fetches, feeds, _ = graph_step(tf, setting, NETWORK, BATCH, training)
        return lambda: slowdown(tf, lambda **how: sess.run(fetches, feeds, **how), 5 if setting.quick else 15)

    return build


def small_ops(tf, setting):
    """Builder: a chain of operations on scalars, none of which can be fused with its neighbours."""
    graph = tf.Graph()
    with graph.as_default():
        x = y = tf.placeholder(tf.float32, [])
        for _ in range(SMALL_OPS // 2):
            y = tf.sin(tf.reshape(y, []))
    sess = session(tf, setting, graph)
    return lambda: slowdown(tf, lambda **how: sess.run(y, {x: 1.0}, **how), 50)


def _case(about, builder, **more):
    return Case(about, builder, unit="%", self_measured=True, **more)


CASES = {
    "trace_train": _case(f"what a {NETWORK} training step loses by full tracing", network(True), at_most=0.05),
    "trace_infer": _case(f"what a {NETWORK} inference step loses by full tracing", network(False), at_most=0.05),
    "trace_small": _case(f"what a step of {SMALL_OPS} tiny operations loses by full tracing", small_ops),
}
