"""GraphFunction: a function as a value of the graph: arguments, a body, results; and `trace`, which makes one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from thalweg import errors
from thalweg.functions.automatic_control import effects_to_run, order_effects
from thalweg.functions.signatures import FunctionOp, plain_arg
from thalweg.functions.write_function_def import write_function_def
from thalweg.graph import nest
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph
from thalweg.graph.definitions.op_registry import is_defined
from thalweg.graph.definitions.op_signature import NameAttrList
from thalweg.graph.dtypes import DType
from thalweg.graph.func_graph import FuncGraph
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec


class GraphFunction:
    """A finished function. Nodes refer to it by name, in their attributes or as their op type.

    Attributes:
        name: Its name in the library.
        graph: The graph of the body. Later, it may get more operations: those of its gradient.
        operations: Those that belong to the function.
        inputs: The placeholders of all arguments, captured ones last.
        captures: The tensors of outer graphs that a call passes as the last arguments.
        outputs: The results, as tensors of the body.
        structured_outputs: The results as the Python function returned them, with tensors of the body as leaves.
        control_outputs: By name, operations that run with every call.
        only_results: Whether nothing runs that no result needs.
        output_names: Names of the results; those of TensorFlow's FunctionDef.
        attrs: Attributes of the FunctionDef.
        grad_func_name: The function of the library that computes its gradient, if there is one.
        python_grad_func: A Python function `fn(op, *grads)` that adds its gradient to the graph of a call, or None.
        library_entry: The entry of the library, if it is one of several instances of a FunctionDef.
    """

    def __init__(
        self,
        name: str,
        graph: FuncGraph,
        outputs: Sequence[Tensor],
        structured_outputs: Any = None,
        control_outputs: dict[str, Operation] | None = None,
        output_names: Sequence[str] | None = None,
        *,
        inputs: Sequence[Tensor] | None = None,
    ) -> None:
        """Finishes a function over a body.

        Args:
            name: Its name.
            graph: The graph of the body.
            outputs: The results.
            structured_outputs: The results as they were returned.
            control_outputs: Operations that run with every call.
            output_names: Names of the results.
            inputs: The tensors that arguments take the place of, if not all arguments and captures of the graph. Then
                nothing runs that no result needs.
        """
        self.name = name
        self.graph = graph
        self.captures: list[Tensor] = list(graph.captures) if inputs is None else []
        self.inputs: list[Tensor] = [*graph.inputs, *graph.captures.values()] if inputs is None else list(inputs)
        self.operations: list[Operation] = graph.get_operations()
        self.only_results = inputs is not None
        self.outputs: list[Tensor] = list(outputs)
        self.structured_outputs = structured_outputs
        self.control_outputs: dict[str, Operation] = control_outputs or {}
        self.output_names: list[str] | None = None if output_names is None else list(output_names)
        self.attrs: dict[str, Any] = {}
        self.grad_func_name: str | None = None
        self.python_grad_func: Callable[..., Any] | None = None
        self.library_entry: Any = None
        self.derived: dict[str, Any] = {}  # Objects derived from it, such as its gradient.
        if self.only_results:
            self.operations = self._needed()
        self._definition: Any = None
        self._signature: FunctionOp | None = None

    # The interface of library entries; `read_function_def.LibraryFunction` is the other kind.

    @property
    def definition(self) -> Any:
        """The FunctionDef."""
        if self._definition is None:
            self._definition = write_function_def(self)
        return self._definition

    @property
    def signature(self) -> FunctionOp:
        """The definition of nodes whose op type is this function."""
        if self._signature is None:
            inputs = [plain_arg(arg.name, tensor.dtype.base_dtype) for arg, tensor in self._named_inputs()]
            results = zip(self.definition.signature.output_arg, self.output_dtypes, strict=True)
            outputs = [plain_arg(arg.name, dtype) for arg, dtype in results]
            self._signature = FunctionOp(self.name, inputs, outputs, {}, self.stateful)
        return self._signature

    def _named_inputs(self) -> Iterable[tuple[Any, Tensor]]:
        return zip(self.definition.signature.input_arg, self.inputs, strict=True)

    @property
    def known_output_shapes(self) -> list[TensorShape] | None:
        """The static shapes of the results."""
        return self.output_shapes

    @property
    def noinline(self) -> bool:
        """Whether calls must stay calls."""
        return bool(self.attrs.get("_noinline", False))

    def instantiate(self, attrs: dict[str, Any]) -> GraphFunction:
        """Itself: it has no attributes that could be given."""
        return self

    # Arguments, results and operations.

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
        """The operations that run in every call, whether or not a result needs them."""
        effects = [] if self.only_results else effects_to_run(self.operations)
        return list(dict.fromkeys((*effects, *self.control_outputs.values())))

    def _needed(self) -> list[Operation]:
        """The operations that the results need."""
        given = set(self.inputs)
        found: set[Operation] = set()
        stack = [tensor.op for tensor in self.outputs if tensor not in given]
        while stack:
            op = stack.pop()
            if op not in found:
                found.add(op)
                stack.extend(tensor.op for tensor in op.inputs if tensor not in given)
                stack.extend(op.control_inputs)
        return sorted(found, key=lambda op: op._id)

    @property
    def stateful(self) -> bool:
        """Whether two calls with equal arguments may differ, or a call may have an effect."""
        return any(op.op_def.stateful for op in self.operations)

    def renamed(self, name: str) -> GraphFunction:
        """The same function under another name: only before it is in a library."""
        self.name = self.graph.name = name
        self._definition = self._signature = None
        return self

    def as_attr(self) -> NameAttrList:
        """The value of an attribute that is this function."""
        return NameAttrList(self.name)

    def __repr__(self) -> str:
        arguments = ", ".join(dtype.name for dtype in self.input_dtypes)
        return f"<GraphFunction {self.name}({arguments}) -> ({', '.join(d.name for d in self.output_dtypes)})>"


def library_function(graph: Graph, name: str) -> Any:
    """The entry of a graph's library: a GraphFunction, a LibraryFunction, or None."""
    return graph._functions.get(name)


