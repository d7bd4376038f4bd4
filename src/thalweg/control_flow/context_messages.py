"""The protobuf messages of control-flow contexts, made at run time: the tensorboard package does not ship them.

Field names and numbers are TensorFlow's, so that serialized MetaGraphs move both ways.
"""

from __future__ import annotations

import functools
from typing import Any, Final

from thalweg.graph.messages.runtime_messages import Field, make_messages

_FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "ValuesDef": (("values", 1, "*string"), ("external_values", 2, "map string")),
    "ControlFlowContextDef": (("cond_ctxt", 1, "CondContextDef"), ("while_ctxt", 2, "WhileContextDef")),
    "CondContextDef": (
        ("context_name", 1, "string"),
        ("pred_name", 2, "string"),
        ("pivot_name", 3, "string"),
        ("branch", 4, "int32"),
        ("values_def", 5, "ValuesDef"),
        ("nested_contexts", 6, "*ControlFlowContextDef"),
    ),
    "WhileContextDef": (
        ("context_name", 1, "string"),
        ("parallel_iterations", 2, "int32"),
        ("back_prop", 3, "bool"),
        ("swap_memory", 4, "bool"),
        ("pivot_name", 5, "string"),
        ("pivot_for_pred_name", 6, "string"),
        ("pivot_for_body_name", 7, "string"),
        ("loop_exit_names", 8, "*string"),
        ("values_def", 9, "ValuesDef"),
        ("loop_enter_names", 10, "*string"),
        ("maximum_iterations_name", 11, "string"),
        ("nested_contexts", 12, "*ControlFlowContextDef"),
    ),
}


@functools.cache
def messages() -> dict[str, Any]:
    """The message classes by name."""
    return make_messages("thalweg/control_flow.proto", _FIELDS, oneofs={"ControlFlowContextDef": "ctxt"})
