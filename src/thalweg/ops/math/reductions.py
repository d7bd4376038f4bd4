"""Reductions over axes: sums, means, products, extremes, logical ones, norms, and functions composed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.dispatch import dispatched
from thalweg.graph.definitions.op_registry import define, export, not_differentiable
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import DType, as_dtype, int64
from thalweg.graph.eager_tensor import EagerTensor
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.platform.deprecation import deprecated_argument_lookup

_REALS = "{float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"
_NUMBERS = (
    "{float, double, int32, uint8, int16, int8, complex64, int64, bfloat16, uint16, complex128, half, uint32, uint64}"
)
_AXES = "keep_dims: bool = false, Tidx: {int32, int64} = int32"

for _op in ("Sum", "Mean", "Prod", "EuclideanNorm"):
    define(
        _op,
        "input: T, reduction_indices: Tidx -> output: T",
        f"keep_dims: bool = false, T: {_NUMBERS}, Tidx: {{int32, int64}} = int32",
        shape=shapes.reduction,
    )
for _op in ("Max", "Min"):
    define(
        _op,
        "input: T, reduction_indices: Tidx -> output: T",
        f"keep_dims: bool = false, T: {_REALS}, Tidx: {{int32, int64}} = int32",
        shape=shapes.reduction,
    )
for _op in ("Any", "All"):
    define(_op, "input: bool, reduction_indices: Tidx -> output: bool", _AXES, shape=shapes.reduction)
not_differentiable("Any", "All")


def reduction_axes(x: Any, axis: Any) -> Any:
    """The axes to reduce: `axis`, or all axes of `x` if it is None."""
    if axis is not None:
        return axis
    if isinstance(x, SparseTensor):
        rank = x.dense_shape.shape.num_elements()
        if rank is None:
            return apply_one("Range", 0, apply_one("Size", x.dense_shape), 1)
        return np.arange(rank, dtype=np.int32)
    rank = x.shape.ndims
    if rank is None:
        return apply_one("Range", 0, apply_one("Rank", x), 1, name="range")
    if type(x) is EagerTensor:
        return list(range(rank))
    return apply_one("Const", value=np.arange(rank, dtype=np.int32), dtype=as_dtype("int32"))


def _reduce(
    op_type: str, input_tensor: Any, axis: Any, keepdims: Any, name: str | None, old_axis: Any, old_keepdims: Any
) -> Tensor:
    axis = deprecated_argument_lookup("axis", axis, "reduction_indices", old_axis)
    keepdims = deprecated_argument_lookup("keepdims", keepdims, "keep_dims", old_keepdims)
    x = _as_tensor(input_tensor, as_dtype("bool") if op_type in ("Any", "All") else None)
    result = apply_one(op_type, x, reduction_axes(x, axis), keep_dims=bool(keepdims), name=name)
    if axis is None and not keepdims and result.shape.ndims is None:
        result.set_shape(())
    return result


def _as_tensor(x: Any, preferred: DType | None = None) -> Tensor:
    if type(x) is Tensor:
        return x
    if isinstance(x, IndexedSlices):
        return convert_to_tensor(x)
    return convert_to_tensor(x, name="Const", preferred_dtype=preferred)


def _reduction(op_type: str, name: str, summary: str, kind: str) -> Callable[..., Tensor]:
    """Makes the public function of one reduction: they differ in the op alone."""

    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
    ) -> Tensor:
        return _reduce(op_type, input_tensor, axis, keepdims, name, reduction_indices, keep_dims)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    function.__doc__ = f"""{summary}

    Args:
        input_tensor: A tensor {kind}.
        axis: The axis, or axes, to reduce; all of them if None. Negative ones count from the end.
        keepdims: Whether reduced axes stay, with size 1.
        name: The node's name.
        reduction_indices: The old name of `axis`.
        keep_dims: The old name of `keepdims`.

    Returns:
        The reduced tensor, of the same type.
    """
    return export(name, f"math.{name}")(dispatched(function))


reduce_sum = _reduction("Sum", "reduce_sum", "Adds up the elements along the given axes.", "of numbers")
reduce_mean = _reduction("Mean", "reduce_mean", "Averages the elements along the given axes.", "of numbers")
reduce_prod = _reduction("Prod", "reduce_prod", "Multiplies the elements along the given axes.", "of numbers")
reduce_max = _reduction("Max", "reduce_max", "Finds the largest elements along the given axes.", "of real numbers")
reduce_min = _reduction("Min", "reduce_min", "Finds the smallest elements along the given axes.", "of real numbers")
reduce_any = _reduction("Any", "reduce_any", "Tells whether any element along the given axes is true.", "of type bool")
reduce_all = _reduction(
    "All", "reduce_all", "Tells whether all elements along the given axes are true.", "of type bool"
)


@export("math.reduce_euclidean_norm")
def reduce_euclidean_norm(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Returns the square root of the sum of squares along the given axes."""
    return _reduce("EuclideanNorm", input_tensor, axis, keepdims, name, None, None)


