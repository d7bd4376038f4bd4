"""Example and SequenceExample as protobufs, made at run time: the tensorboard package does not ship them.

Names and numbers of messages and fields are TensorFlow's, so that serialized examples move both ways. The classes live
in a descriptor pool of their own: TensorFlow in the same process would refuse a second definition of its messages.
"""

from __future__ import annotations

from typing import Any, Final

# name, number, kind; "*" before a kind means repeated, "map " that it is the value of a map from strings.
_FIELDS: Final[dict[str, tuple[tuple[str, int, str], ...]]] = {
    "BytesList": (("value", 1, "*bytes"),),
    "FloatList": (("value", 1, "*float"),),
    "Int64List": (("value", 1, "*int64"),),
    "Feature": (("bytes_list", 1, "BytesList"), ("float_list", 2, "FloatList"), ("int64_list", 3, "Int64List")),
    "Features": (("feature", 1, "map Feature"),),
    "FeatureList": (("feature", 1, "*Feature"),),
    "FeatureLists": (("feature_list", 1, "map FeatureList"),),
    "Example": (("features", 1, "Features"),),
    "SequenceExample": (("context", 1, "Features"), ("feature_lists", 2, "FeatureLists")),
}
_PACKAGE: Final = "tensorflow"


def _make() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    scalars = {"bytes": kinds.TYPE_BYTES, "float": kinds.TYPE_FLOAT, "int64": kinds.TYPE_INT64,
               "string": kinds.TYPE_STRING}  # fmt: skip
    file = descriptor_pb2.FileDescriptorProto(name="thalweg/example.proto", package=_PACKAGE, syntax="proto3")

    def add(message: Any, name: str, number: int, kind: str, prefix: str = "") -> Any:
        field = message.field.add(name=name, number=number)
        field.label = kinds.LABEL_REPEATED if kind.startswith("*") else kinds.LABEL_OPTIONAL
        field.type = scalars.get(kind.lstrip("*"), kinds.TYPE_MESSAGE)
        if field.type == kinds.TYPE_MESSAGE:
            field.type_name = f".{_PACKAGE}.{prefix}{kind.lstrip('*')}"
        return field

    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            if kind.startswith("map "):
                entry_name = "".join(part.capitalize() for part in field_name.split("_")) + "Entry"
                entry = message.nested_type.add(name=entry_name)
                entry.options.map_entry = True
                add(entry, "key", 1, "string")
                add(entry, "value", 2, kind.removeprefix("map "))
                add(message, field_name, number, f"*{entry_name}", prefix=f"{name}.")
            else:
                field = add(message, field_name, number, kind)
                if name == "Feature":
                    field.oneof_index = 0
        if name == "Feature":
            message.oneof_decl.add(name="kind")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS
    }
    for message_class in found.values():
        message_class.__module__ = __name__  # where pickle finds it
    return found


def __getattr__(name: str) -> Any:
    """Makes all classes when the first of them is asked for: protobuf takes its time to load."""
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals().update(_make())
    return globals()[name]
