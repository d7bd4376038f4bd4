"""Special functions: the error function, the gamma, beta and zeta families, and their inverses."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import add, multiply, negative, square, subtract
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.math.math_gradients import reduce_to_inputs, reduce_to_shape
from thalweg.ops.math.operators import binary, unary

define("Erf", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Erfc", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)


@export("erf", "math.erf")
@elementwise
def erf(x: Any, name: str | None = None) -> Tensor:
    """Returns the error function element by element."""
    return unary("Erf", x, name)


@export("erfc", "math.erfc")
@elementwise
def erfc(x: Any, name: str | None = None) -> Tensor:
    """Returns `1 - erf(x)`, precise also where that is near zero."""
    return unary("Erfc", x, name)


def _erf_derivative(x: Tensor) -> Tensor:
    """The derivative of erf: 2 / sqrt(pi) exp(-x^2)."""
    return multiply(apply_one("Exp", negative(square(x))), 1.1283791670955126)


@gradient("Erf")
def _erf_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, _erf_derivative(op.inputs[0]))


@gradient("Erfc")
def _erfc_grad(op: Operation, grad: Tensor) -> Any:
    return negative(multiply(grad, _erf_derivative(op.inputs[0])))


define("Erfinv", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Ndtri", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)


@export("math.erfinv")
def erfinv(x: Any, name: str | None = None) -> Tensor:
    """Returns the number whose error function is `x`."""
    with name_scope(name, "erfinv", [x]):
        return unary("Erfinv", x)


@export("math.ndtri")
def ndtri(x: Any, name: str | None = None) -> Tensor:
    """Returns the quantile of the standard normal distribution."""
    with name_scope(name, "ndtri", [x]):
        return unary("Ndtri", x)


@export("math.erfcinv")
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """Returns the number whose complementary error function is `x`."""
    with name_scope(name, "erfcinv", [x]):
        return multiply(negative(ndtri(multiply(0.5, x))), 0.7071067811865476)


@gradient("Erfinv")
def _erfinv_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, multiply(apply_one("Exp", square(op.outputs[0])), 0.886226925452758))


@gradient("Ndtri")
def _ndtri_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, multiply(apply_one("Exp", multiply(square(op.outputs[0]), 0.5)), 2.5066282746310002))


define("Lgamma", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Digamma", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("Polygamma", "a: T, x: T -> z: T", "T: {float, double}", shape=shapes.broadcast)
define("Zeta", "x: T, q: T -> z: T", "T: {float, double}", shape=shapes.broadcast)


@export("lgamma", "math.lgamma")
@elementwise
def lgamma(x: Any, name: str | None = None) -> Tensor:
    """Returns the logarithm of the absolute value of the gamma function."""
    return unary("Lgamma", x, name)


@export("digamma", "math.digamma")
@elementwise
def digamma(x: Any, name: str | None = None) -> Tensor:
    """Returns the derivative of `lgamma`."""
    return unary("Digamma", x, name)


@export("polygamma", "math.polygamma")
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Returns the derivative of order `a` (a whole number) of `digamma`."""
    return binary("Polygamma", a, x, name)


@export("zeta", "math.zeta")
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Returns the Hurwitz zeta function: the sum of `(q + k) ** -x` over all k >= 0."""
    return binary("Zeta", x, q, name)


@gradient("Lgamma")
def _lgamma_grad(op: Operation, grad: Tensor) -> Any:
    return multiply(grad, digamma(op.inputs[0]))


@gradient("Digamma")
def _digamma_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if x.dtype.size < 4:  # Polygamma has no 16-bit kernels.
        wide = apply_one("Polygamma", 1.0, apply_one("Cast", x, DstT="float32"))
        return multiply(grad, apply_one("Cast", wide, DstT=x.dtype))
    return multiply(grad, polygamma(1.0, x))


@gradient("Polygamma")
def _polygamma_grad(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs
    return reduce_to_inputs(op, None, multiply(grad, polygamma(add(a, 1.0), x)))


@gradient("Zeta")
def _zeta_grad(op: Operation, grad: Tensor) -> Any:
    x, q = op.inputs
    return reduce_to_inputs(op, None, multiply(grad, multiply(negative(x), zeta(add(x, 1.0), q))))


define("Igamma", "a: T, x: T -> z: T", f"T: {FLOATS}", shape=shapes.broadcast)
define("Igammac", "a: T, x: T -> z: T", f"T: {FLOATS}", shape=shapes.broadcast)
define("IgammaGradA", "a: T, x: T -> z: T", "T: {float, double}", shape=shapes.broadcast)
define("RandomGammaGrad", "alpha: T, sample: T -> output: T", "T: {float, double}", shape=shapes.broadcast)
not_differentiable("IgammaGradA", "RandomGammaGrad")


@export("igamma", "math.igamma")
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Returns the regularized lower incomplete gamma function P(a, x)."""
    return binary("Igamma", a, x, name)


