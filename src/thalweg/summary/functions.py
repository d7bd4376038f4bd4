"""tf.summary.scalar and its siblings: functions that add summary ops to the graph and to its collections."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from thalweg.graph.apply import apply_one
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collections, get_collection, name_scope
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.dtypes import string
from thalweg.graph.tensor import Tensor
from thalweg.platform import logging
from thalweg.platform.deprecation import deprecated

F = TypeVar("F", bound=Callable[..., Any])

_NOT_IN_A_NAME = re.compile(r"[^-/\w.]")


def clean_tag(name: str | None) -> str | None:
    """Replaces characters that no node name may contain, with a log message."""
    if name is None:
        return None
    cleaned = _NOT_IN_A_NAME.sub("_", str(name)).lstrip("/")
    if cleaned != name:
        logging.info("Summary name %s is illegal; using %s instead.", name, cleaned)
    return cleaned


@contextlib.contextmanager
def summary_scope(name: Any, family: Any = None, default_name: str | None = None, values: Any = None) -> Iterator[Any]:
    """Enters the name scope of a summary; gives its tag and its scope."""
    name, family = clean_tag(name), clean_tag(family)
    scope_base = name if family is None else f"{family}/{name}"
    with name_scope(scope_base, default_name, values=values) as scope:
        tag = scope.rstrip("/")
        # The family is the first part of the tag: TensorBoard groups by the text before the first slash.
        yield (tag if family is None else f"{family}/{tag}"), scope


def _collect(summary: Tensor, collections: Any) -> Tensor:
    keys = [GraphKeys.SUMMARIES] if collections is None else list(collections)
    if keys:
        add_to_collections(keys, summary)
    return summary


@export("summary.scalar")
def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """Adds a summary of a single number.

    Args:
        name: The node's name, and with the name scope before it the tag that TensorBoard shows.
        tensor: A tensor with one element.
        collections: The graph collections to add the summary to; `[GraphKeys.SUMMARIES]` if None.
        family: A prefix of the tag, under which TensorBoard groups summaries.

    Returns:
        A string tensor, the serialized Summary.

    Example:
        >>> with tf.Session() as sess:
        ...     tf.Summary.FromString(sess.run(tf.summary.scalar("loss", 0.5))).value[0].simple_value
        0.5
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(apply_one("ScalarSummary", tag, tensor, name=scope), collections)


@export("summary.histogram")
def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """Adds a summary of how the elements of a tensor are distributed. Running it fails for NaN and infinity."""
    with summary_scope(name, family, default_name="HistogramSummary", values=[values]) as (tag, scope):
        return _collect(apply_one("HistogramSummary", tag, values, name=scope), collections)


@export("summary.image")
def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Adds a summary of images.

    Args:
        name: The node's name; images get the tags 'name/image/0', 'name/image/1', and so on.
        tensor: Images of shape [batch, height, width, channels] with 1 (grey), 3 (RGB) or 4 (RGBA) channels: uint8, or
            floats, which are scaled to the range of bytes image by image. Pixels that are not finite become red.
        max_outputs: How many images of the batch to keep.
        collections: The graph collections to add the summary to; `[GraphKeys.SUMMARIES]` if None.
        family: A prefix of the tag.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        return _collect(apply_one("ImageSummary", tag, tensor, max_images=max_outputs, name=scope), collections)


