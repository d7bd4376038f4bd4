"""Static shapes: TensorShape, Dimension, and the ways to make them.

A shape function runs once per operation, so a TensorShape is no more than a tuple of `int | None` (or None when even
the rank is unknown); Dimension objects appear only when a program asks for them, by index or through `dims`. Inside
Thalweg, read `dims_tuple` and build with `TensorShape._of`, which skips validation. Both classes are immutable.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast, overload

Dims = tuple[int | None, ...] | None
"""A shape as Thalweg stores it: None for an unknown rank, and None for each unknown dimension."""


_LARGEST = 2**63 - 1


def _dimension_value(value: Any) -> int | None:
    """Converts anything that can be a dimension to an int or None, or raises TypeError or ValueError."""
    if value is None:
        return None
    if type(value) is not int:
        if isinstance(value, Dimension):
            return value._value
        try:
            value = operator.index(value)
        except TypeError:
            raise TypeError(
                f"A dimension must be an integer or None (or have an __index__ method), got {value!r} of type "
                f"{type(value).__name__}."
            ) from None
    if value < 0:
        raise ValueError(f"Dimension {value} must be >= 0. Write None for a dimension that is not known.")
    if value > _LARGEST:
        raise ValueError(f"Dimension {value} is larger than 2**63 - 1.")
    return cast(int, value)


class Dimension:
    """One dimension of a shape: a number, or unknown.

    Arithmetic with an unknown dimension gives an unknown dimension, and a comparison with one gives None, which counts
    as false.

    Example:
        >>> Dimension(3) + 4, Dimension(3) * None, Dimension(None) == 3
        (Dimension(7), Dimension(None), None)
    """

    __slots__ = ("_value",)

    _value: int | None

    def __init__(self, value: Any) -> None:
        """Creates a dimension from an integer, None, or another Dimension."""
        self._value = _dimension_value(value)

    @property
    def value(self) -> int | None:
        """The number of entries, or None if it is unknown."""
        return self._value

    def is_compatible_with(self, other: Any) -> bool:
        """Whether the two are equal, or one of them is unknown."""
        other_value = _dimension_value(other)
        return self._value is None or other_value is None or self._value == other_value

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError unless `is_compatible_with(other)`."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Dimensions {self} and {other} are not compatible")

    def merge_with(self, other: Any) -> Dimension:
        """The one of the two that is known; raises ValueError if both are and differ."""
        self.assert_is_compatible_with(other)
        return Dimension(other) if self._value is None else Dimension(self._value)

    def _compute(self, function: Callable[[int, int], int], other: Any, reflected: bool = False) -> Dimension:
        try:
            other_value = _dimension_value(other)
        except (TypeError, ValueError):
            return NotImplemented  # type: ignore[no-any-return]
        if self._value is None or other_value is None:
            return Dimension(None)
        if reflected:
            return Dimension(function(other_value, self._value))
        return Dimension(function(self._value, other_value))

    def __add__(self, other: Any) -> Dimension:
        return self._compute(operator.add, other)

    def __radd__(self, other: Any) -> Dimension:
        return self._compute(operator.add, other, reflected=True)

    def __sub__(self, other: Any) -> Dimension:
        return self._compute(operator.sub, other)

    def __rsub__(self, other: Any) -> Dimension:
        return self._compute(operator.sub, other, reflected=True)

    def __mul__(self, other: Any) -> Dimension:
        return self._compute(operator.mul, other)

    def __rmul__(self, other: Any) -> Dimension:
        return self._compute(operator.mul, other, reflected=True)

    def __floordiv__(self, other: Any) -> Dimension:
        return self._compute(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Dimension:
        return self._compute(operator.floordiv, other, reflected=True)

    def __mod__(self, other: Any) -> Dimension:
        return self._compute(operator.mod, other)

    def __rmod__(self, other: Any) -> Dimension:
        return self._compute(operator.mod, other, reflected=True)

    def __truediv__(self, other: Any) -> Dimension:
        raise TypeError(f"A Dimension has no true division (by {type(other).__name__}): please use // instead.")

    def __rtruediv__(self, other: Any) -> Dimension:
        raise TypeError(f"A Dimension has no true division (of {type(other).__name__}): please use // instead.")

    def _compare(self, function: Callable[[int, int], bool], other: Any) -> bool | None:
        if isinstance(other, Dimension):
            other = other._value
        if other is None or self._value is None:
            # An unknown dimension compares only with what could be a dimension.
            return None if other is None or hasattr(other, "__index__") else NotImplemented
        try:
            return function(self._value, operator.index(other))
        except TypeError:
            return NotImplemented  # type: ignore[no-any-return]

    def __eq__(self, other: object) -> bool | None:  # type: ignore[override]
        return self._compare(operator.eq, other)

    def __ne__(self, other: object) -> bool | None:  # type: ignore[override]
        return self._compare(operator.ne, other)

    # As in TensorFlow: an unknown dimension equals nothing, not even itself, and has no use as a key.
    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> bool | None:
        return self._compare(operator.lt, other)

    def __le__(self, other: Any) -> bool | None:
        return self._compare(operator.le, other)

    def __gt__(self, other: Any) -> bool | None:
        return self._compare(operator.gt, other)

    def __ge__(self, other: Any) -> bool | None:
        return self._compare(operator.ge, other)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __int__(self) -> int:
        return self.__index__()

    def __index__(self) -> int:
        if self._value is None:
            raise TypeError("An unknown Dimension has no integer value; tf.shape(x) gives the sizes at run time.")
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __reduce__(self) -> tuple[type[Dimension], tuple[int | None]]:
        return Dimension, (self._value,)


# Whether items of shapes are integers, as in TensorFlow 2; see `version_two.switches`.
items_are_integers = False


class Size(int):
    """A size in a shape where items are integers; knows what code for Dimensions asks for."""

    @property
    def value(self) -> int:
        """The number."""
        return int(self)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether another one is equal, or not known."""
        return Dimension(self).is_compatible_with(other)


