"""Gradients of the segment reductions: each row gets the gradient of its segment."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions.op_registry import gradient
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.math.reduction_gradients import shape_of


def _gather(x: Any, ids: Any) -> Any:
    return apply_one("GatherV2", x, ids, 0)


def _cast_like(x: Any, like: Tensor) -> Any:
    return apply_one("Cast", x, DstT=like.dtype.base_dtype)


@gradient("SegmentSum")
def _segment_sum_grad(op: Operation, grad: Tensor) -> Any:
    return _gather(grad, op.inputs[1]), None


@gradient("SegmentMean")
def _segment_mean_grad(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    ones = apply_one(
        "Fill", apply_one("ConcatV2", [apply_one("Shape", ids), _ones_shape(data)], 0), _cast_like(1, grad)
    )
    counts = apply_one("SegmentSum", ones, ids)
    return _gather(apply_one("RealDiv", grad, counts), ids), None


def _ones_shape(data: Tensor) -> Any:
    """A shape of as many ones as `data` has dimensions after the first."""
    if data.shape.ndims is not None:
        return apply_one("Fill", [data.shape.ndims - 1], 1)
    return apply_one("Fill", apply_one("ExpandDims", apply_one("Sub", apply_one("Rank", data), 1), 0), 1)


@gradient("SegmentMin", "SegmentMax")
def _segment_extreme_grad(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    chosen = _cast_like(apply_one("Equal", data, _gather(op.outputs[0], ids)), grad)
    # Equal elements share the gradient. A segment without rows divides by zero, but no row gathers its share.
    share = apply_one("RealDiv", grad, apply_one("SegmentSum", chosen, ids))
    return apply_one("Mul", chosen, _gather(share, ids)), None


def _prod_grad(data: Any, out: Any, grad: Any, gather: Any, total: Any, product: Any) -> Any:
    """The product of the other elements of the segment; the gradient is 0 if the segment has two zeros."""
    zeros = apply_one("ZerosLike", data)
    is_zero = apply_one("Equal", data, zeros)
    num_zeros = total(apply_one("Cast", is_zero, DstT="int32"))
    grad = apply_one("Select", apply_one("Greater", num_zeros, apply_one("Fill", apply_one("Shape", num_zeros), 1)),
                 apply_one("ZerosLike", grad), grad)  # fmt: skip
    ones = apply_one("OnesLike", data)
    without_zeros = apply_one("Select", is_zero, ones, data)
    others = apply_one(
        "Select", is_zero, gather(product(without_zeros)), apply_one("RealDiv", gather(out), without_zeros)
    )
    return apply_one("Mul", gather(grad), others)


@gradient("SegmentProd")
def _segment_prod_grad(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    result = _prod_grad(
        data,
        op.outputs[0],
        grad,
        lambda x: _gather(x, ids),
        lambda x: apply_one("SegmentSum", x, ids),
        lambda x: apply_one("SegmentProd", x, ids),
    )
    return result, None


def _gather_valid(x: Any, ids: Tensor, data: Tensor) -> tuple[Any, Any]:
    """Rows of `x` by id, zeros for negative ids; and which elements are not such zeros."""
    zero = _cast_like(0, ids)
    rows = _gather(x, apply_one("Maximum", ids, zero))
    valid = apply_one("GreaterEqual", ids, zero)
    if data.shape.ndims is not None and ids.shape.ndims is not None:
        for _ in range(data.shape.ndims - ids.shape.ndims):
            valid = apply_one("ExpandDims", valid, -1)
    else:
        trailing = apply_one("Sub", apply_one("Rank", rows), apply_one("Rank", valid))
        ones = apply_one("Fill", apply_one("ExpandDims", trailing, 0), 1)
        valid = apply_one("Reshape", valid, apply_one("ConcatV2", [apply_one("Shape", valid), ones], 0))
    valid = apply_one("LogicalAnd", valid, apply_one("Fill", apply_one("Shape", rows), True))
    return apply_one("Select", valid, rows, apply_one("ZerosLike", rows)), valid


@gradient("UnsortedSegmentSum")
def _unsorted_segment_sum_grad(op: Operation, grad: Tensor) -> Any:
    return _gather_valid(grad, op.inputs[1], op.inputs[0])[0], None, None


@gradient("UnsortedSegmentMin", "UnsortedSegmentMax")
def _unsorted_segment_extreme_grad(op: Operation, grad: Tensor) -> Any:
    data, ids, number = op.inputs
    extremes, valid = _gather_valid(op.outputs[0], ids, data)
    chosen = _cast_like(apply_one("LogicalAnd", apply_one("Equal", data, extremes), valid), grad)
    sharers = apply_one("UnsortedSegmentSum", chosen, ids, number)
    # A segment without rows has no sharers. No row gathers its share, but it must not become NaN times zero.
    share = apply_one("RealDiv", grad, apply_one("Maximum", sharers, _cast_like(1, grad)))
    return apply_one("Mul", chosen, _gather_valid(share, ids, data)[0]), None, None


@gradient("UnsortedSegmentProd")
def _unsorted_segment_prod_grad(op: Operation, grad: Tensor) -> Any:
    data, ids, number = op.inputs
    result = _prod_grad(
        data,
        op.outputs[0],
        grad,
        lambda x: _gather_valid(x, ids, data)[0],
        lambda x: apply_one("UnsortedSegmentSum", x, ids, number),
        lambda x: apply_one("UnsortedSegmentProd", x, ids, number),
    )
    return result, None, None


def _rows(data: Tensor) -> Any:
    """The number of rows, as a scalar int32."""
    dims = data.shape.dims_tuple
    if dims is not None and dims[0] is not None:
        return apply_one("Cast", dims[0], DstT="int32")
    return _gather(apply_one("Shape", data), 0)


@gradient("SparseSegmentSum", "SparseSegmentSumWithNumSegments")
def _sparse_segment_sum_grad(op: Operation, grad: Tensor) -> Any:
    data, indices, ids = op.inputs[:3]
    spread = apply_one("UnsortedSegmentSum", _gather(grad, ids), indices, _rows(data))
    return [spread, *[None] * (len(op.inputs) - 1)]


@gradient("SparseSegmentMean", "SparseSegmentMeanWithNumSegments")
def _sparse_segment_mean_grad(op: Operation, grad: Tensor) -> Any:
    spread = apply_one("SparseSegmentMeanGrad", grad, op.inputs[1], op.inputs[2], _rows(op.inputs[0]))
    return [spread, *[None] * (len(op.inputs) - 1)]


@gradient("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")
def _sparse_segment_sqrt_n_grad(op: Operation, grad: Tensor) -> Any:
    spread = apply_one("SparseSegmentSqrtNGrad", grad, op.inputs[1], op.inputs[2], _rows(op.inputs[0]))
    return [spread, *[None] * (len(op.inputs) - 1)]


@gradient("SparseSegmentSumGrad", "SparseSegmentMeanGrad", "SparseSegmentSqrtNGrad")
def _sparse_segment_grad_grad(op: Operation, grad: Tensor) -> Any:
    # The transposed map is the forward op, with as many segments as there were.
    forward = op.type.removesuffix("Grad") + "WithNumSegments"
    segments = _gather(shape_of(op.inputs[0]), 0)
    return apply_one(forward, grad, op.inputs[1], op.inputs[2], segments), None, None, None
