"""tf.import_graph_def: adds the nodes of a GraphDef to a graph, all of them or, after an error, none."""

from __future__ import annotations

from typing import Any

from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.graph_importer import Importer
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.platform.version import GRAPH_DEF_VERSION, GRAPH_DEF_VERSION_MIN_PRODUCER


@export("import_graph_def", "graph_util.import_graph_def")
def import_graph_def(
    graph_def: Any,
    input_map: dict[str, Any] | None = None,
    return_elements: list[str] | None = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
) -> list[Any] | None:
    """Imports a GraphDef into the default graph.

    Args:
        graph_def: The GraphDef.
        input_map: Tensors of the default graph to use in place of tensors of the GraphDef, by their names in it
            ('x' or 'x:1'); '^x' replaces control inputs.
        return_elements: Names of operations and tensors of the GraphDef to return.
        name: Prefix for the names of the nodes; 'import' if None. With '' there is none, and names are made unique.
        op_dict: Not used.
        producer_op_list: An OpList protobuf of the program that wrote the GraphDef: attributes that are not known here,
            and have their default, are dropped.

    Returns:
        The Operations and Tensors asked for, or None.

    Raises:
        TypeError: If `graph_def` is not a GraphDef protobuf, or another argument has the wrong type.
        ValueError: If the GraphDef is not a valid graph, or a name is not in it.
        tf.errors.NotFoundError: If it has a node of an unknown op type.

    Example:
        >>> with tf.Graph().as_default() as graph:
        ...     c = tf.constant(2.0, name="c")
        >>> c, = tf.import_graph_def(graph.as_graph_def(), return_elements=["c:0"])
        >>> c.name
        'import/c:0'
    """
    graph_def = checked_graph_def(graph_def)
    elements = _checked_return_elements(return_elements)
    mapping = _checked_input_map(input_map)
    check_versions(graph_def.versions)
    with name_scope(name, "import", list(mapping.values())) as scope:
        replaced = _converted_input_map(mapping, scope)
        importer = Importer(get_default_graph(), graph_def, scope, replaced, elements or [], producer_op_list)
        importer.uniquify = not (name or "").endswith("/")
        importer.run()
        return None if elements is None else [importer.element(text) for text in elements]


def checked_graph_def(graph_def: Any) -> Any:
    """The argument, if it is a GraphDef; a GraphDef of TensorFlow's own class is converted.

    Raises:
        TypeError: If it is not a GraphDef.
    """
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

    if isinstance(graph_def, GraphDef):
        return graph_def
    descriptor = getattr(graph_def, "DESCRIPTOR", None)
    if getattr(descriptor, "full_name", None) == "tensorflow.GraphDef":
        return GraphDef.FromString(graph_def.SerializeToString())
    raise TypeError(f"Argument `graph_def` must be a GraphDef proto, got {type(graph_def).__name__}.")


def check_versions(versions: Any) -> None:
    """Checks the versions of a GraphDef.

    Raises:
        ValueError: If this program is too old for the GraphDef, or the GraphDef for this program.
    """
    if versions.min_consumer > GRAPH_DEF_VERSION:
        raise ValueError(
            f"GraphDef min consumer version {versions.min_consumer} above current version {GRAPH_DEF_VERSION}: "
            "it needs a newer program to read it."
        )
    if versions.producer < GRAPH_DEF_VERSION_MIN_PRODUCER:
        raise ValueError(
            f"GraphDef producer version {versions.producer} below the minimum {GRAPH_DEF_VERSION_MIN_PRODUCER}."
        )
    if GRAPH_DEF_VERSION in versions.bad_consumers:
        raise ValueError(f"GraphDef disallows consumer version {GRAPH_DEF_VERSION}.")


def _checked_return_elements(return_elements: Any) -> list[str] | None:
    if return_elements is None:
        return None
    if isinstance(return_elements, str) or not all(isinstance(text, str) for text in return_elements):
        raise TypeError(f"Argument `return_elements` must be a list of strings. Obtained {return_elements!r}.")
    return list(return_elements)


def _checked_input_map(input_map: Any) -> dict[str, Any]:
    if input_map is None:
        return {}
    if not (isinstance(input_map, dict) and all(isinstance(key, str) for key in input_map)):
        raise TypeError(
            "Argument `input_map` must be a dictionary with strings as keys. Obtained: "
            f"{list(input_map) if isinstance(input_map, dict) else input_map!r}."
        )
    return input_map


def _converted_input_map(mapping: dict[str, Any], scope: str) -> dict[str, Any]:
    plain = [key for key, value in mapping.items() if not isinstance(value, (Tensor, Operation))]
    if not plain:
        return mapping
    if not scope:
        raise ValueError(
            "tf.import_graph_def() requires a non-empty `name` if `input_map` contains values that are not tensors "
            f"({', '.join(plain)}). Try calling tf.convert_to_tensor() on them before."
        )
    result = dict(mapping)
    with name_scope("_inputs"):
        for key in plain:
            result[key] = convert_to_tensor(mapping[key])
    return result
