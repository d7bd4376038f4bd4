"""Cases of comparisons, logic and bits."""

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import BAD_PAIRS, NUMBERS, PAIRS, REALS
from tests.op_cases.division import INTEGERS

case("Less", tf.less, np.less, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS)
case("LessEqual", tf.less_equal, np.less_equal, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS)
case("Greater", tf.greater, np.greater, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS)
case("GreaterEqual", tf.greater_equal, np.greater_equal, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS)
_NAN = Args(np.array([np.nan, 1.0, -0.0]), np.array([np.nan, np.nan, 0.0]))
case("LessEqual", tf.less_equal, np.less_equal, samples=[_NAN])
case("Greater", tf.greater, np.greater, samples=[_NAN])
case("Equal", tf.equal, np.equal, samples=PAIRS, bad=BAD_PAIRS, dtypes=NUMBERS + " bool string")
case("Equal", tf.equal, np.equal, samples=[_NAN])
case("NotEqual", tf.not_equal, np.not_equal, samples=PAIRS, bad=BAD_PAIRS, dtypes=NUMBERS + " bool string")
case(
    "Equal",
    lambda x, y: tf.raw_ops.Equal(x=x, y=y, incompatible_shape_error=False),
    lambda x, y: np.array(False),
    samples=[Args(real(2), real(3))],
)
case(
    "NotEqual",
    lambda x, y: tf.raw_ops.NotEqual(x=x, y=y, incompatible_shape_error=False),
    lambda x, y: np.array(True),
    samples=[Args(real(2), real(3))],
)
case(
    "ApproximateEqual",
    lambda x, y: tf.approximate_equal(x, y, tolerance=0.75),
    lambda x, y: np.abs(x.astype(complex) - y.astype(complex)) < 0.75,
    samples=[Args(real(20), real(20)), Args(real(), real()), Args(real(0), real(0))],
    bad=[Bad(Args(real(2), real(3)), match="same shape")],
    dtypes=NUMBERS,
)

case("LogicalAnd", tf.logical_and, np.logical_and, samples=PAIRS, bad=BAD_PAIRS, dtypes="bool")
case("LogicalAnd", tf.logical_xor, np.logical_xor, samples=PAIRS, dtypes="bool")
case("LogicalOr", tf.logical_or, np.logical_or, samples=PAIRS, bad=BAD_PAIRS, dtypes="bool")
case(
    "LogicalNot", tf.logical_not, np.logical_not, samples=[Args(real(2, 3)), Args(real()), Args(real(0))], dtypes="bool"
)

_BITS = [
    Args(real(4, 5, low=-100, high=100), real(4, 5, low=-100, high=100)),
    Args(real(3, high=90), real()),
    PAIRS[-1],
]
case("BitwiseAnd", tf.bitwise.bitwise_and, np.bitwise_and, samples=_BITS, bad=BAD_PAIRS, dtypes=INTEGERS)
case("BitwiseOr", tf.bitwise.bitwise_or, np.bitwise_or, samples=_BITS, bad=BAD_PAIRS, dtypes=INTEGERS)
case("BitwiseXor", tf.bitwise.bitwise_xor, np.bitwise_xor, samples=_BITS, bad=BAD_PAIRS, dtypes=INTEGERS)
case(
    "Invert", tf.bitwise.invert, np.invert, samples=[Args(real(9, low=-100, high=100)), Args(real(0))], dtypes=INTEGERS
)


def _limited(y, dtype):
    return np.clip(y, 0, dtype.itemsize * 8 - 1).astype(dtype)


_SHIFTS = [
    Args(real(5, low=-100, high=100), real(5, low=0, high=7)),
    Args(real(5, low=-100, high=100), real(5, low=-100, high=100)),
    Args(real(0), real()),
]
case(
    "LeftShift",
    tf.bitwise.left_shift,
    lambda x, y: np.left_shift(x, _limited(y, x.dtype)),
    samples=_SHIFTS,
    bad=BAD_PAIRS,
    dtypes=INTEGERS,
)
case(
    "RightShift",
    tf.bitwise.right_shift,
    lambda x, y: np.right_shift(x, _limited(y, x.dtype)),
    samples=_SHIFTS,
    bad=BAD_PAIRS,
    dtypes=INTEGERS,
)


def _population(x):
    bits = np.unpackbits(np.ascontiguousarray(x).reshape(-1).view(np.uint8))
    return bits.reshape(*x.shape, -1).sum(-1).astype(np.uint8) if x.size else np.zeros(x.shape, np.uint8)


case(
    "PopulationCount",
    lambda x: tf.raw_ops.PopulationCount(x=x),
    _population,
    samples=[Args(real(2, 3, low=-100, high=100)), Args(real()), Args(real(0))],
    dtypes=INTEGERS,
)
