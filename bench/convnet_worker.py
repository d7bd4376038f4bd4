"""A worker that trains a small convnet: `convnet_worker.py FRAMEWORK MODE CLUSTER INDEX`, input: counts of steps.

Modes: `alone` (one process, no server), `ps` (asynchronous, variables on the PS tasks), `all_reduce` (averaged
gradients). It prints "ready", then, for each line of input, the seconds that so many steps took. It has one thread for
the work of an operation.
"""

import json
import sys
import time

import numpy as np

from cases.clusters import start_server
from worker import load

BATCH, SIZE = 64, 24


def convnet(tf, images):
    """Scores of ten classes: two convolutions with pooling, two dense layers; a million parameters."""
    x = images
    for name, before, after in (("first", 3, 64), ("second", 64, 64)):
        kernel = tf.get_variable(f"{name}/kernel", [5, 5, before, after], use_resource=True)
        bias = tf.get_variable(f"{name}/bias", [after], initializer=tf.zeros_initializer(), use_resource=True)
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, filter=kernel, strides=[1, 1, 1, 1], padding="SAME"), bias))
        x = tf.nn.max_pool(x, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME")
    x = tf.reshape(x, [BATCH, (SIZE // 4) ** 2 * 64])
    for name, units in (("hidden", 384), ("scores", 10)):
        weights = tf.get_variable(f"{name}/weights", [int(x.shape[1]), units], use_resource=True)
        bias = tf.get_variable(f"{name}/bias", [units], initializer=tf.zeros_initializer(), use_resource=True)
        x = tf.nn.bias_add(tf.matmul(x, weights), bias)
        x = tf.nn.relu(x) if name == "hidden" else x
    return x


def training_step(tf, mode, cluster, index):
    """A function that runs one step."""
    random = np.random.default_rng(index)
    images = random.standard_normal((BATCH, SIZE, SIZE, 3), dtype=np.float32)
    labels = random.integers(0, 10, BATCH).astype(np.int64)
    one_thread = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    server = None if mode == "alone" else start_server(tf, cluster, "worker", index)
    optimizer = tf.train.MomentumOptimizer(0.001, 0.9)
    place = None
    if mode == "ps":
        place = tf.train.replica_device_setter(ps_tasks=len(cluster["ps"]), worker_device=f"/job:worker/task:{index}")
    elif mode == "all_reduce":
        import thalweg.horovod as hvd

        hvd.init(server)
        optimizer = hvd.DistributedOptimizer(optimizer)
    with tf.device(place):
        x, y = tf.placeholder(tf.float32, images.shape), tf.placeholder(tf.int64, labels.shape)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=convnet(tf, x)))
        train = optimizer.minimize(loss)
    session = tf.Session(server.target) if mode == "ps" else tf.Session(config=one_thread)
    if mode != "ps" or index == 0:
        session.run(tf.global_variables_initializer())
    else:
        missing = tf.report_uninitialized_variables()
        while session.run(missing).size:
            time.sleep(0.05)

    def step():
        session.run([loss, train], {x: images, y: labels})

    step.keep = server, session
    return step


def main():
    """Serves until the input ends."""
    framework, mode, cluster, index = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), int(sys.argv[4])
    tf, _ = load(framework, 1)
    step = training_step(tf, mode, cluster, index)
    for _ in range(5):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.monotonic()
        for _ in range(int(line)):
            step()
        print(time.monotonic() - begin, flush=True)


if __name__ == "__main__":
    main()
