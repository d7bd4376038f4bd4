"""Gathering entries of a tensor by index: gather, gather_nd, boolean_mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import colocate_with, get_default_graph, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.dispatch import dispatched
from thalweg.graph.definitions.op_registry import define, export, gradient, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.joining import concat
from thalweg.ops.array.shapes_of_tensors import reshape, shape_tensor, size, sizes_of, squeeze

# The policy for indices out of range. Only the default, an error, is supported.
POLICY = "bad_indices_policy: {'', 'DEFAULT', 'ERROR'} = ''"


def _gather_shape(c: ShapeContext) -> TensorShape:
    params, indices = shapes.with_rank_at_least(c.input(0), 1).dims_tuple, c.dims(1)
    if params is None or indices is None:
        return shapes.UNKNOWN
    return TensorShape._of((*indices, *params[1:]))


def _gather_v2_shape(c: ShapeContext) -> TensorShape:
    params, indices = shapes.with_rank_at_least(c.input(0), 1).dims_tuple, c.dims(1)
    shapes.with_rank(c.input(2), 0)
    axis_value, batch = c.constant(2), c.attr("batch_dims")
    if params is None or indices is None:
        return shapes.UNKNOWN
    if not -len(indices) <= batch <= len(indices):
        raise ValueError(f"batch_dims {batch} must be in [{-len(indices)}, {len(indices)}]")
    batch += len(indices) if batch < 0 else 0
    if batch >= len(params):
        raise ValueError(f"batch_dims ({batch}) must be less than rank(params) ({len(params)})")
    if axis_value is None:
        return TensorShape._of((None,) * (len(params) + len(indices) - 1 - batch))
    axis = int(axis_value)
    if not -len(params) <= axis < len(params):
        raise ValueError(f"Shape must be at least rank {axis + 1 if axis >= 0 else -axis} but is rank {len(params)}")
    axis %= len(params)
    if axis < batch:
        raise ValueError(f"batch_dims ({batch}) must be less than or equal to axis ({axis})")
    together = tuple([shapes.merge_dims(p, i) for p, i in zip(params[:batch], indices[:batch], strict=True)])
    return TensorShape._of((*together, *params[batch:axis], *indices[batch:], *params[axis + 1 :]))


define(
    "Gather",
    "params: Tparams, indices: Tindices -> output: Tparams",
    "validate_indices: bool = true, Tparams: type, Tindices: {int32, int64}",
    shape=_gather_shape,
)
define(
    "GatherV2",
    "params: Tparams, indices: Tindices, axis: Taxis -> output: Tparams",
    "batch_dims: int = 0, Tparams: type, Tindices: {int16, int32, int64}, Taxis: {int32, int64}",
    shape=_gather_v2_shape,
)


@export("gather")
@dispatched
def gather(
    params: Any,
    indices: Any,
    validate_indices: bool | None = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Tensor:
    """Picks entries of `params` along one dimension.

    Args:
        params: A Tensor, or a variable: then only the rows asked for are read.
        indices: Which entries; a tensor of any shape.
        validate_indices: Ignored: indices are always checked.
        name: The node's name.
        axis: The dimension to pick from; `batch_dims` if None.
        batch_dims: How many leading dimensions of `params` and `indices` go together.

    Returns:
        A Tensor of shape `params.shape[:axis] + indices.shape[batch_dims:] + params.shape[axis + 1:]`.

    Example:
        >>> tf.gather(tf.zeros([5, 3]), [[0, 4], [2, 2]]).shape.as_list()
        [2, 2, 3]
    """
    if axis is None:
        axis = batch_dims
    known = axis if isinstance(axis, (int, np.integer)) else constant_value(axis) if isinstance(axis, Tensor) else None
    if known is not None and int(known) == 0 and batch_dims == 0 and hasattr(params, "sparse_read"):
        get_default_graph()._shift_seeds(1)  # the axis
        tensor: Tensor = params.sparse_read(indices, name=name)
        return tensor
    return apply_one("GatherV2", params, indices, axis, batch_dims=batch_dims, name=name)


@export("batch_gather")
def batch_gather(params: Any, indices: Any, name: str | None = None) -> Tensor:
    """Gathers along the last dimension of `indices`; the dimensions before it are batch dimensions."""
    with name_scope(name, "BatchGather", [params, indices]):
        rows = convert_to_tensor(indices, name="indices")
        if rows.shape.ndims is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        if rows.shape.ndims == 0:
            raise ValueError("batch_gather needs indices of rank 1 or more.")
        return gather(convert_to_tensor(params, name="params"), rows, batch_dims=rows.shape.ndims - 1)


@gradient("Gather")
def _gather_grad(op: Operation, grad: Any) -> Any:
    return _row_slices(op.inputs[0], op.inputs[1], grad), None


work(works.picking, "Gather", "GatherV2")


@gradient("GatherV2")
def _gather_v2_grad(op: Operation, grad: Any) -> Any:
    params, indices, axis_tensor = op.inputs
    axis, batch = constant_value(axis_tensor), op.attrs["batch_dims"]
    if axis is not None and int(axis) == 0 and batch == 0:
        return _row_slices(params, indices, grad), None, None
    grad = convert_to_tensor(grad)
    with colocate_with(params, ignore_existing=True):  # The gradient may be on another task.
        sizes = convert_to_tensor(shape_tensor(params, out_type=dtypes.int64))
    rank = params.shape.ndims
    if axis is not None and rank is not None:
        axis = int(axis) % rank
    elif axis is not None and int(axis) >= 0:
        axis = int(axis)
    else:
        axis = apply_one("FloorMod", apply_one("Cast", axis_tensor, DstT=dtypes.int32), apply_one("Rank", params))
    if batch < 0:
        if indices.shape.ndims is None:
            raise ValueError("The gradient of gather with negative batch_dims needs indices of known rank.")
        batch += indices.shape.ndims
    # Every entry along `axis` is a row of a matrix [batch * outer * limit, inner]; the gradient is a sum into its rows.
    pairs = _product(sizes[:batch]), _product(sizes[batch:axis])
    limit = sizes[axis]
    blocks = apply_one("Mul", *pairs)
    first = apply_one("Mul", apply_one("Range", np.int64(0), blocks, np.int64(1)), limit)
    rows = apply_one(
        "AddV2",
        reshape(first, apply_one("Pack", [*pairs, np.int64(1)])),
        reshape(
            apply_one("Cast", indices, DstT=dtypes.int64), apply_one("Pack", [pairs[0], np.int64(1), np.int64(-1)])
        ),
    )
    rows = reshape(rows, [-1])
    inner = _product(sizes[axis + 1 :])
    values = reshape(grad, apply_one("Pack", [apply_one("Size", rows, out_type=dtypes.int64), inner]))
    total = apply_one("UnsortedSegmentSum", values, rows, apply_one("Mul", blocks, limit))
    result = reshape(total, sizes)
    result.set_shape(params.shape)
    return result, None, None


def _product(sizes: Any) -> Any:
    return apply_one("Prod", sizes, [0])


def _row_slices(params: Tensor, indices: Tensor, grad: Any) -> IndexedSlices:
    """The gradient of a gather of rows: IndexedSlices of these rows, not a dense tensor of the size of `params`."""
    with colocate_with(params, ignore_existing=True):  # The gradient may be on another task.
        dense_shape = convert_to_tensor(sizes_of(params))
    inner = params.shape.dims_tuple
    if inner is not None and None not in inner[1:] and 0 not in inner[1:]:
        values = reshape(grad, np.array([-1, *inner[1:]], np.int32))
    else:
        count = apply_one("ExpandDims", size(indices), 0)
        values = reshape(grad, concat([count, dense_shape[1:]], 0))
    # A vector stays as it is: it may be on the variable's task already.
    flat = indices if indices.shape.ndims == 1 else reshape(indices, [-1])
    return IndexedSlices(values, flat, dense_shape)


def _gather_nd_shape(c: ShapeContext) -> TensorShape:
    params, indices = c.dims(0), shapes.with_rank_at_least(c.input(1), 1).dims_tuple
    if params is None or indices is None or indices[-1] is None:
        return shapes.UNKNOWN
    if indices[-1] > len(params):
        raise ValueError(
            f"indices.shape[-1] must be <= params.rank, but saw indices shape: {shapes.short(c.input(1))} and params "
            f"shape: {shapes.short(c.input(0))}"
        )
    return TensorShape._of((*indices[:-1], *params[indices[-1] :]))


define(
    "GatherNd",
    "params: Tparams, indices: Tindices -> output: Tparams",
    f"Tparams: type, Tindices: {{int16, int32, int64}}, {POLICY}",
    shape=_gather_nd_shape,
)


@export("gather_nd", "manip.gather_nd")
def gather_nd(params: Any, indices: Any, name: str | None = None, batch_dims: Any = 0) -> Tensor:
    """Picks slices of `params`, each by a tuple of indices.

    Args:
        params: A Tensor.
        indices: The last dimension holds the tuples.
        name: The node's name.
        batch_dims: How many leading dimensions of `params` and `indices` go together.

    Returns:
        A Tensor of shape `indices.shape[:-1] + params.shape[indices.shape[-1]:]`.

    Example:
        >>> tf.gather_nd(tf.zeros([5, 3, 2]), [[0, 1], [4, 2]]).shape.as_list()
        [2, 2]
    """
    batch = constant_value(batch_dims) if isinstance(batch_dims, Tensor) else batch_dims
    if batch is not None and int(batch) > 0:
        return _batch_gather_nd(params, indices, int(batch), name)
    if hasattr(params, "gather_nd") and not isinstance(params, Tensor):
        tensor: Tensor = params.gather_nd(indices, name=name)
        return tensor
    return apply_one("GatherNd", params, indices, name=name)


def _batch_gather_nd(params: Any, indices: Any, batch: int, name: str | None) -> Tensor:
    """Puts the batch positions in front of every tuple."""
    with name_scope(name, "BatchGatherND", [params, indices]):
        source, tuples = convert_to_tensor(params, name="params"), convert_to_tensor(indices, name="indices")
        rank = tuples.shape.ndims
        if rank is None:
            raise ValueError("gather_nd with batch_dims needs indices of known rank.")
        if batch >= rank:
            raise ValueError(f"batch_dims = {batch} must be less than rank(indices) = {rank}")
        if source.shape.ndims is not None and batch >= source.shape.ndims:
            raise ValueError(f"batch_dims = {batch} must be less than rank(params) = {source.shape.ndims}")
        sizes = shape_tensor(tuples)
        per_tuple = concat([sizes[:-1], [1]], 0)
        positions = []
        for i in range(batch):
            along = apply_one("Range", 0, sizes[i], 1)
            column = reshape(apply_one("Cast", along, DstT=tuples.dtype), [-1] + [1] * (rank - 1 - i))
            positions.append(apply_one("BroadcastTo", column, per_tuple))
        return gather_nd(source, concat([*positions, tuples], -1))


work(works.picking, "GatherNd")


@gradient("GatherNd")
def _gather_nd_grad(op: Operation, grad: Any) -> Any:
    params, indices = op.inputs
    dims = indices.shape.dims_tuple
    if dims is not None and len(dims) == 2 and dims[1] == 1:
        return IndexedSlices(grad, squeeze(indices, -1), convert_to_tensor(sizes_of(params))), None
    if indices.dtype == dtypes.int16:
        indices = apply_one("Cast", indices, DstT=dtypes.int32)
    spread = apply_one("ScatterNd", indices, grad, sizes_of(params, indices.dtype))
    spread.set_shape(params.shape)
    return spread, None


@export("boolean_mask")
@dispatched
def boolean_mask(tensor: Any, mask: Any, name: str = "boolean_mask", axis: Any = None) -> Tensor:
    """Keeps the entries of `tensor` where `mask` is true.

    Args:
        tensor: A Tensor.
        mask: A bool tensor of known rank, whose shape is that of dimensions `axis`, `axis + 1`, ... of `tensor`.
        name: The name scope.
        axis: Where the mask begins; 0 if None.

    Returns:
        A Tensor in which the masked dimensions have become one.

    Raises:
        ValueError: If the mask is a scalar or of unknown rank, or its shape does not fit.

    Example:
        >>> tf.boolean_mask(tf.zeros([2, 3]), [[True, False, True], [True, True, True]]).shape.as_list()
        [None]
    """
    with name_scope(name, "boolean_mask", [tensor, mask]):
        source, keep = convert_to_tensor(tensor, name="tensor"), convert_to_tensor(mask, name="mask")
        rank = keep.shape.ndims
        if rank == 0:
            raise ValueError("mask cannot be scalar.")
        if rank is None:
            raise ValueError(
                "Number of mask dimensions must be specified, even if some dimensions are None.  E.g. shape=[None] is "
                "ok, but shape=None is not."
            )
        at = 0 if axis is None else axis if isinstance(axis, int) else int(_known_axis(axis))
        source_rank = source.shape.ndims
        if source_rank is not None:
            at += source_rank if at < 0 else 0
            source.shape[at : at + rank].assert_is_compatible_with(keep.shape)
        elif at < 0:
            raise ValueError("boolean_mask with a negative axis needs a tensor of known rank.")
        # Also for a vector, where the shape stays: it makes the gradient dense, as in TensorFlow.
        sizes = shape_tensor(source)
        masked = apply_one("Prod", sizes[at : at + rank], [0])
        dims = source.shape.dims_tuple
        source = reshape(source, concat([sizes[:at], [masked], sizes[at + rank :]], 0))
        if dims is not None:
            source.set_shape((*dims[:at], shapes.num_elements(dims[at : at + rank]), *dims[at + rank :]))
        if rank > 1:
            keep = reshape(keep, [-1])
        rows = squeeze(apply_one("Where", keep), axis=[1])
        return gather(source, rows, axis=at)


def _known_axis(axis: Any) -> Any:
    value = constant_value(convert_to_tensor(axis))
    if value is None:
        raise ValueError("boolean_mask needs an axis that is known while the graph is built.")
    return value
