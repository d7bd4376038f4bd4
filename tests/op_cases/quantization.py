"""Cases of quantized types and of fake quantization."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real

_X = np.array([[-9.0, -6.0, -1.26, -0.02], [0.0, 0.5, 2.51, 77.0]], np.float32)
_LIMITS = {"qint8": (-128, 127), "quint8": (0, 255), "qint16": (-32768, 32767), "quint16": (0, 65535)}


def _f(*values: float) -> np.ndarray:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def _away(x: np.ndarray) -> np.ndarray:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def _range(low: float, high: float) -> tuple[float, float]:
    first = min(0.0, float(low))
    return first, max(0.0, float(high), first + max(1.0, abs(low), abs(high)) * 0.01)


def _quantize(x: np.ndarray, low: Any, high: Any, kind: str, mode: str = "MIN_COMBINED") -> Any:
    bottom, top = _LIMITS[kind]
    a, b = _range(low, high)
    x = x.astype(np.float64)
    if mode == "MIN_COMBINED":
        q = _away((np.clip(x, a, b) - a) * ((top - bottom) / (b - a)) + bottom)
    elif mode == "MIN_FIRST":
        steps = top - bottom + 1
        scale = steps / ((b - a) * (steps / (steps - 1)))
        q = np.clip(_away(x * scale) - _away(np.array(a * scale)) + bottom, bottom, top)
    else:
        scale = min(bottom / a if bottom * a > 0 else np.inf, top / b if top * b > 0 else np.inf)
        a, b = bottom / scale, top / scale
        q = _away(np.clip(x, a, b) * scale)
    return [np.clip(q, bottom, top), np.float32(a), np.float32(b)]


def _plain(q: Any) -> Any:
    """Quantized values as numbers, which NumPy can compare."""
    base = {"qint8": tf.int8, "quint8": tf.uint8, "qint16": tf.int16, "quint16": tf.uint16, "qint32": tf.int32}
    return tf.cast(tf.bitcast(q, base[q.dtype.name]), tf.float64)


def _call(x: Any, low: Any, high: Any, kind: str, **kwargs: Any) -> Any:
    out = tf.quantize(x, low, high, getattr(tf, kind), **kwargs)
    return [_plain(out.output), out.output_min, out.output_max]


_SAMPLES = [
    Args(_X, _f(low), _f(high), kind, mode=mode)
    for kind in _LIMITS
    for low, high in ((-6.0, 5.0), (0.0, 3.0), (-4.0, 1.0))
    for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
]
case(
    "QuantizeV2",
    _call,
    _quantize,
    samples=[*_SAMPLES, Args(np.zeros((0, 3), np.float32), _f(-1), _f(1), "qint8")],
    dtypes="float32",
    bad=[
        Bad(Args(_X, _f(2), _f(1), "qint8"), match="at least"),
        Bad(Args(_X, _f(float("nan")), _f(1), "qint8"), match="at least"),
        Bad(Args(_X, _f(0, 0), _f(1, 1), "qint8"), match="[2]"),
        Bad(Args(_X, _f(0, 0), _f(1, 1), "qint8", axis=1), match="(4)"),
        Bad(Args(_X, _f(0, 0), _f(1, 1), "qint8", axis=2), match="axis 2"),
        Bad(Args(_X, _f(0), _f(1), "qint8", round_mode="HALF_TO_EVEN"), match="SCALED"),
    ],
)


def _round_trip(x: Any, low: Any, high: Any, kind: str, mode: str) -> Any:
    out = tf.quantize(x, low, high, getattr(tf, kind), mode=mode)
    return tf.dequantize(out.output, out.output_min, out.output_max, mode=mode)


def _dequantized(x: np.ndarray, low: Any, high: Any, kind: str, mode: str) -> np.ndarray:
    q, a, b = _quantize(x, low, high, kind, mode)
    bottom, top = _LIMITS[kind]
    if mode == "MIN_COMBINED":
        return (q - bottom) * ((b - a) / (top - bottom)) + a
    if mode == "MIN_FIRST":
        steps = top - bottom + 1
        scale = (b - a) * (steps / (steps - 1)) / steps
        return (q - bottom) * scale + _away(np.array(a / scale)) * scale
    return q * (max(a / bottom, b / top) if bottom else b / top)


case(
    "Dequantize",
    _round_trip,
    lambda *args, **k: _dequantized(*args, **k).astype(np.float32),
    samples=_SAMPLES,
    dtypes="float32",
    tolerance=1e-4,
)


def _and_back(x: Any, low: Any, high: Any, signed_input: bool = True, num_bits: int = 8, **kwargs: Any) -> Any:
    wide = x.astype(np.float64)
    given = kwargs.get("range_given", False)
    low, high = (float(low), float(high)) if given else (wide.min(), wide.max())
    bottom = (-(2 ** (num_bits - 1)) + kwargs.get("narrow_range", False)) if signed_input else 0
    top = 2 ** (num_bits - 1) - 1 if signed_input else 2**num_bits - 1
    scale = min(bottom / low if bottom * low > 0 else np.inf, top / high if top * high > 0 else np.inf)
    if given:
        wide = np.clip(wide, bottom / scale, top / scale)
    rounded = np.floor(wide * scale + 0.5) if kwargs.get("round_mode") == "HALF_UP" else np.round(wide * scale)
    return (rounded / scale).astype(x.dtype)


_POINTS = np.array([-3.5, -1.0, 0.0, 0.3, 2.0])
_BITS = [
    Args(_POINTS, np.array(-4.0), np.array(4.0), range_given=True),
    Args(_POINTS, np.array(-1.0), np.array(2.0), range_given=True, num_bits=4, narrow_range=True),
    Args(_POINTS, np.array(0.0), np.array(0.0), num_bits=3, round_mode="HALF_UP"),
    Args(np.abs(_POINTS), np.array(0.0), np.array(2.0), signed_input=False, range_given=True),
]
case(
    "QuantizeAndDequantizeV2",
    tf.quantization.quantize_and_dequantize,
    _and_back,
    samples=_BITS,
    dtypes="float64",
    bad=[
        Bad(Args(_POINTS, np.array(2.0), np.array(1.0), range_given=True), match="invalid range"),
        Bad(Args(_POINTS, np.array(0.0), np.array(1.0), num_bits=64), match="64"),
        Bad(Args(_POINTS, np.array(0.0), np.array(1.0), num_bits=-1), match="-1"),
        Bad(Args(_POINTS, np.array([0.0, 0.0]), np.array(1.0), range_given=True), match="[2]"),
    ],
)
case(
    "QuantizeAndDequantizeV3",
    lambda x, low, high, bits: tf.raw_ops.QuantizeAndDequantizeV3(
        input=x, input_min=low, input_max=high, num_bits=bits
    ),
    lambda x, low, high, bits: _and_back(x, low, high, num_bits=int(bits), range_given=True),
    samples=[Args(_POINTS, np.array(-4.0), np.array(4.0), np.array(5, np.int32))],
    dtypes="float64",
    bad=[
        Bad(Args(_POINTS, np.array(-4.0), np.array(4.0), np.array(0, np.int32)), match="num_bits 0"),
        Bad(Args(_POINTS, np.array(-4.0), np.array(4.0), np.array([8], np.int32)), match="scalar"),
    ],
)


def _nudge(low: Any, high: Any, bits: int, narrow: bool) -> Any:
    bottom, top = int(narrow), 2**bits - 1
    scale = (high - low) / (top - bottom)
    zero = np.clip(_away(bottom - low / scale), bottom, top)
    return (bottom - zero) * scale, (top - zero) * scale, scale


def _fake(x: np.ndarray, low: Any = -6, high: Any = 6, num_bits: int = 8, narrow_range: bool = False) -> np.ndarray:
    low, high = np.asarray(low, np.float64), np.asarray(high, np.float64)
    a, b, scale = _nudge(low, high, num_bits, narrow_range)
    return (_away((np.clip(x, a, b) - a) / scale) * scale + a).astype(np.float32)


def _fake_grad(g: np.ndarray, x: np.ndarray, low: Any = -6, high: Any = 6, num_bits: int = 8) -> Any:
    a, b, _ = _nudge(np.asarray(low, np.float64), np.asarray(high, np.float64), num_bits, False)
    axes = tuple(range(x.ndim - np.ndim(low)))
    outside = [np.where(x < a, g, 0).sum(axes), np.where(x > b, g, 0).sum(axes)]
    return [np.where((x >= a) & (x <= b), g, 0), *[part.astype(np.float32) for part in outside]]


_Y = np.array([[-9.0, -5.9, 0.03, 4.0], [0.0, 1.0, 2.5, 77.0]], np.float32)
_LOW, _HIGH = np.array([-6.0, -1.0, 0.0, -3.0], np.float32), np.array([6.0, 2.0, 1.0, 5.0], np.float32)
_WIDTHS = [Bad(Args(_Y, num_bits=1), match="1"), Bad(Args(_Y, num_bits=17), match="17")]
case(
    "FakeQuantWithMinMaxArgs",
    tf.fake_quant_with_min_max_args,
    lambda x, min=-6, max=6, **k: _fake(x, min, max, **k),
    samples=[Args(_Y), Args(_Y, min=0, max=3, num_bits=4), Args(_Y, min=-0.1, max=63.75, narrow_range=True)],
    dtypes="float32",
    bad=[*_WIDTHS, Bad(Args(_Y, min=1, max=1), match="smaller")],
)
case(
    "FakeQuantWithMinMaxArgsGradient",
    tf.fake_quant_with_min_max_args_gradient,
    lambda g, x: _fake_grad(g, x)[0],
    samples=[Args(real(2, 4), _Y)],
    dtypes="float32",
    bad=[Bad(Args(real(2, 3), _Y), match="[2,3]")],
)
case(
    "FakeQuantWithMinMaxVars",
    tf.fake_quant_with_min_max_vars,
    _fake,
    samples=[Args(_Y, _f(-6), _f(6)), Args(_Y, _f(0), _f(5), num_bits=3)],
    dtypes="float32",
    bad=[Bad(Args(_Y, _LOW, _HIGH), match="scalars")],
)
case(
    "FakeQuantWithMinMaxVars",
    tf.fake_quant_with_min_max_vars,
    lambda x, low, high: np.zeros_like(x),
    samples=[Args(_Y, _f(0), _f(0))],
    dtypes="float32",
    notes="a range that is not set yet",
)
case(
    "FakeQuantWithMinMaxVarsGradient",
    lambda *a: list(tf.fake_quant_with_min_max_vars_gradient(*a)),
    _fake_grad,
    samples=[Args(real(2, 4), _Y, _f(-1), _f(3))],
    dtypes="float32",
)
case(
    "FakeQuantWithMinMaxVarsPerChannel",
    tf.fake_quant_with_min_max_vars_per_channel,
    _fake,
    samples=[Args(_Y, _LOW, _HIGH), Args(_Y[0], _LOW, _HIGH)],
    dtypes="float32",
    bad=[
        Bad(Args(_Y, _LOW[:2], _HIGH[:2]), match="[2]"),
        Bad(Args(np.array(1.0, np.float32), _LOW, _HIGH), match="vector"),
    ],
)
case(
    "FakeQuantWithMinMaxVarsPerChannelGradient",
    lambda *a: list(tf.fake_quant_with_min_max_vars_per_channel_gradient(*a)),
    _fake_grad,
    samples=[Args(real(2, 4), _Y, _LOW, _HIGH)],
    dtypes="float32",
)
case(
    "CompareAndBitpack",
    tf.compare_and_bitpack,
    lambda x, t: np.packbits(x > t, axis=-1),
    samples=[Args(real(2, 16), real()), Args(real(0), real()), Args(real(3, 0), real())],
    dtypes="float16 float32 float64 int8 int32",
    bad=[
        Bad(Args(real(2, 7), real()), match="multiple of 8"),
        Bad(Args(real(), real()), match="multiple of 8"),
        Bad(Args(real(8), real(1)), match="scalar"),
    ],
)
