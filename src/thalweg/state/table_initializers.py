"""Initializers of lookup tables: from two tensors, or from the lines of a text file."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor


@export("lookup.TextFileIndex", "contrib.lookup.TextFileIndex")
class TextFileIndex:
    """Special column numbers: the whole line, or its number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


@export("contrib.lookup.TableInitializerBase")
class TableInitializer:
    """The base of initializers: knows the types of a table and makes the operation that fills it."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        """Keeps the types."""
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)

    @property
    def key_dtype(self) -> DType:
        """The type of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The type of the values."""
        return self._value_dtype

    @property
    def shared_name(self) -> str:
        """The name under which tables with this content can be one; empty if none can."""
        return ""

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        raise NotImplementedError

    def _check(self, table: Any) -> None:
        if (table.key_dtype, table.value_dtype) != (self._key_dtype, self._value_dtype):
            raise TypeError(
                f"Invalid types: the table has ({table.key_dtype.name}, {table.value_dtype.name}), its initializer "
                f"({self._key_dtype.name}, {self._value_dtype.name})."
            )


@export("lookup.KeyValueTensorInitializer", "contrib.lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer(TableInitializer):
    """Fills a table from two tensors."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        """Keeps keys and values, converted to tensors of these types."""
        self._keys = convert_to_tensor(keys, key_dtype, name="keys")
        self._values = convert_to_tensor(values, value_dtype, name="values")
        self._name = name
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        self._check(table)
        with name_scope(self._name, "key_value_init", [table.resource_handle, self._keys, self._values]):
            op = apply_op("LookupTableImportV2", table.resource_handle, self._keys, self._values)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


@export("lookup.TextFileInitializer", "contrib.lookup.TextFileInitializer")
class TextFileInitializer(TableInitializer):
    """Fills a table from the lines of a text file.

    Args:
        filename: The file.
        key_dtype: The type of the keys.
        key_index: Which column is the key: a number, or one of TextFileIndex.
        value_dtype: The type of the values.
        value_index: Which column is the value.
        vocab_size: How many lines to read, if not all.
        delimiter: What separates columns.
        name: A name scope for the node.
        value_index_offset: Added to line numbers.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        """See the class."""
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("Filename required")
        for what, index, dtype in (
            ("key", key_index, as_dtype(key_dtype)),
            ("value", value_index, as_dtype(value_dtype)),
        ):
            if index < -2:
                raise ValueError(f"Invalid {what} index {index}.")
            if index == TextFileIndex.LINE_NUMBER and dtype != dtypes.int64:
                raise ValueError(f"`{what}_dtype` must be int64 if `{what}_index` is -1, received: {dtype}")
            if index == TextFileIndex.WHOLE_LINE and not (dtype == dtypes.string or dtype.is_integer):
                raise ValueError(
                    f"`{what}_dtype` should be either integer or string if `{what}_index` is -2, received: {dtype}"
                )
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"`vocab_size` should be > 0, received: {vocab_size}")
        self._filename = convert_to_tensor(filename, dtypes.string, name="asset_path")
        known = filename if isinstance(filename, (str, bytes)) else self._filename.name
        self._path = known.decode() if isinstance(known, bytes) else known
        self._attrs: dict[str, Any] = {
            "key_index": key_index, "value_index": value_index, "delimiter": delimiter, "offset": value_index_offset,
            "vocab_size": -1 if vocab_size is None else vocab_size,
        }  # fmt: skip
        self._name = name
        super().__init__(key_dtype, value_dtype)

    @property
    def shared_name(self) -> str:
        """Names the file and the way it is read: equal tables share their memory."""
        size, offset = self._attrs["vocab_size"], self._attrs["offset"]
        parts = ["hash_table", self._path, *([size] if size != -1 else []), self._attrs["key_index"],
                 self._attrs["value_index"], *([offset] if offset else [])]  # fmt: skip
        return "_".join(str(part) for part in parts)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        self._check(table)
        with name_scope(self._name, "text_file_init", [table.resource_handle]):
            op = apply_op("InitializeTableFromTextFileV2", table.resource_handle, self._filename, **self._attrs)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        if self._filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)
        return op


@export("contrib.lookup.TextFileStringTableInitializer")
class TextFileStringTableInitializer(TextFileInitializer):
    """Fills a table from line numbers to lines."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.LINE_NUMBER,
        value_column_index: int = TextFileIndex.WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        """See TextFileInitializer."""
        super().__init__(
            filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter, name
        )


@export("contrib.lookup.TextFileIdTableInitializer")
class TextFileIdTableInitializer(TextFileInitializer):
    """Fills a table from lines to line numbers."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = TextFileIndex.WHOLE_LINE,
        value_column_index: int = TextFileIndex.LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: Any = dtypes.string,
    ) -> None:
        """See TextFileInitializer."""
        super().__init__(
            filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter, name
        )
