"""Contractions of tensors by their axes: tensordot, einsum and norm, composed of transposes, reshapes and matmul."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_list, apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, python_kernel
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.operation import Operation
from thalweg.graph.static_value import constant_value
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.ops.math.einsum_equation import Labels, output_labels, parse
from thalweg.ops.math.matmul import matmul
from thalweg.ops.plain_gradients import gradient_of_plain_form
from thalweg.platform.deprecation import deprecated_argument_lookup

Size = Any  # Of a dimension: an int where it is known, else a scalar tensor.


def sizes_of(x: Tensor) -> list[Size]:
    """The size of each dimension of a tensor of known rank."""
    dims = x.shape.dims_tuple
    assert dims is not None
    if None not in dims:
        return list(dims)
    dynamic = apply_one("Shape", x)
    return [apply_one("GatherV2", dynamic, np.int32(i), np.int32(0)) if d is None else d for i, d in enumerate(dims)]


def product_of(sizes: Sequence[Size]) -> Size:
    """The product of sizes, known or not."""
    result: Size = math.prod(s for s in sizes if isinstance(s, int))
    for size in sizes:
        if not isinstance(size, int):
            result = size if isinstance(result, int) and result == 1 else apply_one("Mul", size, result)
    return result


def reshape_to(x: Tensor, sizes: Sequence[Size], name: str | None = None) -> Tensor:
    """Reshapes, with a constant shape where at most one size is unknown; one that has a name is never left out."""
    known = [s for s in sizes if isinstance(s, int)]
    if name is None and len(known) == len(sizes) and x.shape.dims_tuple == tuple(known):
        return x
    if len(known) >= len(sizes) - 1 and 0 not in known:
        target: Any = np.array([s if isinstance(s, int) else -1 for s in sizes], np.int32)
    elif len(known) == len(sizes):
        target = np.array(known, np.int32)
    else:
        target = apply_one("Pack", [np.int32(s) if isinstance(s, int) else s for s in sizes])
    return apply_one("Reshape", x, target, name=name)


def transpose_to(x: Tensor, order: Sequence[int]) -> Tensor:
    """Transposes, unless the order is the identity."""
    if list(order) == list(range(len(order))):
        return x
    return apply_one("Transpose", x, np.array(order, np.int32))


@export("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Sums products of `a` and `b` over pairs of axes.

    Args:
        a: A tensor.
        b: A tensor of the same type.
        axes: A number n, for the last n axes of `a` and the first n of `b`; or a pair of lists of axes.
        name: A name scope.

    Returns:
        A tensor with the remaining axes of `a`, then those of `b`.

    Raises:
        ValueError: If the axes do not fit the ranks or each other.

    Example:
        >>> tf.tensordot(tf.ones([2, 3, 4]), tf.ones([4, 3, 5]), [[1, 2], [1, 0]]).shape.as_list()
        [2, 5]
    """
    with name_scope(name, "Tensordot", [a, b]) as scope:
        a = convert_to_tensor(a, name="a")
        b = convert_to_tensor(b, a.dtype.base_dtype, name="b")
        if isinstance(axes, Tensor) and constant_value(axes) is not None:
            axes = constant_value(axes)
        if a.shape.ndims is None or b.shape.ndims is None or isinstance(axes, Tensor):
            return _tensordot_of_unknown_rank(a, b, axes, scope)
        left, right = _axes_pair(a, b, axes)
        sizes_a, sizes_b = sizes_of(a), sizes_of(b)
        free_a = [i for i in range(len(sizes_a)) if i not in left]
        free_b = [i for i in range(len(sizes_b)) if i not in right]
        inner = product_of([sizes_a[i] for i in left])
        rows, columns = [sizes_a[i] for i in free_a], [sizes_b[i] for i in free_b]
        matrix_a = reshape_to(transpose_to(a, [*free_a, *left]), [product_of(rows), inner])
        matrix_b = reshape_to(transpose_to(b, [*right, *free_b]), [inner, product_of(columns)])
        result = reshape_to(matmul(matrix_a, matrix_b), [*rows, *columns], scope)
        result.set_shape([s if isinstance(s, int) else None for s in (*rows, *columns)])
        return result


