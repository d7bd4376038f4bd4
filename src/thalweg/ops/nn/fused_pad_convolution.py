"""FusedPadConv2D and FusedResizeAndPadConv2D: a convolution of mirrored and resized images, of optimized graphs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import Array, require

_TYPES = "T: {half, float, double}"
_CONVOLUTION = "mode: {'REFLECT', 'SYMMETRIC'}, strides: list(int), padding: {'SAME', 'VALID'}"


def _shape(c: ShapeContext) -> TensorShape:
    resizes = c.num_inputs == 4
    dims, kernel = shapes.with_rank(c.input(0), 4).dims_tuple, shapes.with_rank(c.input(c.num_inputs - 1), 4).dims_tuple
    assert dims is not None and kernel is not None
    strides = c.attr("strides")
    if len(strides) != 4 or min(strides) < 1:
        raise ValueError(f"strides must be four positive numbers, got {strides}")
    if resizes:
        shapes.merge(c.input(1), TensorShape._of((2,)))
    shapes.merge(c.input(c.num_inputs - 2), TensorShape._of((4, 2)))
    size, pads = c.constant(1) if resizes else None, c.constant(c.num_inputs - 2)
    sizes = list(dims) if not resizes else [dims[0], *([None] * 2 if size is None else size.tolist()), dims[3]]
    out: list[int | None] = [dims[0], None, None, kernel[3]]
    for i in (1, 2):
        known, width = sizes[i], kernel[i - 1]
        if known is not None and width is not None and pads is not None:
            step, same = strides[i], c.attr("padding") == b"SAME"
            whole = int(known) + int(pads[i].sum())
            out[i] = -(-whole // step) if same else -(-(whole - width + 1) // step)
    return TensorShape._of(tuple(out))


define("FusedPadConv2D", "input: T, paddings: int32, filter: T -> output: T", f"{_TYPES}, {_CONVOLUTION}", shape=_shape)
define(
    "FusedResizeAndPadConv2D", "input: T, size: int32, paddings: int32, filter: T -> output: T",
    f"{_TYPES}, resize_align_corners: bool = false, {_CONVOLUTION}", shape=_shape,
)  # fmt: skip
not_differentiable("FusedPadConv2D", "FusedResizeAndPadConv2D")


def _along(x: Array, axis: int, count: int, align: bool) -> Array:
    """Interpolates linearly between neighbours along an axis."""
    old = x.shape[axis]
    scale = (old - 1) / (count - 1) if align and count > 1 else old / count
    places = np.arange(count) * np.float32(scale)
    low = np.minimum(places.astype(np.int64), old - 1)
    high = np.minimum(low + 1, old - 1)
    share = (places - low).astype(x.dtype).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    first = x.take(low, axis)
    result: Array = first + (x.take(high, axis) - first) * share
    return result


@python_kernel("FusedPadConv2D", "FusedResizeAndPadConv2D")
def _convolve(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x, *size, paddings, kernel = (np.asarray(each) for each in inputs)
    require(x.ndim == 4 and kernel.ndim == 4, "images and filter must have 4 dimensions")
    require(
        x.shape[3] == kernel.shape[2], f"{x.shape[3]} channels of the images do not fit {kernel.shape[2]} of the filter"
    )
    require(paddings.shape == (4, 2), f"paddings must be a 4x2 matrix, got shape {list(paddings.shape)}")
    require(
        not paddings[[0, 3]].any() and paddings.min() >= 0,
        f"paddings must be of rows and columns, got {paddings.tolist()}",
    )
    steps = list(attrs["strides"])
    require(
        len(steps) == 4 and steps[0] == steps[3] == 1 and min(steps) > 0,
        f"strides must be [1, rows, columns, 1], got {steps}",
    )
    if size:
        rows, columns = _checked_size(size[0], x)
        x = _along(_along(x, 1, rows, attrs["resize_align_corners"]), 2, columns, attrs["resize_align_corners"])
    mirror: Literal["reflect", "symmetric"] = "reflect" if attrs["mode"] in (b"REFLECT", "REFLECT") else "symmetric"
    inside = 1 if mirror == "reflect" else 0
    for i in (1, 2):
        require(
            paddings[i].max() <= x.shape[i] - inside,
            f"paddings {paddings[i].tolist()} are too large for {list(x.shape)}",
        )
    x = np.pad(x, [tuple(each) for each in paddings.tolist()], mirror)
    if attrs["padding"] in (b"SAME", "SAME"):
        whole = [max((-(-x.shape[i] // steps[i]) - 1) * steps[i] + kernel.shape[i - 1] - x.shape[i], 0) for i in (1, 2)]
        x = np.pad(x, [(0, 0), *((each // 2, each - each // 2) for each in whole), (0, 0)])
    require(x.shape[1] >= kernel.shape[0] and x.shape[2] >= kernel.shape[1], "the filter is larger than the images")
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel.shape[:2], (1, 2))[:, :: steps[1], :: steps[2]]
    return np.tensordot(windows, kernel, ((3, 4, 5), (2, 0, 1))).astype(x.dtype)


def _checked_size(size: Array, x: Array) -> tuple[int, int]:
    require(size.shape == (2,) and size.min() > 0, f"size must be two positive numbers, got {size.tolist()}")
    require(x.shape[1] > 0 and x.shape[2] > 0, f"images of shape {list(x.shape)} are empty")
    require(int(size.max()) < 2**24, f"size {size.tolist()} is too large")
    return int(size[0]), int(size[1])
