"""Saving and restoring values where ops run at once: no session, and no Saver."""

from __future__ import annotations

from typing import Any

from thalweg.graph.apply import apply_list, apply_op
from thalweg.state.embedding_variable import EmbeddingVariable
from thalweg.state.partitioned_variable import PartitionedVariable
from thalweg.state.variable import Variable
from thalweg.train.checkpoints.saveable import EmbeddingSaveable


def _specs(key: str, value: Any) -> list[tuple[str, str, Any]]:
    """Name, slice and type or tensor of what is saved for a value: a variable, or what makes a SaveableObject."""
    if isinstance(value, Variable):
        return [(key, "", value)]
    return [(spec.name, spec.slice_spec, spec) for spec in _saveable(key, value).specs]


def _saveable(key: str, value: Any) -> Any:
    return value(key) if callable(value) and not isinstance(value, (Variable, PartitionedVariable)) else value


def write_values(prefix: str, values: dict[str, Any], texts: dict[str, bytes]) -> None:
    """Writes a checkpoint.

    Args:
        prefix: The prefix of the files.
        values: Variables, and functions that make SaveableObjects, by key.
        texts: Strings, by key.
    """
    names, slices, tensors = list(texts), [""] * len(texts), list[Any](texts.values())
    for key, value in values.items():
        if isinstance(value, EmbeddingVariable):
            saveable = EmbeddingSaveable(value, key)
            saveable.write_to(prefix)
            value = saveable
        for name, part, kept in _specs(key, value):
            names.append(name)
            slices.append(part)
            tensors.append(kept.read_value() if isinstance(kept, Variable) else kept.tensor)
    apply_op("SaveV2", prefix, names, slices, tensors)


def restore_values(path: str, values: dict[str, Any]) -> None:
    """Gives variables and other values what a checkpoint has for their keys.

    Raises:
        errors.NotFoundError: If it lacks one.
        ValueError: If a variable has another shape there.
    """
    for key, value in values.items():
        if isinstance(value, EmbeddingVariable):
            EmbeddingSaveable(value, key).restore_at_once(path)
            continue
        saveable = None if isinstance(value, Variable) else _saveable(key, value)
        specs = _specs(key, value if saveable is None else saveable)
        types = [kept.dtype for _, _, kept in specs]
        names, slices = [name for name, _, _ in specs], [part for _, part, _ in specs]
        tensors = apply_list("RestoreV2", path, names, slices, dtypes=types)
        if saveable is None:
            value.assign(tensors[0])
        else:
            saveable.restore(tensors, None)
