"""An autoencoder of handwritten digits: 784 pixels through a code of 32 numbers and back.

The measure is the mean squared error of a pixel of test images (pixels from 0 to 1), beside that of the best linear
code of the same size (principal components).

Measured with the sample of MNIST that the package ships and the default 5,000 steps: 0.0078, against 0.0175 of the
linear code (27 s of one core). With `--data <folder>` it trains on the full set.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import numpy as np

import thalweg as tf
from thalweg.datasets import batches, mnist, pictures


def encoder(images: tf.Tensor, size: int) -> tf.Tensor:
    x = tf.layers.dense(images, 256, activation=tf.nn.elu)
    x = tf.layers.dense(x, 128, activation=tf.nn.elu)
    return tf.layers.dense(x, size, name="code")


def decoder(code: tf.Tensor) -> tf.Tensor:
    x = tf.layers.dense(code, 128, activation=tf.nn.elu)
    x = tf.layers.dense(x, 256, activation=tf.nn.elu)
    return tf.layers.dense(x, 784, activation=tf.nn.sigmoid, name="pixels")


def linear_code_error(train_x: np.ndarray, test_x: np.ndarray, size: int) -> float:
    """The error of the principal components: the least error of a linear autoencoder."""
    mean = train_x.mean(0)
    _, vectors = np.linalg.eigh(np.cov(train_x - mean, rowvar=False))
    basis = vectors[:, -size:]
    rebuilt = (test_x - mean) @ basis @ basis.T + mean
    return float(np.mean(np.square(rebuilt - test_x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--code", type=int, default=32, help="numbers in a code")
    parser.add_argument("--picture", help="the PNG file to write: test images, and below each what came back")
    args = parser.parse_args()
    digits = mnist.load(args.data)
    train_x, test_x = mnist.as_rows(digits.train_images), mnist.as_rows(digits.test_images)

    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, 784], "images")
    rebuilt = decoder(encoder(images, args.code))
    loss = tf.losses.mean_squared_error(images, rebuilt)
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(tf.train.cosine_decay(1e-3, step, args.steps)).minimize(loss, global_step=step)

    test = tf.train.FinalOpsHook((loss, rebuilt), {images: test_x})
    hooks = [tf.train.StopAtStepHook(args.steps), tf.train.ProgressHook(loss, args.steps), test]
    stream = batches.shuffled(args.batch, train_x)
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            (x,) = next(stream)
            session.run(train, {images: x})

    error, pixels = test.final_ops_values
    linear = linear_code_error(train_x, test_x, args.code)
    print(f"Held-out error: {error:.5f} a pixel; the best linear code of {args.code} numbers has {linear:.5f}.")
    pairs = np.concatenate([test_x[:16], pixels[:16]]).reshape(-1, 28, 28)
    path = args.picture or os.path.join(tempfile.mkdtemp(prefix="thalweg-autoencoder-"), "pairs.png")
    pictures.write_png(path, pictures.tiles(pairs, columns=16))
    print(f"The picture is {path}")


if __name__ == "__main__":
    main()
