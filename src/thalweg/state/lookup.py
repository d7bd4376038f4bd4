"""Lookup tables: maps from keys to values that steps can read, and in part change."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.collections import GraphKeys
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import add_to_collection, get_collection, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor, name_of_op
from thalweg.ops.array.constants import group, no_op
from thalweg.state.saveable import TableSaveable


@export("contrib.lookup.LookupInterface")
class LookupTable:
    """The base of all tables: types, handle, lookup and size."""

    # TensorFlow's words for lookup and export in names of nodes.
    _VERBS = ("Lookup", "Export")

    def __init__(self, handle: Tensor, key_dtype: Any, value_dtype: Any, default_value: Any, name: str) -> None:
        """Used by the subclasses."""
        self._handle = handle
        self._key_dtype = as_dtype(key_dtype)
        self._value_dtype = as_dtype(value_dtype)
        self._default_value = convert_to_tensor(default_value, self._value_dtype)
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
        """The value of missing keys."""
        return self._default_value

    def size(self, name: str | None = None) -> Tensor:
        """How many entries there are."""
        with name_scope(name, f"{self._name}_Size", [self._handle]):
            return apply_one("LookupTableSizeV2", self._handle)

    def _checked(self, keys: Any) -> Tensor:
        tensor = convert_to_tensor(keys, preferred_dtype=self._key_dtype, name="keys")
        if tensor.dtype.base_dtype is not self._key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self._key_dtype}, received: {tensor.dtype}")
        return tensor

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of `keys`, a tensor or a SparseTensor; the default value where there is none."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        with name_scope(name, f"{self._name}_{self._VERBS[0]}", [self._handle, keys]):
            values = apply_one("LookupTableFindV2", self._handle, self._checked(keys), self._default_value)
        return values

    def __getitem__(self, keys: Any) -> Any:
        """The same as `lookup`."""
        return self.lookup(keys)

    def export(self, name: str | None = None) -> Any:
        """All keys and all values, as a pair of tensors."""
        with name_scope(name, f"{self._name}_{self._VERBS[1]}", [self._handle]):
            keys, values = apply(
                "LookupTableExportV2", self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype
            )  # fmt: skip
        values.set_shape(keys.shape.concatenate(self._default_value.shape))
        return keys, values


@export("lookup.StaticHashTable", "contrib.lookup.InitializableLookupTableBase")
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
        self, initializer: Any, default_value: Any, name: str | None = None, experimental_is_anonymous: bool = False
    ) -> None:
        """Creates the table and adds its initializer to GraphKeys.TABLE_INITIALIZERS."""
        self._create(initializer, default_value, initializer.shared_name, name, experimental_is_anonymous)

    def _create(
        self, initializer: Any, default_value: Any, shared_name: str, name: str | None, anonymous: bool = False
    ) -> None:
        key_dtype, value_dtype = initializer.key_dtype, initializer.value_dtype
        default = convert_to_tensor(default_value, value_dtype)
        if default.shape.ndims not in (None, 0):
            raise ValueError(f"The default value of a table must be a scalar, got shape {default.shape}.")
        if anonymous:
            handle = apply_one("AnonymousHashTable", key_dtype=key_dtype, value_dtype=value_dtype, name=name)
        else:
            handle = apply_one(
                "HashTableV2", key_dtype=key_dtype, value_dtype=value_dtype, shared_name=shared_name,
                use_node_name_sharing=not shared_name, name=name or "hash_table",
            )  # fmt: skip
        super().__init__(
            handle, key_dtype, value_dtype, default, name_of_op(handle, type(self).__name__).split("/")[-1]
        )
        self._initializer = initializer.initialize(self)

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        result: Operation = self._initializer
        return result

    init = initializer


@export("contrib.lookup.HashTable")
class HashTable(StaticHashTable):
    """The older form of StaticHashTable, which can be given a name to be shared under."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        """See StaticHashTable."""
        self._create(initializer, default_value, shared_name or initializer.shared_name, name)


class MutableTable(LookupTable):
    """A table that steps can change."""

    _VERBS = ("lookup_table_find", "lookup_table_export_values")

    def _join_checkpoints(self, name: str) -> None:
        """Makes savers save the table, under its name, or its full name if another table has that."""
        taken = {known.name for known in get_collection(GraphKeys.SAVEABLE_OBJECTS)}
        add_to_collection(
            GraphKeys.SAVEABLE_OBJECTS, TableSaveable(self, name_of_op(self._handle, name) if name in taken else name)
        )

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Sets the values of `keys`, new or not."""
        with name_scope(name, f"{self._name}_lookup_table_insert", [self._handle, keys, values]):
            values = convert_to_tensor(values, self._value_dtype, name="values")
            return apply_op("LookupTableInsertV2", self._handle, self._checked(keys), values)

    insert_or_assign = insert

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """Drops the entries of `keys`; missing keys are ignored."""
        with name_scope(name, f"{self._name}_lookup_table_remove", [self._handle, keys]):
            return apply_op("LookupTableRemoveV2", self._handle, self._checked(keys))

    erase = remove


