"""Model parallelism over tasks: the layers of one network on several tasks, microbatches to keep all of them busy.

    thalweg launch --ps 0 --workers 3 examples/model_parallel.py
    thalweg launch --ps 0 --workers 3 examples/model_parallel.py --microbatches 1

Task k holds hidden layer k of a perceptron: its variables, its forward and its backward pass, and its updates. Only
activations and their gradients travel. The first task builds the whole graph and runs its steps; the others serve. A
step cuts its batch into microbatches, which meet only in the update: while the second task works on the first
microbatch, the first task computes the second. The gradients of all microbatches are averaged, so the result does not
depend on their number, except for rounding. The program also runs alone, in one process.

Measured on the sample, 600 steps, three tasks: 94.4% of the held-out digits with one or four microbatches.
"""

from __future__ import annotations

import argparse
import time

import thalweg as tf
from thalweg.datasets import batches, mnist


class LayeredPerceptron:
    """The graph: one hidden layer on each task, the scores on the last, and a training step over microbatches."""

    def __init__(self, task: tf.distribute.ClusterTask, args: argparse.Namespace) -> None:
        self._tasks = [f"/job:{task.job_name}/task:{k}" for k in task.cluster.task_indices(task.job_name)]
        self._units = args.units
        with tf.device(self._tasks[0]):
            self.global_step = tf.train.get_or_create_global_step()
            self.images = tf.placeholder(tf.float32, [None, 784], "images")
            pieces = tf.split(self.images, args.microbatches)
        with tf.device(self._tasks[-1]):
            self.labels = tf.placeholder(tf.int64, [None], "labels")
            labels = tf.split(self.labels, args.microbatches)
        losses = [self._loss(x, y) for x, y in zip(pieces, labels, strict=True)]
        optimizer = tf.train.MomentumOptimizer(args.rate, 0.9)
        # Colocated: the backward pass of a layer runs on the task of the layer.
        computed = [optimizer.compute_gradients(loss, colocate_gradients_with_ops=True) for loss in losses]
        self.step = optimizer.apply_gradients(
            [average(pairs) for pairs in zip(*computed, strict=True)], self.global_step
        )
        with tf.device(self._tasks[-1]):
            right = tf.nn.in_top_k(self._scores(self.images), self.labels, 1)
            self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))

    def _scores(self, images: tf.Tensor) -> tf.Tensor:
        """Scores of the ten digits; the variables are the same in every call."""
        x = images
        with tf.variable_scope("perceptron", reuse=tf.AUTO_REUSE):
            for k, task in enumerate(self._tasks):
                with tf.device(task):
                    x = tf.layers.dense(x, self._units, tf.nn.relu, name=f"hidden_{k}")
            with tf.device(self._tasks[-1]):
                return tf.layers.dense(x, 10, name="scores")

    def _loss(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        scores = self._scores(images)
        with tf.device(self._tasks[-1]):
            return tf.losses.sparse_softmax_cross_entropy(labels, scores)


def average(pairs: tuple) -> tuple[tf.Tensor, tf.Variable]:
    """The mean of the gradients of one variable, computed beside the variable."""
    gradients, variables = zip(*pairs, strict=True)
    with tf.device(variables[0].device):
        return tf.add_n(gradients) / len(gradients), variables[0]


def train(task: tf.distribute.ClusterTask, args: argparse.Namespace) -> None:
    digits = mnist.load(args.data)
    tf.set_random_seed(1)
    model = LayeredPerceptron(task, args)
    test = tf.train.FinalOpsHook(
        model.accuracy, {model.images: mnist.as_rows(digits.test_images), model.labels: digits.test_labels}
    )
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), test]
    stream = batches.shuffled(args.batch, mnist.as_rows(digits.train_images), digits.train_labels, seed=1)
    with tf.train.MonitoredTrainingSession(
        task.server.target, True, args.model_dir, hooks=hooks, save_checkpoint_secs=args.save_secs
    ) as session:
        begin = time.monotonic()
        while not session.should_stop():
            images, labels = next(stream)
            session.run(model.step, {model.images: images, model.labels: labels})
        seconds = time.monotonic() - begin
    print(f"Layers on {task.cluster.num_tasks(task.job_name)} tasks: {args.steps / seconds:.0f} steps a second.")
    print(f"Held-out accuracy: {test.final_ops_values:.2%} of {len(digits.test_labels)} images.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a folder with the four files of the full MNIST set")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--microbatches", type=int, default=4, help="pieces of a batch; they must divide it")
    parser.add_argument("--units", type=int, default=256, help="the width of a hidden layer; each task has one")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--model_dir", help="a folder for checkpoints, from which a restarted job goes on")
    parser.add_argument("--save_secs", type=float, default=10.0, help="seconds between checkpoints")
    args = parser.parse_args()
    if args.batch % args.microbatches:
        parser.error(f"{args.microbatches} microbatches do not divide a batch of {args.batch}")

    task = tf.distribute.start_task()
    if task.is_chief:
        train(task, args)
        task.leave((task.job_name,))
    else:
        task.serve(1)


if __name__ == "__main__":
    main()
