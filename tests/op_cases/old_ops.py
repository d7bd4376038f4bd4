"""Cases of op types that only old or rewritten graphs have: global normalization, fused padding, quantized values."""

from __future__ import annotations

from typing import Any

import numpy as np

import thalweg as tf
from tests.op_cases import Args, Bad, case, real
from tests.ops.convolution_reference import Convolution
from thalweg.graph.apply import apply, apply_one

_ATTRS: dict[str, Any] = {"variance_epsilon": 0.01, "scale_after_normalization": True}
_VECTORS = [real(3), real(3, low=0.5, high=2.0), real(3), real(3)]


def _normalized(t: Any, m: Any, v: Any, beta: Any, gamma: Any, **attrs: Any) -> Any:
    return (t - m) / np.sqrt(v + 0.01) * (gamma if attrs["scale_after_normalization"] else 1) + beta


case(
    "BatchNormWithGlobalNormalization",
    lambda *args, **kwargs: apply_one("BatchNormWithGlobalNormalization", *args, **kwargs),
    _normalized,
    samples=[
        Args(real(2, 2, 1, 3), *_VECTORS, **_ATTRS),
        Args(real(1, 2, 2, 3), *_VECTORS, **{**_ATTRS, "scale_after_normalization": False}),
        Args(real(0, 2, 2, 3), *_VECTORS, **_ATTRS),
    ],
    bad=[
        Bad(Args(real(2, 2, 3), *_VECTORS, **_ATTRS), match="4"),
        Bad(Args(real(2, 2, 2, 4), *_VECTORS, **_ATTRS), match="4"),
    ],
    order=1,
)


def _normalized_grad(t: Any, m: Any, v: Any, gamma: Any, grad: Any, **attrs: Any) -> Any:
    root = np.sqrt(v + 0.01)
    each = grad * (t - m)
    parts = [-grad / root * gamma, -0.5 * each * gamma / root**3, grad, each / root]
    return [grad * gamma / root, *(part.sum((0, 1, 2)) for part in parts)]


case(
    "BatchNormWithGlobalNormalizationGrad",
    lambda *args, **kwargs: apply("BatchNormWithGlobalNormalizationGrad", *args, **kwargs),
    _normalized_grad,
    samples=[Args(real(2, 2, 1, 3), *_VECTORS[:3], real(2, 2, 1, 3), **_ATTRS)],
    bad=[
        Bad(Args(real(2, 2, 1, 3), *_VECTORS[:3], real(2, 1, 1, 3), **_ATTRS)),
        Bad(Args(real(2, 2, 1, 3), *_VECTORS[:2], real(4), real(2, 2, 1, 3), **_ATTRS)),
    ],
)


def _convolved(x: Any, *rest: Any, mode: str, strides: Any, padding: str, resize_align_corners: bool = False) -> Any:
    *size, pads, kernel = rest
    if size:
        x = _resized(x, size[0], resize_align_corners)
    return Convolution(strides, padding).forward(np.pad(x, pads, mode.lower()), kernel)


def _resized(x: Any, size: Any, align: bool) -> Any:
    rows, columns = (
        [min(i * ((old - 1) / (new - 1) if align else old / new), old - 1) for i in range(new)]
        for old, new in zip(x.shape[1:3], size, strict=True)
    )
    out = np.zeros((x.shape[0], *size, x.shape[3]), x.dtype)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            a, b = int(row), int(column)
            c, d = min(a + 1, x.shape[1] - 1), min(b + 1, x.shape[2] - 1)
            top = x[:, a, b] * (1 - column + b) + x[:, a, d] * (column - b)
            bottom = x[:, c, b] * (1 - column + b) + x[:, c, d] * (column - b)
            out[:, i, j] = top * (1 - row + a) + bottom * (row - a)
    return out


_PADS = np.array([[0, 0], [1, 2], [2, 1], [0, 0]], np.int32)
_KERNEL = real(3, 2, 2, 3)
for _op, _more in (("FusedPadConv2D", [()]), ("FusedResizeAndPadConv2D", [(np.array([6, 5], np.int32),)])):
    case(
        _op,
        lambda *args, op=_op, **kwargs: apply_one(op, *args, **kwargs),
        _convolved,
        samples=[
            Args(real(2, 4, 4, 2), *size, _PADS, _KERNEL, mode=mode, strides=[1, step, step, 1], padding=padding)
            for size in _more
            for mode, step, padding in (("REFLECT", 1, "SAME"), ("SYMMETRIC", 2, "VALID"))
        ]
        + [
            Args(real(1, 4, 4, 2), *size, _PADS, _KERNEL, mode="REFLECT", strides=[1] * 4, padding="VALID",
                 resize_align_corners=True)
            for size in _more if size
        ],
        bad=[
            Bad(Args(real(2, 4, 4, 3), *_more[0], _PADS, _KERNEL, mode="REFLECT", strides=[1] * 4, padding="SAME")),
            Bad(Args(real(2, 4, 4, 2), *_more[0], _PADS * 9, _KERNEL, mode="REFLECT", strides=[1] * 4, padding="SAME")),
            Bad(Args(real(2, 4, 4, 2), *_more[0], -_PADS, _KERNEL, mode="REFLECT", strides=[1] * 4, padding="SAME")),
            Bad(Args(real(2, 4, 4, 2), *_more[0], _PADS, _KERNEL, mode="REFLECT", strides=[0] * 4, padding="SAME")),
        ],
    )  # fmt: skip

