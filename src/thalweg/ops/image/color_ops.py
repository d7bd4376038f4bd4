"""The colour ops on pixels: RGBToHSV, HSVToRGB, AdjustHue, AdjustSaturation, AdjustContrastv2, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.casting import cast


def _hsv_shape(c: ShapeContext) -> TensorShape:
    shape = shapes.with_rank_at_least(c.input(0), 1 if c.num_inputs == 1 else 3)
    dims = shape.dims_tuple
    if c.num_inputs == 2:
        shapes.with_rank(c.input(1), 0)
    return shape if dims is None else TensorShape._of((*dims[:-1], shapes.merge_dims(dims[-1], 3)))


def _contrast_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    return shapes.with_rank_at_least(c.input(0), 3)


for _op in ("RGBToHSV", "HSVToRGB"):
    define(_op, "images: T -> output: T", "T: {half, bfloat16, float, double} = float", shape=_hsv_shape)
for _op, _input in (("AdjustHue", "delta"), ("AdjustSaturation", "scale")):
    define(_op, f"images: T, {_input}: float -> output: T", "T: {half, float} = float", shape=_hsv_shape)
define(
    "AdjustContrastv2",
    "images: T, contrast_factor: float -> output: T",
    "T: {half, float} = float",
    shape=_contrast_shape,
)


@export("image.rgb_to_hsv")
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Converts pixels from red, green, blue in [0, 1] to hue, saturation, value in [0, 1]."""
    return apply_one("RGBToHSV", images, name=name)


@export("image.hsv_to_rgb")
def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Converts pixels from hue, saturation, value in [0, 1] to red, green, blue in [0, 1]."""
    return apply_one("HSVToRGB", images, name=name)


def _one_hot(index: Any, dtype: Any) -> Any:
    return apply_one("OneHot", index, 3, convert_to_tensor(1, dtype=dtype), convert_to_tensor(0, dtype=dtype))


def _channels(x: Tensor) -> list[Any]:
    """The three channels, each with a last dimension of 1."""
    return apply_list("Split", -1, x, num_split=3)


def _reduce_channels(op_type: str, x: Any) -> Any:
    return apply_one(op_type, x, [-1], keep_dims=True)


def _rgb_grad(rgb: Tensor, grad: Any) -> Any:
    """The gradient of the colours, from that of hue, saturation and value.

    With the largest channel m, the next ones p and q around the circle, and the range r = m - smallest: the hue is
    (p - q) / 6r plus a constant, the saturation r / m, the value m.
    """
    dtype = rgb.dtype
    by_hue, by_saturation, by_value = _channels(grad)
    largest = apply_one("ArgMax", rgb, -1)
    top, low = _one_hot(largest, dtype), _one_hot(apply_one("ArgMin", rgb, -1), dtype)
    next_one = _one_hot(apply_one("FloorMod", largest + 1, convert_to_tensor(3, dtype=largest.dtype)), dtype)
    after_next = _one_hot(apply_one("FloorMod", largest + 2, convert_to_tensor(3, dtype=largest.dtype)), dtype)
    value, smallest = _reduce_channels("Max", rgb), _reduce_channels("Min", rgb)
    spread: Any = value - smallest
    around = next_one - after_next
    difference = _reduce_channels("Sum", around * rgb)
    hue = apply_one("DivNoNan", around, spread * 6.0) - apply_one("DivNoNan", difference, spread * spread * 6.0) * (
        top - low
    )
    saturation = apply_one("DivNoNan", smallest, value * value) * top - apply_one("DivNoNan", low, value)
    return by_hue * hue + by_saturation * saturation + by_value * top


def _hsv_grad(hsv: Tensor, grad: Any) -> Any:
    """The gradient of hue, saturation and value, from that of the colours."""
    hue, saturation, value = _channels(hsv)
    centers = np.array([3.0, 2.0, 4.0], hsv.dtype.as_numpy_dtype)
    signs, offsets = np.array([1.0, -1.0, -1.0], centers.dtype), np.array([-1.0, 2.0, 2.0], centers.dtype)
    distance = hue * 6.0 - centers
    level = apply_one("Abs", distance) * signs + offsets
    inside = cast(apply_one("LogicalAnd", level > 0.0, level < 1.0), hsv.dtype)
    pure = apply_one("ClipByValue", level, convert_to_tensor(0, dtype=hsv.dtype), convert_to_tensor(1, dtype=hsv.dtype))
    slope = apply_one("Sign", distance) * inside * (signs * 6.0)
    parts = [slope * saturation * value, (pure - 1.0) * value, (pure - 1.0) * saturation + 1.0]
    return apply_one("ConcatV2", [_reduce_channels("Sum", grad * part) for part in parts], -1)


@gradient("RGBToHSV")
def _rgb_to_hsv_grad(op: Operation, grad: Tensor) -> Any:
    return _rgb_grad(op.inputs[0], grad)


@gradient("HSVToRGB")
def _hsv_to_rgb_grad(op: Operation, grad: Tensor) -> Any:
    return _hsv_grad(op.inputs[0], grad)


def _sum_of_all(x: Any) -> Any:
    return cast(apply_one("Sum", apply_one("Reshape", x, [-1]), [0]), "float32")


@gradient("AdjustHue")
def _adjust_hue_grad(op: Operation, grad: Tensor) -> Any:
    images, delta = op.inputs
    hue, saturation, value = _channels(rgb_to_hsv(images))
    moved = hue + cast(delta, images.dtype)
    changed = apply_one("ConcatV2", [moved - apply_one("Floor", moved), saturation, value], -1)
    by_hsv = _hsv_grad(changed, grad)
    return _rgb_grad(images, by_hsv), _sum_of_all(_channels(by_hsv)[0])


@gradient("AdjustSaturation")
def _adjust_saturation_grad(op: Operation, grad: Tensor) -> Any:
    images, scale = op.inputs
    hue, saturation, value = _channels(rgb_to_hsv(images))
    factor = cast(scale, images.dtype)
    scaled = saturation * factor
    zero, one = (convert_to_tensor(n, dtype=images.dtype) for n in (0, 1))
    changed = apply_one("ConcatV2", [hue, apply_one("ClipByValue", scaled, zero, one), value], -1)
    by_hue, by_saturation, by_value = _channels(_hsv_grad(changed, grad))
    by_saturation = by_saturation * cast(apply_one("LogicalAnd", scaled > 0.0, scaled < 1.0), images.dtype)
    by_hsv = apply_one("ConcatV2", [by_hue, by_saturation * factor, by_value], -1)
    return _rgb_grad(images, by_hsv), _sum_of_all(by_saturation * saturation)


@gradient("AdjustContrastv2")
def _adjust_contrast_grad(op: Operation, grad: Tensor) -> Any:
    images, contrast = op.inputs
    factor: Any = cast(contrast, images.dtype)

    def mean(x: Any) -> Any:
        return apply_one("Mean", x, [-3, -2], keep_dims=True)

    return grad * factor + mean(grad) * (1.0 - factor), _sum_of_all(grad * (images - mean(images)))
