"""Protobuf messages made at run time, for those of TensorFlow's that the tensorboard package does not ship.

Names and numbers of fields are TensorFlow's, so that serialized messages move both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# name, number, kind: a scalar type of protobuf, a message of the same file, or a message elsewhere as ".package.Name".
# "*" before a kind means repeated, "map " that it is the type of the values of a map from strings, "map int32 " that it
# is the type of the values of a map from integers.
Field = tuple[str, int, str]


def make_messages(
    file_name: str,
    messages: Mapping[str, Sequence[Field]],
    package: str = "thalweg",
    oneofs: Mapping[str, str] | None = None,
    dependencies: Sequence[str] = (),
    own_pool: bool = False,
) -> dict[str, Any]:
    """Makes message classes; import protobuf late by calling this late.

    Args:
        file_name: The name of the (virtual) file that defines them.
        messages: For the name of each message, its fields.
        package: The package that the messages are in.
        oneofs: For a message whose fields exclude each other, the name of the choice.
        dependencies: The files of messages elsewhere.
        own_pool: Whether the messages get a pool of descriptors of their own, so that another definition of the same
            names in this process does no harm. They cannot refer to messages elsewhere then.

    Returns:
        The classes by name.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # Start-up time: protobuf.

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=file_name, package=package, syntax="proto3", dependency=list(dependencies)
    )

    def add(message: Any, name: str, number: int, kind: str) -> None:
        field = message.field.add(name=name, number=number)
        field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
        kind = kind.lstrip("*")
        scalar = getattr(kinds, f"TYPE_{kind.upper()}", None)
        field.type = kinds.TYPE_MESSAGE if scalar is None else scalar
        if scalar is None:
            field.type_name = kind if kind.startswith(".") else f".{package}.{kind}"

    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            if kind.startswith("map "):
                entry_name = "".join(part.capitalize() for part in field_name.split("_")) + "Entry"
                entry = message.nested_type.add(name=entry_name)
                entry.options.map_entry = True
                keys, _, values = kind.removeprefix("map ").rpartition(" ")
                add(entry, "key", 1, keys or "string")
                add(entry, "value", 2, values)
                kind = f"*{name}.{entry_name}"
            add(message, field_name, number, kind)
        if oneofs and name in oneofs:
            message.oneof_decl.add(name=oneofs[name])
            for field in message.field:
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool() if own_pool else descriptor_pool.Default()
    found = pool.Add(file) or pool.FindFileByName(file.name)
    return {name: message_factory.GetMessageClass(found.message_types_by_name[name]) for name in messages}
