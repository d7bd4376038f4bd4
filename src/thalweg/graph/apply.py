"""apply(): the one seam through which every op function reaches the graph.

An op function names the op type, its inputs and attributes; `apply` finds the graph, converts the inputs, infers the
attributes that follow from them, checks all of it, and adds the node. Eager execution will branch off here.

What can be known from the definition alone is prepared once per op type (a Plan), because programs build graphs of
tens of thousands of nodes: tensors of matching type, the common case, take a path without any conversion.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thalweg.graph.constant_values import as_array
from thalweg.graph.conversion import convert, is_tensor_like
from thalweg.graph.default_graph import get_default_graph, graph_of
from thalweg.graph.default_stack import default_graph_scope, default_graphs
from thalweg.graph.definitions.attr_conversion import CONVERTERS, check_attr, convert_attr
from thalweg.graph.definitions.op_registry import _OPS, OpDef, op_def
from thalweg.graph.definitions.op_signature import ArgDef
from thalweg.graph.dtypes import DType
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation, output_dtypes
from thalweg.graph.scopes import VALID_OP_NAME
from thalweg.graph.tensor import Tensor


class Plan:
    """A definition, prepared for `apply`.

    Attributes:
        num_inputs: How many arguments it takes.
        simple: Whether each of them is one tensor (no lists).
        args: (argument, its type attribute or None, fixed type or None, allowed types or None), in order.
        defaults: Attributes that are neither inferred nor required, with their values.
        uniform: The type attribute that all inputs share, if each is one tensor of that type; or None.
        allowed: What that attribute can be; None for anything.
        single_output: The type attribute of the only output, or None if there is another number of outputs.
        result: None, or the namedtuple class of the results.
    """

    __slots__ = (
        "allowed", "args", "defaults", "num_attrs", "num_inputs", "op_def", "result", "simple", "single_output",
        "uniform",
    )  # fmt: skip

    def __init__(self, op: OpDef) -> None:
        """Prepares a definition."""
        self.op_def = op
        self.num_inputs = len(op.inputs)
        self.num_attrs = len(op.attrs)
        self.simple = all(arg.number_attr is None and arg.type_list_attr is None for arg in op.inputs)
        self.args: list[tuple[ArgDef, str | None, DType | None, frozenset[DType] | None]] = []
        inferred: dict[str, None] = {}
        for arg in op.inputs:
            allowed = op.attrs[arg.type_attr].allowed if arg.type_attr is not None else None
            self.args.append((arg, arg.type_attr, arg.dtype, None if allowed is None else frozenset(allowed)))
            for attr in (arg.type_attr, arg.number_attr, arg.type_list_attr):
                if attr is not None:
                    inferred[attr] = None
        types = {arg.type_attr for arg in op.inputs}
        self.uniform = next(iter(types)) if self.simple and len(types) == 1 else None
        self.allowed = self.args[0][3] if self.uniform is not None else None
        self.defaults = {n: attr.default for n, attr in op.attrs.items() if attr.has_default and n not in inferred}
        outputs = op.outputs
        only = outputs[0] if len(outputs) == 1 else None
        self.single_output = (
            only.type_attr if only is not None and only.number_attr is None and not only.is_ref else None
        )
        self.result: Any = None
        if len(outputs) > 1:
            self.result = collections.namedtuple(op.name, [arg.name for arg in outputs], rename=True)  # type: ignore[misc]


# Sees an operation before it is made, and may put something else in its place; NotImplemented to let it be.
Interceptor = Callable[[str, tuple[Any, ...], "str | None", dict[str, Any]], Any]


class _Interception(threading.local):
    innermost: Interceptor | None = None


_interception = _Interception()


@contextmanager
def intercepted(interceptor: Interceptor) -> Iterator[None]:
    """A block in which this thread's operations pass through `interceptor`, innermost blocks first.

    What the interceptor itself applies passes through the blocks around this one only.
    """
    outer = _interception.innermost

    def innermost(op_type: str, inputs: tuple[Any, ...], name: str | None, attrs: dict[str, Any]) -> Any:
        _interception.innermost = outer
        try:
            made = interceptor(op_type, inputs, name, attrs)
            if made is NotImplemented and outer is not None:
                made = outer(op_type, inputs, name, attrs)
        finally:
            _interception.innermost = innermost
        return made

    _interception.innermost = innermost
    try:
        yield
    finally:
        _interception.innermost = outer


@contextmanager
def not_intercepted() -> Iterator[None]:
    """A block whose operations are made as they are, whatever blocks are around it."""
    outer, _interception.innermost = _interception.innermost, None
    try:
        yield
    finally:
        _interception.innermost = outer


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
    if _interception.innermost is not None:
        made = _interception.innermost(op_type, inputs, name, attrs)
        if made is not NotImplemented:
            return made
    definition = _OPS.get(op_type) or op_def(op_type)
    plan: Plan | None = definition.plan
    if plan is None:
        plan = definition.plan = Plan(definition)
    if len(inputs) != plan.num_inputs:
        raise TypeError(
            f"'{op_type}' Op takes {plan.num_inputs} inputs ({', '.join(a.name for a in definition.inputs)}), "
            f"got {len(inputs)}."
        )
    graph: Graph | None = None
    only_tensors = plan.simple
    stack = default_graphs.stack
    if stack and stack[-1]._building_function:
        graph = stack[-1]
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

    full_name = _full_name(graph, name, op_type)
    values = plan.defaults.copy()
    if attrs:
        _set_attrs(definition, attrs, values)
    if only_tensors:
        tensors: Any = inputs
        if plan.uniform is None or plan.uniform in values:
            _infer_types(plan, inputs, values, full_name)
        else:
            dtype = inputs[0].dtype.base_dtype
            values[plan.uniform] = dtype
            if plan.allowed is not None and dtype not in plan.allowed:
                raise TypeError(_not_allowed(plan, definition.inputs[0], dtype, full_name))
            for tensor in inputs:
                if tensor.dtype is not dtype and tensor.dtype.base_dtype is not dtype:
                    _infer_types(plan, inputs, values, full_name)  # Raises, naming both.
    else:
        tensors = _convert_inputs(plan, graph, full_name, inputs, values)
    if len(values) != plan.num_attrs:
        _complete(definition, values)

    if plan.single_output is not None:
        op = graph.add_operation(definition, tensors, values, full_name, (values[plan.single_output],))
        return op.outputs[0]
    op = graph.add_operation(definition, tensors, values, full_name, output_dtypes(definition, values))
    return _result(plan, op)


def _full_name(graph: Graph, name: str | None, op_type: str) -> str:
    if not name:
        return graph.unique_name(op_type)
    if name[-1] == "/":
        return name[:-1]
    stack = graph._scopes.name_stack
    if not VALID_OP_NAME.match(name if not stack else f"{stack}/{name}"):
        raise ValueError(f"'{name}' is not a valid node name: it must match {VALID_OP_NAME.pattern}")
    return graph.unique_name(name)


def _set_attrs(definition: OpDef, attrs: dict[str, Any], values: dict[str, Any]) -> None:
    declared = definition.attrs
    for key, value in attrs.items():
        attr = declared.get(key)
        if attr is None:
            if key[0] != "_":
                raise TypeError(
                    f"'{definition.name}' Op got an unexpected attribute '{key}'; it has: {', '.join(declared)}."
                )
            raise TypeError(f"'{definition.name}' Op: attribute '{key}' is private; use Graph._attr_scope.")
        if value is None and attr.has_default:
            continue
        converter = CONVERTERS.get(attr.kind)
        value = convert_attr(definition, attr, value) if converter is None else converter(definition, attr, value)
        if attr.allowed is not None or attr.minimum is not None:
            check_attr(definition, attr, value)
        values[key] = value


def _infer_types(plan: Plan, inputs: tuple[Tensor, ...], values: dict[str, Any], name: str) -> None:
    for (arg, type_attr, fixed, allowed), tensor in zip(plan.args, inputs, strict=True):
        dtype = tensor.dtype.base_dtype
        if type_attr is None:
            if dtype is not fixed:
                raise TypeError(_wrong_fixed_type(plan, arg, dtype))
            continue
        known = values.get(type_attr)
        if known is None:
            if allowed is not None and dtype not in allowed:
                raise TypeError(_not_allowed(plan, arg, dtype, name))
            values[type_attr] = dtype
        elif known is not dtype:
            raise TypeError(_mismatch(plan, arg, dtype, known))


def _convert_inputs(
    plan: Plan, graph: Graph, name: str, inputs: tuple[Any, ...], values: dict[str, Any]
) -> list[Tensor]:
    """Converts inputs that are not all tensors; constants get the op's name as their scope."""
    state = graph._scopes
    outer = state.name_stack
    scope = None if get_default_graph() is graph else default_graph_scope(graph)
    if scope is not None:
        scope.__enter__()
    state.name_stack = name
    try:
        _types_from_tensors(plan, inputs, values)
        tensors: list[Tensor] = []
        for (arg, _, _, _), value in zip(plan.args, inputs, strict=True):
            if arg.number_attr is not None:
                tensors.extend(_convert_same_type_list(plan, arg, value, values))
            elif arg.type_list_attr is not None:
                tensors.extend(_convert_mixed_list(plan, arg, value, values))
            elif type(value) is Tensor and value.dtype is values.get(arg.type_attr or "", arg.dtype):
                tensors.append(value)
            else:
                tensors.append(_convert_one(plan, arg, value, values))
        _check_inferred(plan, values, name)
        return tensors
    finally:
        state.name_stack = outer
        if scope is not None:
            scope.__exit__()


