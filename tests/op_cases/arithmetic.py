"""Cases of sums, differences, products and their relatives."""

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

NUMBERS = "uint8 int8 uint16 int16 int32 uint32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128"
INEXACT = "float16 bfloat16 float32 float64 complex64 complex128"
FLOATS = "float16 bfloat16 float32 float64"
REALS = "uint8 int8 uint16 int16 int32 uint32 uint64 int64 float16 bfloat16 float32 float64"
# Equal shapes, scalars on either side, both sides stretched, high ranks, nothing at all.
PAIRS = [
    Args(real(2, 3), real(2, 3)),
    Args(real(), real()),
    Args(real(2, 3), real()),
    Args(real(), real(3)),
    Args(real(2, 1, 3), real(4, 1)),
    Args(real(1), real(2, 0)),
    Args(real(2, 1, 2, 1, 2, 1), real(1, 3, 1, 2, 1, 2)),
    Args(real(0), real(0)),
]
BAD_PAIRS = [
    Bad(Args(real(2, 3), real(4)), match="[2,3] vs. [4]"),
    Bad(Args(real(2), real(3, 3)), match="Incompatible"),
]
ONE = [Args(real(2, 3)), Args(real()), Args(real(0, 2)), Args(real(1, 2, 1, 3, 1, 2))]


case(
    "Add",
    lambda x, y: tf.raw_ops.Add(x=x, y=y),
    np.add,
    samples=PAIRS,
    bad=BAD_PAIRS,
    order=2,
    dtypes="uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
)
case("Add", tf.add, lambda x, y: np.array(x + y, object), samples=PAIRS, bad=BAD_PAIRS, dtypes="string")
case("AddV2", tf.add, np.add, samples=PAIRS, bad=BAD_PAIRS, dtypes=NUMBERS, order=2)
case("Sub", tf.subtract, np.subtract, samples=PAIRS, bad=BAD_PAIRS, dtypes=NUMBERS, order=2)
case("Mul", tf.multiply, np.multiply, samples=PAIRS, bad=BAD_PAIRS, dtypes=NUMBERS, order=2)
case(
    "Neg",
    tf.negative,
    np.negative,
    samples=ONE,
    order=2,
    dtypes="int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
)
case("Square", tf.square, np.square, samples=ONE, dtypes=NUMBERS, order=2)
case(
    "SquaredDifference",
    tf.squared_difference,
    lambda x, y: (x - y) * np.conj(x - y),
    samples=PAIRS,
    bad=BAD_PAIRS,
    dtypes="int32 int64 float16 bfloat16 float32 float64 complex64 complex128",
    order=2,
)


def mul_no_nan(x, y):
    return np.where(y == 0, np.zeros_like(x), x * y)


case("MulNoNan", tf.math.multiply_no_nan, mul_no_nan, samples=PAIRS, bad=BAD_PAIRS, dtypes=INEXACT, order=2)
case(
    "MulNoNan",
    tf.math.multiply_no_nan,
    lambda x, y: np.zeros(2, x.dtype),
    samples=[Args(np.array([np.inf, np.nan], np.float32), np.zeros(2, np.float32))],
    dtypes="float32",
)

case(
    "AddN",
    lambda *xs: tf.add_n(list(xs)),
    lambda *xs: np.asarray(sum(xs), xs[0].dtype),
    samples=[
        Args(real(2, 3), real(2, 3)),
        Args(real(3), real(3), real(3), real(3)),
        Args(real(), real()),
        Args(real(3000), real(3000), real(3000)),
        Args(real(0), real(0)),
    ],
    bad=[Bad(Args(real(2), real(3)), match="[2] != input 1: [3]"), Bad(Args(real(2), real(1)), match="same size")],
    dtypes=NUMBERS,
    order=2,
    tolerance=1e-5,
)
case(
    "AccumulateNV2",
    lambda x, y: tf.raw_ops.AccumulateNV2(inputs=[x, y], shape=[2]),
    lambda x, y: x + y,
    samples=[Args(real(2), real(2))],
    bad=[Bad(Args(real(2), real(3)), match="[3]")],
    dtypes=NUMBERS,
    order=2,
)


case("Maximum", tf.maximum, np.maximum, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS, order=1)
case("Minimum", tf.minimum, np.minimum, samples=PAIRS, bad=BAD_PAIRS, dtypes=REALS, order=1)

_BASES = real(2, 3, low=0.2, high=3)
case(
    "Pow",
    tf.pow,
    np.power,
    samples=[Args(_BASES, real(2, 3)), Args(_BASES, real(3)), Args(real(low=0.5), real(2))],
    bad=BAD_PAIRS,
    dtypes="float32 float64 complex64 complex128",
    order=2,
    tolerance=1e-4,
)
case(
    "Pow",
    tf.pow,
    np.power,
    samples=[Args(real(2, 3), real(2, 3, low=0, high=4)), Args(real(), real(2, low=0, high=9))],
    bad=[Bad(Args(real(2), real(2, low=-3, high=-1)), match="negative integer powers")],
    dtypes="int8 int16 int32 int64",
)
case("Pow", lambda x: x**2, lambda x: x**2, samples=ONE, dtypes="float16 bfloat16 float32 float64 complex64", order=2)
case("Pow", lambda x: x**3.0, lambda x: x**3.0, samples=ONE, dtypes="float32 float64", order=2)
case("Pow", lambda x: x**-1.0, lambda x: x**-1.0, samples=[Args(real(3, low=0.5))], dtypes="float32 float64", order=2)
case("Pow", lambda x: x**0.5, lambda x: x**0.5, samples=[Args(real(3, low=0.5))], dtypes="float32 float64", order=2)

_AT_ZERO = np.array([0.0, 0.0, 2.0], np.float32), np.array([0.0, 1.0, 3.0], np.float32)
_POSITIVE = [
    Args(real(2, 3, low=0.3), real(2, 3, low=0.3, high=3)),
    Args(real(2, 3, low=0.3), real(3, low=0.4, high=3)),
    Args(real(low=0.3), real(low=0.2)),
]
case("Xdivy", tf.math.xdivy, lambda x, y: x / y, samples=_POSITIVE, bad=BAD_PAIRS, dtypes=INEXACT, order=2)
case("Xdivy", tf.math.xdivy, lambda x, y: np.array([0, 0, 2 / 3], np.float32), samples=[Args(*_AT_ZERO)])
case(
    "Xlogy",
    tf.math.xlogy,
    lambda x, y: x * np.log(y),
    samples=_POSITIVE,
    bad=BAD_PAIRS,
    order=2,
    dtypes="float32 float64 complex64 complex128",
)
case("Xlogy", tf.math.xlogy, lambda x, y: np.array([0, 0, 2 * np.log(3)], np.float32), samples=[Args(*_AT_ZERO)])
case(
    "Xlog1py",
    tf.math.xlog1py,
    lambda x, y: x * np.log1p(y),
    samples=_POSITIVE,
    bad=BAD_PAIRS,
    order=2,
    dtypes="float32 float64 complex64 complex128",
)
case("Atan2", tf.atan2, np.arctan2, samples=[*PAIRS[:5], PAIRS[7]], bad=BAD_PAIRS, dtypes=FLOATS, order=2)
case("NextAfter", tf.math.nextafter, np.nextafter, samples=PAIRS, bad=BAD_PAIRS, order=1, tolerance=0.0)
