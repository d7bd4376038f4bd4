"""TensorFlow in a process of its environment: a server, or a client that runs programs. Thalweg is not there.

python tensorflow_process.py serve '{"worker": […], "ps": […]}'
python tensorflow_process.py run grpc://localhost:2222
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tensorflow_2
from master_programs import PROGRAMS, program

tf = tensorflow_2.compat.v1


@program
def tensorflow_callables(tf: Any, target: str) -> None:
    """MakeCallable, RunCallable and ReleaseCallable."""
    from tensorflow.core.protobuf import config_pb2

    x = tf.placeholder(tf.float32, [])
    y = x * 3.0
    with tf.Session(target) as sess:
        call = sess._make_callable_from_options(config_pb2.CallableOptions(feed=[x.name], fetch=[y.name]))
        assert call(2.0)[0] == 6.0
        assert call(3.0)[0] == 9.0
        del call


@program
def traced_functions_and_functional_control_flow(tf: Any, target: str) -> None:
    @tensorflow_2.function
    def square(x: Any) -> Any:
        return x * x + 1.0

    y = square(tf.constant(3.0))
    tf.enable_control_flow_v2()
    try:
        _, total = tf.while_loop(
            lambda i, _: i < 4, lambda i, t: (i + 1, tf.cond(i > 1, lambda: t * 2.0, lambda: t)), (0, 1.0)
        )
    finally:
        tf.disable_control_flow_v2()
    with tf.Session(target) as sess:
        assert sess.run([y, total]) == [10.0, 4.0]


@program
def convolutional_network(tf: Any, target: str) -> None:
    x, t = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int32, [None])
    kernel, weights = tf.get_variable("kernel", [3, 3, 1, 4]), tf.get_variable("weights", [64, 5])
    hidden = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, [1, 1, 1, 1], "SAME")), 2, 2, "SAME")
    logits = tf.matmul(tf.reshape(hidden, [-1, 64]), weights)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=t))
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    import numpy as np

    random = np.random.RandomState(0)
    feeds = {x: random.randn(16, 8, 8, 1), t: random.randint(0, 5, 16)}
    with tf.Session(target) as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(loss, feeds)
        for _ in range(60):
            sess.run(step, feeds)
        assert sess.run(loss, feeds) < 0.7 * before


def _end_with_parent(parent: int) -> None:
    """A test that is killed must leave no processes behind."""
    while os.getppid() == parent:
        threading.Event().wait(0.5)
    os._exit(1)


def main() -> None:
    """Serves until it is killed; or prints a line of JSON for each program: its name, and how it failed or null."""
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    command, given = sys.argv[1:3]
    if command == "serve":
        servers = [tf.train.Server(json.loads(given), job, 0) for job in ("worker", "ps")]
        print("ready", flush=True)
        servers[0].join()
    tf.disable_eager_execution()
    tf.disable_control_flow_v2()
    for name, run in PROGRAMS.items():
        failure = None
        try:
            with tf.Graph().as_default():
                run(tf, given)
        except Exception:
            failure = traceback.format_exc()
        print(json.dumps([name, failure]), flush=True)


if __name__ == "__main__":
    main()
