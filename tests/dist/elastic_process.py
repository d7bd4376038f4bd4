"""One member of an elastic training of the tests, in a process of its own; the argument names its fate.

Prints "ready" when it trains, "alone" when the other members are gone, and a line of JSON at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

import thalweg as tf
import thalweg.horovod as hvd


def build_training() -> tuple[Any, Any]:
    """Training of variables of several sizes: the op, and a variable that counts its updates."""
    own = int(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    given = tf.constant(np.random.default_rng(own).standard_normal([300, 100]).astype(np.float32))
    large = tf.get_variable("large", [300, 100], initializer=tf.random_normal_initializer(seed=own + 1))
    small = [tf.get_variable(f"small_{i}", [i + 1], initializer=tf.random_normal_initializer()) for i in range(3)]
    updates = tf.get_variable("updates", [], initializer=tf.zeros_initializer())
    loss = tf.reduce_mean(tf.square(large - given)) + tf.add_n([tf.reduce_sum(each * each) * 0.1 for each in small])
    step = tf.train.get_or_create_global_step()
    optimizer = hvd.DistributedOptimizer(tf.train.GradientDescentOptimizer(0.5), bucket_bytes=16)
    pairs = optimizer.compute_gradients(loss - 2.0 * updates, [large, *small, updates])
    return optimizer.apply_gradients(pairs, step), updates


def end_at(how: str) -> None:
    """Ends or stops this process in the way that the test asks for, in the middle of a step or between two."""
    number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[how]
    threading.Timer(0.005, os.kill, (os.getpid(), number)).start()


def monitored(config: dict[str, Any]) -> None:
    """Trains in a monitored session: so many steps, or until so many steps were made by all members after a loss."""
    size = hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="size")
    with tf.control_dependencies([size]):
        train, updates = build_training()
    step = tf.train.get_global_step()
    alone = tf.get_variable("alone", [], initializer=tf.zeros_initializer())
    together = tf.get_variable("together", [], initializer=tf.zeros_initializer())
    waits_for = config.get("wait_for", 0)
    with tf.control_dependencies([train]):
        is_alone = alone.assign_add(tf.cast(size < float(waits_for), tf.float32))
        count = together.assign_add(tf.cast(tf.logical_and(size >= float(waits_for), is_alone > 0.0), tf.float32))
    hooks = [hvd.BroadcastGlobalVariablesHook(0, elastic=config.get("elastic", True))]
    if not waits_for:
        hooks.append(tf.train.StopAtStepHook(last_step=config["steps"]))
    said_alone = False
    with tf.train.MonitoredTrainingSession(hooks=hooks) as sess:
        print("ready", flush=True)
        while not sess.should_stop():
            _, done, members, since = sess.run([train, step, size, count])
            if config.get("how") and done == config["at"]:
                end_at(config["how"])
            if config.get("how") and done == config["at"] + 10:
                time.sleep(3 if config["how"] == "stop" else 60)  # The signal comes now at the latest.
            if waits_for and since >= config["steps"]:
                break
            if waits_for and members < waits_for:
                if not said_alone:
                    print("alone", flush=True)
                said_alone = True
                time.sleep(0.02)
        last = sess.run_step_fn(lambda step_context: step_context.session.run([step, updates, *tf.global_variables()]))
    tell(last)


def by_state(config: dict[str, Any]) -> None:
    """Trains with a state that is committed every five steps."""
    train, updates = build_training()
    step = tf.train.get_global_step()

    @hvd.elastic.run
    def train_all(state: Any) -> None:
        while state.batch < config["steps"]:
            state.session.run(train)
            state.batch += 1
            if state.batch % 5 == 0:
                state.commit()
            if config.get("how") and state.batch == config["at"] + 2:
                end_at(config["how"])
                time.sleep(60)

    with tf.Session() as sess:
        state = hvd.elastic.TensorFlowState(session=sess, batch=0)
        resets: list[int] = []
        state.register_reset_callbacks([lambda: resets.append(hvd.size())])
        sess.run(tf.global_variables_initializer())
        train_all(state)
        assert resets
        tell(sess.run([step, updates, *tf.global_variables()]))


def tell(values: list[Any]) -> None:
    """Prints the result."""
    digest = hashlib.sha256(b"".join(np.asarray(each).tobytes() for each in values)).hexdigest()
    print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), "step": int(values[0]), "updates": float(values[1]),
                      "digest": digest}), flush=True)  # fmt: skip


def main() -> None:
    """Trains, and tells the results."""
    config = json.loads(sys.argv[1])
    hvd.init()
    {"monitored": monitored, "by_state": by_state}[config["program"]](config)
    hvd.shutdown()


if __name__ == "__main__":
    main()
