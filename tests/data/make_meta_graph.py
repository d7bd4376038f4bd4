"""Writes trained_loop.meta with a real TensorFlow 1.15: `python make_meta_graph.py`, in an environment of its own.

A loop in a conditional, a scan, and their gradients, as the MetaGraphDef of a program that trains has them.
"""

import tensorflow as tf


def main() -> None:
    """Builds the graph and writes it beside this file."""
    x = tf.placeholder(tf.float32, [], "x")
    w = tf.Variable(2.0, name="w")

    def loop() -> tf.Tensor:
        return tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * w + x), [0, x])[1]

    y = tf.identity(tf.cond(x > 1, loop, lambda: x - w), "y")
    z = tf.identity(tf.reduce_sum(tf.scan(lambda a, b: tf.tanh(a * w + b), tf.stack([x, 2 * x, 3 * x]))), "z")
    tf.identity(tf.gradients(y + z, w)[0], "gradient")
    meta_graph = tf.train.export_meta_graph(clear_devices=True)
    meta_graph.meta_info_def.Clear()
    with open(__file__.replace("make_meta_graph.py", "trained_loop.meta"), "wb") as file:
        file.write(meta_graph.SerializeToString())


if __name__ == "__main__":
    main()
