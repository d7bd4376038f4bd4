"""extend_graph: adds the nodes of a GraphDef under their own names to a graph whose nodes they may read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.formats.graph_importer import Importer
from thalweg.graph.formats.import_graph_def import check_versions
from thalweg.graph.formats.import_nodes import parse_tensor_name

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


def extend_graph(graph: Graph, graph_def: Any) -> None:
    """Adds the nodes and functions of a GraphDef, all of them or, after an error, none.

    Args:
        graph: The graph.
        graph_def: Nodes that the graph does not have; their inputs are nodes of either.

    Raises:
        ValueError: If the GraphDef is not valid, has a name that the graph has, or an input that neither has.
        errors.NotFoundError: If it has a node of an unknown op type.
    """
    check_versions(graph_def.versions)
    new = {node.name for node in graph_def.node}
    known: dict[str, Any] = {}
    with graph._lock, default_graph_scope(graph):
        for node in graph_def.node:
            for text in node.input:
                is_control = text[:1] == "^"
                name, output = parse_tensor_name(text[is_control:])
                op = graph._operations_by_name.get(name)
                if name in new or op is None:
                    continue  # Names that are nowhere are reported by the import.
                if is_control:
                    known[text] = op
                elif output < len(op.outputs):
                    known[text] = op.outputs[output]
        importer = Importer(graph, graph_def, "", known, [], None)
        importer.uniquify = False
        importer.may_join_nodes = True
        importer.run()
