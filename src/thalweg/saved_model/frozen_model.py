"""A model as one graph of constants: from a SavedModel, a checkpoint with its `.meta`, or a GraphDef."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.definitions.op_registry import is_defined, op_def
from thalweg.graph.formats.graph_util import (
    convert_variables_to_constants,
    extract_sub_graph,
    remove_training_nodes,
)
from thalweg.graph.formats.import_graph_def import import_graph_def
from thalweg.graph.formats.write_graph import read_message
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.saved_model.loader import load, maybe_saved_model_directory
from thalweg.train.checkpoints.import_meta_graph import import_meta_graph

# A constant that was computed beforehand may be this much larger than what it is computed from, in bytes.
_MOST_GROWTH = 1 << 16


class FrozenModel(NamedTuple):
    """A graph without variables, and the names of its tensors.

    Attributes:
        graph_def: The graph.
        inputs: The names of the tensors to feed, by argument.
        outputs: The names of the tensors to fetch, by result.
    """

    graph_def: Any
    inputs: dict[str, str]
    outputs: dict[str, str]


def freeze(
    path: str, outputs: Sequence[str] = (), tags: Sequence[str] = ("serve",), signature: str = ""
) -> FrozenModel:
    """Reads a model and makes its variables constants.

    Args:
        path: The folder of a SavedModel, a checkpoint whose `.meta` is there, or a GraphDef (.pb) without variables.
        outputs: The names of the tensors or operations that are wanted; those of the signature if there are none.
        tags: The tags of the MetaGraph, for a SavedModel.
        signature: The signature, for a SavedModel; the only one, or `serving_default`, if it is empty.

    Raises:
        ValueError: If the file holds no model, or does not say what its outputs are.
    """
    from thalweg.runtime.session import Session  # Start-up time: few programs freeze models.

    graph = Graph()
    with default_graph_scope(graph), Session(graph=graph) as session:
        inputs: dict[str, str] = {}
        found = {name: name for name in outputs}
        if os.path.isdir(path) and maybe_saved_model_directory(path):
            try:
                meta_graph = load(session, list(tags), path)
            except RuntimeError as e:  # Other tags.
                raise ValueError(str(e)) from None
            inputs, declared = _signature(meta_graph, signature, path)
            found = found or declared
        elif os.path.exists(f"{path}.meta"):
            import_meta_graph(f"{path}.meta", clear_devices=True).restore(session, path)
        elif os.path.isfile(path):
            from tensorboard.compat.proto.graph_pb2 import GraphDef  # Start-up time: protobuf is slow to import.

            import_graph_def(read_message(GraphDef(), path, "GraphDef"), name="")
        else:
            raise ValueError(
                f"{path} is neither the folder of a SavedModel, nor a checkpoint with .meta, nor a GraphDef"
            )
        if not found:
            raise ValueError(f"{path} does not say which results are wanted: name them (--result)")
        tensors = {key: _result(graph, name, path) for key, name in found.items()}
        names = {key: tensor.name for key, tensor in tensors.items()}
        frozen = convert_variables_to_constants(
            session, graph.as_graph_def(), [tensor.op.name for tensor in tensors.values()]
        )
    if not inputs:
        inputs = {
            node.name: f"{node.name}:0" for node in frozen.node if node.op in ("Placeholder", "PlaceholderV2")
        }  # fmt: skip
    return FrozenModel(frozen, inputs, names)


def _result(graph: Graph, name: str, path: str) -> Tensor:
    try:
        found: Tensor | Operation = graph.as_graph_element(name)
    except KeyError as e:
        raise ValueError(f"{path}: {e.args[0]}") from None
    if isinstance(found, Tensor):
        return found
    if not found.outputs:
        raise ValueError(f"{path}: the operation {name!r} has no output that could be a result")
    return found.outputs[0]


def _signature(meta_graph: Any, key: str, path: str) -> tuple[dict[str, str], dict[str, str]]:
    known = meta_graph.signature_def
    usable = [name for name in known if known[name].outputs and not name.startswith("__")]
    chosen = key or ("serving_default" if "serving_default" in known else usable[0] if len(usable) == 1 else "")
    if key and key not in known:
        raise ValueError(f"{path} has no signature {key!r}; it has {', '.join(sorted(known)) or 'none'}")
    if not chosen:
        return {}, {}
    signature = known[chosen]
    return (
        {name: info.name for name, info in signature.inputs.items()},
        {name: info.name for name, info in signature.outputs.items()},
    )


def optimize(model: FrozenModel) -> FrozenModel:
    """The model without nodes that only training needs, and with what needs no input computed beforehand."""
    wanted = [name.partition(":")[0] for name in model.outputs.values()]
    smaller = remove_training_nodes(model.graph_def, wanted)
    folded = _fold(smaller, {*wanted, *(name.partition(":")[0] for name in model.inputs.values())})
    return model._replace(graph_def=extract_sub_graph(folded, wanted))


def _fold(graph_def: Any, kept: set[str]) -> Any:
    """Replaces nodes that depend on no input by constants."""
    from thalweg.runtime.session import Session  # Start-up time: few programs freeze models.

    graph = Graph()
    with default_graph_scope(graph):
        import_graph_def(graph_def, name="")
    constant: dict[str, int] = {}  # nodes that need no input, with the bytes of the constants that they need
    for op in graph.get_operations():
        if op.type == "Const":
            constant[op.name] = int(np.asarray(op.attrs["value"]).nbytes)
        elif (
            op.inputs and not op.control_inputs and op.outputs and is_defined(op.type) and not op_def(op.type).stateful
            and op._control_flow_context is None and op.name not in kept
            and all(tensor.op.name in constant for tensor in op.inputs)
        ):  # fmt: skip
            constant[op.name] = sum(constant[tensor.op.name] for tensor in op.inputs)
    frontier = [
        op for op in graph.get_operations()
        if op.name in constant and op.type != "Const" and len(op.outputs) == 1
        and any(reader.name not in constant for reader in op.outputs[0].consumers())
    ]  # fmt: skip
    if not frontier:
        return graph_def
    with Session(graph=graph) as session:
        values = session.run([op.outputs[0] for op in frontier])
    computed = {
        op.name: value for op, value in zip(frontier, values, strict=True)
        if np.asarray(value).nbytes <= constant[op.name] + _MOST_GROWTH and op.outputs[0].dtype.name != "resource"
    }  # fmt: skip
    return _with_constants(graph_def, computed)


def _with_constants(graph_def: Any, values: dict[str, Any]) -> Any:
    from thalweg.graph.messages.tensor_proto import make_tensor_proto  # Start-up time: protobuf is slow to import.

    found = type(graph_def)()
    found.CopyFrom(graph_def)
    for node in found.node:
        if node.name in values:
            proto = make_tensor_proto(np.asarray(values[node.name]))
            node.op = "Const"
            del node.input[:]
            node.attr.clear()
            node.attr["dtype"].type = proto.dtype
            node.attr["value"].tensor.CopyFrom(proto)
    return found
