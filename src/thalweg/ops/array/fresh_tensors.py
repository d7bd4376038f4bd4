"""Empty, and the Inplace ops: tensors to be filled row by row. Here they return new tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import check_dense_shape, require

Array = np.ndarray[Any, Any]

_MOST_BYTES = 2**36


def _empty_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 1)
    return c.constant_as_shape(0)


define(
    "Empty", "shape: int32 -> output: dtype", "dtype: type, init: bool = false", shape=_empty_shape,
    effect=Effect.RANDOM,
)  # fmt: skip


@python_kernel("Empty")
def _empty(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    sizes = check_dense_shape(np.asarray(inputs[0]), "shape")
    dtype = np.dtype(as_dtype(attrs["dtype"]).as_numpy_dtype)
    require(np.prod(sizes, dtype=object) * max(dtype.itemsize, 1) <= _MOST_BYTES, f"a tensor of shape {list(sizes)}")
    return np.full(sizes, b"", object) if dtype.kind == "O" else np.zeros(sizes, dtype)


for _op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
    define(_op, "x: T, i: int32, v: T -> y: T", "T: type", shape=shapes.unchanged)


def _in_place(op: str) -> None:
    @python_kernel(op)
    def kernel(inputs: list[Array], attrs: dict[str, Any]) -> Any:
        x, i, v = (np.asarray(part) for part in inputs)
        require(x.ndim >= 1, "x must not be a scalar")
        require(i.ndim <= 1, f"i must be a scalar or vector, got shape {list(i.shape)}")
        wanted = (i.size, *x.shape[1:]) if i.ndim else x.shape[1:]
        require(v.shape == wanted, f"v must have shape {list(wanted)}, got {list(v.shape)}")
        rows = i.reshape(-1)
        require(x.shape[0] > 0 or rows.size == 0, "x has no rows")
        out = x.copy()
        # As TensorFlow does: row numbers modulo the number of rows.
        for number, row in enumerate(rows % max(x.shape[0], 1)):
            value = v[number] if i.ndim else v
            out[row] = value if op == "InplaceUpdate" else out[row] + value if op == "InplaceAdd" else out[row] - value
        return out


for _op in ("InplaceUpdate", "InplaceAdd", "InplaceSub"):
    _in_place(_op)
not_differentiable("Empty", "InplaceUpdate", "InplaceAdd", "InplaceSub")
