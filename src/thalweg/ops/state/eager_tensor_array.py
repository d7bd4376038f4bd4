"""TensorArray where ops run at once: a Python list of tensors, which tapes see through as through any other list."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg import errors
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import eager_graph
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.dtypes import int32 as int32_type
from thalweg.graph.graph import Graph
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.state.tensor_array import TensorArray


class EagerTensorArray(TensorArray):
    """Made by `tf.TensorArray(...)`. A write changes the array itself, and returns it."""

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        """See TensorArray."""
        if handle is not None or flow is not None:
            raise ValueError("TensorArray handles are not supported when eager execution is enabled.")
        if size is None:
            raise ValueError("Size must be declared for TensorArrays when eager execution is enabled.")
        count = int(size)
        if count < 0:
            raise ValueError(f"The size of a TensorArray must not be negative, got {count}")
        self._dtype = as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._clears = True if clear_after_read is None else bool(clear_after_read)
        self._infer_shape = infer_shape
        self._shape_cell = [TensorShape(element_shape)]
        self._elements: list[Any] = [None] * count
        self._read: set[int] = set()
        self._name = tensor_array_name or "TensorArray"

    @property
    def flow(self) -> Any:
        """Nothing: the program itself orders what happens."""
        return None

    @property
    def handle(self) -> Any:
        """Nothing: there is no resource."""
        return None

    @property
    def graph(self) -> Graph:
        """The graph of what runs at once."""
        return eager_graph()

    def identity(self) -> TensorArray:
        """Itself."""
        return self

    def _with_flow(self, flow: Any) -> TensorArray:
        return self

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> TensorArray:
        """Not available: a tape differentiates what is written and read."""
        raise NotImplementedError("TensorArray.grad is not supported when executing eagerly: use tf.GradientTape.")

    def _place(self, index: Any) -> int:
        place = int(index)
        if place < 0:
            raise errors.OutOfRangeError(
                None, None, f"{self._name}: reading from negative indices ({place}) is not allowed."
            )
        return place

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        place = self._place(index)
        value = self._element(place)
        if self._clears:
            self._elements[place] = None
            self._read.add(place)
        return value

    def _element(self, place: int) -> Tensor:
        if place >= len(self._elements):
            raise errors.OutOfRangeError(
                None, None, f"{self._name}: tried to read from index {place} but array size is {len(self._elements)}."
            )
        value = self._elements[place]
        if value is None:
            if place in self._read:
                raise errors.InvalidArgumentError(
                    None, None,
                    f"{self._name}: could not read index {place} twice because it was cleared after a previous read "
                    "(perhaps try setting clear_after_read = false?).",
                )  # fmt: skip
            return self._zeros(place)
        return value  # type: ignore[no-any-return]

    def _zeros(self, place: int) -> Tensor:
        shape = self._shape_cell[0]
        if not shape.is_fully_defined():
            raise errors.InvalidArgumentError(
                None, None, f"{self._name}: could not read index {place}: it was not written, and its shape is {shape}."
            )
        return convert_to_tensor(np.zeros(shape.as_list(), self._dtype.as_numpy_dtype))

    def _put(self, index: Any, tensor: Tensor) -> None:
        place = self._place(index)
        if place >= len(self._elements):
            if not self._dynamic_size:
                raise errors.OutOfRangeError(
                    None, None,
                    f"{self._name}: tried to write to index {place} but array is not resizeable and size is: "
                    f"{len(self._elements)}",
                )  # fmt: skip
            self._elements.extend([None] * (place + 1 - len(self._elements)))
        if tensor.dtype.base_dtype is not self._dtype:
            raise errors.InvalidArgumentError(
                None, None,
                f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype {tensor.dtype.name}",
            )  # fmt: skip
        if self._infer_shape:
            self._merge_element_shape(tensor.shape)
        self._elements[place] = tensor

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Writes the element at `index`; returns the array."""
        self._put(index, convert_to_tensor(value, preferred_dtype=self._dtype))
        return self

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, stacked along a new first dimension. They can be read afterwards."""
        return self.gather(range(len(self._elements)))

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices`, stacked along a new first dimension."""
        values = [self._element(self._place(i)) for i in np.asarray(indices).tolist()]
        if not values:
            rest = self._shape_cell[0].as_list() if self._shape_cell[0].is_fully_defined() else []
            return convert_to_tensor(np.zeros([0, *rest], self._dtype.as_numpy_dtype))
        return apply_one("Pack", values, axis=0)

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, joined along their first dimension."""
        values = [self._element(i) for i in range(len(self._elements))]
        if len(values) == 1:
            return values[0]
        return apply_one("ConcatV2", values, 0)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Writes the parts of `value` along its first dimension to the elements 0, 1, ..."""
        tensor = convert_to_tensor(value, preferred_dtype=self._dtype)
        return self.scatter(range(len(tensor)), tensor)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Writes the parts of `value` along its first dimension to the elements at `indices`."""
        tensor = convert_to_tensor(value, preferred_dtype=self._dtype)
        places = np.asarray(indices).tolist()
        if len(places) != len(tensor):
            raise errors.InvalidArgumentError(
                None, None, f"The value has {len(tensor)} rows, but there are {len(places)} indices."
            )
        if places:
            parts = apply_list("Unpack", tensor, num=len(places), axis=0)
            for place, part in zip(places, parts, strict=True):
                self._put(place, part)
        return self

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Writes consecutive parts of `value`, of these lengths along its first dimension, to the elements 0, 1, ..."""
        tensor = convert_to_tensor(value, preferred_dtype=self._dtype)
        sizes = np.asarray(lengths, np.int64)
        if sizes.ndim != 1 or sizes.sum() != len(tensor):
            raise errors.InvalidArgumentError(
                None, None, f"The lengths {sizes.tolist()} do not add up to the first dimension of {tensor.shape}."
            )
        parts = apply_list("SplitV", tensor, sizes, 0, num_split=len(sizes))
        infer, self._infer_shape = self._infer_shape, False
        for place, part in enumerate(parts):
            self._put(place, part)
        self._infer_shape = infer
        return self

    def size(self, name: str | None = None) -> Tensor:
        """How many elements there are."""
        return convert_to_tensor(len(self._elements), int32_type)

    def close(self, name: str | None = None) -> Any:
        """Drops the elements."""
        self._elements = []

    def __repr__(self) -> str:
        return f"<tf.TensorArray of {len(self._elements)} elements, dtype={self._dtype.name}>"


TensorArray.eager_class = EagerTensorArray
