"""Cases of the special functions, against SciPy."""

import numpy as np
from scipy import special

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

_POSITIVE = [Args(real(2, 3, low=0.1, high=6)), Args(real(low=1, high=2)), Args(real(0))]
_BAD = [Bad(Args(real(2), real(3)), match="[2] vs. [3]")]
_PAIRS = [
    Args(real(2, 3, low=0.2, high=8), real(2, 3, low=0.2, high=8)),
    Args(real(low=1), real(3, low=0.5, high=4)),
    Args(real(2, 1, low=0.5, high=30), real(3, low=10, high=40)),
    Args(real(0), real()),
]
_TIGHT = {"tolerance": 1e-8}


def f64(*values):
    return np.array(values, np.float64)


case(
    "Erfinv",
    tf.math.erfinv,
    special.erfinv,
    samples=[Args(real(3, 4, low=-0.99, high=0.99)), Args(real(0))],
    order=2,
    grad_tolerance=1e-3,
)
case(
    "Erfinv",
    tf.math.erfinv,
    special.erfinv,
    dtypes="float64",
    **_TIGHT,
    samples=[Args(f64(0, -0.0, 1, -1, 1e-300, 0.5, -0.5000001, 1 - 1e-15, 2, np.nan, np.inf))],
)
case(
    "Ndtri",
    tf.math.ndtri,
    special.ndtri,
    samples=[Args(real(3, 4, low=0.01, high=0.99)), Args(real(0))],
    order=2,
    grad_tolerance=1e-3,
)
case(
    "Ndtri",
    tf.math.ndtri,
    special.ndtri,
    dtypes="float64",
    **_TIGHT,
    samples=[Args(f64(0, 1, 1e-300, 1e-20, 0.25, 0.75, 0.5, 1 - 1e-12))],
)
case("Ndtri", tf.math.ndtri, lambda x: np.full(3, np.nan), samples=[Args(f64(-0.1, 1.1, np.nan))], dtypes="float64")
case("Lgamma", tf.lgamma, special.gammaln, samples=_POSITIVE, order=2)
case(
    "Lgamma",
    tf.lgamma,
    special.gammaln,
    samples=[Args(f64(-1.5, -20.3, 0, -2, 170, 1e10, np.inf))],
    dtypes="float64",
    **_TIGHT,
)
case("Digamma", tf.digamma, special.digamma, samples=_POSITIVE, order=2)
case(
    "Digamma",
    tf.digamma,
    special.digamma,
    samples=[Args(f64(-1.5, -20.3, 1e-8, 1.4616, 1e10, -1e-40, -1e-9, -0.999999))],
    dtypes="float64",
    **_TIGHT,
)
case(
    "Digamma",
    tf.digamma,
    lambda x: f64(np.nan, np.nan, np.nan, np.inf, np.nan),
    samples=[Args(f64(0, -3, -np.inf, np.inf, np.nan))],
    dtypes="float64",
)
_ORDERS = np.array([1.0, 2.0, 5.0])
case(
    "Polygamma",
    lambda x: tf.polygamma(tf.cast(_ORDERS, x.dtype), x),
    lambda x: special.polygamma(_ORDERS.astype(int), x),
    samples=[Args(real(2, 3, low=0.5, high=6)), Args(real(3, low=10, high=50))],
    order=2,
    tolerance=1e-4,
)
case(
    "Polygamma",
    tf.polygamma,
    lambda n, x: f64(special.digamma(2), np.nan, np.nan, np.nan, np.nan),
    dtypes="float64",
    samples=[Args(f64(0, 1.5, -1, np.inf, 1), f64(2, 2, 2, 2, np.nan))],
    bad=_BAD,
    **_TIGHT,
)
case(
    "Zeta",
    lambda q: tf.zeta(tf.constant(2.5, q.dtype), q),
    lambda q: special.zeta(q.dtype.type(2.5), q),
    samples=[Args(real(2, 3, low=0.5, high=6)), Args(real(low=20, high=30)), Args(real(0))],
    order=2,
)
case(
    "Zeta",
    tf.zeta,
    special.zeta,
    dtypes="float64",
    **_TIGHT,
    samples=[
        Args(f64(1.001, 2, 3, 40, 300, 2, 1000, 5), f64(1, 1e-3, 1e6, 2, 12, 1e12, 1e3, 0.3)),
        Args(f64(2, 3, 4, 2), f64(-0.5, -1.5, -2.25, -7.9)),
        Args(f64(1, 0.5), f64(2, 2)),
    ],
)
case(
    "Zeta",
    tf.zeta,
    lambda x, q: f64(np.inf, np.nan, np.nan, 0, np.nan, np.nan),
    dtypes="float64",
    bad=_BAD,
    samples=[Args(f64(2, 3, 2.5, 2, np.nan, 2), f64(-1, -1, -0.5, np.inf, 1, np.nan))],
)

