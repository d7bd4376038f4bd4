"""Activation functions of neural networks and their gradients, element by element."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import ZERO_GRADIENT, define, export, gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.arithmetic import add, multiply, square
from thalweg.ops.math.casting import cast
from thalweg.ops.math.division import realdiv
from thalweg.ops.math.element_types import FLOATS, REALS
from thalweg.ops.math.operators import binary, unary

_RELU = f"{REALS[:-1]}, qint8}}"
define("Relu", "features: T -> activations: T", f"T: {_RELU}", shape=shapes.unchanged)
define("ReluGrad", "gradients: T, features: T -> backprops: T", f"T: {REALS}", shape=shapes.merge_inputs)


@export("nn.relu")
@elementwise
def relu(features: Any, name: str | None = None) -> Tensor:
    """Returns `max(x, 0)` element by element."""
    return unary("Relu", features, name)


@gradient("Relu")
def _relu_grad(op: Operation, grad: Tensor) -> Any:
    return binary("ReluGrad", grad, op.outputs[0])


@gradient("ReluGrad", "Relu6Grad")
def _relu_grad_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one(op.type, grad, op.inputs[1]), ZERO_GRADIENT


define("Relu6", "features: T -> activations: T", f"T: {REALS}", shape=shapes.unchanged)
define("Relu6Grad", "gradients: T, features: T -> backprops: T", f"T: {REALS}", shape=shapes.merge_inputs)


@export("nn.relu6")
def relu6(features: Any, name: str | None = None) -> Tensor:
    """Returns `min(max(x, 0), 6)` element by element."""
    return unary("Relu6", features, name)


@gradient("Relu6")
def _relu6_grad(op: Operation, grad: Tensor) -> Any:
    return binary("Relu6Grad", grad, op.outputs[0])


define("Elu", "features: T -> activations: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("EluGrad", "gradients: T, outputs: T -> backprops: T", f"T: {FLOATS}", shape=shapes.merge_inputs)


@export("nn.elu")
@elementwise
def elu(features: Any, name: str | None = None) -> Tensor:
    """Returns `x` where it is positive, and `exp(x) - 1` elsewhere."""
    return unary("Elu", features, name)


@gradient("Elu")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    return binary("EluGrad", grad, op.outputs[0])


@gradient("EluGrad", "SeluGrad")
def _elu_grad_grad(op: Operation, grad: Tensor) -> Any:
    gradients, outputs = op.inputs
    by_output = apply_one("SelectV2", apply_one("Less", outputs, 0), multiply(grad, gradients), 0)
    return binary(op.type, grad, outputs), by_output


define("Selu", "features: T -> activations: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("SeluGrad", "gradients: T, outputs: T -> backprops: T", f"T: {FLOATS}", shape=shapes.merge_inputs)


@export("nn.selu")
def selu(features: Any, name: str | None = None) -> Tensor:
    """Returns the scaled exponential linear unit: activations keep mean 0 and variance 1."""
    return unary("Selu", features, name)


@gradient("Selu")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    return binary("SeluGrad", grad, op.outputs[0])


define("Softplus", "features: T -> activations: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("SoftplusGrad", "gradients: T, features: T -> backprops: T", f"T: {FLOATS}", shape=shapes.merge_inputs)


@export("nn.softplus", "math.softplus")
def softplus(features: Any, name: str | None = None) -> Tensor:
    """Returns `log(1 + exp(x))` element by element."""
    return unary("Softplus", features, name)


@gradient("Softplus")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    return binary("SoftplusGrad", grad, op.inputs[0])


@gradient("SoftplusGrad")
def _softplus_grad_grad(op: Operation, grad: Tensor) -> Any:
    gradients, features = op.inputs
    slope = binary("SigmoidGrad", unary("Sigmoid", features), multiply(grad, gradients))
    return binary("SoftplusGrad", grad, features), slope


define("Softsign", "features: T -> activations: T", f"T: {FLOATS}", shape=shapes.unchanged)
define("SoftsignGrad", "gradients: T, features: T -> backprops: T", f"T: {FLOATS}", shape=shapes.merge_inputs)


@export("nn.softsign", "math.softsign")
def softsign(features: Any, name: str | None = None) -> Tensor:
    """Returns `x / (1 + |x|)` element by element."""
    return unary("Softsign", features, name)


@gradient("Softsign")
def _softsign_grad(op: Operation, grad: Tensor) -> Any:
    return binary("SoftsignGrad", grad, op.inputs[0])


@gradient("SoftsignGrad")
def _softsign_grad_grad(op: Operation, grad: Tensor) -> Any:
    gradients, features = op.inputs
    size = add(unary("Abs", features), 1.0)
    curve = realdiv(multiply(unary("Sign", features), -2.0), multiply(size, square(size)))
    return binary("SoftsignGrad", grad, features), multiply(multiply(grad, gradients), curve)


_LEAKY = "alpha: float = 0.20000000298023224, T: {half, bfloat16, float, double} = float"
define("LeakyRelu", "features: T -> activations: T", _LEAKY, shape=shapes.unchanged)
define("LeakyReluGrad", "gradients: T, features: T -> backprops: T", _LEAKY, shape=shapes.merge_inputs)


@export("nn.leaky_relu")
def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Tensor:
    """Returns `x` where it is positive, and `alpha * x` elsewhere."""
    with name_scope(name, "LeakyRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        if features.dtype.is_integer:
            features = apply_one("Cast", features, DstT="float32")
        if isinstance(alpha, Tensor):  # The op's slope is an attribute.
            return binary("Maximum", multiply(alpha, features), features, scope)
        return apply_one("LeakyRelu", features, alpha=float(alpha), name=scope)


@gradient("LeakyRelu")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("LeakyReluGrad", grad, op.inputs[0], alpha=op.get_attr("alpha"))


@gradient("LeakyReluGrad")
def _leaky_relu_grad_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("LeakyReluGrad", grad, op.inputs[1], alpha=op.get_attr("alpha")), ZERO_GRADIENT


@export("nn.crelu")
def crelu(features: Any, name: str | None = None, axis: int = -1) -> Tensor:
    """Returns the rectified `x` and the rectified `-x`, joined along `axis`."""
    with name_scope(name, "CRelu", [features]) as scope:
        features = convert_to_tensor(features, name="features")
        both = apply_one("ConcatV2", [features, unary("Neg", features)], axis, name=scope)
        return unary("Relu", both)


@export("nn.swish", "nn.silu")
def swish(features: Any, beta: Any = 1.0) -> Tensor:
    """Returns `x * sigmoid(beta * x)` element by element."""
    features = convert_to_tensor(features, name="features")
    scaled = features if isinstance(beta, float) and beta == 1.0 else multiply(features, cast(beta, features.dtype))
    return multiply(features, unary("Sigmoid", scaled))


@export("nn.xw_plus_b")
def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Returns `matmul(x, weights) + biases`."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        product = apply_one("MatMul", x, weights)
        return apply_one("BiasAdd", product, biases, name=scope)


@export("nn.relu_layer")
def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Returns `relu(matmul(x, weights) + biases)`."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        product = apply_one("BiasAdd", apply_one("MatMul", x, weights), biases)
        return unary("Relu", product, scope)
