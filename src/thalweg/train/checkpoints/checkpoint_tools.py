"""Checkpoints as values: what two of them differ in, their mean, other names; written without the model's graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from thalweg import errors
from thalweg.graph.apply import apply_op
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.default_stack import default_graph_scope
from thalweg.graph.graph import Graph
from thalweg.train.checkpoints.checkpoint_reader import CheckpointReader, load_checkpoint

Array = np.ndarray[Any, Any]


class Difference(NamedTuple):
    """How one variable of two checkpoints differs.

    Attributes:
        name: The variable.
        what: 'only in the first', 'only in the second', 'shape', 'type' or 'values'.
        detail: Both shapes or types, or the largest difference and how many elements differ.
    """

    name: str
    what: str
    detail: str


def differences(first: Any, second: Any) -> list[Difference]:
    """What differs between two checkpoints, by name. NaNs at the same place are equal."""
    a, b = load_checkpoint(first), load_checkpoint(second)
    shapes, types = (a.get_variable_to_shape_map(), b.get_variable_to_shape_map()), (
        a.get_variable_to_dtype_map(), b.get_variable_to_dtype_map(),
    )  # fmt: skip
    found = []
    for name in sorted({*shapes[0], *shapes[1]}):
        if name not in shapes[1] or name not in shapes[0]:
            found.append(Difference(name, f"only in the {'first' if name in shapes[0] else 'second'}", ""))
        elif shapes[0][name] != shapes[1][name]:
            found.append(Difference(name, "shape", f"{shapes[0][name]} and {shapes[1][name]}"))
        elif types[0][name] != types[1][name]:
            found.append(Difference(name, "type", f"{types[0][name].name} and {types[1][name].name}"))
        else:
            detail = _values_differ(np.asarray(a.get_tensor(name)), np.asarray(b.get_tensor(name)))
            if detail:
                found.append(Difference(name, "values", detail))
    return found


def _values_differ(a: Array, b: Array) -> str:
    same = a == b
    if a.dtype.kind in "fc" or a.dtype.kind == "V":
        a, b = a.astype(np.complex128 if a.dtype.kind == "c" else np.float64), b.astype(
            np.complex128 if b.dtype.kind == "c" else np.float64
        )  # fmt: skip
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    count = int(same.size - np.count_nonzero(same))
    if not count:
        return ""
    text = f"{count} of {same.size} elements"
    if a.dtype.kind in "fciu":
        wide = np.complex128 if a.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):
            largest = np.nanmax(np.abs(a.astype(wide) - b.astype(wide)))
        text += f", at most {largest:.4g}"
    return text


def average(sources: Sequence[Any], target: str) -> list[str]:
    """Writes the mean of several checkpoints: of floating-point variables; others are taken from the last one.

    Args:
        sources: Checkpoints with the same variables, or folders with them.
        target: The prefix of the new checkpoint.

    Returns:
        The names of the variables that were not averaged, because they hold no floating-point numbers.

    Raises:
        ValueError: If there is none, or their variables differ in names or shapes.
    """
    if not sources:
        raise ValueError("There is no checkpoint to average.")
    readers = [load_checkpoint(source) for source in sources]
    shapes = readers[-1].get_variable_to_shape_map()
    for source, reader in zip(sources, readers, strict=True):
        other = reader.get_variable_to_shape_map()
        if other != shapes:
            odd = sorted(name for name in {*other, *shapes} if other.get(name) != shapes.get(name))
            raise ValueError(
                f"{source} and {sources[-1]} differ in {len(odd)} variables, {odd[0]!r} for one: "
                f"{other.get(odd[0], 'absent')} and {shapes.get(odd[0], 'absent')}"
            )
    types = readers[-1].get_variable_to_dtype_map()
    values: dict[str, Any] = {}
    for name in shapes:
        last = np.asarray(readers[-1].get_tensor(name))
        if types[name].is_floating or types[name].is_complex:
            wide = np.complex128 if types[name].is_complex else np.float64
            total = sum(np.asarray(reader.get_tensor(name)).astype(wide) for reader in readers)
            values[name] = np.asarray(total / len(readers)).astype(last.dtype)
        else:
            values[name] = last
    write(target, values)
    return [name for name in shapes if not (types[name].is_floating or types[name].is_complex)]


def rename(source: Any, target: str, rules: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Writes a checkpoint with other names of variables.

    Args:
        source: The checkpoint, or a folder with one.
        target: The prefix of the new one.
        rules: Regular expressions and what replaces them, applied in order to each name.

    Returns:
        The new names of those that have changed, by the old ones.

    Raises:
        ValueError: If two variables would get the same name, a name would be empty, or a rule is no regular expression.
    """
    reader: CheckpointReader = load_checkpoint(source)
    names: dict[str, str] = {}
    for name in sorted(reader.get_variable_to_shape_map()):
        new = name
        for pattern, replacement in rules:
            try:
                new = re.sub(pattern, replacement, new)
            except re.error as e:
                raise ValueError(f"{pattern!r} -> {replacement!r} is not a rule: {e}") from None
        if not new:
            raise ValueError(f"The name of {name!r} would be empty.")
        clash = next((old for old, other in names.items() if other == new), None)
        if clash is not None:
            raise ValueError(f"{clash!r} and {name!r} would both be {new!r}.")
        names[name] = new
    write(target, {new: reader.get_tensor(old) for old, new in names.items()})
    return {old: new for old, new in names.items() if old != new}


def write(prefix: str, values: Mapping[str, Any]) -> None:
    """Writes a checkpoint (V2) of these variables.

    Raises:
        ValueError: If there are none.
        errors.OpError: If it cannot be written.
    """
    from thalweg.runtime.session import Session  # Start-up time: few programs write checkpoints in this way.

    if not values:
        raise ValueError("A checkpoint needs at least one variable.")
    names = sorted(values)
    with default_graph_scope(Graph()):
        tensors = [convert_to_tensor(values[name]) for name in names]
        save = apply_op("SaveV2", prefix, names, [""] * len(names), tensors)
        with Session() as session:
            try:
                session.run(save)
            except errors.OpError as e:
                raise errors.error_from_code(e.error_code, f"{prefix} cannot be written: {e.message}") from None
