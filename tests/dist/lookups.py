"""Look-ups of sharded embeddings in all their forms, for tests on clusters and in one process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import thalweg as tf

ROWS, WIDTH = 4099, 8  # no shard count divides it
IDS = np.array([7, 4098, 7, 0, 33, 2048, 33, 33, 1, 4000], np.int64)  # ids are there several times
BATCH = 4

Form = Callable[[Any, str], Any]


def table(name: str, shards: int, rows: int = ROWS, width: int | None = WIDTH, strategy: str = "div") -> Any:
    """A matrix, or a vector, of `rows` rows in shards: a partitioned variable, or for "mod" a list of variables."""
    row = [] if width is None else [width]
    start = tf.random_uniform_initializer(-1.0, 1.0, seed=len(name))
    if strategy == "div":
        partitioner = tf.fixed_size_partitioner(shards)
        return tf.get_variable(name, [rows, *row], initializer=start, partitioner=partitioner)
    return [
        tf.get_variable(f"{name}_{k}", [rows // shards + (k < rows % shards), *row], initializer=start)
        for k in range(shards)
    ]


def sparse(values: Any) -> tf.SparseTensor:
    """The ids in rows of different lengths: 3, 1, 4 and 2 of them."""
    places = [[0, 0], [0, 1], [0, 2], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3], [3, 0], [3, 1]]
    return tf.SparseTensor(np.array(places, np.int64), values, [BATCH, 4])


def _weights() -> tf.SparseTensor:
    return sparse(tf.constant(np.linspace(0.5, 2.0, len(IDS)), tf.float32))


def _combined(combiner: str, weighted: bool, safe: bool = False) -> Form:
    def form(params: Any, strategy: str) -> Any:
        look_up: Any = tf.nn.safe_embedding_lookup_sparse if safe else tf.nn.embedding_lookup_sparse
        return look_up(
            params, sparse(_ids()), _weights() if weighted else None, combiner=combiner, partition_strategy=strategy
        )

    return form


def _ids() -> Any:
    return tf.placeholder_with_default(IDS, [None], "ids")


def _plain(params: Any, strategy: str) -> Any:
    return tf.nn.embedding_lookup(params, tf.reshape(_ids(), [2, 5]), strategy)


def _clipped(params: Any, strategy: str) -> Any:
    return tf.nn.embedding_lookup(params, _ids(), strategy, max_norm=1.0)


def _loss_of_samples(loss: Callable[..., Any]) -> Form:
    def form(params: Any, strategy: str) -> Any:
        inputs = tf.constant(np.linspace(-1.0, 1.0, len(IDS) * WIDTH).reshape(-1, WIDTH), tf.float32)
        biases = table("biases", len(list(params)), width=None, strategy=strategy)
        labels = tf.reshape(_ids(), [-1, 1])
        sampled = (tf.constant(np.arange(0, ROWS, 211)), tf.ones([len(IDS), 1]), tf.ones([len(range(0, ROWS, 211))]))
        return loss(params, biases, labels, inputs, 20, ROWS, sampled_values=sampled, partition_strategy=strategy)

    return form


FORMS: dict[str, Form] = {
    "lookup": _plain,
    "max_norm": _clipped,
    "sum": _combined("sum", False),
    "mean": _combined("mean", False),
    "sqrtn": _combined("sqrtn", False),
    "weighted_sum": _combined("sum", True),
    "weighted_mean": _combined("mean", True),
    "weighted_sqrtn": _combined("sqrtn", True),
    "safe_mean": _combined("mean", False, safe=True),
    "safe_weighted": _combined("sqrtn", True, safe=True),
    "sampled_softmax": _loss_of_samples(tf.nn.sampled_softmax_loss),
    "nce": _loss_of_samples(tf.nn.nce_loss),
}

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.5),
    "momentum": lambda: tf.train.MomentumOptimizer(0.5, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.5, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.5),
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(0.5, tf.train.get_or_create_global_step()),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.5),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.5),
    "centered_rmsprop": lambda: tf.train.RMSPropOptimizer(0.5, centered=True),
    "proximal_descent": lambda: tf.train.ProximalGradientDescentOptimizer(0.5),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.5),
    "adam": lambda: tf.train.AdamOptimizer(0.5),
    "lazy_adam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.5),
}
