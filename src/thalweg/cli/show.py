"""`thalweg show model`: signatures, inputs and outputs, ops, parameters, size, and what is unsupported."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from thalweg.graph.definitions import op_registry
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.formats.write_graph import read_message

HELP = "describe a model: a SavedModel's folder, a frozen graph (.pb, .pbtxt) or a MetaGraph (.meta)"
_MOST_OPS = 12
_MOST_TENSORS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("model", help="a SavedModel's folder, or a file with a GraphDef or MetaGraphDef")
    parser.add_argument("--ops", action="store_true", help="list every op type, not only the most frequent ones")


def run(options: argparse.Namespace) -> int:
    """Prints the description."""
    for line in describe(options.model, options.ops):
        print(line)
    return 0


def describe(path: str, all_ops: bool = False) -> Iterator[str]:
    """The lines of the description.

    Raises:
        OSError: If there is no such model, or it cannot be read.
    """
    if os.path.isdir(path):
        yield from _describe_saved_model(path, all_ops)
    elif path.endswith(".meta"):
        meta_graph = _read_meta_graph(path)
        yield f"MetaGraph {path}: {_bytes(os.path.getsize(path))}"
        yield from _describe_meta_graph(meta_graph, _variables_beside(path), all_ops)
    else:
        graph_def = _read_graph(path)
        yield f"GraphDef {path}: {_bytes(os.path.getsize(path))}"
        yield from _describe_ends(graph_def)
        yield from _describe_graph(graph_def, None, all_ops)


def _read_graph(path: str) -> Any:
    from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

    return read_message(GraphDef(), path, "GraphDef")


def _read_meta_graph(path: str) -> Any:
    from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef  # Start-up time: protobuf is slow to import.

    return read_message(MetaGraphDef(), path, "MetaGraphDef")


def _describe_saved_model(folder: str, all_ops: bool) -> Iterator[str]:
    from thalweg.saved_model.loader import parse_saved_model  # Start-up time: the public names are not needed before.

    model = parse_saved_model(folder)
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    yield f"SavedModel {folder}: {_bytes(sum(map(os.path.getsize, files)))} in {len(files)} files"
    variables = _variables(os.path.join(folder, "variables", "variables"))
    for meta_graph in model.meta_graphs:
        info = meta_graph.meta_info_def
        yield f"graph {list(info.tags)}, written by TensorFlow {info.tensorflow_version or '(unknown)'}"
        yield from _describe_meta_graph(meta_graph, variables, all_ops)


def _describe_meta_graph(meta_graph: Any, variables: dict[str, Any] | None, all_ops: bool) -> Iterator[str]:
    for name in sorted(meta_graph.signature_def):
        signature = meta_graph.signature_def[name]
        yield f"  signature {name} ({signature.method_name or 'no method'})"
        for what, tensors in (("input", signature.inputs), ("output", signature.outputs)):
            for key in sorted(tensors):
                yield f"    {what} {key}: {_tensor_info(tensors[key])}"
    if not meta_graph.signature_def:
        yield from _describe_ends(meta_graph.graph_def)
    yield from _describe_graph(meta_graph.graph_def, variables, all_ops)


def _tensor_info(info: Any) -> str:
    kind = _type_name(info.dtype)
    if info.WhichOneof("encoding") == "name":
        return f"{kind} {_shape(info.tensor_shape)}  {info.name}"
    return f"{kind} {_shape(info.tensor_shape)}  ({info.WhichOneof('encoding')})"


def _type_name(number: int) -> str:
    try:
        return as_dtype(number).name
    except TypeError:
        return f"type {number}"


def _shape(proto: Any) -> str:
    if proto.unknown_rank:
        return "of any shape"
    return "[" + ", ".join("?" if dim.size < 0 else str(dim.size) for dim in proto.dim) + "]"


def _describe_ends(graph_def: Any) -> Iterator[str]:
    """The placeholders of a graph, and the nodes that no other reads."""
    read = {name.lstrip("^").partition(":")[0] for node in graph_def.node for name in node.input}
    inputs = [node for node in graph_def.node if node.op.startswith("Placeholder")]
    outputs = [node for node in graph_def.node if node.name not in read and node.op not in ("NoOp", "Const", "Assert")]
    for what, nodes in (("input", inputs), ("output", outputs)):
        for node in nodes[:_MOST_TENSORS]:
            shape = f" {_shape(node.attr['shape'].shape)}" if "shape" in node.attr else ""
            kind = f" {_type_name(node.attr['dtype'].type)}" if "dtype" in node.attr else ""
            yield f"  {what} {node.name}:{kind}{shape} ({node.op})"
        if len(nodes) > _MOST_TENSORS:
            yield f"  ... and {len(nodes) - _MOST_TENSORS} more {what}s"


def _describe_graph(graph_def: Any, variables: dict[str, Any] | None, all_ops: bool) -> Iterator[str]:
    functions = graph_def.library.function
    bodies = [node for function in functions for node in function.node_def]
    nodes = [*graph_def.node, *bodies]
    yield f"  {len(graph_def.node)} nodes, {len(functions)} functions with {len(bodies)} nodes; " + (
        f"GraphDef version {graph_def.versions.producer}"
    )
    known = {function.signature.name for function in functions}
    counts = Counter(node.op for node in nodes if node.op not in known)
    shown = counts.most_common(None if all_ops else _MOST_OPS)
    rest = len(counts) - len(shown)
    yield (
        f"  {len(counts)} op types: "
        + ", ".join(f"{op} {n}" for op, n in shown)
        + (f", and {rest} more" if rest else "")
    )
    numbers, size = _constants(nodes)
    yield f"  constants: {numbers:,} numbers, {_bytes(size)}"
    if variables is not None:
        count = sum(_count(shape) for shape in variables.values())
        yield f"  variables: {len(variables)} with {count:,} numbers"
    missing = sorted(op for op in counts if not op_registry.is_defined(op))
    yield f"  unsupported op types: {', '.join(missing)}" if missing else "  all op types are supported"


def _constants(nodes: Iterable[Any]) -> tuple[int, int]:
    """How many numbers constants stand for, and the bytes that these take."""
    numbers = size = 0
    for node in nodes:
        if node.op == "Const":
            tensor = node.attr["value"].tensor
            count = _count([max(dim.size, 0) for dim in tensor.tensor_shape.dim])
            numbers += count
            try:
                size += count * as_dtype(tensor.dtype).size
            except TypeError:
                pass  # An element type that is not known here has no size.
    return numbers, size


def _count(shape: Iterable[int]) -> int:
    count = 1
    for dim in shape:
        count *= int(dim)
    return count


def _variables_beside(path: str) -> dict[str, Any] | None:
    return _variables(path.removesuffix(".meta"))


def _variables(prefix: str) -> dict[str, Any] | None:
    """The variables of a checkpoint and their shapes; None if there is no such checkpoint."""
    # Start-up time: only models with variables need it.
    from thalweg.train.checkpoints.checkpoint_reader import load_checkpoint

    if not os.path.exists(prefix + ".index"):
        return None
    shapes: dict[str, Any] = load_checkpoint(prefix).get_variable_to_shape_map()
    return {name: shape for name, shape in shapes.items() if name != "_CHECKPOINTABLE_OBJECT_GRAPH"}


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.2f} GB"
