"""Lookup tables: maps from keys to values that steps can read, and in part change."""

from __future__ import annotations

import importlib
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply
from thalweg.graph.collections import GraphKeys
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, get_collection, name_scope
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_registry import export
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.constants import group, no_op


@export("lookup.TextFileIndex", "contrib.lookup.TextFileIndex")
class TextFileIndex:
    """What a column number stands for besides a column: the whole line, or its number."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class TableInitializer:
    """What fills a table: knows its types and makes the operation."""

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
        with name_scope(name, "key_value_init", [keys, values]) as scope:
            self._keys = convert_to_tensor(keys, key_dtype, name="keys")
            self._values = convert_to_tensor(values, value_dtype, name="values")
        self._name = scope
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        self._check(table)
        with name_scope(self._name):
            op: Operation = apply("InitializeTableV2", table.resource_handle, self._keys, self._values)
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
                raise ValueError(f"Signature mismatch. {what.title()}s must be dtype int64, got {dtype.name}.")
            if index == TextFileIndex.WHOLE_LINE and not (dtype == dtypes.string or dtype.is_integer):
                raise ValueError(f"Signature mismatch. {what.title()}s must be integer or string, got {dtype.name}.")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename = filename
        self._attrs: dict[str, Any] = {
            "key_index": key_index, "value_index": value_index, "delimiter": delimiter, "offset": value_index_offset,
            "vocab_size": -1 if vocab_size is None else vocab_size,
        }  # fmt: skip
        self._name = name
        super().__init__(key_dtype, value_dtype)

    def initialize(self, table: Any) -> Operation:
        """The operation that fills `table`."""
        self._check(table)
        with name_scope(self._name, "text_file_init", [table.resource_handle]):
            filename = convert_to_tensor(self._filename, dtypes.string, name="asset_filepath")
            op: Operation = apply("InitializeTableFromTextFileV2", table.resource_handle, filename, **self._attrs)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        if filename.op.type == "Const":
            add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
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


class LookupTable:
    """What all tables share: their types, their handle, looking up and counting."""

    def __init__(self, handle: Tensor, key_dtype: Any, value_dtype: Any, default_value: Any, name: str) -> None:
        """Used by the subclasses."""
        self._handle = handle
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype, name="default_value")
        self._name = name

    @property
    def key_dtype(self) -> DType:
        """The type of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> DType:
        """The type of the values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._name

    @property
    def resource_handle(self) -> Tensor:
        """The handle of the table."""
        return self._handle

    table_ref = resource_handle

    @property
    def default_value(self) -> Tensor:
        """What keys that are not there give."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries there are."""
        return apply("LookupTableSizeV2", self._handle, name=name or f"{self._name}_Size")  # type: ignore[no-any-return]

    def _checked(self, keys: Any) -> Tensor:
        tensor = convert_to_tensor(keys, preferred_dtype=self._key_dtype, name="keys")
        if tensor.dtype.base_dtype is not self._key_dtype:
            raise TypeError(f"Signature mismatch. Keys must be dtype {self._key_dtype.name}, got {tensor.dtype.name}.")
        return tensor

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of `keys`, a tensor or a SparseTensor; the default value where there is none."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        with name_scope(name, f"{self._name}_Lookup", [self._handle, keys]):
            values = apply("LookupTableFindV2", self._handle, self._checked(keys), self._default_value)
        return values

    def export(self, name: str | None = None) -> Any:
        """All keys and all values, as a pair of tensors."""
        keys, values = apply(
            "LookupTableExportV2", self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype,
            name=name or f"{self._name}_lookup_table_export_values",
        )  # fmt: skip
        values.set_shape(keys.shape.concatenate(self._default_value.shape))
        return keys, values


@export("lookup.StaticHashTable", "contrib.lookup.HashTable")
class StaticHashTable(LookupTable):
    """A table that its initializer fills once.

    Example:
        >>> init = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        >>> table = tf.lookup.StaticHashTable(init, default_value=-1)
        >>> with tf.Session() as sess:
        ...     sess.run(tf.tables_initializer())
        ...     print(sess.run(table.lookup(tf.constant(["b", "c"]))))
        [ 2 -1]
    """

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str = "hash_table"
    ) -> None:
        """Creates the table and adds its initializer to GraphKeys.TABLE_INITIALIZERS."""
        name = name or "hash_table"
        with name_scope(name, "hash_table"):
            handle = apply(
                "HashTableV2", key_dtype=initializer.key_dtype, value_dtype=initializer.value_dtype,
                shared_name=shared_name or "", use_node_name_sharing=True, name="hash_table",
            )  # fmt: skip
            super().__init__(handle, initializer.key_dtype, initializer.value_dtype, default_value, name.split("/")[-1])
            if self._default_value.shape.ndims not in (None, 0):
                raise ValueError(
                    f"The default value of a table must be a scalar, got shape {self._default_value.shape}."
                )
            self._initializer = initializer.initialize(self)

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._initializer  # type: ignore[no-any-return]

    init = initializer


@export("lookup.MutableHashTable", "contrib.lookup.MutableHashTable")
class MutableHashTable(LookupTable):
    """A table that steps can change. Values may be tensors: all have the shape of the default value."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        """Creates an empty table; with `checkpoint`, savers save it by default."""
        default = convert_to_tensor(default_value, as_dtype(value_dtype))
        attrs = {
            "key_dtype": key_dtype, "value_dtype": value_dtype, "shared_name": shared_name or "",
            "use_node_name_sharing": bool(checkpoint and not shared_name), "name": name,
        }  # fmt: skip
        if default.shape.ndims == 0:
            handle = apply("MutableHashTableV2", **attrs)
        else:
            handle = apply("MutableHashTableOfTensorsV2", value_shape=default.shape, **attrs)
        super().__init__(handle, key_dtype, value_dtype, default, handle.op.name.split("/")[-1])
        if checkpoint:
            self._join_checkpoints(name)

    def _join_checkpoints(self, name: str) -> None:
        """Makes savers save the table, under its name, or its full name if another table has that."""
        # By name: savers are built upon state, not the other way round.
        saveable = importlib.import_module("thalweg.train.table_saveable").TableSaveable
        taken = {known.name for known in get_collection(GraphKeys.SAVEABLE_OBJECTS)}
        add_to_collection(GraphKeys.SAVEABLE_OBJECTS, saveable(self, self._handle.op.name if name in taken else name))

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Sets the values of `keys`, new or not."""
        with name_scope(name, f"{self._name}_lookup_table_insert", [self._handle, keys, values]):
            values = convert_to_tensor(values, self._value_dtype, name="values")
            op: Operation = apply("LookupTableInsertV2", self._handle, self._checked(keys), values)
            return op

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Drops the entries of `keys`; those that are not there do not matter."""
        with name_scope(name, f"{self._name}_lookup_table_remove", [self._handle, keys]):
            op: Operation = apply("LookupTableRemoveV2", self._handle, self._checked(keys))
            return op


@export("tables_initializer", "initializers.tables_initializer", deprecated=("initialize_all_tables",))
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills all tables of the default graph."""
    initializers = get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*initializers, name=name) if initializers else no_op(name=name)
