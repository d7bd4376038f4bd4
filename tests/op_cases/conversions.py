"""Cases of casts, complex numbers, selection, sequences and clipping."""

import ml_dtypes
import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import NUMBERS, REALS

_ALL = [*NUMBERS.split(), "bool"]
_ONE = [Args(real(2, 3)), Args(real()), Args(real(0)), Args(real(1500, low=-90, high=90))]


def _to(target):
    kind = tf.as_dtype(target).as_numpy_dtype

    def reference(x):
        if x.dtype.kind == "c" and np.dtype(kind).kind != "c":
            x = x.real
        if np.dtype(kind).kind in "iu" and x.dtype.kind not in "iub":
            x = np.trunc(x.astype(np.float64)).astype(np.int64)  # C's conversion of a negative number.
        return x.astype(kind)

    return reference


for _target in _ALL:
    case(
        "Cast",
        lambda x, target=_target: tf.cast(x, target),
        _to(_target),
        samples=_ONE,
        dtypes=" ".join(_ALL),
        order=2 if _target == "float64" else 0,
    )
case("Cast", lambda x: tf.cast(tf.cast(x, tf.float32), tf.float64), lambda x: x, samples=[Args(np.float32([1.5, -2]))])
_OUT = np.array([1e10, -1e10, np.nan, np.inf, 3.7, -3.7], np.float32)
_LOWEST = -(2**31)
case(
    "Cast", lambda x: tf.cast(x, tf.int32), lambda x: np.array([_LOWEST] * 4 + [3, -3], np.int32), samples=[Args(_OUT)]
)
case(
    "Cast",
    lambda x: tf.cast(x, tf.uint64),
    lambda x: np.array([2**63 + 2**40, 2**64 - 1, 5], np.uint64),
    samples=[Args(np.array([2.0**63 + 2.0**40, -1, 5.5], np.float32))],
)
case(
    "Cast", lambda x: tf.cast(tf.cast(x, tf.qint8), tf.int32), lambda x: x, samples=[Args(np.array([1, -5], np.int32))]
)
case(
    "Cast",
    lambda x: tf.raw_ops.Cast(x=x, DstT=tf.bfloat16, Truncate=True),
    lambda x: np.array([1.0, 3.0], ml_dtypes.bfloat16),
    samples=[Args(np.array([1.007, 3.015], np.float32))],
    tolerance=0.0,
)
case(
    "Cast",
    lambda x: tf.cast(x, tf.float32),
    None,
    samples=[],
    bad=[Bad(Args(np.array([b"1"], object)), match="Cast string to float")],
)
case(
    "Bitcast",
    lambda x: tf.bitcast(x, tf.uint8),
    lambda x: x[..., None].view(np.uint8),
    samples=[Args(real(2, 3)), Args(real()), Args(real(0))],
    dtypes="int16 float32 float64 complex128",
)
case(
    "Bitcast",
    lambda x: tf.bitcast(x, tf.int32),
    lambda x: x.view(np.int32),
    samples=[Args(real(2, 3)), Args(real(0))],
    dtypes="float32 uint32",
)
case(
    "Bitcast",
    lambda x: tf.bitcast(x, tf.float64),
    lambda x: x.view(np.float64)[..., 0],
    samples=[Args(real(3, 2))],
    bad=[Bad(Args(real(3)), match="must be 2"), Bad(Args(real()), match="must be 2")],
    dtypes="int32 float32",
)

_PARTS = [Args(real(2, 3), real(2, 3)), Args(real(2, 3), real(3)), Args(real(), real()), Args(real(0), real())]
_SHAPES = Bad(Args(real(2), real(3)), match="[2] vs. [3]")
case(
    "Complex",
    tf.complex,
    lambda x, y: x + y.dtype.type(1) * (1j * y).astype(np.result_type(y, np.complex64)),
    samples=_PARTS,
    bad=[_SHAPES],
    order=2,
)
_COMPLEX = "complex64 complex128"
_NUMBER = [Args(real(2, 3)), Args(real()), Args(real(0))]
case("Real", tf.real, np.real, samples=_NUMBER, dtypes=_COMPLEX)
case("Imag", tf.imag, np.imag, samples=_NUMBER, dtypes=_COMPLEX)
case("Conj", tf.conj, np.conj, samples=_NUMBER, dtypes=_COMPLEX)
case("Angle", tf.angle, np.angle, samples=_NUMBER, dtypes=_COMPLEX)
case("Real", lambda x, y: tf.real(tf.complex(x, y)), lambda x, y: x, samples=_PARTS[:1], order=1)
case("Imag", lambda x, y: tf.imag(tf.square(tf.complex(x, y))), lambda x, y: 2 * x * y, samples=_PARTS[:1], order=2)
case(
    "Conj",
    lambda x, y: tf.conj(tf.complex(x, y)),
    lambda x, y: x - 1j * y,
    samples=_PARTS[:1],
    order=2,
    dtypes="float64",
)
case("Angle", lambda x, y: tf.angle(tf.complex(x, y)), lambda x, y: np.arctan2(y, x), samples=_PARTS[:1], order=2)

