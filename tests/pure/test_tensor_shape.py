"""Tests of static shapes: dimensions with unknown values, and shapes with unknown dimensions or rank."""

import copy
import doctest
import itertools
import pickle
from typing import Any

import numpy as np
import pytest

from thalweg.graph import tensor_shape
from thalweg.graph.tensor_shape import Dimension, TensorShape

SHAPES: list[Any] = [None, [], [0], [2], [None], [2, 3], [None, 3], [2, None], [None, None], [2, 3, 4]]
PAIRS = list(itertools.product(SHAPES, SHAPES))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (lambda d: d + 2, 9),
        (lambda d: 2 + d, 9),
        (lambda d: d - 2, 5),
        (lambda d: 10 - d, 3),
        (lambda d: d * 2, 14),
        (lambda d: 2 * d, 14),
        (lambda d: d // 2, 3),
        (lambda d: 15 // d, 2),
        (lambda d: d % 4, 3),
        (lambda d: 15 % d, 1),
        (lambda d: d + Dimension(1), 8),
        (lambda d: d * np.int64(2), 14),
    ],
)
def test_arithmetic_of_dimensions_is_that_of_integers(expression: Any, expected: int) -> None:
    result = expression(Dimension(7))
    assert isinstance(result, Dimension)
    assert result.value == expected
    assert expression(Dimension(None)).value is None


def test_arithmetic_with_none_is_unknown() -> None:
    assert (Dimension(7) + None).value is None
    assert (None * Dimension(7)).value is None


def test_comparisons_with_an_unknown_dimension_are_none() -> None:
    unknown = Dimension(None)
    for comparison in (unknown == 3, unknown != 3, unknown < 3, unknown >= 3, unknown == unknown, Dimension(3) == None):  # noqa: E711
        assert comparison is None
    assert Dimension(3) == 3
    assert Dimension(3) != 4
    assert Dimension(3) < 4 <= Dimension(4)
    assert Dimension(3) > -1
    assert (Dimension(3) == "3") is False
    assert (unknown == "3") is False


@pytest.mark.parametrize("bad", [3.0, 3.5, "3", [1], {}, object()])
def test_a_dimension_must_be_an_integer(bad: object) -> None:
    with pytest.raises(TypeError, match="integer or None"):
        Dimension(bad)


def test_impossible_dimensions_and_operations_are_refused() -> None:
    with pytest.raises(ValueError, match="must be >= 0"):
        Dimension(-1)
    with pytest.raises(ValueError, match="must be >= 0"):
        Dimension(3) - 5
    with pytest.raises(TypeError, match="use // instead"):
        Dimension(3) / 2
    with pytest.raises(TypeError, match="use // instead"):
        3 / Dimension(3)
    with pytest.raises(TypeError, match="unsupported operand"):
        Dimension(3) + "a"
    with pytest.raises(TypeError, match="not supported"):
        _ = Dimension(3) < "a"
    with pytest.raises(ZeroDivisionError):
        Dimension(3) // 0
    with pytest.raises(TypeError, match="unhashable"):
        hash(Dimension(3))


def test_a_known_dimension_serves_as_an_integer() -> None:
    assert int(Dimension(3)) == 3
    assert list(range(Dimension(3))) == [0, 1, 2]
    assert np.zeros([Dimension(2), 3]).shape == (2, 3)
    assert bool(Dimension(0)) is False
    with pytest.raises(TypeError, match=r"tf\.shape"):
        int(Dimension(None))
    assert (str(Dimension(3)), str(Dimension(None))) == ("3", "?")


def test_merging_dimensions_keeps_the_known_one() -> None:
    assert Dimension(None).merge_with(4).value == 4
    assert Dimension(4).merge_with(None).value == 4
    assert Dimension(4).is_compatible_with(None)
    with pytest.raises(ValueError, match="3 and 4 are not compatible"):
        Dimension(3).merge_with(4)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (None, None),
        ([], ()),
        ((), ()),
        ([1, None], (1, None)),
        (5, (5,)),
        (Dimension(5), (5,)),
        ([Dimension(5), Dimension(None)], (5, None)),
        (np.array([1, 2]), (1, 2)),
        (np.int64(4), (4,)),
        (range(3), (0, 1, 2)),
        (TensorShape([7]), (7,)),
        ((d for d in (1, 2)), (1, 2)),
    ],
)
def test_a_shape_is_made_of_many_things(source: Any, expected: Any) -> None:
    shape = TensorShape(source)
    assert shape.dims_tuple == expected
    assert shape.dims_tuple is None or all(d is None or type(d) is int for d in shape.dims_tuple)


@pytest.mark.parametrize("bad", ["12", [1.0], [1, [2]], [1, "a"], 1.5, object()])
def test_a_shape_of_anything_else_is_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError, match="integer or None"):
        TensorShape(bad)


def test_a_negative_dimension_is_a_value_error() -> None:
    for bad in (-1, [-1], [2, -3]):
        with pytest.raises(ValueError, match="Write None"):
            TensorShape(bad)


def test_what_a_shape_prints() -> None:
    assert str(TensorShape(None)) == "<unknown>"
    assert str(TensorShape([])) == "()"
    assert str(TensorShape([3])) == "(3,)"
    assert str(TensorShape([3, None])) == "(3, ?)"
    assert repr(TensorShape([3, None])) == "TensorShape([Dimension(3), Dimension(None)])"
    assert repr(TensorShape(None)) == "TensorShape(None)"


