"""What the graph of a part or of a function's body has to satisfy when it comes from a peer.

Passes and the core rely on the order of the nodes, on edges that lead to outputs of the declared types, and on one
`_Arg` for each feed: a graph of this process has all this because of how it was built.
"""

from __future__ import annotations

from thalweg.passes.step_graph import Feed, Node, StepGraph
from thalweg.planning.node_types import check_node_types


def check_graph(graph: StepGraph) -> None:
    """Refuses a graph that contradicts itself.

    Raises:
        ValueError: With the node and the reason.
    """
    done: dict[str, Node] = {}
    args: set[int] = set()
    for node in graph.nodes.values():
        check_node_types(node)
        _check_edges(node, graph, done)
        if node.op == "_Arg":
            _check_feed(node, graph.feeds, args)
        done[node.name] = node
    for name, output in graph.fetches:
        if name not in graph.nodes or output >= len(graph.nodes[name].output_dtypes):
            raise ValueError(f"The fetch '{name}:{output}' is no tensor of its part.")
    for name in graph.targets:
        if name not in graph.nodes:
            raise ValueError(f"The target '{name}' is no node of its part.")


def _check_edges(node: Node, graph: StepGraph, done: dict[str, Node]) -> None:
    """Checks the edges into a node; `done` has the nodes before it."""
    for (name, output), dtype in zip(node.inputs, node.input_dtypes, strict=True):
        source = graph.nodes.get(name)
        if source is None or output >= len(source.output_dtypes):
            raise ValueError(f"Node '{node.name}' reads '{name}:{output}', which its part lacks.")
        made = source.output_dtypes[output]
        if made.base_dtype is not dtype.base_dtype:
            raise ValueError(f"Node '{node.name}' reads '{name}:{output}' as {dtype.name}, and it is {made.name}.")
        if name not in done and not _closes_loop(source, node):
            raise ValueError(f"Node '{node.name}' reads '{name}', which comes after it.")
    for name in node.controls:
        if name not in graph.nodes:
            raise ValueError(f"Node '{node.name}' waits for '{name}', which its part lacks.")
        if name not in done:
            raise ValueError(f"Node '{node.name}' waits for '{name}', which comes after it.")


def _closes_loop(source: Node, reader: Node) -> bool:
    return source.op in ("NextIteration", "RefNextIteration") and reader.op in ("Merge", "RefMerge")


def _check_feed(node: Node, feeds: tuple[Feed, ...], seen: set[int]) -> None:
    """Checks the node that stands for a feed; `seen` has the feeds of the nodes before it."""
    index = node.attrs.get("index")
    if type(index) is not int or not 0 <= index < len(feeds) or index in seen:
        raise ValueError(f"Node '{node.name}' stands for feed {index} of {len(feeds)}, or for the same as another.")
    seen.add(index)
    if node.controls:
        raise ValueError(f"Node '{node.name}' stands for a feed, and cannot wait for others.")
    if node.output_dtypes[0].base_dtype is not feeds[index].dtype.base_dtype:
        raise ValueError(
            f"Node '{node.name}' has type {node.output_dtypes[0].name}, and its feed has {feeds[index].dtype.name}."
        )
