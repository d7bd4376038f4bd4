"""`tensorflow.python.tools.optimize_for_inference_lib`: a frozen graph without what only training needs."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from thalweg.contrib.public_names import tf
from thalweg.tensorflow_modules import freeze_graph


def optimize_for_inference(
    input_graph_def: Any,
    input_node_names: Any,
    output_node_names: Any,
    placeholder_type_enum: Any,
    toco_compatible: bool = False,
) -> Any:
    """The part of a frozen graph between inputs and outputs, with batch normalization folded into the convolutions."""
    graph_def = strip_unused(input_graph_def, input_node_names, output_node_names, placeholder_type_enum)
    graph_def = tf.graph_util.remove_training_nodes(graph_def, output_node_names)
    return fold_batch_norms(graph_def)


def ensure_graph_is_valid(graph_def: Any) -> None:
    """Checks that names are unique and inputs exist.

    Raises:
        ValueError: If not.
    """
    names = set()
    for node in graph_def.node:
        if node.name in names:
            raise ValueError(f"Duplicate node names detected for {node.name}")
        names.add(node.name)
    for node in graph_def.node:
        for text in node.input:
            if node_name_from_input(text) not in names:
                raise ValueError(f"Input for {node.name} not found: {text}")


def node_name_from_input(node_name: str) -> str:
    """The name of the node that an input is of."""
    return node_name.removeprefix("^").split(":")[0]


def strip_unused(
    input_graph_def: Any, input_node_names: Any, output_node_names: Any, placeholder_type_enum: Any = None
) -> Any:
    """The nodes that the outputs need, with placeholders for the inputs.

    Raises:
        KeyError: If an input is not in the graph.
    """
    known = {node.name for node in input_graph_def.node}
    for name in input_node_names:
        if ":" in name:
            raise ValueError(f"Name '{name}' appears to refer to a Tensor, not an Operation.")
        if name not in known:
            raise KeyError(f"The following input nodes were not found: {{'{name}'}}")
    types = placeholder_type_enum if isinstance(placeholder_type_enum, (list, tuple)) else None
    replaced = tf.GraphDef()
    if input_graph_def.HasField("versions"):
        replaced.versions.CopyFrom(input_graph_def.versions)
    for node in input_graph_def.node:
        if node.name not in input_node_names:
            replaced.node.add().CopyFrom(node)
            continue
        placeholder = replaced.node.add(op="Placeholder", name=node.name)
        kind = types[list(input_node_names).index(node.name)] if types else placeholder_type_enum
        placeholder.attr["dtype"].type = node.attr["dtype"].type if kind is None else int(kind)
        placeholder.attr["shape"].shape.unknown_rank = True
        for key in ("shape", "_output_shapes"):
            if key in node.attr:
                placeholder.attr[key].CopyFrom(node.attr[key])
    return tf.graph_util.extract_sub_graph(replaced, list(output_node_names))


def strip_unused_from_files(
    input_graph: str,
    input_binary: bool,
    output_graph: str,
    output_binary: bool,
    input_node_names: str,
    output_node_names: str,
    placeholder_type_enum: Any,
) -> int | None:
    """Does `strip_unused` for a file with a GraphDef, binary or text, and writes the result to another one.

    Names are separated by commas. Returns -1, and logs why, if the file or names are missing.
    """
    if not tf.gfile.Exists(input_graph):
        tf.logging.error("Input graph file '%s' does not exist!", input_graph)
        return -1
    if not output_node_names:
        tf.logging.error("You need to supply the name of a node to --output_node_names.")
        return -1
    graph_def = freeze_graph.read_graph_def(input_graph, input_binary)
    stripped = strip_unused(
        graph_def, freeze_graph.names_in(input_node_names), freeze_graph.names_in(output_node_names),
        placeholder_type_enum,
    )  # fmt: skip
    folder, name = os.path.split(output_graph)
    tf.train.write_graph(stripped, folder, name, as_text=not output_binary)
    tf.logging.info("%d ops in the final graph.", len(stripped.node))
    return None


def fold_batch_norms(input_graph_def: Any) -> Any:
    """Multiplies the scale of a batch normalization into the weights of the convolution before it."""
    result = tf.GraphDef()
    result.CopyFrom(input_graph_def)
    nodes = {node.name: node for node in result.node}
    readers: dict[str, int] = {}
    for node in result.node:
        for text in node.input:
            readers[node_name_from_input(text)] = readers.get(node_name_from_input(text), 0) + 1
    for node in list(result.node):
        if node.op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
            _fold(node, nodes, readers, result)
    used = {node_name_from_input(text) for node in result.node for text in node.input}
    kept = [n for n in result.node if n.op != "Const" or n.name in used or n.name not in _inputs_of(input_graph_def)]
    final = tf.GraphDef()
    if result.HasField("versions"):
        final.versions.CopyFrom(result.versions)
    final.node.extend(kept)
    return final


def _inputs_of(graph_def: Any) -> set[str]:
    return {node_name_from_input(text) for node in graph_def.node for text in node.input}


def _value(nodes: dict[str, Any], text: str) -> Any:
    node = nodes.get(node_name_from_input(text))
    while node is not None and node.op == "Identity":
        node = nodes.get(node_name_from_input(node.input[0]))
    return None if node is None or node.op != "Const" else tf.make_ndarray(node.attr["value"].tensor)


def _fold(node: Any, nodes: dict[str, Any], readers: dict[str, int], graph_def: Any) -> None:
    conv = nodes.get(node_name_from_input(node.input[0]))
    if conv is None or conv.op not in ("Conv2D", "DepthwiseConv2dNative") or readers.get(conv.name) != 1:
        return
    values = [_value(nodes, text) for text in (conv.input[1], *node.input[1:5])]
    training = node.attr["is_training"].b if "is_training" in node.attr else True
    if training or any(value is None for value in values) or node.attr["data_format"].s == b"NCHW":
        return
    weights, scale, offset, mean, variance = values
    epsilon = node.attr["epsilon"].f if "epsilon" in node.attr else 1e-4
    factor = scale / np.sqrt(variance + epsilon)
    if conv.op == "DepthwiseConv2dNative":
        scaled = weights * factor.reshape(weights.shape[2:])
    else:
        scaled = weights * factor
    for suffix, value in (("_weights", scaled), ("_offset", offset - mean * factor)):
        constant = graph_def.node.add(op="Const", name=node.name + suffix)
        constant.attr["dtype"].CopyFrom(node.attr["T"])
        constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value.astype(weights.dtype)))
        nodes[constant.name] = constant
    conv.input[1] = node.name + "_weights"
    bias = tf.NodeDef(op="BiasAdd", name=node.name)
    bias.input.extend([conv.name, node.name + "_offset"])
    bias.attr["T"].CopyFrom(node.attr["T"])
    node.CopyFrom(bias)