def test_rank_elements_and_lists() -> None:
    assert TensorShape([2, 3]).ndims == TensorShape([2, None]).rank == 2
    assert TensorShape(None).ndims is None
    assert TensorShape(None).dims is None
    assert TensorShape([2, 3]).num_elements() == 6
    assert TensorShape([]).num_elements() == 1
    assert TensorShape([0, None]).num_elements() is None
    assert TensorShape([2, None]).as_list() == [2, None]
    assert [d.value for d in TensorShape([2, None]).dims or []] == [2, None]
    with pytest.raises(ValueError, match="as_list"):
        TensorShape(None).as_list()


def test_indexing_gives_dimensions_and_slicing_gives_shapes() -> None:
    shape = TensorShape([2, None, 4])
    assert isinstance(shape[0], Dimension)
    assert shape[-1].value == 4
    assert shape[1].value is None
    assert shape[1:] == TensorShape([None, 4])
    assert shape[::2].as_list() == [2, 4]
    assert [d.value for d in shape] == [2, None, 4]
    assert len(shape) == 3
    with pytest.raises(IndexError):
        shape[3]
    with pytest.raises(TypeError):
        shape["a"]


def test_of_an_unknown_shape_only_the_length_of_a_slice_can_be_known() -> None:
    unknown = TensorShape(None)
    assert unknown[5].value is None
    assert unknown[1:3].as_list() == [None, None]
    assert unknown[:2].rank == 2
    assert unknown[3:1].rank == 0
    assert unknown[1:].rank is None
    assert unknown[:-1].rank is None
    with pytest.raises(ValueError, match="step"):
        unknown[0:4:2]
    with pytest.raises(ValueError, match="iterate"):
        list(unknown)
    with pytest.raises(ValueError, match="length"):
        len(unknown)


def test_equality_truth_and_hash() -> None:
    assert TensorShape([1, None]) == TensorShape([1, None]) == [1, None] == TensorShape((1, None))
    assert TensorShape([1, None]) != TensorShape([1, 2])
    assert TensorShape(None) == TensorShape(None)
    assert TensorShape([]) != TensorShape(None)
    assert TensorShape([1]) != "a"
    assert TensorShape([1]) != [-1]
    assert bool(TensorShape([])) and not bool(TensorShape(None))
    assert hash(TensorShape([1, 2])) == hash(TensorShape((1, 2)))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_merging_agrees_with_compatibility_and_is_the_most_that_is_known(a: Any, b: Any) -> None:
    x, y = TensorShape(a), TensorShape(b)
    assert x.is_compatible_with(y) == y.is_compatible_with(x)
    if not x.is_compatible_with(y):
        with pytest.raises(ValueError, match="not compatible"):
            x.merge_with(y)
        with pytest.raises(ValueError, match="incompatible"):
            x.assert_is_compatible_with(b)
        return
    merged = x.merge_with(b)
    assert merged == y.merge_with(x)
    assert merged.is_subtype_of(x)
    assert merged.is_subtype_of(y)


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_the_most_specific_compatible_shape_covers_both(a: Any, b: Any) -> None:
    x, y = TensorShape(a), TensorShape(b)
    cover = x.most_specific_compatible_shape(b)
    assert x.is_subtype_of(cover) and y.is_subtype_of(cover)
    assert cover == y.most_specific_common_supertype([x])
    for other in map(TensorShape, SHAPES):
        if x.is_subtype_of(other) and y.is_subtype_of(other):
            assert cover.is_subtype_of(other)


def test_concatenation() -> None:
    one = TensorShape([1])
    assert (one + TensorShape([2, None])).as_list() == [1, 2, None]
    assert ((3,) + one).as_list() == (3 + one).as_list() == [3, 1]  # noqa: RUF005
    assert TensorShape([1]).concatenate(None).rank is None


def test_demands_on_the_rank() -> None:
    shape = TensorShape([2, None])
    assert shape.with_rank(2) is shape
    assert shape.with_rank_at_least(1) is shape
    assert shape.with_rank_at_most(3) is shape
    assert TensorShape(None).with_rank(2).as_list() == [None, None]
    assert TensorShape(None).with_rank_at_least(2).rank is None
    shape.assert_same_rank(None)
    for refused in (
        lambda: shape.with_rank(1),
        lambda: shape.with_rank_at_least(3),
        lambda: shape.with_rank_at_most(1),
        lambda: shape.assert_has_rank(3),
        lambda: shape.assert_same_rank([1]),
        lambda: shape.assert_is_fully_defined(),
    ):
        with pytest.raises(ValueError, match=r"\(2, \?\)"):
            refused()


def test_unchecked_construction_shares_the_common_shapes() -> None:
    assert TensorShape._of(None) is tensor_shape.UNKNOWN is tensor_shape.unknown_shape()
    assert TensorShape._of(()) is tensor_shape.SCALAR is tensor_shape.scalar()
    assert TensorShape._of((1, None)) == TensorShape([1, None])
    assert tensor_shape.vector(3).as_list() == [3]
    assert tensor_shape.matrix(3, None).as_list() == [3, None]
    assert tensor_shape.unknown_shape(2).as_list() == [None, None]
    assert tensor_shape.dimension_value(Dimension(3)) == tensor_shape.dimension_value(3) == 3


@pytest.mark.parametrize("dims", SHAPES, ids=str)
def test_copies_pickles_and_protos_keep_a_shape(dims: Any) -> None:
    shape = TensorShape(dims)
    assert pickle.loads(pickle.dumps(shape)) == copy.deepcopy(shape) == shape
    proto = shape.as_proto()
    assert proto.unknown_rank == (dims is None)
    assert [d.size for d in proto.dim] == [-1 if d is None else d for d in dims or []]
    assert TensorShape(proto) == TensorShape.from_proto(proto) == tensor_shape.as_shape(proto) == shape


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(tensor_shape).failed == 0
