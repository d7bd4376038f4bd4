"""Random draws beyond the uniform and the normal: gamma, Poisson, class numbers, shuffles and crops."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one, apply_op
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import control_dependencies, get_seed, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.op_effects import Effect
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.random.generators import random_uniform, shape_from_input, shape_tensor

_SEEDS = "seed: int = 0, seed2: int = 0"
_REALS = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"


def _samples_shape(c: ShapeContext) -> TensorShape:
    """The shape in input 0, followed by that of the parameters."""
    return shape_from_input(c).concatenate(c.input(1))


def _classes_shape(c: ShapeContext) -> TensorShape:
    rows = shapes.with_rank(c.input(0), 2).dims_tuple
    shapes.with_rank(c.input(1), 0)
    count = c.constant(1)
    assert rows is not None
    if count is not None and int(count) < 0:
        raise ValueError(f"num_samples must not be negative, got {int(count)}")
    return TensorShape._of((rows[0], None if count is None else int(count)))


define(
    "RandomGamma",
    "shape: S, alpha: T -> output: T",
    f"{_SEEDS}, S: {{int32, int64}}, T: {{half, float, double}}",
    shape=_samples_shape,
    effect=Effect.RANDOM,
)
define(
    "RandomPoisson",
    "shape: S, rate: dtype -> output: dtype",
    f"{_SEEDS}, S: {{int32, int64}}, dtype: {{half, float, double}}",
    shape=_samples_shape,
    effect=Effect.RANDOM,
)
define(
    "RandomPoissonV2",
    "shape: S, rate: R -> output: dtype",
    f"{_SEEDS}, S: {{int32, int64}}, R: {{half, float, double, int32, int64}} = double, "
    "dtype: {half, float, double, int32, int64} = int64",
    shape=_samples_shape,
    effect=Effect.RANDOM,
)
define(
    "Multinomial",
    "logits: T, num_samples: int32 -> output: output_dtype",
    f"{_SEEDS}, T: {_REALS}, output_dtype: {{int32, int64}} = int64",
    shape=_classes_shape,
    effect=Effect.RANDOM,
)
define(
    "StatelessMultinomial",
    "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype",
    f"T: {_REALS}, Tseed: {{int32, int64}} = int64, output_dtype: {{int32, int64}} = int64",
    shape=_classes_shape,
)
define("RandomShuffle", "value: T -> output: T", f"{_SEEDS}, T: type", shape=shapes.unchanged, effect=Effect.RANDOM)
not_differentiable("RandomPoisson", "RandomPoissonV2")
not_differentiable("Multinomial", "StatelessMultinomial", "RandomShuffle")


@export("random_gamma", "random.gamma")
def random_gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Draws from gamma distributions.

    Args:
        shape: How many samples of each distribution: the first dimensions of the result.
        alpha: The shape parameters.
        beta: The inverse scale parameters; 1 if None.
        dtype: The type of the result.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The scope's name.

    Returns:
        A Tensor of shape `shape` + the common shape of alpha and beta.
    """
    dtype = as_dtype(dtype)
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        size = shape_tensor(shape)
        alpha = convert(alpha, dtype, "alpha")
        beta = convert(1.0 if beta is None else beta, dtype, "beta")
        if beta.shape.rank != 0 and not (alpha.shape.is_fully_defined() and alpha.shape == beta.shape):
            alpha = apply_one("AddV2", alpha, apply_one("ZerosLike", beta))
        seed1, seed2 = get_seed(seed)
        unit = apply_one("RandomGamma", size, alpha, seed=seed1, seed2=seed2)
        # The division can underflow: a gamma variate is never zero.
        tiny = np.finfo(dtype.as_numpy_dtype).tiny
        return apply_one("Maximum", tiny, apply_one("RealDiv", unit, beta, name="truediv"))


