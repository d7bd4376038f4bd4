"""Writing a SavedModel as TensorFlow 2 does, where ops run at once: objects, their variables, traces of functions."""

from __future__ import annotations

import inspect
from typing import Any

from thalweg.functions.graph_function import GraphFunction, add_function, trace
from thalweg.functions.traced_function import ConcreteFunction, TracedFunction, call
from thalweg.graph import nest
from thalweg.graph.default_graph import eager_graph
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.saved_model.constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from thalweg.saved_model.save_functions import Export, functions_of, graph_function, output_names, set_object_writer
from thalweg.saved_model.structured_values import encode
from thalweg.saved_model.writer import SavedModelBuilder
from thalweg.state.variable import Variable
from thalweg.trackable.checkpoint import ObjectGraphSaveable
from thalweg.trackable.object_graph import GRAPH_KEY, ObjectGraph
from thalweg.trackable.object_restore import saver_of

_CONTAINERS = {list: "trackable_list_wrapper", tuple: "trackable_tuple_wrapper", dict: "trackable_dict_wrapper"}


def save_objects(obj: Any, export_dir: str, signatures: Any) -> None:
    """Writes an object; see `saved_model.save`."""
    from thalweg.runtime.session import Session  # Start-up time: loads the native core and the passes.

    objects = ObjectGraph(obj)
    variables = [each for each in objects.objects if isinstance(each, Variable)]
    wrappers = {name: _wrapped(name, each) for name, each in _signatures(obj, signatures).items()}
    exported = Export(None, variables)
    writer = _ObjectWriter(objects, exported)
    with exported.graph.as_default(), Session(graph=exported.graph) as own:
        writer.write(wrappers)
        described = {name: exported.add(name, (each.function, each.argument_names)) for name, each in wrappers.items()}
        exported.initialize(own)
        values: dict[str, Any] = {
            GRAPH_KEY: ObjectGraphSaveable(writer.trackable.SerializeToString(deterministic=True))
        }
        for number, each in enumerate(objects.objects):
            if isinstance(each, Variable):
                values[objects.values(number)["VARIABLE_VALUE"][0]] = exported.copies[each]
        builder = SavedModelBuilder(export_dir)
        builder.add_meta_graph_and_variables(own, ["serve"], described, saver=saver_of(values))
        builder.set_objects(writer.message)
        builder.save()


set_object_writer(save_objects)


def _signatures(obj: Any, signatures: Any) -> dict[str, Any]:
    if isinstance(signatures, dict):
        return dict(signatures)
    if signatures is not None:
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}
    found = [each for each in functions_of(obj) if each.input_signature is not None]
    return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: found[0]} if len(found) == 1 else {}


def _wrapped(name: str, function: Any) -> ConcreteFunction:
    """A function that takes its tensors by name, and returns a dictionary of tensors: what serving calls."""
    inner, names = graph_function(name, function)
    specs = [
        TensorSpec(tensor.shape, tensor.dtype, argument) for tensor, argument in zip(inner.inputs, names, strict=False)
    ]

    def wrapper(*tensors: Tensor) -> Any:
        results = nest.flatten(call(inner, tensors), expand_composites=True)
        present = [result for result in results if result is not None]
        return dict(zip(output_names(inner), present, strict=True))

    wrapper.__name__ = "signature_wrapper"
    arguments = ((), {spec.name: spec for spec in specs})
    # The order of the tensors is that of the sorted names.
    ordered = sorted(specs, key=lambda spec: spec.name or "")
    by_name = lambda *tensors: wrapper(*(tensors[ordered.index(spec)] for spec in specs))  # noqa: E731
    by_name.__name__ = "signature_wrapper"
    return ConcreteFunction(trace(by_name, ordered), [spec.name or "" for spec in ordered], arguments)