_BASES = {"qint8": tf.int8, "quint8": tf.uint8, "qint32": tf.int32}
_A, _B = (-3.0, 3.0), (-2.0, 3.0)


def _quantized(x: Any, range_: tuple[float, float], kind: Any = tf.quint8) -> Any:
    return tf.quantize(tf.cast(x, tf.float32), *range_, kind)


def _real(out: Any) -> Any:
    """The real numbers that a quantized value stands for."""
    kind = out[0].dtype
    lowest, steps = (0, 255) if kind == tf.quint8 else (-128, 255) if kind == tf.qint8 else (-(2**31), 2**32 - 1)
    low, high = tf.cast(out[1], tf.float64), tf.cast(out[2], tf.float64)
    return low + (tf.cast(tf.bitcast(out[0], _BASES[kind.name]), tf.float64) - lowest) * (high - low) / steps


def _two(op: str, names: str, kind: Any, **attrs: Any) -> Any:
    def call(x: Any, y: Any, low: Any = _A[0]) -> Any:
        a, b = _quantized(x, (-3.0, 3.0)), _quantized(y, _B)
        return _real(apply(op, a[0], b[0], low, a[2], b[1], b[2], **{names: kind}, **attrs))

    return call


_BAD_RANGE = [Bad(Args(real(2, 3), real(3, 2), 9.0), match="[9"), Bad(Args(real(2, 3), real(3, 2), float("nan")))]
case("QuantizedMatMul", _two("QuantizedMatMul", "Toutput", tf.qint32), lambda x, y: x @ y, dtypes="float32",
     samples=[Args(real(2, 3), real(3, 2)), Args(real(0, 3), real(3, 2))], tolerance=0.1,
     bad=[*_BAD_RANGE, Bad(Args(real(2, 3), real(2, 2)), match="3")])  # fmt: skip
case("QuantizedAdd", _two("QuantizedAdd", "Toutput", tf.qint32), np.add, dtypes="float32",
     samples=[Args(real(2, 3), real(2, 3)), Args(real(2, 3), real(1, 3))], tolerance=0.1,
     bad=[Bad(Args(real(2, 3), real(2, 2)), match="[2, 3]")])  # fmt: skip
case("QuantizedMul", _two("QuantizedMul", "Toutput", tf.qint32), np.multiply, dtypes="float32",
     samples=[Args(real(2, 3), real(2, 3)), Args(real(2, 3), real(1, 3))], tolerance=0.1,
     bad=[Bad(Args(real(2, 3), real(2, 2)), match="[2, 3]")])  # fmt: skip
case("QuantizedBiasAdd", _two("QuantizedBiasAdd", "out_type", tf.qint32), np.add, dtypes="float32",
     samples=[Args(real(2, 3), real(3)), Args(real(2, 2, 3), real(3))], tolerance=0.1,
     bad=[Bad(Args(real(2, 3), real(2)), match="[2]"), Bad(Args(real(3), real(3)), match="[3]")])  # fmt: skip


def _one(op: str, kind: Any = tf.quint8, **attrs: Any) -> Any:
    def call(x: Any, high: Any = 3.0, **more: Any) -> Any:
        a = _quantized(x, (-3.0, 3.0), kind)
        return _real(apply(op, a[0], a[1], high, **attrs, **more))

    return call


_BAD_END = Bad(Args(real(2, 2), -9.0), match="-9")
case("QuantizedRelu", _one("QuantizedRelu"), lambda x: np.maximum(x, 0), dtypes="float32", samples=[Args(real(2, 3))],
     tolerance=0.02, bad=[_BAD_END])  # fmt: skip
case("QuantizedRelu6", _one("QuantizedRelu6"), lambda x: np.clip(x, 0, 6), dtypes="float32", tolerance=0.02,
     samples=[Args(real(2, 3)), Args(real(0))], bad=[_BAD_END])  # fmt: skip
_POOL: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}


