"""GraphFunction: a function as a value of the graph: arguments, a body, results; and `trace`, which makes one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from thalweg.functions.automatic_control import effects, order_effects
from thalweg.graph import nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.dtypes import DType
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import NameAttrList, Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec


class GraphFunction:
    """A finished function. Nodes refer to it by name, in their attributes or as their op type.

    Attributes:
        name: Its name in the library.
        graph: The body.
        inputs: The placeholders of all arguments, captured ones last.
        captures: The tensors of outer graphs that a call passes as the last arguments.
        outputs: The results, as tensors of the body.
        structured_outputs: The results as the Python function returned them, with tensors of the body as leaves.
        control_outputs: By name, operations that run with every call.
        output_names: Names of the results; those of TensorFlow's FunctionDef.
    """

    def __init__(
        self,
        name: str,
        graph: FuncGraph,
        outputs: Sequence[Tensor],
        structured_outputs: Any = None,
        control_outputs: dict[str, Operation] | None = None,
        output_names: Sequence[str] | None = None,
    ) -> None:
        """Finishes a function over a body."""
        self.name = name
        self.graph = graph
        self.captures: list[Tensor] = list(graph.captures)
        self.inputs: list[Tensor] = [*graph.inputs, *graph.captures.values()]
        self.outputs: list[Tensor] = list(outputs)
        self.structured_outputs = structured_outputs
        self.control_outputs: dict[str, Operation] = control_outputs or {}
        self.output_names: list[str] | None = None if output_names is None else list(output_names)
        self.attrs: dict[str, Any] = {}

    @property
    def num_arguments(self) -> int:
        """How many arguments a caller gives, without the captured ones."""
        return len(self.inputs) - len(self.captures)

    @property
    def input_dtypes(self) -> list[DType]:
        """The types of all arguments, captured ones last."""
        return [tensor.dtype for tensor in self.inputs]

    @property
    def output_dtypes(self) -> list[DType]:
        """The types of the results."""
        return [tensor.dtype.base_dtype for tensor in self.outputs]

    @property
    def output_shapes(self) -> list[TensorShape]:
        """The static shapes of the results."""
        return [tensor.shape for tensor in self.outputs]

    @property
    def targets(self) -> list[Operation]:
        """What runs in every call, whether or not a result needs it."""
        return list(dict.fromkeys((*effects(self.graph), *self.control_outputs.values())))

    @property
    def stateful(self) -> bool:
        """Whether two calls with equal arguments may differ, or a call may be noticed elsewhere."""
        return any(op.op_def.stateful for op in self.graph.get_operations())

    def as_attr(self) -> NameAttrList:
        """The value of an attribute that is this function."""
        return NameAttrList(self.name)

    def __repr__(self) -> str:
        arguments = ", ".join(dtype.name for dtype in self.input_dtypes)
        return f"<GraphFunction {self.name}({arguments}) -> ({', '.join(d.name for d in self.output_dtypes)})>"


def find_function(graph: Graph, reference: NameAttrList | str) -> GraphFunction:
    """The function that an attribute refers to.

    Raises:
        ValueError: If the graph's library has none of that name.
    """
    name = reference if isinstance(reference, str) else reference.name
    found = graph._functions.get(name)
    if found is None:
        raise ValueError(f"The graph's library has no function '{name}'.")
    function: GraphFunction = found
    return function


def add_function(graph: Graph, function: GraphFunction) -> None:
    """Puts a function, and the functions that its body uses, into a graph's library.

    Raises:
        ValueError: If the library has another function of that name.
    """
    for each in [function, *used_functions(function)]:
        with graph._lock:
            known = graph._functions.setdefault(each.name, each)
        if known is not each:
            raise ValueError(
                f"Cannot add function '{each.name}': the graph's library already has another one of that name."
            )


def referred_functions(op: Operation) -> list[str]:
    """The names of the functions that a node refers to: as its op type, or in its attributes."""
    names = [op.type] if op.type in op.graph._functions else []
    for key, value in op.attrs.items():
        if key[:1] == "_":
            continue
        if isinstance(value, NameAttrList):
            names.append(value.name)
        elif isinstance(value, list) and value and isinstance(value[0], NameAttrList):
            names.extend(item.name for item in value)
    return names


def used_functions(function: GraphFunction) -> list[GraphFunction]:
    """The functions that a function's body uses, and those that theirs use, without itself."""
    found: dict[str, GraphFunction] = {function.name: function}
    stack = [function]
    while stack:
        graph = stack.pop().graph
        for op in graph.get_operations():
            for name in referred_functions(op):
                if name not in found and name in graph._functions:
                    found[name] = find_function(graph, name)
                    stack.append(found[name])
    return list(found.values())[1:]


_numbers = itertools.count()


def unique_function_name(graph: Graph, prefix: str) -> str:
    """A name that no function of the library has."""
    while True:
        name = f"{prefix}_{next(_numbers)}"
        if name not in graph._functions:
            return name


def trace(
    python_function: Callable[..., Any],
    signature: Any = (),
    name: str | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    ordered: bool = True,
) -> GraphFunction:
    """Makes a function of a Python function, and puts it into the library of the default graph.

    Args:
        python_function: Called once, with tensors of the body; what it returns, in any nesting, are the results.
        signature: The positional arguments: a sequence whose items are TensorSpecs or nestings of them (composites such
            as sparse tensors as nestings of their parts).
        name: The name in the library; made from that of the Python function if None.
        kwargs: Further arguments, passed on as they are.
        ordered: Whether operations with side effects run in the order of the program.

    Returns:
        The function. `captures` are what a call must pass after the arguments, as tensors of the default graph or of
        one around it.

    Raises:
        TypeError: If a result cannot become a tensor.

    Example:
        >>> from thalweg.functions.graph_function import trace
        >>> scale = tf.constant(3.0)
        >>> function = trace(lambda x: {"scaled": x * scale}, [tf.TensorSpec([2], tf.float32)])
        >>> len(function.captures), function.output_shapes
        (1, [TensorShape([Dimension(2)])])
    """
    outer = get_default_graph()
    if name is None:
        plain = getattr(python_function, "__name__", type(python_function).__name__)
        name = unique_function_name(outer, f"__inference_{''.join(c if c.isalnum() else '_' for c in plain)}")
    body = FuncGraph(name, outer)
    with body.as_default():
        arguments = nest.map_structure(_add_argument, list(signature))
        returned = python_function(*arguments, **(kwargs or {}))
        structure, control_outputs = _results(body, returned)
    if ordered:
        order_effects(body, body.get_operations())
    flat = [tensor for tensor in nest.flatten(structure, expand_composites=True) if tensor is not None]
    function = GraphFunction(name, body, flat, structure, control_outputs)
    add_function(outer, function)
    return function


def _add_argument(spec: Any) -> Tensor:
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"An argument of a function is described by a tf.TensorSpec, not by {spec!r}.")
    body = get_default_graph()
    assert isinstance(body, FuncGraph)
    name = "".join(c if c.isalnum() else "_" for c in spec.name or "").strip("_")
    return body.add_argument(spec.dtype.base_dtype, spec.shape, name or f"arg{len(body.inputs)}")


def _results(body: FuncGraph, returned: Any) -> tuple[Any, dict[str, Operation]]:
    """What a Python function returned, with tensors of the body as leaves, and the operations among them."""
    control_outputs: dict[str, Operation] = {}

    def result(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Operation):
            control_outputs[value.name] = value
            return None
        return body.capture(convert_to_tensor(value))

    return nest.map_structure(result, returned, expand_composites=True), control_outputs
