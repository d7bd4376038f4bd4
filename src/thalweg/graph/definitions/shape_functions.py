"""Shape functions that many ops share, and the shape arithmetic from which the others are built.

A shape function takes a ShapeContext and returns one TensorShape, or a list with one per output. It raises ValueError
for inputs that can never fit; the caller adds the node's name and the shapes of its inputs to the message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from thalweg.graph.definitions.shape_context import ShapeContext
from thalweg.graph.tensor_shape import TensorShape

Dims = tuple[int | None, ...] | None

UNKNOWN = TensorShape._of(None)
SCALAR = TensorShape._of(())
ANY_VECTOR = TensorShape._of((None,))


def unchanged(c: ShapeContext) -> TensorShape:
    """The output has the shape of the first input."""
    return c.input(0)


def scalar(c: ShapeContext) -> Any:
    """Every output is a scalar."""
    return SCALAR if c.num_outputs == 1 else [SCALAR] * c.num_outputs


def unknown(c: ShapeContext) -> Any:
    """Nothing is known before the step runs."""
    return [UNKNOWN] * c.num_outputs


def no_outputs(c: ShapeContext) -> list[TensorShape]:
    """The op has no outputs."""
    return []


def same_as(index: int) -> Callable[[ShapeContext], TensorShape]:
    """The output has the shape of input `index`."""
    return lambda c: c.input(index)


def vector(c: ShapeContext) -> Any:
    """Every output is a vector of a length that only the step knows."""
    return [ANY_VECTOR] * c.num_outputs


def from_attr(name: str) -> Callable[[ShapeContext], TensorShape]:
    """The output has the shape that an attribute gives."""
    return lambda c: c.attr(name)


def each_unchanged(c: ShapeContext) -> list[TensorShape]:
    """Output i has the shape of input i."""
    return c.inputs()


def merge_inputs(c: ShapeContext) -> TensorShape:
    """All inputs have one shape, and so has the output."""
    return merge_shapes(c.inputs())


def broadcast(c: ShapeContext) -> TensorShape:
    """The output has the shape to which the two inputs broadcast, as in NumPy."""
    return broadcast_shapes(c.input(0), c.input(1))


def broadcast_all(c: ShapeContext) -> TensorShape:
    """The output has the shape to which all inputs broadcast."""
    shape = c.input(0)
    for i in range(1, c.num_inputs):
        shape = broadcast_shapes(shape, c.input(i))
    return shape


elementwise = unchanged


def with_rank(shape: TensorShape, rank: int) -> TensorShape:
    """`shape` with that rank made known; ValueError if it has another."""
    dims = shape.dims_tuple
    if dims is None:
        return TensorShape._of((None,) * rank)
    if len(dims) != rank:
        raise ValueError(f"Shape must be rank {rank} but is rank {len(dims)}")
    return shape


def with_rank_at_least(shape: TensorShape, rank: int) -> TensorShape:
    """`shape`; ValueError if its rank is known to be smaller."""
    dims = shape.dims_tuple
    if dims is not None and len(dims) < rank:
        raise ValueError(f"Shape must be at least rank {rank} but is rank {len(dims)}")
    return shape


def with_rank_at_most(shape: TensorShape, rank: int) -> TensorShape:
    """`shape`; ValueError if its rank is known to be larger."""
    dims = shape.dims_tuple
    if dims is not None and len(dims) > rank:
        raise ValueError(f"Shape must be at most rank {rank} but is rank {len(dims)}")
    return shape


def merge_dims(a: int | None, b: int | None) -> int | None:
    """The dimension that two descriptions of one dimension agree on."""
    if a is None:
        return b
    if b is None or a == b:
        return a
    raise ValueError(f"Dimensions must be equal, but are {a} and {b}")


def merge(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape that two descriptions of one shape agree on."""
    x, y = a.dims_tuple, b.dims_tuple
    if x == y or y is None:
        return a
    if x is None:
        return b
    if len(x) != len(y):
        raise ValueError(f"Shapes must be equal rank, but are {len(x)} and {len(y)}")
    merged = []
    for i, (p, q) in enumerate(zip(x, y, strict=True)):
        if p is not None and q is not None and p != q:
            raise ValueError(
                f"Dimension {i} in both shapes must be equal, but are {p} and {q}. Shapes are {short(a)} and {short(b)}"
            )
        merged.append(q if p is None else p)
    return TensorShape._of(tuple(merged))


def merge_shapes(shapes: Iterable[TensorShape]) -> TensorShape:
    """Merges any number of shapes."""
    result = UNKNOWN
    for i, shape in enumerate(shapes):
        try:
            result = merge(result, shape)
        except ValueError as e:
            raise ValueError(f"{e}\n\tFrom merging shape {i} with other shapes.") from None
    return result


def short(shape: TensorShape) -> str:
    """A shape as error messages print it: `[2,?]`."""
    dims = shape.dims_tuple
    return "<unknown>" if dims is None else "[" + ",".join("?" if d is None else str(d) for d in dims) + "]"


