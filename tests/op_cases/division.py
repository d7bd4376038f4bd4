"""Cases of quotients and remainders."""

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import INEXACT, REALS

INTEGERS = "uint8 int8 uint16 int16 int32 uint32 uint64 int64"
_PAIRS = [
    Args(real(2, 3), real(2, 3, low=0.6, high=3)),
    Args(real(2, 3), real(3, low=1, high=3)),
    Args(real(2, 1, 3), real(4, 1, low=1, high=3)),
    Args(real(), real(low=1, high=2)),
    Args(real(0), real(low=1, high=2)),
]
# Away from whole quotients, where a remainder jumps.
_SMOOTH = [Args(real(2, 3, low=0.2, high=0.9), real(3, low=1, high=3))]
_SHAPES = Bad(Args(real(2, 3), real(4, low=1)), match="[2,3] vs. [4]")
_BY_ZERO = Bad(Args(real(2), np.zeros(2, np.int32)), match="Integer division by zero", dtype="int32")

case("RealDiv", tf.realdiv, np.true_divide, samples=_PAIRS, bad=[_SHAPES], dtypes=INEXACT, order=2)
case(
    "RealDiv",
    tf.truediv,
    lambda x, y: x.astype(np.float64) / y,
    samples=_PAIRS,
    bad=[_SHAPES],
    dtypes="int32 uint32 int64 uint64",
)
case("RealDiv", tf.truediv, lambda x, y: x.astype(np.float32) / y, samples=_PAIRS, dtypes="uint8 int8 uint16 int16")
case(
    "Div", lambda x, y: tf.raw_ops.Div(x=x, y=y), np.true_divide, samples=_PAIRS, bad=[_SHAPES], dtypes=INEXACT, order=2
)
case(
    "Div",
    lambda x, y: tf.raw_ops.Div(x=x, y=y),
    lambda x, y: np.trunc(x / y).astype(x.dtype),
    samples=_PAIRS,
    bad=[_BY_ZERO],
    dtypes="int32 int64 int8 uint8",
)
case("DivNoNan", tf.div_no_nan, np.true_divide, samples=_PAIRS, bad=[_SHAPES], dtypes=INEXACT, order=2)
case(
    "DivNoNan",
    tf.div_no_nan,
    lambda x, y: np.array([0.0, 0.0, 1.0]),
    samples=[Args(np.array([1.0, np.inf, 2.0]), np.array([0.0, 0.0, 2.0]))],
)
case("FloorDiv", tf.floor_div, np.floor_divide, samples=_PAIRS, bad=[_SHAPES, _BY_ZERO], dtypes=REALS)
case(
    "FloorDiv",
    tf.floordiv,
    np.floor_divide,
    samples=[Args(np.array([-7, 7, -7, 7, 6], np.int32), np.array([2, -2, -2, 2, 3], np.int32))],
)
case("FloorDiv", tf.div, np.floor_divide, samples=_PAIRS, bad=[_BY_ZERO], dtypes=INTEGERS)
case(
    "FloorDiv",
    tf.floordiv,
    lambda x, y: np.array([-(2**31)], np.int32),
    samples=[Args(np.array([-(2**31)], np.int32), np.array([-1], np.int32))],
)
case(
    "TruncateDiv",
    tf.truncatediv,
    lambda x, y: np.trunc(x / y).astype(x.dtype),
    samples=_PAIRS,
    bad=[_SHAPES, _BY_ZERO],
    dtypes=REALS,
)
case(
    "TruncateDiv",
    tf.truncatediv,
    lambda x, y: np.array([-(2**63)], np.int64),
    samples=[Args(np.array([-(2**63)], np.int64), np.array([-1], np.int64))],
)
case("FloorMod", tf.floormod, np.mod, samples=_PAIRS, bad=[_SHAPES, _BY_ZERO], dtypes=REALS)
case("FloorMod", tf.mod, np.mod, samples=_SMOOTH, order=1)
case(
    "FloorMod",
    tf.floormod,
    lambda x, y: np.array([0, 1, -1, 1, -1], np.int8),
    samples=[Args(np.array([-128, -7, 7, 7, -7], np.int8), np.array([-1, 2, -2, 2, -2], np.int8))],
)
_MOD = "int32 int64 float16 bfloat16 float32 float64"
case("Mod", lambda x, y: tf.raw_ops.Mod(x=x, y=y), np.fmod, samples=_PAIRS, bad=[_SHAPES, _BY_ZERO], dtypes=_MOD)
case("Mod", lambda x, y: tf.raw_ops.Mod(x=x, y=y), np.fmod, samples=_SMOOTH, order=1)
case("TruncateMod", tf.truncatemod, np.fmod, samples=_PAIRS, bad=[_SHAPES, _BY_ZERO], dtypes=_MOD)
case("TruncateMod", tf.truncatemod, np.fmod, samples=_SMOOTH, order=1)
