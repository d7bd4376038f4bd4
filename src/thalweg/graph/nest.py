"""Nested structures of values: flatten them, pack them again, map over them (`tf.nest`).

A structure is a sequence, named tuple or mapping, nested to any depth; everything else, strings, arrays and Tensors
included, is an atom. Mappings are walked in the order of their sorted keys, so that two dicts with equal keys flatten
alike whatever order they were filled in. A composite (a SparseTensor, an IndexedSlices) is an atom too, unless a caller
passes `expand_composites=True`: then it is a structure of its component tensors.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from typing import Any, Final, NamedTuple

_MAX_SHOWN: Final = 200  # Characters of a structure that an error message repeats.


class _Composite(NamedTuple):
    components: Callable[[Any], Sequence[Any]]
    rebuild: Callable[[Any, Sequence[Any]], Any]


_COMPOSITES: Final[dict[type, _Composite]] = {}


def register_composite(
    cls: type, components: Callable[[Any], Sequence[Any]], rebuild: Callable[[Any, Sequence[Any]], Any]
) -> None:
    """Declares that the values of a class stand for several tensors.

    Args:
        cls: The class; subclasses are composites too.
        components: Takes a value, returns its parts (None among them is an atom like any other).
        rebuild: Takes a value and as many new parts, returns a value like it with the new parts.
    """
    _COMPOSITES[cls] = _Composite(components, rebuild)


def _composite_of(value: Any) -> _Composite | None:
    for base in type(value).__mro__:
        if base in _COMPOSITES:
            return _COMPOSITES[base]
    return None


def is_nested(structure: Any) -> bool:
    """Whether a value is a structure (and not an atom).

    Example:
        >>> is_nested([1]), is_nested({}), is_nested('abc')
        (True, True, False)
    """
    kind = type(structure)
    if kind is list or kind is tuple or kind is dict:
        return True
    if kind is str or kind is bytes:
        return False
    return isinstance(structure, (Sequence, Mapping, MappingView)) and not isinstance(
        structure, (str, bytes, bytearray, memoryview)
    )


is_sequence = is_nested


def _is_namedtuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields") and hasattr(value, "_make")


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError as error:
        raise TypeError(f"A nested dict needs keys that can be sorted, got {_shown(list(mapping))}: {error}.") from None


def _entries(structure: Any, expand_composites: bool) -> list[tuple[Any, Any]] | None:
    """The (key, child) pairs of a structure in flattening order, or None for an atom."""
    if is_nested(structure):
        if isinstance(structure, Mapping):
            return [(key, structure[key]) for key in _sorted_keys(structure)]
        if _is_namedtuple(structure):
            return list(zip(structure._fields, structure, strict=True))
        return list(enumerate(structure))
    composite = _composite_of(structure) if expand_composites else None
    return None if composite is None else list(enumerate(composite.components(structure)))


def _rebuild(structure: Any, children: Sequence[Any]) -> Any:
    """A structure of the same kind as `structure` around new children, given in flattening order."""
    if isinstance(structure, Mapping):
        by_key = dict(zip(_sorted_keys(structure), children, strict=True))
        items = [(key, by_key[key]) for key in structure]
        if isinstance(structure, collections.defaultdict):
            return type(structure)(structure.default_factory, items)
        return type(structure)(items)  # type: ignore[call-arg]
    if _is_namedtuple(structure):
        return structure._make(children)
    if isinstance(structure, (range, MappingView)):
        return list(children)
    if is_nested(structure):
        return type(structure)(children)
    composite = _composite_of(structure)
    assert composite is not None
    return composite.rebuild(structure, children)


def _walk(structure: Any, expand_composites: bool, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    entries = _entries(structure, expand_composites)
    if entries is None:
        yield path, structure
        return
    for key, child in entries:
        yield from _walk(child, expand_composites, (*path, key))


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The atoms of a structure, from left to right; an atom alone gives a list of itself.

    Example:
        >>> flatten({'b': 1, 'a': [2, (3, 4)]})
        [2, 3, 4, 1]
    """
    flat: list[Any] = []
    _flatten_into(structure, expand_composites, flat)
    return flat


