"""tf.contrib.deprecated: summaries whose tags are not unique."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

for _old, _new in (("image_summary", "image"), ("audio_summary", "audio"), ("merge_summary", "merge")):
    export_value(getattr(tf.summary, _new), f"contrib.deprecated.{_old}")
export_value(tf.summary.merge_all, "contrib.deprecated.merge_all_summaries")


@export("contrib.deprecated.scalar_summary")
def scalar_summary(tags: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """A summary of a number."""
    return tf.summary.scalar(name or str(tags), values, collections=collections)


@export("contrib.deprecated.histogram_summary")
def histogram_summary(tag: Any, values: Any, collections: Any = None, name: str | None = None) -> Any:
    """A summary of the distribution of numbers."""
    return tf.summary.histogram(name or str(tag), values, collections=collections)