def _pooled(function: Any) -> Any:
    def reference(x: Any, **_: Any) -> Any:
        return function(x.reshape(x.shape[0], x.shape[1] // 2, 2, x.shape[2] // 2, 2, x.shape[3]), (2, 4))

    return reference


for _op, _function in (("QuantizedMaxPool", np.max), ("QuantizedAvgPool", np.mean)):
    case(
        _op, _one(_op), _pooled(_function), dtypes="float32", tolerance=0.04,  # Means are cut off to steps of 6 / 255.
        samples=[Args(real(2, 4, 2, 3), **_POOL), Args(real(1, 2, 4, 2), **{**_POOL, "padding": "SAME"})],
        bad=[
            Bad(Args(real(2, 4, 2), **_POOL)),
            Bad(Args(real(1, 1, 1, 1), **_POOL)),
            Bad(Args(real(2, 4, 2, 3), **{**_POOL, "strides": [1, 0, 1, 1]})),
        ],
    )  # fmt: skip


def _reshape(x: Any, shape: Any) -> Any:
    a = _quantized(x, _A)
    return _real(apply("QuantizedReshape", a[0], shape, a[1], a[2]))


case("QuantizedReshape", _reshape, np.reshape, dtypes="float32", tolerance=0.02,
     samples=[Args(real(2, 3), np.array([3, -1])), Args(real(2, 3), np.array([6]))],
     bad=[Bad(Args(real(2, 3), np.array([4, 2]))), Bad(Args(real(2, 3), np.array([-1, -1])))])  # fmt: skip


def _joined(axis: Any, x: Any, y: Any, kind: str) -> Any:
    a, b = _quantized(x, _A, getattr(tf, kind)), _quantized(y, _B, getattr(tf, kind))
    return _real(apply("QuantizedConcat", axis, [a[0], b[0]], [a[1], b[1]], [a[2], b[2]]))


case("QuantizedConcat", _joined, lambda axis, x, y, kind: np.concatenate([x, y], axis), dtypes="float32",
     tolerance=0.02, samples=[Args(1, real(2, 3), real(2, 2), kind) for kind in ("quint8", "qint8")],
     bad=[Bad(Args(2, real(2, 3), real(2, 3), "quint8")), Bad(Args(1, real(2, 3), real(3, 3), "quint8"))])  # fmt: skip


def _narrowed(op: str) -> Any:
    def call(x: Any, *ends: Any) -> Any:
        a = _quantized(x, _A)
        b = _quantized(tf.ones_like(x), _B)
        wide = apply("QuantizedMul", a[0], b[0], a[1], a[2], b[1], b[2], Toutput=tf.qint32)
        if op == "RequantizationRange":
            return list(apply(op, *wide))
        return _real(apply(op, *wide, *ends, out_type=tf.quint8))

    return call


case("QuantizeDownAndShrinkRange", _narrowed("QuantizeDownAndShrinkRange"), lambda x: x, dtypes="float32",
     tolerance=0.05, samples=[Args(real(2, 3)), Args(real(4))])  # fmt: skip
case("Requantize", _narrowed("Requantize"), lambda x, low, high: x, dtypes="float32", tolerance=0.05,
     samples=[Args(real(2, 3), -4.0, 3.0)],
     bad=[Bad(Args(real(2), 1.0, 3.0), match="1"), Bad(Args(real(2), -1.0, -3.0), match="-3")])  # fmt: skip
case("RequantizationRange", _narrowed("RequantizationRange"), lambda x: [min(x.min(), 0), x.max()], dtypes="float32",
     samples=[Args(real(2, 3)), Args(real(4))], tolerance=0.05)  # fmt: skip


def _vec(x: Any, src_format: str, dst_format: str) -> Any:
    letters = src_format if len(x) == len(src_format) else src_format.replace("N", "").replace("C", "")
    return x[[letters.index(each) for each in dst_format if each in letters]]


case(
    "DataFormatVecPermute",
    lambda x, a, b: apply_one("DataFormatVecPermute", x, src_format=a, dst_format=b), _vec, dtypes="int32",
    samples=[
        Args(np.array([1, 2, 3, 4], np.int32), "NHWC", "NCHW"), Args(np.array([7, 8]), "NCHW", "NHWC"),
        Args(np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.int32), "NCHW", "HWNC"),
    ],
    bad=[
        Bad(Args(np.array([1, 2, 3], np.int32), "NHWC", "NCHW"), match="3"),
        Bad(Args(np.array([1, 2, 3, 4], np.int32), "NHWC", "NCXW"), match="NCXW"),
    ],
)  # fmt: skip
case(
    "DataFormatDimMap",
    lambda x, a, b: apply_one("DataFormatDimMap", x, src_format=a, dst_format=b),
    lambda x, a, b: np.array([b.index(a[each]) for each in x]), dtypes="int32",
    samples=[Args(np.array([0, 1, -1, 3], np.int32), "NHWC", "NCHW"), Args(np.array([2, 1]), "NCHW", "NHWC")],
    bad=[Bad(Args(np.array([4], np.int32), "NHWC", "NCHW")), Bad(Args(np.array([0], np.int32), "NHWC", "NC"))],
)  # fmt: skip
case("FakeParam", lambda size: apply_one("FakeParam", dtype=tf.float32, shape=[size, 2]),
     lambda size: np.zeros((size, 2), np.float32), dtypes="float32", samples=[Args(3)])  # fmt: skip
case("DebugGradientIdentity", lambda x: apply_one("DebugGradientIdentity", x), lambda x: x, samples=[Args(real(2, 3))],
     order=1)  # fmt: skip
