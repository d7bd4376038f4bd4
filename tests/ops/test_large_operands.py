"""Loops taken for larger operands only: blocks of transpositions, vectors of rows, machine code of single ops."""

from typing import Any

import numpy as np
import pytest

import thalweg as tf


def run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def draw(dtype: Any, *shape: int) -> np.ndarray:
    return (np.random.default_rng(4).standard_normal(shape) * 9).astype(dtype)


@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(64, 128), (200, 67), (131, 130), (2, 70, 90)])
def test_blocks_of_a_transposition(dtype: Any, shape: tuple[int, ...]) -> None:
    x = draw(dtype, *shape)
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    np.testing.assert_array_equal(run(tf.transpose(tf.constant(x), order)), x.transpose(order))


@pytest.mark.parametrize("planes", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_planes_and_pixels(planes: int, dtype: Any) -> None:
    x = np.abs(draw(dtype, 3, planes, 37, 11))
    there = tf.transpose(tf.constant(x), [0, 2, 3, 1])
    back = tf.transpose(there, [0, 3, 1, 2])
    first, second = run([there, back])
    np.testing.assert_array_equal(first, x.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(second, x)
    column = x.reshape(-1, 1)
    np.testing.assert_array_equal(run(tf.tile(tf.constant(column), [2, planes])), np.tile(column, [2, planes]))


@pytest.mark.parametrize("sizes", [[3, 0, 5], [1, 1, 6], [8, 0, 0]])
def test_parts_of_rows(sizes: list[int]) -> None:
    x = draw(np.float32, 50, 8, 16)
    parts = run(tf.split(tf.constant(x), sizes, 1))
    for part, wanted in zip(parts, np.split(x, np.cumsum(sizes)[:-1], 1), strict=True):
        np.testing.assert_array_equal(part, wanted)
    for part, wanted in zip(run(tf.unstack(tf.constant(x), axis=1)), x.swapaxes(0, 1), strict=True):
        np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("classes", [5, 32, 33, 1000])
def test_softmax_of_unusual_logits(dtype: Any, classes: int) -> None:
    x = draw(dtype, 20, classes)
    x[1], x[2, 0], x[3, 1], x[4, 2] = -np.inf, -np.inf, np.inf, np.nan
    x[5, 1:] = -60000
    x[6] = -60000
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        wanted = e / e.sum(1, keepdims=True)
    tolerance = {np.float16: 2e-3, np.float32: 1e-6, np.float64: 1e-13}[dtype]
    np.testing.assert_allclose(run(tf.nn.softmax(tf.constant(x))), wanted, tolerance, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize(("n", "columns"), [(5, 1), (7, 3), (70, 8), (67, 9), (100, 33), (33, 130)])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_triangular_systems_do_not_read_the_other_triangle(
    dtype: Any, n: int, columns: int, lower: bool, adjoint: bool
) -> None:
    a = draw(dtype, n, n) * dtype(0.02) + np.eye(n, dtype=dtype) * dtype(2)
    triangle = np.tril(a) if lower else np.triu(a)
    hidden = np.where(triangle != 0, a, dtype(np.nan))
    b = draw(dtype, n, columns)
    got = run(tf.linalg.triangular_solve(tf.constant(hidden), tf.constant(b), lower=lower, adjoint=adjoint))
    op = triangle.conj().T if adjoint else triangle
    np.testing.assert_allclose(op @ got, b, atol=1e-10 if dtype == np.float64 else 2e-3)


@pytest.mark.parametrize("function", [tf.exp, tf.log, tf.log1p, tf.expm1, tf.tanh, tf.sigmoid, tf.erf, tf.nn.elu])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_code_of_a_single_op_has_the_bits_of_its_loop(function: Any, dtype: tf.DType) -> None:
    x = np.concatenate([draw(np.float32, 9000), [0, -0.0, np.inf, -np.inf, np.nan, 88.8, -104, 1e-6]])
    x = x.astype(dtype.as_numpy_dtype)
    given = tf.placeholder(dtype, [None])
    result = function(given)
    with tf.Session() as session:
        whole = session.run(result, {given: x})
        pieces = np.concatenate([session.run(result, {given: piece}) for piece in np.array_split(x, 5)])
    np.testing.assert_array_equal(whole.view(np.uint8).reshape(-1), pieces.view(np.uint8).reshape(-1))


def test_least_squares_of_any_condition() -> None:
    a, b = draw(np.float64, 60, 6), draw(np.float64, 60, 2)
    for matrix in (a, a * [1, 1, 1, 1, 1, 1e-9], a @ np.diag([1, 1, 1, 1, 1, 0.0])):
        got = run(tf.linalg.lstsq(tf.constant(matrix), tf.constant(b)))
        wanted = np.linalg.lstsq(matrix, b, rcond=None)[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)
