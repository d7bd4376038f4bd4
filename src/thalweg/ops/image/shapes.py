"""Helpers of the image functions: batches of one image, static sizes, and targets given as tensors."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import sizes_of


def as_batch(image: Any, what: str = "image", unknown_is_single: bool = False) -> tuple[Tensor, bool]:
    """Images as `[batch, height, width, channels]`, and whether one image without a batch was given.

    Args:
        image: The image, or images.
        what: The name of the argument, for errors.
        unknown_is_single: Whether a tensor of unknown rank counts as one image.

    Raises:
        ValueError: If the rank is not known, or neither 3 nor 4.
    """
    tensor = convert_to_tensor(image, name=what)
    rank = tensor.shape.ndims
    if rank is None and unknown_is_single:
        batch = apply_one("ExpandDims", tensor, 0)
        batch.set_shape([None] * 4)
        return batch, True
    if rank is None:
        raise ValueError(f"'{what}' contains no shape.")
    if rank not in (3, 4):
        raise ValueError(f"'{what}' must have either 3 or 4 dimensions, got shape {tensor.shape}.")
    return (apply_one("ExpandDims", tensor, 0), True) if rank == 3 else (tensor, False)


def unbatched(images: Tensor, was_single: bool) -> Tensor:
    """Undoes `as_batch`."""
    return apply_one("Squeeze", images, squeeze_dims=[0]) if was_single else images


def static_dims(tensor: Tensor) -> tuple[int | None, ...]:
    """The static shape of a tensor of known rank."""
    dims = tensor.shape.dims_tuple
    assert dims is not None
    return dims


def dims_of(tensor: Tensor) -> list[Any]:
    """Each size of a tensor of known rank: an int where it is known, else a scalar tensor."""
    dims = static_dims(tensor)
    if None not in dims:
        return list(dims)
    sizes: Any = convert_to_tensor(sizes_of(tensor))
    return [sizes[i] if d is None else d for i, d in enumerate(dims)]


def target_sizes(c: ShapeContext, index: int) -> tuple[int | None, int | None]:
    """The height and width that input `index` holds, as far as they are known.

    Raises:
        ValueError: If it is not a vector of two.
    """
    shapes.merge(c.input(index), TensorShape._of((2,)))
    known = c.constant(index, partial=True)
    if known is None:
        return None, None
    height, width = (None if n is None else int(n) for n in known.ravel())
    for n in (height, width):
        if n is not None and n < 0:
            raise ValueError(f"Dimension size must be non-negative, got {n}")
    return height, width