@export("igammac", "math.igammac")
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Returns the regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return binary("Igammac", a, x, name)


def _gamma_density(a: Tensor, x: Tensor) -> Tensor:
    """dP(a, x)/dx: the density of the gamma distribution."""
    exponent = subtract(subtract(binary("Xlogy", subtract(a, 1.0), x), x), lgamma(a))
    return unary("Exp", exponent)


@gradient("Igamma")
def _igamma_grad(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs
    by_a = multiply(grad, binary("IgammaGradA", a, x))
    return reduce_to_inputs(op, by_a, multiply(grad, _gamma_density(a, x)))


@gradient("Igammac")
def _igammac_grad(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs
    by_a = multiply(grad, binary("IgammaGradA", a, x))
    return reduce_to_inputs(op, negative(by_a), negative(multiply(grad, _gamma_density(a, x))))


def _betainc_shape(c: ShapeContext) -> TensorShape:
    # A shape of unknown rank may turn out to be that of a scalar.
    known = [shape for shape in c.inputs() if shape.dims_tuple is not None and shape.dims_tuple != ()]
    if known:
        return shapes.merge_shapes(known)
    return shapes.SCALAR if all(shape.dims_tuple == () for shape in c.inputs()) else shapes.UNKNOWN


define("Betainc", "a: T, b: T, x: T -> z: T", "T: {float, double}", shape=_betainc_shape)


@export("betainc", "math.betainc")
def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """Returns the regularized incomplete beta function; the arguments have one shape, or are scalars."""
    return apply_one("Betainc", a, b, x, name=name)


@gradient("Betainc")
def _betainc_grad(op: Operation, grad: Tensor) -> Any:
    a, b, x = op.inputs
    log_beta = subtract(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    powers = add(binary("Xlog1py", subtract(b, 1.0), negative(x)), binary("Xlogy", subtract(a, 1.0), x))
    return None, None, reduce_to_shape(multiply(grad, unary("Exp", subtract(powers, log_beta))), x)


@export("lbeta", "math.lbeta")
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Returns the logarithm of the absolute value of the beta function, over the last dimension.

    Example:
        >>> round(float(tf.Session().run(tf.lbeta([2.0, 3.0]))), 4)  # gamma(2) gamma(3) / gamma(5) is 1 / 12
        -2.4849
    """
    with name_scope(name, "lbeta", [x]):
        x = convert_to_tensor(x, name="x")
        logs = apply_one("Sum", lgamma(x), [-1])
        return subtract(logs, lgamma(apply_one("Sum", x, [-1])))


define("BesselI0e", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("BesselI1e", "x: T -> y: T", f"T: {FLOATS}", shape=shapes.unchanged)


@export("math.bessel_i0e")
def bessel_i0e(x: Any, name: str | None = None) -> Tensor:
    """Returns `exp(-|x|)` times the modified Bessel function of order 0."""
    with name_scope(name, "bessel_i0e", [x]):
        return unary("BesselI0e", x)


@export("math.bessel_i1e")
def bessel_i1e(x: Any, name: str | None = None) -> Tensor:
    """Returns `exp(-|x|)` times the modified Bessel function of order 1."""
    with name_scope(name, "bessel_i1e", [x]):
        return unary("BesselI1e", x)


@export("math.bessel_i0")
def bessel_i0(x: Any, name: str | None = None) -> Tensor:
    """Returns the modified Bessel function of order 0."""
    with name_scope(name, "bessel_i0", [x]):
        x = convert_to_tensor(x, name="x")
        return multiply(unary("Exp", unary("Abs", x)), unary("BesselI0e", x))


@export("math.bessel_i1")
def bessel_i1(x: Any, name: str | None = None) -> Tensor:
    """Returns the modified Bessel function of order 1."""
    with name_scope(name, "bessel_i1", [x]):
        x = convert_to_tensor(x, name="x")
        return multiply(unary("Exp", unary("Abs", x)), unary("BesselI1e", x))


@gradient("BesselI0e")
def _bessel_i0e_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return multiply(grad, subtract(unary("BesselI1e", x), multiply(unary("Sign", x), op.outputs[0])))


@gradient("BesselI1e")
def _bessel_i1e_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    # y / x, which is 1/2 at zero.
    zero = apply_one("Equal", x, 0)
    quotient = apply_one("SelectV2", zero, 0.5, binary("RealDiv", y, apply_one("SelectV2", zero, 1, x)))
    slope = subtract(subtract(unary("BesselI0e", x), multiply(unary("Sign", x), y)), quotient)
    return multiply(grad, slope)
