"""Values made of several tensors: IndexedSlices (rows of a larger tensor), SparseTensor, and their NumPy forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from thalweg.graph import dtypes
from thalweg.graph.conversion import convert_to_tensor, is_tensor_like, register_tensor_conversion_function
from thalweg.graph.default_graph import name_scope
from thalweg.graph.default_stack import AnySession
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType
from thalweg.graph.static_value import constant_value_as_shape
from thalweg.graph.tensor import Tensor, _session_for
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.graph import Graph
    from thalweg.graph.operation import Operation


@export("SparseTensorValue")
class SparseTensorValue(NamedTuple):
    """What a step returns, and is fed, for a SparseTensor: three arrays."""

    indices: Any
    values: Any
    dense_shape: Any


@export("IndexedSlicesValue")
class IndexedSlicesValue(NamedTuple):
    """What a step returns for an IndexedSlices: `values[i]` belongs at row `indices[i]`."""

    values: Any
    indices: Any
    dense_shape: Any


@export("IndexedSlices")
class IndexedSlices:
    """Some rows of a larger tensor: the gradient of a gather. Rows named twice count as their sum.

    Attributes:
        values: Tensor of the rows.
        indices: Vector with the row number of each.
        dense_shape: The shape of the larger tensor, as a tensor; or None if it is not known.
    """

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        """Keeps the three tensors."""
        self._values: Tensor = values
        self._indices: Tensor = indices
        self._dense_shape: Tensor | None = dense_shape

    @property
    def values(self) -> Tensor:
        """The rows."""
        return self._values

    @property
    def indices(self) -> Tensor:
        """The row numbers."""
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        """The shape of the tensor they are rows of."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape of the tensor they are rows of."""
        if self._dense_shape is None:
            return TensorShape._of(None)
        return constant_value_as_shape(self._dense_shape)

    @property
    def name(self) -> str:
        """The name of the values."""
        return self.values.name

    @property
    def device(self) -> str:
        """The device of the values."""
        return self.values.device

    @property
    def op(self) -> Operation:
        """The operation that computes the values."""
        return self.values.op

    @property
    def dtype(self) -> DType:
        """The type of the values."""
        return self.values.dtype

    @property
    def graph(self) -> Graph:
        """The graph of the values."""
        return self.values.graph

    def consumers(self) -> list[Operation]:
        """The operations that use any of the tensors."""
        parts = [part for part in (self._values, self._indices, self._dense_shape) if part is not None]
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self.values, self.indices, self.dense_shape)

    def __str__(self) -> str:
        shape = f", dense_shape={self._dense_shape}" if self._dense_shape is not None else ""
        return f"IndexedSlices(indices={self._indices}, values={self._values}{shape})"

    __repr__ = __str__


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor:
    """A tensor of which only the non-zero elements are stored.

    Args:
        indices: int64 matrix `[number of elements, rank]`: the position of each element.
        values: Vector of the elements.
        dense_shape: int64 vector `[rank]`.

    Example:
        >>> st = tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[3, 4])
        >>> st.get_shape().as_list()
        [3, 4]
    """

    # NumPy arrays on the left of an operator leave the operation to us.
    __array_priority__ = 100

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        """See the class."""
        with name_scope(None, "SparseTensor", [indices, values, dense_shape]):
            self._indices = convert_to_tensor(indices, dtypes.int64, name="indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, dtypes.int64, name="dense_shape")
        rows = self._indices.shape.with_rank(2).dims_tuple
        counts = self._values.shape.with_rank(1).dims_tuple
        ranks = self._dense_shape.shape.with_rank(1).dims_tuple
        assert rows is not None and counts is not None and ranks is not None
        for what, a, b in (("elements", rows[0], counts[0]), ("dimensions", rows[1], ranks[0])):
            if a is not None and b is not None and a != b:
                raise ValueError(
                    f"SparseTensor: indices of shape {self._indices.shape} name {a} {what}, but there are {b} (values: "
                    f"{self._values.shape}, dense_shape: {self._dense_shape.shape})."
                )

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Makes a SparseTensor of a SparseTensorValue; returns a SparseTensor as it is."""
        if not is_sparse(sparse_tensor_value):
            raise TypeError(f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value}.")
        if isinstance(sparse_tensor_value, SparseTensor):
            return sparse_tensor_value
        return cls(sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape)

    @property
    def indices(self) -> Tensor:
        """The positions of the elements."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """The elements."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """The shape, as a tensor."""
        return self._dense_shape

    @property
    def op(self) -> Operation:
        """The operation that computes the values."""
        return self._values.op

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._values.graph

    @property
    def name(self) -> str:
        """The name of the values."""
        return self._values.name

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return constant_value_as_shape(self._dense_shape)

    def get_shape(self) -> TensorShape:
        """The static shape."""
        return self.shape

    def with_values(self, new_values: Any) -> SparseTensor:
        """The same positions with other elements."""
        return SparseTensor(self._indices, new_values, self._dense_shape)

    def consumers(self) -> list[Operation]:
        """The operations that use any of the three tensors."""
        parts = (self._indices, self._values, self._dense_shape)
        return list(dict.fromkeys(op for part in parts for op in part.consumers()))

    def eval(self, feed_dict: Any = None, session: AnySession | None = None) -> SparseTensorValue:
        """Computes the value in `session`, or in the default session."""
        found = _session_for(self._values, session, "evaluate tensor", "eval")
        return SparseTensorValue(*found.run([self._indices, self._values, self._dense_shape], feed_dict))

    @classmethod
    def override_operator(cls, operator: str, function: Callable[..., Any]) -> None:
        """Installs the implementation of a Python operator."""
        if operator in cls.__dict__:
            raise ValueError(f"Operator {operator} cannot be overwritten again.")
        setattr(cls, operator, function)

    _override_operator = override_operator

    def __str__(self) -> str:
        return f"SparseTensor(indices={self._indices}, values={self._values}, dense_shape={self._dense_shape})"

    __repr__ = __str__


def is_sparse(value: Any) -> bool:
    """Whether a value is a SparseTensor or a SparseTensorValue."""
    return isinstance(value, (SparseTensor, SparseTensorValue))


@export("is_tensor", "contrib.framework.is_tensor")
def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor of any kind: dense, sparse, slices, or a variable."""
    return isinstance(x, (Tensor, SparseTensor, IndexedSlices)) or is_tensor_like(x)


@export("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts like `convert_to_tensor`, but leaves an IndexedSlices as it is."""
    if not isinstance(value, IndexedSlices):
        return convert_to_tensor(value, dtype, name)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        raise ValueError(
            f"Tensor conversion requested dtype {dtypes.as_dtype(dtype).name} for Tensor with dtype "
            f"{value.dtype.name}: {value}"
        )
    return value


@export("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts like `convert_to_tensor`, but makes a SparseTensor of sparse values.

    Raises:
        RuntimeError: If a sparse value has another type than `dtype`.
    """
    if not is_sparse(value):
        return convert_to_tensor(value, dtype, name)
    sparse = SparseTensor.from_value(value)
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(sparse.dtype):
        raise RuntimeError(
            f"Sparse dtype mismatch. Requested: {dtypes.as_dtype(dtype).name}, Actual: {sparse.dtype.name}"
        )
    return sparse


def _refuse_sparse(value: SparseTensor, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    raise TypeError(
        f"Failed to convert object of type {type(value).__name__} to Tensor: {value}. Use "
        "tf.sparse_tensor_to_dense, or one of "
        "the tf.sparse_ functions."
    )


register_tensor_conversion_function((SparseTensor, SparseTensorValue), _refuse_sparse, 90)
