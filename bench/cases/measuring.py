"""The cost of measuring the steps of a session (`tf.placement.configure(costs=...)`): CPU time, in turn, new sessions.

The steps are those with the largest relative cost: 2,000 operations on scalars, and the training step of a small MLP.
The first two samples (they number the nodes: some 0.3 microseconds a node) count as compilation of the step.
"""

import os
import statistics
import tempfile
import time

import numpy as np

from case import Case

ORDER = 16
ROUNDS, STEPS = 5, 200


def scalars(tf):
    """2,000 operations that depend on each other."""
    x = tf.placeholder(tf.float32, [])
    y = x
    for i in range(1000):
        y = tf.floor(tf.add(y, float(i)))
    return y, {x: 1.0}, tf.no_op()


def mlp(tf):
    """784-256-256-10, batch 32, descent."""
    x = tf.placeholder(tf.float32, [32, 784])
    y = x
    for i, units in enumerate((256, 256, 10)):
        weights = tf.get_variable(f"weights_{i}", [int(y.shape[1]), units], use_resource=True)
        y = tf.nn.relu(tf.matmul(y, weights))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(tf.reduce_mean(tf.square(y)))
    return [step], {x: np.ones((32, 784), np.float32)}, tf.global_variables_initializer()


def overhead(model):
    """Builder: the fraction of CPU time that measuring adds."""

    def build(tf, setting):
        graph = tf.Graph()
        with graph.as_default():
            fetches, feeds, initialize = model(tf)

        def seconds(config):
            with tf.Session(graph=graph, config=config) as sess:
                sess.run(initialize)
                for _ in range(10):
                    sess.run(fetches, feeds)
                begin = time.process_time()
                for _ in range(STEPS):
                    sess.run(fetches, feeds)
                return time.process_time() - begin

        def step():
            ratios = []
            with tempfile.TemporaryDirectory() as folder:
                for i in range(ROUNDS):
                    measuring = tf.ConfigProto(intra_op_parallelism_threads=1)
                    if hasattr(tf, "placement"):
                        tf.placement.configure(measuring, costs=os.path.join(folder, f"{i}.json"))
                    else:
                        measuring.graph_options.build_cost_model = 30  # as many samples
                    plain = tf.ConfigProto(intra_op_parallelism_threads=1)
                    first, second = (plain, measuring) if i % 2 else (measuring, plain)
                    times = {id(config): seconds(config) for config in (first, second)}
                    ratios.append(times[id(measuring)] / times[id(plain)])
            return statistics.median(ratios) - 1

        return step

    return build


CASES = {
    "measure_scalars": Case(
        "what measuring costs adds to 2,000 scalar ops", overhead(scalars), at_most=0.02, unit="%", self_measured=True
    ),
    "measure_mlp": Case(
        "what measuring costs adds to an MLP step", overhead(mlp), at_most=0.02, unit="%", self_measured=True
    ),
}
