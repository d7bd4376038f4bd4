"""Which nodes of a step must not run at the same time, and which may wait for each other: for teams of threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from thalweg.graph.definitions.op_registry import effect_of, find_op, flow_of
from thalweg.graph.op_effects import Effect
from thalweg.passes.step_graph import Node
from thalweg.planning.planned_step import PlannedFunction, referred_names

ResourceUse = Literal["writes", "reads", "any"]

_CHANGES: Final = frozenset((Effect.WRITES, Effect.CALLS, Effect.UNKNOWN))


def resource_use(node: Node) -> ResourceUse:
    """What a run of a node does with resources: with those whose handles it reads, or with any."""
    if node.op == "_Loop":
        effects = {effect_of(each.op) for each in node.attrs["program"].nodes if each.stateful}
        return "any" if effects & _CHANGES else "reads"
    if flow_of(node.op).calls:
        return "any" if node.stateful else "reads"
    return "reads" if effect_of(node.op) is Effect.READS else "writes"


def may_wait(node: Node, functions: Mapping[str, PlannedFunction]) -> bool:
    """Whether a run of a node calls Python functions of the user, by itself or in functions of the graph."""
    seen: set[str] = set()

    def runs_user_code(nodes: Iterable[Node]) -> bool:
        for each in nodes:
            definition = find_op(each.op)
            if definition is not None and definition.runs_user_code:
                return True
            for name in referred_names(each):
                if name not in seen and name in functions:
                    seen.add(name)
                    if runs_user_code(functions[name].graph.nodes.values()):
                        return True
            if each.op == "_Loop" and runs_user_code(each.attrs["program"].nodes):
                return True
        return False

    return runs_user_code((node,))
