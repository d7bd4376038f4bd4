"""The value of a tensor, as far as it is known while the graph is built: for shape functions and for Python code.

`constant_value` evaluates the few ops that programs use to compute shapes. It follows a chain only as far as the ops
are cheap and small, so that asking for a value never costs more than a step would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.op_effects import Flow
from thalweg.graph.tensor_shape import TensorShape

if TYPE_CHECKING:
    from thalweg.graph.operation import Operation
    from thalweg.graph.tensor import Tensor

Array = np.ndarray[Any, Any]

_UNKNOWN = TensorShape._of(None)
_MAX_ELEMENTS: Final = 1 << 20  # A Fill or a Range beyond this stays symbolic.
_MAX_DEPTH: Final = 100  # Of a chain of ops; deeper values count as unknown.


def constant_value(tensor: Tensor, partial: bool = False) -> Any:
    """Returns the value of a tensor as an array, or None if it is known only when a step runs.

    Args:
        tensor: The tensor.
        partial: Whether a stack of scalars may come back with None in the unknown places (as an object array).

    Returns:
        A read-only NumPy array, or None.
    """
    op = getattr(tensor, "op", None)
    if op is None or not hasattr(op, "attrs"):
        known = getattr(tensor, "_value_now", None)  # Of an eager tensor.
        return None if known is None else known()
    if op.type == "Const":
        return op.attrs["value"]
    return _value(tensor, partial, 0)


def _value(tensor: Tensor, partial: bool, depth: int) -> Array | None:
    op = getattr(tensor, "op", None)
    if op is None:
        known = getattr(tensor, "_value_now", None)  # Of an eager tensor.
        return None if known is None else known()
    if op.type == "Const":
        value: Array = op.attrs["value"]
        return value
    rule = _RULES.get(op.type)
    if rule is None or depth > _MAX_DEPTH:
        return None
    try:
        return rule(tensor, partial, depth)
    except (ValueError, IndexError, TypeError, OverflowError, MemoryError, ZeroDivisionError):
        return None  # Values that the op itself will refuse, with a better message, when the step runs.


def _inputs(op: Operation, depth: int, which: slice = slice(None)) -> list[Array] | None:
    """The values of several inputs, or None if any is unknown."""
    values = []
    for tensor in op.inputs[which]:
        value = _value(tensor, False, depth + 1)
        if value is None:
            return None
        values.append(value)
    return values


def _shape(t: Tensor, partial: bool, depth: int) -> Array | None:
    shape = t.op.inputs[0]._shape
    if not shape.is_fully_defined():
        return None
    return np.array(shape.dims_tuple, t.dtype.as_numpy_dtype)


def _size(t: Tensor, partial: bool, depth: int) -> Array | None:
    shape = t.op.inputs[0]._shape
    return np.array(shape.num_elements(), t.dtype.as_numpy_dtype) if shape.is_fully_defined() else None


def _rank(t: Tensor, partial: bool, depth: int) -> Array | None:
    rank = t.op.inputs[0]._shape.ndims
    return None if rank is None else np.array(rank, np.int32)


def _range(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    if values is None:
        return None
    start, limit, delta = (value.item() for value in values)
    if (limit - start) / delta > _MAX_ELEMENTS:
        return None
    return np.arange(start, limit, delta, dtype=t.dtype.as_numpy_dtype)


def _cast(t: Tensor, partial: bool, depth: int) -> Array | None:
    value = _value(t.op.inputs[0], False, depth + 1)
    if value is None or value.dtype == object or t.dtype.is_quantized:
        return None
    with np.errstate(all="ignore"):
        return value.astype(t.dtype.as_numpy_dtype)


def _concat(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    if values is None:
        return None
    if t.op.type == "Concat":
        return np.concatenate(values[1:], axis=int(values[0]))
    return np.concatenate(values[:-1], axis=int(values[-1]))


def _pack(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = [_value(tensor, partial, depth + 1) for tensor in t.op.inputs]
    axis = t.op.attrs["axis"]
    if any(value is None for value in values):
        if not (partial and all(value is None or value.ndim == 0 for value in values)):
            return None
        result = np.empty(len(values), object)
        result[:] = [None if value is None else value.item() for value in values]
        return result
    return np.stack(values, axis)  # type: ignore[arg-type]


def _unpack(t: Tensor, partial: bool, depth: int) -> Array | None:
    value = _value(t.op.inputs[0], partial, depth + 1)
    if value is None:
        return None
    item = np.take(value, t.value_index, axis=t.op.attrs["axis"])
    return None if value.dtype == object and item is None else np.asarray(item)


def _fill(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    if values is None or np.prod(values[0].astype(np.float64)) > _MAX_ELEMENTS:
        return None
    return np.full(tuple(int(d) for d in values[0]), values[1][()], dtype=values[1].dtype)


def _compare(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    if values is None:
        return None
    result = values[0] == values[1]
    return np.asarray(result if t.op.type == "Equal" else np.logical_not(result))


def _identity(t: Tensor, partial: bool, depth: int) -> Array | None:
    return _value(t.op.inputs[0], partial, depth + 1)


def _captured(t: Tensor, partial: bool, depth: int) -> Array | None:
    """A value that a branch or a loop sees from outside; a loop's own variables change."""
    if t.op.type == "Enter" and not t.op.attrs["is_constant"]:
        return None
    data = t.op.inputs[0]
    return None if data.op.op_def.flow is Flow.MERGE else _value(data, partial, depth + 1)