class _ObjectWriter:
    """Writes the SavedObjectGraph and the graph of the checkpoint."""

    def __init__(self, objects: ObjectGraph, exported: Export) -> None:
        from tensorboard.compat.proto.saved_object_graph_pb2 import SavedObjectGraph  # Start-up time: protobuf.

        self._objects = objects
        self._exported = exported
        self._constants: dict[Tensor, int] = {}
        self._handles = {each.handle: n for n, each in enumerate(objects.objects) if isinstance(each, Variable)}
        self.message = SavedObjectGraph()
        self.trackable = objects.to_proto()

    def write(self, signatures: dict[str, ConcreteFunction]) -> None:
        """Writes all nodes; those of functions and constants come last."""
        for number, value in enumerate(self._objects.objects):
            self._add_object(value, self._objects.edges[number])
        for number, value in enumerate(self._objects.objects):
            if isinstance(value, (list, tuple, dict, Variable)):
                continue
            for name, function in _named_functions(value).items():
                self._add_child(number, name, self._add_function(function))
        if signatures:
            shown = self._new_node()
            self._describe(shown, "signature_map")
            self._add_child(0, "signatures", shown)
            for name, concrete in signatures.items():
                self._add_child(shown, name, self._add_bare(concrete))

    def _new_node(self) -> int:
        self.message.nodes.add()
        return len(self.message.nodes) - 1

    def _add_child(self, owner: int, name: str, child: int) -> None:
        self.message.nodes[owner].children.add(node_id=child, local_name=name)

    def _describe(self, number: int, identifier: str) -> None:
        described = self.message.nodes[number].user_object
        described.identifier = identifier
        described.version.producer = described.version.min_consumer = 1

    def _add_object(self, value: Any, edges: dict[str, int]) -> None:
        number = self._new_node()
        for name, child in edges.items():
            self._add_child(number, name, child)
        if isinstance(value, Variable):
            described = self.message.nodes[number].variable
            described.dtype = value.dtype.base_dtype.as_datatype_enum
            described.trainable, described.name = value.trainable, value.op.name
            described.shape.SetInParent()
            for size in value.shape.as_list():
                described.shape.dim.add(size=size)
            return
        kind = next((name for kind, name in _CONTAINERS.items() if isinstance(value, kind)), "_generic_user_object")
        self._describe(number, kind)

    def _add_function(self, function: TracedFunction) -> int:
        number = self._new_node()
        described = self.message.nodes[number].function
        described.function_spec.SetInParent()
        python_function = function.python_function
        spec = inspect.getfullargspec(python_function)._replace(annotations={})
        encode(described.function_spec.fullargspec, _writable_defaults(spec))
        described.function_spec.is_method = inspect.ismethod(python_function)
        declared = function.input_signature
        encode(described.function_spec.input_signature, None if declared is None else tuple(declared))
        with default_graph_scope(eager_graph()):
            traces = function.concrete_functions()
        for concrete in traces:
            name = self._add_trace(concrete)
            if name is not None:
                described.concrete_functions.append(name)
        return number

    def _add_bare(self, concrete: ConcreteFunction) -> int:
        number = self._new_node()
        described = self.message.nodes[number].bare_concrete_function
        described.concrete_function_name = self._add_trace(concrete) or ""
        described.argument_keywords.extend(concrete.argument_names)
        described.allowed_positional_arguments = len(concrete.argument_names)
        return number

    def _add_trace(self, concrete: ConcreteFunction) -> str | None:
        """The name under which a trace is written; None if an argument cannot be."""
        function = concrete.function
        message = type(self.message.concrete_functions[function.name])()
        try:
            encode(message.canonicalized_input_signature, concrete.structured_input_signature)
            encode(message.output_signature, _specs_of_results(function))
        except TypeError:
            del self.message.concrete_functions[function.name]
            return None
        add_function(self._exported.graph, function)
        message.bound_inputs.extend(self._captured(tensor) for tensor in function.captures)
        self.message.concrete_functions[function.name].CopyFrom(message)
        return function.name

    def _captured(self, tensor: Tensor) -> int:
        known = self._handles.get(tensor)
        if known is None:
            known = self._constants.get(tensor)
        if known is None:
            if tensor.dtype.name == "resource":
                raise ValueError(
                    "A function uses a variable or another resource that is no attribute of the object, nor of those "
                    "that it owns: set it as an attribute."
                )
            known = self._constants[tensor] = self._new_node()
            self.message.nodes[known].constant.operation = self._exported.capture(tensor).op.name
        return known


def _named_functions(value: Any) -> dict[str, TracedFunction]:
    names = dict.fromkeys((*dir(type(value)), *vars(value))) if hasattr(value, "__dict__") else {}
    found = {name: inspect.getattr_static(value, name, None) for name in names}
    return {name: getattr(value, name) for name, each in found.items() if isinstance(each, TracedFunction)}


def _writable_defaults(spec: Any) -> Any:
    """A FullArgSpec whose default values a SavedModel can hold: others are left out, with those before them."""
    from tensorboard.compat.proto.struct_pb2 import StructuredValue  # Start-up time: protobuf is slow to import.

    kept: list[Any] = []
    for value in reversed(spec.defaults or ()):
        try:
            encode(StructuredValue(), value)
        except TypeError:
            break
        kept.insert(0, value)
    return spec._replace(defaults=tuple(kept) or None)


def _specs_of_results(function: GraphFunction) -> Any:
    def spec(part: Any) -> Any:
        return None if part is None else TensorSpec(part.shape, part.dtype.base_dtype, part.op.name)

    return nest.map_structure(spec, function.structured_outputs)
