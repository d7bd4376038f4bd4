"""Lookup tables in checkpoints: their keys and values, as two tensors."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_op
from thalweg.graph.operation import Operation
from thalweg.train.checkpoints.saveable import SaveableObject, SaveSpec


class TableSaveable(SaveableObject):
    """A table that steps can change; restoring replaces all that is in it."""

    def __init__(self, table: Any, name: str) -> None:
        """Names the tensors as TensorFlow does."""
        keys, values = table.export()
        super().__init__(table, [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Puts the restored entries in the place of the present ones."""
        del restored_shapes  # Tables have no shape of their own.
        handle = self.op.resource_handle
        return apply_op("LookupTableImportV2", handle, *restored_tensors)