def _reshape(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    return None if values is None else values[0].reshape(tuple(int(d) for d in values[1]))


def _prod(t: Tensor, partial: bool, depth: int) -> Array | None:
    values = _inputs(t.op, depth)
    if values is None or not t.dtype.is_integer:
        return None
    axes = tuple(int(axis) for axis in values[1].ravel())
    return np.asarray(np.prod(values[0], axis=axes, keepdims=t.op.attrs["keep_dims"], dtype=values[0].dtype))


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Maximum": np.maximum,
    "Minimum": np.minimum, "FloorDiv": np.floor_divide, "FloorMod": np.mod,
}  # fmt: skip


def _arithmetic(t: Tensor, partial: bool, depth: int) -> Array | None:
    # Integers only: this is for sizes. A float result could differ from the kernel's in the last bit.
    if not t.dtype.is_integer or (t._shape.ndims or 0) > 1:
        return None
    values = _inputs(t.op, depth)
    if values is None or (t.op.type.startswith("Floor") and not values[1].all()):
        return None
    with np.errstate(all="ignore"):
        return np.asarray(_ARITHMETIC[t.op.type](*values), values[0].dtype)


def _strided_slice(t: Tensor, partial: bool, depth: int) -> Array | None:
    op = t.op
    index = slice_index(op, depth)
    if index is None:
        return None
    source = op.inputs[0]
    value = _value(source, partial, depth + 1)
    if value is not None:
        item = value[index]
        return None if value.dtype == object and item is None else np.asarray(item)
    if source.op.type != "Shape" or len(index) != 1:
        return None
    dims = source.op.inputs[0]._shape.dims_tuple
    part = None if dims is None else dims[index[0]]
    if part is None or (isinstance(part, tuple) and None in part):
        return None
    return np.array(part, t.dtype.as_numpy_dtype)


