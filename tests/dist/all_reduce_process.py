"""One member of a test's group for all-reduce, in a process of its own; TF_CONFIG says which. Prints a line of JSON."""

from __future__ import annotations

import json
import sys

import numpy as np

import thalweg as tf
import thalweg.horovod as hvd


def values(rank: int, count: int) -> np.ndarray:
    """The values that a member contributes."""
    return np.random.default_rng(rank).standard_normal(count).astype(np.float32)


def sums() -> dict[str, object]:
    """The collective operations on values of several sizes."""
    x = tf.placeholder(tf.float32, [None])
    total, mean = hvd.allreduce(x, average=False), hvd.allreduce(x)
    gathered, sent = hvd.allgather(x), hvd.broadcast(x, 0)
    with tf.Session() as sess:
        found = {}
        for count in (0, 1, 7, 300001):
            given = {x: values(hvd.rank(), count)}
            found[str(count)] = [each.tobytes().hex() for each in sess.run([total, mean, gathered, sent], given)]
        return found


def training() -> dict[str, object]:
    """Ten steps of training, each member on rows of its own."""
    data = np.random.default_rng(7).standard_normal((8 * hvd.size(), 3)).astype(np.float32)
    own = data[8 * hvd.rank() : 8 * hvd.rank() + 8]
    weights = tf.get_variable("w", [3, 1], initializer=tf.random_normal_initializer(seed=hvd.rank() + 1))
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.constant(own), weights) - 1.0))
    train = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        sess.run(hvd.broadcast_global_variables(0))
        first = sess.run(weights)
        for _ in range(10):
            sess.run(train)
        return {"first": first.tolist(), "last": sess.run(weights).tobytes().hex()}


def main() -> None:
    """Joins the group, does what it is asked for, and tells the results."""
    hvd.init()
    found = {"sums": sums, "training": training}[sys.argv[1]]()
    print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), **found}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
