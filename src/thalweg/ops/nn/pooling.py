"""Pooling: the largest or the average element of windows that slide over images and volumes, and the gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import ZERO_GRADIENT, define, gradient, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import shape_tensor
from thalweg.ops.math.element_types import FLOATS, REALS

_MAX_TYPES = "T: {half, bfloat16, float, double, int32, int64, uint8, int16, int8, uint16, qint8} = float"
_PADDING = "padding: {'SAME', 'VALID'}"
_EXPLICIT = "padding: {'SAME', 'VALID', 'EXPLICIT'}, explicit_paddings: list(int) = []"
_FORMAT = {2: "data_format: {'NHWC', 'NCHW'} = 'NHWC'", 3: "data_format: {'NDHWC', 'NCDHW'} = 'NDHWC'"}
_WINDOW = {rank: f"ksize: list(int) >= {rank + 2}, strides: list(int) >= {rank + 2}" for rank in (2, 3)}


def output_size(size: int | None, window: int, stride: int, padding: bytes, around: int = 0) -> int | None:
    """How many windows fit along a dimension; `around` is the explicit padding on both sides.

    Raises:
        ValueError: If not a single one does.
    """
    if size is None:
        return None
    if padding == b"SAME":
        return -(-size // stride)
    if size + around < window:
        raise ValueError(f"Negative dimension size caused by subtracting {window} from {size + around}")
    return (size + around - window) // stride + 1


def check_windows(ksize: Any, strides: Any, rank: int) -> None:
    """Refuses lists of the wrong length, and sizes that are not positive."""
    for name, values in (("ksize", ksize), ("strides", strides)):
        if len(values) != rank:
            raise ValueError(f"{name} must have {rank} elements, got {list(values)}")
        if min(values) < 1:
            raise ValueError(f"{name} must be positive, got {list(values)}")


def _window_output_shape(c: ShapeContext, spatial: int, ksize: Any, strides: Any, paddings: Any = ()) -> TensorShape:
    rank = spatial + 2
    check_windows(ksize, strides, rank)
    dims = shapes.with_rank(c.input(0), rank).dims_tuple
    assert dims is not None
    padding = c.attr("padding")
    if (padding == b"EXPLICIT") != bool(paddings):
        raise ValueError(f"explicit_paddings {list(paddings)} do not go with padding {padding.decode()}")
    if paddings and (len(paddings) != 2 * rank or min(paddings) < 0):
        raise ValueError(f"explicit_paddings must be {2 * rank} numbers, none negative, got {list(paddings)}")
    around = [sum(paddings[2 * i : 2 * i + 2]) for i in range(rank)]
    sizes = [dims[0]]
    for i in range(1, rank):
        unpooled = ksize[i] == strides[i] == 1 and not around[i]
        sizes.append(dims[i] if unpooled else output_size(dims[i], ksize[i], strides[i], padding, around[i]))
    return TensorShape._of(tuple(sizes))


def pool_shape(spatial: int, explicit: bool = False) -> Callable[[ShapeContext], TensorShape]:
    """The shape function of pooling over 2 or 3 dimensions."""
    return lambda c: _window_output_shape(
        c, spatial, c.attr("ksize"), c.attr("strides"), c.attr("explicit_paddings") if explicit else ()
    )


def _pool_shape_of_inputs(first: int) -> Callable[[ShapeContext], TensorShape]:
    """The same, with ksize and strides in the inputs `first` and `first + 1`."""

    def shape(c: ShapeContext) -> TensorShape:
        ksize, strides = c.constant(first), c.constant(first + 1)
        if ksize is None or strides is None:
            return shapes.with_rank(TensorShape._of(None), 4)
        return _window_output_shape(c, 2, ksize.ravel().tolist(), strides.ravel().tolist())

    return shape


def _input_shape(spatial: int) -> Callable[[ShapeContext], TensorShape]:
    """Gradients have the shape of orig_input."""

    def shape(c: ShapeContext) -> TensorShape:
        if c.num_inputs == 3:
            check_windows(c.attr("ksize"), c.attr("strides"), spatial + 2)
        return shapes.with_rank(c.input(0), spatial + 2)

    return shape


def _shape_in_input(spatial: int) -> Callable[[ShapeContext], TensorShape]:
    def shape(c: ShapeContext) -> TensorShape:
        check_windows(c.attr("ksize"), c.attr("strides"), spatial + 2)
        shapes.with_rank(c.input(1), spatial + 2)
        return shapes.with_rank(c.constant_as_shape(0), spatial + 2)

    return shape


_MAX_FORMAT = "data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"
_GRAD = "orig_input: T, orig_output: T, grad: T -> output: T"
_GRAD_V2 = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"
define(
    "MaxPool", "input: T -> output: T", f"{_MAX_TYPES}, {_WINDOW[2]}, {_EXPLICIT}, {_MAX_FORMAT}",
    shape=pool_shape(2, explicit=True),
)  # fmt: skip
define(
    "MaxPoolV2", "input: T, ksize: int32, strides: int32 -> output: T", f"{_MAX_TYPES}, {_PADDING}, {_MAX_FORMAT}",
    shape=_pool_shape_of_inputs(1),
)  # fmt: skip
define(
    "MaxPoolGrad", _GRAD, f"{_WINDOW[2]}, {_EXPLICIT}, {_FORMAT[2]}, T: {REALS} = float", shape=_input_shape(2)
)  # fmt: skip
define("MaxPoolGradV2", _GRAD_V2, f"{_PADDING}, {_FORMAT[2]}, T: {REALS} = float", shape=_input_shape(2))
define("MaxPoolGradGrad", _GRAD, f"{_WINDOW[2]}, {_PADDING}, {_FORMAT[2]}, T: {REALS}", shape=pool_shape(2))
define("MaxPoolGradGradV2", _GRAD_V2, f"{_PADDING}, {_FORMAT[2]}, T: {REALS}", shape=_pool_shape_of_inputs(3))
define(
    "MaxPool3D", "input: T -> output: T", f"{_WINDOW[3]}, {_PADDING}, {_FORMAT[3]}, T: {FLOATS}", shape=pool_shape(3)
)  # fmt: skip
define(
    "MaxPool3DGrad", "orig_input: TInput, orig_output: TInput, grad: T -> output: T",
    f"{_WINDOW[3]}, {_PADDING}, {_FORMAT[3]}, T: {FLOATS} = float, TInput: {FLOATS} = float", shape=_input_shape(3),
)  # fmt: skip
define("MaxPool3DGradGrad", _GRAD, f"{_WINDOW[3]}, {_PADDING}, {_FORMAT[3]}, T: {REALS}", shape=pool_shape(3))
for _op, _value, _spatial in (("AvgPool", "value", 2), ("AvgPool3D", "input", 3)):
    _attrs = f"{_WINDOW[_spatial]}, {_PADDING}, {_FORMAT[_spatial]}, T: {FLOATS}"
    define(_op, f"{_value}: T -> output: T", _attrs, shape=pool_shape(_spatial))
    define(f"{_op}Grad", "orig_input_shape: int32, grad: T -> output: T", _attrs, shape=_shape_in_input(_spatial))
work(
    works.pooling,
    "MaxPool", "MaxPoolV2", "MaxPoolGrad", "MaxPoolGradV2", "MaxPool3D", "MaxPool3DGrad", "AvgPool", "AvgPoolGrad",
    "AvgPool3D", "AvgPool3DGrad",
)  # fmt: skip


def _attributes(op: Operation, *more: str) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("ksize", "strides", "padding", "data_format", *more)}


@gradient("MaxPool")
def _max_pool_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, **_attributes(op, "explicit_paddings"))


@gradient("MaxPoolV2")
def _max_pool_v2_grad(op: Operation, grad: Tensor) -> Any:
    value, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    return apply_one("MaxPoolGradV2", value, op.outputs[0], grad, ksize, strides, **attrs), None, None


@gradient("MaxPool3D")
def _max_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MaxPool3DGrad", op.inputs[0], op.outputs[0], grad, **_attributes(op))


@gradient("MaxPoolGrad", "MaxPool3DGrad")
def _max_pool_grad_grad(op: Operation, grad: Tensor) -> Any:
    if op.get_attr("padding") == b"EXPLICIT":
        raise NotImplementedError(f"The gradient of {op.name} with explicit paddings is not implemented.")
    back = apply_one(f"{op.type}Grad", op.inputs[0], op.inputs[1], grad, **_attributes(op))
    return ZERO_GRADIENT, ZERO_GRADIENT, back


@gradient("MaxPoolGradV2")
def _max_pool_grad_v2_grad(op: Operation, grad: Tensor) -> Any:
    value, result, _, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    back = apply_one("MaxPoolGradGradV2", value, result, grad, ksize, strides, **attrs)
    return ZERO_GRADIENT, ZERO_GRADIENT, back, None, None


@gradient("MaxPoolGradGrad", "MaxPool3DGradGrad")
def _max_pool_grad_grad_grad(op: Operation, grad: Tensor) -> Any:
    back = apply_one(op.type.removesuffix("Grad"), op.inputs[0], op.inputs[1], grad, **_attributes(op))
    return ZERO_GRADIENT, ZERO_GRADIENT, back


@gradient("MaxPoolGradGradV2")
def _max_pool_grad_grad_v2_grad(op: Operation, grad: Tensor) -> Any:
    value, result, _, ksize, strides = op.inputs
    attrs = {name: op.attrs[name] for name in ("padding", "data_format")}
    back = apply_one("MaxPoolGradV2", value, result, grad, ksize, strides, **attrs)
    return ZERO_GRADIENT, ZERO_GRADIENT, back, None, None


@gradient("AvgPool", "AvgPool3D")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one(f"{op.type}Grad", shape_tensor(op.inputs[0]), grad, **_attributes(op))


@gradient("AvgPoolGrad", "AvgPool3DGrad")
def _avg_pool_grad_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_one(op.type.removesuffix("Grad"), grad, **_attributes(op))


_ARGMAX = "include_batch_in_index: bool = false, Targmax: {int32, int64}"
_POOL_ARGMAX = f"{_WINDOW[2]}, {_PADDING}, {_ARGMAX}, T: {REALS}"


def _argmax_shape(c: ShapeContext) -> list[TensorShape]:
    return [_window_output_shape(c, 2, c.attr("ksize"), c.attr("strides"))] * 2


define(
    "MaxPoolWithArgmax", "input: T -> output: T, argmax: Targmax",
    f"{_WINDOW[2]}, Targmax: {{int32, int64}} = int64, {_PADDING}, include_batch_in_index: bool = false, T: {REALS}",
    shape=_argmax_shape,
)  # fmt: skip
define(
    "MaxPoolGradWithArgmax", "input: T, grad: T, argmax: Targmax -> output: T", _POOL_ARGMAX, shape=_input_shape(2)
)  # fmt: skip
define(
    "MaxPoolGradGradWithArgmax", "input: T, grad: T, argmax: Targmax -> output: T", _POOL_ARGMAX, shape=pool_shape(2)
)  # fmt: skip


def _argmax_attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("ksize", "strides", "padding", "include_batch_in_index")}


@gradient("MaxPoolWithArgmax")
def _max_pool_with_argmax_grad(op: Operation, grad: Tensor, _: Any) -> Any:
    return apply_one("MaxPoolGradWithArgmax", op.inputs[0], grad, op.outputs[1], **_argmax_attrs(op))


@gradient("MaxPoolGradWithArgmax")
def _max_pool_grad_with_argmax_grad(op: Operation, grad: Tensor) -> Any:
    value, _, places = op.inputs
    return ZERO_GRADIENT, apply_one("MaxPoolGradGradWithArgmax", value, grad, places, **_argmax_attrs(op)), None


@gradient("MaxPoolGradGradWithArgmax")
def _max_pool_grad_grad_with_argmax_grad(op: Operation, grad: Tensor) -> Any:
    value, _, places = op.inputs
    return ZERO_GRADIENT, apply_one("MaxPoolGradWithArgmax", value, grad, places, **_argmax_attrs(op)), None
