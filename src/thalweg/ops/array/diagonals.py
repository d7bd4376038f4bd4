"""Diagonals and bands of matrices: tf.diag, tf.matrix_diag, tf.matrix_band_part, tf.eye, tf.trace and their kin."""

from __future__ import annotations

from typing import Any

import numpy as np

from thalweg.graph.apply import apply_one
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_graph import name_scope
from thalweg.graph.definitions import shape_functions as shapes
from thalweg.graph.definitions.op_registry import define, export, gradient
from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.dtypes import as_dtype, float32
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape

_DIAG_TYPES = "T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"


def _diag_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    return shapes.UNKNOWN if dims is None else TensorShape._of(dims + dims)


def _diag_part_shape(c: ShapeContext) -> TensorShape:
    dims = c.dims(0)
    if dims is None:
        return shapes.UNKNOWN
    half = len(dims) // 2
    if len(dims) % 2 or not dims:
        raise ValueError(f"Input must have even and non-zero rank, input rank is {len(dims)}")
    return shapes.merge(TensorShape._of(dims[:half]), TensorShape._of(dims[half:]))


define("Diag", "diagonal: T -> output: T", _DIAG_TYPES, shape=_diag_shape)
define("DiagPart", "input: T -> diagonal: T", _DIAG_TYPES, shape=_diag_part_shape)


@export("diag", "linalg.tensor_diag")
def diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Returns a tensor of twice the rank with `diagonal` on its diagonal and zeros elsewhere.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.diag([1, 2])).tolist()
        [[1, 0], [0, 2]]
    """
    return apply_one("Diag", diagonal, name=name)


@export("diag_part", "linalg.tensor_diag_part")
def diag_part(input: Any, name: str | None = None) -> Tensor:
    """Returns the diagonal of a tensor of shape `[d0, ..., dn, d0, ..., dn]`."""
    return apply_one("DiagPart", input, name=name)


@gradient("Diag")
def _diag_grad(op: Operation, grad: Tensor) -> Any:
    return diag_part(grad)


@gradient("DiagPart")
def _diag_part_grad(op: Operation, grad: Tensor) -> Any:
    return diag(grad)


def _diagonal_range(c: ShapeContext, index: int) -> tuple[int, int] | None:
    """The lowest and the highest diagonal in the input `k`; None if the graph does not tell."""
    shapes.with_rank_at_most(c.input(index), 1)
    k = c.constant(index)
    if k is None:
        return None
    if k.size not in (1, 2):
        raise ValueError(f"k must have one or two elements, but has {k.size}")
    lower, upper = int(k.flat[0]), int(k.flat[-1])
    if lower > upper:
        raise ValueError(f"lower_diag_index must not be larger than upper_diag_index: {lower} > {upper}")
    return lower, upper


def _matrix_diag_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 1).dims_tuple
    if c.num_inputs == 1:
        return shapes.UNKNOWN if dims is None else TensorShape._of((*dims, dims[-1]))
    band = _diagonal_range(c, 1)
    if band is None or dims is None:
        return shapes.UNKNOWN
    lower, upper = band
    outer = dims[:-1]
    if lower < upper:
        shapes.with_rank_at_least(c.input(0), 2)
        shapes.merge_dims(outer[-1], upper - lower + 1)
        outer = outer[:-1]
    sizes = [c.constant(2), c.constant(3)]
    if sizes[0] is None or sizes[1] is None or dims[-1] is None:
        return TensorShape._of((*outer, None, None))
    least = (dims[-1] - min(upper, 0), dims[-1] + max(lower, 0))
    if sizes[0].size != 1 or sizes[1].size != 1:
        raise ValueError(f"num_rows and num_cols must be scalars, but have shapes {sizes[0].shape}, {sizes[1].shape}")
    rows, columns = sizes[0].item(), sizes[1].item()
    if rows == -1 and columns == -1:
        rows = columns = max(least)
    rows = least[0] if rows == -1 else rows
    columns = least[1] if columns == -1 else columns
    if rows < least[0] or columns < least[1] or (rows != least[0] and columns != least[1]):
        raise ValueError(
            f"Matrices of {rows} x {columns} do not fit diagonals of {dims[-1]} elements: at least {least}"
        )
    return TensorShape._of((*outer, rows, columns))


def _matrix_diag_part_shape(c: ShapeContext) -> TensorShape:
    dims = shapes.with_rank_at_least(c.input(0), 2).dims_tuple
    band = (0, 0) if c.num_inputs == 1 else _diagonal_range(c, 1)
    if dims is None or band is None:
        return shapes.UNKNOWN
    return _diagonals_shape(dims, *band)


def _diagonals_shape(dims: tuple[int | None, ...], lower: int, upper: int) -> TensorShape:
    rows, columns = dims[-2:]
    for d in (lower, upper):
        if d and ((rows is not None and d <= -rows) or (columns is not None and d >= columns)):
            raise ValueError(f"Diagonal {d} is out of range for matrices of {rows} x {columns}")
    longest = None
    if rows is not None and columns is not None:
        longest = min(rows + min(upper, 0), columns - max(lower, 0))
    return TensorShape._of((*dims[:-2], *([upper - lower + 1] if lower < upper else []), longest))


def _matrix_set_diag_shape(c: ShapeContext) -> TensorShape:
    matrices = shapes.with_rank_at_least(c.input(0), 2)
    band = (0, 0) if c.num_inputs == 2 else _diagonal_range(c, 2)
    if matrices.dims_tuple is not None and band is not None:
        shapes.merge(_diagonals_shape(matrices.dims_tuple, *band), c.input(1))
    return matrices


_ALIGN = 'align: {"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"} = "RIGHT_LEFT"'
_DIAG_V2 = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> output: T"
_PART_V2 = "input: T, k: int32, padding_value: T -> diagonal: T"
_SET_V2 = "input: T, diagonal: T, k: int32 -> output: T"
define("MatrixDiag", "diagonal: T -> output: T", "T: type", shape=_matrix_diag_shape)
define("MatrixDiagV2", _DIAG_V2, "T: type", shape=_matrix_diag_shape)
define("MatrixDiagV3", _DIAG_V2, f"T: type, {_ALIGN}", shape=_matrix_diag_shape)
define("MatrixDiagPart", "input: T -> diagonal: T", "T: type", shape=_matrix_diag_part_shape)
define("MatrixDiagPartV2", _PART_V2, "T: type", shape=_matrix_diag_part_shape)
define("MatrixDiagPartV3", _PART_V2, f"T: type, {_ALIGN}", shape=_matrix_diag_part_shape)
define("MatrixSetDiag", "input: T, diagonal: T -> output: T", "T: type", shape=_matrix_set_diag_shape)
define("MatrixSetDiagV2", _SET_V2, "T: type", shape=_matrix_set_diag_shape)
define("MatrixSetDiagV3", _SET_V2, f"T: type, {_ALIGN}", shape=_matrix_set_diag_shape)


def _is_main(k: Any) -> bool:
    return isinstance(k, int) and k == 0


@export("matrix_diag", "linalg.diag")
def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Returns matrices with the given diagonals, and `padding_value` elsewhere.

    Args:
        diagonal: Tensor `[..., n]`; `[..., number of diagonals, n]` if `k` names several, the uppermost first.
        name: A name for the operation.
        k: Which diagonal: 0 is the main one, positive ones lie above it. A pair: from the lowest to the highest.
        num_rows: Rows of a matrix; -1 for as many as the diagonals need.
        num_cols: Columns of a matrix; -1 for as many as the diagonals need.
        padding_value: What to put elsewhere.
        align: On which side the diagonals above and below the main one are aligned in `diagonal`.

    Returns:
        A Tensor `[..., num_rows, num_cols]`.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.matrix_diag([[1, 2], [3, 4]])).tolist()
        [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]
    """
    plain = _is_main(k) and isinstance(num_rows, int) and num_rows == -1 and isinstance(num_cols, int)
    if plain and num_cols == -1 and isinstance(padding_value, (int, float)) and padding_value == 0:
        return apply_one("MatrixDiag", diagonal, name=name)
    diagonal = convert_to_tensor(diagonal)
    padding = _as_type(padding_value, diagonal)
    return apply_one("MatrixDiagV3", diagonal, k, num_rows, num_cols, padding, align=align, name=name)


