"""Tables from words to ids and back: with buckets for words that are not known, from files and from tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export, export_value
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.constants import no_op
from thalweg.ops.array.shapes_of_tensors import size
from thalweg.state.lookup import LookupTable, StaticHashTable
from thalweg.state.table_initializers import (
    KeyValueTensorInitializer,
    TextFileIdTableInitializer,
    TextFileIndex,
    TextFileStringTableInitializer,
)


@export("contrib.lookup.HasherSpec")
class HasherSpec(NamedTuple):
    """How words that a table does not know are spread over buckets: 'fasthash', or 'stronghash' with two keys."""

    hasher: str
    key: Any


FastHashSpec = HasherSpec("fasthash", None)
export_value(FastHashSpec, "contrib.lookup.FastHashSpec")


@export("contrib.lookup.StrongHashSpec")
class StrongHashSpec(HasherSpec):
    """A keyed hash, for untrusted words: an attacker cannot send all of them into one bucket."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        """Takes the key: two integers."""
        if len(key) != 2:
            raise ValueError(f"`key` must have size 2, received {key}")
        if not all(isinstance(part, int) for part in key):
            raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", list(key))


@export("contrib.lookup.IdTableWithHashBuckets")
class IdTableWithHashBuckets(LookupTable):
    """Ids of a table, and behind them buckets into which keys that it does not know are hashed.

    Args:
        table: A table from strings or int64 to int64; or None: every key goes into a bucket.
        num_oov_buckets: The number of buckets.
        hasher_spec: FastHashSpec or a StrongHashSpec.
        name: A name for the table.
        key_dtype: The type of keys, which may be another integer than the table's.
    """

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: Any = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        """See the class."""
        # Not the base's: this table has no handle of its own.
        if table is None:
            if num_oov_buckets <= 0:
                raise ValueError(f"oov_buckets must be > 0 if no table is supplied, but is {num_oov_buckets}")
            key_dtype = as_dtype(key_dtype or dtypes.string)
        else:
            key_dtype = as_dtype(key_dtype or table.key_dtype)
            wanted = (dtypes.int64, dtypes.string)
            if table.key_dtype.base_dtype not in wanted or table.value_dtype.base_dtype is not dtypes.int64:
                raise TypeError(
                    f"Invalid `key_dtype` or `value_dtype` of the table, expected int64 or string to int64, received: "
                    f"{table.key_dtype} to {table.value_dtype}"
                )
            if table.key_dtype.is_integer != key_dtype.is_integer:
                raise TypeError(f"Invalid `key_dtype`, expected {table.key_dtype}, received: {key_dtype}")
        if not (key_dtype.is_integer or key_dtype is dtypes.string):
            raise TypeError(f"Invalid `key_dtype`, expected integer or string, received: {key_dtype}")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"`hasher_spec` must be of type HasherSpec, received: {type(hasher_spec)}")
        self._table = table
        self._num_oov_buckets = num_oov_buckets
        self._hasher_spec = hasher_spec
        self._key_dtype, self._value_dtype = key_dtype, dtypes.int64
        self._name = name.split("/")[-1] if name else table.name if table is not None else "hash_bucket"

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._table.initializer if self._table is not None else no_op()

    @property
    def init(self) -> Operation:
        """The old name of `initializer`."""
        return self.initializer

    @property
    def resource_handle(self) -> Any:
        """The handle of the table; None if there is none."""
        return self._table.resource_handle if self._table is not None else None

    @property
    def default_value(self) -> Any:
        """The table's value for missing keys."""
        return self._table.default_value if self._table is not None else None

    def size(self, name: str | None = None) -> Any:
        """How many ids there are: entries and buckets."""
        with name_scope(name, f"{self._name}_Size"):
            known: Any = self._table.size() if self._table is not None else convert_to_tensor(0, dtypes.int64)
            return known + self._num_oov_buckets

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The ids of `keys`, a tensor or a SparseTensor."""
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, self.lookup(keys.values, name), keys.dense_shape)
        values = self._checked(keys)
        if self._table is not None and self._table.key_dtype.is_integer and values.dtype is not dtypes.int64:
            values = apply_one("Cast", values, DstT=dtypes.int64)
        if self._num_oov_buckets == 0:
            return self._table.lookup(values, name)
        with name_scope(name, f"{self._name}_Lookup"):
            buckets = self._buckets(values)
            if self._table is None:
                return buckets
            ids = self._table.lookup(values)
            buckets = apply_one("AddV2", buckets, self._table.size(), name="Add")
            is_known = apply_one("NotEqual", ids, self._table.default_value)
            return apply_one("SelectV2", is_known, ids, buckets)

    def _buckets(self, values: Tensor) -> Tensor:
        text = apply_one("AsString", values) if values.dtype.is_integer else values
        spec = self._hasher_spec
        if spec.hasher == "fasthash":
            return apply_one("StringToHashBucketFast", text, num_buckets=self._num_oov_buckets, name="hash_bucket")
        if spec.hasher == "stronghash":
            return apply_one(
                "StringToHashBucketStrong", text, num_buckets=self._num_oov_buckets, key=spec.key, name="hash_bucket"
            )
        raise ValueError(f"Found unknown hasher {spec.hasher} in `hasher_spec`")


@export("lookup.StaticVocabularyTable")
class StaticVocabularyTable(IdTableWithHashBuckets):
    """Ids of a vocabulary, and behind them buckets for words that are not in it.

    Example:
        >>> init = tf.lookup.KeyValueTensorInitializer(["emerson", "lake"], tf.constant([0, 1], tf.int64))
        >>> table = tf.lookup.StaticVocabularyTable(init, num_oov_buckets=3)
        >>> with tf.Session() as sess:
        ...     sess.run(table.initializer)
        ...     print(sess.run(table.lookup(tf.constant(["lake", "king"]))))
        [1 3]
    """

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        """Creates the table; without an initializer there are only buckets."""
        if num_oov_buckets <= 0:
            raise ValueError(
                f"`num_oov_buckets` must be > 0; use StaticHashTable otherwise. Received: {num_oov_buckets}"
            )
        if lookup_key_dtype is not None and as_dtype(lookup_key_dtype) not in (dtypes.int64, dtypes.string):
            raise TypeError(f"`lookup_key_dtype` must be either int64 or string, received: {lookup_key_dtype}")
        table = None
        if initializer is not None:
            if initializer.value_dtype is not dtypes.int64:
                raise TypeError(f"Invalid `value_dtype`, expected int64, received: {initializer.value_dtype}")
            table = StaticHashTable(initializer, -1, None, experimental_is_anonymous)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


@export("contrib.lookup.index_table_from_file")
def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table from the lines of a file to their numbers.

    Raises:
        ValueError: If there is no file, or a size is negative.
        TypeError: If keys are neither strings nor integers.
    """
    if vocabulary_file is None or (isinstance(vocabulary_file, (str, bytes)) and not vocabulary_file):
        raise ValueError("`vocabulary_file` must be specified and must not be empty.")
    _check_sizes(num_oov_buckets, vocab_size)
    key_dtype = as_dtype(key_dtype)
    if not (key_dtype.is_integer or key_dtype is dtypes.string):
        raise TypeError("Dtype for `keys` should be either integer or string.")
    with name_scope(name, "string_to_index"), name_scope(None, "hash_table"):
        initializer = TextFileIdTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter, "table_init",
            dtypes.int64 if key_dtype.is_integer else key_dtype,
        )  # fmt: skip
        return _with_buckets(initializer, default_value, num_oov_buckets, hasher_spec, key_dtype)


