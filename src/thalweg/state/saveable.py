"""The tensors, with names, that the checkpoint of an object consists of; savers (train/checkpoints) use them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph.apply import apply_op
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


@export("train.experimental.SaveSpec")
class SaveSpec:
    """One tensor of a SaveableObject: the tensor or a function that makes it, its name and slice in the checkpoint."""

    def __init__(self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: Any = None) -> None:
        """Keeps them; a function needs `dtype` and `device`."""
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor) and (dtype is None or device is None):
            raise AssertionError("When passing a callable `tensor` to a SaveSpec, explicit dtype and device are needed")
        self.dtype: DType = as_dtype(dtype) if dtype is not None else tensor.dtype
        self.device: str = device if device is not None else tensor.device

    @property
    def tensor(self) -> Tensor:
        """The tensor."""
        return self._tensor() if callable(self._tensor) else self._tensor  # type: ignore[no-any-return]


@export("train.experimental.SaveableObject")
class SaveableObject:
    """An object that is saved as one or more tensors. Subclasses override `restore`."""

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        """Keeps the saved object (`op`), its tensors, and the name that it is saved under."""
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def device(self) -> str:
        """The device of its first tensor."""
        return self.specs[0].device

    @property
    def optional_restore(self) -> bool:
        """Whether it need not be in the checkpoint."""
        return False

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """The operation that gives it the restored values.

        Args:
            restored_tensors: One per spec.
            restored_shapes: The shapes to give them, or None.
        """
        raise ValueError("Calling an abstract method.")


class TableSaveable(SaveableObject):
    """A table that steps can change; restoring replaces all its entries."""

    def __init__(self, table: Any, name: str) -> None:
        """Names the tensors as TensorFlow does."""
        keys, values = table.export()
        super().__init__(table, [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")], name)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Operation:
        """Puts the restored entries in the place of the present ones."""
        del restored_shapes  # Tables have no shape of their own.
        handle = self.op.resource_handle
        return apply_op("LookupTableImportV2", handle, *restored_tensors)