def _as_type(value: Any, like: Tensor) -> Any:
    """A padding value in the type of the elements, also for those to which Python numbers do not convert."""
    if isinstance(value, Tensor):
        return value
    if like.dtype.name == "string":
        return b"" if value == 0 else value
    return np.asarray(value).astype(like.dtype.as_numpy_dtype)


@export("matrix_diag_part", "linalg.diag_part")
def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Returns the diagonals of matrices; the opposite of `matrix_diag`, which says what `k` and `align` mean."""
    if _is_main(k):
        return apply_one("MatrixDiagPart", input, name=name)
    input = convert_to_tensor(input)
    return apply_one("MatrixDiagPartV3", input, k, _as_type(padding_value, input), align=align, name=name)


@export("matrix_set_diag", "linalg.set_diag")
def matrix_set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Returns `input` with the diagonals replaced; `matrix_diag` says what `k` and `align` mean."""
    if _is_main(k):
        return apply_one("MatrixSetDiag", input, diagonal, name=name)
    return apply_one("MatrixSetDiagV3", input, diagonal, k, align=align, name=name)


def _align(op: Operation) -> Any:
    return op.attrs.get("align", b"LEFT_LEFT")


@gradient("MatrixDiag")
def _matrix_diag_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MatrixDiagPart", grad)


@gradient("MatrixDiagV2", "MatrixDiagV3")
def _banded_diag_grad(op: Operation, grad: Tensor) -> Any:
    band = apply_one("MatrixDiagPartV3", grad, op.inputs[1], _as_type(0, grad), align=_align(op))
    flat = [apply_one("Sum", apply_one("Reshape", part, [-1]), [0]) for part in (grad, band)]
    padding = apply_one("Reshape", apply_one("Sub", *flat), apply_one("Shape", op.inputs[4]))
    return band, None, None, None, padding


