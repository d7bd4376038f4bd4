"""tf.contrib.tfprof.model_analyzer: `print_model_analysis`, and the options that programs give it."""

from __future__ import annotations

from typing import Any

from thalweg.contrib.public_names import tf
from thalweg.graph.definitions.op_registry import export, export_value

_builder: Any = tf.profiler.ProfileOptionBuilder

for _name, _options in {
    "TRAINABLE_VARS_PARAMS_STAT_OPTIONS": _builder.trainable_variables_parameter(),
    "FLOAT_OPS_OPTIONS": _builder.float_operation(),
    "PRINT_ALL_TIMING_MEMORY": _builder.time_and_memory(),
}.items():
    export_value(_options, f"contrib.tfprof.model_analyzer.{_name}")
for _name in ("Profiler", "profile", "advise"):
    export_value(getattr(tf.profiler, _name), f"contrib.tfprof.model_analyzer.{_name}")


@export("contrib.tfprof.model_analyzer.print_model_analysis")
def print_model_analysis(
    graph: Any, run_meta: Any = None, op_log: Any = None, tfprof_cmd: str = "scope", tfprof_options: Any = None
) -> Any:
    """What `tf.profiler.profile` does, with the arguments' names of that time."""
    return tf.profiler.profile(graph, run_meta, op_log, tfprof_cmd, tfprof_options or None)
