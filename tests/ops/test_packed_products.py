"""Products and factorizations of our own loops at every edge of their tiles, for any layout of the operands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def integers(*shape: int) -> Any:
    """Small integers: their products are exact in every order."""
    return np.random.default_rng(sum(shape)).integers(-8, 9, shape)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_of_all_small_sizes(dtype: str, transpose_a: bool, transpose_b: bool) -> None:
    a, b = tf.placeholder(dtype), tf.placeholder(dtype)
    product = tf.matmul(a, b, transpose_a, transpose_b)
    with tf.Session() as session:
        for rows in range(3, 28):
            for columns in (2, 7, 8, 9, 15, 16, 17, 31, 33, 40):
                for inner in (1, 40, 260):
                    x, y = integers(rows, inner).astype(dtype), integers(inner, columns).astype(dtype)
                    feeds = {a: x.T if transpose_a else x, b: y.T if transpose_b else y}
                    found = session.run(product, feeds)
                    np.testing.assert_array_equal(found, x @ y, f"{rows} x {inner} x {columns}")


@pytest.mark.parametrize("size", [(200, 300, 1100), (100, 600, 130), (97, 513, 40)])
def test_products_of_several_blocks(size: tuple[int, int, int]) -> None:
    rows, inner, columns = size
    x, y = integers(rows, inner).astype(np.float64), integers(inner, columns).astype(np.float64)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(tf.matmul(tf.constant(x), tf.constant(y))), x @ y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_factors_of_all_small_sizes_give_the_matrix_again(dtype: str) -> None:
    x = tf.placeholder(dtype)
    factor = tf.linalg.cholesky(x)
    rng = np.random.default_rng(1)
    tolerance = 1e-4 if dtype in ("float32", "complex64") else 1e-11
    with tf.Session() as session:
        for n in range(33, 84, 3):
            part = rng.normal(size=(n, n)) + (1j * rng.normal(size=(n, n)) if dtype.startswith("c") else 0)
            matrix = (part @ part.conj().T + n * np.eye(n)).astype(dtype)
            lower = session.run(factor, {x: matrix})
            np.testing.assert_allclose(lower @ lower.conj().T, matrix, rtol=0, atol=tolerance * np.abs(matrix).max())
