"""Resizing of images: linear and cubic interpolation, averages over areas, nearest pixels, and `tf.image.resize`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import sizes_of
from thalweg.ops.image.shapes import as_batch, static_dims, target_sizes, unbatched
from thalweg.ops.math.casting import cast
from thalweg.ops.math.einsum import einsum

_PIXELS = "{int8, uint8, int16, uint16, int32, int64, bfloat16, half, float, double}"
_CENTERS = "align_corners: bool = false, half_pixel_centers: bool = false"


def _resize_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank(c.input(0), 4).dims_tuple
    assert dims is not None
    height, width = target_sizes(c, 1)
    return TensorShape._of((dims[0], height, width, dims[3]))


def _gradient_shape(c: ShapeContext) -> TensorShape:
    grads = shapes.with_rank(c.input(0), 4).dims_tuple
    image = shapes.with_rank(c.input(1), 4).dims_tuple
    assert grads is not None and image is not None
    return TensorShape._of(
        (shapes.merge_dims(grads[0], image[0]), image[1], image[2], shapes.merge_dims(grads[3], image[3]))
    )


for _op in ("ResizeBilinear", "ResizeBicubic"):
    define(_op, "images: T, size: int32 -> resized_images: float", f"T: {_PIXELS}, {_CENTERS}", shape=_resize_shape)
define(
    "ResizeArea",
    "images: T, size: int32 -> resized_images: float",
    f"T: {_PIXELS}, align_corners: bool = false",
    shape=_resize_shape,
)
define(
    "ResizeNearestNeighbor",
    "images: T, size: int32 -> resized_images: T",
    f"T: {_PIXELS}, {_CENTERS}",
    shape=_resize_shape,
)
define(
    "ResizeNearestNeighborGrad",
    "grads: T, size: int32 -> output: T",
    f"T: {{uint8, int8, int32, half, float, double, bfloat16}}, {_CENTERS}",
    shape=_resize_shape,
)
define(
    "ResizeBilinearGrad",
    "grads: float, original_image: T -> output: T",
    f"T: {{float, bfloat16, half, double}}, {_CENTERS}",
    shape=_gradient_shape,
)
define(
    "ResizeBicubicGrad",
    "grads: float, original_image: T -> output: T",
    f"T: {{float, double}}, {_CENTERS}",
    shape=_gradient_shape,
)


def _center_attrs(op: Operation) -> dict[str, Any]:
    return {name: op.attrs[name] for name in ("align_corners", "half_pixel_centers")}


@gradient("ResizeBilinear", "ResizeBicubic")
def _resize_grad(op: Operation, grad: Tensor) -> Any:
    images = op.inputs[0]
    if not images.dtype.is_floating:
        return None, None
    # Bicubic interpolation has no gradient kernel for 16-bit types.
    wide = images if op.type == "ResizeBilinear" or images.dtype is dtypes.float64 else cast(images, dtypes.float32)
    return cast(apply_one(f"{op.type}Grad", grad, wide, **_center_attrs(op)), images.dtype), None


@gradient("ResizeBilinearGrad", "ResizeBicubicGrad")
def _resize_grad_grad(op: Operation, grad: Tensor) -> Any:
    forward = op.type.removesuffix("Grad")
    return apply_one(forward, grad, _height_and_width(op.inputs[0]), **_center_attrs(op)), None


@gradient("ResizeNearestNeighbor")
def _nearest_grad(op: Operation, grad: Tensor) -> Any:
    if not grad.dtype.is_floating:
        return None, None
    return apply_one("ResizeNearestNeighborGrad", grad, _height_and_width(op.inputs[0]), **_center_attrs(op)), None


@gradient("ResizeNearestNeighborGrad")
def _nearest_grad_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("ResizeNearestNeighbor", grad, _height_and_width(op.inputs[0]), **_center_attrs(op)), None


@gradient("ResizeArea")
def _area_grad(op: Operation, grad: Tensor) -> Any:
    """Areas are sums along both axes: the gradient multiplies by the transposed coverage matrices."""
    images = op.inputs[0]
    if not images.dtype.is_floating:
        return None, None
    sizes: Any = convert_to_tensor(sizes_of(images))
    out: Any = convert_to_tensor(sizes_of(grad))
    down = _coverage(sizes[1], out[1], op.attrs["align_corners"])
    across = _coverage(sizes[2], out[2], op.attrs["align_corners"])
    result = einsum("bixc,xj->bijc", einsum("yi,byxc->bixc", down, grad), across)
    result.set_shape(images.shape)
    return cast(result, images.dtype), None


def _coverage(size: Any, count: Any, align_corners: bool) -> Any:
    """The matrix [count, size]: how much each output takes of each input, found by resizing the unit vectors."""
    eye = apply_one("MatrixDiag", apply_one("Fill", apply_one("ExpandDims", size, 0), 1.0))
    column = apply_one("ExpandDims", apply_one("ExpandDims", eye, 2), 3)
    resized = apply_one("ResizeArea", column, apply_one("Pack", [count, 1]), align_corners=align_corners)
    return apply_one("Transpose", apply_one("Squeeze", resized, squeeze_dims=[2, 3]), [1, 0])


def _height_and_width(images: Tensor) -> Any:
    dims = images.shape.dims_tuple
    if dims is not None and len(dims) == 4 and dims[1] is not None and dims[2] is not None:
        return convert_to_tensor([dims[1], dims[2]], dtype=dtypes.int32)
    return apply_one("StridedSlice", apply_one("Shape", images), [1], [3], [1])


@export("image.resize_bilinear")
def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes images `[batch, height, width, channels]` by linear interpolation between neighbours, to float32."""
    return _resize("ResizeBilinear", images, size, align_corners, name, half_pixel_centers)


