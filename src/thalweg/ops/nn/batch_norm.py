"""Batch normalization as one op, in its three versions, with first and second derivatives."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, gradient, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import add, multiply, subtract
from thalweg.ops.math.operators import binary, unary
from thalweg.ops.plain_gradients import gradient_of_plain_form

_EPSILON = "epsilon: float = 0.0001"
_TRAINING = "is_training: bool = true"
_FACTOR = "exponential_avg_factor: float = 1.0"
_FORMAT = "data_format: {'NHWC', 'NCHW'} = 'NHWC'"
_FORMAT_V3 = "data_format: {'NHWC', 'NCHW', 'NDHWC', 'NCDHW'} = 'NHWC'"
_TYPES = "T: {half, bfloat16, float}, U: {float}"


def _images_shape(c: ShapeContext, index: int) -> tuple[TensorShape, int]:
    """The shape of an input that holds images or volumes, and which dimension has the channels."""
    data_format = c.attr("data_format")
    shape = c.input(index)
    if shape.ndims not in (None, 4, 5) or (shape.ndims == 5 and not c.op_type.endswith("V3")):
        raise ValueError(f"Shape must be rank 4 but is rank {shape.ndims}")
    if shape.ndims is None and len(data_format) == 4 and not c.op_type.endswith("V3"):
        shape = shapes.with_rank(shape, 4)
    return shape, 1 if data_format.startswith(b"NC") else -1


def _shape_and_channels(c: ShapeContext, images: int, vectors: range) -> tuple[TensorShape, int | None]:
    """The shape of the images with the number of channels filled in, and that number."""
    shape, axis = _images_shape(c, images)
    dims = shape.dims_tuple
    size = dims[axis] if dims is not None else None
    for i in vectors:
        vector = shapes.with_rank(c.input(i), 1).dims_tuple
        size = shapes.merge_dims(size, vector[0] if vector is not None else None)
    if dims is not None:
        at = axis % len(dims)
        shape = TensorShape._of((*dims[:at], size, *dims[at + 1 :]))
    return shape, size


def _shape(c: ShapeContext) -> list[TensorShape]:
    given = not c.attr("is_training") or c.attr("exponential_avg_factor") != 1.0
    shape, size = _shape_and_channels(c, 0, range(1, 5 if given else 3))
    result = [shape, *[TensorShape._of((size,))] * 4]
    return [*result, shapes.SCALAR] if c.num_outputs == 6 else result


def _grad_shape(c: ShapeContext) -> list[TensorShape]:
    _, size = _shape_and_channels(c, 0, range(2, 5))
    shape, _ = _shape_and_channels(c, 1, range(2, 5))
    vector, empty = TensorShape._of((size,)), TensorShape._of((0,))
    return [shapes.merge(shape, c.input(0)), vector, vector, empty, empty]


define(
    "FusedBatchNorm",
    "x: T, scale: T, offset: T, mean: T, variance: T -> y: T, batch_mean: T, batch_variance: T, reserve_space_1: T, "
    "reserve_space_2: T",
    f"T: {{float}}, {_EPSILON}, {_FACTOR}, {_FORMAT}, {_TRAINING}",
    shape=_shape,
)
for _version, _format, _more in (("V2", _FORMAT, ""), ("V3", _FORMAT_V3, ", reserve_space_3: U")):
    define(
        f"FusedBatchNorm{_version}",
        "x: T, scale: U, offset: U, mean: U, variance: U -> y: T, batch_mean: U, batch_variance: U, "
        f"reserve_space_1: U, reserve_space_2: U{_more}",
        f"{_TYPES}, {_EPSILON}, {_FACTOR}, {_format}, {_TRAINING}",
        shape=_shape,
    )
    _third = 4 if _more else 3
    define(
        f"FusedBatchNormGrad{_version}",
        f"y_backprop: T, x: T, scale: float, reserve_space_1: U, reserve_space_2: U{_more} -> x_backprop: T, "
        f"scale_backprop: U, offset_backprop: U, reserve_space_{_third}: U, reserve_space_{_third + 1}: U",
        f"{_TYPES}, {_EPSILON}, {_format}, {_TRAINING}",
        shape=_grad_shape,
    )
define(
    "FusedBatchNormGrad",
    "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T -> x_backprop: T, scale_backprop: T, "
    "offset_backprop: T, reserve_space_3: T, reserve_space_4: T",
    f"T: {{float}}, {_EPSILON}, {_FORMAT}, {_TRAINING}",
    shape=_grad_shape,
)


work(works.passes(6), "FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
work(works.passes(10), "FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")


@gradient("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _fused_batch_norm_grad(op: Operation, grad: Tensor, *_: Any) -> Any:
    x, scale = op.inputs[:2]
    statistics = list(op.outputs[3:5] if op.get_attr("is_training") else op.inputs[3:5])
    if op.type == "FusedBatchNormV3":
        statistics.append(op.outputs[5])
    attrs = {name: op.attrs[name] for name in ("epsilon", "data_format", "is_training")}
    op_type = op.type.replace("Norm", "NormGrad")
    grads = apply(op_type, grad, x, scale, *statistics, **attrs)
    return grads[0], grads[1], grads[2], None, None


@gradient_of_plain_form("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3", inputs=3)
def _grad_plain_form(op: Operation) -> list[Tensor]:
    """The gradients of x, scale and offset as functions of the inputs of their op."""
    grad, x, scale, mean, variance = op.inputs[:5]
    given = x.dtype.base_dtype
    if given != scale.dtype.base_dtype:
        grad, x = apply_one("Cast", grad, DstT=scale.dtype), apply_one("Cast", x, DstT=scale.dtype)
    rank = x.shape.ndims or (5 if len(op.get_attr("data_format")) == 5 else 4)
    axis = 1 if op.get_attr("data_format").startswith(b"NC") else rank - 1
    axes = [i for i in range(rank) if i != axis]
    shape = [-1 if i == axis else 1 for i in range(rank)]
    training = op.get_attr("is_training")

    def average(t: Tensor) -> Tensor:
        return apply_one("Mean", t, axes, keep_dims=True)

    def along(v: Tensor) -> Tensor:
        return apply_one("Reshape", v, shape)

    centred = subtract(x, average(x) if training else along(mean))
    spread = average(unary("Square", centred)) if training else along(variance)
    inverse = unary("Rsqrt", add(spread, op.get_attr("epsilon")))
    normal = multiply(centred, inverse)
    inner = grad
    if training:
        inner = subtract(subtract(grad, average(grad)), multiply(normal, average(multiply(grad, normal))))
    x_grad = multiply(multiply(along(scale), inverse), inner)
    if given != x_grad.dtype.base_dtype:
        x_grad = apply_one("Cast", x_grad, DstT=given)
    return [x_grad, apply_one("Sum", multiply(grad, normal), axes), apply_one("Sum", grad, axes)]


_RESPONSE_ATTRS = (
    "depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5, "
    "T: {half, bfloat16, float} = float"
)
define(
    "LRN", "input: T -> output: T",
    _RESPONSE_ATTRS,
    shape=lambda c: shapes.with_rank(c.input(0), 4),
)  # fmt: skip
define(
    "LRNGrad", "input_grads: T, input_image: T, output_image: T -> output: T",
    _RESPONSE_ATTRS,
    shape=lambda c: shapes.with_rank(shapes.merge_inputs(c), 4),
)  # fmt: skip
_RESPONSE = ("depth_radius", "bias", "alpha", "beta")


work(works.passes(30), "LRN", "LRNGrad")


@gradient("LRN")
def _lrn_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("LRNGrad", grad, op.inputs[0], op.outputs[0], **{name: op.attrs[name] for name in _RESPONSE})


@gradient_of_plain_form("LRNGrad", inputs=2)
def _lrn_grad_plain_form(op: Operation) -> list[Tensor]:
    """The gradient as a function of the output's gradient and the input; the output is a function of the input."""
    grads, x = (apply_one("Cast", t, DstT="float32") for t in op.inputs[:2])
    norm = add(multiply(_sum_over_depth_radius(op, unary("Square", x)), op.get_attr("alpha")), op.get_attr("bias"))
    power = binary("Pow", norm, -op.get_attr("beta"))
    shares = _sum_over_depth_radius(op, apply_one("RealDiv", multiply(multiply(grads, x), power), norm))
    factor = 2 * op.get_attr("alpha") * op.get_attr("beta")
    result = subtract(multiply(grads, power), multiply(multiply(x, shares), factor))
    return [apply_one("Cast", result, DstT=op.inputs[0].dtype)]


def _sum_over_depth_radius(op: Operation, x: Tensor) -> Tensor:
    """The sum of the elements within the radius, in depth: a difference of running sums."""
    radius = op.get_attr("depth_radius")
    padded = apply_one("Pad", x, [[0, 0], [0, 0], [0, 0], [radius + 1, radius]])
    sums = apply_one("Cumsum", apply_one("Cast", padded, DstT="float64"), 3)
    ahead = apply_one("StridedSlice", sums, [0, 0, 0, 2 * radius + 1], [0] * 4, [1] * 4, begin_mask=7, end_mask=15)
    behind = apply_one("StridedSlice", sums, [0] * 4, [0, 0, 0, -2 * radius - 1], [1] * 4, begin_mask=15, end_mask=7)
    return apply_one("Cast", subtract(ahead, behind), DstT=x.dtype)
