"""Nodes of a GraphDef, checked one by one: inputs parsed, attributes read and completed, types worked out.

Nothing here touches a graph. Every error is a ValueError (NotFoundError for an unknown op type) that names the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from thalweg import errors
from thalweg.graph.definitions.attr_conversion import check_attr
from thalweg.graph.definitions.op_registry import OpDef, is_defined, op_def
from thalweg.graph.definitions.prepared_op import output_dtypes
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.formats.old_op_types import current_op_type
from thalweg.graph.messages.attr_values import read_any, read_attr
from thalweg.graph.scopes import VALID_OP_NAME
from thalweg.graph.tensor_shape import TensorShape

Source = tuple[str, int]
"""A data input as the NodeDef names it: node and output."""

# Up to this version of GraphDefs, a placeholder of any shape was written with the shape of a scalar.
_NO_SCALAR_PLACEHOLDERS: Final = 21

_MAX_LIST: Final = 2**20  # Outputs of one node; more can only come from a damaged file.


class ImportedNode(NamedTuple):
    """A NodeDef in the form that `Graph.add_operation` takes."""

    name: str
    op_def: OpDef
    inputs: list[Source]
    controls: list[str]
    attrs: dict[str, Any]
    input_types: list[DType]
    output_types: Sequence[DType]
    device: str
    shape_hints: list[Any] | None


def node_error(name: str, message: object) -> ValueError:
    """An error about one node."""
    return ValueError(f"Node '{name}': {message}")


def parse_tensor_name(text: str) -> Source:
    """Splits 'name:3' into name and output; 'name' alone means output 0. Text that is neither stays a name."""
    name, colon, index = text.rpartition(":")
    if colon and index.isascii() and index.isdecimal() and len(index) < 10:
        return name, int(index)
    return text, 0


class NodeReader:
    """Reads the nodes of one GraphDef.

    Args:
        functions: The library of functions, by name: nodes may have them as their op types.
        producer_op_list: An OpList with the ops as the program that wrote it knew them, or None.
        producer: The version of the GraphDef; 0 for one that was written before there were versions.
    """

    def __init__(self, functions: Mapping[str, Any], producer_op_list: Any, producer: int) -> None:
        self._functions = functions
        self._producer = producer
        self._producer_ops = {} if producer_op_list is None else {op.name: op for op in producer_op_list.op}

    def read(self, node: Any) -> ImportedNode:
        """Reads one NodeDef."""
        name = node.name
        if not VALID_OP_NAME.fullmatch(name):
            raise node_error(name, f"Node name contains invalid characters: it must match {VALID_OP_NAME.pattern}")
        definition = self._definition(node)
        inputs, controls = _parse_inputs(name, node.input)
        attrs, hints = self._read_attrs(node, definition)
        input_types = _input_types(name, definition, attrs, len(inputs))
        _check_output_lists(name, definition, attrs)
        return ImportedNode(
            name, definition, inputs, controls, attrs, input_types, output_dtypes(definition, attrs), node.device, hints
        )

    def _definition(self, node: Any) -> OpDef:
        if is_defined(node.op):
            return op_def(node.op)
        if node.op in self._functions:
            signature: OpDef = self._functions[node.op].signature
            return signature
        try:
            return op_def(current_op_type(node.op))
        except errors.NotFoundError as e:
            raise errors.NotFoundError(None, None, f"{e.message} (op '{node.op}' of node '{node.name}')") from None

    def _read_attrs(self, node: Any, definition: OpDef) -> tuple[dict[str, Any], list[Any] | None]:
        declared = definition.attrs
        attrs: dict[str, Any] = {}
        hints: list[Any] | None = None
        for key, value in node.attr.items():
            try:
                attr = declared.get(key)
                if attr is not None:
                    found = read_attr(value, attr.kind)
                    if attr.allowed is not None or attr.minimum is not None:
                        check_attr(definition, attr, found)
                    attrs[key] = found
                elif key == "_output_shapes":
                    hints = read_attr(value, "list(shape)")
                elif key[:1] == "_":
                    attrs[key] = read_any(value)
                elif not self._may_drop(node.op, key, value):
                    raise ValueError(
                        f"NodeDef mentions attr '{key}', which op '{definition.name}' does not have here (it has: "
                        f"{', '.join(declared) or 'none'}), with a value that is not its default: the program that "
                        "wrote this GraphDef knows more of the op"
                    )
            except (ValueError, TypeError) as e:
                raise node_error(node.name, f"{str(e).rstrip('.')} for attr '{key}' (op: '{definition.name}')") from e
        if len(attrs) < len(declared) or any(key not in attrs for key in declared):
            _add_defaults(node, definition, attrs)
        if definition.name == "Const":
            _check_constant(node.name, attrs)
        elif definition.name == "Placeholder" and self._means_any_shape(attrs["shape"]):
            attrs["shape"], hints = TensorShape(None), None
        return attrs, hints

    def _means_any_shape(self, shape: TensorShape) -> bool:
        return self._producer <= _NO_SCALAR_PLACEHOLDERS and shape.ndims == 0

    def _may_drop(self, op_type: str, key: str, value: Any) -> bool:
        """Whether an attribute that the op does not have here changes nothing."""
        producer = self._producer_ops.get(op_type)
        for attr in producer.attr if producer is not None else ():
            if attr.name == key and attr.HasField("default_value"):
                return bool(attr.default_value.SerializeToString() == value.SerializeToString())
        # Attributes that TensorFlow adds to existing ops are off by default: False, 0, '' or [].
        field = value.WhichOneof("value")
        if field == "list":
            return not value.list.ListFields()
        return field is None or (field in ("b", "i", "f", "s", "type") and not getattr(value, field))


def _add_defaults(node: Any, definition: OpDef, attrs: dict[str, Any]) -> None:
    for key, attr in definition.attrs.items():
        if key in attrs:
            continue
        if not attr.has_default:
            raise node_error(node.name, f"NodeDef missing attr '{key}' ({attr.kind}) of op '{definition.name}'")
        attrs[key] = attr.default


def _check_constant(name: str, attrs: dict[str, Any]) -> None:
    found = as_dtype(attrs["value"].dtype)
    if found is not attrs["dtype"]:
        raise node_error(name, f"attr 'dtype' is {attrs['dtype'].name}, but attr 'value' holds {found.name}")


def _parse_inputs(name: str, texts: Any) -> tuple[list[Source], list[str]]:
    inputs: list[Source] = []
    controls: dict[str, None] = {}
    for text in texts:
        if text[:1] == "^":
            controls[text[1:]] = None
        elif controls:
            raise node_error(
                name, f"Control dependencies must come after regular dependencies, but '{text}' follows one"
            )
        else:
            inputs.append(parse_tensor_name(text))
    return inputs, list(controls)


def _input_types(name: str, definition: OpDef, attrs: dict[str, Any], count: int) -> list[DType]:
    types: list[DType] = []
    for arg in definition.inputs:
        if arg.type_list_attr is not None:
            types.extend(attrs[arg.type_list_attr])
            continue
        dtype = arg.dtype if arg.dtype is not None else attrs[arg.type_attr or ""]
        number = 1 if arg.number_attr is None else attrs[arg.number_attr]
        if not 0 <= number <= count:  # Also keeps an absurd number from becoming a list of that length.
            raise node_error(
                name,
                f"attr '{arg.number_attr}' asks for {number} inputs '{arg.name}', but the node has {count} inputs"
                if arg.number_attr is not None
                else f"NodeDef expected input '{arg.name}' of op '{definition.name}', but the node has {count} inputs",
            )
        types.extend([dtype._as_ref if arg.is_ref else dtype] * number)
    if len(types) != count:
        raise node_error(
            name,
            f"NodeDef expected inputs '{', '.join(t.name for t in types[:20])}' ({len(types)}) do not match {count} "
            f"inputs specified (op: '{definition.name}')",
        )
    return types


def _check_output_lists(name: str, definition: OpDef, attrs: dict[str, Any]) -> None:
    for arg in definition.outputs:
        if arg.number_attr is not None and not 0 <= attrs[arg.number_attr] <= _MAX_LIST:
            raise node_error(name, f"attr '{arg.number_attr}' asks for {attrs[arg.number_attr]} outputs '{arg.name}'")
