"""Example and SequenceExample as protobufs, made at run time: the tensorboard package does not ship them.

Names and numbers of messages and fields are TensorFlow's, so that serialized examples move both ways. The classes live
in a descriptor pool of their own: TensorFlow in the same process would refuse a second definition of its messages.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg.graph.messages.runtime_messages import Field, make_messages

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
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


def __getattr__(name: str) -> Any:
    """Makes all classes when the first of them is used: protobuf is slow to load."""
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = make_messages("thalweg/example.proto", _FIELDS, "tensorflow", {"Feature": "kind"}, own_pool=True)
    for message in made.values():
        message.__module__ = __name__  # where pickle finds it
    globals().update(made)
    return made[name]
