"""Loading a SavedModel of TensorFlow 2 where ops run at once: its objects, with variables, functions and tables."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

from thalweg.functions.graph_function import GraphFunction
from thalweg.functions.read_function_def import add_library
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import eager_graph, executing_eagerly
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.formats.write_graph import naming_damage
from thalweg.graph.messages.tensor_proto import make_ndarray
from thalweg.graph.tensor import Tensor
from thalweg.saved_model import constants
from thalweg.saved_model.loader import asset_paths, find_meta_graph, parse_saved_model, set_object_loader
from thalweg.saved_model.restored_functions import RestoredFunction, RestoredTrace
from thalweg.state.module import Module
from thalweg.state.variable import Variable
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader

_OBJECT_GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_numbers = itertools.count()


class LoadedObject(Module):
    """An object of a SavedModel: its attributes are those that were saved, and can be saved again in a Checkpoint."""

    def __init__(self) -> None:
        """Starts without attributes."""
        super().__init__(name="loaded")


class _CallableObject(LoadedObject):
    """An object that was saved with a `__call__`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return vars(self)["__call__"](*args, **kwargs)


@export("saved_model.load_v2")
def load_v2(export_dir: Any, tags: Iterable[str] | str | None = None) -> Any:
    """Loads the objects of a SavedModel that TensorFlow 2 wrote with `tf.saved_model.save`, where ops run at once.

    Args:
        export_dir: The directory.
        tags: The tags of the graph; the only one if None.

    Returns:
        The object that was saved: variables, functions and objects are its attributes, `signatures` a dictionary of
        functions by name. Functions can be called with the kinds of arguments for which they had been traced.

    Raises:
        RuntimeError: If ops do not run at once here, or there is no graph with these tags.
        ValueError: If the SavedModel has no objects: load it into a session with `tf.saved_model.load`.
        OSError: If there is no SavedModel.
    """
    if not executing_eagerly():
        raise RuntimeError(
            "tf.saved_model.load_v2 loads objects where ops run at once: call it within `with tf.eager():`, or use "
            "tf.saved_model.load(sess, tags, export_dir)."
        )
    directory = os.fsdecode(export_dir)
    with naming_damage(directory, "SavedModel"):
        saved = parse_saved_model(directory)
        if tags is None and len(saved.meta_graphs) == 1:
            meta_graph = saved.meta_graphs[0]
        else:
            meta_graph = find_meta_graph(saved, [tags] if isinstance(tags, str) else tags or ["serve"], directory)
        if not meta_graph.object_graph_def.nodes:
            raise ValueError(
                f"The SavedModel in {directory} has no objects, only a graph: load it into a session, with "
                "tf.saved_model.load(sess, tags, export_dir)."
            )
        return _Loader(meta_graph, directory).load()


set_object_loader(load_v2)


