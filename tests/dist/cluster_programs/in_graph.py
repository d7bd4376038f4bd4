"""In-graph replication: the first worker builds a tower for each worker, and starts again from checkpoints."""

import json
import os
import sys

import tensorflow as tf

described = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(described["cluster"])
job, index = described["task"]["type"], described["task"]["index"]
folder = sys.argv[1]
server = tf.train.Server(cluster, job_name=job, task_index=index)
if (job, index) != ("worker", 0):
    server.join()

with tf.device("/job:ps/task:0"):
    w = tf.Variable(tf.zeros([5, 1]), name="w")
    b = tf.Variable(0.0, name="b")
    step = tf.Variable(0, trainable=False, name="step")
optimizer = tf.train.MomentumOptimizer(0.05, 0.9)
towers, losses = [], []
for i in range(cluster.num_tasks("worker")):
    with tf.device(f"/job:worker/task:{i}"), tf.name_scope(f"tower_{i}"):
        x = tf.random_normal([64, 5], seed=i)
        y = tf.reduce_sum(x, 1, keepdims=True) + 3.0
        losses.append(tf.losses.mean_squared_error(y, tf.matmul(x, w) + b))
        towers.append(optimizer.compute_gradients(losses[-1], [w, b]))
means = [
    (tf.add_n([gradient for gradient, _ in pairs]) / len(towers), pairs[0][1]) for pairs in zip(*towers, strict=True)
]
train = optimizer.apply_gradients(means, step)
saver = tf.train.Saver(sharded=True)

at = 0
while at < 200:
    try:
        with tf.Session(server.target) as session:
            found = tf.train.latest_checkpoint(folder)
            if found:
                saver.restore(session, found)
            else:
                session.run(tf.global_variables_initializer())
            at = 0  # After a loss, the step may be an earlier one.
            while at < 200:
                session.run([train, *losses])
                at = session.run(step)
                if at % 20 == 0:
                    saver.save(session, os.path.join(folder, "model"), global_step=at)
                    print("step", at, flush=True)
            assert abs(session.run(b) - 3.0) < 0.1
    except (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.FailedPreconditionError) as e:
        print("again after", type(e).__name__, flush=True)
print("done", flush=True)
