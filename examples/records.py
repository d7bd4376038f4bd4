"""Trains from TFRecord files: handwritten digits as `tf.train.Example`s, read, parsed and shuffled in the graph.

The files are written first, if they are not there yet. Nothing is fed: a queue of file names, a reader, a parser and a
shuffling queue run on threads of their own, ahead of the training step.

Measured: 94.2 to 94.8% of the 2,000 test images of the sample after the default 2,000 steps (six runs, 5.5 s each).
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable

import numpy as np

import thalweg as tf
from thalweg.datasets import mnist

FEATURES = {
    "image": tf.FixedLenFeature([], tf.string),
    "label": tf.FixedLenFeature([], tf.int64),
    "number": tf.FixedLenFeature([], tf.int64),
}


def example_of(image: np.ndarray, label: int, number: int) -> tf.train.Example:
    """A picture with its label, and its number in the data set."""
    features = {
        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image.tobytes()])),
        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
    }
    return tf.train.Example(features=tf.train.Features(feature=features))


def write_shards(folder: str, digits: mnist.Mnist, shards: int) -> list[str]:
    """Writes the training images into `shards` files, unless they are there; returns their paths."""
    os.makedirs(folder, exist_ok=True)
    paths = [os.path.join(folder, f"digits-{i:02d}-of-{shards:02d}.tfrecords") for i in range(shards)]
    for i, path in enumerate(paths):
        if tf.gfile.Exists(path):
            continue
        with tf.python_io.TFRecordWriter(path + ".unfinished") as writer:
            for number in range(i, len(digits.train_labels), shards):
                example = example_of(digits.train_images[number], int(digits.train_labels[number]), number)
                writer.write(example.SerializeToString())
        tf.gfile.Rename(path + ".unfinished", path, overwrite=True)
    return paths


def decoded(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Image (784 pixels from 0 to 1), label and number of a serialized Example."""
    parsed = tf.parse_single_example(serialized, FEATURES)
    pixels = tf.reshape(tf.decode_raw(parsed["image"], tf.uint8), [784])
    return tf.cast(pixels, tf.float32) / 255.0, parsed["label"], parsed["number"]


def input_batches(paths: Iterable[str], size: int) -> list[tf.Tensor]:
    """Images and labels of a shuffled batch; the files are read over and over."""
    names = tf.train.string_input_producer(list(paths), shuffle=True, seed=1)
    _, serialized = tf.TFRecordReader().read(names)
    image, label, _ = decoded(serialized)
    batch: list[tf.Tensor] = tf.train.shuffle_batch(
        [image, label], size, capacity=4000, min_after_dequeue=2000, num_threads=2, seed=1
    )
    return batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--records", default="/tmp/thalweg_records", help="where the TFRecord files are, or will be")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    digits = mnist.load(args.data)
    paths = write_shards(args.records, digits, shards=4)

    tf.set_random_seed(1)
    images, labels = input_batches(paths, args.batch)
    network = tf.make_template("network", lambda x: tf.layers.dense(tf.layers.dense(x, 128, tf.nn.relu), 10))
    loss = tf.losses.sparse_softmax_cross_entropy(labels, network(images))
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamOptimizer(0.001).minimize(loss, global_step=step)
    scores = network(tf.constant(mnist.as_rows(digits.test_images)))
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(scores, digits.test_labels.astype(np.int64), 1), tf.float32))

    test = tf.train.FinalOpsHook(accuracy)
    hooks = [tf.train.StopAtStepHook(args.steps), tf.train.ProgressHook(loss, args.steps), test]
    # The session starts the threads that fill the queues, and stops them in the end.
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
    print(f"Held-out accuracy: {test.final_ops_values:.2%} of {len(digits.test_labels)} images.")


if __name__ == "__main__":
    main()
