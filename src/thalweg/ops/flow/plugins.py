"""Ops from a user's file (`load_op_library`), and stubs for eager execution and file system plug-ins."""

from __future__ import annotations

import importlib.util
import os
from types import ModuleType
from typing import Any

from thalweg import errors
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor


@export("load_op_library")
def load_op_library(library_filename: str) -> ModuleType:
    """Loads a Python file that defines ops with `define` and kernels with `python_kernel`, of the op registry.

    Args:
        library_filename: The file. Shared libraries made for TensorFlow's C++ interface cannot be loaded.

    Returns:
        The module that the file defines.

    Raises:
        errors.NotFoundError: If there is no such file.
        errors.UnimplementedError: If it is not a Python file.
    """
    if not os.path.isfile(library_filename):
        raise errors.NotFoundError(None, None, f"{library_filename}: no such file.")
    if not library_filename.endswith(".py"):
        raise errors.UnimplementedError(
            None,
            None,
            f"{library_filename}: only Python files can be loaded; see docs/add_an_op.md for native kernels.",
        )
    name = "thalweg_library_" + os.path.splitext(os.path.basename(library_filename))[0]
    spec = importlib.util.spec_from_file_location(name, library_filename)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@export("load_file_system_library")
def load_file_system_library(library_filename: str) -> None:
    """Not available: files are reached through the operating system only."""
    raise errors.UnimplementedError(None, None, f"Cannot load {library_filename}: there are no file-system plug-ins.")


@export("resource_variables_enabled")
def resource_variables_enabled() -> bool:
    """Whether new variables are resource variables: they always are."""
    return True


@export("control_flow_v2_enabled")
def control_flow_v2_enabled() -> bool:
    """Whether conditionals and loops become nodes that call functions: they become primitives of control flow."""
    return False


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether a value stands for one that a step computes: a tensor of a graph, a variable, or a sparse value."""
    return isinstance(tensor, (Tensor, SparseTensor, IndexedSlices)) or hasattr(tensor, "_as_graph_element")