def _types_from_tensors(plan: Plan, inputs: tuple[Any, ...], values: dict[str, Any]) -> None:
    """Lets the tensors among the arguments decide the types, so that Python values can follow them."""
    for (arg, type_attr, _, _), value in zip(plan.args, inputs, strict=True):
        if type_attr is None or type_attr in values:
            continue
        if type(value) is Tensor:
            values[type_attr] = value.dtype.base_dtype
            continue
        candidates = value if arg.number_attr is not None and isinstance(value, (list, tuple)) else (value,)
        for candidate in candidates:
            dtype = getattr(candidate, "dtype", None)
            if type(dtype) is DType and is_tensor_like(candidate):
                values[type_attr] = dtype.base_dtype
                break


def _wanted_type(plan: Plan, arg: ArgDef, values: dict[str, Any]) -> tuple[DType | None, DType | None]:
    """The type that an argument must have, and the one to try first if any will do."""
    if arg.type_attr is None:
        return arg.dtype, None
    return values.get(arg.type_attr), plan.op_def.attrs[arg.type_attr].default


def _convert_one(plan: Plan, arg: ArgDef, value: Any, values: dict[str, Any]) -> Tensor:
    wanted, preferred = _wanted_type(plan, arg, values)
    tensor = _convert_value(plan, arg, value, wanted, preferred, arg.name)
    if arg.type_attr is not None and wanted is None:
        values[arg.type_attr] = tensor.dtype.base_dtype
    return tensor


