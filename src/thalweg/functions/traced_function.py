"""tf.function: Python functions that are traced into functions of the graph, once for each kind of arguments."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from thalweg.autograph.api import for_tracing
from thalweg.functions.argument_keys import is_tensor, key_of, specs_of
from thalweg.functions.function_gradient import call as call_function
from thalweg.functions.graph_function import GraphFunction, trace
from thalweg.functions.traces import Traces
from thalweg.graph import eager_tensor, nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import executing_eagerly, get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.func_graph import outermost
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_spec import TensorSpec


@export("function", "contrib.eager.defun", "contrib.eager.function")
def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    experimental_autograph_options: Any = None,
    experimental_relax_shapes: bool = False,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_compile: bool | None = None,
) -> Any:
    """A decorator that makes a function of the graph of a Python function; each call adds a call to the graph.

    Tensors among the arguments become arguments of the function; it is traced anew for other types and shapes of
    tensors, and for other values of arguments that are not tensors. Side effects on variables happen in the order of
    the program. Python's control flow on tensors becomes control flow of the graph (docs/autograph.md).

    Args:
        func: The Python function.
        input_signature: TensorSpecs of the first arguments, or nestings of them: then there is one trace for all calls.
        autograph: Whether `if`, `for`, `while` and the like on tensors become control flow of the graph.
        experimental_autograph_options: A `tf.autograph.experimental.Feature`, or several; all are always on.
        experimental_relax_shapes: Whether a call with tensors of another shape is traced for all shapes that have the
            dimensions in common in which the calls so far agree.
        jit_compile: Ignored: every function is compiled as a step is.
        reduce_retracing: The same as `experimental_relax_shapes`.
        experimental_implements: Ignored.
        experimental_compile: Ignored.

    Example:
        >>> @tf.function
        ... def norm(x):
        ...     return tf.sqrt(tf.reduce_sum(x * x))
        >>> with tf.Session() as sess:
        ...     print(sess.run(norm(tf.constant([3.0, 4.0]))))
        5.0
    """
    relax = experimental_relax_shapes or reduce_retracing
    if func is None:
        return lambda f: TracedFunction(f, input_signature, relax, autograph)
    return TracedFunction(func, input_signature, relax, autograph)


class ConcreteFunction:
    """One trace: a function with fixed types of arguments."""

    def __init__(self, graph_function: GraphFunction, argument_names: Sequence[str], arguments: Any = None) -> None:
        """Used by TracedFunction.

        Args:
            graph_function: The function.
            argument_names: The names of its tensors.
            arguments: Positional arguments and those by name, with TensorSpecs in the place of tensors.
        """
        self.function = graph_function
        self.argument_names = list(argument_names)
        self.structured_input_signature = arguments

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

    @property
    def makes_variables(self) -> bool:
        """Whether variables were made while it was traced."""
        return self.function.graph.num_variables_made > 0

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
    results = call_function(graph_function, [*tensors, *graph_function.captures])
    structure = graph_function.structured_outputs
    if type(structure) is Tensor:
        return results[0]
    left = iter(results)
    return nest.map_structure(lambda part: None if part is None else next(left), structure, expand_composites=True)


calls_run_at_once = False  # Whether calls run the Python function itself; see `tf.config.run_functions_eagerly`.


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
        self._traces: WeakKeyDictionary[Graph, Traces] = WeakKeyDictionary()
        self._has_made_variables = False
        # Eager calls whose arguments are all tensors, by their types and shapes.
        self._known_calls: dict[bytes, tuple[ConcreteFunction, Traces]] = {}
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
        if calls_run_at_once:
            return self.python_function(*args, **kwargs)
        at_once = executing_eagerly() and not kwargs
        key = eager_tensor.types_and_shapes(args) if at_once else None
        known = self._known_calls.get(key) if key is not None else None
        if known is not None:
            concrete, traces = known
            traces.calls += 1
            return call(concrete.function, args)
        structure, flat = self._bound(args, kwargs)
        concrete = self._concrete(structure, flat)
        if key is not None and all(map(operator.is_, flat, args)) and len(flat) == len(args):
            self._known_calls[key] = concrete, self._traces[get_default_graph()]
        return call(concrete.function, [convert_to_tensor(v) for v in flat if is_tensor(v)])

    def experimental_get_tracing_count(self) -> int:
        """How often the function has been traced in the default graph."""
        return len(self.concrete_functions())

    def concrete_functions(self) -> list[ConcreteFunction]:
        """The traces of the default graph; if it has an input_signature, there is one."""
        if self.input_signature is not None:
            return [self.get_concrete_function()]
        traces = self._traces.get(get_default_graph())
        return [] if traces is None else traces.all()

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The trace for these arguments: tensors, TensorSpecs, or other values."""
        if self.input_signature is not None and not args and not kwargs:
            args = self.input_signature
        return self._concrete(*self._bound(args, kwargs))

    def _bound(self, args: Any, kwargs: Any) -> tuple[list[Any], list[Any]]:
        """The arguments in the order of the Python function's, and their atoms."""
        bound = self._signature.bind(*args, **kwargs)
        if self.input_signature is not None:
            self._check_given(len(bound.args), set(bound.arguments))
            bound.apply_defaults()
            return [list(self.input_signature), {}], self._as_declared(list(bound.args))
        bound.apply_defaults()
        structure = [list(bound.args), dict(bound.kwargs)]
        return structure, nest.flatten(structure, True)

    @functools.cached_property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.python_function)

    def _check_given(self, count: int, names: set[str]) -> None:
        """Refuses arguments that the input_signature does not declare: those behind it have their default values."""
        declared = len(self.input_signature or ())
        if count > declared or names.difference(list(self._signature.parameters)[:declared]):
            raise ValueError(
                f"The input_signature has {declared} arguments, the call {count} by position, and by name "
                f"{', '.join(sorted(names)) or 'none'}: arguments without a TensorSpec must keep their default values."
            )

    def _as_declared(self, args: list[Any]) -> list[Any]:
        """The atoms of the arguments that the input_signature declares."""
        declared = list(self.input_signature or ())
        if len(args) < len(declared):
            raise ValueError(f"The input_signature has {len(declared)} arguments, the call {len(args)}.")
        values = []
        for value, spec in zip(
            nest.flatten_up_to(declared, args[: len(declared)]), nest.flatten(declared), strict=True
        ):
            if not isinstance(value, TensorSpec):
                value = convert_to_tensor(value, spec.dtype)
            if not spec.is_compatible_with(value):
                raise ValueError(f"Python inputs incompatible with input_signature: {value!r} is not {spec!r}.")
            values.append(value)
        return values

    def _concrete(self, structure: list[Any], flat: list[Any]) -> ConcreteFunction:
        specs: list[TensorSpec | None] = (
            specs_of(structure, flat) if self.input_signature is None else nest.flatten(list(self.input_signature))
        )
        traces = self._traces.setdefault(get_default_graph(), Traces(self._relax_shapes))
        key = key_of(structure, flat, specs)
        found: ConcreteFunction | None = traces.find(key, specs)
        if found is None:
            traces.report(key, self._name, lambda: self._names(structure, specs))
            traced_for = traces.to_trace(key, specs)
            found = self._trace(structure, flat, traced_for)
            if found.makes_variables and outermost(get_default_graph())._executes:
                found = self._trace_again(structure, flat, traced_for)
            traces.add(key, specs, traced_for, found)
        return found

    def _trace_again(
        self, structure: list[Any], flat: list[Any], specs: Sequence[TensorSpec | None]
    ) -> ConcreteFunction:
        """A second trace after a first that made variables: it must find them.

        Raises:
            ValueError: If the function makes variables in each call.
        """
        found = None if self._has_made_variables else self._trace(structure, flat, specs)
        if found is None or found.makes_variables:
            raise ValueError(
                f"tf.function '{self._name}' makes variables not only in its first call. Make them outside of it, or "
                "once: `if self.v is None: self.v = tf.Variable(...)`."
            )
        self._has_made_variables = True
        return found

    @property
    def _name(self) -> str:
        return getattr(self.python_function, "__qualname__", repr(self.python_function))

    def _names(self, structure: list[Any], specs: Sequence[TensorSpec | None]) -> list[str]:
        """The names of the atoms: that of the parameter, and what leads from there to the atom."""
        parameters = list(self._signature.parameters)
        names = []
        for (path, _), spec in zip(nest.flatten_with_tuple_paths(structure, True), specs, strict=True):
            plain = parameters[path[1]] if path[0] == 0 and path[1] < len(parameters) else str(path[1])
            own = spec.name if self.input_signature is not None and spec is not None else None
            names.append(own or "_".join([plain, *(str(part) for part in path[2:])]))
        return names

    def _trace(self, structure: list[Any], flat: list[Any], specs: Sequence[TensorSpec | None]) -> ConcreteFunction:
        named = zip(self._names(structure, specs), specs, strict=True)
        described = [TensorSpec(spec.shape, spec.dtype, name) for name, spec in named if spec is not None]
        python_function = for_tracing(self.python_function) if self._autograph else self.python_function

        def build(*tensors: Tensor) -> Any:
            left = iter(tensors)
            atoms = [value if spec is None else next(left) for value, spec in zip(flat, specs, strict=True)]
            args, kwargs = nest.pack_sequence_as(structure, atoms, True)
            return python_function(*args, **kwargs)

        build.__name__ = getattr(self.python_function, "__name__", "function")
        left = iter(described)
        atoms = [value if spec is None else next(left) for value, spec in zip(flat, specs, strict=True)]
        arguments = None
        if not any(nest.is_composite(value) for value in nest.flatten(structure)):
            args, kwargs = nest.pack_sequence_as(structure, atoms)
            arguments = (tuple(args), kwargs)
        return ConcreteFunction(trace(build, described), [spec.name or "" for spec in described], arguments)
