"""Defun: functions in the way of TensorFlow 1: a decorator with the types of the arguments, calls named like ops."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.functions.graph_function import GraphFunction, add_function
from thalweg.functions.signatures import FunctionOp, plain_arg
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@export("experimental.Defun", "python.framework.function.Defun")
class Defun:
    """A decorator that makes a function of the graph of a Python function.

    Example:
        >>> @tf.experimental.Defun(tf.float32, tf.float32)
        ... def scaled(x, y):
        ...     return x * y, x + y
        >>> product, total = scaled(2.0, 3.0)
    """

    def __init__(self, *input_types: Any, **kwargs: Any) -> None:
        """Describes the function.

        Args:
            *input_types: The types of the arguments; if there are none, those of the values in each call.
            **kwargs: `func_name`, its name in the library; `grad_func`, a function made by Defun that gets the
                arguments and the gradients of the results, and returns the gradients of the arguments;
                `python_grad_func`, a Python function `fn(op, *grads)` that does this in the graph of the call;
                `out_names`, names of the results; `shape_func`, a function of a call's operation that gives the static
                shapes of the results; `noinline`, to keep calls from being replaced by the body; `capture_by_value`,
                to copy the operations that the body captures instead of making arguments of them.
        """
        self._input_types = [as_dtype(dtype).base_dtype for dtype in input_types]
        self._options = kwargs

    def __call__(self, func: Callable[..., Any]) -> Any:
        """Returns a DefinedFunction or an OverloadedFunction: calling it adds a call to the graph.

        Raises:
            ValueError: If `func` is not a function of positional arguments, or takes another number of them.
        """
        if not callable(func):
            raise ValueError(f"Function {func} must be a callable.")
        names, least, most = _positional(func)
        count = len(self._input_types)
        if count and not least <= count <= most:
            raise ValueError(
                f"The number of input types ({count}) is not compatible with {func}, which takes {least} to {most} "
                "arguments."
            )
        if count or most == 0:
            return DefinedFunction(func, names, self._input_types, **self._options)
        return OverloadedFunction(func, names, self._options)


def _positional(func: Callable[..., Any]) -> tuple[list[str], int, int]:
    """The names of a function's arguments, and how few and many it takes."""
    names = []
    most = 0
    for parameter in inspect.signature(func).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = 1 << 20
        elif parameter.default is not parameter.empty or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.KEYWORD_ONLY,
        ):
            raise ValueError(f"Functions with argument defaults or keyword arguments are not supported: {func}.")
        else:
            names.append(parameter.name)
    return names, len(names), len(names) + most


