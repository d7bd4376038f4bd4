"""Random numbers: uniform, normal, truncated normal, with state per session (`tf.random_*`) or without (`stateless_*`).

The streams are TensorFlow's: the same seeds give the same numbers. See core/random/philox.h.
"""

from __future__ import annotations

from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert
from thalweg.graph.default_graph import get_default_graph, get_seed, name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions import work as works
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, work
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.op_effects import Effect
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_FLOATS = "{half, bfloat16, float, double}"
_SEEDS = "seed: int = 0, seed2: int = 0"


def shape_from_input(c: ShapeContext) -> TensorShape:
    """The output has the shape that input 0 holds."""
    shapes.with_rank(c.input(0), 1)
    return c.constant_as_shape(0)


def _stateless_shape(c: ShapeContext) -> TensorShape:
    shapes.merge(c.input(1), TensorShape._of((2,)))
    return shape_from_input(c)


def _integers_shape(c: ShapeContext) -> TensorShape:
    for bound in range(c.num_inputs - 2, c.num_inputs):
        shapes.with_rank(c.input(bound), 0)
    return shape_from_input(c) if c.num_inputs == 3 else _stateless_shape(c)


for _op in ("RandomUniform", "RandomStandardNormal", "TruncatedNormal"):
    define(
        _op, "shape: T -> output: dtype", f"{_SEEDS}, dtype: {_FLOATS}, T: {{int32, int64}}",
        shape=shape_from_input, effect=Effect.RANDOM,
    )  # fmt: skip
define(
    "RandomUniformInt",
    "shape: T, minval: Tout, maxval: Tout -> output: Tout",
    f"{_SEEDS}, Tout: {{int32, int64}}, T: {{int32, int64}}",
    shape=_integers_shape,
    effect=Effect.RANDOM,
)
for _op in ("StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal"):
    define(
        _op,
        "shape: T, seed: Tseed -> output: dtype",
        f"dtype: {_FLOATS} = float, T: {{int32, int64}} = int32, Tseed: {{int32, int64}} = int64",
        shape=_stateless_shape,
    )
define(
    "StatelessRandomUniformInt",
    "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype",
    "dtype: {int32, int64}, T: {int32, int64}, Tseed: {int32, int64} = int64",
    shape=_integers_shape,
)
work(works.passes(20), "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt")
not_differentiable(
    "RandomUniform", "RandomStandardNormal", "TruncatedNormal", "RandomUniformInt", "StatelessRandomUniform",
    "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt",
)  # fmt: skip


def shape_tensor(shape: Any) -> Tensor:
    """A shape as a tensor named `shape`: of int32, unless it says otherwise."""
    return convert(shape, dtypes.int32 if isinstance(shape, (list, tuple)) and not shape else None, "shape")


def _scaled(unit: Tensor, stddev: Any, mean: Any, scope: str) -> Tensor:
    return apply_one("AddV2", apply_one("Mul", unit, stddev, name="mul"), mean, name=scope)


@export("random_normal", "random.normal")
def random_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Returns normally distributed values.

    Args:
        shape: The shape of the result.
        mean: The mean; must broadcast against `shape`.
        stddev: The standard deviation; must broadcast against `shape`.
        dtype: The type of the result.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The node's name.

    Returns:
        A Tensor, with new values in every step.
    """
    return _normal("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


@export("truncated_normal", "random.truncated_normal")
def truncated_normal(
    shape: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Returns normally distributed values within two standard deviations of the mean; see `random_normal`."""
    return _normal("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def _normal(
    op_type: str, default_name: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    dtype = as_dtype(dtype)
    with name_scope(name, default_name, [shape, mean, stddev]) as scope:
        size = shape_tensor(shape)
        mean, stddev = convert(mean, dtype, "mean"), convert(stddev, dtype, "stddev")
        seed1, seed2 = get_seed(seed)
        unit = apply_one(op_type, size, dtype=dtype, seed=seed1, seed2=seed2)
        return _scaled(unit, stddev, mean, scope)


def _default_maxval(maxval: Any, dtype: DType) -> Any:
    if dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64):
        raise ValueError(
            f"Invalid dtype {dtype!r}: uniform values are float16, bfloat16, float32, float64, int32 or int64"
        )
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
        return 1
    return maxval


