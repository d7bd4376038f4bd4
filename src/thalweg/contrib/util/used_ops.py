"""The op types that a GraphDef uses, and their definitions."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export


@export("contrib.util.ops_used_by_graph_def")
def ops_used_by_graph_def(graph_def: Any) -> list[str]:
    """The op types of a GraphDef and of the functions that it calls."""
    functions = {function.signature.name: function for function in graph_def.library.function}
    used: set[str] = set()
    waiting = list(graph_def.node)
    seen: set[str] = set()
    while waiting:
        node = waiting.pop()
        called = {node.op} | {attr.func.name for attr in node.attr.values() if attr.HasField("func")}
        for name in called & set(functions) - seen:
            seen.add(name)
            waiting.extend(functions[name].node_def)
        if node.op not in functions:
            used.add(node.op)
    return sorted(used)


@export("contrib.util.stripped_op_list_for_graph")
def stripped_op_list_for_graph(graph_def: Any) -> Any:
    """The definitions of these op types, as the OpList of a MetaGraphDef has them.

    Raises:
        ValueError: If Thalweg has not all of them.
    """
    used = ops_used_by_graph_def(graph_def)
    graph = tf.Graph()
    with graph.as_default():
        stripped = tf.train.export_meta_graph(graph_def=graph_def).meta_info_def.stripped_op_list
    missing = set(used) - {op.name for op in stripped.op}
    if missing:
        raise ValueError(f"Op {', '.join(sorted(missing))} is used by the graph, but is not registered")
    return stripped
