"""Conditional accumulators: means and sums, stale gradients, waiting takers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf
from tests.queues.waiting import InThread, assert_waits


def test_the_mean_of_what_has_come() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2], name="acc")
    assert (accumulator.name, accumulator.dtype) == ("acc", tf.float32)
    g = tf.placeholder(tf.float32, [2])
    add, take, count = accumulator.apply_grad(g), accumulator.take_grad(2), accumulator.num_accumulated()
    assert take.shape.as_list() == [2]
    assert count.name == "acc_NumAccumulated:0"
    with tf.Session() as session:
        session.run(add, {g: [1, 2]})
        assert_waits(session, take)
        assert session.run(count) == 1
        session.run(add, {g: [3, 2]})
        session.run(add, {g: [5, 2]})
        assert session.run(take).tolist() == [3, 2]
        assert session.run(count) == 0


def test_the_sum_of_what_has_come() -> None:
    accumulator = tf.ConditionalAccumulator(tf.int32, reduction_type="SUM")
    with tf.Session() as session:
        for value in (1, 2, 5):
            session.run(accumulator.apply_grad([value]))
        assert session.run(accumulator.take_grad(1)).tolist() == [8]


def test_gradients_for_earlier_steps_are_dropped() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    value, local_step = tf.placeholder(tf.float32, []), tf.placeholder(tf.int64, [])
    add, take = accumulator.apply_grad(value, local_step=local_step), accumulator.take_grad(1)
    count = accumulator.num_accumulated()
    with tf.Session() as session:
        session.run(add, {value: 1.0, local_step: 0})
        assert session.run(take) == 1.0  # The accumulator's step is now 1.
        session.run(add, {value: 100.0, local_step: 0})
        assert session.run(count) == 0
        session.run(add, {value: 2.0, local_step: 1})
        session.run(accumulator.set_global_step(7))
        session.run(add, {value: 100.0, local_step: 6})
        session.run(add, {value: 4.0, local_step: 7})
        assert session.run(take) == 3.0


def test_takers_wait_in_line() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    with tf.Session() as session:
        add = accumulator.apply_grad(2.0, local_step=10)
        first = InThread(session.run, accumulator.take_grad(2))
        assert first.is_waiting()
        second = InThread(session.run, accumulator.take_grad(1))
        assert second.is_waiting()
        session.run(add)
        assert second.is_waiting()
        session.run(add)
        assert first.result() == 2.0
        session.run(add)
        assert second.result() == 2.0


def test_a_shared_accumulator_must_agree() -> None:
    one = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="s")
    two = tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="s")
    with tf.Session() as session:
        session.run(one.apply_grad([1, 2]))
        assert session.run(two.num_accumulated()) == 1
        for other, match in (
            (tf.ConditionalAccumulator(tf.float64, shape=[2], shared_name="s"), "type float32"),
            (tf.ConditionalAccumulator(tf.float32, shape=[3], shared_name="s"), "shape"),
            (tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="s", reduction_type="SUM"), "reduction"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                session.run(other.num_accumulated())


def test_rows_that_came_together() -> None:
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    with tf.Session() as session:
        session.run(accumulator.apply_grad([0, 2], [[1, 1], [2, 2]]))
        session.run(accumulator.apply_grad([3, 2], [[4, 4], [1, 1]], grad_shape=[4, 2]))
        assert session.run(accumulator.num_accumulated()) == 2
        indices, values, shape = session.run(accumulator.take_grad(2))
        assert indices.tolist() == [0, 2, 3]
        # The mean of a row is over the gradients that had it.
        assert values.tolist() == [[1, 1], [1.5, 1.5], [4, 4]]
        assert shape.tolist() == [4, 2]
        slices = tf.IndexedSlices(tf.constant([[1.0, 1.0]]), tf.constant([1], tf.int64))
        session.run(accumulator.apply_indexed_slices_grad(slices, local_step=1))
        taken = session.run(accumulator.take_indexed_slices_grad(1))
        assert taken.indices.tolist() == [1]
        session.run(accumulator.apply_indexed_slices_grad(slices, local_step=1))
        assert session.run(accumulator.num_accumulated()) == 0
        assert_waits(session, accumulator.take_grad(1))


def test_sums_of_rows_of_unknown_shape() -> None:
    accumulator = tf.SparseConditionalAccumulator(tf.int64, reduction_type="SUM")
    with tf.Session() as session:
        session.run(accumulator.apply_grad([5, 5, 1], [1, 2, 3]))
        session.run(accumulator.apply_grad(np.array([5], np.int64), [10]))
        indices, values, shape = session.run(accumulator.take_grad(1))
        assert (indices.tolist(), values.tolist(), shape.tolist()) == ([1, 5], [3, 13], [-1])
        session.run(accumulator.apply_grad(np.zeros(0, np.int64), np.zeros((0, 3), np.int64), local_step=1))
        indices, values, _ = session.run(accumulator.take_grad(1))
        assert values.shape == (0, 3)


def _bad_dense(grad: Any, **kwargs: Any) -> Any:
    return tf.ConditionalAccumulator(tf.float32, shape=[2]).apply_grad(grad, **kwargs)


def test_gradients_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="incompatible"):
        _bad_dense([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="reduction_type"):
        tf.ConditionalAccumulator(tf.float32, reduction_type="MAX")
    x = tf.placeholder(tf.float32)
    free = tf.ConditionalAccumulator(tf.float32)
    sparse = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    loose = tf.SparseConditionalAccumulator(tf.float32)
    row = np.ones((1, 2), np.float32)
    with tf.Session() as session:
        session.run(free.apply_grad(x), {x: [1.0]})
        session.run(loose.apply_grad([0], row))
        for fetch, match in (
            (_bad_dense(x), r"expected \[2\], got \[3\]"),
            (free.apply_grad(x), r"expected \[1\], got \[3\]"),
            (free.take_grad(0), "must be positive, got 0"),
            (free.take_grad(-3), "must be positive, got -3"),
            (sparse.apply_grad([0, 1], row), "1 values, 2 indices"),
            (sparse.apply_grad([0], [1.0]), "Shape mismatch"),
            (sparse.apply_grad([9], row), "Index 9 at position 0 is out of range: the tensor has 4 rows"),
            (sparse.apply_grad([-1], row), "Index -1"),
            (sparse.apply_grad([0], np.ones((1, 3), np.float32)), "Shape mismatch"),
            (sparse.apply_grad([[0]], row), "vector"),
            (sparse.apply_grad([0], row, [5, 2]), r"expected \[4,2\], got \[5,2\]"),
            (sparse.apply_grad([0], row, [4]), "2 sizes"),
            (loose.apply_grad([3], row, [3, 2]), "Index 3"),
            (loose.apply_grad([3], row, [-3, 2]), "negative|-3"),
            (loose.apply_grad([0], np.ones((1, 3), np.float32)), "Shape mismatch"),
            (loose.apply_grad([0], 1.0), "at least a vector"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=match):
                session.run(fetch, {x: [1.0, 2.0, 3.0]})
        assert session.run([free.num_accumulated(), loose.num_accumulated()]) == [1, 1]


def test_old_accumulators_behind_references_run() -> None:
    handle = tf.raw_ops.ConditionalAccumulator(dtype=tf.float32, shape=[])
    add = tf.raw_ops.AccumulatorApplyGradient(handle=handle, local_step=0, gradient=3.0)
    take = tf.raw_ops.AccumulatorTakeGradient(handle=handle, num_required=1, dtype=tf.float32)
    with tf.Session() as session:
        session.run(add)
        assert session.run(tf.raw_ops.AccumulatorNumAccumulated(handle=handle)) == 1
        assert session.run(take) == 3.0


def contributions(accumulator: Any, session: Any) -> Any:
    value = tf.placeholder(tf.float32, [])
    stamp = tf.placeholder(tf.int64, [2])
    add = accumulator.apply_grad(value, local_step=stamp)
    return lambda step, contributor, number: session.run(add, {value: number, stamp: [step, contributor]})


def test_a_contributor_counts_once() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    take, count = accumulator.take_grad(2), accumulator.num_accumulated()
    with tf.Session() as session:
        give = contributions(accumulator, session)
        give(0, 1, 3.0)
        give(0, 1, 100.0)
        assert session.run(count) == 1
        give(0, 0, 5.0)
        assert session.run(take) == 4.0
        give(0, 0, 100.0)  # stale
        assert session.run(count) == 0
        give(1, 0, 1.0)
        assert session.run(count) == 1


def test_contributions_are_summed_in_the_order_of_contributors() -> None:
    numbers = np.random.RandomState(3).standard_normal(6).astype(np.float32) * 10.0 ** np.arange(-3, 3)
    expected = np.float32(0)
    for number in numbers.astype(np.float32):
        expected = expected + number
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[], reduction_type="SUM")
    take = accumulator.take_grad(6)
    with tf.Session() as session:
        give = contributions(accumulator, session)
        for step, order in enumerate([[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 1, 4, 3]]):
            for contributor in order:
                give(step, contributor, numbers[contributor])
            assert session.run(take) == expected


def test_rows_of_contributors_are_averaged_in_their_order() -> None:
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 1])
    ids, rows, stamp = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 1]), tf.placeholder(tf.int64)
    add, take = accumulator.apply_grad(ids, rows, local_step=stamp), accumulator.take_grad(3)
    with tf.Session() as session:
        for contributor, (at, row) in reversed(list(enumerate([([0, 3], [1, 2]), ([3], [4]), ([3, 1], [9, 7])]))):
            for _ in range(2):
                session.run(add, {ids: at, rows: np.reshape(row, (-1, 1)), stamp: [5, contributor]})
        indices, values, _ = session.run(take)
    assert (indices.tolist(), values.ravel().tolist()) == ([0, 1, 3], [1, 7, 5])


def test_a_later_step_drops_contributions_for_earlier_ones() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    step = tf.placeholder(tf.int64, [])
    take, count, later = accumulator.take_grad(1), accumulator.num_accumulated(), accumulator.set_global_step(step)
    with tf.Session() as session:
        give = contributions(accumulator, session)
        give(3, 0, 100.0)
        give(3, 2, 100.0)
        session.run(later, {step: 3})
        assert session.run(count) == 2
        session.run(later, {step: 4})
        assert session.run(count) == 0
        give(3, 1, 100.0)
        give(4, 1, 2.0)
        assert session.run(take) == 2.0


def test_misfits_among_contributions_are_told_to_the_taker() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32)
    value, stamp = tf.placeholder(tf.float32), tf.placeholder(tf.int64)
    add, take, count = accumulator.apply_grad(value, stamp), accumulator.take_grad(2), accumulator.num_accumulated()
    with tf.Session() as session:
        session.run(add, {value: [1.0, 2.0], stamp: [0, 2]})
        session.run(add, {value: [1.0], stamp: [0, 1]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
            session.run(take)
        assert session.run(count) == 0
        session.run(add, {value: [1.0], stamp: [1, 0]})
        with pytest.raises(tf.errors.InvalidArgumentError, match="with and without a contributor"):
            session.run(add, {value: [1.0], stamp: 1})
        for wrong, message in (([1, -1], "must not be negative"), ([1, 2, 3], "scalar, or a vector of step and")):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(add, {value: [1.0], stamp: wrong})


def test_a_new_round_ends_takers_that_wait() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    take = accumulator.take_grad(1)
    with tf.Session() as session:
        waiting = InThread(session.run, take)
        assert waiting.is_waiting()
        session.run(accumulator.set_global_step([5]))
        with pytest.raises(tf.errors.AbortedError, match="new round"):
            waiting.result()
        give = contributions(accumulator, session)
        give(4, 0, 100.0)
        give(5, 0, 2.0)
        assert session.run(take) == 2.0