case("Igamma", tf.igamma, special.gammainc, samples=_PAIRS, bad=_BAD, order=1)
case("Igammac", tf.igammac, special.gammaincc, samples=_PAIRS, bad=_BAD, order=1)
_WIDE_A = f64(1e-3, 0.5, 5, 100, 100, 1e4, 9.9e4, 2e5, 1e6, 1e10, 10)
_WIDE_X = f64(1e-5, 30, 5, 80, 130, 1e4, 1e5, 2.001e5, 9.99e5, 1e10, 0)
case("Igamma", tf.igamma, special.gammainc, samples=[Args(_WIDE_A, _WIDE_X)], dtypes="float64", tolerance=1e-7)
case("Igammac", tf.igammac, special.gammaincc, samples=[Args(_WIDE_A, _WIDE_X)], dtypes="float64", tolerance=1e-7)
_OUTSIDE = Args(f64(-1, 1, np.nan, 1, np.inf), f64(1, -1, 1, np.nan, np.inf))
case("Igamma", tf.igamma, lambda a, x: np.full(5, np.nan), samples=[_OUTSIDE], dtypes="float64")
case("Igammac", tf.igammac, lambda a, x: f64(0, 1), samples=[Args(f64(1, 1), f64(np.inf, 0))], dtypes="float64")


def _by_a(a, x):
    step = 1e-5 * a
    return (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)


def _sample_grad(a, x):
    return -_by_a(a, x) / np.exp(special.xlogy(a - 1, x) - x - special.gammaln(a))


_SHAPED = [
    Args(real(2, 3, low=0.2, high=8), real(2, 3, low=0.2, high=8)),
    Args(real(low=30, high=40), real(3, low=20, high=50)),
]
case(
    "IgammaGradA",
    lambda a, x: tf.raw_ops.IgammaGradA(a=a, x=x),
    _by_a,
    samples=_SHAPED,
    bad=_BAD,
    tolerance=1e-5,
    dtypes="float64",
)
case(
    "RandomGammaGrad",
    lambda a, x: tf.raw_ops.RandomGammaGrad(alpha=a, sample=x),
    _sample_grad,
    samples=_SHAPED,
    bad=_BAD,
    tolerance=1e-5,
    dtypes="float64",
)
case(
    "RandomGammaGrad",
    lambda a, x: tf.raw_ops.RandomGammaGrad(alpha=a, sample=x),
    _sample_grad,
    tolerance=2e-2,
    samples=[Args(f64(2e5), f64(2.003e5))],
    dtypes="float64",
)

_THREE = [
    Args(
        real(2, 3, low=0.3, high=6, constant=True),
        real(2, 3, low=0.3, high=6, constant=True),
        real(2, 3, low=0.05, high=0.95),
    ),
    Args(real(low=1, high=2, constant=True), real(3, low=1, high=9, constant=True), real(low=0.2, high=0.8)),
    Args(real(), real(), real(0)),
]
case(
    "Betainc",
    tf.betainc,
    special.betainc,
    samples=_THREE,
    order=2,
    grad_tolerance=1e-3,
    bad=[Bad(Args(real(2), real(3), real(2)), match="inconsistent"), Bad(Args(real(1), real(2), real()), match="[1]")],
)
case(
    "Betainc",
    tf.betainc,
    special.betainc,
    dtypes="float64",
    tolerance=1e-7,
    samples=[Args(f64(1e3, 1e-2, 500, 2, 2), f64(1e3, 3, 0.5, 3, 3), f64(0.51, 0.3, 0.9, 0, 1))],
)
case(
    "Betainc",
    tf.betainc,
    lambda a, b, x: np.full(6, np.nan),
    dtypes="float64",
    samples=[Args(f64(-1, 1, 1, np.nan, 1, np.inf), f64(1, 0, 1, 1, 1, 1), f64(0.5, 0.5, 2, 0.5, np.nan, 0.5))],
)

_WAVES = [Args(real(2, 3, low=-4, high=4)), Args(real()), Args(real(0)), Args(real(4, low=15, high=60))]
case("BesselI0e", tf.math.bessel_i0e, special.i0e, samples=_WAVES, order=2)
case("BesselI1e", tf.math.bessel_i1e, special.i1e, samples=_WAVES, order=2)
_FAR = Args(f64(0, -1e-9, 20, -20.1, 700, 1e300, np.inf, -np.inf, np.nan))
case("BesselI0e", tf.math.bessel_i0e, special.i0e, samples=[_FAR], dtypes="float64", **_TIGHT)
case("BesselI1e", tf.math.bessel_i1e, special.i1e, samples=[_FAR], dtypes="float64", **_TIGHT)
case("BesselI0e", tf.math.bessel_i0, special.i0, samples=_WAVES[:2], order=2, grad_tolerance=1e-3)
case("BesselI1e", tf.math.bessel_i1, special.i1, samples=_WAVES[:2], order=2, grad_tolerance=1e-3)