@export("image.resize_bicubic")
def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes images `[batch, height, width, channels]` by cubic interpolation, to float32."""
    return _resize("ResizeBicubic", images, size, align_corners, name, half_pixel_centers)


@export("image.resize_nearest_neighbor")
def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Resizes images `[batch, height, width, channels]` by copying the nearest pixel; the type stays."""
    return _resize("ResizeNearestNeighbor", images, size, align_corners, name, half_pixel_centers)


@export("image.resize_area")
def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Resizes images `[batch, height, width, channels]` to averages over the area of each new pixel, as float32."""
    return apply_one("ResizeArea", images, size, align_corners=align_corners, name=name)


def _resize(op_type: str, images: Any, size: Any, align: bool, name: str | None, centers: bool) -> Tensor:
    return apply_one(op_type, images, size, align_corners=align, half_pixel_centers=centers, name=name)


@export("image.ResizeMethod")
class ResizeMethod:
    """The methods of `tf.image.resize`."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_METHODS: dict[int, Callable[..., Tensor]] = {
    ResizeMethod.BILINEAR: resize_bilinear,
    ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
    ResizeMethod.BICUBIC: resize_bicubic,
    ResizeMethod.AREA: resize_area,
}


@export("image.resize", "image.resize_images")
def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resizes images.

    Args:
        images: `[batch, height, width, channels]` or `[height, width, channels]`.
        size: The new height and width, two int32.
        method: One of `tf.image.ResizeMethod`.
        align_corners: Whether the centres of the corner pixels stay in place.
        preserve_aspect_ratio: Whether the result only has to fit into `size`, at the ratio of the input.
        name: The name scope.

    Returns:
        A float32 tensor; of the input's type for NEAREST_NEIGHBOR, or if the size is known not to change.

    Raises:
        ValueError: If the images have another rank, the size another shape, or there is no such method.

    Example:
        >>> tf.image.resize(tf.zeros([4, 6, 3]), [2, 3]).shape.as_list()
        [2, 3, 3]
    """
    with name_scope(name, "resize", [images, size]):
        batch, was_single = as_batch(images, "images")
        try:
            size = convert_to_tensor(size, dtype=dtypes.int32, name="size")
        except (TypeError, ValueError) as e:
            raise ValueError(f"'size' must be a 1-D int32 Tensor: {e}") from None
        if not size.shape.is_compatible_with([2]):
            raise ValueError(f"'size' must be a 1-D Tensor of 2 elements: new_height, new_width; got {size.shape}")
        if preserve_aspect_ratio:
            size = _size_of_same_ratio(batch, size)
        _, height, width, _ = static_dims(batch)
        wanted = constant_value(size)
        if wanted is not None and height is not None and width is not None and tuple(wanted) == (height, width):
            result = batch
        else:
            if method not in _METHODS:
                raise ValueError(f"Resize method is not implemented: {method!r}. Use a tf.image.ResizeMethod.")
            result = _METHODS[method](batch, size, align_corners=align_corners)
        return unbatched(result, was_single)


def _size_of_same_ratio(images: Tensor, size: Any) -> Any:
    """The largest size within `size` that has the ratio of the images."""
    current: Any = cast(_height_and_width(images), dtypes.float32)
    scale = apply_one("Min", apply_one("RealDiv", cast(size, dtypes.float32), current), [0])
    known, at = constant_value(size), images.shape.dims_tuple
    if known is not None and at is not None and at[1] is not None and at[2] is not None:
        import numpy as np

        ratio = min(np.float32(n) / np.float32(d) for n, d in zip(known, at[1:3], strict=True))
        return convert_to_tensor([int(np.round(ratio * np.float32(d))) for d in at[1:3] if d is not None])
    return cast(apply_one("Round", apply_one("Mul", scale, current)), dtypes.int32)
