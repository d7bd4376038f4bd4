"""Whole files as tensors: reading, writing, and finding them by patterns."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform import gfile


def _read_file_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(0), 0)
    return TensorShape(())


def _write_file_shape(c: ShapeContext) -> list[TensorShape]:
    shapes.with_rank(c.input(0), 0)
    shapes.with_rank(c.input(1), 0)
    return []


def _matching_files_shape(c: ShapeContext) -> TensorShape:
    if (c.input(0).ndims or 0) > 1:
        raise ValueError(f"Shape must be at most rank 1 but is rank {c.input(0).ndims}: the patterns")
    return TensorShape([None])


# A file may change between two reads: they are not merged, nor computed while compiling.
define("ReadFile", "filename: string -> contents: string", shape=_read_file_shape, effect=Effect.EXTERNAL)
define("WriteFile", "filename: string, contents: string ->", shape=_write_file_shape, effect=Effect.EXTERNAL)
define("MatchingFiles", "pattern: string -> filenames: string", shape=_matching_files_shape, effect=Effect.EXTERNAL)
not_differentiable("ReadFile", "WriteFile", "MatchingFiles")


@export("read_file", "io.read_file")
def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Returns the content of a file as a scalar of type string."""
    return apply_one("ReadFile", filename, name=name)


@export("write_file", "io.write_file")
def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Writes a string to a file, which is created or replaced, with the directories that it needs."""
    return apply_op("WriteFile", filename, contents, name=name)


@export("matching_files", "io.matching_files")
def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """Returns the names of the files that match one of some patterns, as a vector of strings.

    Patterns are those of `tf.gfile.Glob`. The names are sorted; one that matches several patterns comes as often. As in
    TensorFlow, a pattern without a directory gives names that begin with `./`.

    Args:
        pattern: A scalar or a vector of patterns.
        name: The name of the operation.
    """
    return apply_one("MatchingFiles", pattern, name=name)


@python_kernel("MatchingFiles")
def _matching_files(inputs: list[np.ndarray], attrs: dict[str, Any]) -> Any:
    found: list[bytes] = []
    for pattern in inputs[0].reshape(-1).tolist():
        prefix = b"" if b"/" in pattern else b"./"
        found.extend(prefix + os.fsencode(path) for path in gfile.Glob(pattern))
    names = np.empty(len(found), dtype=object)
    names[:] = sorted(found)
    return names
