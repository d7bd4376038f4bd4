"""Trains a convolutional network of the papers (examples/models) on digits or on random images, and shows its speed.

python examples/train_convnet.py --model resnet_50 --batch 8 --steps 5
python examples/train_convnet.py --model alexnet --images mnist --size 64 --classes 10 --batch 32 --steps 600

The second, with the full MNIST (`--data <folder>`), begins to learn after 150 steps and is right for 94.7% of the
images of its last 60 steps, after two minutes of one core.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Iterator

import models
import numpy as np

import thalweg as tf
from thalweg.datasets import mnist


def synthetic(batch: int, size: int, classes: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The same random images and labels again and again: the loss falls as they are learnt by heart."""
    rng = np.random.default_rng(1)
    images = rng.standard_normal((batch, size, size, 3), dtype=np.float32)
    labels = rng.integers(0, classes, batch)
    while True:
        yield images, labels


def digits(batch: int, folder: str | None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Handwritten digits, 28 x 28 with one channel: the graph makes them larger."""
    data = mnist.load(folder)
    rng = np.random.default_rng(1)
    while True:
        chosen = rng.integers(0, len(data.train_labels), batch)
        yield data.train_images[chosen, :, :, np.newaxis] / np.float32(255.0), data.train_labels[chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=models.NAMES, default="resnet_50")
    parser.add_argument("--images", choices=("synthetic", "mnist"), default="synthetic")
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, help="height and width of the images; those of the paper by default")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.01, help="the learning rate")
    args = parser.parse_args()
    model = importlib.import_module(f"models.{args.model}")
    size = args.size or model.IMAGE_SIZE

    tf.set_random_seed(1)
    labels = tf.placeholder(tf.int32, [args.batch], "labels")
    if args.images == "mnist":
        stream = digits(args.batch, args.data)
        images = tf.placeholder(tf.float32, [args.batch, 28, 28, 1], "images")
        pictures = tf.tile(tf.image.resize_bilinear(images, [size, size]), [1, 1, 1, 3])
    else:
        stream = synthetic(args.batch, size, args.classes)
        images = pictures = tf.placeholder(tf.float32, [args.batch, size, size, 3], "images")
    logits = model.logits(pictures, args.classes, training=True)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):  # The averages of batch normalization.
        train = tf.train.MomentumOptimizer(args.rate, 0.9).minimize(loss, tf.train.get_or_create_global_step())
    parameters = sum(math.prod(variable.shape.as_list()) for variable in tf.trainable_variables())
    print(f"{args.model}: {parameters:,} parameters, images of {size} x {size}, batches of {args.batch}.")

    hooks = [tf.train.StopAtStepHook(args.steps), tf.train.ProgressHook(loss, args.steps), tf.train.NanTensorHook(loss)]
    results, seconds = [], []
    with tf.train.MonitoredSession(hooks=hooks) as session:
        while not session.should_stop():
            pixels, answers = next(stream)
            begin = time.perf_counter()
            results.append(session.run([loss, accuracy, train], {images: pixels, labels: answers})[:2])
            seconds.append(time.perf_counter() - begin)
    # The first step prepares the kernels: it does not count, unless it is the only one.
    print(f"{args.batch / np.median(seconds[1:] or seconds):.1f} images per second.")
    last = np.mean(results[-max(1, len(results) // 10) :], axis=0)
    print(f"Loss: {results[0][0]:.3f} at first, {last[0]:.3f} at last. Training accuracy: {last[1]:.1%}.")


if __name__ == "__main__":
    main()
