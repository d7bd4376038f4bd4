"""ServerDef, the description of one task of a cluster, as a protobuf: the tensorboard package does not ship it.

Names and numbers of the fields are TensorFlow's, so that serialized messages move both ways.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.messages.runtime_messages import Field, make_messages

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "TaskDeviceFilters": (("device_filters", 1, "*string"),),
    "JobDeviceFilters": (("name", 1, "string"), ("tasks", 2, "map int32 TaskDeviceFilters")),
    "ClusterDeviceFilters": (("jobs", 1, "*JobDeviceFilters"),),
    "ServerDef": (
        ("cluster", 1, ".tensorboard.ClusterDef"),
        ("job_name", 2, "string"),
        ("task_index", 3, "int32"),
        ("default_session_config", 4, ".tensorboard.ConfigProto"),
        ("protocol", 5, "string"),
        ("port", 6, "int32"),
        ("cluster_device_filters", 7, "ClusterDeviceFilters"),
    ),
}


def __getattr__(name: str) -> Any:
    """Makes all classes when the first of them is used: protobuf is slow to load."""
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tensorboard.compat.proto import cluster_pb2, config_pb2  # Start-up time: protobuf is slow to import.

    files = [cluster_pb2.DESCRIPTOR.name, config_pb2.DESCRIPTOR.name]
    made = make_messages("thalweg/cluster_messages.proto", _FIELDS, dependencies=files)
    for message in made.values():
        message.__module__ = __name__  # where pickle finds it
    globals().update(made)
    return made[name]
