"""MetaGraphDef out: a graph, or the part of it below a name scope, with its collections and the ops it uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.name_scoping import in_name_scope, strip_name_scope
from thalweg.graph.formats.proto_functions import proto_functions
from thalweg.graph.formats.write_graph import write_message
from thalweg.graph.messages.op_def_proto import op_list, strip_default_attrs
from thalweg.platform import logging
from thalweg.platform.version import GIT_VERSION, VERSION

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph

UNBOUND_INPUT_PREFIX: Final = "$unbound_inputs_"
"""Marks inputs that come from outside of the exported scope: the importer's `input_map` must give them."""


@export("train.export_meta_graph")
def export_meta_graph(
    filename: str | None = None,
    meta_info_def: Any = None,
    graph_def: Any = None,
    saver_def: Any = None,
    collection_list: Iterable[Any] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> Any:
    """Returns a graph as a MetaGraphDef, and optionally writes it to a file.

    Args:
        filename: Where to write it; None for nowhere.
        meta_info_def: A MetaInfoDef to start from.
        graph_def: The GraphDef to export, if not that of `graph`.
        saver_def: A SaverDef to include.
        collection_list: Names of the collections to include; all if None.
        as_text: Whether the file is in protobuf's text form.
        graph: The graph; the default graph if None.
        export_scope: Only what lies below this name scope, with names without it.
        clear_devices: Whether to leave devices out.
        clear_extraneous_savers: Whether to leave out the savers that the graph collected.
        strip_default_attrs: Whether to leave out attributes that have their default.
        save_debug_info: Not used.
        **kwargs: `unbound_inputs_col_name`: the collection that lists inputs from outside of `export_scope`.

    Returns:
        A MetaGraphDef.

    Raises:
        ValueError: If the graph is empty.

    Example:
        >>> with tf.Graph().as_default() as graph:
        ...     tf.add_to_collection("outputs", tf.constant(1.0, name="one"))
        >>> tf.train.export_meta_graph(graph=graph).collection_def["outputs"].node_list.value
        ['one:0']
    """
    meta_graph, _ = export_scoped_meta_graph(
        filename=filename,
        graph_def=graph_def,
        graph=graph,
        export_scope=export_scope,
        as_text=as_text,
        clear_devices=clear_devices,
        saver_def=saver_def,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        meta_info_def=meta_info_def,
        collection_list=collection_list,
        **kwargs,
    )
    return meta_graph


def export_scoped_meta_graph(
    filename: str | None = None,
    graph_def: Any = None,
    graph: Graph | None = None,
    export_scope: str | None = None,
    as_text: bool = False,
    unbound_inputs_col_name: str | None = "unbound_inputs",
    clear_devices: bool = False,
    saver_def: Any = None,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    meta_info_def: Any = None,
    collection_list: Iterable[Any] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """As `export_meta_graph`; returns also the exported variables, by their names within the scope."""
    graph = graph or get_default_graph()
    variables: dict[str, Any] = {}
    unbound: list[str] = []
    if graph_def is None and export_scope is None and not graph._operations:
        raise ValueError("Cannot export an empty graph: it has no operations.")
    if graph_def is None or export_scope:
        source = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
        graph_def = _scoped_graph_def(source, export_scope, unbound, clear_devices)
    elif clear_devices:
        graph_def = _scoped_graph_def(graph_def, None, unbound, True)
    for variable in graph.get_collection("variables"):
        if in_name_scope(variable.op.name, export_scope):
            variables[strip_name_scope(variable.op.name, export_scope)] = variable
    names = graph.collections if collection_list is None else list(collection_list)
    if clear_extraneous_savers:
        names = [name for name in names if name != "savers"]
    meta_graph = create_meta_graph_def(
        meta_info_def, graph_def, saver_def, names, graph, export_scope, strip_default_attrs
    )
    if unbound and unbound_inputs_col_name:
        meta_graph.collection_def[unbound_inputs_col_name].bytes_list.value.extend(
            [name.encode() for name in dict.fromkeys(unbound)]
        )
    if filename:
        write_message(meta_graph, filename, as_text)
    return meta_graph, variables


def _scoped_graph_def(graph_def: Any, scope: str | None, unbound: list[str], clear_devices: bool) -> Any:
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

    result = GraphDef(versions=graph_def.versions, library=graph_def.library)
    for node in graph_def.node:
        if not in_name_scope(node.name, scope):
            continue
        copy = result.node.add()
        copy.CopyFrom(node)
        if clear_devices:
            copy.device = ""
        if scope:
            _move_out(copy, scope, unbound)
    return result


def _move_out(node: Any, scope: str, unbound: list[str]) -> None:
    node.name = strip_name_scope(node.name, scope)
    for i, text in enumerate(node.input):
        if in_name_scope(text, scope):
            node.input[i] = strip_name_scope(text, scope)
        else:
            mark = "^" if text[0] == "^" else ""
            node.input[i] = f"{mark}{UNBOUND_INPUT_PREFIX}{text[len(mark) :]}"
            unbound.append(node.input[i])
    if "_class" in node.attr:
        groups = node.attr["_class"].list.s
        inside = [group for group in groups if in_name_scope(group.decode(), scope)]
        del groups[:]
        groups.extend([strip_name_scope(group.decode(), scope).encode() for group in inside])
        if not inside:
            del node.attr["_class"]


def create_meta_graph_def(
    meta_info_def: Any,
    graph_def: Any,
    saver_def: Any,
    collection_list: Iterable[Any],
    graph: Graph,
    export_scope: str | None = None,
    strip_defaults: bool = False,
) -> Any:
    """Puts a MetaGraphDef together from its parts."""
    from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef  # Start-up time: protobuf is slow to import.

    meta_graph = MetaGraphDef(meta_info_def=meta_info_def, graph_def=graph_def, saver_def=saver_def)
    info = meta_graph.meta_info_def
    info.tensorflow_version = VERSION
    info.tensorflow_git_version = GIT_VERSION
    if not info.HasField("stripped_op_list"):
        graph_def = meta_graph.graph_def
        bodies = [function.node_def for function in graph_def.library.function]
        info.stripped_op_list.CopyFrom(op_list(node.op for nodes in (graph_def.node, *bodies) for node in nodes))
    if strip_defaults:
        strip_default_attrs(meta_graph.graph_def)
        info.stripped_default_attrs = True
    for name in collection_list:
        _add_collection(meta_graph, name, graph.get_collection(name), export_scope)
    return meta_graph


def _add_collection(meta_graph: Any, name: Any, items: list[Any], export_scope: str | None) -> None:
    from tensorboard.compat.proto.meta_graph_pb2 import CollectionDef  # Start-up time: protobuf is slow to import.

    if not isinstance(name, (str, bytes)):
        logging.warning("Only collections whose names are strings are saved; this one is not: %r", name)
        return
    name = name.decode() if isinstance(name, bytes) else name
    if name.startswith("__") or not items:
        return
    collection = CollectionDef()
    try:
        _fill_collection(collection, name, items, export_scope)
    except (TypeError, ValueError, AttributeError) as e:
        logging.warning("The collection '%s' is not saved: an item cannot become a protobuf (%s).", name, e)
        return
    meta_graph.collection_def[name].CopyFrom(collection)


def _fill_collection(collection: Any, name: str, items: list[Any], export_scope: str | None) -> None:
    functions = proto_functions(name)
    if functions is not None and functions.to_proto is not None:
        collection.bytes_list.SetInParent()
        for item in items:
            proto = functions.to_proto(item, export_scope=export_scope)
            if proto is not None:
                collection.bytes_list.value.append(proto.SerializeToString())
        return
    kind = _kind_of(items[0])
    values = getattr(collection, kind)
    values.SetInParent()
    if kind == "node_list":
        names = [item.name for item in items]
        values.value.extend(
            [strip_name_scope(text, export_scope) for text in names if in_name_scope(text, export_scope)]
        )
    elif kind == "bytes_list":
        values.value.extend([item.encode() if isinstance(item, str) else item for item in items])
    elif kind == "any_list":
        values.value.extend(items)
    else:
        values.value.extend(items)


def _kind_of(item: Any) -> str:
    if isinstance(item, (str, bytes)):
        return "bytes_list"
    if isinstance(item, int):
        return "int64_list"
    if isinstance(item, float):
        return "float_list"
    if getattr(getattr(item, "DESCRIPTOR", None), "full_name", "") == "google.protobuf.Any":
        return "any_list"
    return "node_list"
