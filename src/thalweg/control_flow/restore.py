"""Contexts from protobufs: gives the loops and conditionals of an imported graph their structure back.

Without it an imported graph runs, but gradients cannot be taken through its control flow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.control_flow.cond_context import CondContext, Conditional
from thalweg.control_flow.context_messages import messages
from thalweg.control_flow.scoping import in_context
from thalweg.control_flow.while_context import LoopVariable, WhileContext
from thalweg.graph.collections import GraphKeys
from thalweg.graph.control_flow_context import ControlFlowContext
from thalweg.graph.formats.import_meta_graph import set_context_reader
from thalweg.graph.op_effects import Flow
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.platform import logging


def _frame_name(enter: Operation) -> str:
    name: bytes = enter.attrs["frame_name"]
    return name.decode(errors="backslashreplace")


class _Restorer:
    def __init__(self, graph: Any, import_scope: str | None) -> None:
        self._graph = graph
        self._prefix = f"{import_scope}/" if import_scope else ""

    def _tensor(self, name: str) -> Tensor:
        tensor: Tensor = self._graph._exact_element(self._prefix + name)
        return tensor

    def restore(
        self, loops: Iterable[Any], branches: Iterable[Any], outer: ControlFlowContext | None
    ) -> list[ControlFlowContext]:
        """Restores contexts of one level, and those nested in them."""
        contexts: list[ControlFlowContext] = []
        with in_context(self._graph, outer):
            for proto in loops:
                contexts.append(self._loop(proto))
            contexts.extend(self._branches(list(branches)))
        return contexts

    def _loop(self, proto: Any) -> WhileContext:
        limit = proto.maximum_iterations_name
        loop = WhileContext(
            self._graph, self._prefix + proto.context_name, proto.parallel_iterations, proto.back_prop,
            proto.swap_memory, self._tensor(limit) if limit else None,
        )  # fmt: skip
        loop.frame_name = _frame_name(self._tensor(proto.loop_enter_names[0]).op)
        loop.pivot = self._tensor(proto.pivot_name)
        loop.pivot_for_pred = self._tensor(proto.pivot_for_pred_name)
        loop.pivot_for_body = self._tensor(proto.pivot_for_body_name)
        self._claim(loop, proto)
        exits = {self._tensor(name).op.inputs[0].op: self._tensor(name) for name in proto.loop_exit_names}
        for name in proto.loop_enter_names:
            enter = self._tensor(name)
            initial = enter.op.inputs[0].op
            if initial._control_flow_context is loop:  # TensorFlow lists the counter's among the loop's own values.
                initial._control_flow_context = loop.outer_context
            merge = next(op for op in enter.consumers() if op.op_def.flow is Flow.MERGE)
            variable = LoopVariable(enter, merge.outputs[0])
            switch = next(op for op in merge.outputs[0].consumers() if op.op_def.flow is Flow.SWITCH)
            # TensorFlow's loops of gradients use the Switch's output as it is.
            identities = [op for op in switch.outputs[1].consumers() if op.type == "Identity"]
            variable.body = identities[0].outputs[0] if identities else switch.outputs[1]
            variable.next = merge.inputs[1].op.inputs[0]
            for op in (enter.op, merge, switch, variable.body.op, merge.inputs[1].op):
                op._control_flow_context = loop
            variable.exit = exits[switch]
            variable.exit.op._control_flow_context = loop.outer_context
            variable.exit.op._python_data = loop
            loop.variables.append(variable)
        self._nested(loop, proto)
        return loop

    def _claim(self, context: Any, proto: Any) -> None:
        """Sets the context of its ops, and its captures."""
        external = proto.values_def.external_values
        for name in proto.values_def.values:
            op = self._tensor(name).op
            if name not in external and op.op_def.flow is not Flow.EXIT:
                op._control_flow_context = context
        # A nested context lists the captures of the outer one as well: the contexts of the ops tell them apart.
        for name in external.values():
            tensor = self._tensor(name)
            op = tensor.op
            if isinstance(context, WhileContext):
                own = op.op_def.flow is Flow.ENTER and _frame_name(op) == context.frame_name
            else:
                own = op.op_def.flow is Flow.SWITCH and op.inputs[1] is context.pred
            if own:
                op._control_flow_context = context
                context.captures[op.inputs[0]] = tensor

    def _branches(self, protos: list[Any]) -> list[ControlFlowContext]:
        by_pred: dict[str, dict[int, tuple[CondContext, Any]]] = {}
        for proto in protos:
            context = CondContext(
                self._tensor(proto.pred_name), self._tensor(proto.pivot_name), proto.branch,
                self._prefix + proto.context_name, self._graph,
            )  # fmt: skip
            by_pred.setdefault(proto.pred_name, {})[proto.branch] = (context, proto)
        found: list[ControlFlowContext] = []
        for pair in by_pred.values():
            if set(pair) != {0, 1}:
                raise ValueError(f"A conditional needs two branches, got {sorted(pair)}: {pair}.")
            for context, proto in pair.values():
                self._claim(context, proto)
            conditional = Conditional(pair[0][0], pair[1][0])
            for context, proto in pair.values():
                self._nested(context, proto)
            self._find_merges(conditional, pair[0][1])
            found.extend(context for context, _ in pair.values())
        return found

    def _find_merges(self, conditional: Conditional, proto: Any) -> None:
        """The results: the Merges of a value of the false branch, as their first input, with one of the true branch."""
        if_false, if_true = conditional.branches
        values = [self._tensor(name) for name in proto.values_def.values]
        values += [*if_false.captures.values(), if_false.pivot]
        seen = set()
        for value in values:
            for op in value.consumers():
                if op.type != "Merge" or op in seen or len(op.inputs) != 2:
                    continue
                seen.add(op)
                if if_false.contains(op.inputs[0]) and if_true.contains(op.inputs[1]):
                    op._control_flow_context = conditional.outer_context
                    conditional.record(op.outputs[0], op.inputs[0], op.inputs[1])

    def _nested(self, context: ControlFlowContext, proto: Any) -> None:
        loops = [n.while_ctxt for n in proto.nested_contexts if n.WhichOneof("ctxt") == "while_ctxt"]
        branches = [n.cond_ctxt for n in proto.nested_contexts if n.WhichOneof("ctxt") == "cond_ctxt"]
        self.restore(loops, branches, context)


def restore_contexts(
    graph: Any, loops: Iterable[Any], branches: Iterable[Any], import_scope: str | None = None
) -> list[ControlFlowContext]:
    """Restores the outermost contexts of a graph that was imported below `import_scope`.

    Args:
        graph: The graph with the imported nodes.
        loops: WhileContextDef protobufs: the collection 'while_context' of a MetaGraphDef.
        branches: CondContextDef protobufs: its collection 'cond_context'.
        import_scope: The name scope that the import put before all names.

    Returns:
        The contexts. Those of conditionals add themselves to the graph's collection; those of loops do not.
    """
    return _Restorer(graph, import_scope).restore(loops, branches, None)


def restore_from_meta_graph(graph: Any, meta_graph: Any, import_scope: str | None) -> None:
    """Restores the contexts that a MetaGraphDef carries, after its nodes were imported.

    A graph whose control flow is not understood still runs; only gradients through it are refused.
    """

    def parsed(kind: str, collection: str) -> list[Any]:
        data = meta_graph.collection_def[collection].bytes_list.value if collection in meta_graph.collection_def else ()
        return [messages()[kind].FromString(item) for item in data]

    loops = parsed("WhileContextDef", GraphKeys.WHILE_CONTEXT)
    branches = parsed("CondContextDef", GraphKeys.COND_CONTEXT)
    scope = import_scope.rstrip("/") if import_scope else None
    try:
        contexts = restore_contexts(graph, loops, branches, scope)
    except (KeyError, ValueError, StopIteration) as e:
        logging.warning("The contexts of imported loops and conditionals cannot be restored: %r", e)
        return
    for context in contexts:
        if isinstance(context, WhileContext):
            graph.add_to_collection(GraphKeys.WHILE_CONTEXT, context)


set_context_reader(restore_from_meta_graph)
