"""Timeline: the StepStats of a traced step as a Chrome trace, which chrome://tracing and Perfetto show."""

from __future__ import annotations

from typing import Any


class Timeline:
    """Makes Chrome traces of StepStats.

    Example:
        >>> Timeline(tf.RunMetadata().step_stats).generate_chrome_trace_format()
        '{"traceEvents": []}'
    """

    def __init__(self, step_stats: Any, graph: Any = None) -> None:
        """Takes the `step_stats` of a RunMetadata."""
        self._step_stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow: bool = True, show_memory: bool = False) -> str:
        """Returns the trace as JSON.

        Args:
            show_dataflow: Accepted for TensorFlow's sake: the order on a thread shows it.
            show_memory: Whether to add a row with the bytes that each operation's outputs take.
        """
        import json

        events: list[dict[str, Any]] = []
        for pid, device in enumerate(self._step_stats.dev_stats):
            if not any(node.all_start_micros for node in device.node_stats):
                continue  # Findings of a numeric check, not a device.
            events.append({"name": "process_name", "ph": "M", "pid": pid, "args": {"name": device.device}})
            rows: dict[int, int] = {}
            for node in device.node_stats:
                row = rows.setdefault(node.thread_id, len(rows))
                events.append(_node_event(node, pid, row))
                if show_memory:
                    size = sum(o.tensor_description.allocation_description.requested_bytes for o in node.output)
                    events.append(
                        {"name": "output bytes", "ph": "C", "pid": pid, "ts": node.all_start_micros,
                         "args": {"bytes": size}}
                    )  # fmt: skip
        return json.dumps({"traceEvents": events})


def _node_event(node: Any, pid: int, row: int) -> dict[str, Any]:
    _, _, op = node.timeline_label.partition(" = ")
    op = op.partition("(")[0] or node.node_name
    return {
        "name": op, "cat": "Op", "ph": "X", "pid": pid, "tid": row,
        "ts": node.all_start_micros, "dur": max(1, node.all_end_rel_micros),
        "args": {"name": node.node_name, "op": op},
    }  # fmt: skip
