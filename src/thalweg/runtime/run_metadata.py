"""RunMetadata: the core's record of a traced step, as StepStats that TensorBoard and timelines read."""

from __future__ import annotations

from typing import Any

from thalweg.runtime.trace import label


def fill(run_metadata: Any, compiled: Any, trace: Any, graph: Any) -> None:
    """Puts the trace of one step into a RunMetadata protobuf, in the place of what was there."""
    label(compiled, graph)
    run_metadata.Clear()
    run_metadata.step_stats.MergeFromString(trace.step_stats())
