"""TensorFlow in a process of its environment: a server, or a client that runs programs. Thalweg is not there.

python tensorflow_process.py serve '{"worker": […], "ps": […]}'
python tensorflow_process.py run grpc://localhost:2222
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tensorflow_2
from master_programs import PROGRAMS, program

tf = tensorflow_2.compat.v1


@contextlib.contextmanager
def _control_flow_v2() -> Iterator[None]:
    """Loops and conditionals are functional ops, which keep values for gradients in lists of tensors."""
    tf.enable_control_flow_v2()
    try:
        yield
    finally:
        tf.disable_control_flow_v2()


def _same_here_and_there(tf: Any, target: str, fetches: Any, feeds: Any) -> None:
    """The cluster gives the values of TensorFlow's own session."""
    import numpy as np

    with tf.Session() as here, tf.Session(target) as there:
        for expected, found in zip(here.run(fetches, feeds), there.run(fetches, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)


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
    with _control_flow_v2():
        _, total = tf.while_loop(
            lambda i, _: i < 4, lambda i, t: (i + 1, tf.cond(i > 1, lambda: t * 2.0, lambda: t)), (0, 1.0)
        )
    with tf.Session(target) as sess:
        assert sess.run([y, total]) == [10.0, 4.0]


@program
def gradients_of_functional_loops_and_branches(tf: Any, target: str) -> None:
    """A loop in a loop with a conditional keeps lists of lists for its gradient; the second one has loops of lists."""
    x = tf.placeholder(tf.float32, [])

    def body(i: Any, y: Any) -> Any:
        _, z = tf.while_loop(lambda j, _: j < i + 1, lambda j, z: (j + 1, z * x + 1.0), (0, y))
        return i + 1, tf.cond(z > 5.0, lambda: z * 0.5, lambda: z * z)

    with _control_flow_v2():
        y = tf.while_loop(lambda i, _: i < 4, body, (0, x))[1]
        first = tf.gradients(y, x)[0]
        second = tf.gradients(tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y * y * x), (0, x))[1], x)[0]
        second = tf.gradients(second, x)[0]
    _same_here_and_there(tf, target, [y, first, second], {x: 1.3})
    assert any("TensorList" in op.type for op in tf.get_default_graph().get_operations())


@program
def dynamic_rnn_with_lists(tf: Any, target: str) -> None:
    """Training of a recurrent network whose variables are on a parameter server: its lists are on two tasks."""
    import numpy as np

    with tf.device("/job:ps/task:0"):
        weights, bias = tf.get_variable("weights", [7, 4]), tf.get_variable("bias", [4])

    class Cell:
        output_size = state_size = 4

        def zero_state(self, batch: Any, dtype: Any) -> Any:
            return tf.zeros([batch, 4], dtype)

        def __call__(self, x: Any, state: Any, scope: Any = None) -> Any:
            state = tf.tanh(tf.matmul(tf.concat([x, state], 1), weights) + bias)
            return state, state

    random = np.random.RandomState(0)
    x, lengths = tf.placeholder(tf.float32, [None, None, 3]), tf.placeholder(tf.int32, [None])
    values = [tf.placeholder(tf.float32, v.shape) for v in (weights, bias)]
    with tf.device("/job:worker/task:0"), _control_flow_v2():
        outputs, _ = tf.nn.dynamic_rnn(Cell(), x, lengths, dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(outputs - 0.5))
        grads = tf.gradients(loss, [weights, bias])
    step = tf.train.GradientDescentOptimizer(0.02).apply_gradients([(grads[0], weights), (grads[1], bias)])
    start = tf.group(weights.assign(values[0]), bias.assign(values[1]))
    feeds = {x: random.randn(6, 5, 3), lengths: [5, 3, 1, 5, 4, 0]}
    with tf.Session(target) as sess:
        sess.run(start, {values[0]: random.randn(7, 4), values[1]: random.randn(4)})
        losses = [sess.run([loss, step], feeds)[0] for _ in range(30)]
    assert losses[-1] < 0.7 * losses[0], losses


@program
def mapped_and_scanned_functions(tf: Any, target: str) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    with _control_flow_v2():
        mapped = tf.map_fn(lambda row: tf.reduce_sum(row * row) * row, x)
        scanned = tf.scan(lambda a, b: a * b + b, x)
        split = tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2])
        grad = tf.gradients([mapped, scanned, split.concat()], x)[0]
    _same_here_and_there(tf, target, [mapped, scanned, grad], {x: [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]})


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
