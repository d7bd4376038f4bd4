"""Shape functions of the convolutions, and of other ops that slide a window over images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape


class WindowAttributes:
    """The attributes of an op that slides a window over `spatial` dimensions, checked.

    Attributes:
        channels: Which dimension holds the channels.
        space: Which dimensions the window slides over.
        strides: Its steps along them.
        dilations: The distances of its elements along them.
    """

    def __init__(self, c: ShapeContext, spatial: int, dilations: str | None = "dilations") -> None:
        """Reads them from the op; `dilations` names the attribute with the dilations, None if there is none."""
        attrs = {name: c.attr(name) for name in ("data_format", "explicit_paddings") if _has_attr(c, name)}
        channels_first = attrs.get("data_format", b"").startswith(b"NC")
        self.channels = 1 if channels_first else spatial + 1
        self.space = range(2, spatial + 2) if channels_first else range(1, spatial + 1)
        self.strides = self._steps(c, "strides")
        self.dilations = [1] * spatial if dilations is None else self._steps(c, dilations)
        self.padding = c.attr("padding").decode()
        paddings = attrs.get("explicit_paddings", [])
        if bool(paddings) != (self.padding == "EXPLICIT"):
            raise ValueError(
                f"explicit_paddings must be given exactly when padding is EXPLICIT, got {paddings} with {self.padding}"
            )
        self.pads = [0] * spatial
        if paddings:
            if len(paddings) != 2 * (spatial + 2):
                raise ValueError(f"explicit_paddings must hold {2 * (spatial + 2)} values, got {paddings}")
            if min(paddings) < 0:
                raise ValueError(f"All elements of explicit_paddings must be nonnegative, got {paddings}")
            if any(paddings[2 * d] or paddings[2 * d + 1] for d in (0, self.channels)):
                raise ValueError(
                    f"Nonzero explicit padding in the batch or depth dimensions is not supported, got {paddings}"
                )
            self.pads = [paddings[2 * d] + paddings[2 * d + 1] for d in self.space]

    def _steps(self, c: ShapeContext, name: str) -> list[int]:
        values = c.attr(name)
        if len(values) != len(self.space) + 2:
            raise ValueError(f"{name} must have {len(self.space) + 2} elements, got {values}")
        if min(values) < 1:
            raise ValueError(f"{name} must be positive, got {values}")
        if values[0] != 1 or values[self.channels] != 1:
            raise ValueError(f"{name} in the batch and depth dimensions are not supported, got {values}")
        return [values[d] for d in self.space]

    def out_size(self, i: int, size: int | None, window: int | None) -> int | None:
        """The size of the output along the i-th spatial dimension."""
        stride = self.strides[i]
        if self.padding == "SAME":
            return None if size is None else -(-size // stride)
        if size is None or window is None:
            return None
        extent = (window - 1) * self.dilations[i] + 1
        room = size + self.pads[i] - extent + stride
        if room < 0:
            raise ValueError(
                f"Computed output size would be negative: {room // stride} [input_size: {size}, effective_filter_size: "
                f"{extent}, padding: {self.pads[i]}, stride: {stride}]"
            )
        return room // stride

    def image(self, batch: int | None, space: list[int | None], channels: int | None) -> TensorShape:
        """The shape of images in the op's layout."""
        dims: list[int | None] = [batch] + [None] * (len(space) + 1)
        dims[self.channels] = channels
        for d, size in zip(self.space, space, strict=True):
            dims[d] = size
        return TensorShape._of(tuple(dims))


def _has_attr(c: ShapeContext, name: str) -> bool:
    try:
        c.attr(name)
    except KeyError:
        return False
    return True


def _dims_of_rank(shape: TensorShape, rank: int) -> tuple[int | None, ...]:
    dims = shapes.with_rank(shape, rank).dims_tuple
    assert dims is not None
    return dims


def convolution(spatial: int, depthwise: bool = False) -> Callable[[ShapeContext], TensorShape]:
    """The shape of a convolution of input 0 with the filter in input 1."""

    def shape(c: ShapeContext) -> TensorShape:
        window = WindowAttributes(c, spatial)
        image, kernel = _dims_of_rank(c.input(0), spatial + 2), _dims_of_rank(c.input(1), spatial + 2)
        depth, inputs, outputs = image[window.channels], kernel[spatial], kernel[spatial + 1]
        for size in (inputs, *kernel[:spatial]):
            if size == 0:
                raise ValueError(f"filter must not have zero elements, got {list(kernel)}")
        if depthwise:
            depth = shapes.merge_dims(depth, inputs)
            outputs = None if depth is None or outputs is None else depth * outputs
        elif depth is not None and inputs is not None:
            if depth % inputs:
                raise ValueError(f"Depth of input ({depth}) is not a multiple of input depth of filter ({inputs})")
            groups = depth // inputs
            if outputs is not None and groups and outputs % groups:
                raise ValueError(f"Depth of output ({outputs}) is not a multiple of the number of groups ({groups})")
        space = [window.out_size(i, image[d], kernel[i]) for i, d in enumerate(window.space)]
        return window.image(image[0], space, outputs)

    return shape


def input_gradient(spatial: int, depthwise: bool = False) -> Callable[[ShapeContext], TensorShape]:
    """The shape in input 0, as far as it is known; batch and channels also follow from gradient and filter."""

    def shape(c: ShapeContext) -> TensorShape:
        window = WindowAttributes(c, spatial)
        kernel, grad = _dims_of_rank(c.input(1), spatial + 2), _dims_of_rank(c.input(2), spatial + 2)
        sizes = c.constant_as_shape(0).dims_tuple
        if sizes is not None and len(sizes) == spatial:
            return window.image(grad[0], list(sizes), kernel[spatial])
        if sizes is not None and len(sizes) != spatial + 2:
            raise ValueError(f"input_sizes must contain {spatial + 2} or {spatial} values, got {len(sizes)}")
        result = window.image(grad[0], [None] * spatial, kernel[spatial] if depthwise else None)
        return result if sizes is None else shapes.merge(TensorShape._of(sizes), result)

    return shape


def filter_gradient(spatial: int) -> Callable[[ShapeContext], TensorShape]:
    """The shape in input 1, as far as it is known."""

    def shape(c: ShapeContext) -> TensorShape:
        WindowAttributes(c, spatial)
        for i in (0, 2):
            shapes.with_rank(c.input(i), spatial + 2)
        return shapes.with_rank(c.constant_as_shape(1), spatial + 2)

    return shape


def gradient_like(index: int, spatial: int) -> Callable[[ShapeContext], TensorShape]:
    """The shape of an input, which is an image or a filter."""

    def shape(c: ShapeContext) -> TensorShape:
        WindowAttributes(c, spatial)
        ranked: list[Any] = [shapes.with_rank(s, spatial + 2) for s in c.inputs()]
        result: TensorShape = ranked[index]
        return result

    return shape
