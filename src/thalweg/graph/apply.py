"""apply(): the one seam through which every op function reaches the graph.

An op function names the op type, its inputs and attributes; `apply` finds the graph and a name, resolves the op (see
`graph.resolve`), and adds the node. Immediate execution branches off here: its graph runs the op instead.

What comes back depends on the op's outputs, so there are four forms:

    apply_one    one output                      -> Tensor
    apply_list   one output that is a list       -> list[Tensor]
    apply_op     none                            -> Operation
    apply        several, or an op type that is not known before run time -> Any
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import get_default_graph, graph_of
from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.op_registry import op_def
from thalweg.graph.definitions.prepared_op import PreparedOp, prepare
from thalweg.graph.dtypes import DType, resource
from thalweg.graph.graph import Graph
from thalweg.graph.immediate import immediate
from thalweg.graph.operation import Operation
from thalweg.graph.resolve import resolve_prepared
from thalweg.graph.scopes import VALID_OP_NAME
from thalweg.graph.tensor import Tensor
from thalweg.graph.variable_values import exchanged

# Called before an operation is made; returns a replacement, or NotImplemented to leave the operation alone.
Interceptor = Callable[[str, tuple[Any, ...], "str | None", dict[str, Any]], Any]


class _Interception(threading.local):
    innermost: Interceptor | None = None


interception = _Interception()


@contextmanager
def intercepted(interceptor: Interceptor) -> Iterator[None]:
    """A block in which this thread's operations pass through `interceptor`, innermost blocks first.

    Operations that the interceptor itself applies pass through outer blocks only.
    """
    outer = interception.innermost

    def innermost(op_type: str, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]) -> Any:
        interception.innermost = outer
        try:
            made = interceptor(op_type, inputs, name, attrs)
            if made is NotImplemented and outer is not None:
                made = outer(op_type, inputs, name, attrs)
        finally:
            interception.innermost = innermost
        return made

    interception.innermost = innermost
    try:
        yield
    finally:
        interception.innermost = outer


@contextmanager
def not_intercepted() -> Iterator[None]:
    """A block whose operations are made as they are, whatever blocks are around it."""
    outer, interception.innermost = interception.innermost, None
    try:
        yield
    finally:
        interception.innermost = outer


def is_intercepted() -> bool:
    """Whether operations of this thread pass through an interceptor."""
    return interception.innermost is not None


def apply(op_type: str, /, *inputs: Any, name: str | None = None, **attrs: Any) -> Any:
    """Adds one operation to the graph.

    Args:
        op_type: The op type, as given to `define`.
        *inputs: One value per input argument of the op, in order: a tensor or anything that converts to one, and a list
            of them where the op takes a list.
        name: The node's name, made unique; the op type if None. With a slash at the end: exactly this name.
        **attrs: Attributes; None means the default. Those that follow from the inputs (types, lengths) are inferred.

    Returns:
        The output Tensor; a list for an output that is a list; a namedtuple if there are several outputs; the Operation
        if there are none.

    Raises:
        TypeError: If an input or attribute has the wrong type.
        ValueError: If shapes or attribute values do not fit, or the inputs are from different graphs.
    """
    return apply_values(op_type, inputs, name, attrs)


def apply_one(op_type: str, /, *inputs: Any, name: str | None = None, **attrs: Any) -> Tensor:
    """Adds one operation that has one output, and returns that; see `apply`."""
    result = apply_values(op_type, inputs, name, attrs)
    if isinstance(result, Tensor):
        return result
    raise _wrong_form("apply_one", op_type, result)


def apply_list(op_type: str, /, *inputs: Any, name: str | None = None, **attrs: Any) -> list[Tensor]:
    """Adds one operation whose only output is a list, and returns that; see `apply`."""
    result = apply_values(op_type, inputs, name, attrs)
    if isinstance(result, list):
        return result
    raise _wrong_form("apply_list", op_type, result)


def apply_op(op_type: str, /, *inputs: Any, name: str | None = None, **attrs: Any) -> Operation:
    """Adds one operation without outputs, and returns it; see `apply`."""
    result = apply_values(op_type, inputs, name, attrs)
    if isinstance(result, Operation):
        return result
    raise _wrong_form("apply_op", op_type, result)


def _wrong_form(form: str, op_type: str, result: Any) -> AssertionError:
    """The error for an op function that calls another form than its op's outputs ask for."""
    right = "apply"
    for kind, name in ((Tensor, "apply_one"), (list, "apply_list"), (Operation, "apply_op")):
        if isinstance(result, kind):
            right = name
    outputs = ", ".join(arg.name for arg in op_def(op_type).outputs) or "none"
    return AssertionError(f"{form}('{op_type}', ...) should be {right}('{op_type}', ...): its outputs are: {outputs}.")