def broadcast_dims(x: tuple[int | None, ...], y: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Broadcasts two shapes of known rank. An unknown dimension beside one greater than 1 must be that one, or 1."""
    if len(x) < len(y):
        x, y = y, x
    offset = len(x) - len(y)
    result = list(x[:offset])
    for p, q in zip(x[offset:], y, strict=True):
        if p == q or q == 1:
            result.append(p)
        elif p == 1:
            result.append(q)
        elif p is None or q is None:
            result.append(q if p is None else p)
        else:
            raise ValueError(f"Dimensions must be equal, but are {p} and {q}")
    return tuple(result)


def broadcast_shapes(a: TensorShape, b: TensorShape) -> TensorShape:
    """The shape to which two shapes broadcast; ValueError if they never do."""
    x, y = a.dims_tuple, b.dims_tuple
    if x is None or y is None:
        return UNKNOWN
    if x == y or not y:
        return a
    if not x:
        return b
    return TensorShape._of(broadcast_dims(x, y))


def normalize_axis(axis: int, rank: int) -> int:
    """An axis counted from the end, counted from the start; ValueError if there is no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(
            f"Invalid reduction dimension {axis} for input with {rank} dimensions: expected [{-rank}, {rank})"
        )
    return axis + rank if axis < 0 else axis


def reduction(c: ShapeContext) -> TensorShape:
    """Reduces input 0 over the axes in input 1, keeping them as 1 if the attribute `keep_dims` says so."""
    keep = c.attr("keep_dims")
    dims = c.dims(0)
    rank = c.input(1).ndims
    if rank is not None and rank > 1:
        raise ValueError(f"Shape must be at most rank 1 but is rank {rank}")
    axes = c.constant(1)
    if dims is None:
        return UNKNOWN
    if axes is None:
        return TensorShape._of((None,) * len(dims)) if keep else UNKNOWN
    reduced = {normalize_axis(int(axis), len(dims)) for axis in axes.ravel()}
    if keep:
        return TensorShape._of(tuple([1 if i in reduced else d for i, d in enumerate(dims)]))
    return TensorShape._of(tuple([d for i, d in enumerate(dims) if i not in reduced]))


def matmul(c: ShapeContext) -> TensorShape:
    """Product of two matrices, each transposed first if `transpose_a` or `transpose_b` says so."""
    return matmul_shape(
        with_rank(c.input(0), 2), with_rank(c.input(1), 2), c.attr("transpose_a"), c.attr("transpose_b")
    )


def batch_matmul(c: ShapeContext) -> TensorShape:
    """Product of the innermost two dimensions, the others broadcast; `adj_x` and `adj_y` transpose first."""
    a, b = with_rank_at_least(c.input(0), 2), with_rank_at_least(c.input(1), 2)
    return matmul_shape(a, b, c.attr("adj_x"), c.attr("adj_y"))


def matmul_shape(a: TensorShape, b: TensorShape, transpose_a: bool, transpose_b: bool) -> TensorShape:
    """The shape of a (batch) matrix product."""
    x, y = a.dims_tuple, b.dims_tuple
    if x is None or y is None:
        return UNKNOWN
    rows, inner_a = (x[-1], x[-2]) if transpose_a else (x[-2], x[-1])
    inner_b, columns = (y[-1], y[-2]) if transpose_b else (y[-2], y[-1])
    merge_dims(inner_a, inner_b)
    return TensorShape._of((*broadcast_dims(x[:-2], y[:-2]), rows, columns))


def concat_shapes(shapes: Sequence[TensorShape], axis: int | None) -> TensorShape:
    """The shape of a concatenation along `axis` (None: not known)."""
    ranks = {len(shape.dims_tuple) for shape in shapes if shape.dims_tuple is not None}
    if not ranks:
        return UNKNOWN
    rank = min(ranks)
    if len(ranks) > 1:
        raise ValueError(f"Shapes must be equal rank, but are {rank} and {max(ranks)}")
    if rank == 0:
        raise ValueError("Can't concatenate scalars (use tf.stack instead)")
    if axis is None:
        return TensorShape._of((None,) * rank)
    if not -rank <= axis < rank:
        raise ValueError(f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {axis}")
    axis %= rank
    result: list[int | None] = [None] * rank
    total: int | None = 0
    for i, shape in enumerate(shapes):
        dims = with_rank(shape, rank).dims_tuple
        assert dims is not None
        total = None if total is None or dims[axis] is None else total + dims[axis]  # type: ignore[operator]
        for k, d in enumerate(dims):
            if k != axis:
                try:
                    result[k] = merge_dims(result[k], d)
                except ValueError:
                    raise ValueError(
                        f"Dimension {k} in both shapes must be equal, but are {result[k]} and {d}. Shape {i} "
                        f"is {short(shape)}"
                    ) from None
    result[axis] = total
    return TensorShape._of(tuple(result))


def num_elements(dims: Dims) -> int | None:
    """The number of elements, or None if it is not known. A dimension of zero decides it alone."""
    if dims is None:
        return None
    if 0 in dims:
        return 0
    product = 1
    for d in dims:
        if d is None:
            return None
        product *= d
    return product
