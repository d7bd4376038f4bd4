"""Gradients that are zero: of the shape of a tensor, or of the value behind a resource handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.handle_data import handle_data
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def value_spec(tensor: Tensor) -> tuple[DType, TensorShape]:
    """The type and static shape of the gradients of a tensor."""
    if tensor.dtype.base_dtype is not dtypes.resource:
        return tensor.dtype.base_dtype, tensor.shape
    data = handle_data(tensor)
    return (dtypes.float32, TensorShape(None)) if data is None else (data.dtype, data.shape)


def zeros_for(tensor: Tensor) -> Tensor:
    """Zeros that can stand for the gradient of `tensor`."""
    if tensor.dtype.base_dtype is dtypes.variant:
        return apply_one("ZerosLike", tensor)  # A list of tensors.
    dtype, shape = value_spec(tensor)
    if shape.is_fully_defined():
        sizes: Any = np.array(shape.as_list(), np.int32)
    elif tensor.dtype.base_dtype is dtypes.resource:
        sizes = apply_one("VariableShape", tensor)
    else:
        sizes = apply_one("Shape", tensor)
    zeros = apply_one("Fill", sizes, np.zeros((), dtype.as_numpy_dtype))
    zeros.set_shape(shape)
    if type(zeros) is EagerTensor:
        zeros.__dict__["is_zero"] = True  # In a graph, the operation tells.
    return zeros


def dense(grad: Any) -> Tensor:
    """A gradient as one tensor."""
    return convert_to_tensor(grad) if isinstance(grad, IndexedSlices) else grad


def empty_slices_like(slices: IndexedSlices) -> IndexedSlices | None:
    """No rows, of the type and row shape of `slices`; None if the row shape is not known."""
    dims = slices.values.shape.dims_tuple
    if dims is None or None in dims[1:]:
        return None
    values = convert_to_tensor(np.zeros((0, *dims[1:]), slices.values.dtype.as_numpy_dtype))
    indices = convert_to_tensor(np.zeros((0,), slices.indices.dtype.as_numpy_dtype))
    return IndexedSlices(values, indices, slices.dense_shape)
