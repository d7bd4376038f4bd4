"""The messages of TensorFlow's MasterService, which TensorFlow's clients and masters speak over gRPC.

Numbers of fields are TensorFlow's, so that serialized messages move both ways. The package of the classes is our own:
it does not travel, and another definition of the same names in this process does no harm.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from thalweg.graph.messages.runtime_messages import Field, make_messages

SERVICE: Final = "tensorflow.MasterService"

# Tensors of 2 GB, the most that a protobuf can hold, must pass; gRPC's own limit is 4 MB.
CHANNEL_OPTIONS: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

_MESSAGES: Final[dict[str, tuple[Field, ...]]] = {
    "NamedTensor": (("name", 1, "string"), ("tensor", 2, ".tensorboard.TensorProto")),
    "DeviceAttributes": (
        ("name", 1, "string"),
        ("device_type", 2, "string"),
        ("memory_limit", 4, "int64"),
        ("incarnation", 6, "fixed64"),
        ("physical_device_desc", 7, "string"),
    ),
    "CreateSessionRequest": (
        ("graph_def", 1, ".tensorboard.GraphDef"),
        ("config", 2, ".tensorboard.ConfigProto"),
        ("target", 3, "string"),
    ),
    "CreateSessionResponse": (("session_handle", 1, "string"), ("graph_version", 2, "int64")),
    "ExtendSessionRequest": (
        ("session_handle", 1, "string"),
        ("graph_def", 2, ".tensorboard.GraphDef"),
        ("current_graph_version", 3, "int64"),
    ),
    "ExtendSessionResponse": (("new_graph_version", 4, "int64"),),
    "RunStepRequest": (
        ("session_handle", 1, "string"),
        ("feed", 2, "*NamedTensor"),
        ("fetch", 3, "*string"),
        ("target", 4, "*string"),
        ("options", 5, ".tensorboard.RunOptions"),
        ("partial_run_handle", 6, "string"),
        ("store_errors_in_response_body", 7, "bool"),
        ("request_id", 8, "int64"),
    ),
    "RunStepResponse": (
        ("tensor", 1, "*NamedTensor"),
        ("metadata", 2, ".tensorboard.RunMetadata"),
        ("status_code", 3, "int32"),
        ("status_error_message", 4, "string"),
    ),
    "PartialRunSetupRequest": (
        ("session_handle", 1, "string"),
        ("feed", 2, "*string"),
        ("fetch", 3, "*string"),
        ("target", 4, "*string"),
        ("request_id", 5, "int64"),
    ),
    "PartialRunSetupResponse": (("partial_run_handle", 1, "string"),),
    "CloseSessionRequest": (("session_handle", 1, "string"),),
    "CloseSessionResponse": (),
    "ResetRequest": (("container", 1, "*string"), ("device_filters", 2, "*string")),
    "ResetResponse": (),
    "ListDevicesRequest": (("session_handle", 1, "string"),),
    "ListDevicesResponse": (("local_device", 1, "*DeviceAttributes"), ("remote_device", 2, "*DeviceAttributes")),
    "MakeCallableRequest": (
        ("session_handle", 1, "string"),
        ("options", 2, ".tensorboard.CallableOptions"),
        ("request_id", 3, "int64"),
    ),
    "MakeCallableResponse": (("handle", 1, "int64"),),
    "RunCallableRequest": (
        ("session_handle", 1, "string"),
        ("handle", 2, "int64"),
        ("feed", 3, "*.tensorboard.TensorProto"),
        ("request_id", 4, "int64"),
    ),
    "RunCallableResponse": (("fetch", 1, "*.tensorboard.TensorProto"), ("metadata", 2, ".tensorboard.RunMetadata")),
    "ReleaseCallableRequest": (("session_handle", 1, "string"), ("handle", 2, "int64")),
    "ReleaseCallableResponse": (),
}

METHODS: Final = tuple(name.removesuffix("Request") for name in _MESSAGES if name.endswith("Request"))


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes, by name: the request and the response of a method are `<method>Request` and `…Response`."""
    # Start-up time: protobuf is slow to import.
    from tensorboard.compat.proto import config_pb2, graph_pb2, tensor_pb2

    files = [each.DESCRIPTOR.name for each in (config_pb2, graph_pb2, tensor_pb2)]
    return make_messages("thalweg/tensorflow_master.proto", _MESSAGES, "thalweg.tensorflow", dependencies=files)
