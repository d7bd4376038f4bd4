"""Lists of tensors as ops, with their gradients: what TensorFlow's functional loops keep values for their gradients in.

A list is a value, a variant scalar: an op that changes a list returns another one. Programs of Thalweg use TensorArray;
graphs of TensorFlow 2 bring these ops along, and `tf.raw_ops` has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_TYPE = "element_dtype: type"
_TYPES = "element_dtype: type, shape_type: {int32, int64}"


def _element_shape(c: ShapeContext, index: int) -> TensorShape:
    """The value of an input that is an element shape: the scalar -1 is an unknown one."""
    given = shapes.with_rank_at_most(c.input(index), 1)
    return c.constant_as_shape(index) if given.ndims == 1 else shapes.UNKNOWN


def _rows_of(count: int | None, element: TensorShape) -> TensorShape:
    dims = element.dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of((count, *dims))


def _new_list(shape_input: int) -> Any:
    """The shape function of an op that makes a list of elements of the shape in an input."""

    def shape(c: ShapeContext) -> TensorShape:
        _element_shape(c, shape_input)
        return shapes.SCALAR

    return shape


define(
    "EmptyTensorList",
    "element_shape: shape_type, max_num_elements: int32 -> handle: variant",
    _TYPES,
    shape=_new_list(0),
)
define(
    "TensorListReserve",
    "element_shape: shape_type, num_elements: int32 -> handle: variant",
    _TYPES,
    shape=_new_list(0),
)
define("TensorListLength", "input_handle: variant -> length: int32", shape=shapes.scalar)
define(
    "TensorListElementShape",
    "input_handle: variant -> element_shape: shape_type",
    "shape_type: {int32, int64}",
    shape=shapes.unknown,
)
define("TensorListResize", "input_handle: variant, size: int32 -> output_handle: variant", shape=shapes.scalar)
# Zeros like a list; any other variant as it is. Gradients of functions put it where no gradient arrives.
define("_VariantZeros", "x: variant -> y: variant", shape=shapes.unchanged)
not_differentiable(
    "_VariantZeros", "EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape"
)

define(
    "TensorListPushBack",
    "input_handle: variant, tensor: element_dtype -> output_handle: variant",
    _TYPE,
    shape=shapes.scalar,
)
define(
    "TensorListPushBackBatch",
    "input_handles: variant, tensor: element_dtype -> output_handles: variant",
    _TYPE,
    shape=shapes.unchanged,
)
define(
    "TensorListPopBack",
    "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype",
    _TYPE,
    shape=lambda c: [shapes.SCALAR, _element_shape(c, 1)],
)
define(
    "TensorListGetItem",
    "input_handle: variant, index: int32, element_shape: Tshape -> item: element_dtype",
    "element_dtype: type, Tshape: {int32, int64} = int32",
    shape=lambda c: _element_shape(c, 2),
)
define(
    "TensorListSetItem",
    "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
    "element_dtype: type, resize_if_index_out_of_bounds: bool = false",
    shape=shapes.scalar,
)
define(
    "TensorListConcatLists",
    "input_a: variant, input_b: variant -> output: variant",
    _TYPE,
    shape=shapes.merge_inputs,
)
not_differentiable("TensorListPushBackBatch", "TensorListConcatLists")


def _stack_shape(c: ShapeContext) -> TensorShape:
    count = c.attr("num_elements")
    return _rows_of(None if count < 0 else count, _element_shape(c, 1))


def _gather_shape(c: ShapeContext) -> TensorShape:
    return _rows_of(shapes.num_elements(c.dims(1)), _element_shape(c, 2))


def _concat_shapes(element: TensorShape) -> list[TensorShape]:
    dims = shapes.with_rank_at_least(element, 1).dims_tuple
    return [shapes.UNKNOWN if dims is None else TensorShape._of((None, *dims[1:])), shapes.ANY_VECTOR]


define(
    "TensorListStack",
    "input_handle: variant, element_shape: int32 -> tensor: element_dtype",
    "element_dtype: type, num_elements: int = -1",
    shape=_stack_shape,
)
define(
    "TensorListGather",
    "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype",
    _TYPE,
    shape=_gather_shape,
)
define(
    "TensorListConcat",
    "input_handle: variant -> tensor: element_dtype, lengths: int64",
    "element_dtype: type, element_shape: shape = unknown",
    shape=lambda c: _concat_shapes(c.attr("element_shape")),
)
define(
    "TensorListConcatV2",
    "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> tensor: element_dtype, lengths: int64",
    _TYPES,
    shape=lambda c: _concat_shapes(_element_shape(c, 1)),
)
define(
    "TensorListFromTensor",
    "tensor: element_dtype, element_shape: shape_type -> output_handle: variant",
    _TYPES,
    shape=_new_list(1),
)
define(
    "TensorListScatter",
    "tensor: element_dtype, indices: int32, element_shape: shape_type -> output_handle: variant",
    _TYPES,
    shape=_new_list(2),
)
define(
    "TensorListScatterV2",
    "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 -> output_handle: variant",
    _TYPES,
    shape=_new_list(2),
)
define(
    "TensorListScatterIntoExistingList",
    "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant",
    _TYPE,
    shape=shapes.scalar,
)
define(
    "TensorListSplit",
    "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
    _TYPES,
    shape=_new_list(1),
)


def _shape_of_elements(tensors: Tensor) -> Tensor:
    """The element shape of a list, as the input of another op."""
    return apply_one("TensorListElementShape", tensors, shape_type=dtypes.int32)


def _row_shape(rows: Tensor) -> Any:
    """The shape of a row of a tensor, as the input of an op."""
    dims = rows.shape.dims_tuple
    if dims is not None and None not in dims[1:]:
        return np.array(dims[1:], np.int32)
    return apply_one("Shape", rows)[1:]


def _unset_like(tensors: Tensor, dtype: Any) -> Tensor:
    """A list of the length and element shape of another one, in which nothing is set: zeros."""
    length = apply_one("TensorListLength", tensors)
    return apply_one("TensorListReserve", _shape_of_elements(tensors), length, element_dtype=dtype)


def _with_length_of(tensors: Tensor, grad: Tensor) -> Tensor:
    return apply_one("TensorListResize", grad, apply_one("TensorListLength", tensors))


@gradient("TensorListPushBack")
def _push_back_grad(op: Operation, grad: Tensor) -> Any:
    item = op.inputs[1]
    return tuple(apply("TensorListPopBack", grad, apply_one("Shape", item), element_dtype=item.dtype))


@gradient("TensorListPopBack")
def _pop_back_grad(op: Operation, list_grad: Any, item_grad: Any) -> Any:
    rest, item = op.outputs
    if list_grad is None:
        list_grad = _unset_like(rest, item.dtype)
    if item_grad is None:
        item_grad = apply_one("ZerosLike", item)
    return apply_one("TensorListPushBack", list_grad, item_grad), None


@gradient("TensorListGetItem")
def _get_item_grad(op: Operation, grad: Tensor) -> Any:
    tensors, index, _ = op.inputs
    return apply_one("TensorListSetItem", _unset_like(tensors, grad.dtype), index, grad), None, None


@gradient("TensorListSetItem")
def _set_item_grad(op: Operation, grad: Tensor) -> Any:
    tensors, index, item = op.inputs
    item_grad = apply_one("TensorListGetItem", grad, index, apply_one("Shape", item), element_dtype=item.dtype)
    list_grad = apply_one("TensorListSetItem", grad, index, apply_one("ZerosLike", item))
    if op.attrs["resize_if_index_out_of_bounds"]:
        list_grad = _with_length_of(tensors, list_grad)
    return list_grad, None, item_grad


@gradient("TensorListResize")
def _resize_grad(op: Operation, grad: Tensor) -> Any:
    return _with_length_of(op.inputs[0], grad), None


@gradient("TensorListStack")
def _stack_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("TensorListFromTensor", grad, _row_shape(grad)), None


@gradient("TensorListFromTensor")
def _from_tensor_grad(op: Operation, grad: Tensor) -> Any:
    rows = op.inputs[0]
    dims = rows.shape.dims_tuple
    count = dims[0] if dims is not None and dims[0] is not None else -1
    return apply_one("TensorListStack", grad, _row_shape(rows), element_dtype=rows.dtype, num_elements=count), None


@gradient("TensorListGather")
def _gather_grad(op: Operation, grad: Tensor) -> Any:
    tensors, indices, _ = op.inputs
    if grad.dtype.base_dtype is not dtypes.variant:
        # An element that was gathered several times gets the sum of the gradients.
        indices, places = apply("Unique", apply_one("Reshape", indices, [-1]))
        grad = apply_one("UnsortedSegmentSum", grad, places, apply_one("Size", indices))
    return apply_one("TensorListScatterIntoExistingList", _unset_like(tensors, grad.dtype), grad, indices), None, None


@gradient("TensorListScatter", "TensorListScatterV2")
def _scatter_grad(op: Operation, grad: Tensor) -> Any:
    rows, indices = op.inputs[:2]
    gathered = apply_one("TensorListGather", grad, indices, _row_shape(rows), element_dtype=rows.dtype)
    return (gathered, *[None] * (len(op.inputs) - 1))


@gradient("TensorListScatterIntoExistingList")
def _scatter_into_grad(op: Operation, grad: Tensor) -> Any:
    tensors, rows, indices = op.inputs
    gathered = apply_one("TensorListGather", grad, indices, _row_shape(rows), element_dtype=rows.dtype)
    kept = apply_one("TensorListScatterIntoExistingList", grad, apply_one("ZerosLike", rows), indices)
    return _with_length_of(tensors, kept), gathered, None


@gradient("TensorListConcat", "TensorListConcatV2")
def _concat_grad(op: Operation, grad: Tensor, unused_lengths: Any) -> Any:
    tensors = op.inputs[0]
    parts = apply_one("TensorListSplit", grad, _shape_of_elements(tensors), op.outputs[1])
    return (parts, *[None] * (len(op.inputs) - 1))


@gradient("TensorListSplit")
def _split_grad(op: Operation, grad: Tensor) -> Any:
    rows, _, lengths = op.inputs
    element = apply_one("ConcatV2", [[-1], apply_one("Shape", rows)[1:]], 0)
    joined = apply("TensorListConcatV2", grad, element, lengths, element_dtype=rows.dtype)
    return joined[0], None, None
