"""The structure of a dataset's elements: nested tuples and dicts of specs, and how values become rows of tensors.

A list is no structure here but a value that converts to a tensor, as in TensorFlow's datasets. A spec knows the tensors
that stand for a value while it travels: a dense tensor for itself, a sparse one as a row of three variants, a dataset
or a TensorArray as a variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from thalweg.graph import dtypes
from thalweg.graph.apply import apply, apply_one
from thalweg.graph.composite import SparseTensor, SparseTensorValue
from thalweg.graph.conversion import convert_to_tensor
from thalweg.graph.definitions.op_registry import export
from thalweg.graph.dtypes import DType, as_dtype
from thalweg.graph.tensor import Tensor
from thalweg.graph.tensor_shape import TensorShape, as_shape
from thalweg.graph.tensor_spec import TensorSpec


def is_nested(value: Any) -> bool:
    """Whether a value is a tuple or mapping."""
    if isinstance(value, tuple):
        return not isinstance(value, SparseTensorValue)
    return isinstance(value, Mapping)


def _keys(value: Any) -> list[Any]:
    return sorted(value) if isinstance(value, Mapping) else list(range(len(value)))


def flatten(structure: Any) -> list[Any]:
    """The atoms of a structure; mappings in the order of their sorted keys."""
    if not is_nested(structure):
        return [structure]
    return [atom for key in _keys(structure) for atom in flatten(structure[key])]


def pack(structure: Any, atoms: Sequence[Any]) -> Any:
    """A structure like `structure` with other atoms."""
    rest = iter(atoms)
    packed = _pack(structure, rest)
    if next(rest, None) is not None:
        raise ValueError(f"There are {len(atoms)} values for a structure of {len(flatten(structure))}.")
    return packed


def _pack(structure: Any, atoms: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(atoms)
    if isinstance(structure, Mapping):
        by_key = {key: _pack(structure[key], atoms) for key in _keys(structure)}
        return type(structure)((key, by_key[key]) for key in structure)  # type: ignore[call-arg]
    items = [_pack(item, atoms) for item in structure]
    return structure._make(items) if hasattr(structure, "_make") else tuple(items)


def map_structure(function: Callable[..., Any], structure: Any, *others: Any) -> Any:
    """Applies a function to the atoms of structures of one kind."""
    for other in others:
        assert_same(structure, other)
    columns = [flatten(structure), *(flatten(other) for other in others)]
    return pack(structure, [function(*atoms) for atoms in zip(*columns, strict=True)])


def assert_same(a: Any, b: Any) -> None:
    """Raises unless two structures differ in nothing but their atoms.

    Raises:
        ValueError: If their lengths or keys differ.
        TypeError: If one is a tuple where the other is a mapping.
    """
    if is_nested(a) != is_nested(b):
        raise ValueError(f"The two structures don't have the same nested structure: {a!r} and {b!r}.")
    if not is_nested(a):
        return
    if isinstance(a, Mapping) != isinstance(b, Mapping):
        raise TypeError(f"The two structures don't have the same sequence type: {a!r} and {b!r}.")
    if len(a) != len(b) or (isinstance(a, Mapping) and set(a) != set(b)):
        raise ValueError(f"The two structures don't have the same number of elements or keys: {a!r} and {b!r}.")
    for key in _keys(a):
        assert_same(a[key], b[key])


def flatten_as(structure: Any, values: Any) -> list[Any]:
    """The parts of `values` at the atoms of `structure`; they may be nested further."""
    if not is_nested(structure):
        return [values]
    if not is_nested(values):
        raise TypeError(f"Expected a structure like {structure!r}, got {values!r}.")
    if len(structure) != len(values) or (isinstance(structure, Mapping) and set(structure) != set(values)):
        raise ValueError(f"The two structures don't have the same number of elements: {structure!r}, {values!r}.")
    return [atom for key in _keys(structure) for atom in flatten_as(structure[key], values[key])]


@export("SparseTensorSpec")
class SparseTensorSpec:
    """Describes a sparse tensor: its dense shape and element type."""

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        """Keeps shape and dtype."""
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)

    @property
    def shape(self) -> TensorShape:
        """The static dense shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The type of the values."""
        return self._dtype

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a sparse tensor, or its description, fits."""
        return self._dtype == other.dtype and self._shape.is_compatible_with(other.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensorSpec):
            return NotImplemented
        return (self._shape.dims_tuple, self._dtype) == (other._shape.dims_tuple, other._dtype)

    def __hash__(self) -> int:
        return hash((self._shape.dims_tuple, self._dtype))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


