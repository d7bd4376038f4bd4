"""PartitionedVariable: one variable kept in several parts, and how a shape is cut into them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor, register_tensor_conversion_function
from thalweg.graph.default_graph import control_dependencies, name_scope
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


class PartitionInfo(NamedTuple):
    """The place of a part in its variable, for initializers."""

    full_shape: list[int]
    var_offset: list[int]


class PartitionedVariable:
    """Parts of a variable, in order; as a tensor, their concatenation. Made by `tf.get_variable` with a partitioner."""

    __array_priority__ = 100

    def __init__(
        self, name: str, shape: Any, dtype: Any, variable_list: Sequence[Any], partitions: Sequence[int]
    ) -> None:
        """Keeps the parts.

        Raises:
            TypeError: If one of the arguments is not a list.
            ValueError: If there are not as many parts as `partitions` says.
        """
        if not isinstance(variable_list, (list, tuple)):
            raise TypeError(f"variable_list is not a list or tuple: {variable_list}")
        if not isinstance(partitions, (list, tuple)):
            raise TypeError(f"partitions is not a list or tuple: {partitions}")
        if not all(p >= 1 for p in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        self._name = name
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._variable_list = list(variable_list)
        self._partitions = list(partitions)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        axes = self._partition_axes()
        if len(axes) > 1:
            raise NotImplementedError(f"Cannot get a length for {len(axes)} > 1 partition axes")
        return len(self._variable_list)

    def _partition_axes(self) -> list[int]:
        axes = [i for i, parts in enumerate(self._partitions) if parts > 1]
        return axes or [0]

    def as_tensor(self) -> Tensor:
        """The whole value. Like a read of a plain variable, it waits for no operation of `tf.control_dependencies`."""
        with control_dependencies(None):
            return self._joined()

    def _joined(self) -> Tensor:
        axes = self._partition_axes()
        if len(self._variable_list) == 1:
            whole: Any = self._variable_list[0]
        elif len(axes) > 1:
            raise NotImplementedError(f"Cannot concatenate along more than one dimension: {axes}.")
        else:
            with name_scope(self._name + "/ConcatPartitions/"):
                whole = apply_one("ConcatV2", self._variable_list, axes[0], name="concat")
        with name_scope(None):
            return apply_one("Identity", whole, name=self._name)

    @property
    def name(self) -> str:
        """The name of the whole, without ':0'."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    @property
    def graph(self) -> Graph:
        """The graph of the parts."""
        result: Graph = self._variable_list[0].graph
        return result

    def _get_variable_list(self) -> list[Any]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _as_graph_element(self) -> Tensor:
        return self.as_tensor()

    def _apply(self, method: str, value: Any) -> list[Any]:
        if (isinstance(value, (list, tuple)) and len(value) == len(self._variable_list)) or isinstance(
            value, PartitionedVariable
        ):
            parts = list(value)
        else:
            tensor = convert_to_tensor(value, self._dtype)
            axis = self._partition_axes()[0]
            sizes = [part.shape.as_list()[axis] for part in self._variable_list]
            parts = apply_list("SplitV", tensor, sizes, axis, num_split=len(sizes))
        return [getattr(part, method)(piece) for part, piece in zip(self._variable_list, parts, strict=True)]

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Assigns each part its piece of `value`; returns the list of the updated parts."""
        return self._apply("assign", value)

    def assign_add(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds to each part its piece of `value`."""
        return self._apply("assign_add", value)

    def assign_sub(
        self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts from each part its piece of `value`."""
        return self._apply("assign_sub", value)

    def __repr__(self) -> str:
        return f"<tf.PartitionedVariable '{self._name}' shape={self._shape} parts={len(self._variable_list)}>"


def _to_tensor(value: PartitionedVariable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    if dtype is not None and not dtype.is_compatible_with(value.dtype):
        raise ValueError(f"Incompatible type conversion requested to type {dtype.name!r} for variable of type "
                         f"{value.dtype.name!r}")  # fmt: skip
    return value.as_tensor()


register_tensor_conversion_function(PartitionedVariable, _to_tensor)


def cut(full_shape: list[int], partitions: Sequence[int], name: str) -> list[tuple[list[int], list[int]]]:
    """The (offset, shape) of each part. Where the rows do not divide evenly, the first parts get one more.

    Raises:
        ValueError: If `partitions` does not fit the shape.
        NotImplementedError: If it cuts more than one dimension.
    """
    if len(partitions) != len(full_shape):
        raise ValueError(
            f"Partitioner returned a partition list that does not match the Variable's rank: {partitions} vs. "
            f"{full_shape}"
        )
    if any(parts < 1 for parts in partitions):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {list(partitions)} (variable {name})")
    axes = [i for i, parts in enumerate(partitions) if parts > 1]
    if len(axes) > 1:
        raise NotImplementedError(
            f"Currently only one slice dimension > 1 is supported; got partitions {list(partitions)} for {name}."
        )
    axis = axes[0] if axes else 0
    count = partitions[axis]
    if count > full_shape[axis]:
        raise ValueError(
            f"Cannot cut dimension {axis} of variable {name}, of size {full_shape[axis]}, into {count} parts."
        )
    base, excess = divmod(full_shape[axis], count)
    out = []
    start = 0
    for i in range(count):
        size = base + (1 if i < excess else 0)
        offset, shape = [0] * len(full_shape), list(full_shape)
        offset[axis], shape[axis] = start, size
        out.append((offset, shape))
        start += size
    return out