class _Loader:
    """Makes the objects of one graph."""

    def __init__(self, meta_graph: Any, directory: str) -> None:
        self._meta_graph = meta_graph
        self._directory = directory
        self._nodes = meta_graph.object_graph_def.nodes
        self._objects: dict[int, Any] = {}
        self._names = _renamed(meta_graph.graph_def.library)
        add_library(eager_graph(), meta_graph.graph_def.library)
        self._constants = {node.name: node for node in meta_graph.graph_def.node if node.op == "Const"}

    def load(self) -> Any:
        """The first object."""
        values = self._values()
        for number, node in enumerate(self._nodes):
            self._objects[number] = self._made(node, values.get(number))
        for number, node in enumerate(self._nodes):
            self._connect(self._objects[number], node)
        for number, node in enumerate(self._nodes):
            if node.WhichOneof("kind") == "resource":
                initialize = {child.local_name: self._objects[child.node_id] for child in node.children}
                self._tensor(number)
                if "_initialize" in initialize:
                    initialize["_initialize"]()
        return self._objects[0]

    def _values(self) -> dict[int, Any]:
        """The values of variables, by the numbers of their nodes: the checkpoint has a graph of the same objects."""
        from tensorboard.compat.proto import trackable_object_graph_pb2  # Start-up time: protobuf is slow to import.

        prefix = os.path.join(self._directory, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
        if not any(node.WhichOneof("kind") == "variable" for node in self._nodes):
            return {}
        reader = CheckpointReader(prefix)
        saved = trackable_object_graph_pb2.TrackableObjectGraph()
        saved.ParseFromString(reader.get_tensor(_OBJECT_GRAPH_KEY))
        found: dict[int, Any] = {}
        pairs, seen = [(0, 0)], {0}
        while pairs:
            number, there = pairs.pop()
            for attribute in saved.nodes[there].attributes:
                if attribute.name == "VARIABLE_VALUE":
                    found[number] = reader.get_tensor(attribute.checkpoint_key)
            by_name = {child.local_name: child.node_id for child in saved.nodes[there].children}
            for child in self._nodes[number].children:
                if child.local_name in by_name and child.node_id not in seen:
                    seen.add(child.node_id)
                    pairs.append((child.node_id, by_name[child.local_name]))
        return found

    def _made(self, node: Any, value: Any) -> Any:
        """The object of a node, without its children."""
        kind = node.WhichOneof("kind")
        if kind == "variable":
            if value is None:
                raise ValueError(f"The checkpoint of the SavedModel has no value for variable '{node.variable.name}'")
            return Variable(value, trainable=node.variable.trainable, name=node.variable.name or None)
        if kind == "constant":
            return convert_to_tensor(make_ndarray(self._constants[node.constant.operation].attr["value"].tensor))
        if kind == "asset":
            file = self._meta_graph.asset_file_def[node.asset.asset_file_def_index]
            return convert_to_tensor(asset_paths(self._meta_graph, self._directory, None)[file.tensor_info.name])
        if kind == "function":
            traces = [self._trace(name) for name in node.function.concrete_functions]
            names = list(node.function.concrete_functions)
            return RestoredFunction(names[0] if names else "", traces, node.function.function_spec)
        if kind == "bare_concrete_function":
            trace = self._trace(node.bare_concrete_function.concrete_function_name)
            trace.argument_names = list(node.bare_concrete_function.argument_keywords)
            return trace
        identifier = node.user_object.identifier
        if identifier in ("trackable_list_wrapper", "trackable_tuple_wrapper"):
            return []
        if identifier in ("trackable_dict_wrapper", "signature_map"):
            return {}
        return _CallableObject() if any(child.local_name == "__call__" for child in node.children) else LoadedObject()

    def _trace(self, name: str) -> RestoredTrace:
        message = self._meta_graph.object_graph_def.concrete_functions[name]
        numbers = list(message.bound_inputs)
        own_name = self._names[name]

        def function() -> GraphFunction:
            found: GraphFunction = eager_graph()._functions[own_name].instantiate({})
            return found

        return RestoredTrace(function, lambda: [self._tensor(number) for number in numbers], message)

    def _tensor(self, number: int) -> Tensor:
        """What a function captures of an object."""
        found = self._objects[number]
        if isinstance(found, Variable):
            return found.handle
        if self._nodes[number].WhichOneof("kind") == "resource" and not isinstance(found, Tensor):
            created: Tensor = vars(found)["_create_resource"]()
            vars(found)["resource_handle"] = created
            self._objects[number] = found = created
        if not isinstance(found, Tensor):
            raise ValueError(
                f"A function of the SavedModel in {self._directory} captures {found!r}, which is no tensor"
            )
        return found

    def _connect(self, owner: Any, node: Any) -> None:
        children = {child.local_name: self._objects[child.node_id] for child in node.children}
        if isinstance(owner, list):
            owner.extend(children[name] for name in sorted(children, key=lambda name: (len(name), name)))
        elif isinstance(owner, dict):
            owner.update(children)
        elif isinstance(owner, LoadedObject):
            vars(owner).update(children)


def _renamed(library: Any) -> dict[str, str]:
    """Gives the functions of a library names that no function of the program has; the new names by the old ones."""
    number = next(_numbers)
    names = {function.signature.name: f"{function.signature.name}_loaded_{number}" for function in library.function}
    for function in library.function:
        function.signature.name = names[function.signature.name]
        for node in function.node_def:
            node.op = names.get(node.op, node.op)
            for attr in node.attr.values():
                for reference in (attr.func, *attr.list.func) if attr.HasField("func") else attr.list.func:
                    reference.name = names.get(reference.name, reference.name)
    for gradient in library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
    return names
