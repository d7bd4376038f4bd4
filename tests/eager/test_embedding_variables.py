"""Embedding variables where ops run at once: rows come with the first update, tapes and checkpoints see them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf


def trained(variable: Any, optimizer: Any, lookup: Any, steps: int) -> list[float]:
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(lookup(tf.constant([1, 5, 5], tf.int64)) - 1.0))
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])
        losses.append(float(loss))
    return losses


@pytest.mark.parametrize("in_function", [False, True])
@pytest.mark.parametrize(
    "optimizer",
    [tf.train.GradientDescentOptimizer(0.1), tf.train.AdagradOptimizer(0.5), tf.train.AdamOptimizer(0.1)],
    ids=lambda optimizer: type(optimizer).__name__,
)
def test_rows_are_made_and_trained(optimizer: Any, in_function: bool) -> None:
    table = tf.get_embedding_variable("table", 4)

    def lookup(ids: Any) -> Any:
        return tf.nn.embedding_lookup(table, ids)

    losses = trained(table, optimizer, tf.function(lookup) if in_function else lookup, 20)
    assert losses[-1] < 0.5 * losses[0]
    assert table.size().numpy() == 2
    assert sorted(table.export().keys.numpy().tolist()) == [1, 5]


def test_rows_are_set_and_removed() -> None:
    table = tf.get_embedding_variable("table", 2, key_dtype=tf.string)
    table.insert(tf.constant(["a", "b"]), [[1.0, 2.0], [3.0, 4.0]])
    assert table.lookup(tf.constant(["b"])).numpy().tolist() == [[3.0, 4.0]]
    table.remove(tf.constant(["b"]))
    assert table.size().numpy() == 1
    assert table.lookup(tf.constant(["b"])).numpy().tolist() != [[3.0, 4.0]]


def test_two_tables_of_one_name_are_two() -> None:
    one, two = (tf.get_embedding_variable("table", 2) for _ in range(2))
    one.insert([7], [[1.0, 2.0]])
    assert (one.size().numpy(), two.size().numpy()) == (1, 0)


def test_a_checkpoint_has_the_rows(tmp_path: Path) -> None:
    table = tf.get_embedding_variable("table", 2)
    table.insert([7, 9], [[1.0, 2.0], [3.0, 4.0]])
    path = tf.train.Checkpoint(table=table).save(str(tmp_path / "rows"))
    other = tf.get_embedding_variable("other", 2)
    tf.train.Checkpoint(table=other).restore(path)
    np.testing.assert_array_equal(other.lookup([9, 7]), [[3.0, 4.0], [1.0, 2.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        again = tf.get_embedding_variable("again", 2)
        tf.train.Checkpoint(table=again).restore(path).run_restore_ops()
        assert session.run(again.lookup([7])).tolist() == [[1.0, 2.0]]
