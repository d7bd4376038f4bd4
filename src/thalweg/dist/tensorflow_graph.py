"""The part of a graph that a step needs, as a GraphDef for a TensorFlow server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from thalweg.graph.messages.graph_def import node_def_of

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation


class SentGraph:
    """What a TensorFlow server has of a graph: nodes go there once, and when a step needs them.

    So a graph may have operations that TensorFlow lacks, as long as the steps on its server do without them.
    """

    def __init__(self, graph: Graph) -> None:
        """Begins with nothing sent."""
        self.graph = graph
        self._nodes: dict[str, int] = {}  # The hash of each NodeDef: a node that has changed must be sent anew.
        self._functions: set[str] = set()

    def missing(self, operations: Iterable[Operation]) -> Any:
        """A GraphDef of what the server lacks to run some operations; None if a node that it has was changed since."""
        from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

        result = GraphDef(versions=self.graph.graph_def_versions)
        for op in _with_inputs(self.graph, operations):
            node = node_def_of(op)
            digest = hash(node.SerializeToString(deterministic=True))
            known = self._nodes.get(op.name)
            if known is None:
                result.node.append(node)
            elif known != digest:
                return None
        for name in _functions_of(self.graph, result.node):
            if name not in self._functions:
                function = self.graph._functions[name]
                result.library.function.append(function.definition)
                if function.grad_func_name is not None:
                    result.library.gradient.add(function_name=name, gradient_func=function.grad_func_name)
        return result

    def sent(self, graph_def: Any) -> None:
        """The server has accepted what `missing` has given."""
        for node in graph_def.node:
            self._nodes[node.name] = hash(node.SerializeToString(deterministic=True))
        self._functions.update(function.signature.name for function in graph_def.library.function)


def _with_inputs(graph: Graph, operations: Iterable[Operation]) -> list[Operation]:
    """Operations and all that they read, wait for, or are colocated with, in the graph's order."""
    found: set[Operation] = set()
    waiting = list(operations)
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        found.add(op)
        waiting.extend(tensor.op for tensor in op.inputs)
        waiting.extend(op.control_inputs)
        for group in op.attrs.get("_class", ()):
            other = graph._operations_by_name.get(group.removeprefix(b"loc:@").decode())
            if other is not None:
                waiting.append(other)
    return sorted(found, key=lambda op: op._id)


def _functions_of(graph: Graph, nodes: Iterable[Any]) -> list[str]:
    """The functions that nodes call, and those that these call."""
    found: dict[str, None] = {}
    waiting = [name for node in nodes for name in _names_in(node)]
    while waiting:
        name = waiting.pop()
        if name in found or name not in graph._functions:
            continue
        found[name] = None
        function = graph._functions[name]
        waiting.extend(each for node in function.definition.node_def for each in _names_in(node))
        if function.grad_func_name is not None:
            waiting.append(function.grad_func_name)
    return list(found)


def _names_in(node: Any) -> Iterator[str]:
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        elif value.HasField("list"):
            yield from (function.name for function in value.list.func)