class DefinedFunction:
    """A function with known types of arguments. Its body is built when it is first needed, in the default graph."""

    def __init__(
        self,
        func: Callable[..., Any],
        argument_names: Sequence[str],
        input_types: Sequence[DType],
        func_name: str | None = None,
        grad_func: DefinedFunction | None = None,
        python_grad_func: Callable[..., Any] | None = None,
        out_names: Sequence[str] | None = None,
        shape_func: Callable[[Operation], Any] | None = None,
        capture_by_value: bool = False,
        allowlisted_stateful_ops: Any = None,
        whitelisted_stateful_ops: Any = None,
        **attrs: Any,
    ) -> None:
        """See Defun."""
        if grad_func is not None and python_grad_func is not None:
            raise ValueError("Gradient defined twice via grad_func and python_grad_func.")
        self._func = func
        self._argument_names = list(argument_names)
        self._input_types = tuple(input_types)
        self._func_name = func_name
        self._grad_func = grad_func
        self._python_grad_func = python_grad_func
        self._out_names = out_names
        self._shape_func = shape_func
        self._by_value = capture_by_value
        self._allowed = frozenset(allowlisted_stateful_ops or whitelisted_stateful_ops or ())
        self._attrs = {f"_{name.lstrip('_')}": _attr(value) for name, value in attrs.items()}
        self._function: GraphFunction | None = None

    @property
    def function(self) -> GraphFunction:
        """The finished function."""
        if self._function is None:
            self._function = self._build()
        return self._function

    @property
    def name(self) -> str:
        """Its name in the library."""
        return self.function.name

    @property
    def definition(self) -> Any:
        """Its FunctionDef."""
        return self.function.definition

    cached_definition = definition

    @property
    def declared_input_types(self) -> tuple[DType, ...]:
        """The types of the arguments, without captured ones."""
        return self._input_types

    @property
    def captured_inputs(self) -> list[Tensor]:
        """The tensors around it that its body uses."""
        return list(self.function.captures)

    @property
    def stateful_ops(self) -> list[tuple[str, str]]:
        """Name and type of each stateful operation in its body."""
        return [(op.name, op.type) for op in self.function.operations if op.op_def.stateful]

    @property
    def grad_func_name(self) -> str | None:
        """The name of the function that computes its gradient, if there is one."""
        return None if self._grad_func is None else self._grad_func.name

    @property
    def python_grad_func(self) -> Callable[..., Any] | None:
        """The Python function that adds its gradient to a graph, if there is one."""
        return self._python_grad_func

    def set_grad_func(self, grad_func: DefinedFunction) -> None:
        """Sets the function that computes its gradient.

        Raises:
            ValueError: If it has one already.
        """
        if self._grad_func is not None or self._python_grad_func is not None:
            raise ValueError(f"Function {self._func_name or self._func} has a gradient already.")
        self._grad_func = grad_func
        if self._function is not None:
            self._function.grad_func_name = grad_func.name

    def add_to_graph(self, graph: Graph) -> None:
        """Puts it, and the functions that it uses, into the library of a graph."""
        add_function(graph, self.function)
        if self._grad_func is not None:
            self._grad_func.add_to_graph(graph)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a call to the default graph.

        Args:
            *args: Values of the arguments.
            **kwargs: `name`, the name of the node; `noinline`, whether this call must stay one.

        Returns:
            The result, a tuple of results, or the Operation if there are none.
        """
        self.add_to_graph(get_default_graph())
        function = self.function
        if len(args) != len(self._input_types):
            raise ValueError(f"Expected {len(self._input_types)} arguments to '{function.name}', got {len(args)}.")
        values = [convert_to_tensor(value, dtype) for value, dtype in zip(args, self._input_types, strict=True)]
        op = call_by_name(function.signature, [*values, *function.captures], {**self._attrs, **_call_attrs(kwargs)},
                          kwargs.get("name"))  # fmt: skip
        if self._shape_func is not None:
            for tensor, shape in zip(op.outputs, self._shape_func(op), strict=True):
                tensor.set_shape(shape)
        return _results(op)

    def _build(self) -> GraphFunction:
        outer = get_default_graph()
        body = FuncGraph(self._func_name or "", outer, self._by_value, self._allowed)
        with body.as_default():
            arguments = []
            for i, dtype in enumerate(self._input_types):
                name = self._argument_names[i] if i < len(self._argument_names) else f"arg{i}"
                arguments.append(body.add_argument(dtype, None, name))
            returned = self._func(*arguments)
            outputs = self._outputs(body, returned)
        if self._out_names is not None and len(self._out_names) != len(outputs):
            raise ValueError(f"There are {len(self._out_names)} out_names for {len(outputs)} results.")
        function = GraphFunction(self._func_name or "", body, outputs, None, None, self._out_names)
        function.attrs = dict(self._attrs)
        if self._func_name is None:
            import hashlib

            digest = hashlib.sha1(function.definition.SerializeToString(deterministic=True)).hexdigest()
            plain = getattr(self._func, "__name__", "function").strip("<>")
            function = function.renamed(f"{plain}_{digest[:8]}")
        function.python_grad_func = self._python_grad_func
        function.grad_func_name = self.grad_func_name
        return function

    def _outputs(self, body: FuncGraph, returned: Any) -> list[Tensor]:
        if returned is None or isinstance(returned, Operation):
            return []
        listed = returned if isinstance(returned, (list, tuple)) else [returned]
        if any(value is None for value in listed):
            raise ValueError(f"Function {self._func_name or self._func} can not return None.")
        return [body.capture(convert_to_tensor(value)) for value in listed]


class OverloadedFunction:
    """A function without declared types: there is one for each combination of types that it is called with."""

    def __init__(self, func: Callable[..., Any], argument_names: Sequence[str], options: dict[str, Any]) -> None:
        """See Defun."""
        self._func = func
        self._argument_names = argument_names
        self._options = dict(options)
        self._instances: dict[tuple[DType, ...], DefinedFunction] = {}

    def instantiate(self, input_types: Sequence[Any]) -> DefinedFunction:
        """The function for these types of arguments."""
        types = tuple(as_dtype(dtype).base_dtype for dtype in input_types)
        found = self._instances.get(types)
        if found is None:
            options = dict(self._options)
            if options.get("func_name") is not None and self._instances:
                options["func_name"] = "_".join([options["func_name"], *(dtype.name for dtype in types)])
            if isinstance(options.get("grad_func"), OverloadedFunction):
                options["grad_func"] = self._gradient(types, options)
            found = self._instances[types] = DefinedFunction(self._func, self._argument_names, types, **options)
        return found

    def _gradient(self, types: tuple[DType, ...], options: dict[str, Any]) -> DefinedFunction:
        """The gradient's instance: it takes the arguments and one gradient for each result."""
        plain = {key: value for key, value in options.items() if key not in ("grad_func", "func_name")}
        results = DefinedFunction(self._func, self._argument_names, types, **plain).function.output_dtypes
        gradient: OverloadedFunction = options["grad_func"]
        return gradient.instantiate([*types, *results])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a call of the function for the types of these values."""
        values = [convert_to_tensor(value) for value in args]
        return self.instantiate([value.dtype for value in values])(*values, **kwargs)


@export("python.framework.function.Declare")
class Declare:
    """Declares a function that is defined elsewhere, or later: how functions call themselves and each other.

    Example:
        >>> later = function.Declare("Later", [("x", tf.float32)], [("y", tf.float32)])  # doctest: +SKIP
    """

    def __init__(self, func_name: str, inputs: Sequence[tuple[str, Any]], outputs: Sequence[tuple[str, Any]]) -> None:
        """Takes its name, and name and type of each argument and result."""
        self.name = func_name
        arguments = [plain_arg(name, as_dtype(dtype)) for name, dtype in inputs]
        results = [plain_arg(name, as_dtype(dtype)) for name, dtype in outputs]
        self._signature = FunctionOp(func_name, arguments, results, {}, stateful=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a call to the default graph."""
        inputs = self._signature.inputs
        if len(args) != len(inputs):
            raise ValueError(f"Expected {len(inputs)} arguments to '{self.name}', got {len(args)}.")
        values = [convert_to_tensor(value, arg.dtype) for value, arg in zip(args, inputs, strict=True)]
        return _results(call_by_name(self._signature, values, _call_attrs(kwargs), kwargs.get("name")))


def call_by_name(signature: FunctionOp, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str | None) -> Operation:
    """Adds a node whose op type is the name of a function."""
    graph = get_default_graph()
    for tensor in inputs:
        if not graph._building_function and tensor.graph is not graph:
            raise ValueError(f"'{tensor.name}' is from another graph than the call of '{signature.name}'.")
    types = [arg.dtype for arg in signature.outputs if arg.dtype is not None]
    return graph.add_operation(
        signature, inputs, attrs, graph.unique_name(name or signature.name), types, skip_frames=4
    )


def _results(op: Operation) -> Any:
    if len(op.outputs) == 1:
        return op.outputs[0]
    return tuple(op.outputs) if op.outputs else op


def _call_attrs(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {f"_{key.lstrip('_')}": _attr(value) for key, value in kwargs.items() if key != "name"}


def _attr(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bool, int, float, bytes, DType, TensorShape)):
        return value
    raise ValueError(f"An option of a function must be a bool, number, string, type or shape, not {value!r}.")
