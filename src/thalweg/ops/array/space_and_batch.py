"""Moving blocks of space into the batch or into the depth, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert, convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.constants import constant
from thalweg.ops.array.joining import stack


def _blocks_shape(
    c: ShapeContext, block: np.ndarray[Any, Any] | None, edges_input: int, spatial: int | None, forward: bool
) -> TensorShape:
    """The shape after space has become batch (forward), or batch space."""
    dims, edges = c.dims(0), c.constant(edges_input)
    matrix = shapes.with_rank(c.input(edges_input), 2).dims_tuple
    assert matrix is not None
    shapes.merge_dims(matrix[1], 2)
    spatial = shapes.merge_dims(spatial, matrix[0])
    if dims is None or spatial is None:
        return shapes.UNKNOWN
    if len(dims) < 1 + spatial:
        raise ValueError(f"Shape must be at least rank {1 + spatial} but is rank {len(dims)}")
    if block is None:
        return TensorShape._of((None,) * (1 + spatial) + dims[1 + spatial :])
    if (block < 1).any():
        raise ValueError(f"block_shape must be positive, got {block.tolist()}")
    if edges is not None and (edges < 0).any():
        raise ValueError(f"paddings and crops cannot be negative, got {edges.tolist()}")
    product = int(np.prod(block, dtype=object))
    result = list(dims)
    if dims[0] is not None:
        if not forward and dims[0] % product:
            raise ValueError(f"batch size {dims[0]} is not divisible by the product {product} of block_shape")
        result[0] = dims[0] * product if forward else dims[0] // product
    for i in range(spatial):
        size = dims[1 + i]
        if size is not None:
            edge = None if edges is None else int(edges[i].sum())
            size = _spatial_size(size, int(block[i]), edge, forward)
        result[1 + i] = size
    return TensorShape._of(tuple(result))


def _spatial_size(size: int, block: int, edge: int | None, forward: bool) -> int | None:
    if edge is None:
        return None
    if not forward:
        if size * block < edge:
            raise ValueError(f"crops of {edge} exceed the size {size * block}")
        return size * block - edge
    if (size + edge) % block:
        raise ValueError(f"padded size {size + edge} is not divisible by the block size {block}")
    return (size + edge) // block


def _nd_shape(forward: bool) -> Any:
    def shape(c: ShapeContext) -> TensorShape:
        length = shapes.with_rank(c.input(1), 1).dims_tuple
        assert length is not None
        return _blocks_shape(c, c.constant(1), 2, length[0], forward)

    return shape


def _square_shape(forward: bool) -> Any:
    def shape(c: ShapeContext) -> TensorShape:
        shapes.with_rank(c.input(0), 4)
        size = c.attr("block_size")
        return _blocks_shape(c, np.array([size, size]), 1, 2, forward)

    return shape


_BLOCK = "T: type, Tblock_shape: {int32, int64} = int32"
define(
    "SpaceToBatchND",
    "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T",
    f"{_BLOCK}, Tpaddings: {{int32, int64}} = int32",
    shape=_nd_shape(True),
)
define(
    "BatchToSpaceND",
    "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T",
    f"{_BLOCK}, Tcrops: {{int32, int64}} = int32",
    shape=_nd_shape(False),
)
define(
    "SpaceToBatch",
    "input: T, paddings: Tpaddings -> output: T",
    "T: type, Tpaddings: {int32, int64} = int32, block_size: int >= 2",
    shape=_square_shape(True),
)
define(
    "BatchToSpace",
    "input: T, crops: Tidx -> output: T",
    "T: type, block_size: int >= 2, Tidx: {int32, int64} = int32",
    shape=_square_shape(False),
)


@export("space_to_batch_nd", "manip.space_to_batch_nd")
def space_to_batch_nd(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Pads the spatial dimensions, and moves the position inside of each block into the batch dimension.

    Args:
        input: A Tensor `[batch, space..., rest...]`.
        block_shape: A vector with the size of a block along each spatial dimension.
        paddings: A matrix with two columns: zeros to add before and after each spatial dimension.
        name: The node's name.

    Returns:
        A Tensor `[batch * prod(block_shape), padded space / block_shape..., rest...]`.
    """
    return apply_one("SpaceToBatchND", input, block_shape, paddings, name=name)


