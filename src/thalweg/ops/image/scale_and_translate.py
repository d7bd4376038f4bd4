"""ScaleAndTranslate: images resized with a filter: Lanczos, Gaussian, cubic and so on, with or without antialiasing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require

Array = np.ndarray[Any, Any]

_TYPES: Final = "{int8, uint8, int16, uint16, int32, int64, bfloat16, float16, float32, float64}"
_OPTIONS: Final = "kernel_type: string = 'lanczos3', antialias: bool = true"
_LARGEST: Final = 2**16


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        value = np.sinc(x) * np.sinc(x / radius)
        return np.where(x > radius, 0.0, value)

    return kernel


def _cubic(a: Array, b: Array, x: Array) -> Array:
    return np.where(x < 1, a, np.where(x < 2, b, 0.0))


def _keys(x: Array) -> Array:
    return _cubic((1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2, x)


def _mitchell(x: Array) -> Array:
    near = (7 / 6 * x - 2) * x * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return _cubic(near, far, x)


# The radius of each filter, and its value at a distance.
_KERNELS: Final[dict[bytes, tuple[float, Callable[[Array], Array]]]] = {
    b"lanczos1": (1.0, _lanczos(1.0)),
    b"lanczos3": (3.0, _lanczos(3.0)),
    b"lanczos5": (5.0, _lanczos(5.0)),
    b"gaussian": (1.5, lambda x: np.where(x >= 1.5, 0.0, np.exp(-2.0 * x * x))),
    b"box": (0.5, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    b"triangle": (1.0, lambda x: np.maximum(1.0 - x, 0.0)),
    b"keyscubic": (2.0, _keys),
    b"mitchellcubic": (2.0, _mitchell),
}


def _weights(size: int, out: int, scale: float, translation: float, kernel_type: bytes, antialias: bool) -> Array:
    """The matrix `[out, size]` that resizes one dimension."""
    radius, kernel = _KERNELS[kernel_type]
    inverse = 1.0 / scale
    stretch = max(inverse, 1.0) if antialias else 1.0
    sample = ((np.arange(out) + 0.5) * inverse - translation * inverse)[:, None]
    places = np.arange(size)[None, :]
    first = np.maximum(np.ceil(sample - radius * stretch - 0.5), 0)
    last = np.minimum(np.floor(sample + radius * stretch - 0.5), size - 1)
    inside = (places >= first) & (places <= last) & (sample >= 0) & (sample <= size)
    values = np.where(inside, kernel(np.abs(places + 0.5 - sample) / stretch), 0.0)
    total = values.sum(1, keepdims=True)
    usable = np.abs(total) >= 1000 * np.finfo(np.float32).tiny
    return np.where(usable, values / np.where(usable, total, 1.0), 0.0).astype(np.float32)


def _both(
    shape: tuple[int, ...], out: tuple[int, ...], scale: Array, move: Array, attrs: dict[str, Any]
) -> list[Array]:
    require(scale.shape == (2,), f"scale must have shape [2], got {list(scale.shape)}")
    require(move.shape == (2,), f"translation must have shape [2], got {list(move.shape)}")
    require((scale > 0).all(), f"scale must be greater than 0, got {scale.tolist()}")
    kind = bytes(attrs["kernel_type"])
    require(kind in _KERNELS, f"kernel_type must be one of {sorted(k.decode() for k in _KERNELS)}, got {kind!r}")
    return [
        _weights(shape[i], out[i], float(scale[i]), float(move[i]), kind, bool(attrs["antialias"])) for i in range(2)
    ]


def _resized_shape(c: ShapeContext) -> TensorShape:
    images = shapes.with_rank(c.input(0), 4).dims_tuple or (None,) * 4
    shapes.merge(shapes.with_rank(c.input(1), 1), TensorShape([2]))
    size = c.constant_as_shape(1).dims_tuple or (None, None)
    return TensorShape([images[0], *size, images[3]])


define(
    "ScaleAndTranslate",
    "images: T, size: int32, scale: float32, translation: float32 -> resized_images: float32",
    f"T: {_TYPES}, {_OPTIONS}",
    shape=_resized_shape,
)
define(
    "ScaleAndTranslateGrad",
    "grads: T, original_image: T, scale: float32, translation: float32 -> output: T",
    f"T: {{float32}}, {_OPTIONS}",
    shape=shapes.same_as(1),
)


@python_kernel("ScaleAndTranslate")
def _scale(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    images, size, scale, move = (np.asarray(x) for x in inputs)
    require(images.ndim == 4, f"images must have 4 dimensions, got shape {list(images.shape)}")
    require(size.shape == (2,), f"size must have shape [2], got {list(size.shape)}")
    out = tuple(int(s) for s in size)
    require(all(0 < s <= _LARGEST for s in out), f"output dimensions must be from 1 to {_LARGEST}, got {list(out)}")
    require(images.shape[1] > 0 and images.shape[2] > 0, "input image must be of non-zero size")
    rows, columns = _both(images.shape[1:3], out, scale, move, attrs)
    return np.einsum("yh,bhwc,xw->byxc", rows, images.astype(np.float32), columns, optimize=True)


@python_kernel("ScaleAndTranslateGrad")
def _scale_grad(inputs: list[Array], attrs: dict[str, Any]) -> Any:
    grads, images, scale, move = (np.asarray(x) for x in inputs)
    require(images.ndim == 4 and grads.ndim == 4, "grads and original_image must have 4 dimensions")
    require(
        grads.shape[0] == images.shape[0] and grads.shape[3] == images.shape[3],
        f"grads of shape {list(grads.shape)} do not fit images of shape {list(images.shape)}",
    )
    rows, columns = _both(images.shape[1:3], grads.shape[1:3], scale, move, attrs)
    return np.einsum("yh,byxc,xw->bhwc", rows, grads, columns, optimize=True)


@gradient("ScaleAndTranslate")
def _grad(op: Operation, grad: Tensor) -> Any:
    images, _, scale, move = op.inputs
    as_float = apply_one("Cast", images, DstT=grad.dtype)
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    found = apply_one("ScaleAndTranslateGrad", grad, as_float, scale, move, **options)
    return [apply_one("Cast", found, DstT=images.dtype), None, None, None]


not_differentiable("ScaleAndTranslateGrad")


@export("image.scale_and_translate")
def scale_and_translate(
    images: Any,
    size: Any,
    scale: Any,
    translation: Any,
    kernel_type: str = "lanczos3",
    antialias: bool = True,
    name: str | None = None,
) -> Tensor:
    """Resizes images with a filter.

    Args:
        images: `[batch, rows, columns, channels]`.
        size: Rows and columns of the result.
        scale: By how much rows and columns grow.
        translation: By how much the result is moved.
        kernel_type: 'lanczos1', 'lanczos3', 'lanczos5', 'gaussian', 'box', 'triangle', 'keyscubic' or 'mitchellcubic'.
        antialias: Whether the filter grows when images shrink.
        name: A name for the operation.
    """
    return apply_one(
        "ScaleAndTranslate", images, size, scale, translation, kernel_type=kernel_type, antialias=antialias, name=name
    )