def _convert_value(
    plan: Plan, arg: ArgDef, value: Any, wanted: DType | None, preferred: DType | None, name: str
) -> Tensor:
    try:
        return convert(value, wanted, name, preferred, arg.is_ref)
    except (TypeError, ValueError) as e:
        if value is None:
            raise ValueError(
                f"Tried to convert '{name}' to a tensor and failed. Error: None values not supported."
            ) from None
        found = _type_without_wish(value) if wanted is not None else None
        if found is None or found is wanted:
            raise
        if arg.type_attr is None:
            raise TypeError(f"{_wrong_fixed_type(plan, arg, found)} ({e})") from None
        assert wanted is not None
        raise TypeError(_mismatch(plan, arg, found, wanted)) from None


def _type_without_wish(value: Any) -> DType | None:
    """The type that a value would have had on its own: for error messages."""
    try:
        dtype = getattr(value, "dtype", None)
        return dtype.base_dtype if type(dtype) is DType else as_array(value)[1]
    except (TypeError, ValueError):
        return None


def _convert_same_type_list(plan: Plan, arg: ArgDef, value: Any, values: dict[str, Any]) -> list[Tensor]:
    assert arg.number_attr is not None
    op = plan.op_def
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{op.name}' Op, not {value!r}.")
    known = values.get(arg.number_attr)
    if known is not None and known != len(value):
        raise ValueError(
            f"List argument '{arg.name}' to '{op.name}' Op with length {len(value)} must match length {known} "
            "of attribute "
            f"'{arg.number_attr}'."
        )
    minimum = op.attrs[arg.number_attr].minimum
    if minimum is not None and len(value) < minimum:
        raise ValueError(
            f"List argument '{arg.name}' to '{op.name}' Op with length {len(value)} shorter than minimum "
            f"length {minimum}."
        )
    values[arg.number_attr] = len(value)
    tensors: list[Tensor] = []
    for i, item in enumerate(value):
        wanted, preferred = _wanted_type(plan, arg, values)
        try:
            tensor = convert(item, wanted, f"{arg.name}_{i}", preferred)
        except (TypeError, ValueError):
            if item is None or (wanted is None or _type_without_wish(item) in (None, wanted)):
                raise
            types = ", ".join((_type_without_wish(v) or wanted).name for v in value)
            raise TypeError(
                f"Tensors in list passed to '{arg.name}' of '{op.name}' Op have types [{types}] that don't all match."
            ) from None
        if arg.type_attr is not None and wanted is None:
            values[arg.type_attr] = tensor.dtype.base_dtype
        tensors.append(tensor)
    return tensors


