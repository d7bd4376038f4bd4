"""saved_model.save: writes functions, and the variables that they use, as a SavedModel with a signature for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.functions.defun import DefinedFunction
from thalweg.functions.graph_function import GraphFunction, add_function
from thalweg.functions.traced_function import ConcreteFunction, TracedFunction
from thalweg.graph import dtypes, nest
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.default_graph import eager_graph, executing_eagerly, name_scope
from thalweg.graph.default_stack import AnySession, default_graph_scope, get_default_session
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.saved_model.constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from thalweg.saved_model.signatures import predict_signature_def
from thalweg.saved_model.writer import SavedModelBuilder
from thalweg.state.module import Module
from thalweg.state.variable import Variable


@export("saved_model.save", "saved_model.experimental.save")
def save(obj: Any, export_dir: Any, signatures: Any = None, options: Any = None) -> None:
    """Writes a SavedModel of an object's functions.

    The values of the variables are those of the default session. Other tensors that the functions capture become
    constants. Where ops run at once, the objects are written as TensorFlow 2 does: `tf.saved_model.load_v2` and
    TensorFlow's own load give objects with the same attributes.

    Args:
        obj: A tf.Module, or any object with functions or variables as attributes.
        export_dir: The directory; must not exist, or be empty.
        signatures: A function made by tf.function with an `input_signature` (or one of its concrete functions, or one
            made by Defun), or a dictionary of such functions by name. If None, the only such attribute of `obj`.
        options: Has no effect.

    Raises:
        ValueError: If there is no default session, or a function cannot be exported.

    Example:
        >>> class Scale(tf.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.factor = tf.Variable(3.0)
        ...     @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
        ...     def scaled(self, x):
        ...         return {"y": x * self.factor}
        >>> model = Scale()
        >>> with tf.Session() as sess:
        ...     sess.run(tf.global_variables_initializer())
        ...     tf.saved_model.save(model, os.path.join(tempfile.mkdtemp(), "model"))
    """
    from thalweg.runtime.session import Session  # Start-up time: loads the native core and the passes.

    if executing_eagerly():
        _save_objects(obj, os.fsdecode(export_dir), signatures)
        return
    session = get_default_session()
    if session is None:
        raise ValueError(
            "tf.saved_model.save writes the values that variables have in a session, and there is no default session: "
            "call it inside of `with tf.Session() as sess:`, or `with sess.as_default():`."
        )
    with session.graph.as_default():
        chosen = {name: graph_function(name, each) for name, each in _signatures_by_name(obj, signatures).items()}
    exported = Export(session, _variables_of(obj))
    with exported.graph.as_default(), Session(graph=exported.graph) as own:
        described = {name: exported.add(name, concrete) for name, concrete in chosen.items()}
        exported.initialize(own)
        builder = SavedModelBuilder(export_dir)
        builder.add_meta_graph_and_variables(own, ["serve"], described)
        builder.save()


def _no_objects(obj: Any, export_dir: str, signatures: Any) -> None:
    raise NotImplementedError("saved_model/object_writer.py has not been imported.")


_save_objects: Callable[[Any, str, Any], None] = _no_objects


def set_object_writer(function: Callable[[Any, str, Any], None]) -> None:
    """Installs `save_objects(obj, export_dir, signatures)`, which uses this module."""
    global _save_objects
    _save_objects = function


def _signatures_by_name(obj: Any, signatures: Any) -> dict[str, Any]:
    if isinstance(signatures, dict):
        return dict(signatures)
    if signatures is not None:
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signatures}
    found = [value for value in functions_of(obj) if getattr(value, "input_signature", None) is not None]
    if len(found) > 1:
        raise ValueError(
            f"{type(obj).__name__} has {len(found)} functions with an input_signature: say with `signatures` which "
            "ones to export."
        )
    return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: found[0]} if found else {}


def functions_of(obj: Any) -> list[TracedFunction]:
    """The attributes of an object that are made by tf.function."""
    names = dict.fromkeys((*vars(type(obj)), *vars(obj))) if hasattr(obj, "__dict__") else {}
    values = [getattr(obj, name) for name in names if not name.startswith("__") or name == "__call__"]
    return [value for value in values if isinstance(value, TracedFunction)]


def _variables_of(obj: Any) -> list[Variable]:
    if isinstance(obj, Module):
        return list(obj.variables)
    found = nest.flatten([value for _, value in sorted(vars(obj).items())]) if hasattr(obj, "__dict__") else []
    return list(dict.fromkeys(value for value in found if isinstance(value, Variable)))


def graph_function(name: str, function: Any) -> tuple[GraphFunction, list[str]]:
    """The function behind a signature, and the names of its arguments."""
    if isinstance(function, TracedFunction):
        if function.input_signature is None:
            raise ValueError(
                f"The signature '{name}' is a function without an input_signature: give it one, or pass "
                "`function.get_concrete_function(...)`."
            )
        function = function.get_concrete_function()
    if isinstance(function, ConcreteFunction):
        return function.function, function.argument_names
    if isinstance(function, DefinedFunction):
        inner = function.function
        return inner, [arg.name for arg in inner.definition.signature.input_arg][: inner.num_arguments]
    raise ValueError(f"The signature '{name}' is {function!r}: expected a function made by tf.function or Defun.")


class Export:
    """The graph that is written: variables, placeholders, and one call for each signature.

    Attributes:
        graph: The graph.
        copies: The variables there, by those of the program.
    """

    def __init__(self, session: AnySession | None, variables: list[Variable]) -> None:
        self.graph = Graph()
        self._session = session
        self.copies: dict[Variable, Variable] = {}
        self._initial: list[tuple[Variable, Any]] = []
        self._captured: dict[Tensor, Tensor] = {}
        known = [] if session is None else session.graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        self._by_handle = {variable.handle: variable for variable in known}
        self._by_handle.update((variable.handle, variable) for variable in variables)
        with self.graph.as_default():
            for variable in variables:
                self.capture(variable.handle)

    def add(self, name: str, concrete: tuple[GraphFunction, list[str]]) -> Any:
        """Adds the call of a function; returns its SignatureDef."""
        function, names = concrete
        add_function(self.graph, function)
        inputs = {}
        for argument, tensor in zip(names, function.inputs, strict=False):
            placeholder = apply_one("Placeholder", dtype=tensor.dtype, shape=tensor.shape, name=f"{name}_{argument}")
            inputs[argument] = placeholder
        captured = [self.capture(tensor) for tensor in function.captures]
        results = apply_list(
            "StatefulPartitionedCall" if function.stateful else "PartitionedCall",
            [*inputs.values(), *captured],
            f=function,
            Tout=function.output_dtypes,
        )
        return predict_signature_def(inputs, dict(zip(output_names(function), results, strict=True)))

    def capture(self, tensor: Tensor) -> Tensor:
        """What stands there for a tensor that a function captures: a handle of a variable, or a constant."""
        found = self._captured.get(tensor)
        if found is None:
            variable = self._by_handle.get(tensor)
            if variable is not None:
                found = self._copy(variable)
            elif tensor.dtype.base_dtype is dtypes.resource:
                shown = "A resource" if self._session is None else f"'{tensor.name}'"
                raise ValueError(
                    f"{shown} is neither a variable of the object nor of the graph's collections: only "
                    "variables are exported."
                )
            else:
                found = apply_one("Const", value=self._value(tensor), dtype=tensor.dtype.base_dtype)
            self._captured[tensor] = found
        return found

    def _value(self, value: Any) -> Any:
        """The value of a tensor or variable of the program."""
        if self._session is not None:
            return self._session.run(value)
        with default_graph_scope(eager_graph()):
            return np.asarray(value.numpy())

    def _copy(self, variable: Variable) -> Tensor:
        value = self._value(variable)
        with name_scope(None):
            shape = variable.shape
            initial: Callable[[], Any] = lambda: apply_one("Placeholder", dtype=variable.dtype, shape=value.shape)  # noqa: E731
            name = variable.op.name
            copy = Variable(initial, variable.trainable, name=name, validate_shape=shape.is_fully_defined())
        self._initial.append((copy, value))
        self.copies[variable] = copy
        return copy.handle

    def initialize(self, session: AnySession) -> None:
        """Sets the variables to their values in the program's session."""
        for variable, value in self._initial:
            variable.load(value, session)


def output_names(function: GraphFunction) -> list[str]:
    """The names of the results in a signature."""
    structure = function.structured_outputs
    if isinstance(structure, dict) and all(isinstance(value, Tensor) for value in structure.values()):
        # The order of the flat results is that of the keys.
        return sorted(structure, key=str)
    if function.output_names:
        return list(function.output_names)
    return [f"output_{i}" for i in range(len(function.outputs))]
