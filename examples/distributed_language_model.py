"""An LSTM language model over parameter servers: embedding and softmax weights are spread over the PS tasks.

    thalweg launch --ps 2 --workers 2 examples/distributed_language_model.py
    thalweg launch --ps 2 --workers 2 examples/distributed_language_model.py --sampled 256

Every worker reads its own part of the text and trains the same model asynchronously (OSDI paper, section 6.4). Part k
of the embedding and of the softmax is on PS task k. A look-up fetches the rows of a batch from all parts. The full
softmax is computed where the parts are: each PS task multiplies the LSTM's outputs with its words' weights, and only a
sum and the right word's score per output travel back. The sampled softmax (`--sampled N`) fetches the rows of the right
words and of N others instead. The program also runs alone, in one process.

Measured on the sample, 600 steps, two PS tasks and two workers: perplexity 463 per word with the full softmax at 15,000
words a second (both workers), 460 with `--sampled 256` at 38,000, on two busy cores.
"""

from __future__ import annotations

import argparse
import itertools
import re
import time
from collections.abc import Iterator

import numpy as np

import thalweg as tf
from thalweg.datasets import text


class LanguageModel:
    """The graph of one worker. Its LSTM's state is in local variables of the worker, from one window to the next."""

    def __init__(self, task: tf.distribute.ClusterTask, words: int, args: argparse.Namespace) -> None:
        self._parts = task.cluster.num_tasks("ps") if "ps" in task.cluster.jobs else 1
        place = tf.train.replica_device_setter(
            worker_device=task.device, cluster=task.cluster, ps_strategy=PartsInOrder(self._parts)
        )
        with tf.device(place):
            self.global_step = tf.train.get_or_create_global_step()
            self.inputs = tf.placeholder(tf.int32, [args.batch, args.window], "inputs")
            self.targets = tf.placeholder(tf.int32, [args.batch, args.window], "targets")
            embedding = self._spread("embedding", [words, args.units], tf.random_uniform_initializer(-0.1, 0.1))
            outputs = self._lstm(tf.nn.embedding_lookup(embedding, self.inputs, "div"), task.device)
            weights = self._spread("softmax_weights", [words, args.units])
            biases = self._spread("softmax_biases", [words], tf.zeros_initializer())
            labels = tf.reshape(self.targets, [-1])
            self.loss = train_loss = tf.reduce_mean(full_softmax_loss(weights, biases, labels, outputs))
            if args.sampled:
                train_loss = tf.reduce_mean(
                    tf.nn.sampled_softmax_loss(
                        weights, biases, labels[:, tf.newaxis], outputs, args.sampled, words, partition_strategy="div"
                    )
                )
            optimizer = tf.train.AdagradOptimizer(args.rate)
            # Colocated: the gradient of a product is computed on the task of the product.
            gradients = optimizer.compute_gradients(train_loss, colocate_gradients_with_ops=True)
            self.step = tf.group(optimizer.apply_gradients(gradients, self.global_step), self.carry)

    def _spread(self, name: str, shape: list[int], initializer: object = None) -> tf.Variable:
        """A variable in as many parts as there are PS tasks, cut along its first dimension."""
        return tf.get_variable(name, shape, initializer=initializer, partitioner=tf.fixed_size_partitioner(self._parts))

    def _lstm(self, x: tf.Tensor, worker: str) -> tf.Tensor:
        """The LSTM's outputs, one row for each word of a window."""
        batch, _, units = x.shape.as_list()
        local = [tf.GraphKeys.LOCAL_VARIABLES]
        with tf.device(worker):  # The state belongs to this worker: its variables are not on a PS task.
            kept = [
                tf.get_variable(
                    f"state_{name}", [batch, units], None, tf.zeros_initializer(), trainable=False, collections=local
                )
                for name in "ch"
            ]
        self.forget = tf.variables_initializer(kept)
        cell = tf.nn.rnn_cell.LSTMCell(units)
        outputs, after = tf.nn.dynamic_rnn(cell, x, initial_state=tf.nn.rnn_cell.LSTMStateTuple(*kept))
        self.carry = tf.group(*(variable.assign(value) for variable, value in zip(kept, after, strict=True)))
        return tf.reshape(outputs, [-1, units])


class PartsInOrder:
    """A `ps_strategy`: part k of a variable goes to PS task k; variables that are whole take turns."""

    def __init__(self, tasks: int) -> None:
        self._tasks = tasks
        self._turns = itertools.cycle(range(tasks))

    def __call__(self, op: tf.Operation) -> int:
        """The PS task of a variable's operation."""
        part = re.search(r"part_(\d+)$", op.name)
        return int(part.group(1)) % self._tasks if part else next(self._turns)


