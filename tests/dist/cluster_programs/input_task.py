"""Workers that take elements of one dataset, whose iterator is on a task of its own."""

import json
import os

import tensorflow as tf

described = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(described["cluster"])
job, index = described["task"]["type"], described["task"]["index"]
server = tf.train.Server(cluster, job, index)
if job != "worker":
    server.join()

with tf.device("/job:input/task:0"):
    dataset = tf.data.Dataset.range(400).map(lambda v: (v, tf.cast(v, tf.float32) * 2), num_parallel_calls=2)
    dataset = dataset.shuffle(50, seed=1).repeat(2).batch(8).prefetch(2)
    iterator = tf.compat.v1.data.make_initializable_iterator(dataset, shared_name="input")
    numbers, doubled = iterator.get_next()
with tf.device("/job:ps/task:0"):
    zeros = tf.zeros_initializer()
    total = tf.get_variable("total", [], tf.float32, zeros, trainable=False)
    seen = tf.get_variable("seen", [], tf.int64, zeros, trainable=False)
    tf.train.get_or_create_global_step()
with tf.device(f"/job:worker/task:{index}"):
    partial = tf.reduce_sum(doubled)
update = tf.group(total.assign_add(partial), seen.assign_add(tf.size(numbers, out_type=tf.int64)))

if index == 0:
    creator = tf.train.ChiefSessionCreator(tf.train.Scaffold(local_init_op=iterator.initializer), master=server.target)
else:
    creator = tf.train.WorkerSessionCreator(tf.train.Scaffold(local_init_op=tf.no_op()), master=server.target)
with tf.train.MonitoredSession(creator) as session:
    while not session.should_stop():
        try:
            session.run(update)
        except tf.errors.OutOfRangeError:
            break
        except tf.errors.FailedPreconditionError:
            assert index > 0  # The chief has not initialized the iterator yet.

with tf.device("/job:ps/task:0"):
    ended = tf.FIFOQueue(10, tf.int32, shared_name="ended")
with tf.Session(server.target) as session:
    session.run(ended.enqueue(index))
    if index == 0:
        session.run([ended.dequeue() for _ in range(cluster.num_tasks("worker"))])
        assert session.run([seen, total]) == [800, 2.0 * 2 * sum(range(400))]
print("done", flush=True)
