"""Denormals: kernels treat them as zero, on every thread; Python code, the user's and that of kernels, does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf

DENORMAL = np.float32(1e-39)


def keeps_denormals() -> bool:
    return bool(np.float32(1e-20) * np.float32(1e-20) > 0) and bool(DENORMAL * np.float32(1.0) > 0)


@pytest.mark.parametrize("size", [1, 1000, 3_000_000])
def test_kernels_flush_denormals_on_all_threads(size: int) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None])
        fed = np.full(size, DENORMAL)
        product, small = session.run([x * 1.0, tf.square(x + 1e-20)], {x: fed})
        assert not product.any()
        assert not small.any()
        assert session.run(x, {x: fed})[0] == DENORMAL  # What is only passed on stays what it is.
    assert keeps_denormals()


def test_python_kernels_and_callers_keep_denormals() -> None:
    found: list[bool] = []

    def look(value: Any) -> Any:
        found.append(keeps_denormals())
        return value

    with tf.Graph().as_default(), tf.Session() as session:
        one = tf.py_func(look, [tf.constant(1.0)], tf.float32)
        data = tf.data.Dataset.range(3).map(lambda i: tf.py_func(look, [i], tf.int64), num_parallel_calls=2)
        element = tf.data.make_one_shot_iterator(data).get_next()
        session.run([one, element])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(tf.reshape(one, [tf.cast(one, tf.int32) + 1]))
    assert found
    assert all(found)
    assert keeps_denormals()
