"""tf.contrib.deprecated: summaries whose tags are not unique, and stand as they are given."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_SPACE = "contrib.deprecated"
export_value(tf.summary.merge, f"{_SPACE}.merge_summary")
export_value(tf.summary.merge_all, f"{_SPACE}.merge_all_summaries")


def _collected(summary: Any, collections: Any) -> Any:
    for key in [tf.GraphKeys.SUMMARIES] if collections is None else collections:
        tf.add_to_collection(key, summary)
    return summary


@export(f"{_SPACE}.scalar_summary")
def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """A summary of a number, or of several, each with a tag."""
    return _collected(tf.raw_ops.ScalarSummary(tags=tags, values=values, name=name), collections)


@export(f"{_SPACE}.histogram_summary")
def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """A summary of the distribution of numbers."""
    return _collected(tf.raw_ops.HistogramSummary(tag=tag, values=values, name=name), collections)


@export(f"{_SPACE}.image_summary")
def image_summary(tag: Any, tensor: Any, max_images: int = 3, collections: Any = None, name: str | None = None) -> Any:
    """A summary of images."""
    summary = tf.raw_ops.ImageSummary(tag=tag, tensor=tensor, max_images=max_images, name=name)
    return _collected(summary, collections)


@export(f"{_SPACE}.audio_summary")
def audio_summary(
    tag: Any, tensor: Any, sample_rate: Any, max_outputs: int = 3, collections: Any = None, name: str | None = None
) -> Any:
    """A summary of sounds."""
    rate = tf.convert_to_tensor(sample_rate, tf.float32)
    summary = tf.raw_ops.AudioSummaryV2(
        tag=tag, tensor=tensor, sample_rate=rate, max_outputs=max_outputs, name=name or "AudioSummary"
    )
    return _collected(summary, collections)
