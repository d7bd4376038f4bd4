"""tf.test.assert_equal_graph_def: whether two GraphDefs hold the same nodes, in any order."""

from __future__ import annotations

from typing import Any


def assert_equal_graph_def(
    actual: Any, expected: Any, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    """Raises AssertionError unless both GraphDefs hold the same nodes; their order and versions do not matter.

    Args:
        actual: A GraphDef.
        expected: A GraphDef.
        checkpoint_v2: Whether to ignore file names that Save and Restore nodes make up at random.
        hash_table_shared_name: Whether to ignore the shared names of hash tables.

    Raises:
        AssertionError: If they differ; the message says where.
        TypeError: If an argument is not a GraphDef.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

    for what, value in (("actual", actual), ("expected", expected)):
        if not isinstance(value, GraphDef):
            raise TypeError(f"Expected tf.GraphDef for {what}, got {type(value).__name__}")
    found = _by_name(actual, checkpoint_v2, hash_table_shared_name)
    wanted = _by_name(expected, checkpoint_v2, hash_table_shared_name)
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing or extra:
        raise AssertionError(f"The graphs differ: missing nodes {missing}, unexpected nodes {extra}.")
    for name in sorted(wanted):
        if found[name] != wanted[name]:
            raise AssertionError(f"Node '{name}' differs:\nactual:\n{found[name]}\nexpected:\n{wanted[name]}")


def _by_name(graph_def: Any, checkpoint_v2: bool, hash_table_shared_name: bool) -> dict[str, Any]:
    nodes = {}
    for original in graph_def.node:
        node = type(original)()
        node.CopyFrom(original)
        # The order of control inputs means nothing.
        inputs = [i for i in node.input if not i.startswith("^")] + sorted(i for i in node.input if i.startswith("^"))
        del node.input[:]
        node.input.extend(inputs)
        if checkpoint_v2 and node.op == "Const" and b"_temp_" in node.attr["value"].SerializeToString():
            del node.attr["value"]
        if hash_table_shared_name and node.op in ("HashTable", "HashTableV2"):
            node.attr.pop("shared_name", None)
        nodes[node.name] = node
    return nodes
