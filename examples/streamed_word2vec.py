"""Word vectors with an open vocabulary: the text is read once, as a stream, and nobody lists its words before.

    python examples/streamed_word2vec.py
    thalweg launch --ps 2 --workers 2 examples/streamed_word2vec.py --tables

A word and its neighbours are strings. With `--tables` their vectors are in tables whose keys are strings and whose rows
appear with the words (`tf.get_embedding_variable`); without, words are hashed into variables that are partitioned over
the PS tasks, and a few share a row. The wrong neighbours that a true one is told from are the neighbours of the batch's
other words, so no list of words is needed to draw from; frequent words are left out in part, by counts in an array of
fixed size. `word2vec.py` is the same model with a vocabulary.

Measured on the whole of Moby-Dick (`--data moby-dick.txt --steps 6000`): a true neighbour gets a higher score than that
of another word for 55.6 % of 20,000 held-out pairs, with `--tables` 56.3 % (`word2vec.py`, which knows the words
before: 57.9 %).
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Iterator

import numpy as np

import thalweg as tf
from thalweg.datasets import text

_COUNTERS = 1 << 16
_BLOCK = 5000  # words that are shuffled together


class Stream:
    """Pairs of a word and a neighbour from a text that is read block by block."""

    def __init__(self, reach: int, seed: int) -> None:
        self._reach = reach
        self._random = np.random.default_rng(seed)
        self._counts = np.zeros(_COUNTERS, np.int64)  # of words, by their hash

    def pairs(self, words: Iterator[str]) -> Iterator[np.ndarray]:
        """Shuffled pairs of each block, as an array of bytes `[n, 2]`."""
        block: list[bytes] = []
        for word in words:
            block.append(word.encode())
            if len(block) == _BLOCK:
                yield self._pairs_of(block)
                block = []
        if len(block) > self._reach:
            yield self._pairs_of(block)

    def _pairs_of(self, block: list[bytes]) -> np.ndarray:
        at = np.array([zlib.crc32(word) % _COUNTERS for word in block])
        np.add.at(self._counts, at, 1)
        share = self._counts[at] / self._counts.sum()
        kept = np.array(block, object)[self._random.random(len(block)) < np.sqrt(1e-3 / share)]
        pairs = [np.stack([kept[:-d], kept[d:]], 1) for d in range(1, self._reach + 1)]
        both = np.concatenate([*pairs, *(pair[:, ::-1] for pair in pairs)])
        return self._random.permutation(both)


class WordVectors:
    """The graph of one worker."""

    def __init__(self, parts: int, args: argparse.Namespace) -> None:
        self._parts, self._args = parts, args
        self.words = tf.placeholder(tf.string, [None], "words")
        self.neighbours = tf.placeholder(tf.string, [None], "neighbours")
        vectors = self._rows("words", self.words)
        others = self._rows("neighbours", self.neighbours)
        self.scores = tf.reduce_sum(vectors * others, 1)
        # Row i, column j: the score of word i with the neighbour of word j. Its own neighbour is the right one.
        logits = tf.matmul(vectors, others, transpose_b=True)
        same = tf.equal(self.neighbours[:, tf.newaxis], self.neighbours[tf.newaxis, :])
        size = tf.size(self.words)
        wrong = tf.logical_and(same, tf.logical_not(tf.eye(size, dtype=tf.bool)))
        logits = tf.where(wrong, tf.fill(tf.shape(logits), -1e9), logits)
        self.loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.range(size), logits=logits))
        optimizer = tf.train.AdagradOptimizer(args.rate, initial_accumulator_value=1e-6)
        self.step = optimizer.minimize(self.loss, tf.train.get_or_create_global_step())

    def _rows(self, name: str, words: tf.Tensor) -> tf.Tensor:
        if self._args.tables:
            table = tf.get_embedding_variable(
                name, self._args.units, key_dtype=tf.string, initializer=tf.random_uniform_initializer(-0.1, 0.1),
                partitioner=tf.fixed_size_partitioner(self._parts),
            )  # fmt: skip
            return tf.nn.embedding_lookup(table, words)
        table = tf.get_variable(
            name, [self._args.rows, self._args.units], initializer=tf.random_uniform_initializer(-0.1, 0.1),
            partitioner=tf.fixed_size_partitioner(self._parts),
        )  # fmt: skip
        return tf.nn.embedding_lookup(table, tf.string_to_hash_bucket_fast(words, self._args.rows), "div")


class HeldOutHook(tf.train.SessionRunHook):
    """Counts how often a true neighbour gets a higher score than the neighbour of another word, on text not read."""

    def __init__(self, model: WordVectors, pairs: np.ndarray) -> None:
        self._model, self._pairs, self.right = model, pairs, float("nan")

    def end(self, session: tf.Session) -> None:
        """Scores the pairs."""
        model, pairs = self._model, self._pairs
        true, false = (
            session.run(model.scores, {model.words: pairs[:, 0], model.neighbours: neighbours})
            for neighbours in (pairs[:, 1], np.random.default_rng(1).permutation(pairs[:, 1]))
        )
        self.right = float(np.mean(true > false))


def batches(words: list[str], args: argparse.Namespace, seed: int) -> Iterator[np.ndarray]:
    """Batches of pairs; the text is read again and again, as a longer one would go on."""
    stream = Stream(args.reach, seed)
    while True:
        for pairs in stream.pairs(iter(words)):
            yield from (pairs[i : i + args.batch] for i in range(0, len(pairs) - args.batch + 1, args.batch))


def train(task: tf.distribute.ClusterTask, args: argparse.Namespace) -> None:
    book = text.words(text.load(args.data))
    split = len(book) * 9 // 10
    held_out = next(Stream(args.reach, 5).pairs(iter(book[split:])))[:20_000]
    workers = task.cluster.num_tasks(task.job_name)
    first, last = (split * (task.task_index + k) // workers for k in range(2))
    parts = task.cluster.num_tasks("ps") if "ps" in task.cluster.jobs else 1
    tf.set_random_seed(1)
    with tf.device(tf.train.replica_device_setter(worker_device=task.device, cluster=task.cluster)):
        model = WordVectors(parts, args)
    test = HeldOutHook(model, held_out)
    hooks = [tf.train.StopAtStepHook(last_step=args.steps), *([test] if task.is_chief else [])]
    steps, begin = 0, time.monotonic()
    with tf.train.MonitoredTrainingSession(
        task.server.target, task.is_chief, args.model_dir, hooks=hooks, save_summaries_steps=None
    ) as session:
        for pairs in batches(book[first:last], args, task.task_index):
            if session.should_stop():
                break
            session.run(model.step, {model.words: pairs[:, 0], model.neighbours: pairs[:, 1]})
            steps += 1
    speed = steps * args.batch / (time.monotonic() - begin)
    print(f"{task.device} has run {steps} steps: {speed:.0f} pairs a second.")
    if task.is_chief:
        print(f"True neighbours told from others: {test.right:.1%} of {len(held_out)} held-out pairs.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="a text file; by default the first chapters of Moby-Dick")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--units", type=int, default=64, help="the length of a vector")
    parser.add_argument("--rows", type=int, default=100_000, help="of the hashed variables")
    parser.add_argument("--tables", action="store_true", help="tables with open keys instead of hashed variables")
    parser.add_argument("--reach", type=int, default=4, help="how far away a neighbour may be")
    parser.add_argument("--rate", type=float, default=0.2, help="the learning rate")
    parser.add_argument("--model_dir", help="a folder for checkpoints")
    args = parser.parse_args()
    if args.tables and not hasattr(tf, "get_embedding_variable"):
        parser.error("this version of Thalweg has no tf.get_embedding_variable: leave --tables out")
    task = tf.distribute.start_task()
    if task.job_name == "ps":
        task.serve()
    else:
        train(task, args)
        task.leave()


if __name__ == "__main__":
    main()
