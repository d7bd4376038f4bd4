"""Nested structures of tensors, sparse tensors, slices and TensorArrays, as loops and conditionals carry them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thalweg.graph import nest
from thalweg.graph.composite import IndexedSlices, SparseTensor
from thalweg.graph.operation import Operation
from thalweg.graph.tensor import Tensor

nest.register_composite(
    SparseTensor,
    lambda value: (value.indices, value.values, value.dense_shape),
    lambda value, parts: SparseTensor(*parts),
)
nest.register_composite(
    IndexedSlices,
    lambda value: tuple(part for part in (value.values, value.indices, value.dense_shape) if part is not None),
    lambda value, parts: IndexedSlices(*parts),
)


def is_tensor_array(value: Any) -> bool:
    """Whether a value is a TensorArray."""
    return type(value).__name__ in ("TensorArray", "EagerTensorArray") and hasattr(value, "flow")


def flatten(structure: Any) -> list[Any]:
    """The tensors of a structure: a composite gives its parts, a TensorArray its flow."""
    flat: list[Any] = []
    for atom in nest.flatten(structure):
        if is_tensor_array(atom):
            flat.append(atom.flow)
        else:
            flat.extend(nest.flatten(atom, expand_composites=True))
    return flat


def pack_as(structure: Any, tensors: Sequence[Any]) -> Any:
    """Puts tensors in the place of those that `flatten(structure)` gave."""
    rest = iter(tensors)
    atoms: list[Any] = []
    for atom in nest.flatten(structure):
        if is_tensor_array(atom):
            atoms.append(with_flow(atom, next(rest)))
        elif nest.is_composite(atom):
            parts = nest.flatten(atom, expand_composites=True)
            atoms.append(nest.pack_sequence_as(atom, [next(rest) for _ in parts], expand_composites=True))
        else:
            atoms.append(next(rest))
    return nest.pack_sequence_as(structure, atoms)


def with_flow(array: Any, flow: Tensor) -> Any:
    """The TensorArray `array` at another point of its history."""
    return array._with_flow(flow)


def convert_atoms(structure: Any, convert: Any) -> Any:
    """Applies `convert` to all atoms that are not tensors of some kind."""
    known = (Tensor, SparseTensor, IndexedSlices, Operation)
    return nest.map_structure(
        lambda atom: atom if isinstance(atom, known) or is_tensor_array(atom) else convert(atom), structure
    )


def singleton(values: Any) -> Any:
    """The only element of a list or tuple; anything else as it is."""
    if isinstance(values, (list, tuple)) and not hasattr(values, "_fields") and len(values) == 1:
        return values[0]
    return values