@export("contrib.lookup.index_table_from_tensor")
def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """A table from the elements of a vector to their places in it.

    Raises:
        ValueError: If there is no vector, it has another type, or there is a negative number of buckets.
        TypeError: If keys are neither strings nor integers.
    """
    if mapping is None:
        raise ValueError("`mapping` must be specified.")
    _check_sizes(num_oov_buckets, None)
    dtype = as_dtype(dtype)
    if not (dtype.is_integer or dtype is dtypes.string):
        raise TypeError("`dtype` must be either integer or string.")
    with name_scope(name, "string_to_index"):
        keys = convert_to_tensor(mapping)
        if keys.dtype.is_integer != dtype.is_integer or (not dtype.is_integer and keys.dtype.base_dtype is not dtype):
            raise ValueError(f"Invalid `dtype`: Expected {'integer' if dtype.is_integer else dtype}, got {keys.dtype}.")
        values = _places(keys)
        with name_scope(None, "hash_table"):
            if keys.dtype.is_integer and keys.dtype is not dtypes.int64:
                keys = apply_one("Cast", keys, DstT=dtypes.int64)
            initializer = KeyValueTensorInitializer(keys, values, keys.dtype.base_dtype, dtypes.int64, "table_init")
            return _with_buckets(initializer, default_value, num_oov_buckets, hasher_spec, dtype)


def _check_sizes(num_oov_buckets: int, vocab_size: int | None) -> None:
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"`vocab_size` must be greater than 0, got {vocab_size}.")


def _places(elements: Tensor) -> Tensor:
    """0, 1, 2, ... for each element of a vector."""
    return apply_one("Cast", apply_one("Range", 0, size(elements), 1, name="range"), DstT=dtypes.int64)


def _with_buckets(
    initializer: Any, default_value: Any, num_oov_buckets: int, hasher_spec: Any, key_dtype: DType
) -> Any:
    table = StaticHashTable(initializer, default_value)
    if num_oov_buckets or table.key_dtype is not key_dtype:
        return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=key_dtype)
    return table


@export("contrib.lookup.index_to_string_table_from_file")
def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = TextFileIndex.LINE_NUMBER,
    value_column_index: int = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> StaticHashTable:
    """A table from the numbers of lines to the lines of a file.

    Raises:
        ValueError: If there is no file, or `vocab_size` is not positive.
    """
    if vocabulary_file is None or (isinstance(vocabulary_file, (str, bytes)) and not vocabulary_file):
        raise ValueError("`vocabulary_file` must be specified and must not be empty.")
    _check_sizes(0, vocab_size)
    with name_scope(name, "index_to_string"):
        initializer = TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter, "table_init"
        )
        return StaticHashTable(initializer, default_value)


@export("contrib.lookup.index_to_string_table_from_tensor")
def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> StaticHashTable:
    """A table from places in a vector of strings to its elements.

    Raises:
        ValueError: If there is no vector.
    """
    if mapping is None:
        raise ValueError("`mapping` argument must be specified.")
    with name_scope(name, "index_to_string"):
        words = convert_to_tensor(mapping, dtypes.string)
        initializer = KeyValueTensorInitializer(_places(words), words, dtypes.int64, dtypes.string, "table_init")
        return StaticHashTable(initializer, default_value)


@export("contrib.lookup.string_to_index")
def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Any:
    """The places of strings in the vector `mapping`; `tables_initializer` has to be run first."""
    table = index_table_from_tensor(mapping, default_value=default_value, name=name)
    return table.lookup(tensor)


@export("contrib.lookup.index_to_string")
def index_to_string(tensor: Any, mapping: Any, default_value: str = "UNK", name: str | None = None) -> Any:
    """The strings at places in the vector `mapping`; `tables_initializer` has to be run first."""
    table = index_to_string_table_from_tensor(mapping, default_value, name)
    return table.lookup(tensor)
