"""Layer normalization as one op: every row is normalized by its own mean and variance."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.arithmetic import multiply, subtract
from thalweg.ops.math.element_types import FLOATS
from thalweg.ops.math.operators import unary
from thalweg.ops.plain_gradients import gradient_of_plain_form


def _row_and_column_shapes(
    c: ShapeContext, index: int, vectors: tuple[int, ...]
) -> tuple[TensorShape, TensorShape, TensorShape]:
    """The shapes of the input, of one value per row, and of one value per column."""
    dims = shapes.with_rank_at_least(c.input(index), 1).dims_tuple
    size = dims[-1] if dims is not None else None
    for i in vectors:
        vector = shapes.with_rank(c.input(i), 1).dims_tuple
        size = shapes.merge_dims(size, vector[0] if vector is not None else None)
    column = TensorShape._of((size,))
    if dims is None:
        return shapes.UNKNOWN, shapes.UNKNOWN, column
    return TensorShape._of((*dims[:-1], size)), TensorShape._of(dims[:-1]), column


def _shape(c: ShapeContext) -> list[TensorShape]:
    whole, rows, _ = _row_and_column_shapes(c, 0, (1, 2))
    return [whole, rows, rows]


def _grad_shape(c: ShapeContext) -> list[TensorShape]:
    whole, _, column = _row_and_column_shapes(c, 1, (2,))
    return [shapes.merge(whole, c.input(0)), column, column]


# The statistics of rows of 16-bit elements are kept in 32 bits.
define(
    "_LayerNorm", "x: T, scale: T, offset: T -> y: T, mean: U, inverse: U",
    f"epsilon: float = 0.00001, T: {FLOATS}, U: {{float, double}}", shape=_shape,
)  # fmt: skip
define(
    "_LayerNormGrad", "grad: T, x: T, scale: T, mean: U, inverse: U -> x_grad: T, scale_grad: T, offset_grad: T",
    f"T: {FLOATS}, U: {{float, double}}", shape=_grad_shape,
)  # fmt: skip


@export("nn.layer_norm")
def layer_norm(
    x: Any, scale: Any = None, offset: Any = None, axis: Any = -1, epsilon: float = 1e-5, name: str | None = None
) -> Tensor:
    """Normalizes along `axis` by mean and variance, then scales and shifts.

    Args:
        x: A Tensor of a floating-point type.
        scale: Factors, of the shape of `x` along `axis`; ones if None.
        offset: Added at the end, of the same shape as `scale`; zeros if None.
        axis: The dimension to normalize along, or several: the last ones.
        epsilon: Is added to the variance.
        name: A name scope.

    Returns:
        A Tensor like `x`.

    Raises:
        ValueError: If `axis` does not name the last dimensions of `x`.

    Example:
        >>> tf.nn.layer_norm(tf.ones([2, 3]), tf.ones([3]), tf.zeros([3])).shape.as_list()
        [2, 3]
    """
    with name_scope(name, "layer_norm", [x, scale, offset]):
        x = convert_to_tensor(x, name="x")
        count = _last_dimensions(x, axis)
        rows = x if count == 1 else _merged(x, count)
        size = apply_one("StridedSlice", apply_one("Shape", rows), [-1], [0], [1], end_mask=1)
        columns = [
            apply_one("Fill", size, convert_to_tensor(default, dtype=x.dtype)) if v is None else _as_vector(v, x, count)
            for v, default in ((scale, 1), (offset, 0))
        ]
        statistics = "float64" if x.dtype.base_dtype.name == "float64" else "float32"
        result: Tensor = apply("_LayerNorm", rows, *columns, epsilon=epsilon, U=statistics).y
        return result if count == 1 else apply_one("Reshape", result, apply_one("Shape", x))


def _last_dimensions(x: Tensor, axis: Any) -> int:
    axes = [int(a) for a in axis] if hasattr(axis, "__iter__") else [int(axis)]
    rank = x.shape.ndims
    if rank is None and any(a >= 0 for a in axes):
        raise ValueError(f"axis {axis} of a tensor of unknown rank must be counted from the end.")
    if rank is not None:
        if not all(-rank <= a < rank for a in axes):
            raise ValueError(f"axis {axis} is out of range for a tensor of rank {rank}.")
        axes = [a if a < 0 else a - rank for a in axes]
    if not axes or sorted(axes) != list(range(-len(axes), 0)):
        raise ValueError(f"axis must name the last dimensions of x, got {axis} for shape {x.shape}.")
    return len(axes)


def _merged(x: Tensor, count: int) -> Tensor:
    """The last dimensions as one."""
    outer = apply_one("StridedSlice", apply_one("Shape", x), [0], [-count], [1], begin_mask=1)
    return apply_one("Reshape", x, apply_one("ConcatV2", [outer, [-1]], 0))


def _as_vector(value: Any, x: Tensor, count: int) -> Tensor:
    tensor: Tensor = convert_to_tensor(value, dtype=x.dtype.base_dtype)
    return tensor if count == 1 else apply_one("Reshape", tensor, [-1])


@gradient("_LayerNorm")
def _layer_norm_grad(op: Operation, grad: Tensor, *rest: Any) -> Any:
    x, scale, _offset = op.inputs
    mean, inverse = op.outputs[1:]
    return list(apply("_LayerNormGrad", grad, x, scale, mean, inverse))


@gradient_of_plain_form("_LayerNormGrad", inputs=3)
def _grad_plain_form(op: Operation) -> list[Tensor]:
    """The gradients of x, scale and offset; mean and inverse count as functions of x."""
    grad, x, scale, mean, inverse = op.inputs
    given = x.dtype.base_dtype
    grad, x, scale = (apply_one("Cast", t, DstT=mean.dtype) for t in (grad, x, scale))

    def average(t: Tensor) -> Tensor:
        return apply_one("Mean", t, [-1], keep_dims=True)

    centred = subtract(x, average(x))
    # Epsilon is a constant: 1 / inverse^2 minus the variance.
    now = average(unary("Square", centred))
    spread = unary(
        "StopGradient", subtract(unary("Reciprocal", unary("Square", apply_one("ExpandDims", inverse, -1))), now)
    )
    factor = unary("Rsqrt", apply_one("AddV2", now, spread))
    normal = multiply(centred, factor)
    scaled = multiply(grad, scale)
    inner = subtract(subtract(scaled, average(scaled)), multiply(normal, average(multiply(scaled, normal))))
    rank = apply_one("Rank", x)
    outer = apply_one("Range", 0, subtract(rank, 1), 1)
    results = [multiply(inner, factor), apply_one("Sum", multiply(grad, normal), outer), apply_one("Sum", grad, outer)]
    return [apply_one("Cast", t, DstT=given) for t in results]
