"""Optional: an element that may be missing, as a value."""

from __future__ import annotations

from typing import Any

from thalweg.data import structure
from thalweg.data.iterator import Iterator
from thalweg.graph.apply import apply_list, apply_one
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.tensor import Tensor


@export("data.experimental.Optional")
class Optional:
    """A structure of tensors, or nothing."""

    def __init__(self, variant_tensor: Tensor, value_structure: Any) -> None:
        """Wraps the variant tensor of an optional; programs use `from_value` and the like."""
        self._variant_tensor = variant_tensor
        self._value_structure = value_structure

    @property
    def _type_spec(self) -> structure.OptionalSpec:
        return structure.OptionalSpec(self._value_structure)

    @property
    def value_structure(self) -> Any:
        """The structure of the value: a spec for each tensor."""
        return self._value_structure

    element_spec = value_structure

    def has_value(self, name: str | None = None) -> Tensor:
        """Whether there is a value: a bool scalar."""
        return apply_one("OptionalHasValue", self._variant_tensor, name=name)

    def get_value(self, name: str | None = None) -> Any:
        """The value; running it fails if there is none."""
        spec = self._value_structure
        tensors = apply_list(
            "OptionalGetValue", self._variant_tensor, output_types=structure.flat_types(spec),
            output_shapes=structure.flat_shapes(spec), name=name,
        )  # fmt: skip
        return structure.from_tensors(spec, tensors)

    @staticmethod
    def from_value(value: Any) -> Optional:
        """An optional with a value."""
        values = structure.to_values(value)
        return Optional(apply_one("OptionalFromValue", structure.to_tensors(values)), structure.specs_of(values))

    @staticmethod
    def none_from_structure(value_structure: Any) -> Optional:
        """An optional without a value."""
        return Optional(apply_one("OptionalNone"), value_structure)


@export("data.experimental.get_next_as_optional")
def get_next_as_optional(iterator: Iterator) -> Optional:
    """The next element of an iterator as an Optional, which at the end has no value.

    Example:
        >>> optional = tf.data.experimental.get_next_as_optional(
        ...     tf.data.make_one_shot_iterator(tf.data.Dataset.range(1)))
        >>> more = optional.has_value()
        >>> with tf.Session() as session:
        ...     print(bool(session.run(more)), bool(session.run(more)))
        True False
    """
    spec = iterator.element_spec
    variant = apply_one(
        "IteratorGetNextAsOptional", iterator._iterator_resource, output_types=structure.flat_types(spec),
        output_shapes=structure.flat_shapes(spec),
    )  # fmt: skip
    return Optional(variant, spec)


structure.set_nested_reader(structure.OptionalSpec, Optional)
