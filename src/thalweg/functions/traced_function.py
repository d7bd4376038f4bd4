"""tf.function: Python functions that are traced into functions of the graph, once for each kind of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from thalweg.autograph.api import for_tracing
from thalweg.functions.function_gradient import call as call_function
from thalweg.functions.graph_function import GraphFunction, trace
from thalweg.graph import nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec


@export("function", "contrib.eager.defun", "contrib.eager.function")
def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
) -> Any:
    """A decorator that makes a function of the graph of a Python function; each call adds a call to the graph.

    Tensors among the arguments become arguments of the function; it is traced anew for other types and shapes of
    tensors, and for other values of arguments that are not tensors. Side effects on variables happen in the order of
    the program. Python's control flow on tensors becomes control flow of the graph (docs/autograph.md).

    Args:
        func: The Python function.
        input_signature: TensorSpecs of the arguments, or nestings of them: then there is one trace for all calls.
        autograph: Whether `if`, `for`, `while` and the like on tensors become control flow of the graph.
        experimental_autograph_options: A `tf.autograph.experimental.Feature`, or several; all are always on.
        experimental_relax_shapes: Whether to trace for tensors of any shape.

    Example:
        >>> @tf.function
        ... def norm(x):
        ...     return tf.sqrt(tf.reduce_sum(x * x))
        >>> with tf.Session() as sess:
        ...     print(sess.run(norm(tf.constant([3.0, 4.0]))))
        5.0
    """
    if func is None:
        return lambda f: function(f, input_signature, autograph, None, experimental_relax_shapes)
    return TracedFunction(func, input_signature, experimental_relax_shapes, autograph)


class ConcreteFunction:
    """One trace: a function with fixed types of arguments."""

    def __init__(self, graph_function: GraphFunction, argument_names: Sequence[str]) -> None:
        """Used by TracedFunction."""
        self.function = graph_function
        self.argument_names = list(argument_names)

    @property
    def name(self) -> str:
        """Its name in the library."""
        return self.function.name

    @property
    def graph(self) -> Graph:
        """The graph of its body."""
        return self.function.graph

    @property
    def inputs(self) -> list[Tensor]:
        """The placeholders of its arguments, captured ones last."""
        return self.function.inputs

    @property
    def outputs(self) -> list[Tensor]:
        """Its results, as tensors of the body."""
        return self.function.outputs

    @property
    def structured_outputs(self) -> Any:
        """Its results as the Python function returned them."""
        return self.function.structured_outputs

    @property
    def captured_inputs(self) -> list[Tensor]:
        """The tensors around it that the body uses."""
        return self.function.captures

    @property
    def function_def(self) -> Any:
        """Its FunctionDef."""
        return self.function.definition

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a call; arguments are tensors, in order or by name."""
        values = [*args, *(kwargs.pop(name) for name in self.argument_names[len(args) :] if name in kwargs)]
        if kwargs:
            raise TypeError(f"Function '{self.name}' has no arguments {', '.join(kwargs)}.")
        if len(values) != self.function.num_arguments:
            raise TypeError(f"Function '{self.name}' takes {self.function.num_arguments} tensors, got {len(values)}.")
        placeholders = self.function.inputs
        tensors = [convert_to_tensor(value, placeholders[i].dtype) for i, value in enumerate(values)]
        return call(self.function, tensors)


def call(graph_function: GraphFunction, tensors: Sequence[Tensor]) -> Any:
    """Adds a call of a traced function to the default graph; the results have the Python function's structure."""
    left = iter(call_function(graph_function, [*tensors, *graph_function.captures]))
    structure = graph_function.structured_outputs
    return nest.map_structure(lambda part: None if part is None else next(left), structure, expand_composites=True)


