"""Names that tf.contrib.slim takes over from other libraries."""

from __future__ import annotations

from thalweg.contrib.losses import weighted_losses  # noqa: F401 (exports itself)
from thalweg.contrib.metrics import streaming  # noqa: F401 (exports itself)
from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export_value

# They export names of slim, too.
dir(tf.contrib.framework), dir(tf.contrib.layers)

for _name in ("l1_regularizer", "l2_regularizer", "l1_l2_regularizer", "sum_regularizer", "apply_regularization",
              "xavier_initializer", "xavier_initializer_conv2d", "variance_scaling_initializer",
              "summarize_activation", "summarize_activations", "summarize_collection", "summarize_tensor",
              "summarize_tensors", "summarize_variables", "summarize_weights", "summarize_biases",
              "embed_sequence", "bow_encoder", "optimize_loss", "instance_norm", "group_norm",
              "maxout"):  # fmt: skip
    export_value(getattr(tf.contrib.layers, _name), f"contrib.slim.{_name}")
for _name in ("xavier_initializer", "xavier_initializer_conv2d", "variance_scaling_initializer"):
    export_value(getattr(tf.contrib.layers, _name), f"contrib.slim.initializers.{_name}")
export_value(tf.train.get_or_create_global_step, "contrib.slim.variables.get_or_create_global_step")
