"""Reference variables and their updates, as graphs written by TensorFlow 1 contain them.

Thalweg has no references at run time: `passes/references.py` turns these ops into those on resources. They are defined
so that old graphs can be imported, written again, and run.
"""

from __future__ import annotations

from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect, Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.variables_ops import NUMBERS

_INDICES = "Tindices: {int32, int64}"


def _variable_shape(c: ShapeContext) -> TensorShape:
    shape: TensorShape = c.attr("shape")
    # The first version of the op used a scalar's shape for "unknown".
    return shapes.UNKNOWN if c.op_type == "Variable" and shape.ndims == 0 else shape


for _op in ("Variable", "VariableV2"):
    define(
        _op,
        "-> ref: Ref(dtype)",
        "shape: shape, dtype: type, container: string = '', shared_name: string = ''",
        shape=_variable_shape,
        effect=Effect.CREATES,
    )
define(
    "TemporaryVariable",
    "-> ref: Ref(dtype)",
    "shape: shape, dtype: type, var_name: string = ''",
    shape=shapes.from_attr("shape"),
    effect=Effect.STEP,
)
define(
    "DestroyTemporaryVariable", "ref: Ref(T) -> value: T", "T: type, var_name: string", shape=shapes.unchanged,
    effect=Effect.STEP,
)  # fmt: skip
define(
    "IsVariableInitialized",
    "ref: Ref(dtype) -> is_initialized: bool",
    "dtype: type",
    shape=shapes.scalar,
    effect=Effect.READS,
    allows_uninitialized=True,
)
define(
    "CountUpTo", "ref: Ref(T) -> output: T", "limit: int, T: {int32, int64}", shape=shapes.scalar, effect=Effect.WRITES
)
define(
    "RefIdentity",
    "input: Ref(T) -> output: Ref(T)",
    "T: type",
    shape=shapes.unchanged,
    flow=Flow.FORWARD,
    allows_uninitialized=True,
)


def _assign_shape(c: ShapeContext) -> TensorShape:
    return shapes.merge(c.input(0), c.input(1)) if c.attr("validate_shape") else c.input(1)


define(
    "Assign",
    "ref: Ref(T), value: T -> output_ref: Ref(T)",
    "T: type, validate_shape: bool = true, use_locking: bool = true",
    shape=_assign_shape,
    effect=Effect.WRITES,
    allows_uninitialized=True,
)
for _op in ("AssignAdd", "AssignSub"):
    define(
        _op,
        "ref: Ref(T), value: T -> output_ref: Ref(T)",
        f"T: {NUMBERS}, use_locking: bool = false",
        shape=shapes.merge_inputs,
        effect=Effect.WRITES,
    )
for _kind in ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max"):
    define(
        f"Scatter{_kind}",
        "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
        f"T: {'type' if _kind == 'Update' else NUMBERS}, {_INDICES}, "
        f"use_locking: bool = {'true' if _kind == 'Update' else 'false'}",
        shape=shapes.unchanged,
        effect=Effect.WRITES,
    )
    not_differentiable(f"Scatter{_kind}")
for _kind in ("Update", "Add", "Sub", "Min", "Max"):
    define(
        f"ScatterNd{_kind}",
        "ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
        f"T: {'type' if _kind == 'Update' else NUMBERS}, {_INDICES}, "
        f"use_locking: bool = {'true' if _kind == 'Update' else 'false'}, bad_indices_policy: string = ''",
        shape=shapes.unchanged,
        effect=Effect.WRITES,
    )
    not_differentiable(f"ScatterNd{_kind}")
define(
    "StridedSliceAssign",
    "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T -> output_ref: Ref(T)",
    "T: type, Index: {int32, int64}, begin_mask: int = 0, end_mask: int = 0, ellipsis_mask: int = 0, "
    "new_axis_mask: int = 0, shrink_axis_mask: int = 0",
    shape=shapes.unchanged,
    effect=Effect.WRITES,
)
not_differentiable(
    "Variable", "VariableV2", "TemporaryVariable", "DestroyTemporaryVariable", "IsVariableInitialized", "CountUpTo",
    "Assign", "AssignAdd", "AssignSub", "StridedSliceAssign",
)  # fmt: skip


# Thalweg's own: lets code that works on handles work on the reference variables of an imported graph.
define("_RefHandle", "ref: Ref(T) -> handle: resource", "T: type", shape=shapes.scalar, allows_uninitialized=True)
work(works.free, "Variable", "VariableV2", "RefIdentity", "_RefHandle")


@gradient("RefIdentity", "_RefHandle")
def _ref_identity_grad(op: Operation, grad: Any) -> Any:
    return grad
