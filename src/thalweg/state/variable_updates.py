"""The methods of a variable that change it, and the Python operators on it. A base class of Variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.composite import IndexedSlices
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.dtypes import DType
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import OVERLOADABLE_OPERATORS, Tensor
from thalweg.graph.tensor_shape import TensorShape


class VariableUpdates:
    """Assignments, scatters and operators. Every update is atomic, so `use_locking` changes nothing."""

    _handle: Tensor
    _dtype: DType
    _shape: TensorShape
    name: Any  # A property, defined by Variable.

    def value(self) -> Tensor:
        """Defined by Variable."""
        raise NotImplementedError

    def _updated(self, op: Operation, read_value: bool = True) -> Any:
        """The result of an update: the variable as it is afterwards, or the operation. Defined by Variable."""
        raise NotImplementedError

    def assign(
        self, value: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Gives the variable a new value.

        Args:
            value: The value, of the variable's type and shape.
            use_locking: Ignored.
            name: The node's name.
            read_value: Whether to return the variable as it is after the update (usable as a tensor and as a fetch),
                instead of the operation.

        Raises:
            ValueError: If the shape or type does not fit.
        """
        return self._assign(value, name, read_value, True)

    def _assign(self, value: Any, name: str | None, read_value: bool, validate_shape: bool) -> Any:
        tensor = convert_to_tensor(value, self._dtype)
        if validate_shape and not self._shape.is_compatible_with(tensor.shape):
            raise ValueError(
                f"Cannot assign to variable {self.name} due to variable shape {self._shape} and value shape "
                f"{tensor.shape} are incompatible"
            )
        op = apply_op(
            "AssignVariableOp", self._handle, tensor, name=name,
            validate_shape=validate_shape and self._shape.ndims is not None,
        )  # fmt: skip
        return self._updated(op, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Adds `delta`, of the variable's shape, to the value."""
        op = apply_op("AssignAddVariableOp", self._handle, convert_to_tensor(delta, self._dtype), name=name)
        return self._updated(op, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtracts `delta`, of the variable's shape, from the value."""
        op = apply_op("AssignSubVariableOp", self._handle, convert_to_tensor(delta, self._dtype), name=name)
        return self._updated(op, read_value)

    def count_up_to(self, limit: int) -> Tensor:
        """Returns the value and increments it; OutOfRangeError once it has reached `limit`."""
        return apply_one("ResourceCountUpTo", self._handle, limit=limit, T=self._dtype)

    # Rows: `sparse_delta` is an IndexedSlices.

    def _scatter(self, kind: str, sparse_delta: Any, name: str | None) -> Any:
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {sparse_delta}")
        return self._scatter_rows(kind, sparse_delta.indices, sparse_delta.values, name)

    def _scatter_rows(self, kind: str, indices: Any, updates: Any, name: str | None) -> Any:
        updates = convert_to_tensor(updates, self._dtype)
        return self._updated(apply_op(f"ResourceScatter{kind}", self._handle, indices, updates, name=name))

    def scatter_sub(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtracts the slices from the rows that they name."""
        return self._scatter("Sub", sparse_delta, name)

    def scatter_add(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Adds the slices to the rows that they name."""
        return self._scatter("Add", sparse_delta, name)

    def scatter_max(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replaces elements of the rows by those of the slices where these are greater."""
        return self._scatter("Max", sparse_delta, name)

    def scatter_min(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replaces elements of the rows by those of the slices where these are smaller."""
        return self._scatter("Min", sparse_delta, name)

    def scatter_mul(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiplies the rows by the slices."""
        return self._scatter("Mul", sparse_delta, name)

    def scatter_div(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Divides the rows by the slices."""
        return self._scatter("Div", sparse_delta, name)

    def scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replaces the rows by the slices; which of several for one row wins is the last."""
        return self._scatter("Update", sparse_delta, name)

    def batch_scatter_update(self, sparse_delta: Any, use_locking: bool = False, name: str | None = None) -> Any:
        """Replaces rows of each batch: the leading dimensions of the indices are those of the variable."""
        indices, updates = sparse_delta.indices, sparse_delta.values
        with name_scope(name, "batch_scatter_update", [indices, updates]):
            return self._scatter_nd("Update", row_positions(indices), updates, None)

    # Slices at positions: the last dimension of `indices` holds positions in the first dimensions of the variable.

    def _scatter_nd(self, kind: str, indices: Any, updates: Any, name: str | None) -> Any:
        updates = convert_to_tensor(updates, self._dtype)
        return self._updated(apply_op(f"ResourceScatterNd{kind}", self._handle, indices, updates, name=name))

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtracts `updates` from the slices at `indices`."""
        return self._scatter_nd("Sub", indices, updates, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Adds `updates` to the slices at `indices`."""
        return self._scatter_nd("Add", indices, updates, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replaces the slices at `indices` by `updates`."""
        return self._scatter_nd("Update", indices, updates, name)

    def scatter_nd_max(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replaces elements of the slices at `indices` where `updates` are greater."""
        return self._scatter_nd("Max", indices, updates, name)

    def scatter_nd_min(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replaces elements of the slices at `indices` where `updates` are smaller."""
        return self._scatter_nd("Min", indices, updates, name)

    def __getitem__(self, item: Any) -> Any:
        """A slice of the value, like that of a tensor, that can also be assigned to: `v[1:3].assign(x)`."""
        value = self.value()
        if type(value) is EagerTensor:
            index_tensor: Any = Tensor.__getitem__
            return index_tensor(value, item, self)
        part = value[item]
        return self._as_slice(part) if type(part) is Tensor and part.op.type == "StridedSlice" else part

    def _as_slice(self, part: Tensor) -> Tensor:
        """Makes a StridedSlice of the value assignable."""
        part.__class__ = VariableSlice
        part.op._python_data = self
        return part

    def _as_eager_slice(self, part: Any, place: Sequence[Any], masks: dict[str, Any]) -> None:
        """The same where ops run at once: the slice knows where it is from."""

        def assign(value: Any, name: str | None = None) -> Any:
            new = convert_to_tensor(value, self._dtype)
            return self._updated(apply_op("ResourceStridedSliceAssign", self._handle, *place, new, name=name, **masks))

        part.assign = assign


class VariableSlice(Tensor):
    """A slice of a variable: a tensor that can be assigned to. Has no state of its own: the op knows the variable."""

    __slots__ = ()

    def assign(self, value: Any, name: str | None = None) -> Any:
        """Replaces this part of the variable; returns the whole variable as it is afterwards."""
        variable = self.op._python_data
        _, begin, end, strides = self.op.inputs
        masks = {key: self.op.attrs[key] for key in self.op.attrs if key.endswith("_mask")}
        op = apply_op(
            "ResourceStridedSliceAssign", variable._handle, begin, end, strides,
            convert_to_tensor(value, variable._dtype), name=name or f"{self.op.name}/_assign/", **masks,
        )  # fmt: skip
        return variable._updated(op)


def row_positions(indices: Any) -> Tensor:
    """Row numbers, one list per batch, as positions: those of the batch, then the row."""
    numbers = convert_to_tensor(indices, name="indices")
    rank = numbers.shape.ndims
    if rank is None:
        raise ValueError("batch_scatter_update needs indices of known rank.")
    shape = apply_one("Shape", numbers, out_type=numbers.dtype)
    columns = []
    for axis in range(rank - 1):
        size = apply_one("StridedSlice", shape, [axis], [axis + 1], [1], shrink_axis_mask=1)
        steps = apply_one("Range", convert_to_tensor(0, numbers.dtype), size, convert_to_tensor(1, numbers.dtype))
        steps = apply_one("Reshape", steps, [-1 if i == axis else 1 for i in range(rank)])
        columns.append(apply_one("BroadcastTo", steps, shape))
    return apply_one("Pack", [*columns, numbers], axis=rank)


def _operator(name: str) -> Callable[..., Any]:
    def operate(self: VariableUpdates, *args: Any) -> Any:
        # Looked up when used: op families install the operators of Tensor while they are imported.
        function = getattr(Tensor, name, None)
        return NotImplemented if function is None else function(self.value(), *args)

    operate.__name__ = operate.__qualname__ = name
    operate.__doc__ = f"`Tensor.{name}` of the value."
    return operate


for _name in OVERLOADABLE_OPERATORS - {"__getitem__"}:
    setattr(VariableUpdates, _name, _operator(_name))
