"""Trains a multilayer perceptron on handwritten digits: graph, gradients, a hand-made optimizer, a session.

Run it with `make demo`, or `python examples/mnist_mlp.py --epochs 30`. It needs no download: the package ships a
sample of MNIST. With `--data <folder>` it trains on the full set.
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import thalweg as tf
from thalweg.datasets import mnist


def model(images: tf.Tensor) -> tf.Tensor:
    """784 - 256 - 256 - 10, with rectified linear units."""
    x = images
    for i, (fan_in, fan_out) in enumerate([(784, 256), (256, 256), (256, 10)]):
        with tf.variable_scope(f"layer{i}"):
            stddev = (2.0 / fan_in) ** 0.5
            w = tf.get_variable("w", [fan_in, fan_out], initializer=tf.truncated_normal_initializer(stddev=stddev))
            b = tf.get_variable("b", [fan_out], initializer=tf.zeros_initializer())
        x = tf.matmul(x, w) + b
        if fan_out != 10:
            x = tf.nn.relu(x)
    return x


def momentum(loss: tf.Tensor, rate: float, decay: float = 0.9) -> tf.Operation:
    """Gradient descent with momentum, in user code: what an optimizer is."""
    updates = []
    variables = tf.trainable_variables()
    for variable, gradient in zip(variables, tf.gradients(loss, variables), strict=True):
        velocity = tf.Variable(tf.zeros(variable.shape), trainable=False, name=variable.op.name + "/velocity")
        faster = velocity.assign(decay * velocity + gradient)
        updates.append(variable.assign_sub(rate * faster))
    return tf.group(*updates)


def progress(done: int, total: int, started: float, text: str) -> None:
    """One line that is drawn over and over; nothing fancy where the output is not a terminal."""
    if not sys.stdout.isatty() and done != total:
        return
    filled = 30 * done // total
    left = (time.time() - started) / done * (total - done)
    bar = "#" * filled + "-" * (30 - filled)
    print(f"\r[{bar}] {done}/{total} steps  {text}  {left:4.1f} s left", end="" if done < total else "\n", flush=True)


def main() -> float:
    """Trains, and returns the accuracy on images that the model has not seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=None, help="stop after so many steps")
    args = parser.parse_args()

    digits = mnist.load(args.data)
    train_x = digits.train_images.reshape(-1, 784).astype(np.float32) / 255.0
    test_x = digits.test_images.reshape(-1, 784).astype(np.float32) / 255.0
    train_y, test_y = digits.train_labels.astype(np.int64), digits.test_labels.astype(np.int64)
    print(f"{len(train_x)} images to train on, {len(test_x)} held out. Building the graph.")

    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, 784], "images")
    labels = tf.placeholder(tf.int64, [None], "labels")
    logits = model(images)
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), labels), tf.float32))
    train = momentum(loss, rate=0.02)
    rng = np.random.default_rng(1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        steps = args.steps or args.epochs * (len(train_x) // args.batch)
        started = time.time()
        for step in range(1, steps + 1):
            batch = rng.integers(0, len(train_x), args.batch)
            value, _ = session.run([loss, train], {images: train_x[batch], labels: train_y[batch]})
            if step % 10 == 0 or step == steps:
                progress(step, steps, started, f"loss {value:.3f}")
        held_out = float(session.run(accuracy, {images: test_x, labels: test_y}))
        seconds = time.time() - started
    print(f"{steps} steps in {seconds:.1f} s ({seconds / steps * 1e6:.0f} us a step).")
    print(f"Held-out accuracy: {held_out:.1%} of {len(test_x)} images.")
    print("Next: read examples/mnist_mlp.py (this program), docs/tiny.py (the idea in 200 lines) and docs/journey.md")
    print("(what happens inside session.run).")
    return held_out


if __name__ == "__main__":
    main()