def _item(size: int | None) -> Dimension:
    if items_are_integers:
        return None if size is None else Size(size)  # type: ignore[return-value]
    return Dimension(size)


class TensorShape:
    """What is known of a tensor's shape before a step runs: all of it, the rank and some dimensions, or nothing.

    Example:
        >>> TensorShape([None, 3]).merge_with([2, None])
        TensorShape([Dimension(2), Dimension(3)])
        >>> TensorShape(None).with_rank(2).as_list()
        [None, None]
    """

    __slots__ = ("_dims",)

    _dims: Dims

    def __init__(self, dims: Any) -> None:
        """Creates a shape.

        Args:
            dims: None for a shape of unknown rank, an iterable of dimensions (integers, None, Dimensions), a single
                dimension for a vector, another TensorShape, or a TensorShapeProto.

        Raises:
            TypeError: If something in `dims` cannot be a dimension.
            ValueError: If a dimension is negative.
        """
        if dims is None or type(dims) is TensorShape:
            self._dims = None if dims is None else dims._dims
        elif type(dims) is list or type(dims) is tuple:
            self._dims = tuple([_dimension_value(d) for d in dims])
        elif hasattr(dims, "unknown_rank"):
            self._dims = _dims_of_proto(dims)
        else:
            try:
                iterator: Iterator[Any] = iter(dims)
            except TypeError:
                iterator = iter((dims,))
            self._dims = tuple([_dimension_value(d) for d in iterator])

    @staticmethod
    def _of(dims: Dims) -> TensorShape:
        """Makes a shape of dimensions that are known to be valid (ints >= 0 or None). For shape functions."""
        if not dims:
            return UNKNOWN if dims is None else SCALAR
        shape = object.__new__(TensorShape)
        shape._dims = dims
        return shape

    @property
    def dims_tuple(self) -> Dims:
        """The dimensions as a tuple of ints and None, or None if the rank is unknown."""
        return self._dims

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions as Dimension objects, or None if the rank is unknown."""
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is unknown."""
        return None if self._dims is None else len(self._dims)

    ndims = rank

    def as_list(self) -> list[int | None]:
        """The dimensions as a list of ints and None; raises ValueError if the rank is unknown."""
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._dims)

    def num_elements(self) -> int | None:
        """The number of elements of a tensor of this shape, or None if a dimension is unknown."""
        if self._dims is None or None in self._dims:
            return None
        return math.prod(cast("tuple[int, ...]", self._dims))

    def is_fully_defined(self) -> bool:
        """Whether the rank and every dimension are known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self) -> None:
        """Raises ValueError unless every dimension is known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether some tensor could have both shapes."""
        mine, theirs = self._dims, as_shape(other)._dims
        if mine is None or theirs is None or mine == theirs:
            return True
        return len(mine) == len(theirs) and all(
            a is None or b is None or a == b for a, b in zip(mine, theirs, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raises ValueError unless `is_compatible_with(other)`."""
        other = as_shape(other)
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """Everything that both shapes know; raises ValueError if they contradict each other."""
        other_shape = as_shape(other)
        mine, theirs = self._dims, other_shape._dims
        if theirs is None or mine == theirs:
            return self
        if mine is None:
            return other_shape
        if not self.is_compatible_with(other_shape):
            raise ValueError(f"Shapes {self} and {other_shape} are not compatible")
        return TensorShape._of(tuple([b if a is None else a for a, b in zip(mine, theirs, strict=True)]))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """The most precise shape that covers both: a dimension that differs becomes unknown, a rank likewise."""
        mine, theirs = self._dims, as_shape(other)._dims
        if mine == theirs:
            return self
        if mine is None or theirs is None or len(mine) != len(theirs):
            return UNKNOWN
        return TensorShape._of(tuple([a if a == b else None for a, b in zip(mine, theirs, strict=True)]))

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorShape | None:
        """`most_specific_compatible_shape` over any number of shapes; None if one of them is no TensorShape."""
        shape = self
        for other in others:
            if not isinstance(other, TensorShape):
                return None
            shape = shape.most_specific_compatible_shape(other)
        return shape

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every tensor of this shape also has the shape `other`."""
        if not isinstance(other, TensorShape):
            return False
        mine, theirs = self._dims, other._dims
        if theirs is None or mine == theirs:
            return True
        if mine is None or len(mine) != len(theirs):
            return False
        return all(b is None or a == b for a, b in zip(mine, theirs, strict=True))

    def concatenate(self, other: Any) -> TensorShape:
        """The dimensions of this shape followed by those of `other`; unknown if either rank is."""
        mine, theirs = self._dims, as_shape(other)._dims
        return UNKNOWN if mine is None or theirs is None else TensorShape._of(mine + theirs)

    def with_rank(self, rank: Any) -> TensorShape:
        """This shape, once it is known to have `rank` dimensions; raises ValueError if it has another number."""
        if self._dims is None:
            return unknown_shape(rank)
        self.assert_has_rank(rank)
        return self

    def with_rank_at_least(self, rank: Any) -> TensorShape:
        """This shape; raises ValueError if it is known to have fewer than `rank` dimensions."""
        if self._dims is not None and len(self._dims) < operator.index(rank):
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: Any) -> TensorShape:
        """This shape; raises ValueError if it is known to have more than `rank` dimensions."""
        if self._dims is not None and len(self._dims) > operator.index(rank):
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: Any) -> None:
        """Raises ValueError if the shape is known to have a rank other than `rank`."""
        if self._dims is not None and rank is not None and len(self._dims) != operator.index(rank):
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Raises ValueError if both ranks are known and differ."""
        other = as_shape(other)
        if self._dims is not None and other._dims is not None and len(self._dims) != len(other._dims):
            raise ValueError(f"Shapes {self} and {other} must have the same rank")

    def as_proto(self) -> Any:
        """The shape as a TensorShapeProto, in which -1 stands for an unknown dimension."""
        # Imported late: protobuf is slow to load, and most programs never serialize a shape.
        from tensorboard.compat.proto import tensor_shape_pb2  # Start-up time: protobuf is slow to import.

        if self._dims is None:
            return tensor_shape_pb2.TensorShapeProto(unknown_rank=True)
        dims = [tensor_shape_pb2.TensorShapeProto.Dim(size=-1 if d is None else d) for d in self._dims]
        return tensor_shape_pb2.TensorShapeProto(dim=dims)

    @staticmethod
    def from_proto(proto: Any) -> TensorShape:
        """The shape that a TensorShapeProto (of any protobuf package) describes."""
        return TensorShape._of(_dims_of_proto(proto))

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._dims)

    def __iter__(self) -> Iterator[Dimension]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        if items_are_integers:
            return iter([None if d is None else Size(d) for d in self._dims])  # type: ignore[misc]
        return iter([Dimension(d) for d in self._dims])

    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    @overload
    def __getitem__(self, key: Any) -> Dimension: ...
    def __getitem__(self, key: Any) -> TensorShape | Dimension:
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape._of(self._dims[key])
            return _item(self._dims[key])
        if not isinstance(key, slice):
            return _item(None)
        # Of a slice of an unknown shape only the length can be known, and only where it counts from the front.
        start, stop = key.start or 0, key.stop
        if key.step is not None:
            raise ValueError("A slice with a step of a shape with unknown rank is not defined.")
        if stop is None or start < 0 or stop < 0:
            return UNKNOWN
        return unknown_shape(max(0, stop - start))

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: object) -> bool:
        if type(other) is not TensorShape:
            try:
                other = as_shape(other)
            except (TypeError, ValueError):
                return NotImplemented
        return self._dims == other._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return as_shape(other).concatenate(self)

    __concat__ = __add__

    def __repr__(self) -> str:
        return f"TensorShape({self.as_list() if items_are_integers and self._dims is not None else self.dims})"

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        unknown = "None" if items_are_integers else "?"
        inner = ", ".join([unknown if d is None else str(d) for d in self._dims])
        return f"({inner},)" if len(self._dims) == 1 else f"({inner})"

    def __reduce__(self) -> tuple[type[TensorShape], tuple[Dims]]:
        return TensorShape, (self._dims,)


