"""The protobuf messages of control-flow contexts, made at run time: the tensorboard package does not ship them.

Field names and numbers are TensorFlow's, so that serialized MetaGraphs move both ways.
"""

from __future__ import annotations

import functools
from typing import Any, Final

# name, number, kind; "*" before a kind means repeated.
_FIELDS: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "ValuesDef": (("values", 1, "*string"), ("external_values", 2, "*ValuesDef.ExternalValuesEntry")),
    "ControlFlowContextDef": (("cond_ctxt", 1, "CondContextDef"), ("while_ctxt", 2, "WhileContextDef")),
    "CondContextDef": (
        ("context_name", 1, "string"),
        ("pred_name", 2, "string"),
        ("pivot_name", 3, "string"),
        ("branch", 4, "int32"),
        ("values_def", 5, "ValuesDef"),
        ("nested_contexts", 6, "*ControlFlowContextDef"),
    ),
    "WhileContextDef": (
        ("context_name", 1, "string"),
        ("parallel_iterations", 2, "int32"),
        ("back_prop", 3, "bool"),
        ("swap_memory", 4, "bool"),
        ("pivot_name", 5, "string"),
        ("pivot_for_pred_name", 6, "string"),
        ("pivot_for_body_name", 7, "string"),
        ("loop_exit_names", 8, "*string"),
        ("values_def", 9, "ValuesDef"),
        ("loop_enter_names", 10, "*string"),
        ("maximum_iterations_name", 11, "string"),
        ("nested_contexts", 12, "*ControlFlowContextDef"),
    ),
}
_PACKAGE: Final = "thalweg"


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes by name."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="thalweg/control_flow.proto", package=_PACKAGE, syntax="proto3")
    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"string": kinds.TYPE_STRING, "int32": kinds.TYPE_INT32, "bool": kinds.TYPE_BOOL}

    def add(message: Any, name: str, number: int, kind: str) -> Any:
        repeated, kind = kind.startswith("*"), kind.lstrip("*")
        field = message.field.add(name=name, number=number)
        field.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        field.type = scalars.get(kind, kinds.TYPE_MESSAGE)
        if kind not in scalars:
            field.type_name = f".{_PACKAGE}.{kind}"
        return field

    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields:
            add(message, *field)
        if name == "ControlFlowContextDef":
            message.oneof_decl.add(name="ctxt")
            for made in message.field:
                made.oneof_index = 0
        if name == "ValuesDef":
            entry = message.nested_type.add(name="ExternalValuesEntry")
            entry.options.map_entry = True
            add(entry, "key", 1, "string")
            add(entry, "value", 2, "string")
    descriptors = descriptor_pool.Default().Add(file) or descriptor_pool.Default().FindFileByName(file.name)
    return {name: message_factory.GetMessageClass(descriptors.message_types_by_name[name]) for name in _FIELDS}
