"""Cases of random ops: shapes, types and bad input. tests/ops/test_random.py has the values."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, covered_elsewhere, real

_SEED = np.array([1, 2])
_SHAPES = [np.array(s, np.int32) for s in ([3], [2, 5], [0], [2, 0, 3])] + [np.array([7], np.int64)]
_BAD_SHAPES = [np.array([-1], np.int32), np.array([[1]], np.int32), np.array([2**62, 2**62])]


def _raw(op: str) -> Any:
    return lambda shape, dtype: getattr(tf.raw_ops, op)(shape=shape, dtype=tf.as_dtype(dtype), seed=1, seed2=2)


for _op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    case(
        _op, _raw(_op), None, dtypes="float32",
        samples=[Args(s, d) for s in _SHAPES for d in ("float32", "float64", "float16", "bfloat16")],
        bad=[Bad(Args(s, "float32")) for s in _BAD_SHAPES],
    )  # fmt: skip
for _op, _function in (
    ("StatelessRandomUniform", tf.random.stateless_uniform), ("StatelessRandomNormal", tf.random.stateless_normal),
    ("StatelessTruncatedNormal", tf.random.stateless_truncated_normal),
):  # fmt: skip
    case(
        _op, lambda shape, seed, dtype, f=_function: f(shape, seed, dtype=dtype), None, dtypes="float32",
        samples=[Args(s, _SEED, d) for s in _SHAPES for d in ("float32", "float64", "float16", "bfloat16")],
        bad=[Bad(Args(s, _SEED, "float32")) for s in _BAD_SHAPES]
        + [Bad(Args(_SHAPES[0], np.array([1, 2, 3]), "float32"), match="[3]")],
    )  # fmt: skip
case(
    "RandomUniformInt",
    lambda shape, low, high: tf.random_uniform(shape, low, high, tf.as_dtype(low.dtype)),
    None,
    dtypes="int32 int64",
    samples=[Args(s, np.int64(-3) + np.zeros((), np.int64), np.array(5)) for s in _SHAPES],
    bad=[
        Bad(Args(_SHAPES[0], np.array(5), np.array(5)), match="5"),
        Bad(Args(_SHAPES[0], np.array([1]), np.array(5)), match="[1]"),
        Bad(Args(_BAD_SHAPES[0], np.array(1), np.array(5))),
    ],
)
case(
    "StatelessRandomUniformInt",
    lambda shape, seed, low, high: tf.random.stateless_uniform(shape, seed, low, high, tf.as_dtype(low.dtype)),
    None,
    dtypes="int32",
    samples=[Args(s, _SEED, np.array(-3), np.array(5)) for s in _SHAPES],
    bad=[Bad(Args(_SHAPES[0], _SEED, np.array(6), np.array(5)), match="6")],
)
case(
    "RandomShuffle", tf.random_shuffle, None, dtypes="float32 int8 bool string complex128",
    samples=[Args(real(5)), Args(real()), Args(real(4, 3)), Args(real(0, 2)), Args(real(2, 0)), Args(real(1, 3))],
)  # fmt: skip
case(
    "Multinomial", tf.multinomial, None, dtypes="float16 bfloat16 float32 float64 int32 uint8",
    samples=[Args(real(3, 4), np.array(5, np.int32)), Args(real(0, 4), 2), Args(real(3, 4), 0)],
    bad=[
        Bad(Args(real(3), np.array(5, np.int32)), match="[3]"),
        Bad(Args(real(3, 4), np.array(-1, np.int32)), match="-1"),
        Bad(Args(real(3, 0), np.array(2, np.int32)), match="0"),
        Bad(Args(real(3, 2), np.array([2], np.int32)), match="[1]"),
    ],
)  # fmt: skip
case(
    "StatelessMultinomial", tf.random.stateless_multinomial, None,
    samples=[Args(real(3, 4), np.array(5, np.int32), _SEED), Args(real(3, 4), 2, _SEED, tf.int32)],
    bad=[Bad(Args(real(3, 4), np.array(5, np.int32), np.array([1])), match="[1]")],
)  # fmt: skip
case(
    "RandomGamma", lambda s, a: tf.raw_ops.RandomGamma(shape=s, alpha=a), None, dtypes="float16 float32 float64",
    samples=[Args(s, real(2, 3, low=0.2, high=3)) for s in _SHAPES] + [Args(_SHAPES[0], real(0))],
    bad=[Bad(Args(s, real(2, low=1))) for s in _BAD_SHAPES],
)  # fmt: skip
case(
    "RandomPoisson", lambda s, r: tf.raw_ops.RandomPoisson(shape=s, rate=r), None, dtypes="float16 float32 float64",
    samples=[Args(s, real(2, low=0.2, high=30)) for s in _SHAPES],
)  # fmt: skip
case(
    "RandomPoissonV2", lambda s, r: tf.random_poisson(r, s, tf.int32), None, dtypes="float32 float64 int32 int64",
    samples=[Args(s, real(2, 3, low=0.2, high=30)) for s in _SHAPES] + [Args(_SHAPES[0], real(low=-3, high=-1))],
    bad=[Bad(Args(s, real(2, low=1))) for s in _BAD_SHAPES],
)  # fmt: skip
covered_elsewhere("tests/ops/test_py_func.py calls them", "PyFunc", "PyFuncStateless", "EagerPyFunc")
covered_elsewhere("tests/ops/test_printing.py looks at what they write", "Assert", "Print", "PrintV2", "Timestamp")
