"""nn.dropout: sets a random part of the elements to zero and scales the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import get_default_graph, name_scope
from thalweg.graph.definitions.dispatch import elementwise
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.array.shapes_of_tensors import shape as shape_of
from thalweg.ops.random.generators import random_uniform


@export("nn.dropout")
@elementwise
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Sets each element to zero with probability `rate`, and multiplies the others by `1 / (1 - rate)`.

    Args:
        x: A tensor of floats.
        keep_prob: The old argument: 1 - `rate`.
        noise_shape: The shape of the random mask; it broadcasts to that of `x`.
        seed: The seed of the op.
        name: The name of the op.
        rate: The probability, in [0, 1).

    Returns:
        A tensor like `x`.

    Raises:
        ValueError: If `rate` is missing or not in [0, 1), or `x` is not of a floating type.
    """
    if rate is not None and keep_prob is not None:
        raise ValueError("Cannot specify both 'rate' and 'keep_prob'; keep_prob is the old name of 1 - rate.")
    if keep_prob is not None:
        rate = 1 - keep_prob
    if rate is None:
        raise ValueError("You must provide a rate to dropout.")
    with name_scope(name, "dropout", [x]):
        value = _floats(x)
        if isinstance(rate, (int, float, np.number)):
            if not 0 <= rate < 1:
                raise ValueError(f"rate must be a scalar tensor or a float in the range [0, 1), got {rate}")
            if rate == 0:
                return value
            rate = float(rate)
            scale: Any = 1.0 / (1.0 - rate)
            get_default_graph()._shift_seeds(1)  # the rate
        else:
            rate = convert_to_tensor(rate, preferred_dtype=value.dtype, name="rate")
            if rate.dtype.base_dtype != value.dtype.base_dtype:
                raise ValueError(
                    f"rate must be a scalar of the type of x, {value.dtype.name}; got one of type {rate.dtype.name}"
                )
            if rate.shape.ndims not in (None, 0):
                raise ValueError(f"rate must be a scalar, got shape {rate.shape}")
            if constant_value(rate) == 0:
                return value
            scale = None
        noise = random_uniform(_noise_shape(value, noise_shape), seed=seed, dtype=value.dtype)
        if scale is None:
            scale = apply_one("RealDiv", 1.0, apply_one("Sub", 1.0, rate, name="sub"), name="truediv")
        else:
            get_default_graph()._shift_seeds(2)  # the scale
        kept = apply_one("Cast", apply_one("GreaterEqual", noise, rate), DstT=value.dtype)
        result = apply_one("Mul", apply_one("Mul", value, scale, name="mul"), kept, name="mul_1")
        result.set_shape(value.shape)
        return result


def _floats(x: Any) -> Tensor:
    tensor = convert_to_tensor(x, name="x")
    if not tensor.dtype.is_floating:
        raise ValueError(
            f"x has to be a floating point tensor since it's going to be scaled. Got a {tensor.dtype.name} tensor."
        )
    return tensor


def _noise_shape(x: Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return shape_of(x)
    if isinstance(noise_shape, Tensor):
        return noise_shape
    wanted = TensorShape(noise_shape)
    if wanted.ndims is None or x.shape.ndims != wanted.ndims:
        return noise_shape
    # A missing size means that of x.
    sizes = [own if size is None else size for size, own in zip(wanted.as_list(), x.shape.as_list(), strict=True)]
    if None not in sizes:
        return sizes
    dynamic = apply_list("Unpack", shape_of(x), num=len(sizes), axis=0)
    return apply_one("Pack", [dynamic[i] if size is None else size for i, size in enumerate(sizes)], axis=0)
