"""Float functions against float64 over the whole range of float: error in units in the last place, special values."""

from __future__ import annotations

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
}


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
