"""Recurrent networks and what TensorFlow computes for them, outputs and gradients.

The networks are functions of the module (`thalweg` or TensorFlow) and the input. With a Python that has TensorFlow and
tf_keras: `TF_USE_LEGACY_KERAS=1 python -m tests.data.make_rnn_values` writes rnn_values.npz anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

VALUES = Path(__file__).with_name("rnn_values.npz")
LENGTHS = [2, 6, 0]
Network = Callable[[Any, Any], Any]

CELLS: dict[str, Callable[[Any], Any]] = {
    "rnn": lambda c: c.BasicRNNCell(5),
    "gru": lambda c: c.GRUCell(5),
    "basic_lstm": lambda c: c.BasicLSTMCell(5),
    "basic_lstm_one_tensor": lambda c: c.BasicLSTMCell(5, state_is_tuple=False, forget_bias=0.5),
    "lstm": lambda c: c.LSTMCell(5),
    "lstm_peepholes": lambda c: c.LSTMCell(5, use_peepholes=True, num_proj=3, cell_clip=0.3, proj_clip=0.2),
    "lstm_shards": lambda c: c.LSTMCell(6, num_proj=4, num_unit_shards=2, num_proj_shards=3, state_is_tuple=False),
    "multi": lambda c: c.MultiRNNCell([c.GRUCell(5), c.LSTMCell(3)]),
    "multi_one_tensor": lambda c: c.MultiRNNCell([c.GRUCell(5), c.GRUCell(3)], state_is_tuple=False),
    "residual": lambda c: c.ResidualWrapper(c.GRUCell(4)),
    "device": lambda c: c.DeviceWrapper(c.GRUCell(4), "/cpu:0"),
}


def _dynamic(cell: Any, **options: Any) -> Network:
    return lambda tf, x: tf.nn.dynamic_rnn(cell(tf.nn.rnn_cell), x, dtype=tf.float32, **options)


def _static(cell: Any, **options: Any) -> Network:
    return lambda tf, x: tf.nn.static_rnn(cell(tf.nn.rnn_cell), tf.unstack(x, axis=1), dtype=tf.float32, **options)


def _both_ways(function: str, **options: Any) -> Network:
    def build(tf: Any, x: Any) -> Any:
        c = tf.nn.rnn_cell
        inputs = x if "dynamic" in function else tf.unstack(x, axis=1)
        return getattr(tf.nn, function)(c.GRUCell(5), c.BasicLSTMCell(3), inputs, dtype=tf.float32, **options)

    return build


def _raw(tf: Any, x: Any) -> Any:
    cell = tf.nn.rnn_cell.LSTMCell(5)
    steps = tf.TensorArray(tf.float32, size=6).unstack(tf.transpose(x, [1, 0, 2]))
    lengths = tf.constant([2, 6, 1])

    def loop_fn(time: Any, output: Any, state: Any, _: Any) -> Any:
        state = cell.zero_state(3, tf.float32) if output is None else state
        finished = time >= lengths
        following = tf.cond(tf.reduce_all(finished), lambda: tf.zeros([3, 4]), lambda: steps.read(time))
        return finished, following, state, output, None

    outputs, state, _ = tf.nn.raw_rnn(cell, loop_fn)
    return outputs.stack(), state


def _dropout(**options: Any) -> Network:
    def build(tf: Any, x: Any) -> Any:
        if options.get("variational_recurrent"):
            options["dtype"] = tf.float32
        cell = tf.nn.rnn_cell.DropoutWrapper(
            tf.nn.rnn_cell.LSTMCell(5), 0.6, output_keep_prob=0.5, state_keep_prob=0.7, seed=7, **options
        )
        return tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)

    return build


NETWORKS: dict[str, Network] = {
    **{f"dynamic_{name}": _dynamic(cell) for name, cell in CELLS.items()},
    **{f"dynamic_lengths_{name}": _dynamic(cell, sequence_length=LENGTHS) for name, cell in CELLS.items()},
    **{f"static_{name}": _static(cell) for name, cell in CELLS.items() if name in ("gru", "basic_lstm", "multi")},
    "static_lengths_lstm": _static(CELLS["lstm"], sequence_length=LENGTHS),
    "dynamic_early_end_lstm": _dynamic(CELLS["lstm"], sequence_length=[3, 2, 1]),
    "dynamic_time_major_gru": _dynamic(CELLS["gru"], time_major=True),
    "bidirectional_dynamic": _both_ways("bidirectional_dynamic_rnn"),
    "bidirectional_dynamic_lengths": _both_ways("bidirectional_dynamic_rnn", sequence_length=LENGTHS),
    "bidirectional_static": _both_ways("static_bidirectional_rnn"),
    "bidirectional_static_lengths": _both_ways("static_bidirectional_rnn", sequence_length=LENGTHS),
    "raw": _raw,
    "dropout": _dropout(),
    "dropout_variational": _dropout(variational_recurrent=True, input_size=4),
}


def evaluate(tf: Any, network: Network, shape: Any = (3, 6, 4)) -> tuple[list[str], np.ndarray]:
    """The names of the variables, and one vector of all outputs and all gradients of the sum of their squares."""
    tf.reset_default_graph()
    tf.set_random_seed(1)
    x = tf.constant(np.random.RandomState(0).randn(*shape).astype(np.float32))
    with tf.variable_scope("m", initializer=tf.glorot_uniform_initializer(seed=3)):
        outputs = tf.nest.flatten(network(tf, x))
    loss = tf.add_n([tf.reduce_sum(tf.square(output)) for output in outputs])
    variables = tf.trainable_variables()
    gradients = tf.gradients(loss, [*variables, x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        values = session.run([*outputs, *gradients])
    return [v.name for v in variables], np.concatenate([np.ravel(value) for value in values])


def write(path: Path, networks: dict[str, Network], shape: Any) -> None:
    """Evaluates networks in TensorFlow."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    arrays = {}
    for name, network in networks.items():
        names, values = evaluate(tf, network, shape)
        arrays[name] = values
        arrays[name + ":names"] = np.array(names)
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    write(VALUES, NETWORKS, (3, 6, 4))
