"""Float functions against float64 over the whole range of float, and double ones: error in units in the last place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import thalweg as tf

_TINY = np.finfo(np.float32).tiny  # Kernels treat smaller numbers as 0.
_STRIDE = 9973  # Every so many of the 2^32 bit patterns: 430 thousand floats of every sign and size.

CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (tf.exp, np.exp, 2.0),
    "expm1": (tf.expm1, np.expm1, 2.5),
    "log": (tf.log, np.log, 2.0),
    "log1p": (tf.log1p, np.log1p, 2.5),
    "tanh": (tf.tanh, np.tanh, 4.5),
    "sigmoid": (tf.sigmoid, special.expit, 2.5),
    "erf": (tf.erf, special.erf, 2.5),
    "sin": (tf.sin, np.sin, 2.0),
    "cos": (tf.cos, np.cos, 2.0),
    "tan": (tf.tan, np.tan, 4.0),
    "softplus": (tf.nn.softplus, lambda x: np.logaddexp(x, 0), 3.0),
    "rsqrt": (tf.rsqrt, lambda x: 1 / np.sqrt(x), 2.0),
    "asin": (tf.asin, np.arcsin, 2.5),
    "acos": (tf.acos, np.arccos, 2.5),
    "atan": (tf.atan, np.arctan, 2.5),
    "sinh": (tf.sinh, np.sinh, 3.5),
    "cosh": (tf.cosh, np.cosh, 3.5),
    "asinh": (tf.asinh, np.arcsinh, 2.5),
    "acosh": (tf.acosh, np.arccosh, 2.5),
    "atanh": (tf.atanh, np.arctanh, 2.5),
    "erfc": (tf.erfc, special.erfc, 5.0),
    "erfinv": (tf.math.erfinv, special.erfinv, 4.0),
    "ndtri": (tf.math.ndtri, special.ndtri, 5.0),
    "bessel_i0e": (tf.math.bessel_i0e, special.i0e, 5.0),
    "bessel_i1e": (tf.math.bessel_i1e, special.i1e, 5.0),
}


def _of_each(function: Callable[[float], float]) -> Callable[[Any], Any]:
    """A function of the standard library for arrays; NumPy's and SciPy's have larger errors."""
    return lambda x: np.array([function(float(v)) for v in x], np.longdouble)


def _floats() -> np.ndarray:
    bits = np.arange(0, 2**32, _STRIDE, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1.1754944e-38, 3.4028235e38], np.float32)
    # Around 1 and 0, and in the middle of each function's range, denser than the bit patterns are.
    near = np.concatenate(
        [np.linspace(-105, 90, 100_001), 1 + np.linspace(-0.5, 1, 50_001), np.linspace(-1, 1, 50_001)]
    )
    floats = np.concatenate([bits.view(np.float32), edges, near.astype(np.float32)])
    return floats[(floats == 0) | ~(np.abs(floats) < _TINY)]


@pytest.mark.parametrize("name", CASES)
def test_error_is_a_few_units_in_the_last_place(name: str) -> None:
    function, reference, limit = CASES[name]
    x = _floats()
    with tf.Graph().as_default(), tf.Session() as session:
        placeholder = tf.placeholder(tf.float32, [None])
        got = session.run(function(placeholder), {placeholder: x})
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
        rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    # A result on the edge of overflow may round either way.
    edge = np.abs(np.where(np.isnan(exact), 0, exact)) > 3.4028e38
    np.testing.assert_array_equal(got[np.isinf(rounded) & ~edge], rounded[np.isinf(rounded) & ~edge])
    with np.errstate(over="ignore"):
        unit = np.spacing(np.abs(rounded[finite])).astype(np.float64)
    unit = np.maximum(unit, 1e-45)
    with np.errstate(all="ignore"):
        error = np.abs(got[finite].astype(np.float64) - exact[finite]) / unit
    error[(np.abs(rounded[finite]) < _TINY) & (got[finite] == 0)] = 0
    error = error[~edge[finite]]
    worst = int(np.argmax(error))
    at = x[finite][~edge[finite]][worst]
    assert error[worst] <= limit, f"{name}({at!r}) is off by {error[worst]:.2f} units"


_FAR = np.concatenate([10.0 ** np.linspace(-300, 300, 6001), 10.0 ** np.linspace(-18, 5, 60_001)])
_DOUBLES = np.concatenate(
    [_FAR, -_FAR, np.linspace(-750, 750, 200_001), np.linspace(-2, 2, 100_001), [0.0, -0.0, np.inf, -np.inf, np.nan]]
)
DOUBLE_CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (tf.exp, np.exp, 1.5),
    "expm1": (tf.expm1, np.expm1, 2.5),
    "log": (tf.log, np.log, 1.5),
    "log1p": (tf.log1p, np.log1p, 1.5),
    "tanh": (tf.tanh, np.tanh, 3.0),
    "sigmoid": (tf.sigmoid, lambda x: 1 / (1 + np.exp(-x)), 3.0),
    "sin": (tf.sin, np.sin, 2.0),
    "cos": (tf.cos, np.cos, 2.0),
    "tan": (tf.tan, np.tan, 4.0),
    "asin": (tf.asin, np.arcsin, 2.5),
    "acos": (tf.acos, np.arccos, 2.5),
    "atan": (tf.atan, np.arctan, 2.5),
    "sinh": (tf.sinh, np.sinh, 4.0),
    "cosh": (tf.cosh, np.cosh, 4.0),
    "asinh": (tf.asinh, np.arcsinh, 2.5),
    "acosh": (tf.acosh, np.arccosh, 2.5),
    "atanh": (tf.atanh, np.arctanh, 2.5),
    "erf": (tf.erf, _of_each(math.erf), 4.0),
    "erfc": (tf.erfc, _of_each(math.erfc), 5.0),
}


@pytest.mark.parametrize("name", DOUBLE_CASES)
def test_error_of_double_is_a_few_units_in_the_last_place(name: str) -> None:
    function, reference, limit = DOUBLE_CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        placeholder = tf.placeholder(tf.float64, [None])
        got = session.run(function(placeholder), {placeholder: _DOUBLES})
    with np.errstate(all="ignore"):
        exact = reference(_DOUBLES.astype(np.longdouble))
        rounded = exact.astype(np.float64)
        tiny = np.abs(rounded) < np.finfo(np.float64).tiny
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (tiny & (np.abs(got) < 1e-307))
        error = np.where(same, 0, np.abs(got - exact) / np.spacing(np.abs(rounded)))
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, error)))
    assert error[worst] <= limit, f"{name}({_DOUBLES[worst]!r}) is off by {error[worst]:.2f} units"


def test_the_logarithm_of_gamma_is_within_two_units_also_around_its_zeros() -> None:
    x = np.concatenate([10.0 ** np.linspace(-37, 36, 50_001), np.linspace(0.01, 20, 200_001)]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        placeholder = tf.placeholder(tf.float32, [None])
        got = session.run(tf.lgamma(placeholder), {placeholder: x})
    exact = special.gammaln(x.astype(np.float64))
    error = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert error.max() <= 2, f"lgamma({x[error.argmax()]!r}) is off by {error.max():.2f} units"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_angle_of_a_point_is_that_of_the_standard_library_also_in_the_corners(dtype: Any) -> None:
    special_values = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e38, -3e38], dtype)
    y, x = (part.ravel() for part in np.meshgrid(special_values, special_values))
    rng = np.random.default_rng(5)
    y = np.concatenate([y, rng.standard_normal(100_000).astype(dtype)])
    x = np.concatenate([x, rng.standard_normal(100_000).astype(dtype)])
    with tf.Graph().as_default(), tf.Session() as session:
        a, b = (tf.placeholder(dtype, [None]) for _ in range(2))
        got = session.run(tf.atan2(a, b), {a: y, b: x})
    exact = np.arctan2(y.astype(np.float64), x.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(exact[known]))
    # A quotient below the smallest normal number becomes 0.
    np.testing.assert_allclose(got[known], exact[known], 3 * np.finfo(dtype).eps, 1.2e-38)