def find_function(graph: Graph, reference: NameAttrList) -> GraphFunction:
    """The function of a graph's library that an attribute refers to: see `find_in_library`."""
    return find_in_library(graph._functions, reference)


def find_in_library(library: Mapping[str, Any], reference: NameAttrList) -> GraphFunction:
    """The function that an attribute refers to.

    Raises:
        errors.NotFoundError: If the graph's library has none of that name.
        errors.InvalidArgumentError: If its FunctionDef does not describe a function.
    """
    entry = library.get(reference.name)
    if entry is None:
        raise errors.NotFoundError(None, None, f"The graph's library has no function '{reference.name}'.")
    function: GraphFunction = entry.instantiate(reference.attrs)
    return function


def add_function(graph: Graph, function: GraphFunction) -> None:
    """Puts a function, and the functions that its body uses, into a graph's library.

    Raises:
        ValueError: If the library has another function of that name.
    """
    used = [] if graph._functions is function.graph._functions else used_functions(function)
    for each in [function, *used]:
        add_entry(graph, each.library_entry or each)


def add_entry(graph: Graph, entry: Any) -> bool:
    """Puts an entry into a graph's library; whether it was not there before.

    Raises:
        ValueError: If the library has another function of that name.
    """
    if is_defined(entry.name) or not entry.name:
        raise ValueError(f"Cannot add function '{entry.name}' because an op with the same name already exists.")
    with graph._lock:
        known = graph._functions.setdefault(entry.name, entry)
    if known is entry:
        return True
    if known.definition.SerializeToString(deterministic=True) != entry.definition.SerializeToString(deterministic=True):
        raise ValueError(
            f"Cannot add function '{entry.name}' because a different function with the same name already exists."
        )
    return False


def referred_functions(op: Operation) -> list[NameAttrList]:
    """The functions that a node refers to: as its op type, or in its attributes."""
    found = [NameAttrList(op.type, op.attrs)] if op.type in op.graph._functions else []
    for key, value in op.attrs.items():
        if key[:1] == "_":
            continue
        if isinstance(value, NameAttrList):
            found.append(value)
        elif isinstance(value, list) and value and isinstance(value[0], NameAttrList):
            found.extend(value)
    return found


def used_functions(function: GraphFunction) -> list[GraphFunction]:
    """The functions that a function's body uses, and those that theirs use, without itself; unknown ones left out."""
    found: dict[str, GraphFunction] = {function.name: function}
    stack = [function]
    while stack:
        user = stack.pop()
        graph = user.graph
        for op in user.operations:
            for reference in referred_functions(op):
                if reference.name in graph._functions:
                    used = find_function(graph, reference)
                    if used.name not in found:
                        found[used.name] = used
                        stack.append(used)
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
        The function. A call must pass `captures` after the arguments: tensors of the default graph or of one around
        it.

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
        order_effects(body.get_operations())
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
    """The results of a Python function, with tensors of the body as leaves, and the operations among them."""
    control_outputs: dict[str, Operation] = {}

    def result(value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, Operation):
            control_outputs[value.name] = value
            return None
        return body.capture(convert_to_tensor(value))

    return nest.map_structure(result, returned, expand_composites=True), control_outputs
