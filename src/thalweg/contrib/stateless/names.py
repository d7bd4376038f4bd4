"""tf.contrib.stateless: names of tf.random."""

from __future__ import annotations

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export_value

for _old, _new in {
    "stateless_random_normal": "stateless_normal",
    "stateless_random_uniform": "stateless_uniform",
    "stateless_truncated_normal": "stateless_truncated_normal",
    "stateless_multinomial": "stateless_multinomial",
}.items():
    export_value(getattr(tf.random, _new), f"contrib.stateless.{_old}")
