"""BatchNormWithGlobalNormalization: the batch normalization of graphs of TensorFlow's first year."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import Array, require

_ATTRS = "T: {float, double}, variance_epsilon: float, scale_after_normalization: bool"


def _images(c: ShapeContext, vectors: range) -> tuple[TensorShape, TensorShape]:
    """The shape of the images, with the number of channels that the vectors say, and that of a vector."""
    dims = shapes.with_rank(c.input(0), 4).dims_tuple
    assert dims is not None
    vector = shapes.merge_shapes([TensorShape._of((dims[3],)), *(shapes.with_rank(c.input(i), 1) for i in vectors)])
    return TensorShape._of((*dims[:3], vector.as_list()[0])), vector


def _shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(4), 1)
    return _images(c, range(1, 5 if c.attr("scale_after_normalization") else 4))[0]


def _grad_shape(c: ShapeContext) -> list[TensorShape]:
    images, vector = _images(c, range(1, 4))
    return [shapes.merge(images, c.input(4)), *[vector] * 4]


define("BatchNormWithGlobalNormalization", "t: T, m: T, v: T, beta: T, gamma: T -> result: T", _ATTRS, shape=_shape)
define(
    "BatchNormWithGlobalNormalizationGrad",
    "t: T, m: T, v: T, gamma: T, backprop: T -> dx: T, dm: T, dv: T, db: T, dg: T", _ATTRS, shape=_grad_shape,
)  # fmt: skip
not_differentiable("BatchNormWithGlobalNormalizationGrad")


@gradient("BatchNormWithGlobalNormalization")
def _gradient(op: Operation, grad: Tensor) -> Any:
    t, m, v, _, gamma = op.inputs
    attrs = {name: op.attrs[name] for name in ("variance_epsilon", "scale_after_normalization")}
    return tuple(apply("BatchNormWithGlobalNormalizationGrad", t, m, v, gamma, grad, **attrs))


@python_kernel("BatchNormWithGlobalNormalization")
def _normalize(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    t, m, v, beta, gamma = (np.asarray(each) for each in inputs)
    require(t.ndim == 4, f"the input must have 4 dimensions, got shape {list(t.shape)}")
    used = (m, v, beta, gamma) if attrs["scale_after_normalization"] else (m, v, beta)
    require(all(each.shape == t.shape[3:] for each in used), f"vectors must have {t.shape[3]} elements")
    with np.errstate(all="ignore"):
        factor = 1 / np.sqrt(v + t.dtype.type(attrs["variance_epsilon"]))
        factor = factor * gamma if attrs["scale_after_normalization"] else factor
        result = t * factor
        result += beta - m * factor
    return result


@python_kernel("BatchNormWithGlobalNormalizationGrad")
def _grad(inputs: list[Array], attrs: dict[str, Any]) -> list[Any]:
    t, m, v, gamma, backprop = (np.asarray(each) for each in inputs)
    require(t.ndim == 4, f"the input must have 4 dimensions, got shape {list(t.shape)}")
    require(t.shape == backprop.shape, f"shapes {list(t.shape)} and {list(backprop.shape)} differ")
    require(all(each.shape == t.shape[3:] for each in (m, v, gamma)), f"vectors must have {t.shape[3]} elements")
    scale = gamma if attrs["scale_after_normalization"] else np.ones_like(gamma)
    inverse = 1 / np.sqrt(v + t.dtype.type(attrs["variance_epsilon"]))
    db = backprop.sum((0, 1, 2))
    centred = (backprop * (t - m)).sum((0, 1, 2))
    dg = centred * inverse if attrs["scale_after_normalization"] else np.zeros_like(gamma)
    dx = backprop * (scale * inverse)
    parts = [dx, -db * scale * inverse, centred * scale * -0.5 * inverse**3, db, dg]
    return [np.asarray(part, t.dtype) for part in parts]
