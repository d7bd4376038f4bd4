"""Ops on quantized values of old 8-bit graphs: products, sums, activations, pools, and other ranges.

A quantized value comes with two floats: the real numbers that its lowest and its highest integer stand for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import _reshape_shape
from thalweg.ops.nn.pooling import pool_shape
from thalweg.ops.sparse.kernel_arrays import Array, require

_T = "quantizedtype"
_RANGE = "output_min: float, output_max: float"


class _Range(NamedTuple):
    """What the integers of a type stand for."""

    low: float
    high: float
    lowest: int
    highest: int

    @property
    def steps_per_one(self) -> float:
        """How many integers a real number of one is."""
        return (self.highest - self.lowest) / (self.high - self.low) if self.high > self.low else 0.0

    def reals(self, x: Array) -> Array:
        """The real numbers of integers."""
        if self.high == self.low:
            return np.full(x.shape, self.low)
        step = np.float32(1 / self.steps_per_one)  # In 32 bits: so zero is one of the integers' numbers.
        low = float(_round(np.float32(self.low) / step)) * float(step)
        result: Array = low + (x.astype(np.float64) - self.lowest) / self.steps_per_one
        return result

    def place(self, x: Any) -> Any:
        """The integers of real numbers, also outside of the type."""
        if self.high == self.low:
            return np.zeros(np.shape(x))
        return _round(x * self.steps_per_one) - _round(self.low * self.steps_per_one) + self.lowest

    def integers(self, x: Array) -> Array:
        """The integers of real numbers, the nearest ones of the type."""
        result: Array = np.clip(self.place(x), self.lowest, self.highest).astype(np.int64)
        return result


def _round(x: Any) -> Any:
    """The nearest integer, half away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def _limits(dtype: Any) -> tuple[int, int]:
    info = np.iinfo(_element(dtype))
    return int(info.min), int(info.max)


def _element(dtype: Any) -> Any:
    """The type of the integers of a quantized type."""
    kind = np.dtype(as_dtype(dtype).as_numpy_dtype)
    return kind[0] if kind.names else kind


def _plain(x: Any) -> Array:
    """The integers of an array of a quantized type."""
    x = np.asarray(x)
    plain: Array = x[x.dtype.names[0]] if x.dtype.names else x
    return plain


def _made(x: Any, dtype: Any) -> Array:
    """Integers as an array of a quantized type."""
    kind = np.dtype(as_dtype(dtype).as_numpy_dtype)
    plain = np.ascontiguousarray(x, kind[0] if kind.names else kind)
    return plain.view(kind).reshape(plain.shape) if kind.names else plain


def _range(ends: Any, dtype: Any) -> _Range:
    low, high = ends
    require(np.size(low) == 1 and np.size(high) == 1, "the ends of a range must be scalars")
    a, b = float(np.reshape(low, ())), float(np.reshape(high, ()))
    require(np.isfinite(a) and np.isfinite(b) and a <= b, f"a range must be finite and in order, got [{a}, {b}]")
    return _Range(a, b, *_limits(dtype))


def _result(x: Any, range_: _Range, dtype: Any) -> list[Any]:
    return [_made(x, dtype), np.float32(range_.low), np.float32(range_.high)]


def _with_ranges(first: Any, scalars: range) -> Any:
    def shape(c: ShapeContext) -> list[TensorShape]:
        for i in scalars:
            shapes.with_rank(c.input(i), 0)
        return [first(c), shapes.SCALAR, shapes.SCALAR]

    return shape


def _same(c: ShapeContext) -> TensorShape:
    return c.input(0)


def _product_range(a: _Range, b: _Range, dtype: Any) -> _Range:
    one = (a.high - a.low) / (a.highest - a.lowest) * ((b.high - b.low) / (b.highest - b.lowest))
    low, high = _limits(dtype)
    return _Range(one * low, one * high, low, high)


_PRODUCT_ATTRS = "T1: {t}, T2: {t}, Toutput: {t} = qint32".replace("{t}", _T)
define(
    "QuantizedMatMul",
    "a: T1, b: T2, min_a: float, max_a: float, min_b: float, max_b: float -> "
    "out: Toutput, min_out: float, max_out: float",
    f"{_PRODUCT_ATTRS}, transpose_a: bool = false, transpose_b: bool = false, Tactivation: {_T} = quint8",
    shape=_with_ranges(shapes.matmul, range(2, 6)),
)


