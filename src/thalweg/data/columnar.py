"""Datasets of Parquet and Arrow files, through pyarrow: the extra `thalweg[parquet]`.

Files are read a batch of rows at a time; the columns of a batch become tensors without a copy where Arrow's layout
allows it, and the core takes the rows apart.
"""

from __future__ import annotations

import importlib
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from thalweg.data.dataset import Dataset
from thalweg.graph import dtypes
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor_shape import TensorShape

_ROWS = 1024  # of a batch


def _pyarrow() -> Any:
    # Imported by name: mypy runs with and without pyarrow.
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as e:
        raise ImportError(
            "Parquet and Arrow files are read with pyarrow, which is not installed: pip install 'thalweg[parquet]'."
        ) from e


def _paths(filenames: Any) -> list[str]:
    names = [filenames] if isinstance(filenames, (str, bytes, os.PathLike)) else list(filenames)
    if not names:
        raise ValueError("There must be at least one file.")
    return [os.fsdecode(name) for name in names]


def _column(name: str, kind: Any, pyarrow: Any) -> tuple[DType, TensorShape]:
    """The element type of a column, and the shape of its values."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        return dtypes.string, TensorShape([])
    if types.is_fixed_size_list(kind):
        dtype, inner = _column(name, kind.value_type, pyarrow)
        return dtype, TensorShape([kind.list_size]).concatenate(inner)
    try:
        return as_dtype(kind.to_pandas_dtype()), TensorShape([])
    except (TypeError, NotImplementedError) as e:
        raise TypeError(f"Column '{name}' has the type {kind}, which no tensor has.") from e


def _values(array: Any, dtype: DType, shape: TensorShape, pyarrow: Any) -> Any:
    """The values of a column of one batch as an array `[rows, ...]`."""
    if pyarrow.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.null_count:
        if dtype is dtypes.string:
            array = array.fill_null("" if pyarrow.types.is_string(array.type) else b"")
        elif not dtype.is_floating:
            raise ValueError(f"{array.null_count} values are missing, and {dtype.name} has no value for that.")
    sizes = [size.value for size in (shape.dims or [])]
    if sizes:
        flat = _values(array.flatten(), dtype, TensorShape([]), pyarrow)
        return np.asarray(flat).reshape([len(array), *sizes])
    if dtype is dtypes.string:
        return np.asarray(array.to_pylist(), dtype=object)
    return array.to_numpy(zero_copy_only=False).astype(dtype.as_numpy_dtype, copy=False)


class _Columnar(Dataset):
    """Rows of columnar files, as dictionaries from column names to tensors."""

    def __init__(self, filenames: Any, columns: Sequence[str] | None = None, batch_size: int | None = None) -> None:
        """Reads files in order.

        Args:
            filenames: A name or names.
            columns: Which columns to read; all if None.
            batch_size: If given, elements are batches of so many rows (fewer at the end of a file).

        Raises:
            ImportError: If pyarrow is not installed.
            ValueError: If a column does not exist.
            TypeError: If no tensor can hold a column.
        """
        pyarrow = _pyarrow()
        paths = _paths(filenames)
        schema = self._schema(pyarrow, paths[0])
        names = list(schema.names if columns is None else columns)
        missing = [name for name in names if name not in schema.names]
        if missing or not names:
            raise ValueError(f"{paths[0]} has the columns {schema.names}; asked for are {names}.")
        kinds = {name: _column(name, schema.field(name).type, pyarrow) for name in names}
        rows = _ROWS if batch_size is None else int(batch_size)
        if rows < 1:
            raise ValueError(f"batch_size must be at least 1, got {rows}.")

        def batches() -> Iterator[dict[str, Any]]:
            for path in paths:
                for batch in self._batches(pyarrow, path, names, rows):
                    yield {name: _values(batch.column(name), *kinds[name], pyarrow) for name in names}

        types = {name: dtype for name, (dtype, _) in kinds.items()}
        shapes = {name: TensorShape([None]).concatenate(shape) for name, (_, shape) in kinds.items()}
        batched = Dataset.from_generator(batches, types, shapes)
        dataset = batched.unbatch() if batch_size is None else batched
        super().__init__(dataset._variant_tensor, dataset.element_spec)

    @staticmethod
    def _schema(pyarrow: Any, path: str) -> Any:
        raise NotImplementedError

    @staticmethod
    def _batches(pyarrow: Any, path: str, names: list[str], rows: int) -> Iterator[Any]:
        raise NotImplementedError


@export("data.experimental.ParquetDataset")
class ParquetDataset(_Columnar):
    """The rows of Parquet files, as dictionaries from column names to tensors. Needs the extra `thalweg[parquet]`."""

    @staticmethod
    def _schema(pyarrow: Any, path: str) -> Any:
        return pyarrow.parquet.read_schema(path)

    @staticmethod
    def _batches(pyarrow: Any, path: str, names: list[str], rows: int) -> Iterator[Any]:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=rows, columns=names)


@export("data.experimental.ArrowDataset")
class ArrowDataset(_Columnar):
    """The rows of Arrow (Feather, IPC) files, as dictionaries of tensors. Needs the extra `thalweg[parquet]`."""

    @staticmethod
    def _schema(pyarrow: Any, path: str) -> Any:
        with pyarrow.memory_map(path) as source, pyarrow.ipc.open_file(source) as reader:
            return reader.schema

    @staticmethod
    def _batches(pyarrow: Any, path: str, names: list[str], rows: int) -> Iterator[Any]:
        with pyarrow.memory_map(path) as source, pyarrow.ipc.open_file(source) as reader:
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i).select(names)
                for start in itertools.count(0, rows):
                    if start >= batch.num_rows:
                        break
                    yield batch.slice(start, rows)