class NestedSpec:
    """A value that travels as one variant: a dataset, an optional or an array, with elements of its own structure."""

    def __init__(self, element_spec: Any) -> None:
        """Keeps the structure of the elements."""
        self._element_spec = element_spec

    @property
    def element_spec(self) -> Any:
        """The structure of the elements."""
        return self._element_spec

    @property
    def dtype(self) -> DType:
        """The type of the tensor that stands for it."""
        return dtypes.variant

    @property
    def shape(self) -> TensorShape:
        """The shape of the tensor that stands for it."""
        return TensorShape([])

    def read(self, variant: Tensor) -> Any:
        """The value that a variant tensor stands for."""
        return _nested_readers[type(self)](variant, self._element_spec)

    def is_compatible_with(self, other: Any) -> bool:
        """Whether another description is of the same kind, with elements that fit."""
        return type(other) is type(self) and compatible(self._element_spec, other._element_spec)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._element_spec == other._element_spec

    def __hash__(self) -> int:
        return hash((type(self), repr(self._element_spec)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._element_spec!r}, {self.shape!r})"


@export("data.DatasetSpec", "data.experimental.DatasetStructure")
class DatasetSpec(NestedSpec):
    """Describes a dataset inside an element."""


@export("OptionalSpec", "data.experimental.OptionalStructure")
class OptionalSpec(NestedSpec):
    """Describes an optional inside an element."""


_nested_readers: dict[type, Callable[[Tensor, Any], Any]] = {}


def set_nested_reader(spec_type: type[NestedSpec], reader: Callable[[Tensor, Any], Any]) -> None:
    """Installs the function from a variant tensor and the structure of the elements to a dataset or an optional."""
    _nested_readers[spec_type] = reader


_element_forms: dict[type, Callable[[Any], Any]] = {}


def set_element_form(value_type: type, form: Callable[[Any], Any]) -> None:
    """Installs the function from a value to an object with a `_type_spec` and a `_variant_tensor`."""
    _element_forms[value_type] = form


def spec_of(value: Any) -> Any:
    """The spec of one value."""
    spec = getattr(value, "_type_spec", None)
    if spec is not None:
        return spec
    if isinstance(value, SparseTensor):
        return SparseTensorSpec(value.shape, value.dtype)
    return TensorSpec(value.shape, value.dtype)


def to_values(structure: Any, scope_name: str = "component") -> Any:
    """Converts the atoms of a structure to tensors, sparse tensors or datasets."""
    return pack(structure, [_to_value(atom, f"{scope_name}_{i}") for i, atom in enumerate(flatten(structure))])


def _to_value(value: Any, name: str) -> Any:
    if hasattr(value, "_type_spec") or isinstance(value, (Tensor, SparseTensor)):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if type(value) in _element_forms:
        return _element_forms[type(value)](value)
    return convert_to_tensor(value, name=name)


def specs_of(values: Any) -> Any:
    """The specs of converted values."""
    return map_structure(spec_of, values)


def tensor_type(spec: Any) -> DType:
    """The type of the tensor that a value travels as."""
    dtype: DType = dtypes.variant if isinstance(spec, (SparseTensorSpec, NestedSpec)) else spec.dtype
    return dtype


def tensor_shape(spec: Any) -> TensorShape:
    """The shape of the tensor that a value travels as."""
    if isinstance(spec, SparseTensorSpec):
        return TensorShape(None)  # [3], with the batches' dimensions before it
    shape: TensorShape = spec.shape
    return shape


def flat_types(specs: Any) -> list[DType]:
    """The attribute `output_types` of a dataset op."""
    return [tensor_type(spec) for spec in flatten(specs)]


