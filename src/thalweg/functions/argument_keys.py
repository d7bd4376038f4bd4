"""Which calls of a traced function are alike: keys of their arguments, and what differs between two keys."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from thalweg.graph import nest
from thalweg.graph.dtypes import as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape
from thalweg.graph.tensor_spec import TensorSpec


class ArgumentKey(NamedTuple):
    """Equal for calls that one trace serves.

    Attributes:
        form: The arguments' structure; see `nest.outline`.
        atoms: For each atom: a tensor's type and shape, or a value with its type.
    """

    form: Any
    atoms: tuple[Any, ...]


def is_tensor(value: Any) -> bool:
    """Whether an argument becomes a tensor of the function's body."""
    return isinstance(value, (Tensor, TensorSpec, np.ndarray))


def specs_of(structure: Any, flat: Sequence[Any]) -> list[TensorSpec | None]:
    """The types and shapes for which to trace: None for arguments that are no tensors.

    The parts of a sparse or ragged value have as many rows as the value needs: each number of them would be a trace.
    """
    parts: set[int] = set()
    for value in nest.flatten(structure):
        if nest.is_composite(value):
            tensors = nest.flatten(value, expand_composites=True)
            parts.update(id(tensor) for tensor in tensors if tensor is not getattr(value, "dense_shape", None))
    return [_spec(value, id(value) in parts) if is_tensor(value) else None for value in flat]


def _spec(value: Any, is_part: bool) -> TensorSpec:
    shape = TensorShape(value.shape)
    if is_part and shape.ndims:
        shape = TensorShape([None, *shape.as_list()[1:]])
    return TensorSpec(shape, as_dtype(value.dtype).base_dtype, value.name if isinstance(value, TensorSpec) else None)


def key_of(structure: Any, flat: Sequence[Any], specs: Sequence[TensorSpec | None]) -> ArgumentKey:
    """The key of a call.

    Raises:
        TypeError: If an argument is neither a tensor nor hashable.
    """
    atoms = [
        (spec.dtype, spec.shape.dims_tuple) if spec is not None else exactly(value)
        for value, spec in zip(flat, specs, strict=True)
    ]
    return ArgumentKey(nest.outline(structure, True), tuple(atoms))


def exactly(value: Any) -> Any:
    """A hashable stand-in that is equal only for values of one type with the same bits: 1, 1.0 and True differ.

    Raises:
        TypeError: If the value cannot be hashed.
    """
    kind = type(value)
    if kind is float:
        return kind, struct.pack("d", value)
    if kind is complex:
        return kind, struct.pack("dd", value.real, value.imag)
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"An argument of a tf.function must be a tensor, a variable, a hashable value, or a list, tuple or dict of "
            f"these; got {value!r}, which Python cannot hash: whether the function was traced for it cannot be found "
            "out. Pass a tuple, a frozenset or a frozen dataclass instead."
        ) from None
    return kind, value


def difference(new: ArgumentKey, old: ArgumentKey, names: Sequence[str]) -> str | None:
    """What is different between two calls, in words: the first argument that differs, by its name; None if it is none.

    Args:
        new: The later call.
        old: The earlier call.
        names: The names of the atoms of the later call.
    """
    if new.form != old.form:
        return "the arguments have another structure"
    for name, now, before in zip(names, new.atoms, old.atoms, strict=True):
        if now != before:
            return f"argument '{name}' was {_shown(before)} and is {_shown(now)}"
    return None


def changes(new: ArgumentKey, old: ArgumentKey) -> int:
    """How many arguments differ; many if the structure does."""
    if new.form != old.form:
        return 1 << 30
    return sum(now != before for now, before in zip(new.atoms, old.atoms, strict=True))


def _shown(atom: Any) -> str:
    if hasattr(atom[0], "as_datatype_enum"):
        dims = atom[1]
        shape = "of unknown rank" if dims is None else str([None if d is None else int(d) for d in dims])
        return f"a {atom[0].name} tensor {shape}"
    if atom[0] is float:
        return repr(struct.unpack("d", atom[1])[0])
    if len(atom) == 3:
        return repr(np.frombuffer(atom[2], atom[1])[0])
    text = repr(atom[1])
    return text if len(text) < 60 else f"{text[:57]}..."
