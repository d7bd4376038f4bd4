"""Conversion between element types: Cast, Bitcast and the functions named after them."""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

define("Cast", "x: SrcT -> y: DstT", "SrcT: type, DstT: type, Truncate: bool = false", shape=shapes.unchanged)


@export("cast", "dtypes.cast")
@elementwise
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts the elements of a Tensor, SparseTensor or IndexedSlices to another type.

    Floating point numbers lose their fraction when cast to integers, complex numbers their imaginary part when cast to
    real ones; anything but zero is true. A tensor that has the type already is returned as it is.

    Args:
        x: What to convert.
        dtype: The new type.
        name: The node's name.

    Returns:
        A value like `x`.

    Example:
        >>> tf.Session().run(tf.cast([1.8, -2.2], tf.int32))
        array([ 1, -2], dtype=int32)
    """
    target = as_dtype(dtype).base_dtype
    if isinstance(x, Tensor) and x.dtype.base_dtype == target:
        return x
    with name_scope(name, "Cast", [x]) as scope:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, cast(x.values, target, scope), x.dense_shape)
        if isinstance(x, IndexedSlices):
            return IndexedSlices(cast(x.values, target, scope), x.indices, x.dense_shape)
        x = convert_to_tensor(x, name="x")
        return x if x.dtype.base_dtype == target else apply_one("Cast", x, DstT=target, name=scope)


@gradient("Cast")
def _cast_grad(op: Operation, grad: Tensor) -> Any:
    source, target = op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype
    if all(t.is_floating or t.is_complex for t in (source, target)):
        return cast(grad, source)
    return None


@export("to_float")
def to_float(x: Any, name: str = "ToFloat") -> Any:
    """Casts to float32."""
    return cast(x, dtypes.float32, name)


@export("to_double")
def to_double(x: Any, name: str = "ToDouble") -> Any:
    """Casts to float64."""
    return cast(x, dtypes.float64, name)


@export("to_int32")
def to_int32(x: Any, name: str = "ToInt32") -> Any:
    """Casts to int32."""
    return cast(x, dtypes.int32, name)


@export("to_int64")
def to_int64(x: Any, name: str = "ToInt64") -> Any:
    """Casts to int64."""
    return cast(x, dtypes.int64, name)


@export("to_bfloat16")
def to_bfloat16(x: Any, name: str = "ToBFloat16") -> Any:
    """Casts to bfloat16."""
    return cast(x, dtypes.bfloat16, name)


@export("to_complex64")
def to_complex64(x: Any, name: str = "ToComplex64") -> Any:
    """Casts to complex64."""
    return cast(x, dtypes.complex64, name)


@export("to_complex128")
def to_complex128(x: Any, name: str = "ToComplex128") -> Any:
    """Casts to complex128."""
    return cast(x, dtypes.complex128, name)


@export("saturate_cast", "dtypes.saturate_cast")
@elementwise
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Casts after limiting the elements to the range of the new type, so that none overflows."""
    with name_scope(name, "saturate_cast", [value]) as scope:
        value = convert_to_tensor(value, name="value")
        target, source = as_dtype(dtype).base_dtype, value.dtype.base_dtype
        low, high, least, most = (_python_number(n) for n in (target.min, target.max, source.min, source.max))
        # Infinite floats need the limits even if all finite ones fit the integer type.
        if least < low or most > high or (source.is_floating and target.is_integer):
            limits = _limits_in_type(source, max(least, low), min(most, high))
            value = apply_one("ClipByValue", value, *limits, name="clamp")
        result: Tensor = cast(value, target, scope)
        return result


def _python_number(limit: Any) -> int | float:
    """A limit as a Python number: these compare without being cast to each other's type."""
    return float(limit) if isinstance(limit, float) or not hasattr(limit, "__index__") else int(limit)


def _limits_in_type(source: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The limits in the type of the values, rounded inwards: float32 cannot hold the largest int32."""
    if source.is_integer:
        return int(low), int(high)
    import numpy as np

    kind = source.as_numpy_dtype
    # Without nextafter (bfloat16), the limits of integer types round to powers of two, which need no step.
    step = (lambda v, towards: np.nextafter(v, kind(towards))) if np.dtype(kind).kind == "f" else None
    bounds = []
    for limit in (low, high):
        bound = kind(limit)
        if step is not None and abs(float(bound)) > abs(float(limit)):
            bound = step(bound, 0)
        bounds.append(bound)
    return bounds[0], bounds[1]


_BITS = (
    "{bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, complex64, complex128, "
    "qint8, quint8, qint16, quint16, qint32}"
)


def _bitcast_shape(c: ShapeContext) -> TensorShape:
    dims = c.dims(0)
    source, target = c.input_dtype(0).size, c.attr("type").size
    if dims is None or source == target:
        return c.input(0)
    if source > target:
        return TensorShape._of((*dims, source // target))
    ratio = target // source
    if not dims or dims[-1] not in (None, ratio):
        raise ValueError(
            f"Cannot bitcast due to shape: the last dimension of {shapes.short(c.input(0))} must be {ratio}"
        )
    return TensorShape._of(dims[:-1])


define("Bitcast", "input: T -> output: type", f"T: {_BITS}, type: {_BITS}", shape=_bitcast_shape)
work(works.free, "Bitcast")
not_differentiable("Bitcast")


@export("bitcast")
def bitcast(input: Any, type: Any, name: str | None = None) -> Tensor:
    """Reads the bits of a tensor as elements of another type.

    A wider type splits into an additional last dimension; a narrower one needs a last dimension to join.
    """
    return apply_one("Bitcast", input, type=type, name=name)
