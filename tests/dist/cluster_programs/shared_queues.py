"""A queue with work on a parameter server, queues by which workers end the servers, and readers with a Coordinator."""

import json
import os
import threading

import numpy as np
import tensorflow as tf

described = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(described["cluster"])
job, index = described["task"]["type"], described["task"]["index"]
workers = cluster.num_tasks("worker")
server = tf.train.Server(cluster, job_name=job, task_index=index)


def done_queue(ps):
    with tf.device(f"/job:ps/task:{ps}"):
        return tf.FIFOQueue(workers, tf.int32, shared_name=f"done_queue{ps}")


if job == "ps":
    finished = done_queue(index).dequeue()
    with tf.Session(server.target) as session:
        for _ in range(workers):
            session.run(finished)
    print("done", flush=True)
    raise SystemExit

with tf.device("/job:ps/task:0"):
    work = tf.FIFOQueue(50, [tf.int32, tf.string], shapes=[[], []], shared_name="work")
    total = tf.Variable(0, name="total", trainable=False)
with tf.device(f"/job:worker/task:{index}"):
    number, text = work.dequeue()
    found = number + 0 * tf.strings.length(tf.strings.join([text, f"-{index}"]))
    names = tf.train.string_input_producer(["a", "b", "c"], shuffle=True, seed=index)
    batch = tf.train.shuffle_batch([tf.strings.join([names.dequeue(), "!"])], 4, 30, 8, num_threads=2)
add = tf.assign_add(total, found, use_locking=True)
numbers, texts = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.string, [None])
fill, close = work.enqueue_many([numbers, texts]), work.close()
finished = [done_queue(ps).enqueue(index) for ps in range(cluster.num_tasks("ps"))]
with tf.device("/job:ps/task:0"):
    added = tf.FIFOQueue(workers, tf.int32, shared_name="added")

with tf.Session(server.target) as session:
    if index == 0:
        session.run(total.initializer)
    while session.run(tf.report_uninitialized_variables([total])).size:
        pass
    coordinator = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coordinator)

    def feed():
        for k in range(20):
            session.run(fill, {numbers: np.arange(10) + 10 * k, texts: [f"t{i}" for i in range(10)]})
        session.run(close)

    feeder = threading.Thread(target=feed)
    if index == 0:
        feeder.start()
    try:
        while not coordinator.should_stop():
            assert len(session.run(batch)) == 4
            session.run(add)
    except tf.errors.OutOfRangeError:
        coordinator.request_stop()
    coordinator.join(threads)
    session.run(added.enqueue(index))
    if index == 0:
        feeder.join()
        session.run([added.dequeue() for _ in range(workers)])
        assert session.run(total) == sum(range(200))
    session.run(finished)
print("done", flush=True)
