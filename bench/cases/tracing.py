"""What full tracing costs: steps with RunOptions.FULL_TRACE and a RunMetadata against the same steps without.

Traced and plain steps take turns, so that noise meets both alike; the result is how much the median of the traced ones
exceeds that of the plain ones.
"""

import statistics
import time

from case import Case, session
from cases.convnets import RATE, data
from networks.convnets import NETWORKS

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
        from networks.graph_net import GraphNet

        images, labels = data(NETWORK, BATCH)
        graph = tf.Graph()
        with graph.as_default():
            x, y = tf.placeholder(tf.float32, images.shape), tf.placeholder(tf.int64, labels.shape)
            net = GraphNet(tf, training=training)
            fetches = logits = NETWORKS[NETWORK][0](net, x)
            if training:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
                minimize = tf.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=net.variables)
                fetches = [loss, tf.group(minimize, *net.updates)]
            initialize = tf.variables_initializer(net.other_variables())
        sess = session(tf, setting, graph)
        net.initialize(sess, initialize)
        feeds = {x: images, y: labels} if training else {x: images}
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