def slice_index(op: Operation, depth: int = 0) -> tuple[Any, ...] | None:
    """The Python index that a StridedSlice stands for, or None if its bounds are not known."""
    bounds = _inputs(op, depth, slice(1, 4))
    if bounds is None:
        return None
    begin, end, strides = ([int(i) for i in bound] for bound in bounds)
    masks = {key: op.attrs[f"{key}_mask"] for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    index: list[Any] = []
    for i in range(len(begin)):
        bit = 1 << i
        if masks["ellipsis"] & bit:
            index.append(Ellipsis)
        elif masks["new_axis"] & bit:
            index.append(None)
        elif masks["shrink_axis"] & bit:
            index.append(begin[i])
        else:
            start = None if masks["begin"] & bit else begin[i]
            stop = None if masks["end"] & bit else end[i]
            index.append(slice(start, stop, strides[i]))
    return tuple(index)


_RULES: Final[dict[str, Callable[[Any, bool, int], Array | None]]] = {
    "Shape": _shape, "Size": _size, "Rank": _rank, "Range": _range, "Cast": _cast, "Concat": _concat,
    "ConcatV2": _concat, "Pack": _pack, "Unpack": _unpack, "Fill": _fill, "Equal": _compare, "NotEqual": _compare,
    "StopGradient": _identity, "Identity": _identity, "Enter": _captured, "Switch": _captured,
    "Reshape": _reshape, "Prod": _prod, "StridedSlice": _strided_slice, **dict.fromkeys(_ARITHMETIC, _arithmetic),
}  # fmt: skip


def constant_value_as_shape(tensor: Tensor) -> TensorShape:
    """Reads a tensor that holds a shape, as far as it is known: single dimensions may stay open.

    Args:
        tensor: A vector of integers (-1 stands for an unknown dimension), or a scalar -1 for an unknown rank.

    Returns:
        The shape.

    Raises:
        ValueError: If the tensor is not a vector, or holds a number below -1.
    """
    dims = _dims(tensor, 0)
    return _UNKNOWN if dims is None else TensorShape._of(dims)


def _dims(tensor: Tensor, depth: int) -> tuple[int | None, ...] | None:
    shape = tensor._shape.dims_tuple
    if shape == ():
        value = _value(tensor, False, depth)
        if value is not None and int(value) == -1:
            return None
        if value is None:
            return None
        raise ValueError(
            f"Received a scalar with value {int(value)} as shape; require a statically known scalar to be -1"
        )
    if shape is not None and len(shape) != 1:
        raise ValueError(f"Shape must be rank 1 but is rank {len(shape)}")
    value = _value(tensor, True, depth) if depth < _MAX_DEPTH else None
    if value is not None:
        return tuple([_dim(d) for d in value.tolist()])
    dims = _partial_dims(tensor.op, depth) if depth < _MAX_DEPTH else None
    if dims is None and shape is not None and shape[0] is not None:
        return (None,) * shape[0] if shape[0] <= 254 else None
    return dims


def _dim(d: Any) -> int | None:
    if d is None or d == -1:
        return None
    if d < -1:
        raise ValueError(f"Invalid dimension {d} in a shape: expected a size >= 0, or -1 for an unknown one")
    return int(d)


def _reshaped_dims(op: Operation, depth: int) -> tuple[int | None, ...] | None:
    """The sizes of a SparseReshape: those asked for; an open one follows from the old sizes."""
    old, new = _dims(op.inputs[1], depth + 1), _dims(op.inputs[2], depth + 1)
    wanted = _value(op.inputs[2], False, depth + 1)
    if new is None or old is None or None in old or wanted is None or new.count(None) != 1:
        return new
    known = math.prod([d for d in new if d is not None])
    total = math.prod(old)  # type: ignore[arg-type]
    return tuple([total // known if d is None and known else d for d in new])


def _partial_dims(op: Operation, depth: int) -> tuple[int | None, ...] | None:
    if op.type == "SparseAdd":
        return _dims(op.inputs[2], depth + 1)
    if op.type == "SparseReshape":
        return _reshaped_dims(op, depth)
    if op.type == "Shape":
        return op.inputs[0]._shape.dims_tuple
    if op.type == "Pack" and op.attrs["axis"] == 0:
        dims: list[int | None] = []
        for tensor in op.inputs:
            value = _value(tensor, False, depth + 1)
            dims.append(None if value is None else _dim(int(value)))
        return tuple(dims)
    if op.type == "ConcatV2":
        result: tuple[int | None, ...] = ()
        for tensor in op.inputs[:-1]:
            part = _dims(tensor, depth + 1)
            if part is None:
                return None
            result += part
        return result
    if op.type == "StridedSlice":
        index = slice_index(op, depth)
        source = _dims(op.inputs[0], depth + 1) if index is not None and len(index) == 1 else None
        if source is not None and index is not None and isinstance(index[0], slice):
            return source[index[0]]
    if op.type in ("Cast", "Identity") and op.inputs[0].dtype.base_dtype in (dtypes.int32, dtypes.int64):
        return _dims(op.inputs[0], depth + 1)
    return None