@export("lookup.MutableHashTable", "lookup.experimental.MutableHashTable", "contrib.lookup.MutableHashTable")
class MutableHashTable(MutableTable):
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
            handle = apply_one("MutableHashTableV2", **attrs)
        else:
            handle = apply_one("MutableHashTableOfTensorsV2", value_shape=default.shape, **attrs)
        super().__init__(
            handle, key_dtype, value_dtype, default, name_of_op(handle, type(self).__name__).split("/")[-1]
        )
        if checkpoint:
            self._join_checkpoints(name)


@export("lookup.experimental.DenseHashTable")
class DenseHashTable(MutableTable):
    """A table that steps can change, with two keys that never occur; checkpoints hold its buckets.

    Keys and values may be vectors: they have the shapes of `empty_key` and of `default_value`.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
    ) -> None:
        """Creates an empty table; with `checkpoint`, savers save it by default."""
        self._create(key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets, "", name,
                     checkpoint)  # fmt: skip

    def _create(
        self, key_dtype: Any, value_dtype: Any, default_value: Any, empty_key: Any, deleted_key: Any,
        buckets: int | None, shared_name: str, name: str, checkpoint: bool,
    ) -> None:  # fmt: skip
        default = convert_to_tensor(default_value, as_dtype(value_dtype), name="default_value")
        empty = convert_to_tensor(empty_key, as_dtype(key_dtype), name="empty_key")
        deleted = convert_to_tensor(deleted_key, as_dtype(key_dtype), name="deleted_key")
        handle = apply_one(
            "MutableDenseHashTableV2", empty, deleted, value_dtype=value_dtype, value_shape=default.shape,
            initial_num_buckets=buckets, shared_name=shared_name,
            use_node_name_sharing=bool(checkpoint and not shared_name), name=name,
        )  # fmt: skip
        super().__init__(
            handle, key_dtype, value_dtype, default, name_of_op(handle, type(self).__name__).split("/")[-1]
        )
        if checkpoint:
            self._join_checkpoints(name)

    def export(self, name: str | None = None) -> Any:
        """The buckets: keys, of which some are the empty or the deleted one, and values."""
        with name_scope(name, f"{self._name}_{self._VERBS[1]}", [self._handle]):
            return tuple(apply("LookupTableExportV2", self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype))


@export("contrib.lookup.MutableDenseHashTable")
class MutableDenseHashTable(DenseHashTable):
    """The older form of DenseHashTable, with a name to be shared under, and without a key for deleted entries."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        initial_num_buckets: int | None = None,
        shared_name: str | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
        deleted_key: Any = None,
    ) -> None:
        """See DenseHashTable."""
        if deleted_key is None:
            raise ValueError("MutableDenseHashTable needs a deleted_key that is not the empty_key.")
        self._create(key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets,
                     shared_name or "", name, checkpoint)  # fmt: skip


@export("tables_initializer", "initializers.tables_initializer", deprecated=("initialize_all_tables",))
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills all tables of the default graph."""
    initializers = get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*initializers, name=name) if initializers else no_op(name=name)
