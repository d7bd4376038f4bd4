"""How the items of collections become protobufs in a MetaGraphDef and come back: a registry by collection."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

from thalweg.graph.collections import GraphKeys
from thalweg.graph.definitions.op_registry import export

_PROTO = "tensorboard.compat.proto."


class ProtoFunctions(NamedTuple):
    """The conversions of a collection's items.

    Attributes:
        proto_type: The protobuf class, or '<module>.<class>' to be imported when needed.
        to_proto: `fn(item, export_scope=...)`, giving a protobuf, or None to leave the item out.
        from_proto: `fn(proto, import_scope=...)`, giving the item.
    """

    proto_type: Any
    to_proto: Callable[..., Any] | None
    from_proto: Callable[..., Any] | None

    def message_class(self) -> Any:
        """The protobuf class, imported."""
        if not isinstance(self.proto_type, str):
            return self.proto_type
        module, _, name = self.proto_type.rpartition(".")
        return getattr(importlib.import_module(_PROTO + module), name)


_functions: dict[str, ProtoFunctions] = {}


@export("register_proto_function")
def register_proto_function(
    collection_name: str, proto_type: Any = None, to_proto: Any = None, from_proto: Any = None
) -> None:
    """Registers how the items of a collection become protobufs and come back.

    Args:
        collection_name: The collection.
        proto_type: The protobuf class, or its module and name as '<module>_pb2.<class>'.
        to_proto: `fn(item, export_scope=...)`, giving a protobuf.
        from_proto: `fn(proto, import_scope=...)`, giving the item.

    Raises:
        TypeError: If one of the functions is not callable.
    """
    for argument, function in (("to_proto", to_proto), ("from_proto", from_proto)):
        if function is not None and not callable(function):
            raise TypeError(f"{argument} must be callable, got {function!r}.")
    _functions[collection_name] = ProtoFunctions(proto_type, to_proto, from_proto)


def proto_functions(collection_name: Any) -> ProtoFunctions | None:
    """The conversions registered for a collection, or None."""
    return _functions.get(collection_name) if isinstance(collection_name, str) else None


def own_to_proto(item: Any, export_scope: str | None = None) -> Any:
    """The result of an item's own `to_proto`."""
    return item.to_proto(export_scope=export_scope)


# Written for programs that can read them; the way back belongs to the control-flow library, which replaces these.
register_proto_function(GraphKeys.COND_CONTEXT, None, own_to_proto)
register_proto_function(GraphKeys.WHILE_CONTEXT, None, own_to_proto)
