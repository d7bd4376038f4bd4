"""Optimizers update the rows of an embedding variable as they update those of an ordinary one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import thalweg as tf

DIM, ROWS = 5, 12
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: tf.train.AdagradOptimizer(0.1, 0.3),
    "adagrad_da": lambda: tf.train.AdagradDAOptimizer(0.1, tf.train.get_or_create_global_step()),
    "adadelta": lambda: tf.train.AdadeltaOptimizer(0.5),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5),
    "centered": lambda: tf.train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
    "shrinkage": lambda: tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1),
    "proximal": lambda: tf.train.ProximalGradientDescentOptimizer(0.1, 0.01, 0.01),
    "proximal_adagrad": lambda: tf.train.ProximalAdagradOptimizer(0.1, l1_regularization_strength=0.01),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "lazy_adam": lambda: tf.contrib.opt.LazyAdamOptimizer(0.1),
}


def loss_of(variable: Any, ids: Any, weights: np.ndarray) -> Any:
    return tf.reduce_sum(tf.square(tf.nn.embedding_lookup(variable, ids) - weights))


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_move_as_those_of_a_dense_variable(name: str, parts: int) -> None:
    rng = np.random.default_rng(7)
    first = rng.normal(size=[ROWS, DIM]).astype(np.float32)
    keys = rng.integers(-(1 << 62), 1 << 62, ROWS)
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    table = tf.get_embedding_variable("table", DIM, partitioner=partitioner)
    dense = tf.get_variable("dense", initializer=first)
    chosen = tf.placeholder(tf.int64, [None])
    target = rng.normal(size=[DIM]).astype(np.float32)
    steps = [
        OPTIMIZERS[name]().minimize(loss_of(table, tf.gather(keys, chosen), target)),
        OPTIMIZERS[name]().minimize(loss_of(dense, chosen, target)),
    ]
    fill = tf.nn.insert_rows(table, keys, first)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(fill)
        for _ in range(5):
            ids = rng.integers(0, ROWS, 20)
            if name == "adam":  # Rows without a gradient stay in a table, and decay in a dense variable.
                ids = np.concatenate([np.arange(ROWS), ids])
            session.run(steps, {chosen: ids})
        found = session.run(tf.nn.embedding_lookup(table, keys))
        expected = session.run(dense)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_slots_lie_in_rows_and_not_in_variables() -> None:
    table = tf.get_embedding_variable("table", 2, tf.string)
    optimizer = tf.train.AdamOptimizer(0.1)
    step = optimizer.minimize(tf.reduce_sum(tf.nn.embedding_lookup(table, ["a", "b", "a"])))
    assert [v.op.name for v in tf.global_variables()] == ["table", "beta1_power", "beta2_power"]
    assert table.slot_names() == ["Adam", "Adam_1"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        rows = session.run(table.export(table.slot_names()))
    found = dict(zip(rows.keys, rows.slot_values[0], strict=True))
    np.testing.assert_allclose(found[b"a"], [0.2, 0.2], rtol=1e-6)
    np.testing.assert_allclose(found[b"b"], [0.1, 0.1], rtol=1e-6)
    assert sorted(rows.counts) == [1, 2] and set(rows.steps) == {1}


def test_two_lookups_and_clipping_reach_the_table() -> None:
    table = tf.get_embedding_variable("table", 2, initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1])) + tf.reduce_sum(tf.nn.embedding_lookup(table, [[1], [2]]))
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([grad for grad, _ in pairs], 1e9)
    step = optimizer.apply_gradients([(grad, var) for grad, (_, var) in zip(clipped, pairs, strict=True)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        rows = session.run(tf.nn.embedding_lookup(table, [1, 2, 3]))
    assert rows.tolist() == [[-2, -2], [-1, -1], [0, 0]]


def test_an_optimizer_that_changes_the_whole_variable_is_refused() -> None:
    table = tf.get_embedding_variable("table", 2)
    with pytest.raises(NotImplementedError, match="as a whole"):
        tf.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.zeros([3, 2]), table)])


def test_what_needs_all_rows_at_once_is_refused() -> None:
    table = tf.get_embedding_variable("table", 2)
    other = tf.get_variable("other", [2])
    loss = tf.reduce_sum(table.lookup([1]) + other)
    with pytest.raises(NotImplementedError, match="summed over steps"):
        tf.train.GradientAccumulationOptimizer(tf.train.GradientDescentOptimizer(1.0), 2).minimize(loss)


def test_synchronous_replicas_sum_rows() -> None:
    table = tf.get_embedding_variable("table", 2, initializer=tf.zeros_initializer())
    rows = table.lookup([5, 6, 7])
    optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(1.0), 1, 1)
    global_step = tf.train.get_or_create_global_step()
    step = optimizer.minimize(tf.reduce_sum(table.lookup([5, 6, 5])), global_step=global_step)
    hook = optimizer.make_session_run_hook(True, num_tokens=0)
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for _ in range(3):
            session.run(step)
        assert session.run(rows).tolist() == [[-6, -6], [-3, -3], [0, 0]]


def test_a_loop_and_a_branch_reach_the_table() -> None:
    table = tf.get_embedding_variable("table", 2, initializer=tf.ones_initializer())
    flag = tf.placeholder(tf.bool, [])
    looked = tf.cond(flag, lambda: tf.nn.embedding_lookup(table, [4]), lambda: tf.zeros([1, 2]))
    step = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(looked))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {flag: True})
        assert session.run(table.lookup([4])).tolist() == [[0, 0]]
        session.run(step, {flag: False})
        assert session.run(table.lookup([4])).tolist() == [[0, 0]]