def _is_unit(minval: Any, maxval: Any) -> bool:
    """Whether the range is [0, 1), so that nothing needs to be scaled."""
    return isinstance(minval, (int, float)) and isinstance(maxval, (int, float)) and (minval, maxval) == (0, 1)


@export("random_uniform", "random.uniform")
def random_uniform(
    shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Returns values that are uniformly distributed in [minval, maxval).

    Args:
        shape: The shape of the result.
        minval: The lower bound.
        maxval: The upper bound, which is not among the values. 1 if None; integers need one.
        dtype: The type of the result: a floating-point type, int32 or int64.
        seed: Seed of this op; see `tf.set_random_seed`.
        name: The node's name.

    Returns:
        A Tensor, with new values in every step.

    Raises:
        ValueError: If `dtype` is an integer type and `maxval` is None.
    """
    dtype = as_dtype(dtype)
    maxval = _default_maxval(maxval, dtype)
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        size = shape_tensor(shape)
        if not dtype.is_integer and _is_unit(minval, maxval):
            graph = get_default_graph()
            graph._shift_seeds(2)  # the bounds
            seed1, seed2 = get_seed(seed)
            graph._shift_seeds(3)  # scaling
            return apply_one("RandomUniform", size, dtype=dtype, seed=seed1, seed2=seed2, name=scope)
        minval, maxval = convert(minval, dtype, "min"), convert(maxval, dtype, "max")
        seed1, seed2 = get_seed(seed)
        if dtype.is_integer:
            return apply_one("RandomUniformInt", size, minval, maxval, seed=seed1, seed2=seed2, name=scope)
        unit = apply_one("RandomUniform", size, dtype=dtype, seed=seed1, seed2=seed2)
        return _scaled(unit, apply_one("Sub", maxval, minval, name="sub"), minval, scope)


@export("random.stateless_uniform")
def stateless_random_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Returns uniform values that depend on nothing but the arguments; `seed` is a pair of integers."""
    dtype = as_dtype(dtype)
    maxval = _default_maxval(maxval, dtype)
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        size = shape_tensor(shape)
        minval, maxval = convert(minval, dtype, "min"), convert(maxval, dtype, "max")
        if dtype.is_integer:
            return apply_one("StatelessRandomUniformInt", size, seed, minval, maxval, name=scope)
        unit = apply_one("StatelessRandomUniform", size, seed, dtype=dtype)
        return _scaled(unit, apply_one("Sub", maxval, minval, name="sub"), minval, scope)


@export("random.stateless_normal")
def stateless_random_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Returns normal values that depend on nothing but the arguments; `seed` is a pair of integers."""
    return _stateless_normal("StatelessRandomNormal", "stateless_random_normal", shape, seed, mean, stddev, dtype, name)


@export("random.stateless_truncated_normal")
def stateless_truncated_normal(
    shape: Any, seed: Any, mean: Any = 0.0, stddev: Any = 1.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Returns truncated normal values that depend on nothing but the arguments; `seed` is a pair of integers."""
    return _stateless_normal(
        "StatelessTruncatedNormal", "stateless_truncated_normal", shape, seed, mean, stddev, dtype, name
    )


def _stateless_normal(
    op_type: str, default_name: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str | None
) -> Tensor:
    dtype = as_dtype(dtype)
    with name_scope(name, default_name, [shape, seed, mean, stddev]) as scope:
        size = shape_tensor(shape)
        mean, stddev = convert(mean, dtype, "mean"), convert(stddev, dtype, "stddev")
        return _scaled(apply_one(op_type, size, seed, dtype=dtype), stddev, mean, scope)
