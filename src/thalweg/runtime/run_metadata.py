"""RunMetadata: the core's record of a traced step, as StepStats that TensorBoard and timelines read."""

from __future__ import annotations

from typing import Any

# One record of the core: node, op, start and end in ns, thread, outputs as (slot, dtype enum, shape, bytes),
# and what is not finite.
Record = tuple[str, str, int, int, int, list[tuple[int, int, list[int], int]], str]


def fill(run_metadata: Any, records: list[Record], device: str) -> None:
    """Adds the records of one step to a RunMetadata protobuf."""
    device_stats = run_metadata.step_stats.dev_stats.add(device=device)
    for node, op, start, end, thread, outputs, _ in records:
        # Rounded up: TensorBoard takes an operation of 0 microseconds for one that did not run.
        micros = max(1, -(-(end - start) // 1000))
        stats = device_stats.node_stats.add(
            node_name=node,
            timeline_label=f"{node} = {op}",
            all_start_micros=start // 1000,
            op_start_rel_micros=0,
            op_end_rel_micros=micros,
            all_end_rel_micros=micros,
            all_start_nanos=start,
            op_end_rel_nanos=end - start,
            all_end_rel_nanos=end - start,
            thread_id=thread & 0xFFFFFFFF,
        )
        for slot, dtype, shape, size in outputs:
            output = stats.output.add(slot=slot)
            description = output.tensor_description
            description.dtype = dtype
            description.shape.SetInParent()  # TensorBoard's page fails where a scalar has none.
            for dim in shape:
                description.shape.dim.add(size=dim)
            description.allocation_description.requested_bytes = size
            description.allocation_description.allocated_bytes = size
            description.allocation_description.allocator_name = "cpu"
