"""Softmax, and the losses that are computed from logits: cross entropies, dense, sparse and binary."""

from __future__ import annotations

import math
from typing import Any

from thalweg import errors
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, gradient, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import bfloat16, float16, float32
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor, op_type_of
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import add, multiply, negative, subtract
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.math.operators import binary, unary
from thalweg.platform.deprecation import deprecated_argument_lookup


def _logits_shape(c: ShapeContext) -> TensorShape:
    return shapes.with_rank_at_least(c.input(0), 1)


define("Softmax", "logits: T -> softmax: T", f"T: {FLOATS}", shape=_logits_shape)
work(works.passes(20), "Softmax")
define("LogSoftmax", "logits: T -> logsoftmax: T", f"T: {FLOATS}", shape=_logits_shape)


@export("nn.softmax", "math.softmax")
def softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """Returns `exp(logits)` divided by its sum along `axis` (the last one unless given)."""
    return _along_axis("Softmax", logits, deprecated_argument_lookup("axis", axis, "dim", dim), name)


@export("nn.log_softmax", "math.log_softmax")
def log_softmax(logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None) -> Tensor:
    """Returns the logarithm of the softmax along `axis`, precise also where that is near zero."""
    return _along_axis("LogSoftmax", logits, deprecated_argument_lookup("axis", axis, "dim", dim), name)


def _along_axis(op_type: str, logits: Any, axis: int | None, name: str | None) -> Tensor:
    logits = convert_to_tensor(logits, name="logits")
    axis = _axis_unless_last(logits, -1 if axis is None else axis)
    if axis is None:
        return unary(op_type, logits, name)
    swapped = list(range(len(logits.shape)))
    swapped[axis], swapped[-1] = swapped[-1], swapped[axis]
    with name_scope(name, op_type, [logits]) as scope:
        order = convert_to_tensor(swapped, "int32")
        return apply_one("Transpose", unary(op_type, apply_one("Transpose", logits, order)), order, name=scope)


def _axis_unless_last(tensor: Tensor, axis: int) -> int | None:
    """The axis counted from the front; None if it is the last one."""
    if axis == -1:
        return None
    rank = tensor.shape.ndims
    if rank is None:
        raise ValueError(f"softmax along axis {axis} needs logits of known rank, got '{tensor.name}'.")
    if not -rank <= axis < rank:
        raise errors.InvalidArgumentError(None, None, f"axis {axis} is out of range for logits of rank {rank}.")
    axis %= rank
    return axis if axis != rank - 1 else None


def _row_sum(x: Tensor) -> Tensor:
    return apply_one("Sum", x, [-1], keep_dims=True)


@gradient("Softmax")
def _softmax_grad(op: Operation, grad: Tensor) -> Any:
    y = op.outputs[0]
    return multiply(subtract(grad, _row_sum(multiply(grad, y))), y)


@gradient("LogSoftmax")
def _log_softmax_grad(op: Operation, grad: Tensor) -> Any:
    return subtract(grad, multiply(_row_sum(grad), unary("Exp", op.outputs[0])))


def _cross_entropy_shape(c: ShapeContext) -> list[TensorShape]:
    shape = shapes.with_rank(shapes.broadcast_shapes(c.input(0), c.input(1)), 2)
    dims = shape.dims_tuple
    assert dims is not None
    return [TensorShape._of(dims[:1]), shape]


def _sparse_shape(c: ShapeContext) -> list[TensorShape]:
    logits, labels = shapes.with_rank(c.input(0), 2).dims_tuple, shapes.with_rank(c.input(1), 1).dims_tuple
    assert logits is not None and labels is not None
    batch = shapes.merge_dims(logits[0], labels[0])
    return [TensorShape._of((batch,)), TensorShape._of((batch, logits[1]))]


define(
    "SoftmaxCrossEntropyWithLogits", "features: T, labels: T -> loss: T, backprop: T", f"T: {FLOATS}",
    shape=_cross_entropy_shape,
)  # fmt: skip
define(
    "SparseSoftmaxCrossEntropyWithLogits", "features: T, labels: Tlabels -> loss: T, backprop: T",
    f"T: {FLOATS}, Tlabels: {{int32, int64}} = int64", shape=_sparse_shape,
)  # fmt: skip


def _is_zero(grad: Tensor | None) -> bool:
    """Whether a gradient is missing or all zeros: that of an output that the loss does not depend on."""
    if grad is None or op_type_of(grad) == "ZerosLike" or "is_zero" in getattr(grad, "__dict__", ()):
        return True
    if op_type_of(grad) != "Fill":
        return False
    value = constant_value(grad.op.inputs[1])
    return value is not None and not value.any()


def _logits_grad(op: Operation, loss_grad: Tensor, backprop_grad: Tensor | None) -> Tensor:
    column = apply_one("ExpandDims", loss_grad, -1)
    grad = multiply(column, op.outputs[1])
    if backprop_grad is None or _is_zero(backprop_grad):
        return grad
    # The second derivative: backprop is softmax minus constants.
    probabilities = unary("Softmax", op.inputs[0])
    inner = subtract(backprop_grad, _row_sum(multiply(backprop_grad, probabilities)))
    return add(grad, multiply(inner, probabilities))


