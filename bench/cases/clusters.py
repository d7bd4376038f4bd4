"""Training steps over parameter servers, all processes on this host: the worker that is measured is the bench worker.

A null training step does what every step does besides computing: it reads parameters from the PS tasks, and sends them
updates. Each framework runs its own servers (`tf.train.Server`), and the same program.
"""

import json
import mmap
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from case import Case

ORDER = 60
ROWS, WIDTH = 1 << 22, 64  # a table of 1 GB


def start_server(tf, cluster, job, index, threads=1):
    """A task of this process. One thread for each, unless told otherwise: the tasks share the machine's cores."""
    config = tf.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=2)
    return tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index, config=config)


def _on(task):
    return f"/job:ps/task:{task}"


def _session(tf, cluster, index, train, variables):
    """A function that runs one step, on a server of this process."""
    server = start_server(tf, cluster, "worker", index)
    sess = tf.Session(server.target)
    if index == 0:
        sess.run(tf.variables_initializer(variables))
    else:
        while sess.run(tf.report_uninitialized_variables(variables)).size:
            pass
    run = sess.make_callable(train)

    def step():
        run()

    step.keep = (server, sess)
    return step


def scalar(tf, cluster, index):
    """One number on each PS task, read, and added to."""
    with tf.Graph().as_default():
        variables, updates = [], []
        for task in range(len(cluster["ps"])):
            with tf.device(_on(task)):
                variables.append(tf.Variable(0.0, name=f"v{task}", use_resource=True))
            with tf.device(f"/job:worker/task:{index}"):
                update = tf.multiply(variables[-1].read_value(), 0.5)
            with tf.device(_on(task)):
                updates.append(variables[-1].assign_add(update, read_value=False))
        return _session(tf, cluster, index, tf.group(*updates), variables)


