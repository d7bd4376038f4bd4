"""CheckpointState and SavedModel as protobufs, made at run time: the tensorboard package does not ship them.

Field names and numbers are TensorFlow's, so that the files move both ways.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from thalweg.graph.messages.runtime_messages import Field, make_messages

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "CheckpointState": (
        ("model_checkpoint_path", 1, "string"),
        ("all_model_checkpoint_paths", 2, "*string"),
        ("all_model_checkpoint_timestamps", 3, "*double"),
        ("last_preserved_timestamp", 4, "double"),
    ),
    "SavedModel": (("saved_model_schema_version", 1, "int64"), ("meta_graphs", 2, "*.tensorboard.MetaGraphDef")),
}


@functools.cache
def _messages() -> dict[str, Any]:
    from tensorboard.compat.proto import meta_graph_pb2  # Start-up time: protobuf is slow to import.

    needed = [meta_graph_pb2.MetaGraphDef.DESCRIPTOR.file.name]
    return make_messages("thalweg/checkpoint_messages.proto", _FIELDS, dependencies=needed)


def checkpoint_state_class() -> Any:
    """The class of the `checkpoint` file's message."""
    return _messages()["CheckpointState"]


def saved_model_class() -> Any:
    """The class of the message in `saved_model.pb`."""
    return _messages()["SavedModel"]
