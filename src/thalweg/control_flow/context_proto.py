"""Contexts as protobufs: CondContextDef and WhileContextDef, which a MetaGraphDef carries in its collections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.control_flow.context_messages import messages

if TYPE_CHECKING:
    from thalweg.control_flow.cond_context import CondContext
    from thalweg.control_flow.while_context import WhileContext


def _stripped(name: str, export_scope: str | None) -> str:
    prefix = f"{export_scope}/" if export_scope else ""
    return name[len(prefix) :] if prefix and name.startswith(prefix) else name


def _fill_values(values: Any, context: Any, export_scope: str | None) -> None:
    """Lists the tensors of the context itself, and how it sees those from outside."""
    inside: set[str] = set()
    for op in context.graph.get_operations():
        if op._control_flow_context is context:
            inside.update(_stripped(tensor.name, export_scope) for tensor in op.outputs)
    inside.update(_stripped(outer.name, export_scope) for outer in context.captures)
    values.values.extend(sorted(inside))
    for outer, inner in context.captures.items():
        values.external_values[_stripped(outer.name, export_scope)] = _stripped(inner.name, export_scope)


def _fill_nested(definition: Any, context: Any, export_scope: str | None) -> None:
    for nested in _children(context):
        entry = definition.nested_contexts.add()
        if nested.is_while_context():
            entry.while_ctxt.CopyFrom(while_to_proto(nested, export_scope))
        else:
            entry.cond_ctxt.CopyFrom(cond_to_proto(nested, export_scope))


def _children(context: Any) -> list[Any]:
    found: dict[Any, None] = {}
    for op in context.graph.get_operations():
        inner = op._control_flow_context
        while inner is not None and inner.outer_context is not context:
            inner = inner.outer_context
        if inner is not None:
            found[inner] = None
    return list(found)


def cond_to_proto(context: CondContext, export_scope: str | None = None) -> Any:
    """The CondContextDef of a branch."""
    definition = messages()["CondContextDef"](
        context_name=_stripped(context.name, export_scope),
        pred_name=_stripped(context.pred.name, export_scope),
        pivot_name=_stripped(context.pivot.name, export_scope),
        branch=context.branch,
    )
    _fill_values(definition.values_def, context, export_scope)
    _fill_nested(definition, context, export_scope)
    return definition


def while_to_proto(context: WhileContext, export_scope: str | None = None) -> Any:
    """The WhileContextDef of a loop."""

    def name(tensor: Any) -> str:
        return "" if tensor is None else _stripped(tensor.name, export_scope)

    definition = messages()["WhileContextDef"](
        context_name=_stripped(context.name, export_scope),
        parallel_iterations=context.parallel_iterations,
        back_prop=context.back_prop,
        swap_memory=context.swap_memory,
        pivot_name=name(context.pivot),
        pivot_for_pred_name=name(context.pivot_for_pred),
        pivot_for_body_name=name(context.pivot_for_body),
        loop_exit_names=[name(variable.exit) for variable in context.variables],
        loop_enter_names=[name(variable.enter) for variable in context.variables],
    )
    if context.maximum_iterations is not None:
        definition.maximum_iterations_name = name(context.maximum_iterations)
    _fill_values(definition.values_def, context, export_scope)
    # TensorFlow counts Exits among the ops of the loop, Thalweg among those of the outer context.
    definition.values_def.values.extend(definition.loop_exit_names)
    _fill_nested(definition, context, export_scope)
    return definition
