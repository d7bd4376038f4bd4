"""Op definitions as TensorFlow's OpDef protobufs: a MetaGraphDef lists the ops that its graph uses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.graph.definitions.op_registry import OpDef, is_defined, op_def
from thalweg.graph.definitions.op_signature import ArgDef, AttrDef
from thalweg.graph.messages.attr_values import write_attr


def op_def_proto(definition: OpDef) -> Any:
    """The OpDef protobuf of a definition."""
    from tensorboard.compat.proto.op_def_pb2 import OpDef as OpDefProto  # Start-up time: protobuf is slow to import.

    proto = OpDefProto(
        name=definition.name,
        is_stateful=definition.stateful,
        is_commutative=definition.commutative,
        is_aggregate=definition.aggregate,
        allows_uninitialized_input=definition.allows_uninitialized,
    )
    for arg in definition.inputs:
        _write_arg(proto.input_arg.add(), arg)
    for arg in definition.outputs:
        _write_arg(proto.output_arg.add(), arg)
    for attr in definition.attrs.values():
        _write_attr_def(proto.attr.add(), attr)
    return proto


def _write_arg(proto: Any, arg: ArgDef) -> None:
    proto.name = arg.name
    proto.is_ref = arg.is_ref
    if arg.dtype is not None:
        proto.type = arg.dtype.as_datatype_enum
    for field, value in (
        ("type_attr", arg.type_attr),
        ("number_attr", arg.number_attr),
        ("type_list_attr", arg.type_list_attr),
    ):
        if value is not None:
            setattr(proto, field, value)


def _write_attr_def(proto: Any, attr: AttrDef) -> None:
    proto.name = attr.name
    proto.type = attr.kind
    if attr.has_default:
        write_attr(proto.default_value, attr.kind, attr.default)
    if attr.minimum is not None:
        proto.has_minimum = True
        proto.minimum = attr.minimum
    if attr.allowed is not None:
        kind = "list(string)" if isinstance(attr.allowed[0], bytes) else "list(type)"
        write_attr(proto.allowed_values, kind, list(attr.allowed))


def op_list(op_types: Iterable[str]) -> Any:
    """An OpList of those of the op types that are defined, ordered by name."""
    from tensorboard.compat.proto.op_def_pb2 import OpList  # Start-up time: protobuf is slow to import.

    return OpList(op=[op_def_proto(op_def(name)) for name in sorted(set(op_types)) if is_defined(name)])


def strip_default_attrs(graph_def: Any) -> None:
    """Removes attributes that have their default, so that programs which do not know them can read the GraphDef."""
    from tensorboard.compat.proto.attr_value_pb2 import AttrValue  # Start-up time: protobuf is slow to import.

    defaults: dict[str, dict[str, bytes]] = {}
    for node in graph_def.node:
        if not is_defined(node.op):
            continue
        known = defaults.get(node.op)
        if known is None:
            known = defaults[node.op] = {}
            for attr in op_def(node.op).attrs.values():
                if attr.has_default:
                    value = AttrValue()
                    write_attr(value, attr.kind, attr.default)
                    known[attr.name] = value.SerializeToString(deterministic=True)
        for name, default in known.items():
            if name in node.attr and node.attr[name].SerializeToString(deterministic=True) == default:
                del node.attr[name]
