"""Containers and their reset, several masters, device filters, timeouts, traces and partial runs."""

import json
import os

import tensorflow as tf
from tensorflow.python.client import timeline

described = json.loads(os.environ["TF_CONFIG"])
cluster = tf.train.ClusterSpec(described["cluster"])
job, index = described["task"]["type"], described["task"]["index"]
jobs = {name: cluster.job_tasks(name) for name in ("ps", "worker")}
server = tf.train.Server(jobs, job_name=job, task_index=index, protocol="grpc")
if (job, index) != ("worker", 0):
    server.join()
target = "grpc://" + cluster.task_address("worker", 1)

with tf.container("first"), tf.device("/job:ps/task:0"):
    v = tf.Variable([1.0, 2.0], name="v")
with tf.container("second"), tf.device("/job:ps/task:1"):
    u = tf.Variable(5, name="u")
    queue = tf.FIFOQueue(10, tf.float32, shared_name="queue")
with tf.device("/job:worker/task:1"):
    doubled = v * 2.0
a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
total = a + b
product = total * a

with tf.Session(target) as session:
    tasks = {device.name.rpartition("/")[0] for device in session.list_devices()}
    assert tasks == {f"/job:{job}/replica:0/task:{i}" for job in jobs for i in range(2)}, tasks
    session.run(tf.global_variables_initializer())
    session.run(queue.enqueue(1.5))
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE, timeout_in_ms=60000)
    metadata = tf.RunMetadata()
    assert list(session.run(doubled, options=options, run_metadata=metadata)) == [2, 4]
    assert len(metadata.step_stats.dev_stats) >= 2
    assert "worker" in timeline.Timeline(metadata.step_stats).generate_chrome_trace_format()
    handle = session.partial_run_setup([total, product], [a, b])
    assert session.partial_run(handle, total, {a: 1.0, b: 2.0}) == 3
    assert session.partial_run(handle, product) == 3
    try:
        session.run([queue.dequeue(), queue.dequeue()], options=tf.RunOptions(timeout_in_ms=500))
        raise SystemExit("a step that waits did not time out")
    except tf.errors.DeadlineExceededError:
        pass
with tf.Session(server.target) as session:  # Another master.
    assert session.run(u) == 5
    session.run(u.assign(7))
    assert list(session.run(v)) == [1, 2]
tf.Session.reset(target, ["first"])
with tf.Session(target) as session:
    assert session.run(u) == 7
    try:
        session.run(v)
        raise SystemExit("a variable has outlived the reset of its container")
    except tf.errors.FailedPreconditionError:
        pass
filters = tf.ConfigProto(device_filters=["/job:ps/task:0", "/job:worker/task:1"])
with tf.Session(target, config=filters) as session:
    assert not any("ps/replica:0/task:1" in device.name for device in session.list_devices())
    try:
        session.run(u)
        raise SystemExit("a task was used that the filters leave out")
    except tf.errors.InvalidArgumentError:
        pass
print("done", flush=True)
