"""RaggedTensor: values, and the splits that say where each row begins and ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import thalweg
from thalweg.graph import nest
from thalweg.graph.definitions.op_registry import export

tf: Any = thalweg  # The public names are bound at run time.


@export("ragged.RaggedTensorValue")
class RaggedTensorValue(NamedTuple):
    """What a step returns, and is fed, for a RaggedTensor: `values` may be a RaggedTensorValue itself."""

    values: Any
    row_splits: Any

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self.values.dtype

    @property
    def flat_values(self) -> Any:
        """The elements of all rows."""
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits of all ragged dimensions, outermost first."""
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ()
        return (self.row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The number of rows, None for each ragged dimension, and the sizes of those inside."""
        return (len(self.row_splits) - 1, *[None] * self.ragged_rank, *self.flat_values.shape[1:])

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def to_list(self) -> list[Any]:
        """The rows as nested lists."""
        rows = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        ends = self.row_splits.tolist()
        return [rows[a:b] for a, b in itertools.pairwise(ends)]


def _row_partition(tensor: Any, name: str) -> Any:
    tensor = tf.convert_to_tensor(tensor, name=name, preferred_dtype=tf.int64)
    if tensor.dtype not in (tf.int32, tf.int64):
        raise ValueError(f"{name} must have dtype int32 or int64, got {tensor.dtype}.")
    tensor.shape.assert_has_rank(1)
    return tensor


def _ending_with(values: Any, splits: Any, maker: str) -> Any:
    """The splits, which have to end with the number of the values: checked now if both are known, else in the step."""
    count = _count(values, splits.dtype)
    known, size = tf.get_static_value(splits), tf.get_static_value(count)
    message = f"Arguments to {maker} do not form a valid RaggedTensor: the rows end elsewhere than the values"
    if known is not None and known.size > 0 and size is not None:
        if known[-1] != size:
            raise tf.errors.InvalidArgumentError(None, None, f"{message}, at {known[-1]}, with {size} values.")
        return splits
    with tf.control_dependencies([tf.debugging.assert_equal(splits[-1], count, message=message)]):
        return tf.identity(splits)


def _as_values(values: Any) -> Any:
    return values if isinstance(values, RaggedTensor) else tf.convert_to_tensor(values, name="values")


@export("RaggedTensor")
class RaggedTensor:
    """A tensor with rows of different lengths. Make one with a `from_...` method, or with `tf.ragged.constant`.

    Example:
        >>> rt = tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 4, 4, 5])
        >>> with tf.Session() as sess:
        ...     print(sess.run(rt).to_list())
        [[3, 1, 4, 1], [], [5]]
    """

    # NumPy arrays on the left of an operator leave the operation to us.
    __array_priority__ = 100

    def __init__(self, values: Any, row_splits: Any, internal: bool = False) -> None:
        """For the `from_...` methods."""
        if not internal:
            raise ValueError("RaggedTensor constructor is private; please use one of the factory methods instead.")
        self._values, self._row_splits = values, row_splits

    # Making.

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i is `values[row_splits[i]:row_splits[i + 1]]`."""
        with tf.name_scope(name, "RaggedFromRowSplits", [row_splits]):
            splits = _row_partition(row_splits, "row_splits")
            known = tf.get_static_value(splits)
            fits = known is None or (known.size > 0 and known[0] == 0 and (np.diff(known) >= 0).all())
            if validate and not fits:
                raise ValueError(f"row_splits must begin with 0 and not decrease, got {known.tolist()}.")
            values = _as_values(values)
            if isinstance(values, tf.Tensor):
                values.shape.with_rank_at_least(1)
            if validate:
                splits = _ending_with(values, splits, "from_row_splits")
            return cls(values, splits, internal=True)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i has `row_lengths[i]` values."""
        with tf.name_scope(name, "RaggedFromRowLengths", [row_lengths]):
            lengths = _row_partition(row_lengths, "row_lengths")
            known = tf.get_static_value(lengths)
            if known is not None and validate and (known < 0).any():
                raise ValueError(f"row_lengths must not be negative, got {known.tolist()}.")
            splits = tf.concat([tf.zeros([1], lengths.dtype), tf.cumsum(lengths)], 0)
            values = _as_values(values)
            if validate:
                splits = _ending_with(values, splits, "from_row_lengths")
            return cls(values, splits, internal=True)

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """`value_rowids[i]`, which never falls, is the row of `values[i]`."""
        with tf.name_scope(name, "RaggedFromValueRowIds", [value_rowids]):
            rowids = _row_partition(value_rowids, "value_rowids")
            if nrows is None:
                last = tf.concat([tf.constant([-1], rowids.dtype), rowids[-1:]], 0)[-1]
                count = last + 1
            else:
                count = tf.cast(tf.convert_to_tensor(nrows), rowids.dtype)
            ones = tf.ones_like(rowids)
            lengths = tf.unsorted_segment_sum(ones, rowids, count)
            return cls.from_row_lengths(values, lengths, validate=validate)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i begins at `row_starts[i]`."""
        with tf.name_scope(name, "RaggedFromRowStarts", [row_starts]):
            starts = _row_partition(row_starts, "row_starts")
            values = _as_values(values)
            return cls(values, tf.concat([starts, [_count(values, starts.dtype)]], 0), internal=True)

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i ends before `row_limits[i]`."""
        with tf.name_scope(name, "RaggedFromRowLimits", [row_limits]):
            limits = _row_partition(row_limits, "row_limits")
            values = _as_values(values)
            splits = tf.concat([tf.zeros([1], limits.dtype), limits], 0)
            if validate:
                splits = _ending_with(values, splits, "from_row_limits")
            return cls(values, splits, internal=True)

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """The splits of several ragged dimensions, outermost first."""
        result: Any = flat_values
        for splits in reversed(list(nested_row_splits)):
            result = cls.from_row_splits(result, splits, validate=validate)
        return result

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: str | None = None, validate: bool = True
    ) -> Any:
        """The lengths of the rows of several ragged dimensions, outermost first."""
        result: Any = flat_values
        for lengths in reversed(list(nested_row_lengths)):
            result = cls.from_row_lengths(result, lengths, validate=validate)
        return result

    @classmethod
    def from_nested_value_rowids(
        cls, flat_values: Any, nested_value_rowids: Any, nested_nrows: Any = None, name: str | None = None
    ) -> RaggedTensor:
        """From the row of each value, of each row of rows and so on, outermost first.

        Raises:
            ValueError: If there are not as many numbers of rows as there are lists of them.
        """
        counts = [None] * len(nested_value_rowids) if nested_nrows is None else list(nested_nrows)
        if len(counts) != len(nested_value_rowids):
            raise ValueError("nested_nrows must have same length as nested_value_rowids")
        with tf.name_scope(name, "RaggedFromNestedValueRowIds", [flat_values, *nested_value_rowids]):
            result: RaggedTensor = flat_values
            for rows, count in zip(reversed(nested_value_rowids), reversed(counts), strict=True):
                result = cls.from_value_rowids(result, rows, count)
            return result

    @classmethod
    def from_tensor(
        cls, tensor: Any, lengths: Any = None, padding: Any = None, ragged_rank: int = 1, name: str | None = None,
        row_splits_dtype: Any = None,
    ) -> RaggedTensor:  # fmt: skip
        """The rows of a dense tensor: all of each, the first `lengths[i]` of it, or up to where `padding` follows."""
        if lengths is not None and padding is not None:
            raise ValueError("Specify lengths or padding, but not both")
        if ragged_rank < 1:
            raise ValueError(f"ragged_rank must be greater than 0; got {ragged_rank}")
        kind = tf.as_dtype(row_splits_dtype or tf.int64)
        with tf.name_scope(name, "RaggedFromTensor", [tensor]):
            x = tf.convert_to_tensor(tensor, name="tensor")
            x.shape.with_rank_at_least(ragged_rank + 1)
            shape = tf.shape(x, out_type=kind)
            if ragged_rank > 1:
                inner = tf.reshape(x, tf.concat([[-1], shape[2:]], 0))
                values = cls.from_tensor(inner, lengths, padding, ragged_rank - 1, row_splits_dtype=kind)
                return cls(values, tf.range(shape[0] + 1) * shape[1], internal=True)
            if padding is not None:
                same = tf.equal(x, tf.cast(tf.convert_to_tensor(padding), x.dtype))
                if x.shape.ndims is not None and x.shape.ndims > 2:
                    same = tf.reduce_all(same, axis=list(range(2, x.shape.ndims)))
                number = tf.range(1, tf.cast(shape[1], tf.int32) + 1)
                lengths = tf.reduce_max(
                    tf.where(same, tf.zeros_like(same, tf.int32), tf.ones_like(same, tf.int32) * number), axis=1
                )
            if lengths is None:
                flat = tf.reshape(x, tf.concat([[shape[0] * shape[1]], shape[2:]], 0))
                return cls(flat, tf.range(shape[0] + 1) * shape[1], internal=True)
            sizes = tf.minimum(tf.maximum(tf.cast(lengths, kind), 0), shape[1])
            mask = tf.sequence_mask(sizes, shape[1])
            return cls.from_row_lengths(tf.boolean_mask(x, mask), sizes, validate=False)

    @classmethod
    def from_sparse(cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = None) -> RaggedTensor:
        """The rows of a sparse matrix; the values of a row must be its first ones."""
        st = tf.SparseTensor.from_value(st_input)
        if st.shape.ndims not in (None, 2):
            raise ValueError(f"rank(st_input) must be 2, got shape {st.shape}.")
        with tf.name_scope(name, "RaggedFromSparse", [st.values]):
            found = cls.from_value_rowids(st.values, st.indices[:, 0], st.dense_shape[0], validate=False)
            columns = tf.range(_count(st.values, tf.int64)) - tf.gather(found.row_splits, st.indices[:, 0])
            check = tf.assert_equal(columns, st.indices[:, 1], message="SparseTensor is not right-ragged")
            with tf.control_dependencies([check]):
                values = tf.identity(st.values)
            kind = tf.as_dtype(row_splits_dtype or tf.int64)
            return cls(values, tf.cast(found.row_splits, kind), internal=True)

    # Parts.

    @property
    def values(self) -> Any:
        """The concatenated rows: a Tensor, or a RaggedTensor of one ragged dimension less."""
        return self._values

    @property
    def row_splits(self) -> Any:
        """Where the rows begin, and the end of the last one."""
        return self._row_splits

    @property
    def flat_values(self) -> Any:
        """The innermost values."""
        return self._values.flat_values if isinstance(self._values, RaggedTensor) else self._values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        """The splits of all ragged dimensions, outermost first."""
        inner = self._values.nested_row_splits if isinstance(self._values, RaggedTensor) else ()
        return (self._row_splits, *inner)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> Any:
        """The type of the elements."""
        return self._values.dtype

    @property
    def graph(self) -> Any:
        """The graph it belongs to."""
        return self.flat_values.graph

    @property
    def op(self) -> Any:
        """The operation that computes the innermost values."""
        return self.flat_values.op

    @property
    def name(self) -> str:
        """The name of the innermost values."""
        return str(self.flat_values.name)

    @property
    def shape(self) -> Any:
        """The static shape; ragged dimensions are None."""
        rows = self._row_splits.shape.as_list()[0]
        inner = self._values.shape
        if inner.ndims is None:
            return tf.TensorShape(None)
        return tf.TensorShape([None if rows is None else rows - 1, None, *inner.as_list()[1:]])

    def get_shape(self) -> Any:
        """The static shape."""
        return self.shape

    def nrows(self, out_type: Any = None, name: str | None = None) -> Any:
        """The number of rows."""
        count = tf.shape(self._row_splits, out_type=self._row_splits.dtype)[0] - 1
        return count if out_type is None else tf.cast(count, out_type)

    def row_starts(self, name: str | None = None) -> Any:
        """Where each row begins."""
        return self._row_splits[:-1]

    def row_limits(self, name: str | None = None) -> Any:
        """Where each row ends."""
        return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """The lengths of the rows of a ragged axis; beyond 1 they are ragged themselves."""
        if axis == 0:
            return self.nrows()
        lengths = self._row_splits[1:] - self._row_splits[:-1]
        if axis == 1:
            return lengths
        if not isinstance(self._values, RaggedTensor):
            raise ValueError(f"axis {axis} is not a ragged one of a tensor with ragged_rank {self.ragged_rank}.")
        return self.with_values(self._values.row_lengths(axis - 1))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Any, ...]:
        """The lengths of the rows of all ragged dimensions, outermost first."""
        return tuple(splits[1:] - splits[:-1] for splits in self.nested_row_splits)

    def value_rowids(self, name: str | None = None) -> Any:
        """The row of each value."""
        count = _count(self._values, self._row_splits.dtype)
        return tf.cast(tf.searchsorted(self._row_splits[1:], tf.range(count), side="right"), self._row_splits.dtype)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Any, ...]:
        """The row of each value in all ragged dimensions, outermost first."""
        with tf.name_scope(name, "RaggedNestedValueRowIds", [self]):
            inner = self.values.nested_value_rowids() if isinstance(self.values, RaggedTensor) else ()
            return (self.value_rowids(), *inner)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same with splits of int32 or int64.

        Raises:
            ValueError: For another type.
        """
        dtype = tf.as_dtype(dtype)
        if dtype not in (tf.int32, tf.int64):
            raise ValueError(f"dtype must be int32 or int64, got {dtype.name}.")
        if self.row_splits.dtype == dtype:
            return self
        values = self.values.with_row_splits_dtype(dtype) if isinstance(self.values, RaggedTensor) else self.values
        return RaggedTensor.from_row_splits(values, tf.cast(self.row_splits, dtype), validate=False)

    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Any:
        """The smallest dense shape that the tensor fits into."""
        lengths = [self.nrows()]
        for splits in self.nested_row_splits:
            sizes = tf.concat([tf.zeros([1], splits.dtype), splits[1:] - splits[:-1]], 0)
            lengths.append(tf.reduce_max(sizes))
        inner = tf.shape(self.flat_values, out_type=self._row_splits.dtype)[1:]
        box = tf.concat([tf.stack(lengths), inner], 0)
        box = box if out_type is None else tf.cast(box, out_type)
        return box if axis is None else tf.gather(box, axis)

    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows with other values."""
        return RaggedTensor(_as_values(new_values), self._row_splits, internal=True)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """The same rows with other innermost values."""
        inner = self._values.with_flat_values(new_values) if isinstance(self._values, RaggedTensor) else new_values
        return self.with_values(inner)

    # To other tensors.

    def to_tensor(self, default_value: Any = None, name: str | None = None) -> Any:
        """A dense tensor, with `default_value` (zeros or empty strings if None) where rows are short."""
        with tf.name_scope(name, "RaggedToTensor", [self.flat_values]):
            flat = self.flat_values
            if default_value is None:
                default_value = b"" if flat.dtype == tf.string else np.zeros([], flat.dtype.as_numpy_dtype)
            default = tf.convert_to_tensor(default_value, flat.dtype, name="default_value")
            kinds = ["ROW_SPLITS"] * self.ragged_rank
            return tf.raw_ops.RaggedTensorToTensor(
                shape=tf.constant(-1, tf.int64), values=flat, default_value=default,
                row_partition_tensors=list(self.nested_row_splits), row_partition_types=kinds,
            )  # fmt: skip

    def to_sparse(self, name: str | None = None) -> Any:
        """A SparseTensor with the same elements."""
        found = tf.raw_ops.RaggedTensorToSparse(
            rt_nested_splits=list(self.nested_row_splits), rt_dense_values=self.flat_values
        )
        return tf.SparseTensor(found.sparse_indices, found.sparse_values, found.sparse_dense_shape)

    def consumers(self) -> list[Any]:
        """The operations that use any of the tensors."""
        parts = (self.flat_values, *self.nested_row_splits)
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Computes the value in `session`, or in the default session."""
        return (session or tf.get_default_session()).run(self, feed_dict)

    def _session_parts(self) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
        """What sessions fetch and feed in its place, and how they put the values together."""

        def build(values: Sequence[Any]) -> Any:
            result = values[0]
            for splits in reversed(values[1:]):
                result = RaggedTensorValue(result, splits)
            return result

        return [self.flat_values, *self.nested_row_splits], build

    def _session_values(self, value: Any) -> list[Any]:
        """The values of the parts, for a feed."""
        if not isinstance(value, RaggedTensorValue) or value.ragged_rank != self.ragged_rank:
            raise TypeError(
                f"A RaggedTensor of ragged_rank {self.ragged_rank} is fed a RaggedTensorValue, not {value!r}."
            )
        return [value.flat_values, *value.nested_row_splits]

    def __repr__(self) -> str:
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    def __iter__(self) -> Any:
        """The rows, where operations run at once.

        Raises:
            TypeError: In a graph.
        """
        if not tf.executing_eagerly():
            raise TypeError("RaggedTensor is not iterable in a graph.")
        rows: Any = self  # Indexing is added by the operators.
        return iter([rows[i] for i in range(int(self.nrows()))])

    def numpy(self) -> Any:
        """The value, where operations run at once: an array, of arrays if the rows have different lengths.

        Raises:
            TypeError: In a graph.
        """
        rows = [np.asarray(row.numpy()) for row in self]
        if rows and rows[0].dtype != object and len({row.shape for row in rows}) == 1:
            return np.stack(rows)
        result = np.empty(len(rows), object)
        for i, row in enumerate(rows):
            result[i] = row
        return result

    def to_list(self) -> list[Any]:
        """The rows as nested lists, where operations run at once.

        Raises:
            ValueError: In a graph.
        """
        return self._value().to_list()

    def _value(self) -> RaggedTensorValue:
        if not tf.executing_eagerly():
            raise ValueError("A RaggedTensor has its values where operations run at once only: run it in a session.")
        parts, build = self._session_parts()
        value: RaggedTensorValue = build([np.asarray(part.numpy()) for part in parts])
        return value

    def __bool__(self) -> bool:
        raise TypeError("Using a RaggedTensor as a Python bool is not allowed.")


def _count(values: Any, dtype: Any) -> Any:
    """The number of values."""
    if isinstance(values, RaggedTensor):
        return tf.cast(values.nrows(), dtype)
    return tf.shape(values, out_type=dtype)[0]


def is_ragged(value: Any) -> bool:
    """Whether a value is a RaggedTensor or a RaggedTensorValue."""
    return isinstance(value, (RaggedTensor, RaggedTensorValue))


nest.register_composite(
    RaggedTensor,
    lambda value: (value.values, value.row_splits),
    lambda value, parts: RaggedTensor(parts[0], parts[1], internal=True),
)
