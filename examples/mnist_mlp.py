"""A multilayer perceptron on handwritten digits: 784 - 256 - 256 - 10, with dropout.

It needs no download: the package ships a sample of MNIST. With `--data <folder>` it trains on the full set.

Measured: 98.44% of the 10,000 test images after `--data <folder> --steps 15000` (31 s of one core); 96.6% of the 2,000
of the sample after the default 3,000 steps (9 s of one core).
"""

from __future__ import annotations

import argparse

import thalweg as tf
from thalweg.datasets import batches, mnist


def perceptron(images: tf.Tensor, training: tf.Tensor) -> tf.Tensor:
    """Scores of the ten digits for rows of 784 pixels."""
    x = images
    for units in (256, 256):
        x = tf.layers.dense(x, units, activation=tf.nn.relu, kernel_initializer=tf.variance_scaling_initializer(2.0))
        x = tf.layers.dropout(x, 0.3, training=training)
    return tf.layers.dense(x, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=64)
    args = parser.parse_args()
    digits = mnist.load(args.data)

    tf.set_random_seed(1)
    images = tf.placeholder(tf.float32, [None, 784], "images")
    labels = tf.placeholder(tf.int64, [None], "labels")
    training = tf.placeholder_with_default(False, [], "training")
    logits = perceptron(images, training)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.reduce_mean(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.float32))
    step = tf.train.get_or_create_global_step()
    rate = tf.train.cosine_decay(0.05, step, args.steps)
    train = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True).minimize(loss, global_step=step)

    test = tf.train.FinalOpsHook(accuracy, {images: mnist.as_rows(digits.test_images), labels: digits.test_labels})
    hooks = [tf.train.StopAtStepHook(args.steps), tf.train.ProgressHook(loss, args.steps), test]
    stream = batches.shuffled(args.batch, mnist.as_rows(digits.train_images), digits.train_labels)
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            x, y = next(stream)
            session.run(train, {images: x, labels: y, training: True})
    print(f"Held-out accuracy: {test.final_ops_values:.2%} of {len(digits.test_labels)} images.")


if __name__ == "__main__":
    main()
