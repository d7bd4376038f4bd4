"""Ops that only old or rewritten graphs have: permutations of layouts, results of branches not taken."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, python_kernel
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import Array, require

_FORMATS = "T: {int32, int64} = int32, src_format: string = 'NHWC', dst_format: string = 'NCHW'"
define("DataFormatDimMap", "x: T -> y: T", _FORMATS, shape=shapes.unchanged)
define("DataFormatVecPermute", "x: T -> y: T", _FORMATS, shape=shapes.unchanged)
define("FakeParam", "-> output: dtype", "dtype: type, shape: shape", shape=shapes.from_attr("shape"))
define("DebugGradientIdentity", "input: T -> output: T", "T: type", shape=shapes.unchanged)
not_differentiable("DataFormatDimMap", "DataFormatVecPermute", "FakeParam")


def _formats(attrs: dict[str, Any]) -> tuple[str, str]:
    found = [
        each.decode() if isinstance(each, bytes) else str(each) for each in (attrs["src_format"], attrs["dst_format"])
    ]
    require(
        sorted(found[0]) == sorted(found[1]) and len(set(found[0])) == len(found[0]) in (4, 5),
        f"src_format and dst_format must have the same 4 or 5 letters, got {found}",
    )
    return found[0], found[1]


@python_kernel("DataFormatDimMap")
def _dim_map(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    source, target = _formats(attrs)
    x, rank = np.asarray(inputs[0]), len(source)
    require(np.all((x >= -rank) & (x < rank)), f"dimensions must be from {-rank} to {rank - 1}")
    return np.array([target.index(each) for each in source], x.dtype)[x]


@python_kernel("DataFormatVecPermute")
def _vec_permute(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    source, target = _formats(attrs)
    x = np.asarray(inputs[0])
    require(
        x.ndim in (1, 2) and (x.ndim == 1 or x.shape[1] == 2), f"x must be [n] or [n, 2], got shape {list(x.shape)}"
    )
    require(
        len(x) in (len(source), len(source) - 2), f"x must have {len(source)} or {len(source) - 2} rows, got {len(x)}"
    )
    if len(x) == len(source) - 2:  # Of the spatial dimensions only.
        source, target = ("".join(each for each in text if each not in "NC") for text in (source, target))
    return x[[source.index(each) for each in target]]


@python_kernel("FakeParam")
def _fake_param(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    """A value that nobody reads: the result of a branch that was not taken."""
    dims = TensorShape(attrs["shape"]).dims_tuple
    sizes = [0 if size is None or size < 0 else size for size in (dims if dims is not None else (0,))]
    return np.zeros(sizes, as_dtype(attrs["dtype"]).as_numpy_dtype)


@python_kernel("DebugGradientIdentity")
def _identity(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    return inputs[0]


@gradient("DebugGradientIdentity")
def _identity_gradient(op: Operation, grad: Tensor) -> Any:
    return grad