def _tensordot_of_unknown_rank(a: Tensor, b: Tensor, axes: Any, name: str) -> Tensor:
    """As `tensordot`, with axes and sizes that the step computes."""
    rank_a, rank_b = apply_one("Rank", a), apply_one("Rank", b)
    axes = convert_to_tensor(axes, preferred_dtype=dtypes.int32)
    if axes.dtype.base_dtype is not dtypes.int32:
        axes = apply_one("Cast", axes, DstT=dtypes.int32)
    if axes.shape.ndims == 0:
        left = apply_one("Range", apply_one("Sub", rank_a, axes), rank_a, 1)
        right = apply_one("Range", 0, axes, 1)
    elif axes.shape.ndims in (1, 2) and axes.shape.as_list()[0] == 2:
        sides = [apply_one("Reshape", side, [-1]) for side in apply_list("Unpack", axes, num=2, axis=0)]
        left, right = (apply_one("FloorMod", side, r) for side, r in zip(sides, (rank_a, rank_b), strict=True))
    else:
        raise ValueError(f"'axes' must be an integer or have length 2, got shape {axes.shape}.")
    rows, matrix_a = _as_matrix(a, rank_a, left, inner_last=True)
    columns, matrix_b = _as_matrix(b, rank_b, right, inner_last=False)
    return apply_one("Reshape", matmul(matrix_a, matrix_b), apply_one("ConcatV2", [rows, columns], 0), name=name)


def _as_matrix(x: Tensor, rank: Tensor, inner: Tensor, inner_last: bool) -> tuple[Tensor, Tensor]:
    """The sizes of a factor's free axes, and the factor as a matrix of free by inner axes, or the reverse."""
    free = apply("ListDiff", apply_one("Range", 0, rank, 1), inner).out
    sizes = apply_one("Shape", x)
    outer_sizes = apply_one("GatherV2", sizes, free, 0)
    extents = [apply_one("Prod", outer_sizes, [0]), apply_one("Prod", apply_one("GatherV2", sizes, inner, 0), [0])]
    order = [free, inner]
    if not inner_last:
        order, extents = order[::-1], extents[::-1]
    matrix = apply_one("Transpose", x, apply_one("ConcatV2", order, 0))
    return outer_sizes, apply_one("Reshape", matrix, apply_one("Pack", extents, axis=0))