@python_kernel("QuantizedMatMul")
def _matmul(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    a, b = _plain(inputs[0]), _plain(inputs[1])
    require(a.ndim == 2 and b.ndim == 2, f"a and b must be matrices, got shapes {list(a.shape)} and {list(b.shape)}")
    first, second = _range(inputs[2:4], attrs["T1"]), _range(inputs[4:6], attrs["T2"])
    # Doubles hold sums of some 2**37 products of 8 bits without an error, and NumPy multiplies them fast.
    left, right = a - float(first.place(0.0)), b - float(second.place(0.0))
    left, right = left.T if attrs["transpose_a"] else left, right.T if attrs["transpose_b"] else right
    require(left.shape[1] == right.shape[0], f"a has {left.shape[1]} columns, b has {right.shape[0]} rows")
    return _result(_wrapped(left @ right), _product_range(first, second, attrs["Toutput"]), attrs["Toutput"])


def _wrapped(x: Array) -> Array:
    """Integers modulo 2**32, as sums of 32 bits give them."""
    return x.astype(np.int64).astype(np.uint32).view(np.int32)


def _sum_range(a: _Range, b: _Range, dtype: Any, bits: int) -> _Range:
    """A range in which sums of many such sums fit."""
    end = max(a.high, -a.low, b.high, -b.low) * (1 << bits)
    return _Range(-end, end, *_limits(dtype))


for _op in ("QuantizedAdd", "QuantizedMul"):
    define(
        _op,
        "x: T1, y: T2, min_x: float, max_x: float, min_y: float, max_y: float -> "
        "z: Toutput, min_z: float, max_z: float",
        _PRODUCT_ATTRS,
        shape=_with_ranges(shapes.broadcast, range(2, 6)),
    )


@python_kernel("QuantizedAdd")
def _add(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    return _sum_of(inputs, attrs["T1"], attrs["T2"], attrs["Toutput"], 14)


def _sum_of(inputs: list[Array], first_type: Any, second_type: Any, out_type: Any, bits: int) -> list[Any]:
    first, second = _range(inputs[2:4], first_type), _range(inputs[4:6], second_type)
    whole = _sum_range(first, second, out_type, bits)
    x, y = whole.integers(first.reals(_plain(inputs[0]))), whole.integers(second.reals(_plain(inputs[1])))
    return _result(_broadcast_sum(x, y), whole, out_type)


def _broadcast_sum(x: Array, y: Array) -> Array:
    try:
        return x + y
    except ValueError:
        require(False, f"shapes {list(x.shape)} and {list(y.shape)} do not fit each other")
        raise


@python_kernel("QuantizedMul")
def _multiply(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    first, second = _range(inputs[2:4], attrs["T1"]), _range(inputs[4:6], attrs["T2"])
    x, y = _plain(inputs[0]) - first.place(0.0), _plain(inputs[1]) - second.place(0.0)
    _broadcast_sum(x, y)
    return _result(_wrapped(x * y), _product_range(first, second, attrs["Toutput"]), attrs["Toutput"])


define(
    "QuantizedBiasAdd",
    "input: T1, bias: T2, min_input: float, max_input: float, min_bias: float, max_bias: float -> "
    "output: out_type, min_out: float, max_out: float",
    f"T1: {_T}, T2: {_T}, out_type: {_T}",
    shape=_with_ranges(_same, range(2, 6)),
)


@python_kernel("QuantizedBiasAdd")
def _bias_add(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    x, bias = _plain(inputs[0]), _plain(inputs[1])
    require(x.ndim >= 2, f"the input must be at least 2-D, got shape {list(x.shape)}")
    require(bias.shape == x.shape[-1:], f"{list(bias.shape)} biases for the channels of {list(x.shape)}")
    return _sum_of(inputs, attrs["T1"], attrs["T2"], attrs["out_type"], 17)


for _op in ("QuantizedRelu", "QuantizedRelu6"):
    define(
        _op,
        "features: Tinput, min_features: float, max_features: float -> "
        "activations: out_type, min_activations: float, max_activations: float",
        f"Tinput: {_T}, out_type: {_T} = quint8",
        shape=_with_ranges(_same, range(1, 3)),
    )


@python_kernel("QuantizedRelu")
def _relu(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    range_ = _range(inputs[1:], attrs["Tinput"])
    return _result(np.maximum(_plain(inputs[0]), range_.integers(np.zeros(()))), range_, attrs["out_type"])


@python_kernel("QuantizedRelu6")
def _relu6(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    range_ = _range(inputs[1:], attrs["Tinput"])
    low, high = range_.integers(np.array([0.0, 6.0]))
    return _result(np.clip(_plain(inputs[0]), low, high), range_, attrs["out_type"])


for _op in ("QuantizedMaxPool", "QuantizedAvgPool"):
    define(
        _op,
        "input: T, min_input: float, max_input: float -> output: T, min_output: float, max_output: float",
        f"T: {_T}, ksize: list(int), strides: list(int), padding: {{'SAME', 'VALID'}}",
        shape=_with_ranges(pool_shape(2), range(1, 3)),
    )
_MOST_WINDOW: Final = 2**31 - 1


def _windows(x: Array, attrs: dict[str, Any], fill: int) -> Array:
    """The elements below each place of the window, in the last two axes."""
    require(x.ndim == 4, f"the input must have 4 dimensions, got shape {list(x.shape)}")
    size, step = list(attrs["ksize"]), list(attrs["strides"])
    for name, value in (("ksize", size), ("strides", step)):
        require(len(value) == 4 and value[0] == value[3] == 1, f"{name} must be [1, rows, columns, 1], got {value}")
        require(all(0 < each <= _MOST_WINDOW for each in value), f"{name} must be positive, got {value}")
    pads = [(0, 0)] * 4
    for i in (1, 2):
        if attrs["padding"] in (b"SAME", "SAME"):
            whole = max((-(-x.shape[i] // step[i]) - 1) * step[i] + size[i] - x.shape[i], 0)
            pads[i] = (whole // 2, whole - whole // 2)
        require(x.shape[i] + sum(pads[i]) >= size[i], f"a window of {size[1:3]} is larger than {list(x.shape[1:3])}")
    padded = np.pad(x, pads, constant_values=fill)
    found = np.lib.stride_tricks.sliding_window_view(padded, (size[1], size[2]), (1, 2))
    return found[:, :: step[1], :: step[2]]


@python_kernel("QuantizedMaxPool")
def _max_pool(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    range_ = _range(inputs[1:], attrs["T"])
    return _result(_windows(_plain(inputs[0]), attrs, range_.lowest).max((-2, -1)), range_, attrs["T"])


@python_kernel("QuantizedAvgPool")
def _avg_pool(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    range_ = _range(inputs[1:], attrs["T"])
    x = _plain(inputs[0])
    sums = _windows(x.astype(np.int64), attrs, 0).sum((-2, -1))
    counts = _windows(np.ones((1, *x.shape[1:3], 1), np.int64), attrs, 0).sum((-2, -1))
    means = np.sign(sums) * (np.abs(sums) // counts)  # Cut off, not rounded.
    return _result(np.clip(means, range_.lowest, range_.highest), range_, attrs["T"])


define(
    "QuantizedReshape",
    f"tensor: T, shape: Tshape, input_min: float, input_max: float -> output: T, {_RANGE}",
    "T: type, Tshape: {int32, int64} = int32",
    shape=_with_ranges(_reshape_shape, range(2, 4)),
)


@python_kernel("QuantizedReshape")
def _reshape(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    x, sizes = np.asarray(inputs[0]), [int(each) for each in np.asarray(inputs[1]).reshape(-1)]
    for end in inputs[2:4]:
        require(np.ndim(end) == 0, f"the ends of the range must be scalars, got shape {list(np.shape(end))}")
    require(sizes.count(-1) <= 1 and all(each >= -1 for each in sizes), f"shape {sizes} is not one")
    try:
        return [np.ascontiguousarray(x).reshape(sizes), np.float32(inputs[2]), np.float32(inputs[3])]
    except ValueError:
        require(False, f"a tensor of shape {list(x.shape)} cannot become {sizes}")
        raise


def _concat_shape(c: ShapeContext) -> list[TensorShape]:
    count = (c.num_inputs - 1) // 3
    ranks = [c.input(1 + i).ndims for i in range(count)]
    rank = next((each for each in ranks if each is not None), None)
    return [TensorShape(None) if rank is None else TensorShape([None] * rank), shapes.SCALAR, shapes.SCALAR]


define(
    "QuantizedConcat",
    f"concat_dim: int32, values: N*T, input_mins: N*float, input_maxes: N*float -> output: T, {_RANGE}",
    "N: int >= 2, T: type",
    shape=_concat_shape,
)


@python_kernel("QuantizedConcat")
def _concat(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    count = int(attrs["N"])
    axis = int(np.reshape(inputs[0], ()))
    parts = [_plain(each) for each in inputs[1 : 1 + count]]
    ranges = [_range([inputs[1 + count + i], inputs[1 + 2 * count + i]], attrs["T"]) for i in range(count)]
    low, high = min(0.0, *(each.low for each in ranges)), max(each.high for each in ranges)
    if ranges[0].lowest < 0:  # Types with a sign: a range around zero.
        high = max(-low, high)
        low = -high
    whole = _Range(low, high, ranges[0].lowest, ranges[0].highest)
    rank = parts[0].ndim
    require(-rank <= axis < rank, f"concat_dim must be from {-rank} to {rank - 1}, got {axis}")
    fits = all(part.ndim == rank and np.delete(part.shape, axis).tolist() == np.delete(parts[0].shape, axis).tolist()
               for part in parts)  # fmt: skip
    require(fits, f"shapes {[list(part.shape) for part in parts]} differ outside of dimension {axis}")
    same = [part if (each.low, each.high) == (low, high) else whole.integers(each.reals(part))
            for part, each in zip(parts, ranges, strict=True)]  # fmt: skip
    return _result(np.concatenate(same, axis), whole, attrs["T"])


define(
    "QuantizeDownAndShrinkRange",
    f"input: Tinput, input_min: float, input_max: float -> output: out_type, {_RANGE}",
    f"Tinput: {_T}, out_type: {_T}",
    shape=_with_ranges(_same, range(1, 3)),
)
define(
    "Requantize",
    "input: Tinput, input_min: float, input_max: float, requested_output_min: float, requested_output_max: float -> "
    f"output: out_type, {_RANGE}",
    f"Tinput: {_T}, out_type: {_T}",
    shape=_with_ranges(_same, range(1, 5)),
)
define(
    "RequantizationRange",
    f"input: Tinput, input_min: float, input_max: float -> {_RANGE}",
    f"Tinput: {_T}",
    shape=lambda c: _with_ranges(_same, range(1, 3))(c)[1:],
)
not_differentiable(
    "QuantizedMatMul", "QuantizedAdd", "QuantizedMul", "QuantizedBiasAdd", "QuantizedRelu", "QuantizedRelu6",
    "QuantizedMaxPool", "QuantizedAvgPool", "QuantizedReshape", "QuantizedConcat", "QuantizeDownAndShrinkRange",
    "Requantize", "RequantizationRange",
)  # fmt: skip


def _used(x: Array, range_: _Range) -> tuple[float, float]:
    """The real numbers of the least and the largest integer that is there, and zero."""
    ends = range_.reals(np.array([x.min(), x.max()])) if x.size else np.zeros(2)
    return min(0.0, float(np.float32(ends[0]))), float(np.float32(ends[1]))


@python_kernel("QuantizeDownAndShrinkRange")
def _shrink(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    x, range_ = _plain(inputs[0]), _range(inputs[1:], attrs["Tinput"])
    low, high = _used(x, range_)
    whole = _Range(low, max(low, high), *_limits(attrs["out_type"]))
    return _result(whole.integers(range_.reals(x)), whole, attrs["out_type"])


@python_kernel("Requantize")
def _requantize(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    range_ = _range(inputs[1:3], attrs["Tinput"])
    wanted = _range(inputs[3:], attrs["out_type"])
    require(float(np.reshape(inputs[3], ())) <= 0, f"requested_output_min must be <= 0, got {inputs[3]}")
    return _result(wanted.integers(range_.reals(_plain(inputs[0]))), wanted, attrs["out_type"])


@python_kernel("RequantizationRange")
def _requantization_range(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    low, high = _used(_plain(inputs[0]), _range(inputs[1:], attrs["Tinput"]))
    return [np.float32(low), np.float32(high)]