_TRUE = np.array([[True, False, True], [False, True, True]])
_ROWS = np.array([True, False])
_ANY = NUMBERS + " bool string"
_BRANCHES = [
    Args(_TRUE, real(2, 3), real(2, 3)),
    Args(np.array(True), real(2, 3), real(2, 3)),
    Args(np.array(False), real(), real()),
    Args(_ROWS, real(2, 3, 2), real(2, 3, 2)),
    Args(np.zeros(0, bool), real(0, 3), real(0, 3)),
]
case(
    "Select",
    tf.where,
    lambda c, x, y: np.where(c.reshape(c.shape + (1,) * (x.ndim - c.ndim)), x, y),
    samples=_BRANCHES,
    bad=[
        Bad(Args(_TRUE, real(2, 3), real(3, 2)), match="[2,3] vs. [3,2]"),
        Bad(Args(_ROWS, real(3), real(3)), match="[2]"),
        Bad(Args(_TRUE, real(2), real(2)), match="[2,3]"),
        Bad(Args(_ROWS, real(), real()), match="[2]"),
    ],
    dtypes=_ANY,
    order=2,
)
case(
    "SelectV2",
    tf.where_v2,
    np.where,
    samples=[
        Args(_TRUE, real(2, 3), real(2, 3)),
        Args(_TRUE, real(3), real(2, 1)),
        Args(_TRUE, real(), real(3)),
        Args(_TRUE, real(2, 3), real()),
        Args(np.array(True), real(4, 1, 3), real(2, 1)),
        Args(np.zeros((0, 1), bool), real(3), real()),
    ],
    bad=[Bad(Args(_TRUE, real(2), real()), match="vs. [2]"), Bad(Args(_ROWS, real(3), real()), match="[3]")],
    dtypes=_ANY,
    order=2,
)


def _clip(t, low, high):
    return tf.raw_ops.ClipByValue(t=t, clip_value_min=low, clip_value_max=high)


_LIMITS = [
    Args(real(3, 4, low=-4, high=4), real(low=-1, high=0), real(low=1, high=2)),
    Args(real(3, 4), real(3, 4, low=-1, high=0), real(3, 4, low=1, high=2)),
    Args(real(0), real(), real()),
]
case(
    "ClipByValue",
    _clip,
    lambda t, low, high: np.maximum(np.minimum(t, high), low),
    samples=_LIMITS,
    bad=[Bad(Args(real(3), real(2), real()), match="clip_value_min"), Bad(Args(real(3), real(), real(4)), match="[4]")],
    dtypes=REALS,
    order=2,
)
case("Maximum", tf.clip_by_value, lambda t, low, high: np.maximum(np.minimum(t, high), low), samples=_LIMITS, order=1)

_SCALARS = [np.int32, np.int64, np.float32, np.float64, np.int8, np.uint16]
case(
    "Range",
    tf.range,
    lambda a, b, c: np.arange(a, b, c, dtype=a.dtype),
    samples=[Args(k(3), k(18), k(3)) for k in map(lambda t: lambda v: np.array(v, t), _SCALARS)]
    + [Args(*map(np.int32, (5, -3, -2))), Args(*map(np.int64, (2, 2, 7))), Args(*map(np.float32, (0, 1, 0.3)))],
    bad=[
        Bad(Args(*(np.array(v, np.int32) for v in (5, 2, 1))), match="5/2"),
        Bad(Args(*(np.array(v, np.int32) for v in (1, 2, -1))), match="1/2"),
        Bad(Args(*(np.array(v, np.int32) for v in (1, 2, 0))), match="delta != 0"),
        Bad(Args(*(np.array(v, np.float32) for v in (1, np.nan, 1))), match="number of elements"),
        Bad(Args(*(np.array(v, np.float32) for v in (0, np.inf, 1))), match="number of elements"),
        Bad(Args(np.zeros(2, np.int32), np.array(3, np.int32), np.array(1, np.int32)), match="start must be a scalar"),
    ],
    tolerance=1e-6,
)
case(
    "LinSpace",
    tf.linspace,
    lambda a, b, n: np.linspace(a, b, n).astype(a.dtype),
    samples=[Args(real(), real(), np.array(5, np.int32)), Args(real(), real(), np.array(1, np.int64))],
    bad=[
        Bad(Args(real(), real(), np.array(0, np.int32)), match="num > 0"),
        Bad(Args(real(2), real(), np.array(3, np.int32)), match="start must be a scalar"),
    ],
    dtypes="float16 bfloat16 float32 float64",
    order=2,
)