@gradient("SoftmaxCrossEntropyWithLogits")
def _cross_entropy_grad(op: Operation, loss_grad: Tensor, backprop_grad: Tensor | None) -> Any:
    logits = _logits_grad(op, loss_grad, backprop_grad)
    if op_type_of(op.inputs[1]) == "StopGradient":
        return logits, None
    labels = multiply(apply_one("ExpandDims", negative(loss_grad), -1), unary("LogSoftmax", op.inputs[0]))
    return logits, labels if _is_zero(backprop_grad) else subtract(labels, backprop_grad)


@gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_cross_entropy_grad(op: Operation, loss_grad: Tensor, backprop_grad: Tensor | None) -> Any:
    return _logits_grad(op, loss_grad, backprop_grad), None


def _check_named_arguments(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        raise ValueError(f"{function}: both labels and logits must be provided.")


@export("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, dim: int = -1, name: str | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Returns the cross entropy between softmax(logits) and `labels`; nothing flows back into `labels`.

    Args:
        _sentinel: Catches positional arguments: all must be named.
        labels: Probabilities of the classes, of the shape of `logits`; each row sums to 1.
        logits: Unscaled log probabilities.
        dim: The dimension of the classes.
        name: A name scope.
        axis: The same as `dim`.

    Returns:
        A tensor like `logits` without the dimension of the classes.
    """
    _check_named_arguments("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    axis = dim if axis is None else axis
    with name_scope(name, "softmax_cross_entropy_with_logits_sg", [logits, labels]) as scope:
        labels = unary("StopGradient", labels, "labels_stop_gradient")
        return _cross_entropy(labels, logits, axis, scope)


@export("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(
    labels: Any, logits: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Tensor:
    """Returns the cross entropy between softmax(logits) and `labels`; gradients flow into both."""
    axis = deprecated_argument_lookup("axis", axis, "dim", dim)
    with name_scope(name, "softmax_cross_entropy_with_logits", [logits, labels]) as scope:
        return _cross_entropy(labels, logits, -1 if axis is None else axis, scope)


def _cross_entropy(labels: Any, logits: Any, axis: int, name: str) -> Tensor:
    logits = convert_to_tensor(logits, name="logits")
    labels = convert_to_tensor(labels, name="labels", dtype=None if isinstance(labels, Tensor) else logits.dtype)
    given = logits.dtype.base_dtype
    if given in (float16, bfloat16):  # In 16 bits the sums would lose too much.
        logits = apply_one("Cast", logits, DstT=float32)
    if labels.dtype.base_dtype != logits.dtype.base_dtype:
        labels = apply_one("Cast", labels, DstT=logits.dtype)
    place = _axis_unless_last(logits, axis)
    if place is not None:  # The classes go last; the other dimensions, which the result keeps, stay in their order.
        order = [d for d in range(len(logits.shape)) if d != place]
        order.append(place)
        logits, labels = apply_one("Transpose", logits, order), apply_one("Transpose", labels, order)
    rank = logits.shape.ndims
    if rank == 2 and labels.shape.ndims == 2:
        loss: Tensor = apply("SoftmaxCrossEntropyWithLogits", logits, labels, name=name).loss
    else:
        outer = _outer_shape(logits)
        rows = apply("SoftmaxCrossEntropyWithLogits", _as_matrix(logits), _as_matrix(labels), name=name).loss
        loss = apply_one("Reshape", rows, outer)
        if rank is not None:
            loss.set_shape(logits.shape[:-1])
    return apply_one("Cast", loss, DstT=given) if loss.dtype.base_dtype != given else loss


def _outer_shape(x: Tensor) -> Any:
    """All sizes but the last."""
    dims = x.shape.dims_tuple
    if dims is not None and None not in dims[:-1]:
        return convert_to_tensor(list(dims[:-1]), "int32")
    return apply_one("StridedSlice", apply_one("Shape", x), [0], [-1], [1], begin_mask=1)


def _as_matrix(x: Tensor) -> Tensor:
    dims = x.shape.dims_tuple
    last = dims[-1] if dims else None
    if last is None:
        columns = apply_one("StridedSlice", apply_one("Shape", x), [-1], [0], [1], shrink_axis_mask=1)
        size = apply_one("Pack", [-1, columns])
    else:
        count = x.shape.num_elements()
        size = convert_to_tensor([-1 if count != 0 else 0, last], "int32")
    return apply_one("Reshape", x, size)


@export("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Returns the cross entropy between softmax(logits) and one class per row.

    Args:
        _sentinel: Catches positional arguments: all must be named.
        labels: Integers in [0, classes), of the shape of `logits` without its last dimension.
        logits: Unscaled log probabilities.
        name: A name scope.

    Returns:
        A tensor of the shape of `labels`.

    Raises:
        ValueError: If the ranks do not fit.
    """
    _check_named_arguments("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "SparseSoftmaxCrossEntropyWithLogits", [labels, logits]):
        labels = convert_to_tensor(labels)
        logits = convert_to_tensor(logits)
        if logits.shape.ndims == 0:
            raise ValueError(f"Logits cannot be scalars - received shape {logits.shape}.")
        given = logits.dtype.base_dtype
        if given in (float16, bfloat16):
            logits = apply_one("Cast", logits, DstT=float32)
        ranks = (labels.shape.ndims, logits.shape.ndims)
        if None not in ranks and ranks[0] != ranks[1] - 1:
            raise ValueError(
                f"Rank mismatch: Rank of labels (received {ranks[0]}) should equal rank of logits minus 1 "
                f"(received {ranks[1]})."
            )
        if ranks[1] == 2:
            loss: Tensor = apply("SparseSoftmaxCrossEntropyWithLogits", logits, labels).loss
        else:
            flat = apply_one("Reshape", labels, [-1])
            rows = apply("SparseSoftmaxCrossEntropyWithLogits", _as_matrix(logits), flat).loss
            loss = apply_one("Reshape", rows, apply_one("Shape", labels))
            loss.set_shape(labels.shape)
        return apply_one("Cast", loss, DstT=given) if loss.dtype.base_dtype != given else loss


@export("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Returns the cross entropy between sigmoid(logits) and `labels`, element by element.

    Raises:
        ValueError: If the shapes of `labels` and `logits` differ.
    """
    _check_named_arguments("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels", dtype=logits.dtype)
        _check_same_shape("labels", labels, logits)
        # max(x, 0) - x z + log(1 + exp(-|x|)), which overflows nowhere.
        # With selections, because the derivatives of max and |x| at 0 are chosen one by one, and would not add up to
        # sigmoid(0) - z.
        positive = apply_one("GreaterEqual", logits, apply_one("ZerosLike", logits))
        rectified = apply_one("SelectV2", positive, logits, apply_one("ZerosLike", logits))
        minus_size = apply_one("SelectV2", positive, negative(logits), logits)
        rest = subtract(rectified, multiply(logits, labels))
        return binary("AddV2", rest, unary("Softplus", minus_size), scope)


@export("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Tensor:
    """Returns the cross entropy between sigmoid(logits) and `labels`, with positive labels counted `pos_weight` times.

    Raises:
        ValueError: If the shapes of `labels` and `logits` differ.
    """
    labels = deprecated_argument_lookup("labels", labels, "targets", targets)
    with name_scope(name, "logistic_loss", [logits, labels]) as scope:
        logits = convert_to_tensor(logits, name="logits")
        labels = convert_to_tensor(labels, name="labels", dtype=logits.dtype)
        _check_same_shape("labels", labels, logits)
        extra = subtract(convert_to_tensor(pos_weight, dtype=logits.dtype), 1.0)
        weight = add(1.0, multiply(extra, labels))
        log_part = add(unary("Softplus", negative(unary("Abs", logits))), unary("Relu", negative(logits)))
        return binary("AddV2", multiply(subtract(1.0, labels), logits), multiply(weight, log_part), scope)


@export("nn.log_poisson_loss")
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """Returns the negative log likelihood of `targets` under Poisson distributions with means `exp(log_input)`.

    Args:
        targets: Counts.
        log_input: Logarithms of the means, of the same shape.
        compute_full_loss: Whether to add (Stirling's approximation of) the term that depends on `targets` alone.
        name: A name scope.

    Returns:
        A tensor like `targets`.

    Raises:
        ValueError: If the shapes differ.
    """
    with name_scope(name, "log_poisson_loss", [log_input, targets]):
        log_input = convert_to_tensor(log_input, name="log_input")
        targets = convert_to_tensor(targets, dtype=log_input.dtype.base_dtype, name="targets")
        if not log_input.shape.is_compatible_with(targets.shape):
            raise ValueError(f"log_input and targets must have the same shape ({log_input.shape} vs {targets.shape})")
        loss = subtract(unary("Exp", log_input), multiply(log_input, targets))
        if not compute_full_loss:
            return loss
        # t log t - t + log(2 pi t) / 2; it is 0 for counts of 0 and 1.
        circle = multiply(0.5, unary("Log", multiply(2 * math.pi, targets)))
        stirling = add(subtract(multiply(targets, unary("Log", targets)), targets), circle)
        small = apply_one("LogicalAnd", apply_one("GreaterEqual", targets, 0.0), apply_one("LessEqual", targets, 1.0))
        return add(loss, apply_one("SelectV2", small, unary("ZerosLike", targets), stirling))


def _check_same_shape(what: str, a: Tensor, b: Tensor) -> None:
    if not a.shape.is_compatible_with(b.shape):
        raise ValueError(f"logits and {what} must have the same shape ({b.shape} vs {a.shape})")