def _flatten_into(structure: Any, expand_composites: bool, flat: list[Any]) -> None:
    kind = type(structure)
    if kind is list or kind is tuple:
        for child in structure:
            _flatten_into(child, expand_composites, flat)
        return
    entries = _entries(structure, expand_composites)
    if entries is None:
        flat.append(structure)
        return
    for _, child in entries:
        _flatten_into(child, expand_composites, flat)


def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple[tuple[Any, ...], Any]]:
    """The atoms of a structure, each with the keys, indices and field names that lead to it."""
    return list(_walk(structure, expand_composites, ()))


def outline(structure: Any, expand_composites: bool = False) -> Any:
    """A hashable description of a structure without its atoms: equal for structures of one form only.

    Example:
        >>> outline([1, (2,)]) == outline(["a", ("b",)]), outline([1, 2]) == outline((1, 2))
        (True, False)
    """
    entries = _entries(structure, expand_composites)
    if entries is None:
        return None
    return (type(structure), *((type(key), key, outline(child, expand_composites)) for key, child in entries))


def is_composite(value: Any) -> bool:
    """Whether a value stands for several tensors; see `register_composite`."""
    return _composite_of(value) is not None


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """Like `flatten_with_tuple_paths`, with every path joined to a string such as `'layers/0/kernel'`."""
    return [(separator.join(map(str, path)), atom) for path, atom in _walk(structure, expand_composites, ())]


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Puts atoms into the shape of a structure: the inverse of `flatten`.

    Args:
        structure: The structure to imitate; its own atoms are ignored.
        flat_sequence: As many values as `flatten(structure)` has.
        expand_composites: Whether a composite in `structure` takes its components from `flat_sequence`.

    Returns:
        A structure of the same kind, mappings in the order of their own keys.

    Raises:
        TypeError: If `flat_sequence` is not a sequence.
        ValueError: If it has too many or too few values.

    Example:
        >>> pack_sequence_as({'b': 0, 'a': [0, 0]}, [1, 2, 3])
        {'b': 3, 'a': [1, 2]}
    """
    if not is_nested(flat_sequence):
        raise TypeError(f"flat_sequence must be a sequence of atoms, got {_shown(flat_sequence)}.")
    atoms = list(flat_sequence)
    expected = len(flatten(structure, expand_composites))
    if len(atoms) != expected:
        raise ValueError(
            f"Cannot pack {len(atoms)} values into a structure of {expected} atoms. "
            f"Structure: {_shown(structure)}; values: {_shown(atoms)}."
        )
    return _pack(structure, iter(atoms), expand_composites)


def _pack(structure: Any, atoms: Iterator[Any], expand_composites: bool) -> Any:
    entries = _entries(structure, expand_composites)
    if entries is None:
        return next(atoms)
    return _rebuild(structure, [_pack(child, atoms, expand_composites) for _, child in entries])


def map_structure(
    func: Callable[..., Any], *structures: Any, check_types: bool = True, expand_composites: bool = False
) -> Any:
    """Applies a function to the atoms of one structure, or of several alike structures in parallel.

    Args:
        func: Takes one atom of each structure.
        *structures: The structures, at least one; all must have the same structure.
        check_types: Whether a list must meet a list, and a tuple a tuple.
        expand_composites: Whether to go into composites.

    Returns:
        The results in the shape of the first structure.

    Example:
        >>> map_structure(lambda x, y: x + y, {'a': 1, 'b': (2, 3)}, {'a': 10, 'b': (20, 30)})
        {'a': 11, 'b': (22, 33)}
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func!r}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types, expand_composites)
    columns = [flatten(structure, expand_composites) for structure in structures]
    results = [func(*atoms) for atoms in zip(*columns, strict=True)]
    return _pack(structures[0], iter(results), expand_composites)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Checks that two structures differ in nothing but their atoms.

    Args:
        nest1: A structure or atom.
        nest2: Another.
        check_types: Whether sequences must also be of the same type. Two mappings are always alike, and so are two
            named tuples of one name and with equal fields.
        expand_composites: Whether to go into composites.

    Raises:
        ValueError: If one has an atom where the other is nested, or the lengths or keys differ.
        TypeError: If the types of two sequences differ, and `check_types`.
    """
    difference = _difference(nest1, nest2, check_types, expand_composites, ())
    if difference is not None:
        error_type, text = difference
        raise error_type(
            f"The two structures don't have the same nested structure: {text}\n"
            f"First structure: {_shown(nest1)}\nSecond structure: {_shown(nest2)}"
        )


def _difference(
    a: Any, b: Any, check_types: bool, expand_composites: bool, path: tuple[Any, ...]
) -> tuple[type[Exception], str] | None:
    a_entries, b_entries = _entries(a, expand_composites), _entries(b, expand_composites)
    if a_entries is None and b_entries is None:
        return None
    place = f"at {'/'.join(map(str, path))}, " if path else ""
    if a_entries is None or b_entries is None:
        nested, atom = (_shown(a), _shown(b)) if b_entries is None else (_shown(b), _shown(a))
        return ValueError, f"{place}{nested} is nested, while {atom} is not."
    both_mappings = isinstance(a, Mapping) and isinstance(b, Mapping)
    if check_types and not both_mappings and type(a) is not type(b) and not _same_namedtuples(a, b):
        return TypeError, f"{place}the first is a {type(a).__name__}, the second a {type(b).__name__}."
    if len(a_entries) != len(b_entries):
        return ValueError, f"{place}the first has {len(a_entries)} elements, the second {len(b_entries)}."
    if both_mappings and (a_keys := [k for k, _ in a_entries]) != (b_keys := [k for k, _ in b_entries]):
        return ValueError, f"{place}the first has the keys {_shown(a_keys)}, the second {_shown(b_keys)}."
    for (key, a_child), (_, b_child) in zip(a_entries, b_entries, strict=True):
        difference = _difference(a_child, b_child, check_types, expand_composites, (*path, key))
        if difference is not None:
            return difference
    return None


def _same_namedtuples(a: Any, b: Any) -> bool:
    return (
        _is_namedtuple(a)
        and _is_namedtuple(b)
        and type(a).__name__ == type(b).__name__
        and bool(a._fields == b._fields)
    )


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True) -> list[Any]:
    """Flattens a structure no deeper than another one goes.

    Example:
        >>> flatten_up_to([0, 0], [[3, 4], (5,)])
        [[3, 4], (5,)]
    """
    shallow = _entries(shallow_tree, False)
    if shallow is None:
        return [input_tree]
    deep = _entries(input_tree, False)
    if deep is None:
        raise TypeError(f"The shallow structure is nested here ({_shown(shallow_tree)}), but got {_shown(input_tree)}.")
    both_mappings = isinstance(shallow_tree, Mapping) and isinstance(input_tree, Mapping)
    same_type = both_mappings or type(shallow_tree) is type(input_tree) or _same_namedtuples(shallow_tree, input_tree)
    if check_types and not same_type:
        raise TypeError(
            f"The shallow structure is a {type(shallow_tree).__name__} here, the input a {type(input_tree).__name__}."
        )
    if len(shallow) != len(deep) or (both_mappings and [k for k, _ in shallow] != [k for k, _ in deep]):
        raise ValueError(
            f"The shallow structure {_shown(shallow_tree)} and the input {_shown(input_tree)} differ in length or keys."
        )
    return _concatenated(flatten_up_to(s, d, check_types) for (_, s), (_, d) in zip(shallow, deep, strict=True))


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, check_types: bool = True) -> Any:
    """Applies a function to what stands, in each input, where the shallow structure has its atoms."""
    if not inputs:
        raise ValueError("Must provide at least one structure")
    columns = [flatten_up_to(shallow_tree, tree, check_types) for tree in inputs]
    return _pack(shallow_tree, iter([func(*atoms) for atoms in zip(*columns, strict=True)]), False)


def _concatenated(lists: Iterable[list[Any]]) -> list[Any]:
    return [item for one in lists for item in one]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