def _axes_pair(a: Tensor, b: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    rank_a, rank_b = a.shape.ndims or 0, b.shape.ndims or 0
    if np.ndim(axes) == 0:
        count = int(axes)
        if count < 0 or count > min(rank_a, rank_b):
            raise ValueError(
                f"'axes' must be between 0 and the ranks of both tensors ({rank_a}, {rank_b}), got {count}."
            )
        return list(range(rank_a - count, rank_a)), list(range(count))
    if len(axes) != 2:
        raise ValueError(f"'axes' must be an integer or have length 2, got {axes!r}.")
    left, right = ([int(i) for i in np.ravel(side)] for side in axes)
    if len(left) != len(right):
        raise ValueError(f"Different number of contraction axes 'a' and 'b', {len(left)} != {len(right)}.")
    left = [shapes.normalize_axis(i, rank_a) for i in left]
    right = [shapes.normalize_axis(i, rank_b) for i in right]
    for i, j in zip(left, right, strict=True):
        shapes.merge_dims(a.shape.dims_tuple[i], b.shape.dims_tuple[j])  # type: ignore[index]
    return left, right


@export("einsum", "linalg.einsum")
def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Sums products of tensors by named axes.

    Args:
        equation: Labels of the axes of each input and of the result: `"ij,jk->ik"`. A label that the result lacks is
            summed over; one that an input has twice takes the diagonal; `...` stands for axes that broadcast. Without
            an arrow, the result has the labels that occur once, in alphabetical order.
        *inputs: Tensors of known rank.
        **kwargs: `name`, a name scope; `optimize`, which has no effect.

    Returns:
        A Tensor.

    Raises:
        ValueError: If the equation is not well-formed or does not fit the inputs.

    Example:
        >>> tf.einsum("bij,bjk->bik", tf.ones([5, 2, 3]), tf.ones([5, 3, 4])).shape.as_list()
        [5, 2, 4]
    """
    name = kwargs.pop("name", None)
    kwargs.pop("optimize", None)
    if kwargs:
        raise TypeError(f"invalid keyword arguments for this function: {', '.join(kwargs)}")
    if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)):
        inputs = tuple(inputs[0])
    with name_scope(name, "einsum", inputs):
        tensors = [convert_to_tensor(x) for x in inputs]
        for tensor in tensors:
            if tensor.shape.ndims is None:
                raise ValueError("einsum needs tensors of known rank: set_shape() them first.")
        terms, output = parse(equation, [tensor.shape.ndims or 0 for tensor in tensors])
        result, labels = _diagonals_of_repeated_labels(tensors[0], terms[0])
        for i in range(1, len(tensors)):
            wanted = set(output).union(*terms[i + 1 :])
            result, labels = _contract(result, labels, *_diagonals_of_repeated_labels(tensors[i], terms[i]), wanted)
        result, labels = _sum_out(result, labels, set(output))
        return transpose_to(result, [labels.index(label) for label in output])


def _diagonals_of_repeated_labels(x: Tensor, labels: Labels) -> tuple[Tensor, Labels]:
    """Takes diagonals until no label occurs twice."""
    while len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        i = labels.index(twice)
        j = labels.index(twice, i + 1)
        dims = x.shape.dims_tuple
        assert dims is not None
        shapes.merge_dims(dims[i], dims[j])
        order = [k for k in range(len(labels)) if k not in (i, j)]
        x = apply_one("MatrixDiagPart", transpose_to(x, [*order, i, j]))
        labels = [*(labels[k] for k in order), twice]
    return x, labels


def _sum_out(x: Tensor, labels: Labels, wanted: set[str]) -> tuple[Tensor, Labels]:
    axes = [i for i, label in enumerate(labels) if label not in wanted]
    if not axes:
        return x, labels
    return apply_one("Sum", x, np.array(axes, np.int32)), [label for label in labels if label in wanted]


def _contract(a: Tensor, labels_a: Labels, b: Tensor, labels_b: Labels, wanted: set[str]) -> tuple[Tensor, Labels]:
    """Multiplies two tensors and sums over the labels that are not `wanted`."""
    a, labels_a = _sum_out(a, labels_a, wanted | set(labels_b))
    b, labels_b = _sum_out(b, labels_b, wanted | set(labels_a))
    # The axes of an ellipsis are batch axes: only these broadcast, from a size of 1.
    batch = [x for x in labels_a if x in labels_b and x in wanted]
    inner = [x for x in labels_a if x in labels_b and x not in wanted]
    rows = [x for x in labels_a if x not in labels_b]
    columns = [x for x in labels_b if x not in labels_a]
    size_a = dict(zip(labels_a, sizes_of(a), strict=True))
    size_b = dict(zip(labels_b, sizes_of(b), strict=True))
    for label in inner + batch:
        x, y = size_a[label], size_b[label]
        if isinstance(x, int) and isinstance(y, int) and x != y and not (label.startswith(".") and 1 in (x, y)):
            raise ValueError(f"Dimensions of label '{label}' must be equal, but are {x} and {y}.")
    depth = product_of([size_a[x] for x in inner])
    matrix_a = reshape_to(
        transpose_to(a, [labels_a.index(x) for x in (*batch, *rows, *inner)]),
        [*(size_a[x] for x in batch), product_of([size_a[x] for x in rows]), depth],
    )
    matrix_b = reshape_to(
        transpose_to(b, [labels_b.index(x) for x in (*batch, *inner, *columns)]),
        [*(size_b[x] for x in batch), depth, product_of([size_b[x] for x in columns])],
    )
    product = matmul(matrix_a, matrix_b)
    broadcast = [_broadcast(size_a[x], size_b[x], product, i) for i, x in enumerate(batch)]
    sizes = [*broadcast, *(size_a[x] for x in rows), *(size_b[x] for x in columns)]
    result = reshape_to(product, sizes)
    result.set_shape([s if isinstance(s, int) else None for s in sizes])
    return result, [*batch, *rows, *columns]


def _broadcast(x: Size, y: Size, product: Tensor, axis: int) -> Size:
    if isinstance(x, int) and isinstance(y, int):
        return max(x, y) if 0 not in (x, y) else 0
    known = [s for s in (x, y) if isinstance(s, int) and s != 1]
    return known[0] if known else apply_one("GatherV2", apply_one("Shape", product), np.int32(axis), np.int32(0))


def _einsum_shape(c: ShapeContext) -> TensorShape:
    dims = [c.dims(i) for i in range(c.num_inputs)]
    if any(d is None for d in dims):
        return shapes.UNKNOWN
    equation = c.attr("equation")
    terms, output = parse(_text(equation), [len(d) for d in dims if d is not None])
    sizes: dict[str, int | None] = {}
    for labels, shape in zip(terms, dims, strict=True):
        for label, size in zip(labels, shape or (), strict=True):
            known = sizes.get(label)
            if label.startswith(".") and 1 in (known, size):
                sizes[label] = size if known == 1 else known
            else:
                sizes[label] = shapes.merge_dims(known, size)
    return TensorShape._of(tuple(sizes[label] for label in output))


def _text(equation: Any) -> str:
    return equation.decode() if isinstance(equation, bytes) else str(equation)


define(
    "Einsum",
    "inputs: N * T -> output: T",
    "equation: string, N: int >= 1, T: {bfloat16, half, float, double, int32, int64, complex64, complex128}",
    shape=_einsum_shape,
)


@python_kernel("Einsum")
def _einsum_kernel(inputs: list[np.ndarray[Any, Any]], attrs: dict[str, Any]) -> Any:
    # For imported graphs: einsum() itself is made of matrix products.
    equation = _text(attrs["equation"])
    output_labels(equation)
    kind = inputs[0].dtype
    if kind.kind not in "iufc" or kind.itemsize == 2:
        inputs = [x.astype(np.float32) for x in inputs]
    return np.asarray(np.einsum(equation, *inputs)).astype(kind)


@gradient_of_plain_form("Einsum")
def _einsum_plain_form(op: Operation) -> list[Tensor]:
    return [einsum(_text(op.get_attr("equation")), *op.inputs)]


@export("norm", "linalg.norm")
def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    keep_dims: Any = None,
) -> Tensor:
    """Returns norms of vectors or matrices.

    Args:
        tensor: A tensor.
        ord: 'euclidean', 'fro' (matrices only), 1, 2, numpy.inf, or any positive number (vectors only).
        axis: None for the norm of the whole tensor as a vector; an axis for vectors; a pair of axes for matrices.
        keepdims: Whether the axes stay, with size 1.
        name: A name scope.
        keep_dims: The old name of `keepdims`.

    Returns:
        The norms.
    """
    keepdims = bool(deprecated_argument_lookup("keepdims", keepdims, "keep_dims", keep_dims))
    axis = tuple(axis) if isinstance(axis, list) else axis
    is_matrix = isinstance(axis, tuple) and len(axis) == 2
    if isinstance(axis, tuple) and (not is_matrix or axis[0] == axis[1]):
        raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
    supported = ("euclidean", "fro", 1, 2, np.inf) if is_matrix else ("euclidean", 1, 2, np.inf)
    if ord not in supported and (is_matrix or isinstance(ord, str) or ord <= 0):
        raise ValueError(
            f"'ord' must be a supported {'matrix' if is_matrix else 'vector'} norm in {supported}, got {ord}"
        )
    with name_scope(name, "norm", [tensor]):
        x = convert_to_tensor(tensor)
        if axis is None:
            rank = x.shape.ndims
            axes: Any = (
                np.arange(rank, dtype=np.int32) if rank is not None else apply_one("Range", 0, apply_one("Rank", x), 1)
            )
        else:
            axes = np.array(axis if is_matrix else [axis], np.int32)
        if ord in ("fro", "euclidean") or (ord == 2 and not is_matrix):
            if x.dtype.is_complex:
                squares = apply_one("Real", apply_one("Mul", x, apply_one("Conj", x)), Tout=x.dtype.real_dtype)
            else:
                squares = apply_one("Mul", x, x)
            return apply_one("Sqrt", apply_one("Sum", squares, axes, keep_dims=keepdims))
        if ord == 2:
            return _spectral_norm(x, axis, keepdims)
        sizes = apply_one("ComplexAbs", x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else apply_one("Abs", x)
        if is_matrix:
            summed, largest = (axis[0], axis[1]) if ord == 1 else (axis[1], axis[0])
            sums = apply_one("Sum", sizes, [summed], keep_dims=True)
            kept = apply_one("Max", sums, [largest], keep_dims=True)
            return kept if keepdims else apply_one("Squeeze", kept, squeeze_dims=list(axis))
        if ord == np.inf:
            return apply_one("Max", sizes, axes, keep_dims=keepdims)
        if ord == 1:
            return apply_one("Sum", sizes, axes, keep_dims=keepdims)
        powers = apply_one("Sum", apply_one("Pow", sizes, float(ord)), axes, keep_dims=keepdims)
        return apply_one("Pow", powers, 1.0 / ord)


def _spectral_norm(x: Tensor, axis: tuple[int, int], keepdims: bool) -> Tensor:
    """The largest singular value of each matrix."""
    rank = x.shape.ndims
    if rank is None:
        raise ValueError("The 2-norm of matrices needs a tensor of known rank.")
    pair = [shapes.normalize_axis(i, rank) for i in axis]
    others = [i for i in range(rank) if i not in pair]
    values = apply("Svd", transpose_to(x, [*others, *pair]), compute_uv=False).s
    if values.dtype.is_complex:
        values = apply_one("Real", values, Tout=values.dtype.real_dtype)
    largest = apply_one("Max", values, [-1])
    if keepdims:
        for i in sorted(pair):
            largest = apply_one("ExpandDims", largest, np.int32(i))
    return largest