@export("summary.audio")
def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None
) -> Tensor:
    """Adds a summary of sounds.

    Args:
        name: The node's name; clips get the tags 'name/audio/0', 'name/audio/1', and so on.
        tensor: Samples from -1 to 1 of shape [batch, frames, channels] or [batch, frames].
        sample_rate: Frames per second.
        max_outputs: How many clips of the batch to keep.
        collections: The graph collections to add the summary to; `[GraphKeys.SUMMARIES]` if None.
        family: A prefix of the tag.
    """
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        rate = convert_to_tensor(sample_rate, dtype="float32", name="sample_rate")
        return _collect(
            apply_one("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=scope), collections
        )


@export("summary.tensor_summary")
def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: Any = None,
    collections: Any = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Adds a summary of a whole tensor, for a TensorBoard plugin to show.

    Args:
        name: The node's name and tag.
        tensor: A tensor of any type and shape.
        summary_description: A text, or a SummaryDescription with one in `type_hint`.
        collections: The graph collections to add the summary to; `[GraphKeys.SUMMARIES]` if None.
        summary_metadata: A SummaryMetadata, which names the plugin.
        family: A prefix of the tag.
        display_name: What TensorBoard should call it.
    """
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata  # Start-up time: protobuf is slow to import.

    metadata = SummaryMetadata()
    if summary_metadata is not None:
        metadata.CopyFrom(summary_metadata)
    if display_name is not None:
        metadata.display_name = display_name
    if summary_description is not None:
        metadata.summary_description = getattr(summary_description, "type_hint", summary_description)
    with summary_scope(name, family, values=[tensor]) as (tag, scope):
        summary = apply_one("TensorSummaryV2", tag, tensor, metadata.SerializeToString(), name=scope)
        return _collect(summary, collections)


@export("summary.text")
def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Adds a summary of text, which TensorBoard shows as Markdown; vectors and matrices become tables.

    Raises:
        ValueError: If the tensor is not one of strings.
    """
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata  # Start-up time: protobuf is slow to import.

    tensor = convert_to_tensor(tensor)
    if tensor.dtype != string:
        raise ValueError(f"Expected tensor {tensor.name} to have dtype string, got {tensor.dtype}")
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return tensor_summary(name, tensor, summary_metadata=metadata, collections=collections)


@export("summary.merge")
def merge(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Adds an op that joins the values of several summaries into one Summary.

    Running it fails if two of the values have the same tag.
    """
    inputs = list(inputs)
    cleaned = clean_tag(name)
    with name_scope(cleaned, "Merge", inputs):
        return _collect(apply_one("MergeSummary", inputs), [] if collections is None else collections)


@export("summary.merge_all")
def merge_all(key: Any = GraphKeys.SUMMARIES, scope: str | None = None, name: str | None = None) -> Tensor | None:
    """Merges all summaries of a collection; returns None if there are none.

    Args:
        key: The collection.
        scope: Only summaries whose names match this regular expression.
        name: The name of the op.
    """
    summaries = get_collection(key, scope=scope)
    return merge(summaries, name=name) if summaries else None


@export("summary.get_summary_description")
def get_summary_description(node_def: Any) -> Any:
    """Returns the SummaryDescription of a TensorSummary node, which holds it as JSON.

    Raises:
        ValueError: If the node is not a TensorSummary.
    """
    from google.protobuf import json_format  # Start-up time: protobuf is slow to import.
    from tensorboard.compat.proto.summary_pb2 import SummaryDescription

    if node_def.op != "TensorSummary":
        raise ValueError(f"Can't get_summary_description on {node_def.op}")
    description = SummaryDescription()
    json_format.Parse(node_def.attr["description"].s.decode("utf-8"), description)
    return description


@export("summary.all_v2_summary_ops")
def all_v2_summary_ops() -> list[Any]:
    """Returns the ops of TensorFlow 2's summary writers: there are none."""
    return []


@export("summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Does nothing: it belongs to TensorFlow 2's summary writers."""


# The names and arguments of TensorFlow before 1.0. There the tag was a value of its own, apart from the node's name.


def _export_deprecated(name: str, new_name: str) -> Callable[[F], F]:
    def register(function: F) -> F:
        export_value(deprecated(None, f"Please use tf.summary.{new_name} instead.")(function), name)
        return function

    return register


@_export_deprecated("scalar_summary", "scalar")
def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Adds a summary of numbers, one tag for each."""
    return _collect(apply_one("ScalarSummary", tags, values, name=name), collections)


@_export_deprecated("histogram_summary", "histogram")
def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Adds a summary of how the elements of a tensor are distributed."""
    return _collect(apply_one("HistogramSummary", tag, values, name=name), collections)


@_export_deprecated("image_summary", "image")
def image_summary(
    tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """Adds a summary of images."""
    return _collect(apply_one("ImageSummary", tag, tensor, max_images=max_images, name=name), collections)


@_export_deprecated("audio_summary", "audio")
def audio_summary(
    tag: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, name: str | None = None
) -> Tensor:
    """Adds a summary of sounds."""
    rate = convert_to_tensor(sample_rate, dtype="float32", name="sample_rate")
    return _collect(apply_one("AudioSummaryV2", tag, tensor, rate, max_outputs=max_outputs, name=name), collections)


@_export_deprecated("merge_summary", "merge")
def merge_summary(inputs: Any, collections: Any = None, name: str | None = None) -> Tensor:
    """Joins the values of several summaries."""
    return _collect(apply_one("MergeSummary", list(inputs), name=name), [] if collections is None else collections)


@_export_deprecated("merge_all_summaries", "merge_all")
def merge_all_summaries(key: Any = GraphKeys.SUMMARIES) -> Tensor | None:
    """Merges all summaries of a collection; returns None if there are none."""
    summaries = get_collection(key)
    return merge_summary(summaries) if summaries else None
