"""ExtractVolumePatches: the patches of volumes as vectors. UnravelIndex: flat indices as coordinates."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import int32
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]

_NUMBERS: Final = "{float32, float64, int32, uint8, int16, int8, int64, bfloat16, uint16, float16, uint32, uint64}"


def _out_size(size: int, kernel: int, stride: int, padding: bytes) -> int:
    return -(-size // stride) if padding == b"SAME" else max(-(-(size - kernel + 1) // stride), 0)


def _checked_window(ksizes: Any, strides: Any) -> tuple[list[int], list[int]]:
    sizes, steps = [int(k) for k in ksizes], [int(s) for s in strides]
    for name, given in (("ksizes", sizes), ("strides", steps)):
        if len(given) != 5 or min(given) < 1 or given[0] != 1 or given[4] != 1:
            raise ValueError(f"{name} must be [1, planes, rows, cols, 1] with sizes from 1, got {given}.")
    return sizes, steps


def _patches_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank(c.input(0), 5).dims_tuple
    sizes, steps = _checked_window(c.attr("ksizes"), c.attr("strides"))
    if dims is None:
        return TensorShape([None] * 5)
    inner = [
        None if d is None else _out_size(d, sizes[i], steps[i], c.attr("padding"))
        for i, d in enumerate(dims[1:4], start=1)
    ]
    depth = None if dims[4] is None else dims[4] * math.prod(sizes)
    return TensorShape([dims[0], *inner, depth])


define(
    "ExtractVolumePatches",
    "input: T -> patches: T",
    f"ksizes: list(int) >= 5, strides: list(int) >= 5, T: {_NUMBERS}, padding: {{'SAME', 'VALID'}}",
    shape=_patches_shape,
)


@python_kernel("ExtractVolumePatches")
def _extract(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    x = np.asarray(inputs[0])
    require(x.ndim == 5, f"input must have 5 dimensions, got shape {list(x.shape)}")
    try:
        sizes, steps = _checked_window(attrs["ksizes"], attrs["strides"])
    except ValueError as e:
        require(False, str(e))
    padding = bytes(attrs["padding"])
    out = [_out_size(x.shape[i], sizes[i], steps[i], padding) for i in (1, 2, 3)]
    if padding == b"SAME":
        missing = [max((out[i - 1] - 1) * steps[i] + sizes[i] - x.shape[i], 0) for i in (1, 2, 3)]
        x = np.pad(x, [(0, 0), *((m // 2, m - m // 2) for m in missing), (0, 0)])
    depth = math.prod(sizes) * x.shape[4]
    if 0 in (*out, depth, x.shape[0]):
        return np.zeros([x.shape[0], *out, depth], x.dtype)
    windows = np.lib.stride_tricks.sliding_window_view(x, sizes[1:4], axis=(1, 2, 3))
    windows = windows[:, :: steps[1], :: steps[2], :: steps[3]][:, : out[0], : out[1], : out[2]]
    return np.ascontiguousarray(windows.transpose(0, 1, 2, 3, 5, 6, 7, 4)).reshape(x.shape[0], *out, depth)


@gradient("ExtractVolumePatches")
def _extract_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    shape = apply_one("Shape", x)
    count = apply_one("Prod", shape, [0])
    # The patches of the elements' numbers, from 1 on; 0 is padding.
    numbers = apply_one("Reshape", apply_one("Range", 1, apply_one("AddV2", count, 1), 1), shape)
    options = {name: op.get_attr(name) for name in ("ksizes", "strides", "padding")}
    places = apply_one("Sub", apply_one("ExtractVolumePatches", numbers, **options), 1)
    return apply_one("Reshape", apply_one("UnsortedSegmentSum", grad, places, count), shape)


@export("extract_volume_patches")
def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """Extracts patches of volumes, and puts each into the depth of the output.

    Args:
        input: `[batch, planes, rows, cols, depth]`.
        ksizes: The size of a patch: `[1, planes, rows, cols, 1]`.
        strides: The distance of neighbouring patches, in the same form.
        padding: 'SAME' or 'VALID'.
        name: A name for the operation.

    Returns:
        `[batch, out_planes, out_rows, out_cols, planes * rows * cols * depth]`.

    Example:
        >>> volume = tf.reshape(tf.range(16), [1, 2, 2, 4, 1])
        >>> tf.extract_volume_patches(volume, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID").shape.as_list()
        [1, 1, 1, 2, 8]
    """
    return apply_one(
        "ExtractVolumePatches", input, ksizes=list(ksizes), strides=list(strides), padding=padding, name=name
    )


def _unravel_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 1)
    rank = (c.dims(1) or (None,))[0]
    indices = c.dims(0)
    if indices is None:
        return TensorShape(None)
    if not indices:
        return TensorShape([rank])
    return TensorShape([rank, shapes.num_elements(indices) if len(indices) > 1 else indices[0]])


define(
    "UnravelIndex",
    "indices: Tidx, dims: Tidx -> output: Tidx",
    "Tidx: {int32, int64} = int32",
    shape=_unravel_shape,
)
not_differentiable("UnravelIndex")


@python_kernel("UnravelIndex")
def _unravel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    indices, dims = (np.asarray(x) for x in inputs)
    require(dims.ndim == 1, f"dims must be a vector, got shape {list(dims.shape)}")
    require(dims.size and (dims > 0).all(), f"dims must be positive and at least one, got {dims.tolist()}")
    total = math.prod(dims.tolist())
    inside = indices.size == 0 or (indices.min() >= 0 and indices.max() < total)
    require(inside, f"indices are out of bounds as of dims {dims.tolist()}: they must be from 0 to {total - 1}")
    parts = np.unravel_index(indices.reshape(-1), tuple(dims.tolist()))
    out = np.stack(parts).astype(indices.dtype)
    return out[:, 0] if indices.ndim == 0 else out


@export("unravel_index")
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """The coordinates of flat indices into an array: `[dimensions, indices]`.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.unravel_index([2, 5], [3, 3])))
        [[0 1]
         [2 2]]
    """
    indices = convert_to_tensor(indices, preferred_dtype=int32)
    return apply_one("UnravelIndex", indices, convert_to_tensor(dims, indices.dtype), name=name)
