"""tf.assert_*: at construction where values are known, in the step where they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def _unknown(value: Any) -> Any:
    return tf.placeholder_with_default(value, None)


_PASS_AND_FAIL = [
    (tf.assert_equal, ([1, 2], [1, 2]), ([1, 2], [1, 3])),
    (tf.assert_none_equal, ([1, 2], [2, 1]), ([1, 2], [1, 3])),
    (tf.assert_less, ([1, 2], 3), ([1, 2], [1, 3])),
    (tf.assert_less_equal, ([1, 2], [1, 3]), ([2, 2], [1, 3])),
    (tf.assert_greater, ([2, 4], [1, 3]), ([1, 4], [1, 3])),
    (tf.assert_greater_equal, ([1, 4], [1, 3]), ([0, 4], [1, 3])),
    (tf.assert_near, ([1.0, 2.0], [1.0, 2.0 + 1e-7]), ([1.0], [1.1])),
    (tf.assert_positive, ([1, 2],), ([0, 1],)),
    (tf.assert_negative, ([-1.0],), ([0.0],)),
    (tf.assert_non_negative, ([0, 1],), ([-1],)),
    (tf.assert_non_positive, ([0, -1],), ([1],)),
    (tf.assert_rank, ([1], 1), ([1], 2)),
    (tf.assert_rank_at_least, ([[1]], 1), ([1], 2)),
    (tf.assert_rank_in, ([1], [0, 1]), ([1], [0, 2])),
]


@pytest.mark.parametrize(("check", "good", "bad"), _PASS_AND_FAIL, ids=[c[0].__name__ for c in _PASS_AND_FAIL])
def test_checks_pass_and_fail_at_construction_and_in_the_step(check: Any, good: Any, bad: Any) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(check(*good))
        session.run(check(_unknown(good[0]), *good[1:]))
        if check is not tf.assert_near:
            with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match="please note"):
                check(*bad, message="please note")
        late = check(_unknown(bad[0]), *bad[1:], message="please note")
        with pytest.raises(tf.errors.InvalidArgumentError, match="please note"):
            session.run(late)


def test_an_empty_tensor_passes_and_data_replaces_the_message() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.assert_positive(_unknown(np.zeros((0,), np.float32))))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[mine\]"):
            session.run(tf.assert_equal(_unknown(1), 2, data=["mine"]))


def test_types_are_checked_at_construction() -> None:
    with tf.Graph().as_default():
        assert tf.assert_integer(tf.constant(1)).type == "NoOp"
        assert tf.assert_type(tf.constant(1), tf.int32).type == "NoOp"
        with pytest.raises(TypeError, match="integer"):
            tf.assert_integer(1.5)
        with pytest.raises(TypeError, match="must be of type"):
            tf.assert_type(1.5, tf.int32)
        with pytest.raises(ValueError, match="scalar"):
            tf.assert_scalar([1])
        with pytest.raises(TypeError, match="proper"):
            tf.assert_proper_iterable("text")
        with pytest.raises(TypeError, match="iterable"):
            tf.assert_proper_iterable(3)
        assert tf.debugging.assert_same_float_dtype([tf.constant(1.0)]) is tf.float32
        with pytest.raises(ValueError, match="same type"):
            tf.debugging.assert_same_float_dtype([tf.constant(1.0)], tf.float64)
        with pytest.raises(ValueError, match="must be a scalar"):
            tf.assert_rank([1], [1])
        with pytest.raises(TypeError, match="int32"):
            tf.assert_rank([1], 1.5)
        assert tf.is_numeric_tensor(tf.constant(1)) and not tf.is_numeric_tensor(tf.constant("a"))


def test_shapes_share_sizes_by_name() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.zeros([2, 3]), tf.zeros([3, 5])
        session.run(tf.debugging.assert_shapes([(x, ("A", "B")), (y, ("B", 5)), (x, ("A", ...)), (y, "*5"), (x, ".B")]))
        with pytest.raises(ValueError, match="dimension 0 must have size 2"):
            tf.debugging.assert_shapes([(x, ("A", "B")), (y, ("A", "C"))])
        late = tf.debugging.assert_shapes([(_unknown(np.zeros((2, 3))), ("A", "B")), (y, ("A", "C"))])
        with pytest.raises(tf.errors.InvalidArgumentError, match="must have size"):
            session.run(late)


@pytest.mark.parametrize(
    ("values", "strictly", "weakly"),
    [([1, 2, 3], True, True), ([1, 2, 2], False, True), ([2, 1], False, False), ([1], True, True), ([], True, True)],
)
def test_order_of_elements(values: Any, strictly: bool, weakly: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = _unknown(np.array(values, np.int32))
        assert session.run([tf.is_strictly_increasing(x), tf.is_non_decreasing(x)]) == [strictly, weakly]
