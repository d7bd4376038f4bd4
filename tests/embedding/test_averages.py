"""Moving averages of embedding variables are those of ordinary variables, and restored like them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thalweg as tf

VOCABULARY, DIM = 40, 3


class Pair:
    """An ordinary variable and an embedding variable that are trained and averaged alike."""

    def __init__(self, parts: int) -> None:
        partitioner = tf.fixed_size_partitioner(parts) if parts else None
        self.table = tf.get_embedding_variable("table", DIM, initializer=1.0, partitioner=partitioner)
        self.dense = tf.get_variable("dense", [VOCABULARY, DIM], initializer=tf.ones_initializer())
        self.ids = tf.placeholder(tf.int64, [None])
        loss = sum(tf.reduce_sum(tf.square(tf.nn.embedding_lookup(v, self.ids))) for v in (self.table, self.dense))
        global_step = tf.train.get_or_create_global_step()
        self.ema = tf.train.ExponentialMovingAverage(0.9, num_updates=global_step)
        with tf.control_dependencies([tf.train.AdagradOptimizer(0.1).minimize(loss, global_step)]):
            self.step = self.ema.apply()
        self.parts = list(self.table) if parts else [self.table]
        self.averages = tf.nn.embedding_lookup([self.ema.average(part) for part in self.parts], np.arange(VOCABULARY))

    def train(self, session: Any, steps: int) -> None:
        rng = np.random.default_rng(0)
        for _ in range(steps):
            session.run(self.step, {self.ids: rng.integers(0, VOCABULARY, 8)})


@pytest.mark.parametrize("parts", [0, 3])
def test_averages_of_rows_are_those_of_an_ordinary_variable(parts: int) -> None:
    pair = Pair(parts)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.nn.insert_rows(pair.table, np.arange(VOCABULARY), np.ones([VOCABULARY, DIM])))
        pair.train(session, 1)  # Averages of rows begin here.
        session.run(pair.ema.average(pair.dense).assign(pair.dense))
        pair.train(session, 30)
        found, expected = session.run([pair.averages, pair.ema.average(pair.dense)])
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        values = session.run(tf.nn.embedding_lookup(pair.table, np.arange(VOCABULARY)))
        assert np.abs(found - values).max() > 0.01
        # An id without a row has its first value, in the average as well.
        assert session.run(tf.nn.embedding_lookup([pair.ema.average(p) for p in pair.parts], [999])).tolist() == [
            [1] * DIM
        ]


@pytest.mark.parametrize(("before", "after"), [(0, 0), (2, 3)])
def test_variables_are_restored_from_their_averages(tmp_path: Path, before: int, after: int) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        pair = Pair(before)
        assert pair.ema.average_name(pair.parts[0]) == f"{pair.parts[0].op.name}/ExponentialMovingAverage"
        session.run(tf.global_variables_initializer())
        pair.train(session, 5)
        saver = tf.train.Saver()
        saver.save(session, str(tmp_path / "model"))
        pair.train(session, 5)
        prefix = saver.save(session, str(tmp_path / "model"))
        averages = session.run(pair.averages)
        exported = str(tmp_path / "exported")
        if not before:
            session.run(tf.train.export_rows(pair.ema.average(pair.table), exported))
            keys, values = (
                tf.train.load_variable(exported, f"table/ExponentialMovingAverage-{x}") for x in ("keys", "values")
            )
            np.testing.assert_allclose(values, averages[keys], rtol=1e-6)
        session.run(tf.global_variables_initializer())
        saver.restore(session, prefix)
        np.testing.assert_allclose(session.run(pair.averages), averages, rtol=1e-6)
    with tf.Graph().as_default(), tf.Session() as session:
        partitioner = tf.fixed_size_partitioner(after) if after else None
        table = tf.get_embedding_variable("table", DIM, initializer=1.0, partitioner=partitioner)
        ema = tf.train.ExponentialMovingAverage(0.9)
        tf.train.Saver(ema.variables_to_restore()).restore(session, prefix)
        np.testing.assert_allclose(
            session.run(tf.nn.embedding_lookup(table, np.arange(VOCABULARY))), averages, rtol=1e-6
        )


def test_a_decay_out_of_range_is_refused() -> None:
    table = tf.get_embedding_variable("table", DIM)
    update = tf.train.ExponentialMovingAverage(1.5).apply([table])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="between 0 and 1"):
            session.run(update)
