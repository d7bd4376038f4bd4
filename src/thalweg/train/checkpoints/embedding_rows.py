"""Rows of embedding variables outside of a training job: as tensors that TensorFlow reads, and for serving."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import constant
from thalweg.state.get_embedding_variable import parts_of
from thalweg.train.checkpoints.checkpoint_state import latest_checkpoint


@export("train.export_rows")
def export_rows(variable: Any, prefix: Any, with_slots: bool = False, name: str | None = None) -> Operation:
    """An operation that writes all rows of an embedding variable as ordinary tensors, which TensorFlow reads.

    The bundle `prefix` has the vector `<variable>-keys` and the matrix `<variable>-values` in the same order,
    `<variable>-counts`, and with slots `<variable>-slot-<slot>`. `tf.train.restore_rows` and savers take it back.

    Args:
        variable: An embedding variable, whole or in parts.
        prefix: Where; a string or a tensor.
        with_slots: Whether the slots of optimizers of this graph are written, too.
        name: A name for the operation.
    """
    parts = parts_of(variable)
    whole = parts[0]._full_name
    slots = parts[0].slot_names() if with_slots else []
    with name_scope(name, "export_rows"):
        exported = [part.export(slots) for part in parts]

        def joined(field: str, axis: int) -> Tensor:
            pieces = [getattr(rows, field) for rows in exported]
            return pieces[0] if len(pieces) == 1 else apply_one("ConcatV2", pieces, axis)

        tensors = {f"{whole}-{field}": joined(field, 0) for field in ("keys", "values", "counts")}
        if slots:
            values = joined("slot_values", 1)
            for i, slot in enumerate(slots):
                tensors[f"{whole}-slot-{slot}"] = apply_one("GatherV2", values, i, 0)
        names = list(tensors)
        return apply_op("SaveV2", constant(prefix), names, [""] * len(names), list(tensors.values()))


@export("train.restore_rows")
def restore_rows(
    variable: Any, prefix: Any, tensor_name: str | None = None, follow: bool = False, name: str | None = None
) -> Tensor:
    """Gives an embedding variable the rows that a checkpoint or an export has, however many parts it was saved in.

    Args:
        variable: An embedding variable, whole or in parts.
        prefix: The checkpoint's prefix; a string or a tensor.
        tensor_name: The variable's name in the checkpoint; its own if None.
        follow: Whether only what has changed since the last call is read, if the checkpoint continues that one.
        name: A name for the operation.

    Returns:
        The number of files that were read.
    """
    parts = parts_of(variable)
    with name_scope(name, "restore_rows"):
        path = constant(prefix) if isinstance(prefix, (str, bytes)) else prefix
        read = []
        for part in parts:
            with part._own_device():
                read.append(
                    apply_one(
                        "EmbeddingTableRestore",
                        part.handle,
                        path,
                        tensor_name=tensor_name or part._full_name,
                        part=part._part,
                        num_parts=part._num_parts,
                        follow=follow,
                    )
                )
        return read[0] if len(read) == 1 else apply_one("AddN", read)


@export("train.EmbeddingFollower")
class EmbeddingFollower:
    """Keeps embedding variables of a serving graph up to date with the checkpoints of a running training job.

    Only the rows that have changed between two checkpoints are read. Look-ups go on meanwhile.
    """

    def __init__(self, variables: Any, folder: str) -> None:
        """Adds nodes to the default graph.

        Args:
            variables: Embedding variables, in a list, or in a dictionary by their names in the checkpoints.
            folder: Where the training job saves.
        """
        named = variables if isinstance(variables, dict) else {parts_of(v)[0]._full_name: v for v in variables}
        self._folder = folder
        self._latest: str | None = None
        with control_dependencies(None), name_scope("follow"):
            self._prefix = apply_one("Placeholder", dtype="string", shape=[])
            self._read = [restore_rows(v, self._prefix, n, follow=True) for n, v in named.items()]

    def poll(self, session: Any) -> str | None:
        """Reads the latest checkpoint, if there is a new one; returns its prefix, or None."""
        found = latest_checkpoint(self._folder)
        if found is None or found == self._latest:
            return None
        session.run(self._read, {self._prefix: found})
        self._latest = found
        return found
