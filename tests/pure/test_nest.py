"""Tests of nested structures: flattening, packing, mapping, and complaints about structures that differ."""

import collections
import doctest
import types
from typing import Any, NamedTuple

import numpy as np
import pytest

from thalweg.graph import nest
from thalweg.graph.tensor_shape import TensorShape


class Point(NamedTuple):
    x: Any
    y: Any


class Pair(NamedTuple):
    x: Any
    y: Any


class Sparse:
    """A composite of two parts, as a SparseTensor is of three."""

    def __init__(self, indices: Any, values: Any) -> None:
        self.indices = indices
        self.values = values


class SpecialSparse(Sparse):
    pass


@pytest.fixture(autouse=True)
def sparse_is_a_composite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nest, "_COMPOSITES", dict(nest._COMPOSITES))
    nest.register_composite(Sparse, lambda s: (s.indices, s.values), lambda s, parts: type(s)(*parts))


STRUCTURES: list[Any] = [
    5,
    None,
    "text",
    [],
    (),
    {},
    [1, (2, 3), {"b": 4, "a": [5]}],
    Point(1, [2, Point(3, {"z": 4})]),
    collections.OrderedDict([("b", 1), ("a", (2, 3))]),
    {3: "c", 1: "a", 2: ["b", "b"]},
    [[[[]]], [[1]]],
]


@pytest.mark.parametrize("structure", STRUCTURES, ids=repr)
def test_packing_what_was_flattened_gives_the_structure_back(structure: Any) -> None:
    packed = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert packed == structure
    assert type(packed) is type(structure)
    nest.assert_same_structure(structure, packed)
    assert nest.map_structure(lambda x: x, structure) == structure


def test_sequences_and_mappings_are_nested_and_strings_are_not() -> None:
    for nested in ([], (), {}, Point(1, 2), range(2), {}.values(), collections.deque([1]), types.MappingProxyType({})):
        assert nest.is_nested(nested)
    for atom in (
        1,
        None,
        "text",
        b"bytes",
        bytearray(b"x"),
        {1, 2},
        np.zeros(2),
        iter([]),
        object,
        TensorShape([1, 2]),
    ):
        assert not nest.is_nested(atom)


def test_an_atom_flattens_to_itself_and_packs_from_one_value() -> None:
    array = np.zeros(3)
    assert nest.flatten(array)[0] is array
    assert nest.pack_sequence_as("atom", [7]) == 7


def test_dicts_flatten_in_the_order_of_their_keys_and_keep_their_own() -> None:
    structure = {"b": 1, "a": 2, "c": 3}
    assert nest.flatten(structure) == [2, 1, 3]
    assert list(nest.pack_sequence_as(structure, [10, 20, 30]).items()) == [("b", 20), ("a", 10), ("c", 30)]
    ordered = collections.OrderedDict([("b", 1), ("a", 2)])
    assert nest.flatten(ordered) == [2, 1]


def test_a_default_dict_keeps_its_factory() -> None:
    packed = nest.pack_sequence_as(collections.defaultdict(list, a=1), [3])
    assert packed["a"] == 3
    assert packed["missing"] == []


def test_ranges_and_views_pack_into_lists() -> None:
    assert nest.map_structure(lambda x: x + 1, range(3)) == [1, 2, 3]
    assert nest.map_structure(str, {"a": 1}.values()) == ["1"]


def test_keys_that_cannot_be_sorted_are_refused() -> None:
    with pytest.raises(TypeError, match="keys that can be sorted"):
        nest.flatten({"a": 1, 2: 2})


@pytest.mark.parametrize(("structure", "values"), [([1, 2], [5]), ([1, 2], [1, 2, 3]), (1, []), (1, [1, 2]), ([], [1])])
def test_packing_a_wrong_number_of_values_is_refused(structure: Any, values: Any) -> None:
    with pytest.raises(ValueError, match=f"pack {len(values)} values"):
        nest.pack_sequence_as(structure, values)


@pytest.mark.parametrize("values", [5, None, "ab", {1, 2}])
def test_packing_from_something_other_than_a_sequence_is_refused(values: Any) -> None:
    with pytest.raises(TypeError, match="must be a sequence"):
        nest.pack_sequence_as([1, 2], values)


def test_mapping_over_several_structures() -> None:
    assert nest.map_structure(lambda x, y: x * y, {"a": 1, "b": Point(2, 3)}, {"b": Point(5, 6), "a": 4}) == {
        "a": 4,
        "b": Point(10, 18),
    }
    assert nest.map_structure(lambda x, y: x + y, [1, 2], (3, 4), check_types=False) == [4, 6]


