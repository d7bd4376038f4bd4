"""tf.TensorArray: a list of tensors that loops write and read, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one, apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import control_dependencies, executing_eagerly, name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.graph import Graph
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape


@export("TensorArray")
class TensorArray:
    """A list of tensors of one type, each written once.

    Every write returns a new TensorArray object: use that one from then on, so that reads come after the write.

    Example:
        >>> ta = tf.TensorArray(tf.float32, size=2)
        >>> ta = ta.write(0, 10.0).write(1, 20.0)
        >>> with tf.Session() as sess:
        ...     print(sess.run(ta.stack()))
        [10. 20.]
    """

    eager_class: type[TensorArray] | None = None  # Of arrays where ops run at once; set by the module of that class.

    def __new__(cls, *args: Any, **options: Any) -> TensorArray:
        """An array of a graph, or, where ops run at once, a list of tensors."""
        if cls is TensorArray and cls.eager_class is not None and executing_eagerly():
            return object.__new__(cls.eager_class)
        return object.__new__(cls)

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Tensor | None = None,
        flow: Tensor | None = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        """Creates an array, or an object for one that exists.

        Args:
            dtype: The type of the elements.
            size: How many there are, or at first if `dynamic_size`.
            dynamic_size: Whether writing beyond the end makes the array longer.
            clear_after_read: Whether an element is dropped when it is read, which allows one read only.
            tensor_array_name: A name for error messages.
            handle: The handle of an existing array.
            flow: The tensor that orders operations on an existing array.
            infer_shape: Whether all elements have one shape, to be found from the first.
            element_shape: The static shape of the elements, as far as it is known.
            colocate_with_first_write_call: Ignored: an array lives where its operations run.
            name: A name scope for the node.

        Raises:
            ValueError: If the arguments contradict each other.
            TypeError: If `handle` is not a tensor.
        """
        if handle is not None and tensor_array_name:
            raise ValueError("Cannot construct with both handle and tensor_array_name")
        if handle is not None and not isinstance(handle, Tensor):
            raise TypeError("Handle must be a Tensor")
        if handle is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        if handle is not None and size is not None:
            raise ValueError("Cannot provide both a handle and size at the same time")
        if handle is not None and element_shape is not None:
            raise ValueError("Cannot provide both a handle and element_shape at the same time")
        if handle is not None and dynamic_size is not None:
            raise ValueError("Cannot provide both a handle and dynamic_size at the same time")
        if handle is not None and clear_after_read is not None:
            raise ValueError("Cannot provide both a handle and clear_after_read at the same time")
        if isinstance(size, (int, np.integer)) and size < 0:
            raise ValueError(f"The size of a TensorArray must not be negative, got {size}")
        self._dtype = as_dtype(dtype).base_dtype
        self._dynamic_size = bool(dynamic_size)
        self._infer_shape = infer_shape
        self._size = size
        # One list shared by all objects of an array: reads after a loop see the shape that a write in it found.
        self._shape_cell = [TensorShape(element_shape)]
        with name_scope(name, "TensorArray", [handle, size, flow]) as scope:
            if handle is not None:
                self._handle = handle
                self._flow = flow if flow is not None else convert_to_tensor(0.0, dtypes.float32)
                return
            made = apply(
                "TensorArrayV3", size, dtype=self._dtype, element_shape=self._shape_cell[0], dynamic_size=dynamic_size,
                clear_after_read=True if clear_after_read is None else clear_after_read,
                identical_element_shapes=infer_shape, tensor_array_name=tensor_array_name or "", name=scope,
            )  # fmt: skip
            self._handle, self._flow = made

    def _with_flow(self, flow: Tensor) -> TensorArray:
        """The same array after the operations that `flow` depends on."""
        other = object.__new__(TensorArray)
        other.__dict__.update(self.__dict__)
        other._flow = flow
        return other

    @property
    def flow(self) -> Tensor:
        """The tensor that orders operations on the array."""
        return self._flow

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def handle(self) -> Tensor:
        """The resource handle."""
        return self._handle

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._handle.graph

    @property
    def element_shape(self) -> TensorShape:
        """The static shape of the elements, as far as it is known."""
        return self._shape_cell[0]

    @property
    def dynamic_size(self) -> bool:
        """Whether writing beyond the end makes the array longer."""
        return self._dynamic_size

    def _merge_element_shape(self, shape: TensorShape) -> None:
        if not self._infer_shape:
            return
        if not self._shape_cell[0].is_compatible_with(shape):
            raise ValueError(
                f"Inconsistent shapes: saw {shape} but expected {self._shape_cell[0]} (and infer_shape=True)"
            )
        self._shape_cell[0] = self._shape_cell[0].merge_with(shape)

    def identity(self) -> TensorArray:
        """The same array, after the control dependencies of this place."""
        return self._with_flow(apply_one("Identity", self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """The array that collects gradients for the computation named `source`."""
        flow = self._flow if flow is None else flow
        with name_scope(name, "TensorArrayGrad", [self._handle]):
            handle = apply("TensorArrayGradV3", self._handle, flow, source=source).grad_handle
            with control_dependencies([handle]):
                after = apply_one("Identity", flow, name="gradient_flow")
            array = TensorArray(self._dtype, handle=handle, flow=after, infer_shape=self._infer_shape)
            array._shape_cell = self._shape_cell
            return array

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`."""
        value = apply_one("TensorArrayReadV3", self._handle, index, self._flow, dtype=self._dtype, name=name)
        if self._shape_cell[0].ndims is not None:
            value.set_shape(self._shape_cell[0])
        return value

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Writes the element at `index`; returns the array after it."""
        with name_scope(name, "TensorArrayWrite", [self._handle, index, value]):
            tensor = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._check_type(tensor)
            self._merge_element_shape(tensor.shape)
            return self._with_flow(apply_one("TensorArrayWriteV3", self._handle, index, tensor, self._flow))

    def _check_type(self, tensor: Tensor) -> None:
        if tensor.dtype.base_dtype is not self._dtype:
            raise TypeError(
                f"TensorArray holds elements of type {self._dtype.name}, cannot write {tensor.name} of type "
                f"{tensor.dtype.name}."
            )

    def _count(self) -> int | None:
        """The number of elements, if it is known and cannot change."""
        if self._dynamic_size or self._size is None:
            return None
        value = constant_value(convert_to_tensor(self._size)) if isinstance(self._size, Tensor) else self._size
        return None if value is None else int(value)

    def stack(self, name: str | None = None) -> Tensor:
        """All elements, stacked along a new first dimension."""
        with name_scope(name, "TensorArrayStack", [self._handle]):
            count = self._count()
            value = self.gather(_range_tensor(self.size() if count is None else count))
            if count is not None and value.shape.ndims is not None:
                value.set_shape([count, *value.shape.as_list()[1:]])
            return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices`, stacked along a new first dimension."""
        return apply_one(
            "TensorArrayGatherV3", self._handle, indices, self._flow, dtype=self._dtype,
            element_shape=self._shape_cell[0], name=name,
        )  # fmt: skip

    def concat(self, name: str | None = None) -> Tensor:
        """All elements, joined along their first dimension."""
        known = self._shape_cell[0]
        rest = TensorShape(None) if known.ndims is None or known.ndims == 0 else known[1:]
        value: Tensor = apply(
            "TensorArrayConcatV3", self._handle, self._flow, dtype=self._dtype, element_shape_except0=rest, name=name
        ).value
        return value

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Writes the parts of `value` along its first dimension to the elements 0, 1, ..."""
        with name_scope(name, "TensorArrayUnstack", [self._handle, value]):
            tensor = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            count: int | Tensor | None = tensor.shape.as_list()[0] if tensor.shape.ndims else None
            if count is None:
                count = apply_one("StridedSlice", apply_one("Shape", tensor), [0], [1], [1], shrink_axis_mask=1)
            return self.scatter(_range_tensor(count), tensor)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Writes the parts of `value` along its first dimension to the elements at `indices`."""
        with name_scope(name, "TensorArrayScatter", [self._handle, value, indices]):
            tensor = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._check_type(tensor)
            if tensor.shape.ndims:
                self._merge_element_shape(tensor.shape[1:])
            return self._with_flow(apply_one("TensorArrayScatterV3", self._handle, indices, tensor, self._flow))

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Writes consecutive parts of `value`, of these lengths along its first dimension, to the elements 0, 1, ..."""
        with name_scope(name, "TensorArraySplit", [self._handle, value, lengths]):
            tensor = convert_to_tensor(value, preferred_dtype=self._dtype, name="value")
            self._check_type(tensor)
            sizes = lengths
            if isinstance(lengths, Tensor) and lengths.dtype != dtypes.int64:
                sizes = apply_one("Cast", lengths, DstT=dtypes.int64)
            else:
                sizes = convert_to_tensor(lengths, dtypes.int64)
            known = constant_value(sizes)
            if (
                tensor.shape.ndims
                and known is not None
                and known.ndim == 1
                and known.size
                and known.min() == known.max()
            ):
                self._merge_element_shape(TensorShape([int(known[0]), *tensor.shape.as_list()[1:]]))
            elif tensor.shape.ndims:
                self._merge_element_shape(TensorShape([None, *tensor.shape.as_list()[1:]]))
            return self._with_flow(apply_one("TensorArraySplitV3", self._handle, tensor, sizes, self._flow))

    def size(self, name: str | None = None) -> Tensor:
        """How many elements there are."""
        count = self._count()
        if count is not None:
            return convert_to_tensor(count, dtypes.int32)
        return apply_one("TensorArraySizeV3", self._handle, self._flow, name=name)

    def close(self, name: str | None = None) -> Operation:
        """An operation that drops the elements; the array cannot be used after it."""
        return apply_op("TensorArrayCloseV3", self._handle, name=name)

    def __repr__(self) -> str:
        return f"<tf.TensorArray '{self._handle.op.name}' dtype={self._dtype.name} element_shape={self._shape_cell[0]}>"


def _range_tensor(count: Any) -> Tensor:
    """0, 1, ... up to `count`, which is a number or a tensor."""
    if isinstance(count, Tensor):
        return apply_one("Range", 0, count, 1, name="range")
    return apply_one("Const", value=np.arange(count, dtype=np.int32), dtype=dtypes.int32, name="range")