@gradient("RandomGamma")
def _random_gamma_grad(op: Operation, grad: Tensor) -> Any:
    """How a sample moves with alpha at fixed randomness; samples of one distribution share its alpha."""
    alpha, sample = op.inputs[1], op.outputs[0]
    narrow = sample.dtype.base_dtype is dtypes.float16
    if narrow:
        grad, alpha, sample = (apply_one("Cast", x, DstT=dtypes.float32) for x in (grad, alpha, sample))
    slope = apply_one("Mul", grad, apply_one("RandomGammaGrad", alpha, sample))
    total = apply_one("Sum", slope, apply_one("Range", 0, apply_one("Size", op.inputs[0]), 1))
    total.set_shape(alpha.shape)
    return None, apply_one("Cast", total, DstT=dtypes.float16) if narrow else total


@export("random_poisson", "random.poisson")
def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draws from Poisson distributions with rates `lam`; the result has shape `shape` + `lam`'s."""
    with name_scope(name, "random_poisson", [lam, shape]):
        size = shape_tensor(shape)
        seed1, seed2 = get_seed(seed)
        # A rate given as plain numbers takes the type of the result, if that can hold a fraction.
        if not isinstance(lam, (Tensor, np.ndarray, np.generic)):
            lam = convert(lam, dtypes.float64 if as_dtype(dtype).is_integer else as_dtype(dtype), "lam")
        return apply_one("RandomPoissonV2", size, lam, dtype=dtype, seed=seed1, seed2=seed2)


@export("multinomial", "random.multinomial")
def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """Draws `num_samples` class numbers for each row of unnormalized log probabilities.

    Args:
        logits: A matrix with one row per distribution.
        num_samples: How many to draw from each.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The scope's name.
        output_dtype: int64 (if None) or int32.

    Returns:
        A Tensor of shape [rows, num_samples].
    """
    with name_scope(name, "multinomial", [logits]):
        return _classes(logits, num_samples, output_dtype, seed)


@export("random.categorical")
def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Draws class numbers; the newer spelling of `tf.multinomial`."""
    with name_scope(name, "categorical", [logits]):
        return _classes(logits, num_samples, dtype, seed)


def _classes(logits: Any, num_samples: Any, dtype: Any, seed: int | None) -> Tensor:
    logits = convert(logits, None, "logits")
    seed1, seed2 = get_seed(seed)
    return apply_one("Multinomial", logits, num_samples, seed=seed1, seed2=seed2, output_dtype=dtype)


@export("random.stateless_multinomial")
def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Draws class numbers that depend on nothing but the arguments; `seed` is a pair of integers."""
    with name_scope(name, "stateless_multinomial", [logits, seed]):
        logits = convert(logits, None, "logits")
        return apply_one("StatelessMultinomial", logits, num_samples, seed, output_dtype=output_dtype)


@export("random.stateless_categorical")
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Draws class numbers that depend on nothing but the arguments; `seed` is a pair of integers."""
    with name_scope(name, "stateless_categorical", [logits, seed]):
        logits = convert(logits, None, "logits")
        return apply_one("StatelessMultinomial", logits, num_samples, seed, output_dtype=dtype)


@export("random_shuffle", "random.shuffle")
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Returns `value` with its rows along dimension 0 in random order."""
    seed1, seed2 = get_seed(seed)
    return apply_one("RandomShuffle", value, seed=seed1, seed2=seed2, name=name)


@export("random_crop", "image.random_crop")
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Cuts a piece of shape `size` out of `value`, at a random place.

    Args:
        value: A tensor.
        size: One size per dimension, none larger than the value's.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The scope's name.

    Returns:
        A Tensor of shape `size`.
    """
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert(value, None, "value")
        size = convert(size, dtypes.int32, "size")
        shape = apply_one("Shape", value)
        fits = apply_one("All", apply_one("GreaterEqual", shape, size), [0])
        check = apply_op("Assert", fits, ["Need value.shape >= size, got ", shape, size], summarize=1000)
        with control_dependencies([check]):
            shape = apply_one("Identity", shape, name="control_dependency")
        limit = apply_one("AddV2", apply_one("Sub", shape, size, name="sub"), 1, name="add")
        place = random_uniform(apply_one("Shape", shape), maxval=dtypes.int32.max, dtype=dtypes.int32, seed=seed)
        return apply_one("Slice", value, apply_one("FloorMod", place, limit, name="mod"), size, name=scope)
