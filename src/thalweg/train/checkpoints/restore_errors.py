"""Messages for failed restores, in terms of variables and checkpoints instead of nodes."""

from __future__ import annotations

from typing import Any

from thalweg import errors
from thalweg.graph.static_value import constant_value
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader, near_names, try_open

_SHOWN = 10


def explain(error: errors.OpError, graph: Any, saver_def: Any, prefix: str) -> errors.OpError:
    """The same error, with the differences between the saver's variables and the checkpoint's tensors."""
    reader = try_open(prefix)
    lines = [] if reader is None else _differences(graph, saver_def, reader)
    if isinstance(error, errors.NotFoundError):
        cause = "a variable name or other graph key that is missing from the checkpoint"
    else:
        cause = "a mismatch between the current graph and the graph from the checkpoint"
    hint = "".join(f"\n  {line}" for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        hint += f"\n  and {len(lines) - _SHOWN} more"
    message = (
        f"Restoring from checkpoint failed. This is most likely due to {cause} ({prefix}).{hint}\n"
        "Give the Saver a var_list (a dict maps names in the checkpoint to variables) to restore only a part, or "
        f"under other names.\nOriginal error: {error.message}"
    )
    return errors.error_from_code(error.error_code, message, op=error.op, node_def=error.node_def)


def _differences(graph: Any, saver_def: Any, reader: CheckpointReader) -> list[str]:
    shapes, dtypes = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    lines = []
    for op in graph.get_operations():
        if op.type != "RestoreV2" or not _is_of_saver(op, saver_def):
            continue
        names = constant_value(op.inputs[1])
        slices = constant_value(op.inputs[2])
        if names is None or slices is None:
            continue
        for raw, spec, output in zip(names, slices, op.outputs, strict=True):
            name = raw.decode(errors="surrogateescape")
            if name not in shapes:
                near = near_names(reader, name)
                lines.append(f"{name}: not in the checkpoint" + (f"; it has {', '.join(near)}" if near else ""))
                continue
            wanted = _variable_shape(output, spec)
            if output.dtype.base_dtype != dtypes[name]:
                lines.append(f"{name}: {output.dtype.name} here, {dtypes[name].name} in the checkpoint")
            elif wanted is not None and wanted != shapes[name]:
                lines.append(f"{name}: shape {wanted} here, {shapes[name]} in the checkpoint")
    return lines


def _is_of_saver(op: Any, saver_def: Any) -> bool:
    return bool(op.inputs[0].name == saver_def.filename_tensor_name)


def _variable_shape(output: Any, spec: bytes) -> list[int] | None:
    """The shape of the variable that a restored tensor goes to, or of the whole that it is a slice of."""
    if spec:
        return [int(size) for size in spec.split(b" ")[:-1]]
    consumers = output.consumers()
    while consumers and consumers[0].type == "Identity":
        consumers = consumers[0].outputs[0].consumers()
    if not consumers or consumers[0].type not in ("Assign", "AssignVariableOp"):
        return None
    target = consumers[0].inputs[0]
    shape = target.op.attrs.get("shape") if target.dtype.name == "resource" else target.shape
    return shape.as_list() if shape is not None and shape.is_fully_defined() else None
