"""map_fn, scan, foldl and foldr: values, structures, static shapes and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def run(fetch: Any, feeds: Any = None) -> Any:
    with tf.Session() as s:
        return s.run(fetch, feeds)


def test_map_fn_applies_to_each_element() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.map_fn(lambda row: row * row, x)
    assert y.shape.as_list() == [None, 2]
    np.testing.assert_array_equal(run(y, {x: [[1, 2], [3, 4], [5, 6]]}), [[1, 4], [9, 16], [25, 36]])
    assert run(y, {x: np.zeros((0, 2))}).shape == (0, 2)


def test_map_fn_takes_and_returns_structures() -> None:
    elems = {"a": tf.constant([1, 2, 3]), "b": tf.constant([1.0, 0.5, 0.25])}
    total, text = tf.map_fn(
        lambda e: (tf.cast(e["a"], tf.float32) + e["b"], tf.as_string(e["a"])), elems, dtype=(tf.float32, tf.string)
    )
    got = run([total, text])
    assert got[0].tolist() == [2.0, 2.5, 3.25]
    assert got[1].tolist() == [b"1", b"2", b"3"]
    assert total.shape.as_list() == [3]


def test_scan_keeps_all_results() -> None:
    x = tf.constant([1, 2, 3, 4])
    assert run(tf.scan(lambda a, e: a + e, x)).tolist() == [1, 3, 6, 10]
    assert run(tf.scan(lambda a, e: a + e, x, reverse=True)).tolist() == [10, 9, 7, 4]
    assert run(tf.scan(lambda a, e: a + e, x, initializer=10)).tolist() == [11, 13, 16, 20]
    assert run(tf.scan(lambda a, e: a + e, x, initializer=10, reverse=True)).tolist() == [20, 19, 17, 14]


def test_scan_takes_a_state_of_another_structure() -> None:
    fib = tf.scan(lambda a, _: (a[1], a[0] + a[1]), tf.zeros([6]), initializer=(np.array(0), np.array(1)))
    assert run(fib[0]).tolist() == [1, 1, 2, 3, 5, 8]


def test_folds_go_in_their_direction() -> None:
    x = tf.constant([1, 2, 3])
    assert run(tf.foldl(lambda a, e: a * 10 + e, x)) == 123
    assert run(tf.foldr(lambda a, e: a * 10 + e, x)) == 321
    assert run(tf.foldl(lambda a, e: a * 10 + e, x, initializer=9)) == 9123
    assert run(tf.foldr(lambda a, e: a * 10 + e, x, initializer=9)) == 9321


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="fn must be callable"):
        tf.map_fn(1, tf.zeros([2]))
    with pytest.raises(ValueError, match="not scalars"):
        tf.map_fn(lambda x: x, tf.constant(1.0))
    with pytest.raises(ValueError, match="different first dimensions"):
        tf.map_fn(lambda x: x, (tf.zeros([2]), tf.zeros([3])))
    with pytest.raises((TypeError, ValueError), match="structure of dtype"):
        tf.map_fn(lambda x: (x, x), tf.zeros([2]))
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.map_fn(lambda x: x, tf.SparseTensor([[0]], [1.0], [2]))


def test_vectorized_map_gives_results_of_any_type_and_structure() -> None:
    x, y = tf.constant([[1.0, 2.0], [3.0, 4.0]]), tf.constant([1, 2])
    found = tf.vectorized_map(lambda e: {"sum": tf.reduce_sum(e[0]), "big": e[1] > 1}, (x, y))
    slope = tf.gradients(tf.vectorized_map(lambda v: v * v, x), x)[0]
    with tf.Session() as session:
        values, slope_value = session.run([found, slope])
    assert values["sum"].tolist() == [3.0, 7.0] and values["big"].tolist() == [False, True]
    assert slope_value.tolist() == [[2.0, 4.0], [6.0, 8.0]]
