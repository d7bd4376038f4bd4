"""Values that do not need an initialized variable: for initializers that depend on other variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.control_flow.cond import cond
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import control_dependencies
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

if TYPE_CHECKING:
    from thalweg.state.variable import Variable


def initialized_value(variable: Variable) -> Tensor:
    """The variable's value if it has one, else its initial value."""
    initial = variable._safe_initial_value
    assert initial is not None
    with control_dependencies(None):
        tensor: Tensor = cond(variable.is_initialized(), variable.read_value, lambda: initial)
        return tensor


def guarded(initial: Tensor) -> Tensor:
    """`initial`, with reads of variables replaced so that it can be computed before those are initialized.

    `tf.Variable(w * 2.0)` then works within one `global_variables_initializer()`, in any order of initializers. A value
    that does not depend on variables is returned as it is, and so is one that a loop computes.
    """
    if not _depends_on_variables(initial):
        return initial
    graph = initial.graph
    keys = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES)
    variables = {v.handle: v for key in keys for v in graph.get_collection(key) if hasattr(v, "handle")}
    return _safe(initial, variables, {})


def _depends_on_variables(tensor: Tensor) -> bool:
    found = False
    seen: set[Operation] = set()
    stack = [tensor.op]
    while stack:
        op = stack.pop()
        if op in seen:
            continue
        seen.add(op)
        if op.op_def.flow.is_primitive:
            return False
        found = found or op.op_def.effect is Effect.READS
        stack.extend(source.op for source in op.inputs)
    return found


def _safe(tensor: Tensor, variables: dict[Tensor, Variable], done: dict[Operation, Operation | Tensor]) -> Tensor:
    op = tensor.op
    if op not in done:
        done[op] = _safe_op(op, variables, done)
    safe = done[op]
    return safe if isinstance(safe, Tensor) else safe.outputs[tensor.value_index]


def _safe_op(op: Operation, variables: dict[Tensor, Variable], done: dict[Operation, Any]) -> Operation | Tensor:
    """An operation that computes the same from initialized values: a copy, if anything before it had to change."""
    if op.type == "ReadVariableOp" and op.inputs[0] in variables:
        return initialized_value(variables[op.inputs[0]])
    inputs = [_safe(source, variables, done) for source in op.inputs]
    if all(a is b for a, b in zip(inputs, op.inputs, strict=True)):
        return op
    graph = op.graph
    attrs = {name: value for name, value in op.attrs.items() if name != "_class"}
    return graph.add_operation(
        op.op_def, inputs, attrs, graph.unique_name(op.name.rpartition("/")[2]), [t.dtype for t in op.outputs]
    )
