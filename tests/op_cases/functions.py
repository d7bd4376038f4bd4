"""Cases of functions of one argument: roots, rounding, exponentials, trigonometry, activations."""

import numpy as np
from scipy import special

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.op_cases.arithmetic import FLOATS, INEXACT, ONE, REALS

_POSITIVE = [Args(real(2, 3, low=0.2, high=4)), Args(real(low=0.5)), Args(real(0, low=1))]
_WIDE = "float32 float64 complex64 complex128"  # NumPy has these functions for no 16-bit type of ml_dtypes' accuracy.
_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 2e-38, 1e38, -1e38, 88.5, -103.5], np.float32)
_SIGNED = "int8 int16 int32 int64 float16 bfloat16 float32 float64"


def _smooth(op, call, reference, samples=ONE, dtypes=INEXACT, **options):
    case(op, call, reference, samples=samples, dtypes=dtypes, order=2, **options)


case("Abs", tf.abs, np.abs, samples=ONE, dtypes=_SIGNED, order=2)
case("ComplexAbs", tf.abs, np.abs, samples=ONE, dtypes="complex64 complex128")
case("ComplexAbs", lambda x, y: tf.abs(tf.complex(x, y)), np.hypot, samples=[Args(real(2, 3), real(2, 3))], order=2)
case(
    "Sign",
    lambda x, y: tf.sign(tf.complex(x, y)),
    lambda x, y: (x + 1j * y) / np.hypot(x, y),
    samples=[Args(real(2, 3), real(2, 3))],
    dtypes="float64",
    order=2,
)
case("Sign", tf.sign, lambda x: x / np.abs(x), samples=[Args(real(2, 3))], dtypes="complex64 complex128")
case("Sign", tf.sign, np.sign, samples=[*ONE, Args(np.array([-0.0, np.nan, -5]))], dtypes=_SIGNED)
_smooth("Sqrt", tf.sqrt, np.sqrt, _POSITIVE)
_smooth("Rsqrt", tf.rsqrt, lambda x: 1 / np.sqrt(x), _POSITIVE)
_smooth("Reciprocal", tf.reciprocal, lambda x: 1 / x, _POSITIVE)
_smooth("Inv", lambda x: tf.raw_ops.Inv(x=x), lambda x: 1 / x, _POSITIVE)
_PAIR = [Args(real(2, 3, low=0.3), real(2, 3)), Args(real(low=0.3), real())]
_PAIR_BAD = [Bad(Args(real(2), real(3)), match="[2] vs. [3]")]


def _grad(op, reference, dtypes=INEXACT, first="y", second="dy", **options):
    def call(a, b):
        return getattr(tf.raw_ops, op)(**{first: a, second: b})

    case(op, call, reference, samples=_PAIR, bad=_PAIR_BAD, dtypes=dtypes, **{"order": 2, **options})


_grad("SqrtGrad", lambda y, dy: dy * y.dtype.type(0.5) / np.conj(y))
_grad("RsqrtGrad", lambda y, dy: dy * y.dtype.type(-0.5) * np.conj(y) ** 3, tolerance=1e-4)
_grad("ReciprocalGrad", lambda y, dy: -dy * np.conj(y) ** 2)
_grad("InvGrad", lambda y, dy: -dy * np.conj(y) ** 2)
_grad("TanhGrad", lambda y, dy: dy * (1 - y * y))
_grad("SigmoidGrad", lambda y, dy: dy * y * (1 - y))

for _op, _call, _reference in (
    ("Ceil", tf.ceil, np.ceil),
    ("Floor", tf.floor, np.floor),
    ("Rint", tf.rint, np.rint),
    ("Round", tf.round, np.round),
):
    _halves = Args(np.array([0.5, 1.5, -0.5, -2.5, np.inf], np.float64))
    case(_op, _call, _reference, samples=[*ONE, _halves], dtypes=FLOATS)
case("Round", lambda x: tf.raw_ops.Round(x=x), lambda x: x, samples=ONE, dtypes="int8 int16 int32 int64")
_CLASSES = [*ONE, Args(_SPECIAL), Args(_SPECIAL.astype(np.float64)), Args(np.float16([0, np.inf, np.nan, 1]))]
case("IsNan", tf.is_nan, np.isnan, samples=_CLASSES, dtypes=FLOATS)
case("IsInf", tf.is_inf, np.isinf, samples=_CLASSES, dtypes=FLOATS)
case("IsFinite", tf.is_finite, np.isfinite, samples=_CLASSES, dtypes=FLOATS)