UNKNOWN: Final = TensorShape(None)
"""The shape of which not even the rank is known."""
SCALAR: Final = TensorShape(())


def _dims_of_proto(proto: Any) -> Dims:
    if proto.unknown_rank:
        return None
    return tuple([None if d.size < 0 else int(d.size) for d in proto.dim])


def as_shape(shape: Any) -> TensorShape:
    """Converts anything the TensorShape constructor takes; a TensorShape comes back as it is."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def dimension_value(dimension: Any) -> int | None:
    """The number behind a Dimension; an integer or None comes back as it is."""
    return _dimension_value(dimension)


def dimension_at_index(shape: Any, index: int) -> Dimension:
    """The dimension of `shape` at `index`, which is unknown if the rank is."""
    return as_shape(shape)[index]


def unknown_shape(rank: Any = None) -> TensorShape:
    """A shape of unknown dimensions: of unknown rank too, unless `rank` is given."""
    return UNKNOWN if rank is None else TensorShape._of((None,) * operator.index(rank))


def scalar() -> TensorShape:
    """The shape of a scalar."""
    return SCALAR


def vector(length: Any) -> TensorShape:
    """The shape of a vector; `length` may be None."""
    return TensorShape((length,))


def matrix(rows: Any, cols: Any) -> TensorShape:
    """The shape of a matrix; `rows` and `cols` may be None."""
    return TensorShape((rows, cols))