@gradient("MatrixDiagPart")
def _matrix_diag_part_grad(op: Operation, grad: Tensor) -> Any:
    dims = op.inputs[0].shape.dims_tuple
    if dims is not None and dims[-1] is not None and dims[-1] == dims[-2]:
        return apply_one("MatrixDiag", grad)
    return apply_one("MatrixSetDiag", apply_one("ZerosLike", op.inputs[0]), grad)


@gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def _banded_diag_part_grad(op: Operation, grad: Tensor) -> Any:
    zeros = apply_one("ZerosLike", op.inputs[0])
    band = apply_one("MatrixSetDiagV3", zeros, grad, op.inputs[1], align=_align(op))
    # The padding value gets the gradients of the elements outside of the matrices.
    used = apply_one("MatrixDiagPartV3", band, op.inputs[1], _as_type(0, grad), align=_align(op))
    flat = [apply_one("Sum", apply_one("Reshape", part, [-1]), [0]) for part in (grad, used)]
    return band, None, apply_one("Reshape", apply_one("Sub", *flat), apply_one("Shape", op.inputs[2]))


@gradient("MatrixSetDiag")
def _matrix_set_diag_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MatrixSetDiag", grad, apply_one("ZerosLike", op.inputs[1])), apply_one("MatrixDiagPart", grad)


@gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def _banded_set_diag_grad(op: Operation, grad: Tensor) -> Any:
    k, align = op.inputs[2], _align(op)
    rest = apply_one("MatrixSetDiagV3", grad, apply_one("ZerosLike", op.inputs[1]), k, align=align)
    return rest, apply_one("MatrixDiagPartV3", grad, k, _as_type(0, grad), align=align), None


def _band_part_shape(c: ShapeContext) -> TensorShape:
    shapes.with_rank(c.input(1), 0)
    shapes.with_rank(c.input(2), 0)
    return shapes.with_rank_at_least(c.input(0), 2)


define(
    "MatrixBandPart", "input: T, num_lower: Tindex, num_upper: Tindex -> band: T",
    "T: type, Tindex: {int32, int64} = int64", shape=_band_part_shape,
)  # fmt: skip


@export("matrix_band_part", "linalg.band_part")
def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Keeps the main diagonal of matrices, `num_lower` below it and `num_upper` above it; zero elsewhere.

    A negative number keeps all: `(x, -1, 0)` is the lower triangle, `(x, 0, 0)` the diagonal.
    """
    return apply_one("MatrixBandPart", input, num_lower, num_upper, name=name)


@gradient("MatrixBandPart")
def _matrix_band_part_grad(op: Operation, grad: Tensor) -> Any:
    return apply_one("MatrixBandPart", grad, op.inputs[1], op.inputs[2]), None, None


@export("eye", "linalg.eye")
def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Returns an identity matrix, or a batch of them.

    Args:
        num_rows: Rows of a matrix.
        num_columns: Columns of a matrix; as many as rows if None.
        batch_shape: The outer dimensions of the result; none if None.
        dtype: The type of its elements.
        name: A name for the operation.

    Returns:
        A Tensor `batch_shape + [num_rows, num_columns]`.

    Example:
        >>> with tf.Session() as s:
        ...     s.run(tf.eye(2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    with name_scope(name, "eye", [num_rows, num_columns, batch_shape]):
        one = np.ones((), as_dtype(dtype).as_numpy_dtype)
        square = num_columns is None
        sizes = [num_rows] if square else [num_rows, num_columns]
        known = all(isinstance(size, (int, np.integer)) for size in sizes)
        if known and any(size < 0 for size in sizes):
            raise ValueError(f"eye needs sizes that are not negative, got {sizes}.")
        length: Any = min(sizes) if known else _smallest(sizes)
        shape: Any = [length] if known else apply_one("Reshape", length, [1])
        if batch_shape is not None:
            if known and not isinstance(batch_shape, Tensor):
                shape = [*TensorShape(batch_shape).as_list(), length]
            else:
                batch = convert_to_tensor(batch_shape, shape.dtype if isinstance(shape, Tensor) else None)
                shape = apply_one("ConcatV2", [batch, shape], 0)
        ones = apply_one("Fill", shape if isinstance(shape, Tensor) else np.array(shape, np.int32), one)
        if square:
            return matrix_diag(ones)
        rows, columns = (apply_one("Cast", convert_to_tensor(s), DstT="int32") if not known else int(s) for s in sizes)
        return matrix_diag(ones, num_rows=rows, num_cols=columns)


def _smallest(sizes: list[Any]) -> Tensor:
    tensors = [convert_to_tensor(size) for size in sizes]
    return tensors[0] if len(tensors) == 1 else apply_one("Minimum", *tensors)


@export("trace", "linalg.trace")
def trace(x: Any, name: str | None = None) -> Tensor:
    """Returns the sum of the main diagonal of each matrix in `x`."""
    with name_scope(name, "Trace", [x]) as scope:
        return apply_one("Sum", matrix_diag_part(x), [-1], name=scope)
