"""The training programs of the fault tests: one task of a cluster, as a parameter server or as a worker that trains.

`python -m tests.dist.training '{"cluster": …, "job": "worker", "index": 0, "mode": "sync", …}'`. A worker appends one
JSON object per event to its history file: its starts, the steps that it saw, and at the end the model.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np

import thalweg as tf
from tests.dist.task_process import start_server

# Batches of the synchronous model: by worker and step, so that a worker that repeats a step repeats its gradient.
_BATCHES = 16


def batches(workers: int) -> tuple[Any, Any]:
    """The inputs and labels of all workers: [worker, step, row, …]."""
    random = np.random.RandomState(7)
    x = random.randn(workers, _BATCHES, 4, 3).astype(np.float32)
    return x, random.randn(workers, _BATCHES, 4).astype(np.float32)


def model(workers: int, worker: int, step: Any) -> tuple[Any, list[Any]]:
    """The loss of a worker in a step, and the variables: on different tasks, if the device function says so."""
    x, y = (tf.constant(each[worker])[tf.cast(step % _BATCHES, tf.int32)] for each in batches(workers))
    w = tf.get_variable("w", [3], initializer=tf.ones_initializer())
    b = tf.get_variable("b", [], initializer=tf.zeros_initializer())
    # With a learning rate of 0.05 it counts the updates.
    count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
    return tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) + b - y)) - 20.0 * count, [w, b, count]


def in_one_process(workers: int, steps: int) -> list[Any]:
    """The variables of the synchronous model after some steps of a process that averages all batches itself."""
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        variables: list[Any] = []
        optimizer = tf.train.GradientDescentOptimizer(0.05)
        totals: list[Any] = []
        for worker in range(workers):
            with tf.variable_scope("", reuse=worker > 0):
                loss, variables = model(workers, worker, step.value())
            found = [grad for grad, _ in optimizer.compute_gradients(loss, variables)]
            totals = found if worker == 0 else [total + grad for total, grad in zip(totals, found, strict=True)]
        means = [total / np.float32(workers) for total in totals]
        train = optimizer.apply_gradients(list(zip(means, variables, strict=True)), step)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(steps):
                session.run(train)
            return [np.asarray(value) for value in session.run(variables)]


class _Beginnings(tf.train.SessionRunHook):
    """Notes where each session begins."""

    def __init__(self, note: Any) -> None:
        self._note = note

    def begin(self) -> None:
        self._step = tf.train.get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        self._note(event="session", step=int(session.run(self._step)))


class _Acknowledged(tf.train.CheckpointSaverListener):
    """Notes which checkpoints are begun and acknowledged. The one of the last step may be given a pause."""

    def __init__(self, note: Any, last: int, pause: float) -> None:
        self._note, self._last, self._pause = note, last, pause

    def before_save(self, session: Any, global_step_value: int) -> None:
        self._note(event="saves", step=int(global_step_value))
        if global_step_value >= self._last:
            time.sleep(self._pause)

    def after_save(self, session: Any, global_step_value: int) -> None:
        self._note(event="saved", step=int(global_step_value))


class Worker:
    """One worker's graph and loop."""

    def __init__(self, given: dict[str, Any], target: str) -> None:
        self.given = given
        self.index, self.workers = given["index"], len(given["cluster"]["worker"])
        self.is_chief = self.index == 0
        self.target = target
        self.last = given["steps"]
        self.history = open(given["history"], "a", buffering=1)  # noqa: SIM115

    def note(self, **event: Any) -> None:
        self.history.write(json.dumps({"time": time.time(), "pid": os.getpid(), **event}) + "\n")

    def build(self) -> tuple[Any, list[Any], list[Any]]:
        """The train op, the variables, the hooks."""
        setter = tf.train.replica_device_setter(
            ps_tasks=len(self.given["cluster"]["ps"]), worker_device=f"/job:worker/task:{self.index}"
        )
        with tf.device(setter):
            step = tf.train.get_or_create_global_step()
            if self.given["mode"] in ("async", "consistent"):
                train, variables = self.build_counters(step)
                return train, variables, [tf.train.StopAtStepHook(last_step=self.last)]
            inner: Any = tf.train.GradientDescentOptimizer(0.05)
            if self.given["mode"] == "backup":  # Updates do not wait for the chief, which may be saving.
                inner = tf.train.GatedOptimizer(inner, 1, 0 if self.is_chief else None)
            aggregate = self.workers - (self.given["mode"] == "backup")
            optimizer = tf.train.SyncReplicasOptimizer(inner, aggregate, self.workers, worker_index=self.index)
            loss, variables = model(self.workers, self.index, step.value())
            train = optimizer.minimize(loss, global_step=step)
        hooks = [optimizer.make_session_run_hook(self.is_chief), tf.train.StopAtStepHook(last_step=self.last)]
        return train, variables, hooks

    def build_counters(self, step: Any) -> tuple[Any, list[Any]]:
        """Asynchronous training of two variables on different tasks, to which each step adds one."""
        variables = [tf.get_variable(n, [8], tf.float64, tf.zeros_initializer()) for n in ("b", "c")]
        optimizer: Any = tf.train.GradientDescentOptimizer(1.0)
        if self.given["mode"] == "consistent":
            optimizer = tf.train.GatedOptimizer(optimizer, self.workers, self.index, last_step=self.last)
            loss = -tf.add_n([tf.reduce_sum(variable) for variable in variables])
            return optimizer.minimize(loss, global_step=step), variables
        # A step claims its number first: training ends at the exact count, however many workers there are.
        with tf.control_dependencies([tf.count_up_to(step, self.last)]):
            loss = -tf.add_n([tf.reduce_sum(variable.read_value()) for variable in variables])
            return tf.group(optimizer.minimize(loss)), variables

    def run(self) -> None:
        """Trains to the end."""
        train, variables, hooks = self.build()
        step = tf.train.get_global_step()
        self.note(event="start")
        consistent = self.given["mode"] in ("backup", "consistent")
        scaffold = tf.train.Scaffold(saver=tf.train.Saver(sharded=True, max_to_keep=3, consistent=consistent))
        saving = tf.train.CheckpointSaverHook(
            self.given["directory"], save_steps=self.given["save_steps"], scaffold=scaffold,
            listeners=[_Acknowledged(self.note, self.last, self.given.get("last_pause", 0.0))], save_graph_def=False,
        )  # fmt: skip
        with tf.train.MonitoredTrainingSession(
            self.target, self.is_chief, self.given["directory"], scaffold, [_Beginnings(self.note), *hooks], [saving],
            save_checkpoint_secs=None, save_summaries_steps=None, log_step_count_steps=None, stop_grace_period_secs=5,
        ) as session:  # fmt: skip
            while not session.should_stop():
                _, seen = session.run([train, step])
                self.note(event="step", step=int(seen))
                if self.given.get("pause"):
                    time.sleep(self.given["pause"])
        self.note(event="end")
        if self.is_chief:
            # Parameter servers may have been lost by now.
            found = tf.train.load_checkpoint(self.given["directory"])
            self.report(*([found.get_tensor(each.op.name) for each in group] for group in (variables, [step])))

    def run_supervised(self) -> None:
        """The same with a Supervisor."""
        train, variables, _ = self.build()
        step = tf.train.get_global_step()
        supervisor = tf.train.Supervisor(
            is_chief=self.is_chief, logdir=self.given["directory"], save_model_secs=0.2, save_summaries_secs=0
        )

        def one_step(session: Any) -> None:
            _, seen = session.run([train, step])
            self.note(event="step", step=int(seen))
            time.sleep(self.given["pause"])

        tf.train.basic_train_loop(supervisor, one_step, master=self.target)
        if self.is_chief:
            with tf.Session(self.target) as session:
                self.report(*session.run([variables, [step]]))

    def report(self, values: list[Any], step: list[Any]) -> None:
        """Notes the final model."""
        self.note(event="model", step=int(step[0]), values=[np.asarray(value).tobytes().hex() for value in values])


def main() -> None:
    """Runs the task that the first argument describes."""
    given = json.loads(sys.argv[1])
    tf.logging.set_verbosity(tf.logging.INFO)
    server = start_server(given)
    if given["job"] == "ps":
        server.join()
    worker = Worker(given, server.target)
    worker.run_supervised() if given.get("supervised") else worker.run()


if __name__ == "__main__":
    main()
