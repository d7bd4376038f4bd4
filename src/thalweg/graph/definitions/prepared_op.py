"""PreparedOp: a definition in the form that resolving an op needs, computed once per op type.

Programs build graphs of tens of thousands of nodes: everything that follows from the definition alone is computed once.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from thalweg.graph.definitions.op_registry import _OPS, OpDef, op_def
from thalweg.graph.definitions.op_signature import ArgDef
from thalweg.graph.dtypes import DType

_MOST_OUTPUTS = 1 << 20


class PreparedOp:
    """A definition, prepared for `graph.resolve`.

    Attributes:
        op_def: The definition.
        num_inputs: How many arguments it takes.
        simple: Whether each of them is one tensor (no lists).
        num_lists: How many of them are lists.
        args: (argument, its type attribute or None, fixed type or None, allowed types or None), in order.
        defaults: Attributes that are neither inferred nor required, with their values.
        num_attrs: How many attributes a node has.
        uniform: The type attribute that all inputs share, if each is one tensor of that type; or None.
        allowed: What that attribute can be; None for anything.
        one_output: Whether there is one output, and it is one tensor.
        output_attr: The type attribute that decides the type of that output; or None.
        output_types: The types of the outputs where no attribute decides them; or None.
        result: None, or the namedtuple class of the results.
    """

    __slots__ = (
        "allowed", "args", "defaults", "num_attrs", "num_inputs", "num_lists", "one_output", "op_def", "output_attr",
        "output_types", "result", "simple", "uniform",
    )  # fmt: skip

    def __init__(self, op: OpDef) -> None:
        """Prepares a definition."""
        self.op_def = op
        self.num_inputs = len(op.inputs)
        self.num_attrs = len(op.attrs)
        self.num_lists = sum(map(_is_list, op.inputs))
        self.simple = self.num_lists == 0
        self.args: list[tuple[ArgDef, str | None, DType | None, frozenset[DType] | None]] = []
        inferred: set[str | None] = set()
        for arg in op.inputs:
            allowed = op.attrs[arg.type_attr].allowed if arg.type_attr is not None else None
            self.args.append((arg, arg.type_attr, arg.dtype, None if allowed is None else frozenset(allowed)))
            inferred.update((arg.type_attr, arg.number_attr, arg.type_list_attr))
        types = {arg.type_attr for arg in op.inputs}
        self.uniform = next(iter(types)) if self.simple and len(types) == 1 else None
        self.allowed = self.args[0][3] if self.uniform is not None else None
        self.defaults = {n: attr.default for n, attr in op.attrs.items() if attr.has_default and n not in inferred}
        outputs = op.outputs
        self.one_output = len(outputs) == 1 and not _is_list(outputs[0])
        self.output_attr = outputs[0].type_attr if self.one_output and not outputs[0].is_ref else None
        fixed = all(arg.dtype is not None and not _is_list(arg) for arg in outputs)
        self.output_types = tuple(output_dtypes(op, {})) if fixed else None
        self.result: Any = None
        if len(outputs) > 1:
            self.result = collections.namedtuple(op.name, [arg.name for arg in outputs], rename=True)  # type: ignore[misc]

    def results(self, outputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        """The outputs as an op function gets them.

        Args:
            outputs: All outputs, lists flattened: at least one.
            attrs: The attributes of the node, which tell the lengths of lists.

        Returns:
            The output; a list for an output that is a list; a namedtuple if the definition names several.
        """
        args = self.op_def.outputs
        if self.one_output:
            return outputs[0]
        if len(args) == 1:
            return list(outputs)
        results: list[Any] = []
        start = 0
        for arg in args:
            if not _is_list(arg):
                results.append(outputs[start])
                start += 1
                continue
            length = attrs[arg.number_attr] if arg.number_attr is not None else len(attrs[arg.type_list_attr or ""])
            results.append(list(outputs[start : start + length]))
            start += length
        return self.result(*results)

    # Errors about the types of inputs. The texts are those that TensorFlow's users know.

    def wrong_fixed_type(self, arg: ArgDef, dtype: DType, reason: str = "") -> TypeError:
        """The error for an input of another type than the one that the definition names."""
        expected = arg.dtype.name if arg.dtype is not None else arg.type_attr
        prefix = f"Input '{arg.name}' of '{self.op_def.name}' Op has type {dtype.name}"
        return TypeError(f"{prefix} that does not match expected type of {expected}.{reason}")

    def mismatch(self, arg: ArgDef, dtype: DType, known: DType) -> TypeError:
        """The error for an input of another type than an earlier input or an attribute asks for."""
        first = next((other.name for other in self.op_def.inputs if other.type_attr == arg.type_attr), arg.name)
        against = f"argument '{first}'" if first != arg.name else f"attribute '{arg.type_attr}'"
        prefix = f"Input '{arg.name}' of '{self.op_def.name}' Op has type {dtype.name}"
        return TypeError(f"{prefix} that does not match type {known.name} of {against}.")

    def not_allowed(self, arg: ArgDef, dtype: DType, node: str) -> TypeError:
        """The error for an input of a type that the op does not take."""
        allowed = self.op_def.attrs[arg.type_attr or ""].allowed or ()
        return TypeError(
            f"Value passed to parameter '{arg.name}' has DataType {dtype.name} not in list of allowed values: "
            f"{', '.join(t.name for t in allowed)} (op '{self.op_def.name}', node '{node}')"
        )


def _is_list(arg: ArgDef) -> bool:
    return arg.number_attr is not None or arg.type_list_attr is not None


def prepare(op_type: str, inputs: tuple[Any, ...]) -> PreparedOp:
    """The prepared definition of an op type that gets these arguments.

    Raises:
        errors.NotFoundError: If there is no such op.
        TypeError: If it takes another number of arguments.
    """
    definition = _OPS.get(op_type) or op_def(op_type)
    prepared: PreparedOp | None = definition.prepared
    if prepared is None:
        prepared = definition.prepared = PreparedOp(definition)
    if len(inputs) != prepared.num_inputs:
        raise TypeError(
            f"'{op_type}' Op takes {prepared.num_inputs} inputs ({', '.join(a.name for a in definition.inputs)}), "
            f"got {len(inputs)}."
        )
    return prepared


def output_dtypes(op: OpDef, attrs: dict[str, Any]) -> Sequence[DType]:
    """The types of all outputs of a node with these attributes, lists flattened."""
    types: list[DType] = []
    for arg in op.outputs:
        if arg.type_list_attr is not None:
            types.extend(attrs[arg.type_list_attr])
            continue
        dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr or ""]
        dtype = dtype._as_ref if arg.is_ref else dtype
        count = attrs[arg.number_attr] if arg.number_attr is not None else 1
        if count > _MOST_OUTPUTS:
            raise ValueError(
                f"Attr '{arg.number_attr}' of op '{op.name}' asks for {count} outputs; the most is {_MOST_OUTPUTS}."
            )
        types.extend([dtype] * count)
    return types
