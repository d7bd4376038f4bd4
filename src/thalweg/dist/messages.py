"""The messages of calls between clients, masters and workers, as protobufs: later versions may add fields.

A method's name says which messages it takes and returns; see `METHODS`.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from thalweg import errors
from thalweg.graph.messages.runtime_messages import Field, make_messages

_MESSAGES: Final[dict[str, list[Field]]] = {
    "Empty": [],
    "DeviceDef": [
        ("name", 1, "string"),
        ("type", 2, "string"),
        ("on_request", 3, "bool"),
        ("incarnation", 4, "uint64"),
        ("memory_limit", 5, "int64"),
    ],
    "Status": [("device", 1, "*DeviceDef")],
    "Clock": [("nanoseconds", 1, "int64")],
    "PeerDef": [("task", 1, "string"), ("incarnation", 2, "uint64"), ("address", 3, "string")],
    # Master to worker.
    "RegisterRequest": [("session", 1, "string"), ("step", 2, "bytes"), ("peer", 3, "*PeerDef")],
    "Registered": [("number", 1, "uint64")],
    "DeregisterRequest": [("session", 1, "string"), ("number", 2, "*uint64")],
    "CloseRequest": [("session", 1, "string")],
    "ResetRequest": [("container", 1, "*string"), ("forward", 2, "bool")],
    "MemoryRequest": [("device", 1, "string")],
    "MemoryInfo": [("value", 1, "map int64")],
    # Member to leader of a collective group.
    "MemberDef": [
        ("task", 1, "string"),
        ("device", 2, "string"),
        ("incarnation", 3, "uint64"),
        ("address", 4, "string"),
        ("host", 5, "string"),
    ],
    "JoinGroupRequest": [
        ("group", 1, "int64"),
        ("size", 2, "int64"),
        ("member", 3, "MemberDef"),
        ("last_generation", 4, "uint64"),
    ],
    "GroupRequest": [("group", 1, "int64"), ("last_generation", 2, "uint64"), ("runs", 3, "uint64")],
    "GroupBehind": [("is_behind", 1, "bool")],
    "GroupFormed": [("generation", 1, "uint64"), ("member", 2, "*MemberDef")],
    # Client to master.
    "CreateRequest": [("graph", 1, "bytes"), ("config", 2, "bytes")],
    "Created": [("session", 1, "string")],
    # `adds`: the graph has only nodes that are new; otherwise it takes the place of the session's graph.
    "ExtendRequest": [("session", 1, "string"), ("graph", 2, "bytes"), ("adds", 3, "bool")],
    "StepRequest": [
        ("session", 1, "string"),
        ("feed", 2, "*string"),
        ("fetch", 3, "*string"),
        ("target", 4, "*string"),
        ("precision", 5, "int32"),
        ("piecewise", 6, "bool"),
    ],
    # A step that a client has made.
    "StepNumber": [("session", 1, "string"), ("number", 2, "uint64")],
    "RunMetadataDef": [("run_metadata", 1, "bytes")],
    # A partial run; values are serialized TensorProtos.
    "PartialRequest": [("session", 1, "string"), ("number", 2, "uint64")],
    "PieceRequest": [("session", 1, "string"), ("number", 2, "uint64"), ("name", 3, "string"), ("value", 4, "bytes")],
    "Piece": [("value", 1, "bytes")],
}

# The request and the answer of each method.
METHODS: Final[dict[str, tuple[str, str]]] = {
    "status": ("Empty", "Status"),
    "clock": ("Empty", "Clock"),
    "register": ("RegisterRequest", "Registered"),
    "deregister": ("DeregisterRequest", "Empty"),
    "close_worker_session": ("CloseRequest", "Empty"),
    "reset": ("ResetRequest", "Empty"),
    "memory": ("MemoryRequest", "MemoryInfo"),
    "join_group": ("JoinGroupRequest", "GroupFormed"),
    "join_survivors": ("JoinGroupRequest", "GroupFormed"),
    "group_status": ("GroupRequest", "GroupFormed"),
    "summon_member": ("GroupRequest", "GroupFormed"),
    "check_generation": ("GroupRequest", "GroupFormed"),
    "finish_group": ("GroupRequest", "GroupBehind"),
    "leave_group": ("GroupRequest", "Empty"),
    "create_session": ("CreateRequest", "Created"),
    "extend_session": ("ExtendRequest", "Empty"),
    "make_step": ("StepRequest", "Registered"),
    "release_step": ("DeregisterRequest", "Empty"),
    "partition_graphs": ("StepNumber", "RunMetadataDef"),
    "start_partial": ("PartialRequest", "Registered"),
    "feed_partial": ("PieceRequest", "Empty"),
    "fetch_partial": ("PieceRequest", "Piece"),
    "end_partial": ("PartialRequest", "Empty"),
    "list_devices": ("CloseRequest", "Status"),
    "close_session": ("CloseRequest", "Empty"),
}

# Methods that wait for nobody: they have threads of their own, so that they are answered also to peers of which other
# calls wait for long.
PROMPT_METHODS: Final[list[str]] = [
    "status", "clock", "memory", "deregister", "close_worker_session", "group_status", "check_generation",
    "list_devices", "feed_partial", "end_partial", "close_session",
]  # fmt: skip


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes, by name."""
    return make_messages("thalweg/tasks.proto", _MESSAGES)


def request_of(method: str, **fields: Any) -> bytes:
    """The serialized request of a method."""
    serialized: bytes = messages()[METHODS[method][0]](**fields).SerializeToString()
    return serialized


def parsed(kind: str, data: bytes) -> Any:
    """A message from the bytes of a peer.

    Raises:
        errors.InvalidArgumentError: If the bytes are no such message.
    """
    from google.protobuf.message import DecodeError  # Start-up time: protobuf is slow to import.

    try:
        return messages()[kind].FromString(data)
    except DecodeError as e:
        raise errors.InvalidArgumentError(None, None, f"A peer sent bytes that are no {kind}: {e}") from None
