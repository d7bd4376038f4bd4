"""EditDistance: the Levenshtein distance of sequences from the true ones."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import is_sparse
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import sparse_input
from thalweg.ops.sparse.tensors import as_sparse


def _edit_distance_shape(c: ShapeContext) -> TensorShape:
    rank = shapes.merge_dims(sparse_input(c, 0)[1], sparse_input(c, 3)[1])
    if rank is None:
        return shapes.UNKNOWN
    both = [c.constant_as_shape(i).dims_tuple for i in (2, 5)]
    if both[0] is None or both[1] is None:
        return TensorShape._of((None,) * (rank - 1))
    sizes = zip(both[0][:-1], both[1][:-1], strict=True)
    return TensorShape._of(tuple(None if a is None or b is None else max(a, b) for a, b in sizes))


define(
    "EditDistance",
    "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, "
    "truth_indices: int64, truth_values: T, truth_shape: int64 -> output: float",
    "normalize: bool = true, T: type", shape=_edit_distance_shape,
)  # fmt: skip
not_differentiable("EditDistance")


@export("edit_distance")
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Returns the Levenshtein distance between sequences along the last dimension of two SparseTensors.

    Args:
        hypothesis: SparseTensor of sequences.
        truth: SparseTensor of the sequences they should be, of the same type and rank.
        normalize: Whether to divide by the length of the true sequence.
        name: A name for the operation.

    Returns:
        float32 Tensor without the last dimension. Against an empty true sequence, the normalized distance of one that
        is not empty is infinite.
    """
    for what, value in (("hypothesis", hypothesis), ("truth", truth)):
        if not is_sparse(value):
            raise TypeError(f"{what.capitalize()} must be a SparseTensor, got {value!r}.")
    h, t = as_sparse(hypothesis), as_sparse(truth)
    return apply_one(
        "EditDistance", h.indices, h.values, h.dense_shape, t.indices, t.values, t.dense_shape, normalize=normalize,
        name=name,
    )  # fmt: skip
