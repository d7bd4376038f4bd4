"""MetaGraphDef in: the graph under a scope, and its collections."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.formats.import_graph_def import import_graph_def
from thalweg.graph.formats.name_scoping import in_name_scope, prepend_name_scope, strip_name_scope
from thalweg.graph.formats.proto_functions import proto_functions
from thalweg.graph.formats.write_graph import read_message

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph


def read_meta_graph_file(filename: str) -> Any:
    """Reads a MetaGraphDef from a file, binary or text.

    Raises:
        OSError: If there is no such file.
        ValueError: If it does not hold a MetaGraphDef.
    """
    from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef  # Start-up time: protobuf is slow to import.

    return read_message(MetaGraphDef(), filename, "MetaGraphDef")


def import_scoped_meta_graph(
    meta_graph_or_file: Any,
    clear_devices: bool = False,
    graph: Graph | None = None,
    import_scope: str | None = None,
    input_map: dict[str, Any] | None = None,
    unbound_inputs_col_name: str | None = "unbound_inputs",
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
) -> dict[str, Any]:
    """Imports a MetaGraphDef.

    Args:
        meta_graph_or_file: A MetaGraphDef, or the path of a file with one.
        clear_devices: Whether to leave devices out.
        graph: Where to; the default graph if None.
        import_scope: A name scope to put everything under.
        input_map: As in `tf.import_graph_def`; must give every input that was outside of the exported scope.
        unbound_inputs_col_name: The collection that lists such inputs.
        restore_collections_predicate: Says by name which collections to restore.

    Returns:
        The variables of the graph, by their names without the scope.

    Raises:
        ValueError: If the MetaGraphDef is not valid, or `input_map` misses an input.
    """
    meta_graph = checked_meta_graph(meta_graph_or_file)
    _check_unbound_inputs(meta_graph, input_map, unbound_inputs_col_name)
    graph = graph or get_default_graph()
    info = meta_graph.meta_info_def
    with graph.as_default():
        producer_op_list = info.stripped_op_list if info.HasField("stripped_op_list") else None
        scope = graph.unique_name(import_scope, mark_as_used=False) if import_scope else ""
        if import_scope and import_scope.endswith("/"):
            scope = import_scope.rstrip("/")
        graph_def = meta_graph.graph_def
        if clear_devices:
            graph_def = type(graph_def).FromString(graph_def.SerializeToString())
            for node in graph_def.node:
                node.device = ""
        import_graph_def(graph_def, name=(import_scope or ""), input_map=input_map, producer_op_list=producer_op_list)
        _restore_collections(graph, meta_graph, scope, unbound_inputs_col_name, restore_collections_predicate)
    return {
        strip_name_scope(variable.name, scope): variable
        for variable in graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        if in_name_scope(variable.name, scope)
    }


def checked_meta_graph(meta_graph_or_file: Any) -> Any:
    """A MetaGraphDef, read from a file if it is given as a path."""
    from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef  # Start-up time: protobuf is slow to import.

    if isinstance(meta_graph_or_file, MetaGraphDef):
        return meta_graph_or_file
    if isinstance(meta_graph_or_file, (str, os.PathLike)):
        return read_meta_graph_file(os.fspath(meta_graph_or_file))
    descriptor = getattr(meta_graph_or_file, "DESCRIPTOR", None)
    if getattr(descriptor, "full_name", None) == "tensorflow.MetaGraphDef":
        return MetaGraphDef.FromString(meta_graph_or_file.SerializeToString())
    raise TypeError(f"Expected a MetaGraphDef or the path of a file with one, got {type(meta_graph_or_file).__name__}.")


def _check_unbound_inputs(meta_graph: Any, input_map: Any, collection: str | None) -> None:
    if not collection or collection not in meta_graph.collection_def:
        return
    unbound = [value.decode(errors="replace") for value in meta_graph.collection_def[collection].bytes_list.value]
    missing = sorted(set(unbound) - set(input_map or ()))
    if missing:
        raise ValueError(
            f"Graph contains unbound inputs: {', '.join(missing)}. Must provide these inputs through input_map."
        )


def _restore_collections(
    graph: Graph, meta_graph: Any, scope: str, unbound: str | None, wanted: Callable[[str], bool]
) -> None:
    variables: dict[bytes, Any] = {}  # A variable in several collections is one object in all of them.
    for name in sorted(meta_graph.collection_def):
        if name == unbound or not wanted(name):
            continue
        collection = meta_graph.collection_def[name]
        kind = collection.WhichOneof("kind")
        if kind is None:
            raise ValueError(f"Cannot identify the kind of the items in the collection '{name}'.")
        functions = proto_functions(name)
        if functions is not None and functions.from_proto is None:
            continue  # Items that can only be written.
        if kind == "bytes_list" and functions is not None and functions.from_proto is not None:
            for data in collection.bytes_list.value:
                item = variables.get(data)
                if item is None:
                    item = functions.from_proto(_parse(functions.message_class(), data, name), import_scope=scope)
                if functions.proto_type == "variable_pb2.VariableDef":
                    variables[data] = item
                graph.add_to_collection(name, item)
        elif kind == "node_list":
            for text in collection.node_list.value:
                graph.add_to_collection(name, _element(graph, prepend_name_scope(text, scope), name))
        elif kind == "bytes_list":
            for data in collection.bytes_list.value:
                graph.add_to_collection(name, data)
        else:
            for item in getattr(collection, kind).value:
                graph.add_to_collection(name, item)
    present = [n for n in (GraphKeys.WHILE_CONTEXT, GraphKeys.COND_CONTEXT) if n in meta_graph.collection_def]
    if any(wanted(name) for name in present):
        _restore_contexts(graph, meta_graph, scope)


def _no_contexts(graph: Graph, meta_graph: Any, import_scope: str | None) -> None:
    raise NotImplementedError("No reader of loops and conditionals is installed: see set_context_reader.")


_restore_contexts: Callable[[Graph, Any, str | None], None] = _no_contexts


def set_context_reader(reader: Callable[[Graph, Any, str | None], None]) -> None:
    """Installs the function that restores loops and conditionals of imported nodes: control_flow/ is higher."""
    global _restore_contexts
    _restore_contexts = reader


def _parse(message_class: Any, data: bytes, collection: str) -> Any:
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.

    try:
        return message_class.FromString(data)
    except DecodeError as e:
        raise ValueError(f"An item of the collection '{collection}' is not a {message_class.__name__}: {e}") from None


def _element(graph: Graph, name: str, collection: str) -> Any:
    try:
        return graph.as_graph_element(name)
    except KeyError as e:
        raise ValueError(f"The collection '{collection}' has an item that is not in the graph: {e}") from None
