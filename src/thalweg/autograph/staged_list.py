"""StagedList: a list of tensors whose length a step decides. Lists that loops of the graph append to become one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor, register_tensor_conversion_function
from thalweg.graph.dtypes import DType
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


class _Elements:
    """What is known of the elements; shared by all states of one list."""

    def __init__(self) -> None:
        self.dtype: DType | None = None
        self.shape: TensorShape | None = None
        self.start: Any = None  # The node of the empty list: it needs the type that the first element shows.


class StagedList:
    """Has the methods of a list that make sense in a graph: append, extend, pop, indexing, `len`, iteration.

    `tf.stack(l)`, and whatever takes a tensor, gets its elements stacked.
    """

    def __init__(self, elements: Iterable[Any] = ()) -> None:
        """A list of these elements."""
        self._elements = _Elements()
        self._elements.start = apply_one("EmptyTensorList", -1, -1, element_dtype=dtypes.float32)
        self._handle: Any = self._elements.start
        self._length: Any = convert_to_tensor(0, dtypes.int32)
        self.extend(elements)

    def like(self, elements: Iterable[Any]) -> StagedList:
        """Another list, with elements of the same type."""
        other = StagedList()
        other._elements.dtype, other._elements.shape = self._elements.dtype, self._elements.shape
        if self._elements.dtype is not None:
            other._elements.start.op.attrs["element_dtype"] = self._elements.dtype
        other.extend(elements)
        return other

    @property
    def dtype(self) -> DType:
        """The type of the elements.

        Raises:
            ValueError: If nothing was appended yet.
        """
        if self._elements.dtype is None:
            raise ValueError("Nothing is appended to this list anywhere, so that the type of its elements is unknown.")
        return self._elements.dtype

    @property
    def element_shape(self) -> TensorShape:
        """What all elements have in common of their shapes."""
        return TensorShape(None) if self._elements.shape is None else self._elements.shape

    @property
    def length(self) -> Tensor:
        """How many elements there are: an int32 scalar."""
        return self._length  # type: ignore[no-any-return]

    def content(self) -> tuple[Any, Any]:
        """The tensors that hold it: loops and branches carry them."""
        return self._handle, self._length

    def set_content(self, content: Any) -> None:
        """Goes to another state."""
        self._handle, self._length = content

    def append(self, value: Any) -> None:
        """Adds an element at the end.

        Raises:
            TypeError: If it is of another type than those before it, or cannot become a tensor.
        """
        known = self._elements
        try:
            tensor = convert_to_tensor(value, preferred_dtype=known.dtype)
        except (TypeError, ValueError) as e:
            raise TypeError(
                f"Only tensors can be appended to a list in a loop of the graph, got {value!r}: {e}"
            ) from None
        dtype = tensor.dtype.base_dtype
        if known.dtype is None:
            known.dtype, known.shape = dtype, tensor.shape
            known.start.op.attrs["element_dtype"] = dtype
        elif known.dtype is not dtype:
            raise TypeError(
                f"A list in a loop of the graph has elements of one type: it has {known.dtype.name}, got {dtype.name} "
                f"('{tensor.name}')."
            )
        known.shape = self.element_shape.most_specific_compatible_shape(tensor.shape)
        self._handle = apply_one("TensorListPushBack", self._handle, tensor, element_dtype=dtype)
        self._length = apply_one("AddV2", self._length, 1)

    def extend(self, values: Iterable[Any]) -> None:
        """Adds several elements."""
        for value in values:
            self.append(value)

    def pop(self, index: Any = -1) -> Tensor:
        """Removes the last element, and returns it.

        Raises:
            NotImplementedError: For any other element.
        """
        if index != -1:
            raise NotImplementedError("Only the last element can be taken out of a list in a loop of the graph.")
        made = apply("TensorListPopBack", self._handle, self._shape_tensor(), element_dtype=self.dtype)
        self._handle, element = made
        self._length = apply_one("Sub", self._length, 1)
        return self._with_shape(element)

    def __getitem__(self, index: Any) -> Tensor:
        if isinstance(index, slice):
            return self.stack()[index]
        if isinstance(index, int) and index < 0:
            index = apply_one("AddV2", self._length, index)
        index = apply_one("Cast", convert_to_tensor(index), DstT=dtypes.int32)
        item = apply_one("TensorListGetItem", self._handle, index, self._shape_tensor(), element_dtype=self.dtype)
        return self._with_shape(item)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, int) and index < 0:
            index = apply_one("AddV2", self._length, index)
        index = apply_one("Cast", convert_to_tensor(index), DstT=dtypes.int32)
        tensor = convert_to_tensor(value, self.dtype)
        self._elements.shape = self.element_shape.most_specific_compatible_shape(tensor.shape)
        self._handle = apply_one("TensorListSetItem", self._handle, index, tensor, element_dtype=self.dtype)

    def stack(self) -> Tensor:
        """The elements, stacked along a new first dimension."""
        stacked = apply_one(
            "TensorListStack", self._handle, self._shape_tensor(), element_dtype=self.dtype, num_elements=-1
        )
        stacked.set_shape(TensorShape([constant_value(self._length)]).concatenate(self.element_shape))
        return stacked

    def _shape_tensor(self) -> Any:
        dims = self.element_shape.dims_tuple
        return -1 if dims is None else convert_to_tensor([-1 if d is None else d for d in dims], dtypes.int32)

    def _with_shape(self, tensor: Tensor) -> Tensor:
        tensor.set_shape(self.element_shape)
        return tensor

    def __len__(self) -> int:
        known = constant_value(self._length)
        if known is None:
            raise TypeError("The length of this list is known in a step only: `len` gives a tensor in converted code.")
        return int(known)

    def __repr__(self) -> str:
        dtype = self._elements.dtype
        return f"<StagedList of {'unknown' if dtype is None else dtype.name}, element_shape={self.element_shape}>"


def _as_tensor(value: StagedList, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    stacked = value.stack()
    return stacked if dtype is None or stacked.dtype.is_compatible_with(dtype) else NotImplemented


register_tensor_conversion_function(StagedList, _as_tensor)