@export("batch_to_space_nd", "manip.batch_to_space_nd")
def batch_to_space_nd(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """The inverse of `space_to_batch_nd`, with crops in the place of paddings."""
    return apply_one("BatchToSpaceND", input, block_shape, crops, name=name)


@export("space_to_batch", "nn.space_to_batch")
def space_to_batch(
    input: Any, paddings: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """`space_to_batch_nd` for images: one block size for height and width."""
    result = space_to_batch_nd(input, _square(block_size, block_shape), paddings, name)
    result.set_shape(result.shape.with_rank(4))
    return result


@export("batch_to_space")
def batch_to_space(
    input: Any, crops: Any, block_size: Any = None, name: str | None = None, block_shape: Any = None
) -> Tensor:
    """`batch_to_space_nd` for images: one block size for height and width."""
    result = batch_to_space_nd(input, _square(block_size, block_shape), crops, name)
    result.set_shape(result.shape.with_rank(4))
    return result


def _square(block_size: Any, block_shape: Any) -> Any:
    size = block_size if block_size is not None else block_shape
    if size is None:
        raise ValueError("block_size is needed.")
    return np.array([size, size], np.int64)


@gradient("SpaceToBatchND")
def _space_to_batch_nd_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("BatchToSpaceND", grad, *op.inputs[1:]), None, None


@gradient("BatchToSpaceND")
def _batch_to_space_nd_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("SpaceToBatchND", grad, *op.inputs[1:]), None, None


@gradient("SpaceToBatch")
def _space_to_batch_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("BatchToSpace", grad, op.inputs[1], block_size=op.attrs["block_size"]), None


@gradient("BatchToSpace")
def _batch_to_space_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("SpaceToBatch", grad, op.inputs[1], block_size=op.attrs["block_size"]), None


@export("required_space_to_batch_paddings")
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the paddings that make `block_shape` divide `input_shape`, and the crops that undo them.

    Args:
        input_shape: A vector with the spatial sizes.
        block_shape: A vector with the block sizes.
        base_paddings: A matrix with two columns of paddings to begin with; zeros if None.
        name: The name scope.

    Returns:
        (paddings, crops) for `space_to_batch_nd` and `batch_to_space_nd`.
    """
    with name_scope(name, "required_space_to_batch_paddings", [input_shape, block_shape]):
        sizes = convert(input_shape, dtypes.int32, "input_shape")
        blocks = convert(block_shape, dtypes.int32, "block_shape")
        blocks.shape.with_rank(1).assert_is_fully_defined()
        count = blocks.shape.as_list()[0] or 0
        if count == 0:
            empty = constant(np.zeros([0, 2], np.int32))
            return empty, empty
        sizes.shape.assert_is_compatible_with([count])
        base = convert_to_tensor(
            np.zeros([count, 2], np.int32) if base_paddings is None else base_paddings, dtypes.int32, "base_paddings"
        )
        base.shape.assert_is_compatible_with([count, 2])
        known = [constant_value(t) for t in (sizes, blocks, base)]
        if all(value is not None for value in known):
            size, block, pads = known
            missing = -(size + pads.sum(axis=1)) % block
            paddings = np.stack([pads[:, 0], pads[:, 1] + missing], 1).astype(np.int32)
            crops = np.stack([np.zeros_like(missing), missing], 1).astype(np.int32)
            return constant(paddings, name="paddings"), constant(crops, name="crops")
        before, after = base[:, 0], base[:, 1]
        full = apply_one("AddV2", apply_one("AddV2", sizes, before), after)
        extra = apply_one("FloorMod", apply_one("Neg", full), blocks)
        padded = stack([before, apply_one("AddV2", after, extra)], axis=1, name="paddings")
        return padded, stack([apply_one("ZerosLike", extra), extra], axis=1, name="crops")


def _depth_shape(to_depth: bool) -> Any:
    def shape(c: ShapeContext) -> TensorShape:
        dims = shapes.with_rank(c.input(0), 4).dims_tuple
        assert dims is not None
        block, layout = c.attr("block_size"), c.attr("data_format")
        if layout == b"NCHW_VECT_C":
            return shapes.UNKNOWN
        height, width, depth = (1, 2, 3) if layout == b"NHWC" else (2, 3, 1)
        result = list(dims)
        for axis, factor in ((height, block), (width, block), (depth, block * block)):
            size = dims[axis]
            if size is None:
                continue
            grows = (axis == depth) == to_depth
            if not grows and size % factor:
                raise ValueError(f"Dimension {axis}, of size {size}, must be divisible by {factor}")
            result[axis] = size * factor if grows else size // factor
        return TensorShape._of(tuple(result))

    return shape


_DEPTH = "T: type, block_size: int >= 2, data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'"
define("SpaceToDepth", "input: T -> output: T", _DEPTH, shape=_depth_shape(True))
define("DepthToSpace", "input: T -> output: T", _DEPTH, shape=_depth_shape(False))


@export("space_to_depth", "nn.space_to_depth")
def space_to_depth(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """Moves blocks of `block_size` by `block_size` pixels into the depth."""
    return apply_one("SpaceToDepth", input, block_size=block_size, data_format=data_format, name=name)


@export("depth_to_space", "nn.depth_to_space")
def depth_to_space(input: Any, block_size: int, name: str | None = None, data_format: str = "NHWC") -> Tensor:
    """The inverse of `space_to_depth`."""
    return apply_one("DepthToSpace", input, block_size=block_size, data_format=data_format, name=name)


@gradient("SpaceToDepth")
def _space_to_depth_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("DepthToSpace", grad, block_size=op.attrs["block_size"], data_format=op.attrs["data_format"])


@gradient("DepthToSpace")
def _depth_to_space_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("SpaceToDepth", grad, block_size=op.attrs["block_size"], data_format=op.attrs["data_format"])
