"""TensorProto in and out: arrays to TensorFlow's protobuf form of a tensor, in the same compact forms, and back.

Input is untrusted: `make_ndarray` checks sizes before it allocates, and a constant that stands for more than
`MAX_BYTES` is refused.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from thalweg.graph import constant_values, dtypes
from thalweg.graph.definitions.attr_conversion import set_tensor_reader
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor_shape import TensorShape

Array = np.ndarray[Any, Any]

MAX_BYTES: Final = 2**31
"""The largest tensor that a TensorProto may stand for: what a protobuf message could hold if it were written out."""

_SHARED_BYTES: Final = 2**20  # From here on, a constant of equal elements stays one element with strides of zero.

_INT_VAL: Final = frozenset(
    (dtypes.int32, dtypes.int16, dtypes.int8, dtypes.uint16, dtypes.uint8, dtypes.qint8, dtypes.quint8, dtypes.qint16,
     dtypes.quint16, dtypes.qint32, dtypes.int4, dtypes.uint4)
)  # fmt: skip
_FIELDS: Final[dict[DType, str]] = {
    **dict.fromkeys(_INT_VAL, "int_val"),
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.int64: "int64_val",
    dtypes.uint32: "uint32_val",
    dtypes.uint64: "uint64_val",
    dtypes.bool: "bool_val",
    dtypes.complex64: "scomplex_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.float16: "half_val",
    dtypes.bfloat16: "half_val",
    dtypes.string: "string_val",
}


# Types whose elements TensorFlow writes one by one, and never as bytes.
_BY_VALUE: Final = frozenset((dtypes.bool, dtypes.int4, dtypes.uint4, dtypes.complex64, dtypes.complex128))

# Writing.


@export("make_tensor_proto", "contrib.util.make_tensor_proto")
def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> Any:
    """Creates a TensorProto.

    Args:
        values: A number, string, nested list of these, or an array.
        dtype: The type of the elements; inferred from `values` if None.
        shape: The shape; where `values` has too few elements the last one is meant to repeat.
        verify_shape: Whether `values` must have exactly that shape.
        allow_broadcast: Whether a single value may stand for a whole shape also with `verify_shape`.

    Returns:
        A TensorProto.

    Raises:
        TypeError: If `values` cannot be of type `dtype`, or does not have the shape asked for.
        ValueError: If it has too many elements, or is a ragged list.

    Example:
        >>> tf.make_tensor_proto(1.0, shape=[2, 3]).float_val
        [1.0]
    """
    if _is_tensor_proto(values):
        return values
    array, dtype = constant_values.as_array(values, None if dtype is None else as_dtype(dtype).base_dtype)
    if shape is None:
        return tensor_proto_of(array, dtype)
    dims = TensorShape(shape).as_list()
    if None in dims:
        raise ValueError(f"The shape of a TensorProto must be fully defined, got {TensorShape(shape)}.")
    target = tuple(int(d) for d in dims if d is not None)
    if verify_shape and array.shape != target and not (allow_broadcast and array.size == 1):
        raise TypeError(f"Expected Tensor's shape: {target}, but got {array.shape}.")
    count = math.prod(target)
    if array.size > count:
        raise ValueError(f"Too many elements provided. Takes at most {count}, but got {array.size}.")
    if array.size == count:
        return tensor_proto_of(array.reshape(target), dtype)
    proto = _new_proto(dtype, target)
    _add_values(proto, array.ravel(), dtype)
    return proto


def _is_tensor_proto(value: Any) -> bool:
    # By the name of the message, TensorFlow's or ours: to ask for `tensor_content` would copy all of it.
    return getattr(getattr(value, "DESCRIPTOR", None), "name", None) == "TensorProto"


def tensor_proto_of(array: Array, dtype: DType) -> Any:
    """The TensorProto of an array that has the NumPy type of `dtype`."""
    proto = _new_proto(dtype, array.shape)
    fill_tensor_proto(proto, array, dtype)
    return proto


def fill_tensor_proto(proto: Any, array: Array, dtype: DType) -> None:
    """Puts the elements of an array into a TensorProto that already has its type and shape."""
    if array.size > 1 and not any(array.strides):
        array = array[(slice(0, 1),) * array.ndim]  # All elements are one.
    elif array.size > 1 and dtype.size and dtype not in _BY_VALUE:
        if array.nbytes >= MAX_BYTES:
            raise ValueError(
                f"Cannot create a tensor proto whose content is larger than 2GB: {array.nbytes} bytes of shape "
                f"{array.shape}. Feed the value, or keep it in a variable."
            )
        little = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        proto.tensor_content = little.tobytes()
        return
    _add_values(proto, array.ravel(), dtype)


def _new_proto(dtype: DType, shape: tuple[int, ...]) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto  # Start-up time: protobuf is slow to import.

    proto = TensorProto(dtype=dtype.as_datatype_enum)
    set_dims(proto.tensor_shape, shape)
    return proto


def set_dims(proto: Any, dims: tuple[int | None, ...]) -> None:
    """Fills a TensorShapeProto; None becomes -1."""
    proto.SetInParent()  # A scalar's shape is present, and empty.
    for size in dims:
        proto.dim.add().size = -1 if size is None else size


def _add_values(proto: Any, flat: Array, dtype: DType) -> None:
    name = _FIELDS.get(dtype)
    if name is None:
        if dtype.size and flat.size:
            proto.tensor_content = flat.tobytes()  # float8 and the like have no field of their own.
        elif not dtype.size:
            raise TypeError(f"A tensor of type {dtype.name} cannot be written to a TensorProto.")
        return
    field = getattr(proto, name)
    if dtype in (dtypes.float16, dtypes.bfloat16):
        field.extend(flat.view(np.uint16).tolist())
    elif dtype.is_complex:
        field.extend(flat.view(flat.real.dtype).tolist())
    elif dtype.is_quantized:
        field.extend(flat.view(flat.dtype[0]).tolist())
    elif dtype in (dtypes.int4, dtypes.uint4):
        field.extend(flat.astype(np.int32).tolist())
    else:
        field.extend(flat.tolist())


# Reading.


@export("make_ndarray", "contrib.util.make_ndarray")
def make_ndarray(tensor: Any) -> Array:
    """Returns the array that a TensorProto stands for.

    Raises:
        TypeError: If the proto has a type that no array can hold.
        ValueError: If its shape is unknown, negative or absurdly large, or does not fit the content.

    Example:
        >>> tf.make_ndarray(tf.make_tensor_proto([1, 2]))
        array([1, 2], dtype=int32)
    """
    return read_only_array(tensor).copy()


set_tensor_reader(make_ndarray)


def read_only_array(tensor: Any) -> Array:
    """As `make_ndarray`, in the form in which nodes keep constants: not writeable, repeated elements shared."""
    if not _is_tensor_proto(tensor):
        raise TypeError(f"Expected a TensorProto, got {type(tensor).__name__}.")
    try:
        dtype = as_dtype(tensor.dtype).base_dtype
    except TypeError:
        raise ValueError(f"A TensorProto has the unknown element type number {tensor.dtype}.") from None
    if not dtype.is_numpy_compatible:
        raise TypeError(f"Unsupported tensor type: {dtype.name}. Its values exist only inside a step.")
    shape, count = _checked_shape(tensor.tensor_shape, dtype)
    content = tensor.tensor_content  # A copy each time that it is read: hundreds of megabytes in a large model.
    if content:
        array = _from_content(content, dtype, shape, count)
    else:
        array = _from_values(tensor, dtype, shape, count)
    array.setflags(write=False)
    return array


def _checked_shape(proto: Any, dtype: DType) -> tuple[tuple[int, ...], int]:
    if proto.unknown_rank:
        raise ValueError("The shape of a TensorProto has unknown rank: a constant needs a known one.")
    shape = tuple([dim.size for dim in proto.dim])
    if len(shape) > 64:
        raise ValueError(f"The shape of a TensorProto has {len(shape)} dimensions; at most 64 are possible.")
    count = 1
    for size in shape:
        if size < 0:
            raise ValueError(f"Shape {_text(shape)} is not fully defined: a TensorProto needs every dimension >= 0.")
        count *= size
    # NumPy multiplies the dimensions that are not zero even if another one is.
    extent = math.prod([size for size in shape if size])
    width = 8 if dtype is dtypes.string else max(dtype.size, 1)  # At least a reference to each string.
    if extent * width > MAX_BYTES:
        raise ValueError(
            f"A TensorProto of type {dtype.name} and shape {_text(shape)} stands for {count} elements; more than "
            f"{MAX_BYTES} bytes are not accepted."
        )
    return shape, count


def _text(shape: tuple[int, ...]) -> str:
    sizes = ",".join(str(size) if size >= 0 else "?" for size in shape[:16])
    return f"[{sizes}]" if len(shape) <= 16 else f"[{sizes},...]"


def _from_content(content: bytes, dtype: DType, shape: tuple[int, ...], count: int) -> Array:
    if dtype is dtypes.string:
        return _decode_strings(content, shape, count)
    if len(content) != count * dtype.size:
        raise ValueError(
            f"The content of a TensorProto has {len(content)} bytes, but {count} elements of type {dtype.name} (shape "
            f"{_text(shape)}) need {count * dtype.size}."
        )
    array = np.frombuffer(content, np.dtype(dtype.as_numpy_dtype).newbyteorder("<")).reshape(shape)
    if dtype is dtypes.bool:
        return np.not_equal(array.view(np.uint8), 0)  # Bytes other than 0 and 1 are no bools.
    # The array shares the bytes, which are its own: nobody else has them.
    return array.astype(dtype.as_numpy_dtype, copy=False)


def _decode_strings(content: bytes, shape: tuple[int, ...], count: int) -> Array:
    """Strings in `tensor_content`: all lengths as varints, and then all bytes."""
    lengths: list[int] = []
    at = 0
    while len(lengths) < count:
        value = shift = 0
        while True:
            if at >= len(content) or shift > 63:
                raise ValueError(f"The content of a TensorProto ends within the lengths of its {count} strings.")
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        lengths.append(value)
    if at + sum(lengths) != len(content):
        raise ValueError(
            f"The content of a TensorProto has {len(content) - at} bytes of text, but its {count} strings need "
            f"{sum(lengths)}."
        )
    result = np.empty(count, object)
    for i, length in enumerate(lengths):
        result[i] = content[at : at + length]
        at += length
    return result.reshape(shape)


def _from_values(tensor: Any, dtype: DType, shape: tuple[int, ...], count: int) -> Array:
    name = _FIELDS.get(dtype)
    field = getattr(tensor, name) if name is not None else ()
    values = _values_as_array(field, dtype)
    if values.size > count:
        raise ValueError(
            f"A TensorProto of shape {_text(shape)} has {values.size} values in '{name}' for {count} elements."
        )
    if values.size == count:
        return values.reshape(shape)
    if values.size == 0:
        last: Any = b"" if dtype is dtypes.string else np.zeros((), values.dtype)[()]
    else:
        last = values[-1]
    if values.size <= 1 and count * max(dtype.size, 8) >= _SHARED_BYTES:
        single = np.empty((), values.dtype)
        single[()] = last
        return np.broadcast_to(single, shape)
    result = np.empty(count, values.dtype)
    result[: values.size] = values
    result[values.size :] = last
    return result.reshape(shape)


def _values_as_array(field: Any, dtype: DType) -> Array:
    target = np.dtype(dtype.as_numpy_dtype)
    if dtype is dtypes.string:
        strings = np.empty(len(field), object)
        strings[:] = list(field)
        return strings
    if dtype in (dtypes.float16, dtypes.bfloat16):
        # 16 bits each, in a field of 32: higher bits mean nothing.
        return np.array(field, np.int64).astype(np.uint16).view(target)
    if dtype.is_complex:
        parts = np.array(field, np.float64 if dtype is dtypes.complex128 else np.float32)
        if parts.size % 2:
            raise ValueError(f"A TensorProto of type {dtype.name} has {parts.size} real numbers: an odd number.")
        return parts.view(target)
    if dtype.is_quantized:
        return np.array(field, np.int64).astype(target[0]).view(target)
    if dtype.is_integer:
        wide = np.array(field, np.uint64 if dtype is dtypes.uint64 else np.int64)
        return wide.astype(target)  # As C++ converts them: modulo the width.
    return np.array(field, target)
