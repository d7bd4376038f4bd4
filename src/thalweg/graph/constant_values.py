"""Python and NumPy values to arrays of a tensor type: the rules of tf.constant and tf.convert_to_tensor.

Without a type: Python floats become float32, ints int32 (int64 if they need it), complex numbers complex128, text and
bytes strings; NumPy arrays and scalars keep theirs. The result is read-only, and is a copy of any array given but those
that share the memory of a tensor: nobody can write these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.immediate import immediate
from thalweg.graph.tensor_shape import Dimension, TensorShape

Array = np.ndarray[Any, Any]

_SCALARS: dict[type, tuple[DType, Any]] = {
    float: (dtypes.float32, np.float32),
    bool: (dtypes.bool, np.bool_),
    complex: (dtypes.complex128, np.complex128),
}


def as_array(value: Any, dtype: DType | None = None) -> tuple[Array, DType]:
    """Converts a value (not a tensor, and without tensors in it) to an array and its type.

    Raises:
        TypeError: If it holds something that no tensor can, or that is not of type `dtype`.
        ValueError: If it is None, or a list that is not rectangular.
    """
    array, found = _convert(value, dtype)
    if array.flags.writeable:
        array.setflags(write=False)
    return array, found


def _convert(value: Any, dtype: DType | None) -> tuple[Array, DType]:
    if value is None:
        raise ValueError("None values not supported.")
    kind = type(value)
    if dtype is None:
        scalar = _SCALARS.get(kind)
        if scalar is not None:
            return np.array(value, scalar[1]), scalar[0]
        if kind is int and -(2**31) <= value < 2**31:
            return np.array(value, np.int32), dtypes.int32
    elif (kind is float and (dtype is dtypes.float32 or dtype is dtypes.float64)) or (
        kind is int and (dtype is dtypes.int32 or dtype is dtypes.int64) and -(2**31) <= value < 2**31
    ):
        return np.array(value, dtype.as_numpy_dtype), dtype
    if isinstance(value, (np.ndarray, np.generic)):
        if immediate.is_view(value):
            found = as_dtype(value.dtype)
            if dtype is None or dtype is found:
                return value, found  # type: ignore[return-value]
        return _from_numpy(np.asarray(value), dtype)
    if not isinstance(value, (list, tuple, range)) and hasattr(value, "__array__"):
        try:
            array = np.asarray(value)
        except NotImplementedError as e:  # A tensor or variable of a graph: its value is not known yet.
            raise TypeError(str(e)) from None
        return _from_numpy(array, dtype)
    if dtype is not None and dtype.is_quantized:
        value = _without_fields(value)
    leaf = _first_leaf(value)
    if isinstance(leaf, (str, bytes, bytearray, np.str_, np.bytes_)) or dtype is dtypes.string:
        return _strings(value, dtype)
    return _from_python(value, leaf, dtype)


def _from_numpy(array: Array, dtype: DType | None) -> tuple[Array, DType]:
    if array.dtype.kind in "USO":
        if array.dtype.kind == "O" and not all(isinstance(item, (str, bytes)) for item in array.ravel()):
            # Lists of NumPy scalars and Dimensions arrive as objects; what they hold decides.
            return _from_python(array.tolist(), _first_leaf(array.tolist()), dtype)
        strings, dtype = _strings(array.tolist(), dtype)
        return strings.reshape(array.shape), dtype  # A list does not tell the shape of an empty array.
    if dtype is None:
        dtype = as_dtype(array.dtype)
        return np.array(array, dtype.as_numpy_dtype, order="C"), dtype
    if dtype is dtypes.string or not dtype.is_numpy_compatible:
        raise TypeError(f"Expected {dtype.name}, but got an array of type '{array.dtype}'.")
    target = np.dtype(dtype.as_numpy_dtype)
    if target.fields is not None and array.dtype.fields is None:
        return array.astype(target[0]).view(target).reshape(array.shape), dtype
    if array.dtype.kind == "c" and target.kind not in "c":
        raise TypeError(f"Expected {dtype.name}, but got an array of type '{array.dtype}'.")
    with np.errstate(all="ignore"):
        return np.array(array, target, order="C"), dtype


def _without_fields(value: Any) -> Any:
    """Elements of quantized types in the form that NumPy prints, `(1,)`, as numbers."""
    if isinstance(value, tuple) and len(value) == 1 and not isinstance(value[0], (list, tuple)):
        return value[0]
    return [_without_fields(item) for item in value] if isinstance(value, (list, tuple)) else value


def _first_leaf(value: Any) -> Any:
    """The first thing in a nested list that is not itself a list; the list itself if it holds none."""
    while isinstance(value, (list, tuple)):
        for item in value:
            leaf = _first_leaf(item)
            if not isinstance(leaf, (list, tuple)):
                return leaf
        return value
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _strings(value: Any, dtype: DType | None) -> tuple[Array, DType]:
    if dtype is not None and dtype is not dtypes.string:
        raise TypeError(_expected(dtype, _first_leaf(value)))
    array = np.empty((), object)
    if isinstance(value, (str, bytes, bytearray)):
        array[()] = _as_bytes(value, value)
        return array, dtypes.string
    array = np.array(value, object)
    flat = array.ravel()
    for i, item in enumerate(flat):
        if isinstance(item, (list, tuple)):
            raise ValueError(_not_rectangular(value))
        flat[i] = _as_bytes(item, value)
    return flat.reshape(array.shape), dtypes.string


def _as_bytes(item: Any, whole: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, (bytes, bytearray)):
        return bytes(item)
    if isinstance(whole, (list, tuple)) and any(isinstance(leaf, (str, bytes)) for leaf in _leaves(whole)):
        raise TypeError(f"Cannot convert {_clip(whole)} to a Tensor: it mixes strings with {type(item).__name__}.")
    raise TypeError(_expected(dtypes.string, item))


def _from_python(value: Any, leaf: Any, dtype: DType | None) -> tuple[Array, DType]:
    if isinstance(value, (TensorShape, Dimension)):
        value = _dimensions(value)
    elif isinstance(value, (set, frozenset, dict)) or not (
        isinstance(leaf, (list, tuple, range, int, float, complex, np.generic, np.ndarray, Dimension))
        or hasattr(leaf, "__array__")
        or leaf is None
    ):
        raise TypeError(_cannot_convert(value))
    try:
        array = np.array(value)
    except OverflowError:
        raise TypeError(_cannot_convert(value)) from None
    except ValueError as e:
        raise ValueError(f"{_not_rectangular(value)} ({e})") from None
    if array.dtype.kind == "O":
        if any(leaf is None for leaf in _leaves(value)):
            raise TypeError(_cannot_convert(value) + " It contains None.")
        if not any(isinstance(leaf, Dimension) for leaf in _leaves(value)):
            raise TypeError(_cannot_convert(value))
        array = np.array(_dimensions(value))
    if array.dtype.kind in "USOMmV" and array.dtype.fields is None and array.dtype not in _ml_types():
        raise TypeError(_cannot_convert(value))
    if dtype is None:
        return _default_type(array)
    _check_leaves(value, array, dtype)
    with np.errstate(all="ignore"):
        return _from_numpy(array, dtype)


def _ml_types() -> frozenset[Any]:
    return frozenset(
        np.dtype(t.as_numpy_dtype)
        for t in (dtypes.bfloat16, dtypes.float8_e5m2, dtypes.float8_e4m3fn, dtypes.int4, dtypes.uint4)
    )  # fmt: skip


def _dimensions(value: Any) -> Any:
    if isinstance(value, TensorShape):
        return value.as_list()
    if isinstance(value, (list, tuple)):
        return [_dimensions(item) for item in value]
    return int(value) if isinstance(value, Dimension) else value


def _default_type(array: Array) -> tuple[Array, DType]:
    if array.dtype == np.float64:
        return array.astype(np.float32), dtypes.float32
    if array.dtype == np.int64:
        narrow = array.astype(np.int32)
        return (narrow, dtypes.int32) if np.array_equal(narrow, array) else (array, dtypes.int64)
    return array, as_dtype(array.dtype)


_ACCEPTS = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}


def _check_leaves(value: Any, array: Array, dtype: DType) -> None:
    """Raises TypeError if Python values would lose their meaning in `dtype`: 1.5 as int32, 1 as bool."""
    kind = "b" if dtype.is_bool else "f" if dtype.is_floating else "c" if dtype.is_complex else "i"
    if not dtype.is_numpy_compatible:
        raise TypeError(_expected(dtype, value))
    if array.size == 0 or array.dtype.kind in _ACCEPTS[kind] or array.dtype.kind == "V":
        if array.size and array.dtype.kind in "iu" and dtype.is_integer:
            _check_range(array, dtype)
        return
    for leaf in _leaves(value):
        leaf_kind = np.asarray(leaf).dtype.kind
        if leaf_kind not in _ACCEPTS[kind]:
            raise TypeError(_expected(dtype, leaf))
    raise TypeError(_expected(dtype, value))


def _check_range(array: Array, dtype: DType) -> None:
    """Raises ValueError if one of some Python integers is beyond the limits of `dtype`.

    Those of 8 and 16 bits wrap as TensorFlow's do: -1 is a usual way to write 255.
    """
    if dtype.size < 4:
        return
    info = np.iinfo(dtype.as_numpy_dtype)
    for value in (int(array.min()), int(array.max())):
        if not info.min <= value <= info.max:
            raise ValueError(f"Can't convert {value} to {dtype.name}: it is out of range [{info.min}, {info.max}].")


def _expected(dtype: DType, value: Any) -> str:
    return f"Expected {dtype.name}, but got {_clip(value)} of type '{type(value).__name__}'."


def _clip(value: Any) -> str:
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= 200 else text[:200] + "..."


def _cannot_convert(value: Any) -> str:
    return (
        f"Failed to convert object of type {type(value).__name__} to Tensor. Contents: {_clip(value)}. "
        "Consider casting "
        "elements to a supported type."
    )


def _not_rectangular(value: Any) -> str:
    return f"Can't convert non-rectangular Python sequence to Tensor: {_clip(value)}"


def fill_shape(array: Array, shape: Any, verify_shape: bool) -> Array:
    """Gives an array the shape that tf.constant was asked for, repeating its last element where there are too few.

    Raises:
        ValueError: If there are too many elements.
        TypeError: If `verify_shape` is set and the shape is another one.
    """
    dims = TensorShape(shape).as_list()
    if None in dims:
        raise ValueError(f"The shape of a constant must be fully defined, got {TensorShape(shape)}.")
    target = tuple(int(d) for d in dims if d is not None)
    if array.shape == target:
        return array
    if verify_shape:
        raise TypeError(f"Expected Tensor's shape: {target}, got {array.shape}.")
    count = int(np.prod(target, dtype=np.float64))
    if count == 0:
        return np.zeros(target, array.dtype)  # Any one value fills an empty constant: tf.zeros([0, 2]).
    if array.size == count:
        return array.reshape(target)
    if array.size > count:
        raise ValueError(f"Too many elements provided. Needed at most {count}, but received {array.size}")
    if array.size == 0:
        raise ValueError(f"No elements provided for a constant of shape {target}.")
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), target)  # One element, in memory and in GraphDefs.
    result = np.empty(count, array.dtype)
    result[: array.size] = array.ravel()
    result[array.size :] = array.ravel()[-1]
    result = result.reshape(target)
    result.setflags(write=False)
    return result
