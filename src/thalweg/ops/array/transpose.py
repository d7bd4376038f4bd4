"""Permuting the dimensions of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


def _transpose_shape(c: ShapeContext) -> TensorShape:
    dims, perm = c.dims(0), c.constant(1)
    length = shapes.with_rank(c.input(1), 1).dims_tuple
    assert length is not None
    rank = shapes.merge_dims(None if dims is None else len(dims), length[0])
    if perm is not None:
        normal = [int(p) + (len(perm) if p < 0 else 0) for p in perm]
        if sorted(normal) != list(range(len(perm))):
            raise ValueError(f"perm {perm.tolist()} is not a permutation of the dimensions 0 to {len(perm) - 1}")
        if dims is not None:
            return TensorShape._of(tuple([dims[p] for p in normal]))
    return shapes.UNKNOWN if rank is None else TensorShape._of((None,) * rank)


_ATTRS = "T: type, Tperm: {int32, int64} = int32"
define("Transpose", "x: T, perm: Tperm -> y: T", _ATTRS, shape=_transpose_shape)
define("ConjugateTranspose", "x: T, perm: Tperm -> y: T", _ATTRS, shape=_transpose_shape)


@export("transpose", "linalg.transpose")
def transpose(a: Any, perm: Any = None, name: str = "transpose", conjugate: bool = False) -> Tensor:
    """Permutes the dimensions of a tensor.

    Args:
        a: A Tensor.
        perm: Dimension i of the result is dimension `perm[i]` of `a`; None reverses them all.
        name: The node's name.
        conjugate: Whether to take the complex conjugate as well.

    Returns:
        A Tensor.

    Example:
        >>> tf.transpose(tf.zeros([2, 3, 4]), perm=[0, 2, 1]).shape.as_list()
        [2, 4, 3]
    """
    with name_scope(name, "transpose", [a]) as scope:
        tensor = convert_to_tensor(a, name="a")
        op_type = "ConjugateTranspose" if conjugate and tensor.dtype.is_complex else "Transpose"
        if perm is None:
            rank = tensor.shape.ndims
            if rank is not None:
                perm = np.arange(rank - 1, -1, -1, dtype=np.int32)
            else:
                count = apply_one("Rank", tensor)
                perm = apply_one("Range", apply_one("Sub", count, 1, name="sub"), -1, -1)
        return apply_one(op_type, tensor, perm, name=scope)


@export("matrix_transpose", "linalg.matrix_transpose")
def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """Transposes the last two dimensions of a tensor: a batch of matrices.

    Args:
        a: A Tensor of rank 2 or more.
        name: The name scope.
        conjugate: Whether to take the complex conjugate as well.

    Returns:
        A Tensor.

    Raises:
        ValueError: If `a` is known to have a smaller rank.
    """
    with name_scope(name, "matrix_transpose", [a]):
        tensor = convert_to_tensor(a, name="a")
        rank = tensor.shape.ndims
        if rank is not None:
            if rank < 2:
                raise ValueError(
                    f"Argument 'a' should be a (batch) matrix, with rank >= 2. Received shape: {tensor.shape}"
                )
            perm: Any = np.array([*range(rank - 2), rank - 1, rank - 2], np.int32)
        else:
            count = apply_one("Rank", tensor)
            batch = apply_one("Range", 0, apply_one("Sub", count, 2, name="sub"), 1)
            last = apply_one("Pack", [apply_one("Sub", count, 1, name="sub"), apply_one("Sub", count, 2, name="sub")])
            perm = apply_one("ConcatV2", [batch, last], 0, name="concat")
        return transpose(tensor, perm, conjugate=conjugate)


@gradient("Transpose")
def _transpose_grad(op: Operation, grad: Any) -> Any:
    return apply_one("Transpose", grad, _inverse(op.inputs[1])), None


@gradient("ConjugateTranspose")
def _conjugate_transpose_grad(op: Operation, grad: Any) -> Any:
    return apply_one("ConjugateTranspose", grad, _inverse(op.inputs[1])), None


def _inverse(perm: Tensor) -> Any:
    known = constant_value(perm)
    return (
        apply_one("InvertPermutation", perm)
        if known is None
        else np.argsort(known % max(1, known.size)).astype(known.dtype)
    )
