"""Operations that initialize a model when it is loaded, and files that belong to it."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, control_dependencies
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import group
from thalweg.state.lookup import tables_initializer
from thalweg.state.variable_lists import global_variables_initializer, local_variables_initializer


@export("saved_model.main_op.main_op")
def main_op() -> Operation:
    """An operation that initializes all variables and tables."""
    return group(global_variables_initializer(), local_variables_initializer(), tables_initializer())


@export("saved_model.main_op_with_restore", "saved_model.main_op.main_op_with_restore")
def main_op_with_restore(restore_op_name: str) -> Operation:
    """An operation that initializes all variables and tables, and then restores the saved values."""
    with control_dependencies([main_op()]):
        return group(restore_op_name)


@export("saved_model.Asset")
class Asset:
    """A file that belongs to a model, such as a vocabulary: it is copied into the SavedModel."""

    def __init__(self, path: Any) -> None:
        """Makes a constant with the path, and adds it to GraphKeys.ASSET_FILEPATHS."""
        self._path = convert_to_tensor(path, dtypes.string, name="asset_path")
        add_to_collection(GraphKeys.ASSET_FILEPATHS, self._path)

    @property
    def asset_path(self) -> Tensor:
        """The path: of the copy, in a loaded model."""
        return self._path