def full_softmax_loss(weights: list, biases: list, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """The cross-entropy of every row of `outputs`, computed beside the parts of `weights`."""
    sums, true_scores, first = [], [], 0
    for part, bias in zip(weights, biases, strict=True):
        with tf.device(part.device):
            words = part.shape.as_list()[0]
            scores = tf.nn.bias_add(tf.matmul(outputs, part, transpose_b=True), bias)
            sums.append(tf.reduce_logsumexp(scores, 1))
            # The right word's score, from the part that has the word; the others give 0.
            own = tf.logical_and(labels >= first, labels < first + words)
            column = tf.where(own, labels - first, tf.zeros_like(labels))
            score = tf.gather_nd(scores, tf.stack([tf.range(tf.size(labels)), column], 1))
            true_scores.append(tf.where(own, score, tf.zeros_like(score)))
        first += words
    return tf.reduce_logsumexp(tf.stack(sums), 0) - tf.add_n(true_scores)


def endless_windows(numbers: np.ndarray, batch: int, window: int) -> Iterator[tuple[np.ndarray, np.ndarray, bool]]:
    """Windows of a text that is read again and again, and whether a window is the text's first."""
    while True:
        for count, (inputs, targets) in enumerate(text.windows(numbers, batch, window)):
            yield inputs, targets, count == 0


class PerplexityHook(tf.train.SessionRunHook):
    """Measures the perplexity of a text when the training ends."""

    def __init__(self, model: LanguageModel, numbers: np.ndarray) -> None:
        self._model, self._numbers, self.perplexity = model, numbers, float("nan")

    def end(self, session: tf.Session) -> None:
        """Reads the text from its beginning."""
        model = self._model
        session.run(model.forget)
        losses = []
        for inputs, targets in text.windows(self._numbers, *model.inputs.shape.as_list()):
            loss, _ = session.run([model.loss, model.carry], {model.inputs: inputs, model.targets: targets})
            losses.append(loss)
        self.perplexity = float(np.exp(np.mean(losses)))


def train(task: tf.distribute.ClusterTask, args: argparse.Namespace) -> None:
    book = text.words(text.load(args.data))
    split = len(book) - max(len(book) // 10, args.batch * args.window + 1)
    vocabulary = text.Vocabulary(book[:split], args.words)
    workers = task.cluster.num_tasks(task.job_name)
    own = np.array_split(vocabulary.encode(book[:split]), workers)[task.task_index]

    tf.set_random_seed(1)
    model = LanguageModel(task, len(vocabulary), args)
    test = PerplexityHook(model, vocabulary.encode(book[split:]))
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), *([test] if task.is_chief else [])]
    own_steps = 0
    with tf.train.MonitoredTrainingSession(
        task.server.target, task.is_chief, args.model_dir, hooks=hooks, save_checkpoint_secs=args.save_secs
    ) as session:
        begin = time.monotonic()
        for inputs, targets, is_first in endless_windows(own, args.batch, args.window):
            if session.should_stop():
                break
            if is_first:
                session.run_step_fn(lambda step_context: step_context.session.run(model.forget))
            session.run(model.step, {model.inputs: inputs, model.targets: targets})
            own_steps += 1
        seconds = time.monotonic() - begin
    speed = own_steps * args.batch * args.window / seconds
    print(f"{task.device} has run {own_steps} steps: {speed:.0f} words a second.")
    if task.is_chief:
        print(f"Held-out perplexity: {test.perplexity:.0f} per word; {len(vocabulary)} different words.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a text file; by default the first chapters of Moby-Dick")
    parser.add_argument("--steps", type=int, default=600, help="the global step at which the training ends")
    parser.add_argument("--batch", type=int, default=16, help="of a worker")
    parser.add_argument("--window", type=int, default=10, help="words through which gradients go back")
    parser.add_argument("--units", type=int, default=128, help="the width of the LSTM and of the embedding")
    parser.add_argument("--words", type=int, default=10_000, help="the size of the vocabulary")
    parser.add_argument("--sampled", type=int, default=0, help="words drawn for the sampled softmax; 0 takes them all")
    parser.add_argument("--rate", type=float, default=0.5, help="the learning rate")
    parser.add_argument("--model_dir", help="a folder for checkpoints, from which a restarted task goes on")
    parser.add_argument("--save_secs", type=float, default=10.0, help="seconds between checkpoints")
    args = parser.parse_args()

    task = tf.distribute.start_task()
    if task.job_name == "ps":
        task.serve()
    else:
        train(task, args)
        task.leave()


if __name__ == "__main__":
    main()