def flat_shapes(specs: Any) -> list[TensorShape]:
    """The attribute `output_shapes` of a dataset op."""
    return [tensor_shape(spec) for spec in flatten(specs)]


def to_tensors(values: Any) -> list[Tensor]:
    """The tensors that converted values travel as."""
    return [_to_tensor(value) for value in flatten(values)]


def _to_tensor(value: Any) -> Tensor:
    if isinstance(value, SparseTensor):
        return apply_one("SerializeSparse", value.indices, value.values, value.dense_shape, out_type=dtypes.variant)
    variant: Tensor | None = getattr(value, "_variant_tensor", None)
    if variant is not None:
        return variant
    assert isinstance(value, Tensor)
    return value


def from_tensors(specs: Any, tensors: Sequence[Tensor]) -> Any:
    """The values that a row of tensors stands for."""
    return pack(specs, [_from_tensor(spec, tensor) for spec, tensor in zip(flatten(specs), tensors, strict=True)])


def _from_tensor(spec: Any, tensor: Tensor) -> Any:
    if isinstance(spec, NestedSpec):
        return spec.read(tensor)
    if isinstance(spec, SparseTensorSpec):
        parts = apply("DeserializeSparse", tensor, dtype=spec.dtype)
        rank = spec.shape.ndims
        indices, values, dense_shape = parts
        indices.set_shape([None, rank])
        dense_shape.set_shape([rank])
        sparse = SparseTensor(indices, values, dense_shape)
        return sparse
    if tensor.dtype is not dtypes.variant:
        tensor.set_shape(spec.shape)
    return tensor


def compatible(declared: Any, actual: Any) -> bool:
    """Whether elements of one structure can stand where another is declared."""
    try:
        assert_same(declared, actual)
    except (TypeError, ValueError):
        return False
    return all(
        type(a) is type(b) and a.is_compatible_with(b) for a, b in zip(flatten(declared), flatten(actual), strict=True)
    )


def classes_of(specs: Any) -> Any:
    """The structure of `output_classes`."""
    return map_structure(
        lambda s: s if isinstance(s, NestedSpec) else SparseTensor if isinstance(s, SparseTensorSpec) else Tensor, specs
    )


def types_of(specs: Any) -> Any:
    """The structure of `output_types`."""
    return map_structure(lambda s: s if isinstance(s, NestedSpec) else s.dtype, specs)


def shapes_of(specs: Any) -> Any:
    """The structure of `output_shapes`."""
    return map_structure(lambda s: s if isinstance(s, NestedSpec) else s.shape, specs)


def specs_from(types: Any, shapes: Any = None, classes: Any = None) -> Any:
    """The specs from structures of types, shapes (None: unknown) and classes (None: dense)."""
    flat_types_ = flatten(types)
    if shapes is None:
        flat_shapes_: list[Any] = [None] * len(flat_types_)
    else:
        flat_shapes_ = _flat_shapes_as(types, shapes)
    flat_classes = [Tensor] * len(flat_types_) if classes is None else flatten(classes)
    return pack(types, [_spec(t, s, c) for t, s, c in zip(flat_types_, flat_shapes_, flat_classes, strict=True)])


def _spec(dtype: Any, shape: Any, kind: Any) -> Any:
    if isinstance(dtype, NestedSpec):
        return dtype
    if kind is SparseTensor:
        return SparseTensorSpec(shape, dtype)
    return TensorSpec(shape, as_dtype(dtype))


def _flat_shapes_as(types: Any, shapes: Any) -> list[Any]:
    """The shapes in the order of the types. A shape may itself be a tuple, so the types decide how deep to go."""
    if not is_nested(types):
        return [shapes if isinstance(shapes, NestedSpec) else as_shape(shapes)]
    if shapes is None:
        return [None] * len(flatten(types))
    keys = _keys(types)
    if isinstance(shapes, list):
        shapes = tuple(shapes)
    if not is_nested(shapes) or len(shapes) != len(keys) or (isinstance(types, Mapping) and set(types) != set(shapes)):
        raise ValueError(f"output_shapes {shapes!r} do not have the structure of output_types {types!r}.")
    return [shape for key in keys for shape in _flat_shapes_as(types[key], shapes[key])]
