"""Names that tf.contrib.layers takes over from elsewhere."""

from __future__ import annotations

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export_value

export_value(tf.recompute_grad, "contrib.layers.recompute_grad")