def _convert_mixed_list(plan: Plan, arg: ArgDef, value: Any, values: dict[str, Any]) -> list[Tensor]:
    assert arg.type_list_attr is not None
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{arg.name}' argument to '{plan.op_def.name}' Op, not {value!r}.")
    types = values.get(arg.type_list_attr)
    if types is not None and len(types) != len(value):
        raise ValueError(
            f"List argument '{arg.name}' to '{plan.op_def.name}' Op with length {len(value)} must match the "
            f"{len(types)} types "
            f"of attribute '{arg.type_list_attr}'."
        )
    tensors = [
        _convert_value(plan, arg, item, types[i] if types is not None else None, None, f"{arg.name}_{i}")
        for i, item in enumerate(value)
    ]
    values[arg.type_list_attr] = [tensor.dtype.base_dtype for tensor in tensors]
    return tensors


def _check_inferred(plan: Plan, values: dict[str, Any], name: str) -> None:
    for arg, type_attr, _, allowed in plan.args:
        if type_attr is not None and allowed is not None and values.get(type_attr) not in allowed:
            dtype = values.get(type_attr)
            if dtype is not None:
                raise TypeError(_not_allowed(plan, arg, dtype, name))
        if arg.type_list_attr is not None:
            check_attr(plan.op_def, plan.op_def.attrs[arg.type_list_attr], values[arg.type_list_attr])


def _complete(definition: OpDef, values: dict[str, Any]) -> None:
    """Fills attributes that an empty list left open; refuses nodes that lack a required one."""
    for key, attr in definition.attrs.items():
        if key in values:
            continue
        if not attr.has_default:
            raise TypeError(f"'{definition.name}' Op needs the attribute '{key}' ({attr.kind}), which is not given.")
        values[key] = attr.default


def _result(plan: Plan, op: Operation) -> Any:
    args = plan.op_def.outputs
    if not args:
        return op
    if len(args) == 1:
        listed = args[0].number_attr is not None or args[0].type_list_attr is not None
        return list(op.outputs) if listed else op.outputs[0]
    results: list[Any] = []
    start = 0
    for arg in args:
        if arg.number_attr is None and arg.type_list_attr is None:
            results.append(op.outputs[start])
            start += 1
            continue
        length = op.attrs[arg.number_attr] if arg.number_attr is not None else len(op.attrs[arg.type_list_attr or ""])
        results.append(list(op.outputs[start : start + length]))
        start += length
    return plan.result(*results)


def _wrong_fixed_type(plan: Plan, arg: ArgDef, dtype: DType) -> str:
    expected = arg.dtype.name if arg.dtype is not None else arg.type_attr
    prefix = f"Input '{arg.name}' of '{plan.op_def.name}' Op has type {dtype.name}"
    return f"{prefix} that does not match expected type of {expected}."


def _mismatch(plan: Plan, arg: ArgDef, dtype: DType, known: DType) -> str:
    first = next((other.name for other in plan.op_def.inputs if other.type_attr == arg.type_attr), arg.name)
    against = f"argument '{first}'" if first != arg.name else f"attribute '{arg.type_attr}'"
    prefix = f"Input '{arg.name}' of '{plan.op_def.name}' Op has type {dtype.name}"
    return f"{prefix} that does not match type {known.name} of {against}."


def _not_allowed(plan: Plan, arg: ArgDef, dtype: DType, name: str) -> str:
    allowed = plan.op_def.attrs[arg.type_attr or ""].allowed or ()
    return (
        f"Value passed to parameter '{arg.name}' has DataType {dtype.name} not in list of allowed values: "
        f"{', '.join(t.name for t in allowed)} (op '{plan.op_def.name}', node '{name}')"
    )