_smooth("Exp", tf.exp, np.exp)
_smooth("Expm1", tf.expm1, np.expm1)
_smooth("Log", tf.log, np.log, _POSITIVE)
_smooth("Log1p", tf.log1p, np.log1p, _POSITIVE)
_smooth("Sin", tf.sin, np.sin)
_smooth("Cos", tf.cos, np.cos)
_smooth("Tan", tf.tan, np.tan, [Args(real(2, 3, low=-1.2, high=1.2)), Args(real(0))], tolerance=1e-4)
case("Sin", tf.sin, np.sin, samples=[Args(np.array([1e4, -3e7, 1e30, 3.0], np.float32))], dtypes="float32")
case("Cos", tf.cos, np.cos, samples=[Args(np.array([1e4, -3e7, 1e30, 3.0], np.float32))], dtypes="float32")
_UNIT = [Args(real(2, 3, low=-0.8, high=0.8)), Args(real(low=0.1, high=0.5)), Args(real(0))]
_smooth("Asin", tf.asin, np.arcsin, _UNIT, _WIDE)
_smooth("Acos", tf.acos, np.arccos, _UNIT, _WIDE)
_smooth("Atan", tf.atan, np.arctan, ONE, "float32 float64")
_smooth("Atan", tf.atan, np.arctan, _UNIT, _WIDE)
_smooth("Sinh", tf.sinh, np.sinh)
_smooth("Cosh", tf.cosh, np.cosh)
_smooth("Tanh", tf.tanh, np.tanh)
_smooth("Asinh", tf.asinh, np.arcsinh, ONE, _WIDE)
_smooth("Acosh", tf.acosh, np.arccosh, [Args(real(2, 3, low=1.3, high=4)), Args(real(low=2, high=3))], _WIDE)
_smooth("Atanh", tf.atanh, np.arctanh, _UNIT, _WIDE)
_smooth("Sigmoid", tf.sigmoid, lambda x: 1 / (1 + np.exp(-x)))
for _op, _call, _reference in (
    ("Exp", tf.exp, np.exp),
    ("Log", tf.log, np.log),
    ("Expm1", tf.expm1, np.expm1),
    ("Log1p", tf.log1p, np.log1p),
    ("Tanh", tf.tanh, np.tanh),
    ("Sigmoid", tf.sigmoid, special.expit),
    ("Erf", tf.erf, special.erf),
    ("Sin", tf.sin, np.sin),
    ("Cos", tf.cos, np.cos),
    ("Tan", tf.tan, np.tan),
):
    case(_op, _call, _reference, samples=[Args(_SPECIAL)], dtypes="float32")

_smooth("Erf", tf.erf, special.erf, dtypes="float32 float64")
_smooth("Erfc", tf.erfc, special.erfc, dtypes="float32 float64")

# --- Activations: away from their kinks -------------------------------------------------------------------------------
case("Relu", tf.nn.relu, lambda x: np.maximum(x, x.dtype.type(0)), samples=ONE, dtypes=REALS, order=2)
case(
    "Relu6",
    tf.nn.relu6,
    lambda x: np.clip(x, x.dtype.type(0), x.dtype.type(6)),
    dtypes=REALS,
    order=2,
    samples=[Args(real(3, 4, low=-9, high=9)), Args(real(0))],
)
case("Elu", tf.nn.elu, lambda x: np.where(x < 0, np.expm1(x), x), samples=ONE, dtypes=FLOATS, order=2)
_ALPHA, _SCALE = 1.6732632423543772, 1.0507009873554805
case(
    "Selu",
    tf.nn.selu,
    lambda x: np.where(x < 0, _SCALE * _ALPHA * np.expm1(x), _SCALE * x),
    samples=ONE,
    dtypes="float32 float64",
    order=2,
)
case("Softplus", tf.nn.softplus, lambda x: np.logaddexp(x, x.dtype.type(0)), samples=ONE, order=2)
case("Softsign", tf.nn.softsign, lambda x: x / (1 + np.abs(x)), samples=ONE, dtypes=FLOATS, order=2)
case(
    "LeakyRelu",
    tf.nn.leaky_relu,
    lambda x: np.where(x > 0, x, x * x.dtype.type(0.2)),
    samples=ONE,
    dtypes=FLOATS,
    order=2,
)
case(
    "LeakyRelu",
    lambda x: tf.nn.leaky_relu(x, 0.01),
    lambda x: np.where(x > 0, x, x * 0.01),
    samples=ONE,
    order=2,
    tolerance=1e-4,
)


def _activation_grad(op, reference, dtypes=FLOATS, second="features", order=2):
    _grad(op, reference, dtypes, "gradients", second, order=order, grad_tolerance=1e-4)


_activation_grad("ReluGrad", lambda g, x: np.where(x > 0, g, 0).astype(g.dtype), REALS)
_activation_grad("Relu6Grad", lambda g, x: np.where((x > 0) & (x < 6), g, 0).astype(g.dtype), REALS)
_activation_grad("EluGrad", lambda g, y: np.where(y < 0, g * (y + 1), g), second="outputs")
_activation_grad(
    "SeluGrad", lambda g, y: np.where(y < 0, g * (y + _SCALE * _ALPHA), g * _SCALE), "float32 float64", "outputs"
)
_activation_grad("SoftplusGrad", lambda g, x: g / (1 + np.exp(-x)))
_activation_grad("SoftsignGrad", lambda g, x: g / (1 + np.abs(x)) ** 2)


def _leaky_grad(gradients, features):
    return tf.raw_ops.LeakyReluGrad(gradients=gradients, features=features, alpha=0.25)


case(
    "LeakyReluGrad",
    _leaky_grad,
    lambda g, x: np.where(x > 0, g, g * g.dtype.type(0.25)),
    samples=_PAIR,
    bad=[Bad(Args(real(2), real(3)), match="[3]")],
    dtypes=FLOATS,
    order=2,
)