class TracedFunction:
    """A Python function and its traces: the result of `tf.function`."""

    def __init__(
        self, func: Callable[..., Any], input_signature: Any = None, relax_shapes: bool = False, autograph: bool = False
    ) -> None:
        """See `function`."""
        if input_signature is not None and not isinstance(input_signature, (list, tuple)):
            raise TypeError(f"input_signature must be a list or tuple of TensorSpecs, got {input_signature!r}.")
        self.python_function = func
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._relax_shapes = relax_shapes
        self._autograph = autograph
        self._traces: WeakKeyDictionary[Graph, dict[Any, ConcreteFunction]] = WeakKeyDictionary()
        self._methods: WeakKeyDictionary[Any, TracedFunction] = WeakKeyDictionary()
        functools.update_wrapper(self, func)

    def __get__(self, instance: Any, owner: Any) -> TracedFunction:
        if instance is None:
            return self
        found = self._methods.get(instance)
        if found is None:
            bound = self.python_function.__get__(instance, owner)
            found = self._methods[instance] = TracedFunction(
                bound, self.input_signature, self._relax_shapes, self._autograph
            )
        return found

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a call to the default graph."""
        structure, flat = self._bound(args, kwargs)
        concrete = self._concrete(structure, flat)
        return call(concrete.function, [convert_to_tensor(v) for v in flat if _is_tensor(v)])

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for these arguments: tensors, TensorSpecs, or other values."""
        if self.input_signature is not None and not args and not kwargs:
            args = self.input_signature
        return self._concrete(*self._bound(args, kwargs))

    def _bound(self, args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
        """The arguments in the order of the Python function's, and their atoms."""
        signature = inspect.signature(self.python_function)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if self.input_signature is not None:
            return [list(self.input_signature), {}], self._as_declared(list(bound.args), bound.kwargs)
        structure = [list(bound.args), dict(bound.kwargs)]
        return structure, nest.flatten(structure, True)

    def _as_declared(self, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        declared = list(self.input_signature or ())
        if len(args) != len(declared) or kwargs:
            count = len(args) + len(kwargs)
            raise ValueError(f"The input_signature has {len(declared)} arguments, the call {count} (by position).")
        values = []
        for value, spec in zip(nest.flatten_up_to(declared, args), nest.flatten(declared), strict=True):
            if not isinstance(value, TensorSpec):
                value = convert_to_tensor(value, spec.dtype)
            if not spec.is_compatible_with(value):
                raise ValueError(f"Python inputs incompatible with input_signature: {value!r} is not {spec!r}.")
            values.append(value)
        return values

    def _concrete(self, structure: list[Any], flat: list[Any]) -> ConcreteFunction:
        if self.input_signature is not None:
            specs = nest.flatten(list(self.input_signature))
        else:
            specs = [self._spec(value) if _is_tensor(value) else None for value in flat]
        key = tuple(_key(value, spec) for value, spec in zip(flat, specs, strict=True))
        traces = self._traces.setdefault(get_default_graph(), {})
        found = traces.get(key)
        if found is None:
            found = traces[key] = self._trace(structure, flat, specs)
        return found

    def _spec(self, value: Any) -> TensorSpec:
        shape = TensorShape(None) if self._relax_shapes else TensorShape(value.shape)
        return TensorSpec(shape, as_dtype(value.dtype).base_dtype, getattr(value, "name", None))

    def _trace(self, structure: list[Any], flat: list[Any], specs: list[Any]) -> ConcreteFunction:
        paths = [path for path, _ in nest.flatten_with_tuple_paths(structure, True)]
        parameters = list(inspect.signature(self.python_function).parameters)
        names = []
        described = []
        for path, spec in zip(paths, specs, strict=True):
            if spec is None:
                continue
            plain = parameters[path[1]] if path[0] == 0 and path[1] < len(parameters) else str(path[1])
            own = spec.name if self.input_signature is not None and spec.name else None
            names.append(own or "_".join([plain, *(str(part) for part in path[2:])]))
            described.append(TensorSpec(spec.shape, spec.dtype, names[-1]))

        python_function = for_tracing(self.python_function) if self._autograph else self.python_function

        def build(*tensors: Tensor) -> Any:
            left = iter(tensors)
            atoms = [value if spec is None else next(left) for value, spec in zip(flat, specs, strict=True)]
            args, kwargs = nest.pack_sequence_as(structure, atoms, True)
            return python_function(*args, **kwargs)

        build.__name__ = getattr(self.python_function, "__name__", "function")
        return ConcreteFunction(trace(build, described), names)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, TensorSpec, np.ndarray))


def _key(value: Any, spec: Any) -> Any:
    if spec is not None:
        return spec.dtype, spec.shape.dims_tuple
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value
