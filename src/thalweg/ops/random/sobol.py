"""SobolSample: points of a Sobol sequence, which fill a cube evenly."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, not_differentiable, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, float32
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.sparse.kernel_arrays import require

_MOST_DIMENSIONS, _MOST_POINTS = 1111, 2**31 - 1  # of TensorFlow's table of directions, and of its counter


def _sobol_shape(c: ShapeContext) -> TensorShape:
    sizes = []
    for index in (1, 0):
        shapes.with_rank(c.input(index), 0)
        known = c.constant(index)
        sizes.append(None if known is None else int(known))
    shapes.with_rank(c.input(2), 0)
    return TensorShape([None if size is None or size < 0 else size for size in sizes])


define(
    "SobolSample",
    "dim: int32, num_results: int32, skip: int32 -> samples: dtype",
    "dtype: {float32, float64} = float32",
    shape=_sobol_shape,
)
not_differentiable("SobolSample")


@python_kernel("SobolSample")
def _sobol(inputs: list[Any], attrs: dict[str, Any]) -> Any:
    for name, value in zip(("dim", "num_results", "skip"), inputs, strict=True):
        require(np.ndim(value) == 0, f"{name} must be a scalar, got shape {list(np.shape(value))}")
    dim, count, skip = (int(value) for value in inputs)
    require(1 <= dim <= _MOST_DIMENSIONS, f"dim must be from 1 to {_MOST_DIMENSIONS}, got {dim}")
    require(count >= 1, f"num_results must be at least 1, got {count}")
    require(skip >= 0 and skip + count < _MOST_POINTS, f"skip must be from 0, and not too large; got {skip}")
    from scipy.stats import qmc  # Start-up time: SciPy is slow to import.

    sequence = qmc.Sobol(dim, scramble=False, bits=32)
    sequence.fast_forward(skip + 1)  # TensorFlow leaves the origin out.
    with np.errstate(all="ignore"):
        points = sequence.random(count) if count & (count - 1) == 0 else _any_number(sequence, count)
    return points.astype(as_dtype(attrs["dtype"]).as_numpy_dtype)


def _any_number(sequence: Any, count: int) -> Any:
    """Draws numbers of points that are powers of two, which SciPy asks for, until there are enough."""
    parts = []
    for bit in range(count.bit_length()):
        if count >> bit & 1:
            parts.append(sequence.random(1 << bit))
    return np.concatenate(parts)


@export("math.sobol_sample")
def sobol_sample(dim: Any, num_results: Any, skip: Any = 0, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Points of a Sobol sequence: `[num_results, dim]`, from 0 to 1.

    Args:
        dim: The number of dimensions.
        num_results: The number of points.
        skip: How many points to leave out at the beginning.
        dtype: float32 or float64.
        name: A name for the operation.

    Example:
        >>> with tf.Session() as sess:
        ...     print(sess.run(tf.math.sobol_sample(2, 3)))
        [[0.5  0.5 ]
         [0.75 0.25]
         [0.25 0.75]]
    """
    with name_scope(name, "sobol", [dim, num_results, skip]):
        return apply_one("SobolSample", dim, num_results, skip, dtype=as_dtype(dtype))
