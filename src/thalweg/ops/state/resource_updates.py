"""Updates of parts of a resource variable: rows, slices, single elements."""

from __future__ import annotations

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.variables_ops import NUMBERS, value_shape


def _scatter_shape(c: ShapeContext) -> list[TensorShape]:
    params = shapes.with_rank_at_least(value_shape(c, c.attr("dtype")), 1).dims_tuple
    indices, updates = c.dims(1), c.dims(2)
    if params is not None and indices is not None and updates:  # A scalar update goes to every element.
        shapes.merge(TensorShape._of((*indices, *params[1:])), c.input(2))
    return []


def _scatter_nd_shape(c: ShapeContext) -> list[TensorShape]:
    params = value_shape(c, c.attr("T")).dims_tuple
    indices = shapes.with_rank_at_least(c.input(1), 1).dims_tuple
    if params is not None and indices is not None and indices[-1] is not None and c.dims(2):
        if indices[-1] > len(params):
            raise ValueError(f"indices of shape {indices} index more dimensions than a variable of shape {params} has")
        shapes.merge(TensorShape._of((*indices[:-1], *params[indices[-1] :])), c.input(2))
    return []


for _name in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"):
    _types = "type" if _name == "Update" else NUMBERS
    define(
        f"ResourceScatter{_name}",
        "resource: resource, indices: Tindices, updates: dtype ->",
        f"dtype: {_types}, Tindices: {{int32, int64}}",
        shape=_scatter_shape,
        effect=Effect.WRITES,
    )
    not_differentiable(f"ResourceScatter{_name}")

for _name in ("Update", "Add", "Sub", "Min", "Max"):
    define(
        f"ResourceScatterNd{_name}",
        "ref: resource, indices: Tindices, updates: T ->",
        "T: type, Tindices: {int32, int64}, use_locking: bool = true, bad_indices_policy: string = ''",
        shape=_scatter_nd_shape,
        effect=Effect.WRITES,
    )
    not_differentiable(f"ResourceScatterNd{_name}")


def _slice_assign_shape(c: ShapeContext) -> list[TensorShape]:
    value_shape(c, c.attr("T"))
    for i in (1, 2, 3):
        shapes.with_rank(c.input(i), 1)
    return []


define(
    "ResourceStridedSliceAssign",
    "ref: resource, begin: Index, end: Index, strides: Index, value: T ->",
    "T: type, Index: {int32, int64}, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, "
    "new_axis_mask: int = 0, shrink_axis_mask: int = 0",
    shape=_slice_assign_shape,
    effect=Effect.WRITES,
)
not_differentiable("ResourceStridedSliceAssign")


def _count_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(value_shape(c, c.attr("T")), 0)
    return shapes.SCALAR


define(
    "ResourceCountUpTo",
    "resource: resource -> output: T",
    "limit: int, T: {int32, int64}",
    shape=_count_shape,
    effect=Effect.WRITES,
)
not_differentiable("ResourceCountUpTo")

# Counts unless the limit is reached, and says whether it has: a step that must not fail can so claim its number.
define(
    "_ResourceClaimCount",
    "resource: resource -> claimed: bool",
    "limit: int, T: {int32, int64}",
    shape=_count_shape,
    effect=Effect.WRITES,
)
not_differentiable("_ResourceClaimCount")
