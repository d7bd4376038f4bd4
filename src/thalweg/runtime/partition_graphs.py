"""The graphs that the devices of a step run, after all passes, as GraphDefs: `RunOptions.output_partition_graphs`."""

from __future__ import annotations

from typing import Any

from thalweg.graph.messages.attr_values import write_any
from thalweg.passes.step_graph import Node, StepGraph


def fill(run_metadata: Any, parts: dict[str, StepGraph]) -> None:
    """Adds the parts of a step to a RunMetadata, by device."""
    for device, part in parts.items():
        graph = run_metadata.partition_graphs.add()
        for node in part.nodes.values():
            _write(graph.node.add(), node, device)


def _write(proto: Any, node: Node, device: str) -> None:
    proto.name, proto.op, proto.device = node.name, node.op, node.device or device
    proto.input.extend(name if output == 0 else f"{name}:{output}" for name, output in node.inputs)
    proto.input.extend(f"^{name}" for name in node.controls)
    for name, value in node.attrs.items():
        try:
            write_any(proto.attr[name], _canonical(value))
        except TypeError:
            del proto.attr[name]  # A function or a lowered loop has no form in a NodeDef.


def _canonical(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (list, tuple)):
        return [_canonical(item) for item in value]
    return value
