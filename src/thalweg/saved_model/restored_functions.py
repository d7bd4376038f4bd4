"""Functions of a SavedModel of TensorFlow 2, as objects to call: one is found among their traces by the arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.functions.argument_keys import exactly
from thalweg.functions.function_gradient import call
from thalweg.functions.graph_function import GraphFunction
from thalweg.graph import nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_spec import TensorSpec
from thalweg.saved_model.structured_values import decode


class RestoredTrace:
    """One trace: a function with fixed types of arguments, and the tensors that it captured.

    Attributes:
        structured_input_signature: Positional arguments and those by name, with TensorSpecs for tensors.
        structured_outputs: The structure of the results, with TensorSpecs as leaves.
    """

    def __init__(self, function: Callable[[], GraphFunction], bound: Callable[[], list[Tensor]], message: Any) -> None:
        """Takes what makes the function and its captures when it is called first, and its SavedConcreteFunction."""
        self._function, self._bound = function, bound
        self._captured: list[Tensor] | None = None
        self.structured_input_signature: Any = decode(message.canonicalized_input_signature) or ((), {})
        self.structured_outputs: Any = decode(message.output_signature)
        self.argument_names: list[str] = []

    def call_flat(self, tensors: Sequence[Tensor]) -> Any:
        """Calls it with its tensors in the order of the flat arguments."""
        if self._captured is None:
            self._captured = self._bound()
        left = iter(call(self._function(), [*tensors, *self._captured]))
        return nest.map_structure(lambda part: None if part is None else next(left), self.structured_outputs)

    def tensors_for(self, arguments: Any, convert: bool) -> list[Tensor] | None:
        """The tensors of arguments that fit; None if they do not.

        Args:
            arguments: Positional arguments, and those by name.
            convert: Whether numbers and arrays count as tensors.
        """
        try:
            nest.assert_same_structure(arguments, self.structured_input_signature, check_types=False)
        except (TypeError, ValueError):
            return None
        tensors = []
        for value, spec in zip(nest.flatten(arguments), nest.flatten(self.structured_input_signature), strict=True):
            if not isinstance(spec, TensorSpec):
                if isinstance(value, Tensor) or exactly(value) != exactly(spec):
                    return None
                continue
            tensor = _fitting(value, spec, convert)
            if tensor is None:
                return None
            tensors.append(tensor)
        return tensors

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it: arguments are tensors, in order or by name."""
        names = self.argument_names
        values = [*args, *(kwargs.pop(name) for name in names[len(args) :] if name in kwargs)]
        if kwargs or len(values) != len(names):
            raise TypeError(
                f"The function takes the tensors {', '.join(names)}; got {len(values)}, and {list(kwargs)}."
            )
        specs = [spec for spec in nest.flatten(self.structured_input_signature) if isinstance(spec, TensorSpec)]
        return self.call_flat([convert_to_tensor(value, spec.dtype) for value, spec in zip(values, specs, strict=True)])


def _fitting(value: Any, spec: TensorSpec, convert: bool) -> Tensor | None:
    if not isinstance(value, Tensor) and not hasattr(value, "handle"):
        if not convert:
            return None
        try:
            value = convert_to_tensor(value, spec.dtype)
        except (TypeError, ValueError):
            return None
    tensor = convert_to_tensor(value)
    return tensor if spec.is_compatible_with(tensor) else None


class RestoredFunction:
    """A function with several traces: the result of a `tf.function` that was saved."""

    def __init__(self, name: str, traces: list[RestoredTrace], spec: Any) -> None:
        """Takes its FunctionSpec message."""
        self._name = name
        self.concrete_functions = traces
        self._signature = _signature(decode(spec.fullargspec), spec.is_method)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the trace that fits the arguments.

        Raises:
            ValueError: If none does.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = (tuple(bound.args), dict(bound.kwargs))
        for convert in (False, True):
            for trace in self.concrete_functions:
                tensors = trace.tensors_for(arguments, convert)
                if tensors is not None:
                    return trace.call_flat(tensors)
        traces = "\n".join(f"  {trace.structured_input_signature}" for trace in self.concrete_functions)
        raise ValueError(
            f"The function '{self._name}' of the SavedModel was not traced for the arguments {arguments}, but "
            f"for:\n{traces}"
        )


def _signature(spec: Any, is_method: bool) -> inspect.Signature:
    """The signature of the Python function."""
    if spec is None:
        return inspect.Signature([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)])
    args = list(spec.args or ())
    defaults = list(spec.defaults or ())
    if args and (is_method or args[0] == "self"):
        del args[0]
    defaults = defaults[-len(args) :] if args else []
    first = len(args) - len(defaults)
    parameters = [
        inspect.Parameter(
            name, inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=defaults[i - first] if i >= first else inspect.Parameter.empty,
        )
        for i, name in enumerate(args)
    ]  # fmt: skip
    if spec.varargs:
        parameters.append(inspect.Parameter(spec.varargs, inspect.Parameter.VAR_POSITIONAL))
    by_name = spec.kwonlydefaults or {}
    for name in spec.kwonlyargs or ():
        default = by_name.get(name, inspect.Parameter.empty)
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    if spec.varkw:
        parameters.append(inspect.Parameter(spec.varkw, inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)