def test_mapping_needs_a_function_and_a_structure() -> None:
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure(lambda: None)
    with pytest.raises(TypeError, match="callable"):
        nest.map_structure(5, [1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        nest.map_structure(str, [1], unknown=1)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("a", "b", "error", "match"),
    [
        ([1], 1, ValueError, r"\[1\] is nested, while 1 is not"),
        (1, [1], ValueError, r"\[1\] is nested, while 1 is not"),
        ([1, 2], [1], ValueError, "has 2 elements, the second 1"),
        ([1], (1,), TypeError, "is a list, the second a tuple"),
        ({"a": 1}, {"b": 1}, ValueError, r"keys \['a'\], the second \['b'\]"),
        ({"a": [1, [2]]}, {"a": [1, 2]}, ValueError, r"at a/1, \[2\] is nested"),
        (Point(1, 2), Pair(1, 2), TypeError, "is a Point, the second a Pair"),
        (Point(1, 2), (1, 2), TypeError, "is a Point, the second a tuple"),
        (np.zeros(2), [0, 0], ValueError, "is nested"),
    ],
)
def test_structures_that_differ_are_told_apart(a: Any, b: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        nest.assert_same_structure(a, b)
    with pytest.raises(error, match=match):
        nest.map_structure(lambda x, y: x, a, b)


def test_structures_that_count_as_the_same() -> None:
    twin = collections.namedtuple("Point", "x y")
    nest.assert_same_structure({"a": 1}, collections.OrderedDict(a=2))
    nest.assert_same_structure(Point(1, 2), twin(3, 4))
    nest.assert_same_structure([1], (1,), check_types=False)
    nest.assert_same_structure(1, "x")


def test_a_huge_structure_does_not_flood_the_message() -> None:
    with pytest.raises(ValueError, match="elements") as info:
        nest.assert_same_structure(list(range(100000)), [1])
    assert len(str(info.value)) < 1000


def test_paths_lead_to_the_atoms() -> None:
    structure = {"a": [1, 2], "b": Point(3, 4)}
    assert nest.flatten_with_tuple_paths(structure) == [
        (("a", 0), 1),
        (("a", 1), 2),
        (("b", "x"), 3),
        (("b", "y"), 4),
    ]
    assert [path for path, _ in nest.flatten_with_joined_string_paths(structure)] == ["a/0", "a/1", "b/x", "b/y"]
    assert nest.flatten_with_joined_string_paths(5) == [("", 5)]


def test_flattening_up_to_a_shallow_structure() -> None:
    assert nest.flatten_up_to([0, {"k": 0}], [[1, 2], {"k": (3,)}]) == [[1, 2], (3,)]
    assert nest.flatten_up_to(0, [1, 2]) == [[1, 2]]
    assert nest.map_structure_up_to([0, 0], lambda x, n: (len(x), n), [[1], [2, 3]], [7, 8]) == [(1, 7), (2, 8)]
    with pytest.raises(TypeError, match="nested here"):
        nest.flatten_up_to([0, [0]], [1, 2])
    with pytest.raises(TypeError, match="a list here, the input a tuple"):
        nest.flatten_up_to([0], (1,))
    with pytest.raises(ValueError, match="differ in length or keys"):
        nest.flatten_up_to({"a": 0}, {"b": 0})
    with pytest.raises(ValueError, match="at least one structure"):
        nest.map_structure_up_to([0], str)


@pytest.mark.parametrize("cls", [Sparse, SpecialSparse])
def test_composites_are_atoms_unless_expanded(cls: type[Sparse]) -> None:
    value = cls("i", "v")
    assert nest.flatten([value, 1]) == [value, 1]
    assert nest.flatten([value, 1], expand_composites=True) == ["i", "v", 1]
    packed = nest.pack_sequence_as([value, 1], [10, 20, 30], expand_composites=True)
    assert type(packed[0]) is cls
    assert (packed[0].indices, packed[0].values, packed[1]) == (10, 20, 30)
    doubled = nest.map_structure(lambda x: x * 2, value, expand_composites=True)
    assert (doubled.indices, doubled.values) == ("ii", "vv")
    with pytest.raises(ValueError, match="is nested"):
        nest.assert_same_structure(value, 1, expand_composites=True)
    nest.assert_same_structure(value, 1)


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(nest).failed == 0