@export("reduce_logsumexp", "math.reduce_logsumexp")
def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Tensor:
    """Returns log(sum(exp(x))) along the given axes, computed so that large and small elements do no harm."""
    axis = deprecated_argument_lookup("axis", axis, "reduction_indices", reduction_indices)
    keepdims = bool(deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims))
    x = _as_tensor(input_tensor)
    with name_scope(name, "ReduceLogSumExp", [x]):
        largest = reduce_max(x, axis, keepdims=True)
        # An infinite maximum would turn into inf - inf; and it counts as a constant, since it cancels out.
        finite = apply_one("Select", apply_one("IsFinite", largest), largest, apply_one("ZerosLike", largest))
        shift = apply_one("StopGradient", finite)
        total = apply_one("Log", reduce_sum(apply_one("Exp", apply_one("Sub", x, shift)), axis, keepdims=keepdims))
        if not keepdims:
            known = total.shape
            shift = apply_one(
                "Reshape", shift, known.as_list() if known.is_fully_defined() else apply_one("Shape", total)
            )
        return apply_one("AddV2", total, shift)


@export("math.reduce_variance")
def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Returns the mean squared distance from the mean along the given axes; a real number, for complex input too."""
    x = _as_tensor(input_tensor)
    with name_scope(name or "reduce_variance", None, [x]):
        if not (x.dtype.is_floating or x.dtype.is_complex):
            raise TypeError(f"Input must be either real or complex, got {x.dtype.name}.")
        apart = apply_one("Sub", x, reduce_mean(x, axis, keepdims=True))
        if apart.dtype.is_complex:
            real = apart.dtype.real_dtype
            squares = apply_one("Real", apply_one("Mul", apply_one("Conj", apart), apart), Tout=real)
        else:
            squares = apply_one("Square", apart)
        return reduce_mean(squares, axis, keepdims=keepdims)


@export("math.reduce_std")
def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Returns the standard deviation along the given axes."""
    x = _as_tensor(input_tensor)
    with name_scope(name or "reduce_std", None, [x]):
        return apply_one("Sqrt", reduce_variance(x, axis, keepdims))


@export("count_nonzero", "math.count_nonzero")
def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    dtype: Any = int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
    input: Any = None,
) -> Tensor:
    """Counts elements that are not zero (for strings: not empty) along the given axes.

    Args:
        input_tensor: A tensor of numbers, bools or strings.
        axis: The axes to reduce; all of them if None.
        keepdims: Whether reduced axes stay, with size 1.
        dtype: The type of the result.
        name: A name scope.
        reduction_indices: The old name of `axis`.
        keep_dims: The old name of `keepdims`.
        input: Another name of `input_tensor`.

    Returns:
        The counts.
    """
    input_tensor = deprecated_argument_lookup("input", input, "input_tensor", input_tensor)
    axis = deprecated_argument_lookup("axis", axis, "reduction_indices", reduction_indices)
    keepdims = deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims)
    with name_scope(name, "count_nonzero", [input_tensor]):
        x = _as_tensor(input_tensor)
        if x.dtype.is_bool:
            flags = x
        else:
            zero = np.array(b"" if x.dtype.name == "string" else 0)
            flags = apply_one(
                "NotEqual", x, apply_one("Const", value=_cast_array(zero, x.dtype), dtype=x.dtype.base_dtype)
            )
        counts = reduce_sum(apply_one("Cast", flags, DstT=int64), axis, keepdims=bool(keepdims))
        wanted = as_dtype(dtype)
        return counts if wanted is int64 else apply_one("Cast", counts, DstT=wanted)


