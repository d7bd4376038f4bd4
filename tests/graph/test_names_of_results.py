"""Names of results that programs fetch by name: those of TensorFlow 1.15."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import thalweg as tf


def _ones(*shape: int) -> Any:
    return tf.ones(shape)


RESULTS: dict[str, tuple[Callable[[], Any], str]] = {
    "tensordot": (lambda: tf.tensordot(_ones(2, 3), _ones(3, 2), 1, name="foo"), "foo:0"),
    "tensordot of unknown rank": (
        lambda: tf.tensordot(tf.placeholder(tf.float32), _ones(3, 2), 1, name="foo"), "foo:0",
    ),
    "trace": (lambda: tf.trace(_ones(2, 2), name="foo"), "foo:0"),
    "softmax": (lambda: tf.nn.softmax(_ones(2, 3, 4), axis=1, name="foo"), "foo:0"),
    "log_softmax": (lambda: tf.nn.log_softmax(_ones(2, 3, 4), axis=1, name="foo"), "foo:0"),
    "embedding_lookup_sparse": (
        lambda: tf.nn.embedding_lookup_sparse(_ones(4, 2), tf.SparseTensor([[0, 0]], [1], [1, 1]), None, name="foo"),
        "foo:0",
    ),
    "dense": (lambda: tf.layers.dense(_ones(2, 3), 4, name="foo"), "foo/BiasAdd:0"),
    "dropout": (lambda: tf.contrib.layers.dropout(_ones(2, 3), is_training=False), "Dropout/Identity:0"),
    "dropout by a placeholder": (
        lambda: tf.contrib.layers.dropout(_ones(2, 3), is_training=tf.placeholder(tf.bool, [])), "Dropout/cond/Merge:0",
    ),
    "merged summaries": (
        lambda: tf.summary.merge([tf.summary.scalar("a", tf.constant(1.0))]), "Merge/MergeSummary:0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", list(RESULTS))
def test_results_have_tensorflows_names(case: str) -> None:
    build, name = RESULTS[case]
    with tf.Graph().as_default():
        assert build().name == name


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_weighted_lookups_have_the_name_of_their_scope(combiner: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        ids = tf.SparseTensor([[0, 0], [0, 1]], [1, 3], [1, 2])
        weights = tf.SparseTensor([[0, 0], [0, 1]], [3.0, 4.0], [1, 2])
        rows = tf.nn.embedding_lookup_sparse(_ones(4, 2), ids, weights, name="foo", combiner=combiner)
        assert rows.name == "foo:0"
        expected = {"sum": 7.0, "mean": 1.0, "sqrtn": 1.4}[combiner]
        assert session.run("foo:0").tolist() == [pytest.approx([expected] * 2)]