def apply_values(op_type: str, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]) -> Any:
    """The same as `apply`, for callers that have inputs and attributes in a tuple and a dictionary."""
    made = immediate.run(op_type, inputs, attrs)
    if made is not NotImplemented:
        return made
    if interception.innermost is not None:
        made = interception.innermost(op_type, inputs, name, attrs)
        if made is not NotImplemented:
            return made
    building: Graph | None = None
    stack = default_graphs.stack
    if stack and stack[-1]._is_special and not stack[-1]._executes:
        building = stack[-1]
    prepared = prepare(op_type, inputs)
    graph: Graph | None = None
    only_tensors = prepared.simple
    if building is not None:
        graph = building
        only_tensors = only_tensors and all(type(value) is Tensor for value in inputs)
    else:
        for value in inputs:
            if type(value) is Tensor:
                if graph is None:
                    graph = value.op.graph
                elif graph is not value.op.graph:
                    graph_of(inputs)  # Raises, naming both.
            else:
                only_tensors = False
        if graph is None or not only_tensors:
            graph = graph_of(inputs)
            if graph._executes:
                return graph.execute(prepared, inputs, attrs, name)  # type: ignore[attr-defined]

    full_name = _full_name(graph, name, op_type)
    try:
        if only_tensors:
            tensors, values, types = resolve_prepared(prepared, inputs, attrs, None, Tensor, full_name)
        else:
            tensors, values, types = _resolve_in_scope(graph, full_name, prepared, inputs, attrs)
    except (TypeError, ValueError):
        others = _exchanged_inputs(prepared, inputs)
        if all(a is b for a, b in zip(others, inputs, strict=True)):
            raise
        tensors, values, types = _resolve_in_scope(graph, full_name, prepared, others, attrs)
    # Frames of no interest in a traceback: add_operation, this function, and `apply` or another caller of this one.
    op = graph.add_operation(prepared.op_def, tensors, values, full_name, types, skip_frames=4)
    if prepared.one_output:
        return op.outputs[0]
    return prepared.results(op.outputs, values) if prepared.op_def.outputs else op


def _exchanged_inputs(prepared: PreparedOp, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of an op that refuses them, with values in the place of variables' handles, and the reverse."""
    return tuple(
        exchanged(value, fixed is resource) if type(value) is Tensor else value
        for (_, _, fixed, _), value in zip(prepared.args, inputs, strict=True)
    )


def _full_name(graph: Graph, name: str | bytes | None, op_type: str) -> str:
    if not name:
        return graph.unique_name(op_type)
    if isinstance(name, bytes):
        name = name.decode()
    if name[-1] == "/":
        return name[:-1]
    stack = graph._scopes.name_stack
    if not VALID_OP_NAME.match(name if not stack else f"{stack}/{name}"):
        raise ValueError(f"'{name}' is not a valid node name: it must match {VALID_OP_NAME.pattern}")
    return graph.unique_name(name)


def _resolve_in_scope(
    graph: Graph, name: str, prepared: PreparedOp, inputs: tuple[Any, ...], attrs: dict[str, Any]
) -> tuple[Sequence[Tensor], dict[str, Any], Sequence[DType]]:
    """Resolves an op whose inputs are not all tensors: constants go to its graph, with its name as their scope."""
    state = graph._scopes
    outer = state.name_stack
    scope = None if get_default_graph() is graph else default_graph_scope(graph)
    if scope is not None:
        scope.__enter__()
    state.name_stack = name
    try:
        return resolve_prepared(prepared, inputs, attrs, convert, Tensor, name)
    finally:
        state.name_stack = outer
        if scope is not None:
            scope.__exit__()
