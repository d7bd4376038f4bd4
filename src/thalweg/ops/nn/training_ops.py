"""Optimizer steps as ops: one op changes a variable and its slots, in one pass. `thalweg.train` builds on these.

Each rule comes in up to four forms: for all elements or for the rows in `indices`, on resources or on references (as
graphs written by TensorFlow 1 contain them; `passes/references.py` turns those into the ones on resources).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_op
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.casting import cast
from thalweg.ops.state.variables_ops import NUMBERS, value_shape


class Rule(NamedTuple):
    """The signature of a rule.

    Attributes:
        name: Part of the op types.
        variables: The variable and its slots.
        values: The other inputs; `grad` or `delta` is the gradient, `global_step` an int64, the others are scalars.
        attrs: Attributes beside T and use_locking.
        sparse: Whether there is an op for rows.
        reference: Whether there are ops on references.
        dense: Whether there is an op for all elements.
    """

    name: str
    variables: str
    values: str
    attrs: str = ""
    sparse: bool = True
    reference: bool = True
    dense: bool = True


_NESTEROV = "use_nesterov: bool = false"
_SLOTS = "update_slots: bool = true"
_ADAM = "beta1_power beta2_power lr beta1 beta2 epsilon grad"
_LINEAR = "multiply_linear_by_lr: bool = false"

RULES = (
    Rule("GradientDescent", "var", "alpha delta", sparse=False),
    Rule("ProximalGradientDescent", "var", "alpha l1 l2 delta"),
    Rule("Momentum", "var accum", "lr grad momentum", _NESTEROV),
    Rule("KerasMomentum", "var accum", "lr grad momentum", _NESTEROV, reference=False),
    Rule("AddSign", "var m", "lr alpha sign_decay beta grad", sparse=False),
    Rule("PowerSign", "var m", "lr logbase sign_decay beta grad", sparse=False),
    Rule("Adam", "var m v", _ADAM, _NESTEROV, sparse=False),
    # TensorFlow has no op for these two. Rows without a gradient take Adam's step, too, or stay as they are.
    Rule("AdamOfEveryRow", "var m v", _ADAM, _NESTEROV, reference=False, dense=False),
    Rule("LazyAdam", "var m v", _ADAM, _NESTEROV, reference=False, dense=False),
    Rule("AdamWithAmsgrad", "var m v vhat", _ADAM, "", False, False),
    Rule("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", sparse=False),
    Rule("Adagrad", "var accum", "lr grad", _SLOTS),
    Rule("AdagradV2", "var accum", "lr epsilon grad", _SLOTS),
    Rule("ProximalAdagrad", "var accum", "lr l1 l2 grad"),
    Rule("AdagradDA", "var gradient_accumulator gradient_squared_accumulator", "grad lr l1 l2 global_step"),
    Rule("Adadelta", "var accum accum_update", "lr rho epsilon grad"),
    Rule("RMSProp", "var ms mom", "lr rho momentum epsilon grad"),
    Rule("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad"),
    Rule("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", _LINEAR),
    Rule("FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", _LINEAR),
)
_GRADIENTS = ("grad", "delta")


def _check_inputs(c: ShapeContext, rule: Rule, sparse: bool, variable_shapes: list[TensorShape]) -> TensorShape:
    """Checks every input against the shape of the variable, and returns that."""
    shape = variable_shapes[0]
    for other in variable_shapes[1:]:
        shape = shapes.merge(shape, other)
    at = len(variable_shapes)
    for value in rule.values.split():
        if value not in _GRADIENTS:
            shapes.with_rank(c.input(at), 0)
        elif not sparse:
            shape = shapes.merge(shape, c.input(at))
        else:
            _check_rows(shape, c.input(at), shapes.with_rank(c.input(at + 1), 1))
            at += 1
        at += 1
    return shape


def _check_rows(shape: TensorShape, grad: TensorShape, indices: TensorShape) -> None:
    dims, rows = shapes.with_rank_at_least(shape, 1).dims_tuple, indices.dims_tuple
    if dims is not None and rows is not None:
        shapes.merge(TensorShape._of((*rows, *dims[1:])), grad)


def _define(rule: Rule, sparse: bool, reference: bool) -> None:
    variables = rule.variables.split()

    def on_resources(c: ShapeContext) -> list[TensorShape]:
        _check_inputs(c, rule, sparse, [value_shape(c, c.attr("T"), i) for i in range(len(variables))])
        return []

    def on_references(c: ShapeContext) -> TensorShape:
        return _check_inputs(c, rule, sparse, [c.input(i) for i in range(len(variables))])

    inputs = [f"{name}: {'Ref(T)' if reference else 'resource'}" for name in variables]
    for value in rule.values.split():
        if sparse and value in _GRADIENTS:
            inputs += ["grad: T", "indices: Tindices"]
        else:
            inputs.append(f"{value}: {'int64' if value == 'global_step' else 'T'}")
    attrs = [f"T: {NUMBERS}", "Tindices: {int32, int64}" if sparse else "", "use_locking: bool = false", rule.attrs]
    op_type = f"{'' if reference else 'Resource'}{'Sparse' if sparse else ''}Apply{rule.name}"
    define(
        op_type,
        f"{', '.join(inputs)} -> {'out: Ref(T)' if reference else ''}".rstrip(),
        ", ".join(filter(None, attrs)),
        shape=on_references if reference else on_resources,
        effect=Effect.WRITES,
    )
    not_differentiable(op_type)


for _rule in RULES:
    for _sparse in (*((False,) if _rule.dense else ()), *((True,) if _rule.sparse else ())):
        for _reference in (False, True) if _rule.reference else (False,):
            _define(_rule, _sparse, _reference)


def _matmul_descent_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(1), 0)
    a, b = shapes.with_rank(c.input(2), 2), shapes.with_rank(c.input(3), 2)
    shapes.merge(
        value_shape(c, dtypes.float32), shapes.matmul_shape(a, b, c.attr("transpose_a"), c.attr("transpose_b"))
    )
    return []


define(
    "_MatMulGradientDescent",
    "var: resource, alpha: float, a: float, b: float ->",
    "transpose_a: bool = false, transpose_b: bool = false",
    shape=_matmul_descent_shape,
    effect=Effect.WRITES,
    doc="Gradient descent along the product of `a` and `b`, as passes make it.",
)
not_differentiable("_MatMulGradientDescent")

_RULES_BY_NAME = {rule.name: rule for rule in RULES}


def apply_rule(
    name: str, variables: Sequence[Any], grad: Tensor, indices: Tensor | None = None, use_locking: bool = False,
    attrs: dict[str, Any] | None = None, **values: Any,
) -> Operation:  # fmt: skip
    """Adds the op that changes a variable by a rule: `apply_rule("Momentum", (var, slot), grad, lr=0.1, momentum=0.9)`.

    Args:
        name: The rule.
        variables: The variable and its slots.
        grad: The gradient of the variable, or of its rows.
        indices: The rows; None for all.
        use_locking: Stored in the node, without effect: every update is atomic.
        attrs: More attributes of the op.
        **values: The other inputs, by name; scalars are cast to the gradient's type.
    """
    rule = _RULES_BY_NAME[name]
    dtype = grad.dtype.base_dtype
    in_rows = getattr(variables[0], "is_embedding_table", False)  # Its slots lie beside the value in each row.
    inputs = [variable.handle for variable in variables[: 1 if in_rows else None]]
    for value in rule.values.split():
        if value in _GRADIENTS:
            inputs += [grad] if indices is None else [grad, indices]
        else:
            scalar, wanted = values[value], dtypes.int64 if value == "global_step" else dtype
            fits = type(scalar) is EagerTensor and scalar.dtype is wanted
            inputs.append(scalar if fits else cast(scalar, wanted))
    if in_rows:
        slots = variables[1:]
        return apply_op(
            f"EmbeddingTableApply{name}", *inputs, slots=[slot.slot_name for slot in slots],
            slot_initial_values=[slot.initial for slot in slots], **(attrs or {}),
        )  # fmt: skip
    op_type = f"Resource{'' if indices is None else 'Sparse'}Apply{name}"
    return apply_op(op_type, *inputs, use_locking=use_locking, **(attrs or {}))
