"""One member of a test's group for all-reduce, in a process of its own; TF_CONFIG says which. Prints a line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import numpy as np

import thalweg as tf
import thalweg.horovod as hvd
from thalweg.dist import peers


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


def gradients() -> dict[str, object]:
    """Gradients of several kinds through an optimizer: rows, compressed ones, small ones in buckets."""
    rank = float(hvd.rank() + 1)
    table = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
    small = [tf.get_variable(f"small_{i}", [i + 1], initializer=tf.zeros_initializer()) for i in range(5)]
    rows = tf.gather(table, tf.constant([0, hvd.rank() + 1]))
    loss = tf.reduce_sum(rows) * rank + tf.add_n([tf.reduce_sum(each) * rank * (i + 1) for i, each in enumerate(small)])
    descent = tf.train.GradientDescentOptimizer(1.0)
    updates = {
        "rows": hvd.DistributedOptimizer(descent).minimize(loss, var_list=[table]),
        "dense_rows": hvd.DistributedOptimizer(descent, sparse_as_dense=True).minimize(loss, var_list=[table]),
        "buckets": hvd.DistributedOptimizer(descent, bucket_bytes=32).minimize(loss, var_list=small),
        "compressed": hvd.DistributedOptimizer(descent, compression=hvd.Compression.fp16).minimize(
            loss, var_list=small
        ),
        "summed": hvd.DistributedOptimizer(descent, op=hvd.Sum).minimize(loss, var_list=small),
    }
    found: dict[str, object] = {}
    with tf.Session() as sess:
        for name, update in updates.items():
            sess.run(tf.global_variables_initializer())
            sess.run(update)
            found[name] = [value.tolist() for value in sess.run([table, *small])]
    return found


def monitored() -> dict[str, object]:
    """Training in a monitored session, with the hook that makes all members begin alike."""
    weights = tf.get_variable("w", [2], initializer=tf.constant_initializer(hvd.rank() + 5.0))
    step = tf.train.get_or_create_global_step()
    train = hvd.DistributedOptimizer(tf.train.AdamOptimizer(0.5)).minimize(tf.reduce_sum(weights * weights), step)
    hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=5)]
    value = None
    with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        while not sess.should_stop():
            _, value = sess.run([train, weights])
    return {"last": None if value is None else value.tolist()}


def estimator() -> dict[str, object]:
    """An Estimator, as Horovod's users write it: each process has its own sessions, and rank 0 the checkpoints."""

    def model(features: Any, labels: Any, mode: str) -> tf.estimator.EstimatorSpec:
        weights = tf.get_variable("w", [1, 1], initializer=tf.constant_initializer(hvd.rank() * 1.0))
        loss = tf.losses.mean_squared_error(labels, tf.matmul(features["x"], weights))
        optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1))
        train = optimizer.minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    values = np.ones([8, 1], np.float32)
    inputs = tf.estimator.inputs.numpy_input_fn({"x": values}, 2.0 * values, 4, num_epochs=None, shuffle=False)
    with tempfile.TemporaryDirectory() as folder:
        config = tf.estimator.RunConfig(model_dir=folder)
        trained = tf.estimator.Estimator(model, config=config)
        trained.train(inputs, hooks=[hvd.BroadcastGlobalVariablesHook(0)], steps=5)
        value = trained.get_variable_value("w")
    return {"w": value.tolist(), "is_chief": config.is_chief, "master": config.master}


def mixed() -> dict[str, object]:
    """A table on a PS task, and weights in each process: the values after each of two steps."""
    rank = hvd.rank()
    with tf.device("/job:ps/task:0"):
        table = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
        shared = tf.get_variable("shared", [], initializer=tf.zeros_initializer())
    with tf.device(f"/job:worker/task:{rank}"):
        weights = tf.get_variable("weights", [3], initializer=tf.constant_initializer(rank + 1.0))
        loss = (tf.reduce_sum(tf.gather(table, [0, rank + 1])) + tf.reduce_sum(weights) + shared) * (rank + 1.0)
        train = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0)).minimize(loss)
        begin_alike, ready = hvd.broadcast_global_variables(0), hvd.barrier("ready")
        read = hvd.barrier("read")
    found: dict[str, object] = {
        "gathers": sum(op.type == "CollectiveGather" for op in tf.get_default_graph().get_operations())
    }
    with tf.Session(hvd.server().target) as sess:
        sess.run(tf.global_variables_initializer() if rank == 0 else weights.initializer)
        sess.run(ready)
        sess.run(begin_alike)
        for step in range(2):
            sess.run(train)
            found[f"step_{step}"] = [value.tolist() for value in sess.run([table, weights, shared])]
            sess.run(read)
    return found


def first_to_end() -> dict[str, object]:
    """Rank 0 ends right after its broadcast, and rank 1 begins its own only when rank 0 is gone."""
    sent = hvd.broadcast(tf.fill([50000], hvd.rank() + 3.0), 0, name="sent")
    together = hvd.barrier("together")
    gone = tf.placeholder(tf.float32, [])
    more = hvd.allreduce(gone, name="more")
    with tf.Session() as sess:
        sess.run(together)
        if hvd.rank() == 0:
            return {"last": float(sess.run(sent)[-1])}
        sys.stdin.readline()
        found: dict[str, object] = {"last": float(sess.run(sent)[-1])}
        try:
            sess.run(more, {gone: 1.0})
        except tf.errors.FailedPreconditionError as e:
            found["message"] = e.message
        return found


def unequal_steps() -> dict[str, object]:
    """Rank 0 stops after three steps, and rank 1 after five."""
    step = tf.train.get_or_create_global_step()
    weights = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    train = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.1)).minimize(tf.reduce_sum(weights), step)
    hooks = [hvd.BroadcastGlobalVariablesHook(0), tf.train.StopAtStepHook(last_step=3 + 2 * hvd.rank())]
    steps = 0
    try:
        with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
            while not sess.should_stop():
                sess.run(train)
                steps += 1
    except tf.errors.FailedPreconditionError as e:
        return {"steps": steps, "message": e.message}
    return {"steps": steps, "message": ""}


def survivors() -> dict[str, object]:
    """Steps until a member is lost, and some more with the members that are left."""
    steps = tf.get_variable("steps", [100000], initializer=tf.zeros_initializer(), use_resource=True)
    add = steps.assign_add(hvd.allreduce(tf.ones([100000]), op=hvd.Sum, name="ones"), read_value=False)
    begin_alike = hvd.broadcast_global_variables(0)
    former = hvd.rank()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(3):
            sess.run(add)
        print("ready", flush=True)
        try:
            while True:
                sess.run(add)
        except tf.errors.UnavailableError as e:
            message = e.message
        hvd.reinit()
        sess.run(begin_alike)
        before = sess.run(steps)
        for _ in range(3):
            sess.run(add)
        after = sess.run(steps)
        return {
            "former": former,
            "message": message,
            "before": float(before[0]),
            "added": (after - before).tolist()[-1],
        }


def main() -> None:
    """Joins the group, runs the program that the first argument names, prints its results; the second is its host."""
    if len(sys.argv) > 2:
        peers.host_identity = lambda: sys.argv[2]
    hvd.init()
    programs = (sums, training, gradients, monitored, estimator, mixed, first_to_end, unequal_steps, survivors)
    found = {program.__name__: program for program in programs}[sys.argv[1]]()
    print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), **found}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