def _cast_array(value: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    return value.astype(object) if dtype.name == "string" else value.astype(dtype.as_numpy_dtype)


def _arg_shape(c: ShapeContext) -> TensorShape:
    dimension = c.dims(1)
    if dimension is not None and len(dimension) > 1:
        raise ValueError(f"The dimension must be a scalar but is rank {len(dimension)}")
    dims, axis = c.dims(0), c.constant(1)
    if dims is None:
        return shapes.UNKNOWN
    rank = len(dims)
    if rank <= 1:
        return shapes.SCALAR
    if axis is None:
        return TensorShape._of((None,) * (rank - 1))
    if axis.size != 1:
        raise ValueError(f"The dimension must be a scalar but has shape {list(axis.shape)}")
    where = axis.item()
    if not -rank <= where < rank:
        raise ValueError(
            f"Dimension ({where}) must be in the range [{-rank}, {rank}), where {rank} is the input's rank"
        )
    where %= rank
    return TensorShape._of((*dims[:where], *dims[where + 1 :]))


_COMPARABLE = _REALS.replace("}", ", bool}")
define(
    "ArgMax",
    "input: T, dimension: Tidx -> output: output_type",
    f"T: {_COMPARABLE}, Tidx: {{int16, int32, int64}} = int32, output_type: {{int16, uint16, int32, int64}} = int64",
    shape=_arg_shape,
)
define(
    "ArgMin",
    "input: T, dimension: Tidx -> output: output_type",
    f"T: {_COMPARABLE}, Tidx: {{int32, int64}} = int32, output_type: {{int32, int64}} = int64",
    shape=_arg_shape,
)
not_differentiable("ArgMax", "ArgMin")


@export("argmax", "math.argmax")
def argmax(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = int64
) -> Tensor:
    """Returns the index of the largest element along an axis (the first axis if None), the first one of equals.

    Args:
        input: A tensor.
        axis: The axis to search.
        name: The node's name.
        dimension: The old name of `axis`.
        output_type: tf.int64, tf.int32, tf.int16 or tf.uint16.

    Returns:
        A tensor without that axis.
    """
    axis = deprecated_argument_lookup("axis", axis, "dimension", dimension)
    return arg_max(input, 0 if axis is None else axis, output_type, name)


@export("argmin", "math.argmin")
def argmin(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = int64
) -> Tensor:
    """Returns the index of the smallest element along an axis (the first axis if None), the first one of equals.

    Args:
        input: A tensor.
        axis: The axis to search.
        name: The node's name.
        dimension: The old name of `axis`.
        output_type: tf.int64 or tf.int32.

    Returns:
        A tensor without that axis.
    """
    axis = deprecated_argument_lookup("axis", axis, "dimension", dimension)
    return arg_min(input, 0 if axis is None else axis, output_type, name)


@export("arg_max")
def arg_max(input: Any, dimension: Any, output_type: Any = int64, name: str | None = None) -> Tensor:
    """Returns the index of the largest element along `dimension`. An older form of tf.argmax."""
    return apply_one("ArgMax", input, dimension, output_type=output_type, name=name)


@export("arg_min")
def arg_min(input: Any, dimension: Any, output_type: Any = int64, name: str | None = None) -> Tensor:
    """Returns the index of the smallest element along `dimension`. An older form of tf.argmin."""
    return apply_one("ArgMin", input, dimension, output_type=output_type, name=name)