def sparse(tf, cluster, index):
    """32 rows of a table of 1 GB that is spread over the PS tasks."""
    count = len(cluster["ps"])
    with tf.Graph().as_default():
        variables, updates = [], []
        ids = np.arange(32 // count, dtype=np.int64) * 997
        for task in range(count):
            with tf.device(_on(task)):
                table = tf.Variable(lambda: tf.zeros([ROWS // count, WIDTH]), name=f"v{task}", use_resource=True)
                rows = tf.gather(table, ids)
                variables.append(table)
            with tf.device(f"/job:worker/task:{index}"):
                update = tf.multiply(rows, 0.5)
            with tf.device(_on(task)):
                updates.append(tf.scatter_add(table, ids, update) if hasattr(tf, "scatter_add") else None)
        return _session(tf, cluster, index, tf.group(*updates), variables)


def _dense(megabytes):
    def dense(tf, cluster, index):
        count = len(cluster["ps"])
        with tf.Graph().as_default():
            variables, updates = [], []
            for task in range(count):
                with tf.device(_on(task)):
                    size = megabytes * (1 << 18) // count
                    variables.append(tf.Variable(lambda n=size: tf.zeros([n]), name=f"v{task}", use_resource=True))
                with tf.device(f"/job:worker/task:{index}"):
                    update = tf.negative(variables[-1].read_value())
                with tf.device(_on(task)):
                    updates.append(variables[-1].assign_add(update, read_value=False))
            return _session(tf, cluster, index, tf.group(*updates), variables)

    dense.__doc__ = f"{megabytes} MB of parameters, read whole and updated whole."
    return dense


def synchronous(tf, cluster, index):
    """One number, trained synchronously by all workers: accumulators and tokens on the PS."""
    count = len(cluster["worker"])
    with tf.Graph().as_default():
        with tf.device(tf.train.replica_device_setter(
            worker_device=f"/job:worker/task:{index}", cluster=tf.train.ClusterSpec(cluster))):  # fmt: skip
            value = tf.Variable(1.0, name="value", use_resource=False)
            global_step = tf.train.get_or_create_global_step()
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(0.0), replicas_to_aggregate=count, total_num_replicas=count
            )
            train = optimizer.minimize(tf.square(value), global_step=global_step)
        hook = optimizer.make_session_run_hook(index == 0, num_tokens=0)
        server = start_server(tf, cluster, "worker", index)
        sess = tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=index == 0, hooks=[hook], log_step_count_steps=None
        )

    def step():
        sess.run(train)

    step.keep = (server, sess)
    return step


PROGRAMS = {
    "scalar": scalar,
    "sparse": sparse,
    "dense_100": _dense(100),
    "dense_1000": _dense(1000),
    "synchronous": synchronous,
}


class Others:
    """The other processes of a case: PS tasks, and all workers but the first, if there is a program for them."""

    def __init__(self, framework, program, num_ps, num_workers):
        ports = free_ports(num_ps + num_workers)
        addresses = [f"localhost:{port}" for port in ports]
        self.cluster = {"ps": addresses[:num_ps], "worker": addresses[num_ps:]}
        self._processes = [self._start(framework, "ps", task) for task in range(num_ps)]
        for process in self._processes:
            process.stdout.readline()
        further = range(1, num_workers) if program else ()
        file, self._counted = tempfile.mkstemp()
        os.truncate(file, 8)
        os.close(file)
        self.count = step_count(self._counted)
        self._others = [self._start(framework, "worker", task, program, self._counted) for task in further]

    def _start(self, framework, job, index, *program):
        command = [sys.executable, str(Path(__file__).parents[1] / "task_process.py"), framework,
                   json.dumps(self.cluster), job, str(index), *program]  # fmt: skip
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=os.environ)

    def wait_for_workers(self):
        for process in self._others:
            process.stdout.readline()

    def end(self):
        """Kills the processes, if they run."""
        for process in (*self._processes, *self._others):
            process.kill()
            process.wait()
            process.stdout.close()
        self._processes = self._others = ()
        os.unlink(self._counted)


class ClusterStep:
    """A step with the other processes of its cluster, which run until `end`.

    TensorFlow's sessions may wait for ever for peers that are gone: the worker ends without closing them.
    """

    def __init__(self, others, run):
        self._others, self._run = others, run

    def __call__(self):
        return self._run()

    def end(self):
        """Ends the other processes."""
        self._others.end()


def step_count(path):
    """The steps that the worker of the benchmark has run, in memory that it shares with the other workers."""
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


def free_ports(count):
    """Ports of this host that nobody listens at."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _builder(program, num_ps, num_workers=1):
    def build(tf, setting):
        framework = "thalweg" if tf.__name__.startswith("thalweg") else "tensorflow"
        others = Others(framework, program, num_ps, num_workers)
        others.count[0] += 1
        run = PROGRAMS[program](tf, others.cluster, 0)
        if program != "synchronous":
            others.wait_for_workers()

        def step():
            others.count[0] += 1
            run()

        return ClusterStep(others, step)

    return build


def _case(about, program, num_ps, num_workers=1, times=10.0):
    return Case(about, graph=_builder(program, num_ps, num_workers), targets={"tensorflow": times}, ends_workers=True)


CASES = {
    "ps_scalar": _case("null training step, 2 PS, a number on each", "scalar", 2, times=20.0),
    "ps_sparse": _case("null training step, 2 PS, 32 rows of a table of 1 GB", "sparse", 2, times=20.0),
    "ps_scalar_8": _case("null training step, 8 PS, a number on each", "scalar", 8),
    "ps_sparse_8": _case("null training step, 8 PS, 32 rows of a table of 1 GB", "sparse", 8),
    "ps_workers_4": _case("null training step, 2 PS, with 4 workers at once", "scalar", 2, 4),
    "ps_dense_100": _case("null training step, 2 PS, 100 MB of parameters", "dense_100", 2),
    "ps_dense_1000": _case("null training step, 2 PS, 1 GB of parameters", "dense_1000", 2),
    "ps_sync_2": _case("synchronous step of a number, 2 workers", "synchronous", 1, 2),
    "ps_sync_4": _case("synchronous step of a number, 4 workers", "synchronous", 1, 4),
    "ps_sync_8": _case("synchronous step of a number, 8 workers", "synchronous", 1, 8),
}
