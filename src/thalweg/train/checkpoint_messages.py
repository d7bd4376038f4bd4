"""CheckpointState and SavedModel as protobufs, made at run time: the tensorboard package does not ship them.

Field names and numbers are TensorFlow's, so that the files move both ways.
"""

from __future__ import annotations

import functools
from typing import Any, Final

# name, number, kind; "*" before a kind means repeated.
_FIELDS: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "CheckpointState": (
        ("model_checkpoint_path", 1, "string"),
        ("all_model_checkpoint_paths", 2, "*string"),
        ("all_model_checkpoint_timestamps", 3, "*double"),
        ("last_preserved_timestamp", 4, "double"),
    ),
    "SavedModel": (("saved_model_schema_version", 1, "int64"), ("meta_graphs", 2, "*MetaGraphDef")),
}


@functools.cache
def _messages() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from tensorboard.compat.proto import meta_graph_pb2

    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"string": kinds.TYPE_STRING, "double": kinds.TYPE_DOUBLE, "int64": kinds.TYPE_INT64}
    meta_graph = meta_graph_pb2.MetaGraphDef.DESCRIPTOR
    file = descriptor_pb2.FileDescriptorProto(
        name="thalweg/checkpoint_messages.proto", package="thalweg", syntax="proto3", dependency=[meta_graph.file.name]
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            field = message.field.add(name=field_name, number=number)
            field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
            field.type = scalars.get(kind.lstrip("*"), kinds.TYPE_MESSAGE)
            if field.type == kinds.TYPE_MESSAGE:
                field.type_name = f".{meta_graph.full_name}"
    # The pool that knows MetaGraphDef.
    pool = descriptor_pool.Default()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"thalweg.{name}")) for name in _FIELDS}


def checkpoint_state_class() -> Any:
    """The class of the `checkpoint` file's message."""
    return _messages()["CheckpointState"]


def saved_model_class() -> Any:
    """The class of the message in `saved_model.pb`."""
    return _messages()["SavedModel"]
