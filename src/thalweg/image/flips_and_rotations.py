"""Random flips, and turns by a number of quarters that may be a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thalweg.control_flow.case import case
from thalweg.control_flow.cond import cond
from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.ops.array.reversing import reverse
from thalweg.ops.array.select import where_v2
from thalweg.ops.array.transpose import transpose
from thalweg.ops.image.geometry import per_image
from thalweg.ops.image.shapes import as_batch, dims_of, static_dims, unbatched
from thalweg.ops.math.casting import cast
from thalweg.ops.random.generators import random_uniform


@export("image.random_flip_left_right")
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirrors each image with a probability of one half."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


@export("image.random_flip_up_down")
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Turns each image upside down with a probability of one half."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


def _random_flip(image: Any, axis: int, seed: int | None, scope: str) -> Tensor:
    def one(x: Tensor) -> Any:
        chance: Any = random_uniform([], 0, 1.0, seed=seed)
        flipped = cond(chance < 0.5, lambda: reverse(x, [axis]), lambda: x)
        flipped.set_shape(x.shape)
        return flipped

    def each(x: Tensor) -> Any:
        chances = random_uniform(apply_one("ExpandDims", dims_of(x)[0], 0), seed=seed)
        flips = apply_one("Round", apply_one("Reshape", chances, [-1, 1, 1, 1]))
        result = where_v2(cast(flips, dtypes.bool), reverse(x, [axis + 1]), x)
        result.set_shape(x.shape)
        return result

    return per_image(image, scope, one, each)


@export("image.rot90")
def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """Turns images by `k` quarters of a circle, counter-clockwise."""
    with name_scope(name, "rot90", [image, k]):
        batch, was_single = as_batch(image)
        known = constant_value(convert_to_tensor(k, dtype=dtypes.int32, name="k"))
        turns: list[Callable[[], Any]] = [
            lambda: apply_one("Identity", batch),
            lambda: transpose(reverse(batch, [2]), [0, 2, 1, 3]),
            lambda: reverse(batch, [1, 2]),
            lambda: reverse(transpose(batch, [0, 2, 1, 3]), [2]),
        ]
        if known is not None:
            return unbatched(turns[int(known) % 4](), was_single)
        quarter: Any = apply_one("FloorMod", k, 4)
        pairs = [(apply_one("Equal", quarter, i), turns[i]) for i in (1, 2, 3)]
        turned = case(pairs, default=turns[0], exclusive=True)
        dims = static_dims(batch)
        turned.set_shape([dims[0], None, None, dims[3]])
        return unbatched(turned, was_single)
