"""Quantized types, and rounding as if values were quantized: tf.quantize, tf.dequantize, tf.quantization.*."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import Array, require

_MODE = "mode: {'MIN_COMBINED', 'MIN_FIRST', 'SCALED'} = 'MIN_COMBINED'"


def _check_range(c: ShapeContext, first: int, axis: int) -> TensorShape:
    """The shape of a range: scalars, or vectors along an axis of input 0."""
    dims = c.dims(0)
    if axis < 0:
        shapes.with_rank_at_most(c.input(first), 1)
        return shapes.SCALAR
    if dims is not None and axis >= len(dims):
        raise ValueError(f"axis {axis} is out of range for an input of rank {len(dims)}")
    channels = TensorShape._of((None if dims is None else dims[axis],))
    return shapes.merge_shapes([channels, c.input(first), c.input(first + 1)])


def _quantize_shape(c: ShapeContext) -> list[TensorShape]:
    ranges = _check_range(c, 1, c.attr("axis"))
    return [c.input(0), ranges, ranges]


def _dequantize_shape(c: ShapeContext) -> TensorShape:
    _check_range(c, 1, c.attr("axis"))
    return c.input(0)


define(
    "QuantizeV2",
    "input: float, min_range: float, max_range: float -> output: T, output_min: float, output_max: float",
    f"T: quantizedtype, {_MODE}, round_mode: {{'HALF_AWAY_FROM_ZERO', 'HALF_TO_EVEN'}} = 'HALF_AWAY_FROM_ZERO', "
    "narrow_range: bool = false, axis: int = -1, ensure_minimum_range: float = 0.01",
    shape=_quantize_shape,
)  # fmt: skip
define(
    "Dequantize", "input: T, min_range: float, max_range: float -> output: dtype",
    f"T: quantizedtype, {_MODE}, narrow_range: bool = false, axis: int = -1, dtype: {{bfloat16, float}} = float",
    shape=_dequantize_shape,
)  # fmt: skip
not_differentiable("QuantizeV2", "Dequantize")


@export("quantize", "quantization.quantize")
def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """Turns float32 values into a quantized type.

    Args:
        input: float32 tensor.
        min_range: What maps to the lowest integer; moved to 0 if it is larger.
        max_range: What maps to the highest integer.
        T: The quantized type: qint8, quint8, qint16, quint16 or qint32.
        mode: How: 'MIN_COMBINED' (affine), 'MIN_FIRST' (affine, with 0 exact) or 'SCALED' (a factor only).
        round_mode: 'HALF_AWAY_FROM_ZERO', or in mode 'SCALED' also 'HALF_TO_EVEN'.
        name: A name for the operation.
        narrow_range: Whether to leave the lowest integer out, in mode 'SCALED'.
        axis: An axis along which every index has a range of its own; None for one range.
        ensure_minimum_range: The least width of the range, relative to its ends.

    Returns:
        A namedtuple (output, output_min, output_max) with the range that was used.
    """
    return apply(
        "QuantizeV2", input, min_range, max_range, T=as_dtype(T), mode=mode, round_mode=round_mode, name=name,
        narrow_range=narrow_range, axis=-1 if axis is None else axis, ensure_minimum_range=ensure_minimum_range,
    )  # fmt: skip


@export("quantize_v2")
def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """The older spelling of `quantize`, with `name` before `round_mode`."""
    return quantize(
        input, min_range, max_range, T, mode, round_mode, name, narrow_range, axis, ensure_minimum_range
    )  # fmt: skip


@export("dequantize", "quantization.dequantize")
def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = "float32",
) -> Tensor:
    """Turns quantized values back into floats; the opposite of `quantize`, which says what the arguments mean."""
    return apply_one(
        "Dequantize", input, min_range, max_range, mode=mode, narrow_range=narrow_range,
        axis=-1 if axis is None else axis, dtype=as_dtype(dtype), name=name,
    )  # fmt: skip


_QAD_TYPES = "T: {bfloat16, half, float, double}"
for _version in ("V2", "V4"):
    define(
        f"QuantizeAndDequantize{_version}", "input: T, input_min: T, input_max: T -> output: T",
        f"signed_input: bool = true, num_bits: int = 8, range_given: bool = false, {_QAD_TYPES}, "
        "round_mode: {'HALF_TO_EVEN', 'HALF_UP'} = 'HALF_TO_EVEN', narrow_range: bool = false, axis: int = -1",
        shape=_dequantize_shape,
    )  # fmt: skip
define(
    "QuantizeAndDequantizeV3", "input: T, input_min: T, input_max: T, num_bits: int32 -> output: T",
    f"signed_input: bool = true, range_given: bool = true, {_QAD_TYPES}, narrow_range: bool = false, axis: int = -1",
    shape=_dequantize_shape,
)  # fmt: skip


@export("quantization.quantize_and_dequantize")
def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """Rounds floats to what `num_bits` integers represent; the gradient passes through unchanged.

    Args:
        input: Tensor of floats.
        input_min: The lowest value, if `range_given`.
        input_max: The highest value, if `range_given`.
        signed_input: Whether negative integers are used.
        num_bits: The width of the integers.
        range_given: Whether to use `input_min` and `input_max`, instead of the range of `input`.
        round_mode: 'HALF_TO_EVEN' or 'HALF_UP'.
        name: A name for the operation.
        narrow_range: Whether to leave the lowest integer out.
        axis: An axis along which every index has a range of its own; None for one range.

    Returns:
        A Tensor like `input`.
    """
    x = convert_to_tensor(input)
    return apply_one(
        "QuantizeAndDequantizeV2", x, input_min, input_max, signed_input=signed_input, num_bits=num_bits,
        range_given=range_given, round_mode=round_mode, narrow_range=narrow_range,
        axis=-1 if axis is None else axis, name=name,
    )  # fmt: skip


@gradient("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3")
def _straight_through(op: Operation, grad: Tensor) -> Any:
    return [grad] + [None] * (len(op.inputs) - 1)


@gradient("QuantizeAndDequantizeV4")
def _within_range(op: Operation, grad: Tensor) -> Any:
    """The gradient reaches the input where it is in the range, and the ends of the range where it is outside."""
    x, low, high = op.inputs
    if op.get_attr("axis") != -1:
        raise LookupError("QuantizeAndDequantizeV4 has no gradient for ranges by channel.")
    zeros = apply_one("ZerosLike", grad)
    below, above = apply_one("Less", x, low), apply_one("Greater", x, high)
    ends = []
    for outside, end in ((below, low), (above, high)):
        axes = apply_one("Range", 0, apply_one("Rank", x), 1)
        total = apply_one("Sum", apply_one("SelectV2", outside, grad, zeros), axes)
        ends.append(apply_one("Reshape", total, apply_one("Shape", end)))
    inside = apply_one("SelectV2", apply_one("LogicalOr", below, above), zeros, grad)
    return [inside, *ends]


def _vars_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    shapes.with_rank(c.input(2), 0)
    return c.input(0)


def _channels_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    channels = TensorShape._of((None if dims is None else dims[-1],))
    shapes.merge_shapes([channels, shapes.with_rank(c.input(1), 1), shapes.with_rank(c.input(2), 1)])
    return c.input(0)


def _gradient_shape(c: ShapeContext) -> Any:
    inputs = shapes.merge(c.input(0), c.input(1))
    return inputs if c.num_inputs == 2 else [inputs, c.input(2), c.input(3)]


_BITS = "num_bits: int = 8, narrow_range: bool = false"
_LIMITS = "min: float = -6.0, max: float = 6.0"
_BACKPROPS = (
    "gradients: float, inputs: float, min: float, max: float "
    "-> backprops_wrt_input: float, backprop_wrt_min: float, backprop_wrt_max: float"
)
define("FakeQuantWithMinMaxArgs", "inputs: float -> outputs: float", f"{_LIMITS}, {_BITS}", shape=shapes.unchanged)
define(
    "FakeQuantWithMinMaxArgsGradient", "gradients: float, inputs: float -> backprops: float", f"{_LIMITS}, {_BITS}",
    shape=_gradient_shape,
)  # fmt: skip
for _op, _shape in (("FakeQuantWithMinMaxVars", _vars_shape), ("FakeQuantWithMinMaxVarsPerChannel", _channels_shape)):
    define(_op, "inputs: float, min: float, max: float -> outputs: float", _BITS, shape=_shape)
    define(f"{_op}Gradient", _BACKPROPS, _BITS, shape=_gradient_shape)
    not_differentiable(f"{_op}Gradient")
not_differentiable("FakeQuantWithMinMaxArgsGradient")


@export("fake_quant_with_min_max_args", "quantization.fake_quant_with_min_max_args")
def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """Rounds float32 values as `num_bits` integers over the fixed range [min, max] would."""
    return apply_one(
        "FakeQuantWithMinMaxArgs", inputs, min=float(min), max=float(max), num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip


@export("fake_quant_with_min_max_args_gradient", "quantization.fake_quant_with_min_max_args_gradient")
def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The gradient of `fake_quant_with_min_max_args`: passes where the input is inside of the range."""
    return apply_one(
        "FakeQuantWithMinMaxArgsGradient", gradients, inputs, min=float(min), max=float(max), num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip


@export("fake_quant_with_min_max_vars", "quantization.fake_quant_with_min_max_vars")
def fake_quant_with_min_max_vars(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Rounds float32 values as `num_bits` integers over the range [min, max] would; the range is learned."""
    return apply_one(
        "FakeQuantWithMinMaxVars", inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )


@export("fake_quant_with_min_max_vars_gradient", "quantization.fake_quant_with_min_max_vars_gradient")
def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars` for its three inputs."""
    return apply(
        "FakeQuantWithMinMaxVarsGradient", gradients, inputs, min, max, num_bits=num_bits, narrow_range=narrow_range,
        name=name,
    )  # fmt: skip


@export("fake_quant_with_min_max_vars_per_channel", "quantization.fake_quant_with_min_max_vars_per_channel")
def fake_quant_with_min_max_vars_per_channel(
    inputs: Any, min: Any, max: Any, num_bits: int = 8, narrow_range: bool = False, name: str | None = None
) -> Tensor:
    """Like `fake_quant_with_min_max_vars`, with a range for each index along the last axis."""
    return apply_one(
        "FakeQuantWithMinMaxVarsPerChannel", inputs, min, max, num_bits=num_bits, narrow_range=narrow_range, name=name
    )


@export(
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantization.fake_quant_with_min_max_vars_per_channel_gradient",
)
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of `fake_quant_with_min_max_vars_per_channel` for its three inputs."""
    return apply(
        "FakeQuantWithMinMaxVarsPerChannelGradient", gradients, inputs, min, max, num_bits=num_bits,
        narrow_range=narrow_range, name=name,
    )  # fmt: skip


@gradient("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def _fake_quant_grad(op: Operation, grad: Tensor) -> Any:
    attrs = {key: op.attrs[key] for key in ("num_bits", "narrow_range", "min", "max") if key in op.attrs}
    back = apply(f"{op.type}Gradient", grad, *op.inputs, **attrs)
    return back if isinstance(back, Tensor) else list(back)


def _bitpack_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    shapes.with_rank(c.input(1), 0)
    if dims is None:
        return shapes.UNKNOWN
    if dims[-1] is not None and dims[-1] % 8:
        raise ValueError(f"The last dimension must be a multiple of 8, got {dims[-1]}")
    return TensorShape._of((*dims[:-1], None if dims[-1] is None else dims[-1] // 8))


define(
    "CompareAndBitpack", "input: T, threshold: T -> output: uint8",
    "T: {bool, half, float, double, int8, int16, int32, int64}", shape=_bitpack_shape,
)  # fmt: skip
not_differentiable("CompareAndBitpack")


@python_kernel("CompareAndBitpack")
def _bitpack_kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x, threshold = inputs
    require(threshold.ndim == 0, f"threshold must be a scalar, got shape {list(threshold.shape)}")
    require(
        x.ndim > 0 and x.shape[-1] % 8 == 0, f"the last dimension must be a multiple of 8, got shape {list(x.shape)}"
    )
    return np.packbits(x > threshold, axis=-1)


@export("compare_and_bitpack")
def compare_and_bitpack(input: Any, threshold: Any, name: str | None = None) -> Tensor:
    """Packs eight comparisons `input > threshold` along the last axis into each byte, the first in its highest bit."""
    return apply_one("CompareAndBitpack", input, threshold, name=name)
